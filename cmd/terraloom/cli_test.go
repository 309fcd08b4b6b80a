package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write puts a file into the test's own folder and returns its path.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// edit replaces a text in a file that must hold it.
func edit(t testing.TB, path, old, now string) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(src), old, now, 1)
	if text == string(src) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWrongCommandLines(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	for _, test := range []struct {
		args string
		code int
		want []string
	}{
		{"sinth run", exitUsage, []string{`unknown command "sinth"`, "synth"}},
		{"synth rum", exitUsage, []string{`unknown command "rum" for "terraloom synth"`, "run"}},
		{"synth run", exitUsage, []string{`"out" not set`}},
		{"synth run --out OUT --bogus", exitUsage, []string{"unknown flag: --bogus"}},
		{"synth run --out OUT --per-seed x", exitUsage, []string{"per-seed", `"x"`}},
		{"synth run --out OUT extra", exitUsage, []string{"accepts 0 arg(s), received 1"}},
		{"synth run --out OUT --style short", exitUsage, []string{`prompt style "short" is none of "full", "compact" and "brief"`}},
		{"synth compose --out OUT --count 3", exitUsage, []string{"count is 3; at least 50"}},
		{"model create --set shape.hiden_size=8", exitInput, []string{"hiden_size", "hidden_size"}},
		{"model create", exitInput, []string{"out: missing", "datasets: missing"}},
		{"model create --set out=OUT --set datasets=[nowhere]", exitInput, []string{"nowhere: not a dataset folder"}},
		{"eval records --model x --dataset nowhere --role critic --split dev", exitUsage, []string{`role "critic"`, `split "dev"`}},
		{"eval records --model x --dataset nowhere --role planner --adapter x", exitUsage, []string{"--adapter x: write NAME=FOLDER"}},
		{"eval records --model x --dataset nowhere --role planner --backend go", exitInput, []string{"nowhere: not a dataset folder"}},
		{"synth run --out OUT --shard 3", exitUsage, []string{`shard "3": write i/n, such as 0/4`}},
		{"synth run --out OUT --shard 4/4", exitUsage, []string{"shard 4/4: the index counts from 0 to 3"}},
		{"synth run --out OUT --per-seed 0 --workers 0 --near-duplicate 2 --max-target 1", exitUsage, // all at once
			[]string{"per-seed is 0; at least 1", "workers is 0; at least 1", "near-duplicate is 2; above 0, at most 1", "max-target is 1 bytes; at least 64"}},
		{"synth run --out OUT --mix other=x", exitUsage, []string{`mix "other=x": write openearthagent=PATH`}},
		{"synth run --out OUT --seeds nowhere.json", exitInput, []string{"nowhere.json"}},
		{"synth run --out OUT --mix openearthagent=nowhere.json", exitInput, []string{"nowhere.json"}},
		{"synth run --out OUT --programs nowhere", exitInput, []string{"slot program nowhere/sample-1.yaml: the seed has none", "terraloom slots discover"}},
		{"slots discover --llm http://127.0.0.1:1", exitUsage, []string{"[llm model]", "missing [model]"}},
		{"slots show --programs nowhere", exitUsage, []string{"accepts 1 arg(s), received 0"}},
		{"slots approve --programs nowhere", exitUsage, []string{"name the seeds whose programs you approve"}},
		{"slots approve --programs nowhere sample-1", exitUsage, []string{"--by is missing: approval is given by name"}},
		{"slots analyze sample-99", exitUsage, []string{`no seed "sample-99" in the file`}},
		{"slots lint --programs nowhere sample-1", exitInput, []string{"nowhere/sample-1.yaml"}},
		{"data import --format csv --seeds SAMPLE", exitInput, []string{`"csv"`, "earth-bench, openearthagent, own"}},
		{"data info nowhere", exitInput, []string{"nowhere: not a dataset folder"}},
		{"data explain --dataset nowhere x", exitInput, []string{"nowhere: not a dataset folder"}},
		{"data merge --out OUT", exitUsage, []string{"name the shard folders"}},
		{"data merge --out OUT nowhere", exitInput, []string{"nowhere: not a dataset folder"}},
	} {
		args := strings.Fields(strings.NewReplacer("OUT", out, "SAMPLE", samplePath()).Replace(test.args))
		o := terraloom(t, args...)
		if o.code != test.code {
			t.Errorf("terraloom %s: exit code %d, want %d: %s", test.args, o.code, test.code, o.err)
		}
		for _, want := range test.want {
			if !strings.Contains(o.err, want) {
				t.Errorf("terraloom %s: %q lacks %q", test.args, o.err, want)
			}
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("terraloom %s left something at its output", test.args)
		}
	}
}

