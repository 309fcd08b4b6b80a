package data

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

// Python's datasets and pyarrow read a dataset folder without options, and the
// rows have the prompt–completion shape of TRL.
func TestPythonLoadsDataset(t *testing.T) {
	python := os.Getenv("TERRALOOM_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import datasets, pyarrow").CombinedOutput(); err != nil {
		t.Skipf("%s with the packages datasets and pyarrow is needed (set TERRALOOM_PYTHON): %v %s", python, err, out)
	}
	dir := filepath.Join(t.TempDir(), "ds")
	writeTestDataset(t, dir, 6, WriterOptions{}) // the splits validation and test are empty
	type seen struct {
		Default   []string
		Configs   map[string]map[string]int
		TRL       bool
		Steps     []map[string]any
		ArrowRows int `json:"arrow_rows"`
	}
	load := func() (s seen) {
		cmd := exec.Command(python, "testdata/load_dataset.py", dir, t.TempDir())
		cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "HF_HOME="+t.TempDir())
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &s); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return s
	}
	s := load()
	if want := map[string]map[string]int{"trajectories": {"train": 6}, "planner": {"train": 6}, "executor": {"train": 24}}; !reflect.DeepEqual(s.Configs, want) {
		t.Errorf("configs %v, want %v", s.Configs, want)
	}
	if want := []string{"completion", "domain", "prompt", "seed_id", "source", "trajectory_id"}; !reflect.DeepEqual(s.Default, want) {
		t.Errorf("the default config has the columns %v, want %v", s.Default, want)
	}
	if !s.TRL {
		t.Error("a row is not prompt–completion shaped")
	}
	if s.ArrowRows != 24 {
		t.Errorf("pyarrow reads %d executor rows, want 24", s.ArrowRows)
	}
	tr, _, _ := testRows(t, 1)
	for i, step := range s.Steps {
		if step["tool"] != tr.Steps[i].Tool || step["arguments"] != tr.Steps[i].Arguments.JSON() || step["observation"] != tr.Steps[i].Observation.JSON() {
			t.Errorf("step %d is %v", i, step)
		}
	}
	if uses := s.Steps[1]["uses"].([]any); len(uses) != 2 || uses[1].(map[string]any)["transform"] != "basename" {
		t.Errorf("the edges of step 1 are %v", uses)
	}

	writeTestDataset(t, dir, 40, WriterOptions{Force: true, RowsPerFile: 7})
	if s, want := load(), (map[string]int{"train": 24, "validation": 8, "test": 8}); !reflect.DeepEqual(s.Configs["planner"], want) {
		t.Errorf("planner splits %v, want %v", s.Configs["planner"], want)
	}
}
