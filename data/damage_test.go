package data

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenDatasetNoticesDamage(t *testing.T) {
	clean := filepath.Join(t.TempDir(), "ds")
	writeTestDataset(t, clean, 20, WriterOptions{})
	victim := "planner/train-00000-of-00001.parquet"
	manifest := func(old, new string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, manifestName)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := bytes.Replace(text, []byte(old), []byte(new), 1)
			if bytes.Equal(text, changed) {
				t.Fatal("the case changes nothing")
			}
			if err := os.WriteFile(path, changed, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		is     error
		want   string
	}{
		{"flipped byte", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, victim), 100) }, ErrCorrupt, victim},
		{"cut file", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, victim), 200); err != nil {
				t.Fatal(err)
			}
		}, ErrCorrupt, "200 bytes long"},
		{"missing file", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, victim)) }, ErrCorrupt, victim},
		{"extra file", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "executor", "more.parquet"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, ErrCorrupt, "executor/more.parquet is not in manifest.json"},
		{"no manifest", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, manifestName)) }, ErrNotDataset, "has no manifest.json"},
		{"other format", manifest("terraloom-dataset/1", "terraloom-dataset/9"), ErrNotDataset, "terraloom-dataset/9"},
		{"repeated key", manifest(`"seed": 7`, `"seed": 7, "seed": 8`), nil, `key "seed" is repeated`},
		{"unknown key", manifest(`"seed"`, `"sed"`), nil, `unknown field "sed"`},
		{"file outside", manifest(victim, "../x.parquet"), ErrCorrupt, "outside the folder"},
		{"unknown table", manifest(`"split": "train"`, `"split": "dev"`), ErrCorrupt, "unknown table trajectories/dev"},
	} {
		dir := filepath.Join(t.TempDir(), "ds")
		if err := os.CopyFS(dir, os.DirFS(clean)); err != nil {
			t.Fatal(err)
		}
		c.damage(t, dir)
		_, err := OpenDataset(dir)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A text column that should hold JSON and does not is an error with its place.
func TestBadJSONInParquetIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	w, err := CreateDataset(dir, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tr, _, _ := testRows(t, 0)
	good, bad := rowOf(tr), rowOf(tr)
	bad.ID, bad.Steps[1].Observation = "other", `{"a":1,"a":2}`
	for _, row := range []*trajectoryRow{good, bad} {
		if err := w.addRow(ConfigTrajectories, "train", row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(&Manifest{}); err != nil {
		t.Fatal(err)
	}
	ds, err := OpenDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range ds.Trajectories("train") {
		if err = e; e == nil {
			n++
		}
	}
	want := `train-00000-of-00001.parquet: row 1 (other): column steps[1].observation: 1:8: key "a" is repeated`
	if n != 1 || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%d rows, %v; want %q", n, err, want)
	}
}

func flip(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// Reading damaged bytes past the manifest's check is an error with the file's
// name or gives rows, but never a panic and never fewer rows without an error.
// The check after writing notices every change of content.
func TestDamagedParquetIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	writeTestDataset(t, dir, 20, WriterOptions{})
	path := filepath.Join(dir, "executor", "train-00000-of-00001.parquet")
	var hashes []uint64
	for row, err := range parquetRows[ExecutorRow](path, schemas[ConfigExecutor]) {
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, rowHash(schemas[ConfigExecutor].Deconstruct(nil, row)))
	}
	id := func(int) string { return "?" }
	if err := verifyParquet(path, schemas[ConfigExecutor], hashes, id); err != nil {
		t.Fatalf("the undamaged file: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	undetected, harmful := 0, 0
	for at := int64(0); at < info.Size(); at += 11 {
		flip(t, path, at)
		n, same, failed := 0, true, false
		for row, err := range parquetRows[ExecutorRow](path, schemas[ConfigExecutor]) {
			if err != nil {
				failed = true
				if !strings.Contains(err.Error(), path) {
					t.Fatalf("byte %d: the error does not name the file: %v", at, err)
				}
				break
			}
			same = same && n < len(hashes) && rowHash(schemas[ConfigExecutor].Deconstruct(nil, row)) == hashes[n]
			n++
		}
		err := verifyParquet(path, schemas[ConfigExecutor], hashes, id)
		switch changed := failed || !same || n != len(hashes); {
		case changed && err == nil:
			t.Errorf("byte %d: %d rows, same %t, failed %t, and the check passes", at, n, same, failed)
		case err == nil:
			undetected++ // bytes that carry no content
		default:
			harmful++
		}
		if !failed && n != len(hashes) {
			t.Errorf("byte %d: %d rows of %d without an error", at, n, len(hashes))
		}
		flip(t, path, at)
	}
	if harmful == 0 {
		t.Error("no flipped byte did any harm: the test reads the wrong file")
	}
	t.Logf("%d flips noticed, %d without effect", harmful, undetected)
}