func TestHelpHasAnExampleForEachVerb(t *testing.T) {
	for _, group := range newRootCmd().Commands() {
		for _, verb := range group.Commands() {
			if verb.Runnable() && !strings.HasPrefix(strings.TrimSpace(verb.Example), "terraloom "+group.Name()+" "+verb.Name()) {
				t.Errorf("%s has no example of itself", verb.CommandPath())
			}
		}
	}
	if help := mustRun(t, "synth"); !strings.Contains(help, "run ") {
		t.Errorf("a group without verb prints %q", help)
	}
}

// D16: where every row is invalid, the run stops at loading, with the reasons.
func TestD16InvalidSeedsStopTheRunAtLoading(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	bad := write(t, "bad.jsonl", `{"id":"a","seed_id":"a","source":"own","domain":"rgb","query":"q","steps":[]}
{"id":"b","seed_id":"b","source":"own","domain":"rgb","query":"q","step":[]}
`)
	o := terraloom(t, "synth", "run", "--seeds", bad, "--out", out)
	if o.code != exitInput || !strings.Contains(o.err, "bad.jsonl:1: /steps") || !strings.Contains(o.err, "bad.jsonl:2: /step: unknown key") {
		t.Errorf("code %d: %s", o.code, o.err)
	}
	for _, test := range []struct{ step, want string }{
		{`{"tool":"no_such_tool","arguments":{"a":1},"observation":2}`, `b node 0: unknown tool "no_such_tool"`},
		{`{"tool":"get_filelist","arguments":{},"observation":["question7/a_2020-01-01.tif"]}`, "b node 0 (get_filelist): the reward cannot score the target"}, // S7
	} {
		bad := write(t, "bad.jsonl", `{"id":"b","seed_id":"b","source":"own","domain":"products","query":"On 2020-01-01, what of question7?","steps":[`+test.step+`]}`)
		o := terraloom(t, "synth", "run", "--seeds", bad, "--out", out)
		if o.code != exitInput || !strings.Contains(o.err, test.want) {
			t.Errorf("code %d: %s, want %s", o.code, o.err, test.want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a run without rows left a folder")
	}
}

func TestExistingOutputIsKept(t *testing.T) {
	out := filepath.Join(t.TempDir(), "ds")
	mustRun(t, "synth", "run", "--out", out, "--per-seed", "1")
	before := contentsOf(t, out)
	o := terraloom(t, "synth", "run", "--out", out, "--per-seed", "2")
	if o.code != exitExists || !strings.Contains(o.err, "the folder exists") {
		t.Errorf("code %d: %s", o.code, o.err)
	}
	sameFolder(t, before, contentsOf(t, out))
	mustRun(t, "synth", "run", "--out", out, "--per-seed", "2", "--force")
	if info := mustRun(t, "data", "info", out); !strings.Contains(info, "instances taken                                  16") {
		t.Errorf("data info prints\n%s", info)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.MkdirAll(filepath.Join(plain, "keep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if o := terraloom(t, "synth", "run", "--out", plain, "--per-seed", "1", "--force"); o.code == 0 {
		t.Error("a folder that is no dataset was replaced")
	}
}

// From discovery to an approved run, with every way in which a program is refused.
func TestReviewOfPrograms(t *testing.T) {
	programs := filepath.Join(t.TempDir(), "programs")
	mustRun(t, "slots", "discover", "--out", programs)
	file := filepath.Join(programs, "sample-3.yaml")
	status := func(want string) {
		t.Helper()
		var rows []struct{ Seed, State, By string }
		o := terraloom(t, "slots", "status", "--programs", programs, "--json", "sample-3")
		if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil || len(rows) != 1 {
			t.Fatalf("%v: %s", err, o.stdout)
		}
		if got := strings.TrimSpace(rows[0].State + " " + rows[0].By); got != want {
			t.Errorf("state %q, want %q", got, want)
		}
	}
	out := filepath.Join(t.TempDir(), "ds")
	run := func(extra ...string) outcome {
		return terraloom(t, append([]string{"synth", "run", "--out", out, "--per-seed", "1", "--force", "--programs", programs}, extra...)...)
	}
	status("machine-checked")
	mustRun(t, "slots", "lint", "--programs", programs)
	if o := run(); o.code != 0 {
		t.Fatal(o.err)
	}
	if o := run("--approved-only"); o.code != exitInput || !strings.Contains(o.err, "approve it with: terraloom slots approve") {
		t.Errorf("code %d: %s", o.code, o.err)
	}
	show := mustRun(t, "slots", "show", "--programs", programs, "sample-3")
	for _, mark := range []string{"[P]{Okavango Delta}", "[T]{September 14, 2020}", "[F]{903}", "[O]{37.42}", "[I]{0.6}"} {
		if !strings.Contains(show, mark) {
			t.Errorf("slots show lacks %s:\n%s", mark, show)
		}
	}
	mustRun(t, "slots", "approve", "--programs", programs, "--by", "Ada Reviewer", "sample-3")
	status("approved Ada Reviewer")

	// SLOT-12: an edit after the approval makes it void.
	edit(t, file, "step: 0.05", "step: 0.1")
	status("void Ada Reviewer")
	if o := run("--approved-only"); o.code != exitInput {
		t.Errorf("code %d: %s", o.code, o.err)
	}
	if o := run(); o.code != exitInput || !strings.Contains(o.err, "the review is void") || !strings.Contains(o.err, "sample-3.yaml") {
		t.Errorf("code %d: %s", o.code, o.err)
	}
	mustRun(t, "slots", "lint", "--programs", programs, "--write", "sample-3")
	status("machine-checked")
	if o := run(); o.code != 0 {
		t.Error(o.err)
	}

	// C1: a misspelt key, at any depth, stops before work and names the nearest.
	edit(t, file, "gazetteer:", "gazeteer:")
	for _, o := range []outcome{run(), terraloom(t, "slots", "lint", "--programs", programs, "sample-3")} {
		if o.code != exitInput || !strings.Contains(o.err, `sample-3.yaml:`) || !strings.Contains(o.err, `unknown key "slots.source.gazeteer"; did you mean "gazetteer"?`) {
			t.Errorf("code %d: %s", o.code, o.err)
		}
	}
	edit(t, file, "gazeteer:", "gazetteer:")

	// A slot that is unknown, or a template that leaves an old value, fails lint.
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, now, want string }{
		{"{place1", "{plaze1", `unknown slot "plaze1" in template`},
		{"TVDI {threshold}", "TVDI 0.6", "is not in the question"},
		{"seed: Okavango Delta", "seed: Okovango Delta", "is not in the gazetteer"},
	} {
		if !strings.Contains(string(src), test.old) {
			continue // an older spelling of the program
		}
		edit(t, file, test.old, test.now)
		o := terraloom(t, "slots", "lint", "--programs", programs, "sample-3")
		if o.code != exitInput || !strings.Contains(o.err, test.want) {
			t.Errorf("%s → %s: code %d: %s, want %q", test.old, test.now, o.code, o.err, test.want)
		}
		if err := os.WriteFile(file, src, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnalyzeAsJSON(t *testing.T) {
	var sum struct {
		Trajectories, Calls, Leaves, Edges int
		Origins                            map[string]int
		Seeds                              []struct{ Seed, Origin, Transform string }
	}
	if err := json.Unmarshal([]byte(mustRun(t, "slots", "analyze", "--json")), &sum); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, k := range sum.Origins {
		n += k
	}
	if sum.Trajectories != 8 || sum.Calls != 38 || n != sum.Leaves || len(sum.Seeds) != sum.Leaves || sum.Origins["nowhere"] != 0 {
		t.Errorf("%+v", sum)
	}
}

func TestExplainMakesTheRowAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	mustRun(t, "synth", "run", "--out", dir, "--per-seed", "2", "--style", "compact")
	text := mustRun(t, "data", "explain", "--dataset", dir, "--seeds", samplePath(), "sample-5-1")
	for _, want := range []string{"sample-5-1", "seed_hash", "program_hash", "filters_passed", "split ", `run_seed             "7"`, "machine-checked"} {
		if !strings.Contains(text, want) {
			t.Errorf("explain lacks %q:\n%s", want, text)
		}
	}
	src, err := os.ReadFile(samplePath())
	if err != nil {
		t.Fatal(err)
	}
	changed := write(t, "seeds.jsonl", strings.Replace(string(src), "How far apart", "How far from each other", 1))
	if o := terraloom(t, "data", "explain", "--dataset", dir, "--seeds", changed, "sample-5-1"); o.code == 0 || !strings.Contains(o.err, "sample-5-1: it was made with") {
		t.Errorf("code %d: %s", o.code, o.err)
	}
	if o := terraloom(t, "data", "explain", "--dataset", dir, "sample-5-7"); o.code != exitInput {
		t.Errorf("an unknown id: code %d: %s", o.code, o.err)
	}
}

// SYN-3: a seed whose domain is too small is reported short, with its own exit
// code, and what could be made is in the dataset.
func TestShortSeedIsReported(t *testing.T) {
	programs := filepath.Join(t.TempDir(), "programs")
	seeds := write(t, "one.jsonl", `{"id":"one","seed_id":"one","source":"own","domain":"products","query":"How warm was it in benchmark/data/question7?","inputs":{"data_path":"benchmark/data/question7"},"steps":[{"tool":"get_filelist","arguments":{"dir_path":"benchmark/data/question7"},"observation":["a.tif"]},{"tool":"get_filelist","arguments":{"dir_path":"benchmark/data/question7"},"observation":["a.tif"]}]}`)
	mustRun(t, "slots", "discover", "--seeds", seeds, "--out", programs)
	file := filepath.Join(programs, "one.yaml")
	edit(t, file, "max: 9499", "max: 3004")
	mustRun(t, "slots", "lint", "--seeds", seeds, "--programs", programs, "--write")
	dir := filepath.Join(t.TempDir(), "ds")
	o := terraloom(t, "synth", "run", "--seeds", seeds, "--programs", programs, "--out", dir, "--per-seed", "10", "--near-duplicate", "1")
	if o.code != exitIncomplete || !strings.Contains(o.err, "one: 5 of 10") || !strings.Contains(o.err, "same root values") {
		t.Errorf("code %d: %s", o.code, o.err)
	}
	if info := mustRun(t, "data", "info", dir); !strings.Contains(info, "instances taken                                   5") {
		t.Errorf("the dataset holds\n%s", info)
	}
}

func TestImportWritesOwnJSONL(t *testing.T) {
	out := filepath.Join(t.TempDir(), "seeds.jsonl")
	question := filepath.Join("..", "..", "data", "testdata", "question.json")
	var rep map[string]any
	if err := json.Unmarshal([]byte(mustRun(t, "data", "import", "--seeds", question, "--out", out, "--json")), &rep); err != nil {
		t.Fatal(err)
	}
	a, b := mustRun(t, "slots", "analyze", "--seeds", question), mustRun(t, "slots", "analyze", "--seeds", out)
	if a != b {
		t.Errorf("analysis of the import\n%s\nand of what it wrote\n%s", a, b)
	}
	if keys := slices.Sorted(keysOf(rep)); len(keys) == 0 {
		t.Error("the report is empty")
	}
}

// A model's proposal is checked, recorded beside the program, and used by a run.
func TestDiscoverWithAModel(t *testing.T) {
	offline := filepath.Join(t.TempDir(), "offline")
	mustRun(t, "slots", "discover", "--out", offline, "sample-3")
	good, err := os.ReadFile(filepath.Join(offline, "sample-3.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		text := "```yaml\n" + string(good) + "```"
		if requests == 1 {
			text = strings.Replace(text, "occurrences:", "occurences:", 1)
		}
		if r.Header.Get("Authorization") != "Bearer very-secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		content, err := json.Marshal(text)
		if err != nil {
			t.Error(err)
		}
		if _, err := w.Write([]byte(`{"choices":[{"message":{"content":` + string(content) + `}}]}`)); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	t.Setenv("TERRALOOM_LLM_KEY", "very-secret")
	programs := filepath.Join(t.TempDir(), "programs")
	mustRun(t, "slots", "discover", "--out", programs, "--llm", server.URL, "--model", "qwen", "sample-3")
	exchange, err := os.ReadFile(filepath.Join(programs, "sample-3.exchange.json"))
	if err != nil || requests != 2 || !strings.Contains(string(exchange), `did you mean \"occurrences\"?`) || strings.Contains(string(exchange), "very-secret") {
		t.Errorf("%v, %d requests, exchange %.300s", err, requests, exchange)
	}
	var rows []struct{ State, Origin string }
	if err := json.Unmarshal([]byte(mustRun(t, "slots", "status", "--programs", programs, "--json", "sample-3")), &rows); err != nil || rows[0].State != "machine-checked" || rows[0].Origin != "qwen" {
		t.Errorf("status %+v, %v", rows, err)
	}
	server.Close()
	o := terraloom(t, "slots", "discover", "--out", programs, "--llm", server.URL, "--model", "qwen", "--tries", "1", "sample-5")
	if o.code == 0 || !strings.Contains(o.err, "no valid program was proposed for sample-5") {
		t.Errorf("code %d: %s", o.code, o.err)
	}
	if _, err := os.Stat(filepath.Join(programs, "sample-5.yaml")); err == nil {
		t.Error("a failed proposal left a program")
	}
	if _, err := os.Stat(filepath.Join(programs, "sample-5.exchange.json")); err != nil {
		t.Error("a failed proposal is not recorded")
	}
}

// Python's datasets and pyarrow read what a run wrote without options.
func TestPythonReadsARun(t *testing.T) {
	python := os.Getenv("TERRALOOM_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import datasets, pyarrow").CombinedOutput(); err != nil {
		t.Skipf("%s with the packages datasets and pyarrow is needed (set TERRALOOM_PYTHON): %v %s", python, err, out)
	}
	dir := filepath.Join(t.TempDir(), "ds")
	mustRun(t, "synth", "run", "--out", dir, "--per-seed", "10")
	cmd := exec.Command(python, filepath.Join("..", "..", "data", "testdata", "load_dataset.py"), dir, t.TempDir())
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "HF_HOME="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Configs map[string]map[string]int
		TRL     bool
	}
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatal(err)
	}
	rows := func(config string) (n int) {
		for _, k := range seen.Configs[config] {
			n += k
		}
		return n
	}
	if !seen.TRL || rows("trajectories") != 80 || rows("planner") != 80 || rows("executor") != 380 {
		t.Errorf("python sees %+v", seen)
	}
}
