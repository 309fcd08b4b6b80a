package eval

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"terraloom/data/strictjson"
)

// sharedDir is the folder of the shared test data: TERRALOOM_SHARED, or ../shared beside the repository.
func sharedDir(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("TERRALOOM_SHARED")
	if dir == "" {
		root, err := os.Getwd()
		if err != nil {
			tb.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
				break
			}
			if root == filepath.Dir(root) {
				tb.Skip("no go.mod above the package; set TERRALOOM_SHARED")
			}
			root = filepath.Dir(root)
		}
		dir = filepath.Join(root, "..", "shared")
	}
	dir = filepath.Join(dir, "earth-bench")
	if _, err := os.Stat(dir); err != nil {
		tb.Skipf("no peer runs: %v (set TERRALOOM_SHARED to the folder that holds earth-bench)", err)
	}
	return dir
}

var peers = []string{"Kimik2_IF", "gpt5_AP", "gpt5_IF", "llama-4_IF", "qwen3-32b_AP", "seed1.6_IF"}

// published reads one of a run's own result files.
func published(t *testing.T, dir, run, name string) strictjson.Value {
	t.Helper()
	text, _, err := readPacked(filepath.Join(dir, "runs", run, name))
	if err != nil {
		t.Fatal(err)
	}
	v, err := strictjson.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func at(t *testing.T, v strictjson.Value, pointer string) strictjson.Value {
	t.Helper()
	w, ok := v.At(pointer)
	if !ok {
		t.Fatalf("the stored file has no %s", pointer)
	}
	return w
}

func float(t *testing.T, v strictjson.Value, pointer string) float64 {
	t.Helper()
	f, ok := at(t, v, pointer).Float()
	if !ok {
		t.Fatalf("%s is no number", pointer)
	}
	return f
}

// TestEVAL8PeersExactly scores the six peer runs and compares every number with
// the stored ones, bit for bit.
func TestEVAL8PeersExactly(t *testing.T) {
	dir := sharedDir(t)
	benchmark, err := ReadBenchmark(filepath.Join(dir, "question.json"))
	if err != nil {
		t.Fatal(err)
	}
	reference, err := ReadReference(filepath.Join(dir, "extracted_tool_calls_GT.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(benchmark) != 248 || len(reference) != 247 {
		t.Fatalf("%d and %d questions", len(benchmark), len(reference))
	}
	slice, err := ParseSlice("188:")
	if err != nil {
		t.Fatal(err)
	}
	records, scores, answers := 0, 0, 0
	// With the benchmark's answers, counted once by another program: right ones of
	// the slice, and of the 246 lettered questions; both numeric questions are right too.
	right := map[string][2]int{"gpt5_IF": {36, 161}, "gpt5_AP": {41, 167}}
	for _, name := range peers {
		run, err := ReadRun(filepath.Join(dir, "runs", name))
		if err != nil {
			t.Fatal(err)
		}
		scored, err := Score(run, benchmark, reference, slice)
		if err != nil {
			t.Fatal(err)
		}
		steps := published(t, dir, name, "step_by_step_evaluation_results.json")
		ends := published(t, dir, name, "end_to_end_evaluation_results.json")
		byID := map[string]Record{}
		for _, r := range scored.Records {
			byID[r.Question] = r
		}
		same := func(what, id string, got, want float64) {
			t.Helper()
			if math.Float64bits(got) != math.Float64bits(want) {
				t.Errorf("%s %s %s: %v, stored %v", name, id, what, got, want)
			}
		}
		individual := at(t, steps, "/individual_results")
		traced := 0
		for i := range individual.Len() {
			id, v := individual.Key(i), individual.Index(i)
			r, ok := byID[id]
			if !ok || !r.Traced {
				t.Errorf("%s: no record of %s", name, id)
				continue
			}
			same("tao", id, r.TAO, float(t, v, "/contains_all_tool_calls_any_order/score"))
			same("tio", id, r.TIO, float(t, v, "/contains_all_tool_calls_in_order/score"))
			same("tem", id, r.TEM, float(t, v, "/trajectory_step_wise_score/score"))
			same("param", id, *r.Param, float(t, v, "/parameter_accuracy/score"))
			records, scores, traced = records+1, scores+4, traced+1
		}
		stored := at(t, ends, "/efficiency/detailed_results")
		for i := range stored.Len() {
			id := stored.Index(i).Get("question_index").Text()
			same("efficiency", id, *byID[id].Efficiency, float(t, stored.Index(i), "/efficiency"))
		}
		stored = at(t, ends, "/accuracy/detailed_results")
		for i := range stored.Len() {
			v := stored.Index(i)
			id := v.Get("question_index").Text()
			r := byID[id]
			if r.Predicted != v.Get("predicted").Text() || r.Correct != v.Get("correct").True() || !r.Answered {
				t.Errorf("%s %s: %s %v, stored %s", name, id, r.Predicted, r.Correct, v.JSON())
			}
			answers++
		}
		p := scored.Summary.Peer
		if p.Questions != traced || len(scored.Records) != 59 || len(scored.Summary.Missing) != 59-traced {
			t.Errorf("%s: %d traced of %d records, missing %v", name, p.Questions, len(scored.Records), scored.Summary.Missing)
		}
		means := at(t, steps, "/summary/metrics_summary")
		same("tao", "mean", p.TAO, float(t, means, "/contains_all_tool_calls_any_order/average_score"))
		same("tio", "mean", p.TIO, float(t, means, "/contains_all_tool_calls_in_order/average_score"))
		same("tem", "mean", p.TEM, float(t, means, "/trajectory_step_wise_score/average_score"))
		same("param", "mean", *p.Param, float(t, means, "/parameter_accuracy/average_score"))
		same("efficiency", "mean", *p.Efficiency, float(t, ends, "/efficiency/average_efficiency"))
		same("accuracy", "mean", p.Accuracy, float(t, ends, "/accuracy/accuracy"))
		if want, ok := right[name]; ok {
			all, err := Score(run, benchmark, nil, Slice{open: true, end: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := scored.Summary.BenchmarkAccuracy; got != float64(want[0])/59 {
				t.Errorf("%s: %v of the slice right", name, got)
			}
			if got := all.Summary.BenchmarkAccuracy; got != float64(want[1]+2)/248 || got != all.Summary.Accuracy {
				t.Errorf("%s: %v of all right", name, got)
			}
		}
	}
	if records != 352 || scores != 1408 || answers != 354 {
		t.Errorf("compared %d records, %d scores, %d answers", records, scores, answers)
	}
}

// TestPublishedEfficiency finds the Earth-Agent row of RSure-Agent Table 10 in
// the run that it was taken from.
func TestPublishedEfficiency(t *testing.T) {
	dir := sharedDir(t)
	benchmark, err := ReadBenchmark(filepath.Join(dir, "question.json"))
	if err != nil {
		t.Fatal(err)
	}
	reference, err := ReadReference(filepath.Join(dir, "extracted_tool_calls_GT.json"))
	if err != nil {
		t.Fatal(err)
	}
	run, err := ReadRun(filepath.Join(dir, "runs", "gpt5_AP"))
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]float64{":100": 3.5510, "100:188": 1.7154, "188:": 1.5312, "": 2.4146} {
		slice, err := ParseSlice(part)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Score(run, benchmark, reference, slice)
		if err != nil || math.Abs(*s.Summary.Efficiency-want) > 5e-5 {
			t.Errorf("[%s]: %v, %v; published %v", part, *s.Summary.Efficiency, err, want)
		}
	}
}
