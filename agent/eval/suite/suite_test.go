package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"terraloom/agent/eval"
	"terraloom/agent/eval/report"
	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/agent/rsure"
	"terraloom/agent/run"
	"terraloom/agent/tools"
	"terraloom/data"
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

// sums are n questions about the mean of two numbers and its double.
func sums(t testing.TB, n int) []*data.Trajectory {
	var out []*data.Trajectory
	for i := range n {
		mean := float64(i) + 0.5
		out = append(out, &data.Trajectory{ID: fmt.Sprintf("sum-%03d", i), SeedID: fmt.Sprintf("sum-%03d", i), Source: "own", Domain: "products", Regime: "ap",
			Query:  fmt.Sprintf("Case %03d: what is the average of the values %d and %d, times two?", i, i, i+1),
			Inputs: parse(t, "{}"), Provenance: parse(t, "{}"), Answer: parse(t, fmt.Sprintf(`{"text":"%v mm"}`, 2*mean)),
			Steps: []data.Step{
				{Tool: "mean", Arguments: parse(t, fmt.Sprintf(`{"x":[%d,%d]}`, i, i+1)), Observation: strictjson.Float(mean)},
				{Tool: "division", Arguments: parse(t, fmt.Sprintf(`{"a":0.5,"b":%v}`, strictjson.FormatFloat(mean))), Observation: strictjson.Float(2 * mean)},
			}})
	}
	return out
}

// oracle answers every prompt about sums rightly where its role has its adapter,
// and wrongly in the base: a planner without adapter plans one step, an executor
// without gives other numbers.
type oracle struct {
	mu    sync.Mutex
	asked map[string]int // by model and role
	fail  func(r *llm.Request) error
}

