package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/eval"
	"terraloom/data"
)

func evalVerb(args ...string) (string, error) {
	cmd := newEvalCmd()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

// evalFiles writes the sample seeds as a benchmark, and a run that repeats
// their traces; it returns both paths.
func evalFiles(t *testing.T, name string, answer func(i int, gold string) string) (benchmark, run string) {
	t.Helper()
	seeds, err := data.Import(samplePath(), data.FormatOwn, data.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var lines, calls, answers []string
	for i, s := range seeds.Trajectories {
		lines = append(lines, s.Value().JSON())
		var steps []string
		for _, step := range s.Steps {
			steps = append(steps, fmt.Sprintf(`{"name":%q,"input":%s}`, step.Tool, step.Arguments.JSON()))
		}
		calls = append(calls, fmt.Sprintf(`{"question_index":%q,"tool_calls":[%s]}`, s.ID, strings.Join(steps, ",")))
		answers = append(answers, fmt.Sprintf(`{"question_id":%q,"final_answer":%q}`, s.ID, answer(i, s.Answer.Get("text").Text())))
	}
	run = filepath.Join(dir, name)
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	benchmark = filepath.Join(dir, "seeds.jsonl")
	for path, text := range map[string]string{
		benchmark: strings.Join(lines, "\n"),
		filepath.Join(run, "extracted_tool_calls.json"):     "[" + strings.Join(calls, ",") + "]",
		filepath.Join(run, "results_summary_polished.json"): "[" + strings.Join(answers, ",") + "]",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return benchmark, run
}

func TestEvalScoreCompareReport(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"wrong_AP", "right_AP"} {
		benchmark, run := evalFiles(t, name, func(_ int, gold string) string {
			if name == "wrong_AP" {
				return ""
			}
			return gold
		})
		out, err := evalVerb("score", "--benchmark", benchmark, "--run", run, "--json")
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Records []map[string]any
			Summary map[string]any
		}
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"question", "tao", "tio", "tem", "param", "efficiency", "predicted", "correct"} {
			if _, ok := s.Records[0][key]; !ok {
				t.Errorf("a record has no %s", key)
			}
		}
		for i, r := range s.Records {
			if r["tao"] != 1. || r["tio"] != 1. || r["tem"] != 1. || r["param"] != 1. || r["efficiency"] != 1. || r["correct"] != (name == "right_AP") {
				t.Errorf("%s, record %d: %v", name, i, r)
			}
		}
		files = append(files, filepath.Join(dir, name+".json"))
		if err := os.WriteFile(files[len(files)-1], []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := evalVerb("score", "--benchmark", benchmark, "--run", run, "--slice", ":2"); err != nil || !strings.Contains(text, "(2 questions, 2 answers)") {
			t.Errorf("%v\n%s", err, text)
		}
	}
	out, err := evalVerb("compare", "--json", "--seed", "3", files[0], files[1])
	var c eval.Comparison
	if err != nil || json.Unmarshal([]byte(out), &c) != nil || c.Differences[0].Metric != "accuracy" || c.Differences[0].Mean != 1 || c.Differences[0].Low != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = evalVerb("compare", files[0], files[1]); err != nil || !strings.Contains(out, "+1.0000 to +1.0000") {
		t.Errorf("%v\n%s", err, out)
	}
	page := filepath.Join(dir, "report")
	if _, err := evalVerb("report", "--out", page, files[0], files[1]); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(page, "report.md"))
	if err != nil || !strings.Contains(string(text), "| right_AP | end-to-end |") || !strings.Contains(string(text), "| published |") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestEvalJudge asks a server that fails on every third answer.
func TestEvalJudge(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) != 2 {
			t.Errorf("%v, %+v", err, body)
			return
		}
		content := `{\"correct\": true}`
		if strings.Contains(body.Messages[1].Content, "garbled") {
			content = "yes"
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"%s"}}]}`, content)
	}))
	defer server.Close()
	benchmark, run := evalFiles(t, "r", func(i int, _ string) string { return []string{"one", "", "garbled"}[i%3] })
	out, err := evalVerb("score", "--benchmark", benchmark, "--run", run, "--judge", server.URL, "--judge-model", "m", "--json", "--slice", ":6")
	var s eval.Scored
	if err != nil || json.Unmarshal([]byte(out), &s) != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if j := s.Summary.Judge; j.Judged != 4 || j.Correct != 2 || j.Failed != 2 || j.Accuracy != .5 || j.Model != "m" {
		t.Errorf("%+v", j)
	}
	if v := s.Records[2].Verdict; v.Reply != "yes" || v.Failure == "" {
		t.Errorf("%+v", v)
	}
}

func TestEvalErrors(t *testing.T) {
	benchmark, run := evalFiles(t, "r", func(int, string) string { return "x" })
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"score", "--benchmark", benchmark, "--run", run, "--slice", "x"}, exitUsage, "bad slice"},
		{[]string{"score", "--benchmark", benchmark, "--run", run, "extra"}, exitUsage, "accepts 0 arg"},
		{[]string{"score", "--benchmark", benchmark, "--run", run, "--slice", "900:"}, exitInput, "holds none of"},
		{[]string{"score", "--benchmark", benchmark, "--run", empty}, exitInput, "extracted_tool_calls.json"},
		{[]string{"score", "--benchmark", empty + "/none.json", "--run", run}, exitInput, "none.json"},
		{[]string{"score", "--benchmark", benchmark, "--reference", empty + "/gt.json", "--run", run}, exitInput, "gt.json"},
		{[]string{"compare", benchmark}, exitUsage, "accepts 2 arg"},
		{[]string{"compare", benchmark, empty + "/b.json"}, exitInput, "b.json"},
		{[]string{"compare", "--resamples", "0", benchmark, benchmark}, exitUsage, "--resamples is 0"},
		{[]string{"report", "--out", empty}, exitUsage, "name the score files"},
		{[]string{"report", "--out", empty, benchmark}, exitInput, "not a score file"},
	} {
		_, err := evalVerb(c.args...)
		if err == nil || exitCode(context.Background(), err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, exit code %d", c.args, err, exitCode(context.Background(), err))
		}
	}
}

// TestEvalPeerRuns runs the verb on real runs; the per-question comparison is
// beside the scorer.
func TestEvalPeerRuns(t *testing.T) {
	dir := os.Getenv("TERRALOOM_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	dir = filepath.Join(dir, "earth-bench")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no peer runs: %v (set TERRALOOM_SHARED to the folder that holds earth-bench)", err)
	}
	for name, want := range map[string]string{
		"gpt5_AP":    "all            tao 0.7661  tio 0.7504  tem 0.5960  param 0.4615  efficiency 1.5312  accuracy 0.5932  (59 questions, 59 answers)",
		"llama-4_IF": "peer           tao 0.3652  tio 0.1561  tem 0.1243  param 0.1125  efficiency 0.3790  accuracy 0.2712  (58 questions, 59 answers)",
	} {
		out, err := evalVerb("score", "--benchmark", filepath.Join(dir, "question.json"), "--reference", filepath.Join(dir, "extracted_tool_calls_GT.json"),
			"--run", filepath.Join(dir, "runs", name), "--slice", "188:")
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
