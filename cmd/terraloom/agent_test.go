package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nightScript answers every role for one question about the nights of an area.
const nightScript = `{"role":"router","reply":"earth-product-statistics","repeat":true}
{"role":"planner","reply":"{\"tool_sequence\":[\"download_product\",\"calc_batch_image_mean\",\"difference\"]}","repeat":true}
{"role":"executor","contains":"{\"name\":\"difference\"","reply":"{\"a\":1,\"b\":2}","repeat":true}
{"role":"executor","contains":"{\"name\":\"calc_batch_image_mean\"","reply":"{\"file_list\":[\"area_avg_rad_2020-03-01.tif\",\"area_avg_rad_2020-04-01.tif\"]}","repeat":true}
{"role":"executor","contains":"{\"name\":\"download_product\"","reply":"{\"source\":\"NOAA/VIIRS/DNB/MONTHLY_V1/VCMCFG\",\"bands\":[\"avg_rad\"],\"bbox\":[36.0,-1.0,36.2,-0.8],\"time_range\":[\"2020-03-01\",\"2020-04-01\"],\"interval\":\"month\",\"scale_m\":5000,\"base_save_name\":\"area\"}","repeat":true}
{"role":"checker","reply":"{\"decision\":\"accept\"}","repeat":true}
{"role":"controller","reply":"{\"sufficient\":true}","repeat":true}
{"role":"answer","reply":"Brighter by 1 nW.","repeat":true}
`

