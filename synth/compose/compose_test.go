package compose

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/plan"
	"terraloom/data/strictjson"
	"terraloom/reward"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func write(t *testing.T, o Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ds")
	w, err := data.CreateDataset(dir, data.WriterOptions{})
	check(t, err)
	m, err := Run(context.Background(), o, w, nil)
	check(t, err)
	check(t, w.Finish(m))
	return dir
}

// Every call passes its tool's schema, and every value of its arguments stands in the question, the inputs or an earlier
// step, or is a path made of the folder, the tool and a date: what the prompt asks for can be done.
func TestArgumentsCanBeFound(t *testing.T) {
	o := Default()
	o.Count = 300
	ds, err := data.OpenDataset(write(t, o))
	check(t, err)
	cat := catalogue.Default()
	steps, tools := 0, map[string]bool{}
	for row, err := range ds.Trajectories("train") {
		check(t, err)
		known := row.Query + row.Inputs.JSON()
		for i, s := range row.Steps {
			steps++
			tools[s.Tool] = true
			tool, ok := cat.Tool(s.Tool)
			if !ok {
				t.Fatalf("%s: no tool %s", row.ID, s.Tool)
			}
			if err := tool.Validate(s.Arguments); err != nil {
				t.Errorf("%s step %d: %v", row.ID, i, err)
			}
			for k := range s.Arguments.Len() {
				p, _ := tool.Param(s.Arguments.Key(k))
				if p.IO != "out" {
					found(t, row.ID+" "+s.Tool+"."+p.Name, s.Arguments.Index(k), known)
				}
			}
			known += s.Arguments.JSON() + s.Observation.JSON()
		}
	}
	if steps < 600 || len(tools) < 60 {
		t.Errorf("%d steps of %d tools: too few to learn from", steps, len(tools))
	}
}

// found looks for the leaves of a value; of a path its file name counts, which listings show without the folder.
func found(t *testing.T, where string, v strictjson.Value, known string) {
	t.Helper()
	if v.Len() > 0 {
		for i := range v.Len() {
			found(t, where, v.Index(i), known)
		}
		return
	}
	text := strings.Trim(v.JSON(), `"`)
	if v.Kind() == strictjson.String {
		text = text[strings.LastIndexByte(text, '/')+1:]
	}
	if !strings.Contains(known, text) {
		t.Errorf("%s: %s stands nowhere before", where, v.JSON())
	}
}

func TestRecords(t *testing.T) {
	o := Default()
	o.Count = 100
	ds, err := data.OpenDataset(write(t, o))
	check(t, err)
	planner := 0
	for _, split := range []string{"train", "validation"} {
		for row, err := range ds.Planner(split) {
			check(t, err)
			planner++
			names, err := plan.Parse(row.Completion[0].Content)
			check(t, err)
			for _, name := range names {
				if !strings.Contains(row.Prompt[1].Content, "\n"+name+" — ") {
					t.Errorf("%s: %s is not among the candidates", row.TrajectoryID, name)
				}
			}
		}
	}
	if planner != o.Count {
		t.Errorf("%d planner rows of %d trajectories", planner, o.Count)
	}
	for row, err := range ds.Executor("train") {
		check(t, err)
		ref, err := reward.NewReference(row.Reference, nil)
		check(t, err)
		if s := reward.DefaultRules().Score(ref, row.Completion[0].Content); s.Reward != 2 {
			t.Errorf("%s: its own answer scores %v", row.TrajectoryID, s)
		}
	}
}

func TestRunIsDeterministic(t *testing.T) {
	o := Default()
	o.Count = 60
	a, b := write(t, o), write(t, o)
	for _, name := range []string{"manifest.json", "executor/train-00000-of-00001.parquet"} {
		x, err := os.ReadFile(filepath.Join(a, name))
		check(t, err)
		y, err := os.ReadFile(filepath.Join(b, name))
		check(t, err)
		if !bytes.Equal(x, y) {
			t.Errorf("%s differs between two runs", name)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Count: 10, Style: "compact"}, {Count: 100, Style: "long"}} {
		if o.Validate() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
