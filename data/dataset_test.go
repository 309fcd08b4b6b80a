package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"terraloom/data/strictjson"
)

func mustParse(t testing.TB, text string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// testRows are the trajectory number i of a small dataset and its records.
func testRows(t testing.TB, i int) (*Trajectory, PlannerRow, []ExecutorRow) {
	seed := fmt.Sprintf("seed-%d", i/2)
	tr := &Trajectory{
		ID: fmt.Sprintf("%s-%d", seed, i%2), SeedID: seed, Source: "own", Domain: "spectrum", Regime: "ap",
		Query: fmt.Sprintf("How warm was <place> & %d?", i), Inputs: mustParse(t, `{"data_path":"in/a b"}`),
		Steps: []Step{
			{Tool: "get_filelist", Arguments: mustParse(t, `{"dir_path":"in/a b"}`), Observation: mustParse(t, `["a.tif","b.tif"]`)},
			{Tool: "mean", Arguments: mustParse(t, fmt.Sprintf(`{"x":[1.0,9007199254740993,%d],"z":null}`, i)), Observation: mustParse(t, `1e2`), Thought: "中文 & <b>",
				Uses: []Use{{Argument: "/x/0", From: 0, Observation: "/0", Transform: "identity"}, {Argument: "/x/1", From: 0, Observation: "/1", Transform: "basename"}}},
			{Tool: "noop", Arguments: mustParse(t, `{}`)},
			{Tool: "noop", Arguments: mustParse(t, `{}`), Observation: mustParse(t, `null`)},
		},
		Answer: mustParse(t, `{"letter":"A","text":"12.50"}`), Provenance: mustParse(t, `{"dataset":"made up"}`),
	}
	if i%3 == 0 {
		tr.Slots = mustParse(t, `{"place":"Riga","b":1.50}`)
		tr.Skill, tr.Inputs = "a skill", strictjson.Value{}
	}
	p := PlannerRow{
		Prompt:     []Message{{"system", "plan"}, {"user", tr.Query}},
		Completion: []Message{{"assistant", `{"tool_sequence":["get_filelist","mean"]}`}}, TrajectoryID: tr.ID, SeedID: seed, Domain: tr.Domain, Source: tr.Source,
	}
	var e []ExecutorRow
	for n, s := range tr.Steps {
		e = append(e, ExecutorRow{
			Prompt: []Message{{"system", ""}, {"user", tr.Query}}, Completion: []Message{{"assistant", s.Arguments.JSON()}},
			Reference: s.Arguments.JSON(), Tool: s.Tool, Node: n, TrajectoryID: tr.ID, SeedID: seed, Domain: tr.Domain, Source: tr.Source,
		})
	}
	return tr, p, e
}

func testSplit(i int) string { return Splits[[]int{0, 0, 0, 1, 2}[i/2%5]] }

func writeTestDataset(t testing.TB, dir string, n int, o WriterOptions) *Manifest {
	t.Helper()
	w, err := CreateDataset(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i := range n {
		tr, p, e := testRows(t, i)
		if err := w.Add(testSplit(i), tr, p, e); err != nil {
			t.Fatal(err)
		}
	}
	m := &Manifest{Seed: 7, Options: mustParse(t, `{"per_seed":2,"ratio":1.0}`), Counts: []Count{{"made", n}}}
	if err := w.Finish(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDatasetRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	const n = 40
	m := writeTestDataset(t, dir, n, WriterOptions{RowsPerFile: 7})
	if got := m.Rows(ConfigTrajectories); got != n {
		t.Fatalf("%d trajectories, want %d", got, n)
	}
	ds, err := OpenDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, split := range Splits {
		var trs []*Trajectory
		var ps []*PlannerRow
		var es []*ExecutorRow
		for row, err := range ds.Trajectories(split) {
			if err != nil {
				t.Fatal(err)
			}
			trs = append(trs, row)
		}
		for row, err := range ds.Planner(split) {
			if err != nil {
				t.Fatal(err)
			}
			ps = append(ps, row)
		}
		for row, err := range ds.Executor(split) {
			if err != nil {
				t.Fatal(err)
			}
			es = append(es, row)
		}
		for i := range n {
			if testSplit(i) != split {
				continue
			}
			tr, p, e := testRows(t, i)
			if len(trs) == 0 || trs[0].Value().JSON() != tr.Value().JSON() {
				t.Fatalf("%s: trajectory %s differs or is missing", split, tr.ID)
			}
			if len(ps) == 0 || ps[0].Value().JSON() != p.Value().JSON() {
				t.Fatalf("%s: planner row of %s differs or is missing", split, tr.ID)
			}
			for j := range e {
				if len(es) == 0 || es[0].Value().JSON() != e[j].Value().JSON() {
					t.Fatalf("%s: executor row %d of %s differs or is missing", split, j, tr.ID)
				}
				es = es[1:]
			}
			trs, ps = trs[1:], ps[1:]
		}
		if len(trs)+len(ps)+len(es) > 0 {
			t.Fatalf("%s: rows nobody wrote", split)
		}
	}
	found, err := ds.Find("seed-8-1")
	if err != nil {
		t.Fatal(err)
	}
	if found.Split != "validation" || found.Planner == nil || len(found.Executor) != 4 || found.Trajectory.ID != "seed-8-1" {
		t.Fatalf("Find gives %+v", found)
	}
	if _, err := ds.Find("nobody"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("Find of an unknown id: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Fatalf("the parent folder holds more than the dataset: %v %v", entries, err)
	}
}

// folderBytes maps every file below dir to its content.
func folderBytes(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func sameFolders(t *testing.T, what string, a, b map[string]string) {
	t.Helper()
	for name, text := range a {
		if other, ok := b[name]; !ok {
			t.Errorf("%s: %s is missing", what, name)
		} else if other != text {
			t.Errorf("%s: %s differs", what, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("%s: %s is new", what, name)
		}
	}
}

func TestSameRowsGiveTheSameBytes(t *testing.T) {
	dir := t.TempDir()
	writeTestDataset(t, filepath.Join(dir, "a"), 60, WriterOptions{RowsPerFile: 9})
	old := runtime.GOMAXPROCS(1)
	writeTestDataset(t, filepath.Join(dir, "b"), 60, WriterOptions{RowsPerFile: 9})
	runtime.GOMAXPROCS(old)
	a := folderBytes(t, filepath.Join(dir, "a"))
	sameFolders(t, "second run", a, folderBytes(t, filepath.Join(dir, "b")))
	for _, name := range []string{
		"README.md", "manifest.json", "report.html", "trajectories/train-00000-of-00004.parquet",
		"planner/test-00001-of-00002.parquet", "executor/validation-00005-of-00006.parquet",
	} {
		if a[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if report := a["report.html"]; strings.Contains(report, "<place>") || !strings.Contains(report, "&lt;place&gt;") {
		t.Error("the report does not escape what rows hold")
	}
}

func TestAddRefuses(t *testing.T) {
	w, err := CreateDataset(filepath.Join(t.TempDir(), "ds"), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	tr, p, e := testRows(t, 0)
	if err := w.Add("train", tr, p, e); err != nil {
		t.Fatal(err)
	}
	other, op, oe := testRows(t, 1) // of the same seed
	third, _, _ := testRows(t, 2)
	with := func(change func(*Trajectory)) *Trajectory {
		tr, _, _ := testRows(t, 2)
		change(tr)
		return tr
	}
	for _, c := range []struct {
		name, split string
		t           *Trajectory
		p           PlannerRow
		e           []ExecutorRow
		want        string
	}{
		{"unknown split", "dev", other, op, oe, `split "dev" is none of train, validation, test`},
		{"repeated id", "train", tr, p, e, "the id is already in the dataset"},
		{"seed in two splits", "test", other, op, oe, "its seed seed-0 is in split train already and may not be in test too"},
		{"foreign planner row", "train", other, p, oe, `got the planner row of "seed-0-0"`},
		{"foreign executor row", "train", other, op, e, `executor row 0 belongs to "seed-0-0"`},
		{"no steps", "train", with(func(t *Trajectory) { t.Steps = nil }), PlannerRow{}, nil, `trajectory "seed-1-0": it has no steps`},
		{"no query", "train", with(func(t *Trajectory) { t.Query = "" }), PlannerRow{}, nil, "query is empty"},
		{"no arguments", "train", with(func(t *Trajectory) { t.Steps[2].Arguments = strictjson.Value{} }), PlannerRow{}, nil, "step 2: needs a tool and an object"},
		{"edge forward", "train", with(func(t *Trajectory) { t.Steps[1].Uses[0].From = 1 }), PlannerRow{}, nil, "step 1: an edge from step 1"},
	} {
		if err := w.Add(c.split, c.t, c.p, c.e); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if err := w.Add("test", third, PlannerRow{}, nil); err != nil { // a trajectory without records
		t.Error(err)
	}
	m := &Manifest{}
	if err := w.Finish(m); err != nil {
		t.Fatal(err)
	}
	if m.Rows(ConfigTrajectories) != 2 || m.Rows(ConfigPlanner) != 1 || m.Rows(ConfigExecutor) != len(e) {
		t.Errorf("tables %+v", m.Tables)
	}
	if err := w.Finish(m); err == nil {
		t.Error("a dataset is finished twice")
	}
}

// Parquet's text columns hold UTF-8; readers fail on anything else.
func TestBadUTF8IsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	w, err := CreateDataset(dir, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tr, p, e := testRows(t, 0)
	e[2].Prompt[1].Content = "a\xffb"
	if err := w.Add("train", tr, p, e); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(&Manifest{}); err == nil || !strings.Contains(err.Error(), "trajectory seed-0-0: column prompt.list.element.content: invalid UTF-8") {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
}

func TestFolderIsProtected(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "ds")
	empty := func() bool { entries, _ := os.ReadDir(parent); return len(entries) == 0 }

	w, err := CreateDataset(dir, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CreateDataset(dir, WriterOptions{Force: true}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	if err := w.Abort(); err != nil || !empty() {
		t.Errorf("Abort leaves something, or fails: %v", err)
	}

	writeTestDataset(t, dir, 6, WriterOptions{})
	before := folderBytes(t, dir)
	if _, err := CreateDataset(dir, WriterOptions{}); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "force") {
		t.Errorf("an existing dataset: %v", err)
	}
	w, err = CreateDataset(dir, WriterOptions{Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	sameFolders(t, "after an aborted replacement", before, folderBytes(t, dir))
	m := writeTestDataset(t, dir, 8, WriterOptions{Force: true})
	if got, err := ReadManifest(dir); err != nil || got.Rows(ConfigTrajectories) != 8 || m.Rows(ConfigTrajectories) != 8 {
		t.Errorf("the replacement: %v", err)
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 1 {
		t.Errorf("the parent folder holds %v", entries)
	}

	other := filepath.Join(parent, "home")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "thesis.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateDataset(other, WriterOptions{Force: true}); !errors.Is(err, ErrExists) || !errors.Is(err, ErrNotDataset) {
		t.Errorf("a folder that is no dataset: %v", err)
	}
	if _, err := os.Stat(filepath.Join(other, "thesis.txt")); err != nil {
		t.Error("a foreign folder was touched")
	}
	if _, err := CreateDataset(filepath.Join(other, "thesis.txt", "ds"), WriterOptions{}); err == nil {
		t.Error("a dataset below a file")
	}
}

// A run that died leaves a half-made folder, perhaps an old one set aside.
func TestDeadRunsAreCleared(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "ds")
	writeTestDataset(t, dir, 6, WriterOptions{})
	before := folderBytes(t, dir)
	if err := os.Rename(dir, filepath.Join(parent, ".ds.old")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".ds.tmp-123/executor", ".ds.tmp-notours", ".dsx.tmp-9"} {
		if err := os.MkdirAll(filepath.Join(parent, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := CreateDataset(dir, WriterOptions{}); !errors.Is(err, ErrExists) {
		t.Errorf("the old dataset is not put back: %v", err)
	}
	sameFolders(t, "the old dataset", before, folderBytes(t, dir))
	entries, _ := os.ReadDir(parent)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != ".ds.tmp-notours .dsx.tmp-9 ds" {
		t.Errorf("left: %s", got)
	}
}

func TestEmptyDataset(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	w, err := CreateDataset(dir, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(&Manifest{}); err == nil || !strings.Contains(err.Error(), "no rows") {
		t.Errorf("a dataset without rows: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("it exists")
	}
}
