package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/agent/tools"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
	"terraloom/data/strictjson"
)

func parse(t testing.TB, text string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// fakeTools is an environment with canned results: for each tool its results in
// turn, the last one again and again. A result that begins with "!" is an error.
type fakeTools struct {
	t       testing.TB
	mu      sync.Mutex
	results map[string][]string
	made    []string // tools that were called, in order
	errs    map[string]error
	onCall  func(name string)
	bare    bool // results without evidence
}

func (f *fakeTools) Invoke(ctx context.Context, name string, args strictjson.Value) (tools.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = append(f.made, name)
	if f.onCall != nil {
		f.onCall(name)
	}
	if err := f.errs[name]; err != nil {
		return tools.Result{}, err
	}
	list := f.results[name]
	if len(list) == 0 {
		return tools.Result{}, &tools.Error{Tool: name, Kind: tools.ErrUnavailable, Msg: "not in this test"}
	}
	if len(list) > 1 {
		f.results[name] = list[1:]
	}
	if why, bad := strings.CutPrefix(list[0], "!"); bad {
		return tools.Result{}, &tools.Error{Tool: name, Kind: tools.ErrBadArguments, Msg: why}
	}
	v := parse(f.t, list[0])
	if f.bare {
		return tools.Result{Value: v, Evidence: tools.Evidence{Family: tools.Execute, Status: tools.OK, Operator: name}}, nil
	}
	return tools.Result{Value: v, Evidence: tools.Evidence{Family: tools.Execute, Status: tools.OK, Operator: name, Parameters: args, Formula: "f(x)",
		Used: 1, Nodes: []tools.Node{{Name: name, Output: v, Valid: 1, Total: 1, Status: tools.OK}}}}, nil
}

func (f *fakeTools) count(name string) int {
	n := 0
	for _, m := range f.made {
		if m == name {
			n++
		}
	}
	return n
}

// scene is an agent with scripted model and canned tools for one task.
type scene struct {
	testing.TB
	agent  *Agent
	script *llm.Script
	tools  *fakeTools
	task   Task
	dir    string
}

// trendTask is a task whose plan is get_filelist, calc_batch_image_mean, compute_linear_trend.
var (
	trendPlan  = []string{"get_filelist", "calc_batch_image_mean", "compute_linear_trend"}
	listing    = `["a_2019-01-01.tif","a_2020-01-01.tif"]`
	trendTools = map[string][]string{"get_filelist": {listing}, "calc_batch_image_mean": {"[4.125,5.375]"}, "compute_linear_trend": {"[1.25,4.125]"}}
	listArgs   = `{"dir_path":"benchmark/data/question1"}`
	meanArgs   = `{"file_list":["benchmark/data/question1/a_2019-01-01.tif","benchmark/data/question1/a_2020-01-01.tif"]}`
	trendArgs  = `{"y":[4.125,5.375]}`
)

func planOf(tools ...string) string { return prompt.PlannerCompletion(tools) }

func planner(tools ...string) llm.Line { return llm.Line{Role: "planner", Reply: planOf(tools...)} }

// args is a reply of the executor at a step of a tool.
func args(tool, reply string) llm.Line {
	return llm.Line{Role: "executor", Contains: "# Next step\n" + tool, Reply: reply}
}

func always(l llm.Line) llm.Line { l.Repeat = true; return l }

// answers are the replies of every role that a smooth end needs.
func answers(text string) []llm.Line {
	return []llm.Line{always(llm.Line{Role: "answer", Reply: text}), always(llm.Line{Role: "controller", Reply: `{"sufficient": true}`}), always(llm.Line{Role: "checker", Reply: `{"decision": "accept"}`})}
}

func newScene(t testing.TB, lines ...llm.Line) *scene {
	config := Default
	config.Planning, config.Routing, config.Checks, config.Style = OneShot, ByRules, ByRules, prompt.Compact
	config.Models = Models{Planner: "planner-adapter", Executor: "executor-adapter", Other: "base"}
	s := &scene{TB: t, script: llm.NewScript(lines...), dir: t.TempDir() + "/run",
		tools: &fakeTools{t: t, results: map[string][]string{}, errs: map[string]error{}},
		task:  Task{ID: "question1", Question: "By how much did the nighttime light intensity increase?", Inputs: parse(t, `{"data_path":"benchmark/data/question1"}`)}}
	for k, v := range trendTools {
		s.tools.results[k] = slices.Clone(v)
	}
	s.agent = &Agent{Config: config, Model: s.script}
	return s
}

// smooth is a scene in which all goes well.
func smooth(t testing.TB) *scene {
	return newScene(t, append(answers("1.25 per year"), planner(trendPlan...), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs), args("compute_linear_trend", trendArgs))...)
}

func (s *scene) env() Environment { return Environment{Tools: s.tools} }

func (s *scene) run() *Outcome {
	s.Helper()
	o, err := s.agent.Run(context.Background(), s.task, s.env(), s.dir)
	if err != nil {
		s.Fatal(err)
	}
	return o
}

func (s *scene) events(kind memory.Kind) []memory.Event {
	s.Helper()
	events, err := memory.Read(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	return slices.DeleteFunc(events, func(e memory.Event) bool { return e.Kind != kind })
}

// asked is all text that a role was sent, one request each.
func (s *scene) asked(role string) []string {
	var out []string
	for _, r := range s.script.Asked(role) {
		var b strings.Builder
		for _, m := range r.Messages {
			fmt.Fprintf(&b, "<%s>%s\n", m.Role, m.Content)
		}
		out = append(out, b.String())
	}
	return out
}

func (s *scene) invoked(want ...string) {
	s.Helper()
	if !slices.Equal(s.tools.made, want) {
		s.Errorf("tools called: %v, want %v", s.tools.made, want)
	}
}

func (o *Outcome) must(t testing.TB, status Status) *Outcome {
	t.Helper()
	if o.Status != status {
		t.Fatalf("the run ended %s (%s), want %s", o.Status, o.Reason, status)
	}
	return o
}

func (s *scene) agentCatalogue() *catalogue.Catalogue { return catalogue.Default() }
