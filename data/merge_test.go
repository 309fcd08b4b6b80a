package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeShard writes shard index of count: a run of consecutive seeds. count 0
// means the whole run.
func writeShard(t *testing.T, dir string, index, count int, change func(*Manifest)) string {
	t.Helper()
	const seeds = 23
	first, last := 0, seeds
	m := &Manifest{
		Seed: 7, Options: mustParse(t, `{"per_seed":2,"ratio":1.0}`), Inputs: []Input{{"q.json", strings.Repeat("0a", 32), 17}},
	}
	if count > 0 {
		dir = fmt.Sprintf("%s-%d-of-%d", dir, index, count)
		first, last = seeds*index/count, seeds*(index+1)/count
		m.Shard = &Shard{index, count}
	}
	m.Counts = []Count{{"seeds", last - first}, {"made", 2 * (last - first)}}
	w, err := CreateDataset(dir, WriterOptions{RowsPerFile: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i := 2 * first; i < 2*last; i++ {
		tr, p, e := testRows(t, i)
		if err := w.Add(testSplit(i), tr, p, e); err != nil {
			t.Fatal(err)
		}
		if i%6 == 0 {
			m.Refusals = append(m.Refusals, Refusal{"near_duplicate", tr.SeedID, 1 + i%4, "step 1 <x>"})
		}
	}
	if change != nil {
		change(m)
	}
	if err := w.Finish(m); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMergedShardsEqualTheWholeRun(t *testing.T) {
	dir := t.TempDir()
	whole := folderBytes(t, writeShard(t, filepath.Join(dir, "whole"), 0, 0, nil))
	for _, count := range []int{1, 3, 30} { // of 30 shards some are empty
		var shards []string
		for i := range count {
			shards = append(shards, writeShard(t, filepath.Join(dir, "s"), (i+1)%count, count, nil)) // not in order
		}
		out := filepath.Join(dir, fmt.Sprintf("merged-%d", count))
		m, err := Merge(shards, out, WriterOptions{RowsPerFile: 5})
		if err != nil {
			t.Fatal(err)
		}
		if m.Shard != nil || m.Counts[1] != (Count{"made", 46}) {
			t.Errorf("merged manifest %+v", m)
		}
		sameFolders(t, fmt.Sprintf("merged from %d", count), whole, folderBytes(t, out))
	}
}

func TestMergeRefuses(t *testing.T) {
	dir := t.TempDir()
	a := writeShard(t, filepath.Join(dir, "a"), 0, 2, nil)
	b := writeShard(t, filepath.Join(dir, "a"), 1, 2, nil)
	shard := func(name string, index, count int, change func(*Manifest)) string {
		return writeShard(t, filepath.Join(dir, name), index, count, change)
	}
	for _, c := range []struct {
		name   string
		shards []string
		want   string
	}{
		{"none", nil, "no shards"},
		{"one missing", []string{a}, "shard 1 of 2 is missing"},
		{"first missing", []string{b}, "shard 0 of 2 is missing"},
		{"twice the same", []string{a, b, a}, "are both shard 0"},
		{"another count", []string{a, shard("n", 1, 3, nil)}, "is one of 3 shards"},
		{"another seed", []string{a, shard("seed", 1, 2, func(m *Manifest) { m.Seed = 8 })}, "seed 8"},
		{"other options", []string{a, shard("opt", 1, 2, func(m *Manifest) { m.Options = mustParse(t, `{"per_seed":2,"ratio":1}`) })}, `options {"per_seed":2,"ratio":1}`},
		{"other inputs", []string{a, shard("in", 1, 2, func(m *Manifest) { m.Inputs = nil })}, "other inputs"},
		{"another program", []string{a, shard("code", 1, 2, func(m *Manifest) { m.Code = BuildCode(); m.Code.Revision = "other" })}, "another program"},
		{"not a shard", []string{a, writeShard(t, filepath.Join(dir, "whole"), 0, 0, nil)}, "is a whole dataset"},
		{"not a dataset", []string{a, dir}, "not a dataset folder"},
	} {
		out := filepath.Join(dir, "out")
		if _, err := Merge(c.shards, out, WriterOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%s: something was written", c.name)
		}
	}
}

// Columns that are empty in one shard and full in another, and rows with
// different tools, keep their columns and values.
func TestShardsWithEmptyColumnsKeepTheirSchema(t *testing.T) {
	dir := t.TempDir()
	var shards []string
	for i := range 2 {
		out := filepath.Join(dir, fmt.Sprint(i))
		w, err := CreateDataset(out, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tr := &Trajectory{ID: fmt.Sprint("t", i), SeedID: fmt.Sprint("s", i), Source: "own", Domain: "gis", Query: "q",
			Steps: []Step{{Tool: "a", Arguments: mustParse(t, `{}`)}}}
		if i == 1 {
			tr.Slots, tr.Skill, tr.Regime = mustParse(t, `{"k":null}`), "k", "ow"
			tr.Steps = append(tr.Steps, Step{Tool: "b", Arguments: mustParse(t, `{"k":{"n":1}}`), Observation: mustParse(t, `[]`), Thought: "t",
				Uses: []Use{{"/k", 0, "", "whole"}}})
		}
		if err := w.Add("train", tr, PlannerRow{}, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(&Manifest{Shard: &Shard{i, 2}}); err != nil {
			t.Fatal(err)
		}
		shards = append(shards, out)
	}
	out := filepath.Join(dir, "merged")
	if _, err := Merge(shards, out, WriterOptions{}); err != nil {
		t.Fatal(err)
	}
	ds, err := OpenDataset(out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for tr, err := range ds.Trajectories("train") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, tr.Value().JSON())
	}
	if want := `{"id":"t0","seed_id":"s0","source":"own","domain":"gis","query":"q","steps":[{"tool":"a","arguments":{}}]}|` +
		`{"id":"t1","seed_id":"s1","source":"own","domain":"gis","regime":"ow","query":"q","skill":"k","steps":[{"tool":"a","arguments":{}},` +
		`{"tool":"b","arguments":{"k":{"n":1}},"observation":[],"thought":"t","uses":[{"argument":"/k","from":0,"observation":"","transform":"whole"}]}],"slots":{"k":null}}`; strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

func TestJSONLAndParquetConvertBothWays(t *testing.T) {
	dir := t.TempDir()
	parquet := filepath.Join(dir, "parquet")
	writeTestDataset(t, parquet, 30, WriterOptions{})
	ds, err := OpenDataset(parquet)
	if err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	if err := ExportJSONL(ds, first, false); err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(dir, "again")
	if _, err := ImportJSONL(first, again, WriterOptions{}); err != nil {
		t.Fatal(err)
	}
	sameFolders(t, "Parquet through JSONL", folderBytes(t, parquet), folderBytes(t, again))
	if ds, err = OpenDataset(again); err != nil {
		t.Fatal(err)
	}
	if err := ExportJSONL(ds, second, false); err != nil {
		t.Fatal(err)
	}
	lines := folderBytes(t, first)
	sameFolders(t, "JSONL through Parquet", lines, folderBytes(t, second))
	for _, want := range []string{"9007199254740993", "[1.0,", "1e2", "<place>", "中文"} {
		if !strings.Contains(lines[filepath.Join("trajectories", "train.jsonl")], want) {
			t.Errorf("the lines lack %s", want)
		}
	}
	if err := ExportJSONL(ds, first, false); err == nil || !strings.Contains(err.Error(), "the folder exists") {
		t.Errorf("an existing export: %v", err)
	}
	if err := ExportJSONL(ds, first, true); err != nil {
		t.Errorf("replacing an export: %v", err)
	}
	if err := ExportJSONL(ds, parquet, true); err == nil {
		t.Error("a dataset was replaced by an export")
	}
	path := filepath.Join(first, "planner", "train.jsonl")
	if err := os.WriteFile(path, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ImportJSONL(first, filepath.Join(dir, "edited"), WriterOptions{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("edited lines: %v", err)
	}
}

// Lines that the manifest vouches for and that are wrong all the same are
// refused with file and line.
func TestImportJSONLRefuses(t *testing.T) {
	line := `{"prompt":[{"role":"user","content":"q"}],"completion":[{"role":"assistant","content":"a"}],"trajectory_id":"t","seed_id":"s","domain":"d","source":"own"}`
	for _, c := range []struct{ name, line, want string }{
		{"repeated key", `{"id":1,"id":2}`, `train.jsonl:2:9: key "id" is repeated`},
		{"unknown key", `{"id":1}`, `train.jsonl:2: /id: unknown key`},
		{"wrong case", strings.Replace(line, "prompt", "Prompt", 1), `train.jsonl:2: /Prompt: unknown key; it is spelt "prompt"`},
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, ConfigPlanner), 0o755); err != nil {
			t.Fatal(err)
		}
		text := line + "\n" + c.line + "\n"
		name := filepath.Join(dir, ConfigPlanner, "train.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		m := &Manifest{Format: jsonlFormat, Options: mustParse(t, `{}`), Tables: []Table{{ConfigPlanner, "train", 2, []TableFile{{
			Name: ConfigPlanner + "/train.jsonl", Rows: 2, Bytes: int64(len(text)), SHA256: sha256Of(text),
		}}}}}
		manifest, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, manifestName), manifest, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ImportJSONL(dir, filepath.Join(dir, "out"), WriterOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