// A question goes through the whole agent on the command line: answer, JSON, tree,
// page, resumption, exit codes.
func TestAgentRun(t *testing.T) {
	script := "script:" + write(t, "script.jsonl", nightScript)
	dir := filepath.Join(t.TempDir(), "run")
	got := terraloom(t, "agent", "run", "By how much did the nighttime light intensity change?", "--llm", script, "--planning", "one-shot", "--out", dir, "--json")
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	var r struct {
		Status, Answer, Run string
		ToolCalls           int `json:"tool_calls"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || r.Status != "answered" || r.Answer != "Brighter by 1 nW." || r.ToolCalls != 3 || r.Run != dir {
		t.Errorf("%s, %v", got.stdout, err)
	}
	for _, part := range []string{"skill earth-product-statistics", "plan download_product", "2 calc_batch_image_mean ->"} {
		if !strings.Contains(got.logs, part) {
			t.Errorf("progress lacks %q:\n%s", part, got.logs)
		}
	}
	if again := terraloom(t, "agent", "run", "x", "--llm", script, "--out", dir, "-q"); again.code != exitExists {
		t.Errorf("a second run in the folder: exit %d, %s", again.code, again.err)
	}
	if again := terraloom(t, "agent", "run", "--resume", "--llm", script, "--planning", "one-shot", "--out", dir, "-q"); again.code != 0 || again.stdout != "Brighter by 1 nW.\n" {
		t.Errorf("resumed: exit %d, %q, %s", again.code, again.stdout, again.err)
	}
	html := filepath.Join(t.TempDir(), "run.html")
	tree := terraloom(t, "agent", "show", dir, "--html", html)
	if tree.code != 0 || !strings.Contains(tree.stdout, "[x] 2 calc_batch_image_mean") || !strings.Contains(tree.stdout, "answer: Brighter by 1 nW.") {
		t.Errorf("exit %d\n%s%s", tree.code, tree.stdout, tree.err)
	}
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "data:image/png;base64,"); n != 2 || !strings.Contains(string(page), "benchmark/out/area_avg_rad_2020-03-01.tif") {
		t.Errorf("%d pictures on the page", n)
	}
}

func TestAgentExitCodes(t *testing.T) {
	noPlan := "script:" + write(t, "a.jsonl", `{"reply":"I do not know","repeat":true}`)
	away := "script:" + write(t, "b.jsonl", `{"error":"502","repeat":true}`)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no plan":           {[]string{"agent", "run", "x", "--llm", noPlan, "-q"}, exitIncomplete, "plan_failed"},
		"no model":          {[]string{"agent", "run", "x", "--llm", away, "-q"}, exitError, "502"},
		"no question":       {[]string{"agent", "run", "--llm", noPlan}, exitUsage, "give one question"},
		"neither":           {[]string{"agent", "run", "x"}, exitUsage, "llm base"},
		"no model name":     {[]string{"agent", "run", "x", "--llm", "http://127.0.0.1:1/v1"}, exitUsage, "--model"},
		"bad mode":          {[]string{"agent", "run", "x", "--llm", noPlan, "--mode", "fast"}, exitUsage, `mode "fast"`},
		"bad inputs":        {[]string{"agent", "run", "x", "--llm", noPlan, "--inputs", "[]"}, exitUsage, "--inputs"},
		"oracle, no plan":   {[]string{"agent", "run", "x", "--llm", noPlan, "--mode", "oracle-plan"}, exitUsage, "needs a plan"},
		"script with fault": {[]string{"agent", "run", "x", "--llm", "script:" + write(t, "c.jsonl", `{"rolle":1}`)}, exitInput, "rolle"},
		"nothing to resume": {[]string{"agent", "run", "--resume", "--llm", noPlan}, exitInput, "no such file"},
		"surface and plan":  {[]string{"agent", "run", "x", "--llm", noPlan, "--tools", "surface"}, exitUsage, "--mode react"},
		"blind and seeing":  {[]string{"agent", "run", "x", "--base", "b", "--vision"}, exitUsage, "base vision"},
		"critic, protocol":  {[]string{"agent", "run", "x", "--llm", noPlan, "--mode", "critic", "--protocol", "full"}, exitUsage, "the protocol must be off"},
		"prior, no full":    {[]string{"agent", "run", "x", "--llm", noPlan, "--prior", "p.json"}, exitUsage, "--protocol full"},
		"show nothing":      {[]string{"agent", "show", t.TempDir()}, exitInput, "journal.jsonl"},
		"prior of nothing":  {[]string{"agent", "prior", "fit", t.TempDir(), "--benchmark", samplePath(), "--out", filepath.Join(t.TempDir(), "p.json")}, exitInput, "extracted_tool_calls.json"},
		"bad regime":        {[]string{"eval", "run", "--llm", noPlan, "--out", t.TempDir(), "--regimes", "xx"}, exitUsage, "regime"},
	} {
		args := c.args
		if args[1] == "run" && args[0] == "agent" {
			args = append(args, "--out", filepath.Join(t.TempDir(), "run"))
		}
		if got := terraloom(t, args...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%s: exit %d, want %d: %s", name, got.code, c.code, got.err)
		}
	}
}

// The ReAct loop on the surface of the observation protocol.
func TestAgentSurface(t *testing.T) {
	script := "script:" + write(t, "s.jsonl", `{"role":"executor","tool_calls":[{"function":{"name":"retrieve","arguments":"{\"query\":\"temporal trend\"}"}}]}
{"role":"executor","reply":"enough"}
{"role":"answer","reply":"Use a robust slope."}
`)
	got := terraloom(t, "agent", "run", "How is a trend computed?", "--llm", script, "--mode", "react", "--tools", "surface", "--protocol", "deterministic", "--routing", "rules", "--out", filepath.Join(t.TempDir(), "run"))
	if got.code != 0 || got.stdout != "Use a robust slope.\n" || !strings.Contains(got.logs, "retrieve ->") {
		t.Errorf("exit %d %q %s", got.code, got.stdout, got.err)
	}
}

// The baseline loops run by their modes; scores, comparison and report name them.
func TestBaselineLoops(t *testing.T) {
	script := func() string {
		return "script:" + write(t, "s.jsonl", `{"role":"executor","contains":"Check this answer with tools","reply":"1.5","repeat":true}
{"role":"executor","contains":"1.5","reply":"1.5","repeat":true}
{"role":"executor","tool_calls":[{"function":{"name":"mean","arguments":"{\"x\":[1,2]}"}}],"repeat":true}
{"role":"verifier","reply":"{\"decision\":\"accept\"}","repeat":true}
`)
	}
	for mode, says := range map[string]string{"critic": "answer 1, to be checked: 1.5", "tools-fail": "mean -> 1.5"} {
		got := terraloom(t, "agent", "run", "Mean of 1 and 2?", "--llm", script(), "--mode", mode, "--no-skills", "--out", filepath.Join(t.TempDir(), "run"))
		if got.code != 0 || got.stdout != "1.5\n" || !strings.Contains(got.logs, says) {
			t.Errorf("%s: exit %d %q %s", mode, got.code, got.stdout, got.err+got.logs)
		}
	}
	seeds := write(t, "seeds.jsonl", `{"id":"m1","seed_id":"m1","source":"own","domain":"products","regime":"ap","query":"Mean of 1 and 2?","inputs":{},"steps":[{"tool":"mean","arguments":{"x":[1,2]},"observation":1.5}],"answer":{"text":"1.5"},"provenance":{}}`+"\n")
	out, loops := t.TempDir(), []string{"react", "critic", "tools-fail"}
	args := []string{"eval", "run", "--seeds", seeds, "--regimes", "ap", "--llm", script(), "--out", out, "--modes", strings.Join(loops, ","), "--with-skills", "off"}
	if got := terraloom(t, args...); got.code != 0 || strings.Count(got.stdout, "1.0000") < 3*5 {
		t.Fatalf("exit %d\n%s%s", got.code, got.stdout, got.err)
	}
	if got := terraloom(t, append(args, "--protocols", "off,full")...); got.code != exitUsage || !strings.Contains(got.err, "the protocol must be off") {
		t.Errorf("exit %d %s", got.code, got.err)
	}
	files := make([]string, len(loops))
	for i, loop := range loops {
		files[i] = filepath.Join(out, loop+"_both_noskills_protocol-off_AP", "scores.json")
	}
	got := terraloom(t, "eval", "compare", files[1], files[2])
	if got.code != 0 || !strings.HasPrefix(got.stdout, "A: critic_both_noskills_protocol-off_AP\nB: tools-fail_both_noskills_protocol-off_AP\n") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.err)
	}
	page := filepath.Join(out, "report")
	if got := terraloom(t, append([]string{"eval", "report", "--out", page}, files...)...); got.code != 0 {
		t.Fatalf("exit %d %s", got.code, got.err)
	}
	text, err := os.ReadFile(filepath.Join(page, "report.md"))
	for _, loop := range loops {
		if row := "| " + loop + "_both_noskills_protocol-off_AP | ours | 100.00 |"; err != nil || !strings.Contains(string(text), row) {
			t.Errorf("%v: the report lacks %s", err, row)
		}
	}
}

// A prior from runs that repeat the references knows only right calls; the same
// questions may not be tested with it.
func TestAgentPriorFit(t *testing.T) {
	benchmark, run := evalFiles(t, "run_AP", func(_ int, gold string) string { return gold })
	calls, err := os.ReadFile(filepath.Join(run, "extracted_tool_calls.json"))
	if err != nil {
		t.Fatal(err)
	}
	// The traces of the helper have no outputs; without them nothing can be compared.
	out := filepath.Join(t.TempDir(), "prior.json")
	if got := terraloom(t, "agent", "prior", "fit", run, "--benchmark", benchmark, "--out", out); got.code != exitInput || !strings.Contains(got.err, "no call that could be compared") {
		t.Errorf("exit %d %s: %s", got.code, got.err, calls[:100])
	}
}

// eval run: cells are folders that eval score reads, and a finished one is not run
// again.
func TestEvalRun(t *testing.T) {
	seeds := write(t, "seeds.jsonl", `{"id":"m1","seed_id":"m1","source":"own","domain":"products","regime":"ap","query":"Mean of 1 and 2?","inputs":{},"steps":[{"tool":"mean","arguments":{"x":[1,2]},"observation":1.5}],"answer":{"text":"1.5"},"provenance":{}}`+"\n")
	script := "script:" + write(t, "s.jsonl", `{"role":"planner","reply":"{\"tool_sequence\":[\"mean\"]}","repeat":true}
{"role":"executor","reply":"{\"x\":[1,2]}","repeat":true}
{"role":"answer","reply":"1.5","repeat":true}
`)
	out := t.TempDir()
	args := []string{"eval", "run", "--seeds", seeds, "--regimes", "ap", "--llm", script, "--out", out, "--checks", "rules", "--routing", "rules", "--planning", "one-shot",
		"--modes", "planning-only,oracle-plan,arguments,end-to-end", "--with-skills", "off"}
	for range 2 {
		got := terraloom(t, args...)
		if got.code != 0 || strings.Count(got.stdout, "1.0000") < 12 || strings.Count(got.stdout, "\n") != 5 {
			t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.err)
		}
	}
	cells, err := filepath.Glob(filepath.Join(out, "*_AP"))
	if err != nil || len(cells) != 4 {
		t.Fatalf("%v, %v", cells, err)
	}
	for _, cell := range cells {
		if got := terraloom(t, "eval", "score", "--benchmark", seeds, "--run", cell); got.code != 0 || !strings.Contains(got.stdout, "tao 1.0000") {
			t.Errorf("%s: exit %d\n%s%s", cell, got.code, got.stdout, got.err)
		}
	}
	if got := terraloom(t, append(args, "--max-calls", "3")...); got.code != exitUsage || !strings.Contains(got.err, "name another folder") {
		t.Errorf("other settings: exit %d %s", got.code, got.err)
	}
}