func (o *oracle) Chat(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if err := ctx.Err(); err != nil {
		return llm.Reply{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked == nil {
		o.asked = map[string]int{}
	}
	o.asked[r.Role+" "+r.Model]++
	if o.fail != nil {
		if err := o.fail(&r); err != nil {
			return llm.Reply{}, err
		}
	}
	return llm.Reply{Text: o.text(&r), Usage: llm.Usage{Prompt: 10, Completion: 5}, Tries: 1}, nil
}

func (o *oracle) text(r *llm.Request) string {
	all := ""
	for _, m := range r.Messages {
		all += m.Content + "\n"
	}
	var i int
	if _, err := fmt.Sscanf(all[strings.Index(all, "Case "):], "Case %d:", &i); err != nil {
		return "?"
	}
	mean := strictjson.FormatFloat(float64(i) + 0.5)
	switch {
	case r.Role == "planner" && r.Model == "tuned-planner":
		return prompt.PlannerCompletion([]string{"mean", "division"})
	case r.Role == "planner":
		return prompt.PlannerCompletion([]string{"mean"})
	case r.Role == "executor" && strings.Contains(all, "# Next step\nmean") && r.Model == "tuned-executor":
		return fmt.Sprintf(`{"x":[%d,%d]}`, i, i+1)
	case r.Role == "executor" && strings.Contains(all, "# Next step\ndivision") && r.Model == "tuned-executor":
		return fmt.Sprintf(`{"a":0.5,"b":%s}`, mean)
	case r.Role == "executor" && strings.Contains(all, "# Next step\nmean"):
		return fmt.Sprintf(`{"x":[%d]}`, i)
	case r.Role == "executor":
		return `{"a":0.5,"b":7}`
	case r.Role == "answer":
		at := strings.LastIndex(all, `"observation":`)
		if at < 0 {
			return "nothing"
		}
		value, _, _ := strings.Cut(all[at+len(`"observation":`):], "}")
		return value + " mm"
	}
	return "?"
}

func newSuite(t testing.TB, m llm.Model, questions []*data.Trajectory) *Suite {
	kit, err := tools.New(tools.Correct)
	if err != nil {
		t.Fatal(err)
	}
	config := run.Default
	config.Planning, config.Routing, config.Checks, config.Style = run.OneShot, run.ByRules, run.ByRules, prompt.Compact
	return &Suite{Out: t.TempDir(), Agent: run.Agent{Config: config, Model: m}, Names: Names{"base", "tuned-planner", "tuned-executor"}, Workers: 4,
		Questions: map[string][]*data.Trajectory{"ap": questions, "if": questions, "ow": questions},
		Open: func(context.Context, *data.Trajectory, string) (run.Environment, func() error, error) {
			return run.Environment{Tools: kit}, func() error { return nil }, nil
		}}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// EVAL-14 to EVAL-16: planning-only shows what the planner adapter gives, the
// oracle plan and the arguments alone what the executor adapter gives, and the four
// compositions differ in nothing but their adapters.
func TestCompositions(t *testing.T) {
	m := &oracle{}
	s := newSuite(t, m, sums(t, 10))
	cells := must[[]Cell](t)(Cells([]string{"ap"}, []run.Mode{run.PlanningOnly, run.OraclePlan, run.EndToEnd, ArgumentsOnly}, []Composition{None, Planner, Executor, Both}, []bool{false}, []rsure.Level{rsure.Off}))
	scores := must[[]*eval.Scored](t)(s.Run(context.Background(), cells))
	if len(scores) != 16 {
		t.Fatalf("%d cells", len(scores))
	}
	for i, c := range cells {
		sum := scores[i].Summary
		planner, executor := c.Composition == Planner || c.Composition == Both, c.Composition == Executor || c.Composition == Both
		want := func(what string, got float64, good bool) {
			if (got == 1) != good {
				t.Errorf("%s: %s is %v", c.Name(), what, got)
			}
		}
		switch c.Mode {
		case run.PlanningOnly:
			want("TEM", sum.TEM, planner)
			if sum.Param != nil || scores[i].Setting != eval.PlanningOnly {
				t.Errorf("%s: %+v", c.Name(), sum)
			}
		case run.OraclePlan, ArgumentsOnly:
			want("Param", *sum.Param, executor)
			want("TEM", sum.TEM, true)
			if c.Mode == run.OraclePlan {
				want("accuracy", sum.Accuracy, executor)
			}
		case run.EndToEnd:
			want("accuracy", sum.Accuracy, planner && executor)
		}
		if sum.Questions != 10 || scores[i].Regime != "ap" {
			t.Errorf("%s: %d questions, regime %q", c.Name(), sum.Questions, scores[i].Regime)
		}
	}
}

// EVAL-1: the regimes run on matched ids with one scorer.
func TestEVAL1MatchedRegimes(t *testing.T) {
	s := newSuite(t, &oracle{}, sums(t, 3))
	scores := must[[]*eval.Scored](t)(s.Run(context.Background(), must[[]Cell](t)(Cells([]string{"if", "ap", "ow"}, []run.Mode{run.EndToEnd}, []Composition{Both}, []bool{false}, []rsure.Level{rsure.Off}))))
	for i, regime := range []string{"if", "ap", "ow"} {
		if scores[i].Regime != regime || len(scores[i].Records) != 3 || scores[i].Records[0].Question != "sum-000" {
			t.Errorf("%+v", scores[i])
		}
	}
}

// A failed question stays in the denominator and is listed.
func TestFailuresStay(t *testing.T) {
	m := &oracle{fail: func(r *llm.Request) error {
		if strings.Contains(r.Messages[len(r.Messages)-1].Content, "Case 003") && r.Role == "executor" {
			return fmt.Errorf("%w: 500", llm.ErrUnavailable)
		}
		return nil
	}}
	s := newSuite(t, m, sums(t, 5))
	open := s.Open
	s.Open = func(ctx context.Context, q *data.Trajectory, dir string) (run.Environment, func() error, error) {
		if q.ID == "sum-001" {
			return run.Environment{}, nil, errors.New("no disk")
		}
		return open(ctx, q, dir)
	}
	scored := must[[]*eval.Scored](t)(s.Run(context.Background(), []Cell{{"ap", run.EndToEnd, Both, false, rsure.Off}}))[0]
	if scored.Summary.Questions != 5 || scored.Summary.Accuracy != .6 || !slices.Equal(scored.Summary.Failed, []string{"sum-001", "sum-003"}) {
		t.Errorf("%+v", scored.Summary)
	}
}

// An interrupted evaluation goes on: no question is lost and none is done twice.
func TestResume(t *testing.T) {
	m := &oracle{}
	s := newSuite(t, m, sums(t, 20))
	cell := Cell{"ap", run.EndToEnd, Both, false, rsure.Off}
	for stop := 3; ; stop += 4 {
		ctx, cancel := context.WithCancel(context.Background())
		seen := 0
		s.Progress = func(p Progress) {
			if seen++; seen == stop {
				cancel()
			}
		}
		scores, err := s.Run(ctx, []Cell{cell})
		cancel()
		if err == nil {
			if sum := scores[0].Summary; sum.Questions != 20 || sum.Accuracy != 1 {
				t.Errorf("%+v", sum)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		// A kill can leave half a line.
		name := filepath.Join(s.Out, cell.Name(), RecordsFile)
		f := must[*os.File](t)(os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0))
		if _, err := f.WriteString(`{"question":"sum-`); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(must[[]byte](t)(os.ReadFile(filepath.Join(s.Out, cell.Name(), RecordsFile))))), "\n")
	seen := map[string]bool{}
	for _, l := range lines {
		seen[parse(t, l).Get("question").Text()] = true
	}
	if len(lines) != 20 || len(seen) != 20 {
		t.Errorf("%d records of %d questions", len(lines), len(seen))
	}
	asked := m.asked["planner tuned-planner"]
	s.Progress = nil
	must[[]*eval.Scored](t)(s.Run(context.Background(), []Cell{cell}))
	if m.asked["planner tuned-planner"] != asked {
		t.Error("a finished evaluation asks the model again")
	}
	s.Agent.Config.Limits.Attempts = 2
	if _, err := s.Run(context.Background(), []Cell{cell}); !errors.Is(err, ErrRecords) {
		t.Errorf("other settings in the same folder: %v", err)
	}
}

// Two evaluations do not write one folder.
func TestLock(t *testing.T) {
	s := newSuite(t, &oracle{}, sums(t, 1))
	cell := Cell{"ap", run.EndToEnd, Both, false, rsure.Off}
	dir := filepath.Join(s.Out, cell.Name())
	r, err := openRecords(dir, &about{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if _, err := s.Run(context.Background(), []Cell{cell}); !errors.Is(err, ErrLocked) {
		t.Errorf("%v", err)
	}
}

func TestBadCells(t *testing.T) {
	for _, f := range []func() ([]Cell, error){
		func() ([]Cell, error) {
			return Cells([]string{"xx"}, []run.Mode{run.EndToEnd}, []Composition{None}, []bool{true}, []rsure.Level{rsure.Off})
		},
		func() ([]Cell, error) {
			return Cells([]string{"ap"}, []run.Mode{"fast"}, []Composition{None}, []bool{true}, []rsure.Level{rsure.Off})
		},
		func() ([]Cell, error) {
			return Cells([]string{"ap"}, []run.Mode{run.EndToEnd}, []Composition{"all"}, []bool{true}, []rsure.Level{rsure.Off})
		},
		func() ([]Cell, error) {
			return Cells([]string{"ap"}, []run.Mode{run.EndToEnd}, []Composition{None}, []bool{true}, []rsure.Level{"half"})
		},
	} {
		if _, err := f(); !errors.Is(err, ErrSuite) {
			t.Errorf("%v", err)
		}
	}
	s := newSuite(t, &oracle{}, nil)
	if _, err := s.Run(context.Background(), []Cell{{"ap", run.EndToEnd, None, true, rsure.Off}}); !errors.Is(err, ErrSuite) {
		t.Errorf("no question: %v", err)
	}
}

// Every question leaves a journal that replays to its state.
func TestJournalsStay(t *testing.T) {
	s := newSuite(t, &oracle{}, sums(t, 2))
	cell := Cell{"ap", run.EndToEnd, Both, false, rsure.Off}
	must[[]*eval.Scored](t)(s.Run(context.Background(), []Cell{cell}))
	events, err := memory.Read(filepath.Join(s.Out, cell.Name(), "questions", "sum-001"))
	if err != nil {
		t.Fatal(err)
	}
	state, err := memory.Replay(events)
	if err != nil || len(state.Evidence) != 2 {
		t.Errorf("%+v, %v", state, err)
	}
}

// tireless calls one tool again and again, whatever it returns.
type tireless struct{}

func (tireless) Chat(_ context.Context, r llm.Request) (llm.Reply, error) {
	switch r.Role {
	case "executor":
		var i int
		if _, err := fmt.Sscanf(r.Messages[1].Content, "# Question\nCase %d:", &i); err != nil {
			return llm.Reply{}, err
		}
		return llm.Reply{Calls: []llm.ToolCall{{Name: "mean", Arguments: fmt.Sprintf(`{"x":[%d,%d]}`, i, i+1)}}}, nil
	case "verifier":
		return llm.Reply{Text: `{"decision": "accept"}`}, nil
	}
	return llm.Reply{Text: "I cannot tell"}, nil
}

// EVAL-25: the baseline loops share backbone, tools and budget; on a scripted model
// each stops at its step limit and is scored with EVAL-3 to EVAL-7, and report and
// comparison name it.
func TestEVAL25LoopsStopAndScore(t *testing.T) {
	s := newSuite(t, tireless{}, sums(t, 3))
	modes := []run.Mode{run.ReAct, run.Critic, run.ToolsFail}
	scores := must[[]*eval.Scored](t)(s.Run(context.Background(), must[[]Cell](t)(Cells([]string{"ap"}, modes, []Composition{None}, []bool{true, false}, []rsure.Level{rsure.Off}))))
	if len(scores) != 2*len(modes) {
		t.Fatalf("%d cells", len(scores))
	}
	page := must[*report.Report](t)(report.New(scores)).Markdown()
	for i, scored := range scores {
		mode := string(modes[i/2])
		// The reference is mean, division; the trace is mean ten times.
		if m := scored.Summary; m.TAO != .5 || m.TIO != .5 || m.TEM != .5 || *m.Param != .5 || *m.Efficiency != float64(rsure.DefaultLimits.Calls)/2 || scored.Setting != eval.EndToEnd {
			t.Errorf("%s: %+v", scored.Run, m)
		}
		if !strings.HasPrefix(scored.Run, mode+"_none_") || !strings.Contains(page, "| "+scored.Run+" | end-to-end |") || !strings.Contains(page, "| "+scored.Run+" | ours |") {
			t.Errorf("the report does not name %s", scored.Run)
		}
		// EVAL-22, EVAL-23: ten calls, one that is not made, and the answer; Tools Fail
		// judges each output besides.
		const plain = 10 + 1 + 1
		calls := float64(plain)
		if modes[i/2] == run.ToolsFail {
			calls += float64(rsure.DefaultLimits.Calls)
		}
		if cost, funnel := scored.Summary.Cost, scored.Summary.Funnel; cost == nil || funnel == nil || cost.Questions != 3 || cost.ModelCalls != calls || funnel.Failed != (eval.Stage{Count: 0, Of: 3}) {
			t.Errorf("%s: cost %+v, funnel %+v", scored.Run, cost, funnel)
		}
		if !strings.Contains(page, fmt.Sprintf("| %s | %.3f | 0 |", scored.Run, calls)) {
			t.Errorf("the report does not give the cost of %s", scored.Run)
		}
		c := must[*eval.Comparison](t)(eval.Compare(scores[0], scored, 1, 10))
		at := slices.IndexFunc(c.Differences, func(d eval.Difference) bool { return d.Metric == "model_calls" })
		if c.B != scored.Run || at < 0 || c.Differences[at].Mean != calls-plain {
			t.Errorf("the comparison of %q: %+v", c.B, c.Differences)
		}
	}
	// A cell that cannot run is refused before the first one costs anything.
	s.Out = t.TempDir()
	if _, err := s.Run(context.Background(), must[[]Cell](t)(Cells([]string{"ap"}, modes, []Composition{None}, []bool{false}, []rsure.Level{rsure.Full}))); !errors.Is(err, ErrSuite) || !strings.Contains(err.Error(), "critic") {
		t.Errorf("%v", err)
	}
	if entries := must[[]os.DirEntry](t)(os.ReadDir(s.Out)); len(entries) != 0 {
		t.Errorf("%v were begun", entries)
	}
}
