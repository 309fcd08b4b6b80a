package main

import (
	"fmt"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// expected is what a dataset of the given seeds must hold.
type expected struct {
	perSeed   int
	maxTarget int // bytes; longer targets have no row
}

// checkDataset checks every row of a dataset against the raw seeds.
func checkDataset(t *testing.T, dir string, seeds map[string]*rawSeed, want expected) {
	t.Helper()
	ds, err := data.OpenDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := newChecker(t, seeds)
	splitOf := map[string]string{}
	times, names := map[string]map[string]bool{}, map[string]map[string]bool{}
	perSeed := map[string]int{}
	trajectories, planner, executor, nodes, long := 0, 0, 0, 0, 0
	for _, split := range data.Splits {
		nextPlan, stopPlan := iter.Pull2(ds.Planner(split))
		nextNode, stopNode := iter.Pull2(ds.Executor(split))
		for tr, err := range ds.Trajectories(split) {
			if err != nil {
				t.Fatal(err)
			}
			trajectories++
			if other, ok := splitOf[tr.SeedID]; ok && other != split {
				c.fault("seed %s is in %s and in %s", tr.SeedID, other, split)
			}
			splitOf[tr.SeedID] = split
			if wantID := tr.SeedID + "-" + strconv.Itoa(perSeed[tr.SeedID]); tr.ID != wantID {
				c.fault("id %s, want %s", tr.ID, wantID)
			}
			perSeed[tr.SeedID]++
			in := c.instance(tr)
			if in == nil {
				continue
			}
			if times[tr.SeedID] == nil {
				times[tr.SeedID], names[tr.SeedID] = map[string]bool{}, map[string]bool{}
			}
			when, who := about(in)
			times[tr.SeedID][when], names[tr.SeedID][who] = true, true

			quoted := make([]string, len(tr.Steps))
			for i := range tr.Steps {
				quoted[i] = strconv.Quote(tr.Steps[i].Tool)
			}
			p, err, ok := nextPlan()
			if !ok || err != nil || p.TrajectoryID != tr.ID || p.SeedID != tr.SeedID || p.Domain != tr.Domain || p.Source != tr.Source {
				t.Fatalf("%s: the planner row beside it is %+v, %v", tr.ID, p, err)
			}
			planner++
			if c.chat(tr.ID, p.Prompt, p.Completion, `{"tool_sequence":[`+strings.Join(quoted, ",")+`]}`) {
				c.plannerPrompt(in, p.Prompt[1].Content)
			}
			for i := range tr.Steps {
				nodes++
				target := tr.Steps[i].Arguments.JSON()
				if len(target) > want.maxTarget {
					long++
					continue
				}
				id := fmt.Sprintf("%s node %d", tr.ID, i)
				e, err, ok := nextNode()
				if !ok || err != nil || e.TrajectoryID != tr.ID || e.Node != i || e.SeedID != tr.SeedID || e.Domain != tr.Domain || e.Source != tr.Source {
					t.Fatalf("%s: the executor row beside it is %+v, %v", id, e, err)
				}
				executor++
				if e.Tool != tr.Steps[i].Tool || e.Reference != target {
					c.fault("%s: %s %.100s, the step has %s %.100s", id, e.Tool, e.Reference, tr.Steps[i].Tool, target)
				}
				if c.chat(id, e.Prompt, e.Completion, target) {
					c.executorPrompt(in, tr.SeedID, i, e.Prompt[1].Content)
				}
			}
		}
		if _, _, more := nextPlan(); more {
			c.fault("%s has more planner rows than trajectories", split)
		}
		if _, _, more := nextNode(); more {
			c.fault("%s has more executor rows than nodes", split)
		}
		stopPlan()
		stopNode()
	}
	for id := range seeds {
		if perSeed[id] != want.perSeed {
			c.fault("seed %s has %d instances, want %d", id, perSeed[id], want.perSeed)
		}
	}
	named, varied := 0, 0
	for id, s := range seeds {
		if when, who := about(s); when+who == "" {
			continue
		}
		named++
		if len(times[id]) > 1 || len(names[id]) > 1 {
			varied++
		} else {
			t.Logf("%s: date and place are the same in all instances", id)
		}
	}
	if varied*100 < named*95 {
		t.Errorf("%d of %d seeds that name a date or a place vary it, want 95 %%", varied, named)
	}
	if n := len(seeds) * want.perSeed; trajectories != n || planner != n {
		t.Errorf("%d trajectories and %d planner rows, want %d of both", trajectories, planner, n)
	}
	if executor != nodes-long {
		t.Errorf("%d executor rows for %d nodes, %d of them over the limit", executor, nodes, long)
	}
	if got := ds.Manifest.RefusalsByReason(); long > 0 && !slices.ContainsFunc(got, func(r data.Count) bool { return strings.Contains(r.Name, "length limit") && r.Count == long }) {
		t.Errorf("the manifest counts %v, want %d targets over the limit", got, long)
	}
	if c.faults > maxFaults {
		t.Errorf("%d faults in all", c.faults)
	}
	t.Logf("%d trajectories, %d nodes, %d over the limit; checked %d value edges, %d pure calls, %d answers; %d of %d seeds vary date or place",
		trajectories, nodes, long, c.values, c.computed, c.answers, varied, named)
}

// about is what a question's text and file lists say of times, and of names.
func about(s *rawSeed) (when, who string) {
	add := func(text string) {
		for _, d := range datesIn(text) {
			when += d.day.Format("2006-01-02 ")
		}
		for _, w := range properWord.FindAllString(text, -1) {
			if !common.MatchString(w) {
				who += w + " "
			}
		}
	}
	add(s.query)
	for i := range s.steps {
		if s.steps[i].tool == "get_filelist" {
			for _, l := range leavesOf(s.steps[i].obs) {
				if text, ok := l.v.(string); ok {
					add(text)
				}
			}
		}
	}
	if when == "" {
		who = "" // pictures without a date name no place either
	}
	return when, who
}

// chat checks the shape of a prompt–completion pair.
func (c *checker) chat(id string, prompt, completion []data.Message, want string) bool {
	if len(prompt) != 2 || prompt[0].Role != "system" || prompt[1].Role != "user" || len(completion) != 1 || completion[0].Role != "assistant" {
		c.fault("%s: the roles are not system, user, assistant", id)
		return false
	}
	if completion[0].Content != want {
		c.fault("%s: the completion is %.120q, want %.120q", id, completion[0].Content, want)
	}
	return true
}

func TestRunOnTheBundledSample(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	mustRun(t, "synth", "run", "--out", dir, "--per-seed", "10")
	checkDataset(t, dir, rawOwn(t, samplePath()), expected{10, 32 << 10})
}

// The run that the project stands for: 248 real seeds, ten instances each.
func TestRunOnTheRealFile(t *testing.T) {
	path := realFile(t)
	dir := filepath.Join(t.TempDir(), "ds")
	mustRun(t, "synth", "run", "--seeds", path, "--out", dir, "--per-seed", "10", "--seed", "7")
	checkDataset(t, dir, rawEarthBench(t, path, "autonomous"), expected{10, 32 << 10})
	m, err := data.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, c := range append(m.Counts, m.RefusalsByReason()...) {
		count[c.Name] = c.Count
	}
	for name, want := range map[string]int{
		"seeds": 248, "instances taken": 2480, "planner rows": 2480, "nodes": 13350,
		"split train": 1980, "split validation": 250, "split test": 250,
	} {
		if count[name] != want {
			t.Errorf("manifest: %s %d, want %d", name, count[name], want)
		}
	}
	if rows, long := count["executor rows"], count["executor target over the length limit"]; rows+long != 13350 {
		t.Errorf("manifest: %d executor rows and %d targets over the limit do not make 13,350 nodes", rows, long)
	}
}

// The detailed questions, which name the steps, with another seed.
func TestRunOnTheRealFileByInstruction(t *testing.T) {
	if testing.Short() {
		t.Skip("checks another 2,480 instances")
	}
	path := realFile(t)
	dir := filepath.Join(t.TempDir(), "ds")
	mustRun(t, "synth", "run", "--seeds", path, "--regime", "if", "--out", dir, "--per-seed", "2", "--seed", "8")
	checkDataset(t, dir, rawEarthBench(t, path, "instruction"), expected{2, 32 << 10})
}

// A checker that sees nothing proves nothing: each fault here is put into a good
// instance and must be named.
func TestTheCheckerSeesFaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	mustRun(t, "synth", "run", "--out", dir, "--per-seed", "1")
	ds, err := data.OpenDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	find := func(id string) *data.Found {
		found, err := ds.Find(id)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	replace := func(step int, part, old, now string) func(*data.Trajectory) {
		return func(tr *data.Trajectory) {
			v := &tr.Steps[step].Arguments
			if part == "observation" {
				v = &tr.Steps[step].Observation
			}
			text := regexp.MustCompile(old).ReplaceAllString(v.JSON(), now)
			if text == v.JSON() {
				t.Fatalf("%s is not in %s", old, text)
			}
			w, err := strictjson.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			*v = w
		}
	}
	seeds := rawOwn(t, samplePath())
	for _, test := range []struct {
		id, want string
		change   func(*data.Trajectory)
	}{
		{"sample-1-0", "tool median, the seed has calc_batch_image_mean", func(tr *data.Trajectory) { tr.Steps[1].Tool = "median" }},
		{"sample-1-0", "2 steps, the seed has 3", func(tr *data.Trajectory) { tr.Steps = tr.Steps[:2] }},
		{"sample-1-0", "differ in keys or types at /y", replace(2, "arguments", `"y"`, `"x"`)},
		{"sample-1-0", "differ in keys or types at /y/0", replace(2, "arguments", `\[([\d.]+)`, `["$1"`)},
		{"sample-1-0", "comes from none of", replace(2, "arguments", `\[[\d.]+`, `[3.21`)},
		{"sample-1-0", "compute_linear_trend returns", replace(2, "observation", `\[[\d.]+`, `[3.21`)},
		{"sample-1-0", "the seed's folder number 901", replace(0, "arguments", `question\d+`, "question901")},
		{"sample-1-0", `the old name "nairobi"`, replace(1, "arguments", `/[A-Za-z_ ]+_avg`, "/NAIROBI_avg")},
		{"sample-1-0", "other dates moved by", replace(0, "observation", `(20\d\d)-02-01`, "$1-03-01")},
		{"sample-1-0", "is not in the instance's listing", replace(1, "arguments", `20\d\d-02-01`, "1999-02-01")},
		{"sample-3-0", "threshold 0.123 is not in the question", replace(2, "arguments", `"threshold":[\d.]+`, `"threshold":0.123`)},
		{"sample-3-0", "does not state the last observation", func(tr *data.Trajectory) {
			tr.Answer = strictjson.Obj(strictjson.Member{Key: "text", Value: strictjson.Text("1.25 %")})
		}},
		{"sample-3-0", "its seed \"sample-99\" is not in the file", func(tr *data.Trajectory) { tr.SeedID = "sample-99" }},
	} {
		c := newChecker(t, seeds)
		var faults []string
		c.say = func(fault string) { faults = append(faults, fault) }
		tr := find(test.id).Trajectory
		if c.instance(tr); len(faults) > 0 {
			t.Fatalf("%s as made: %s", test.id, faults)
		}
		test.change(tr)
		c.instance(tr)
		if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, test.want) }) {
			t.Errorf("%s: faults %q, want one with %q", test.id, faults, test.want)
		}
	}

	found := find("sample-1-0")
	c := newChecker(t, seeds)
	var faults []string
	c.say = func(fault string) { faults = append(faults, fault) }
	in := c.instance(found.Trajectory)
	prompt := found.Executor[2].Prompt[1].Content
	c.executorPrompt(in, "sample-1", 2, strings.ReplaceAll(prompt, fmt.Sprint(leafAt(in.steps[1].obs, "/0")), "…"))
	ships := find("sample-5-0")
	c.executorPrompt(c.instance(ships.Trajectory), "sample-5", 3, ships.Executor[4].Prompt[1].Content)
	c.plannerPrompt(in, found.Planner.Prompt[1].Content+"\n{}")
	head, list, _ := strings.Cut(found.Planner.Prompt[1].Content, "\n# Tools\n")
	lines := strings.Split(list, "\n")
	lines[0], lines[1] = lines[1], lines[0]
	c.plannerPrompt(in, head+"\n# Tools\n"+strings.Join(lines, "\n"))
	c.chat("x", found.Planner.Prompt, found.Planner.Completion, `{"tool_sequence":[]}`)
	for _, want := range []string{"does not show", "shows what step 3 returned", "has the tool line", "is out of the catalogue's order", "the completion is"} {
		if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("prompt faults %q, want one with %q", faults, want)
		}
	}
}
