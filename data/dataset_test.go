package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
