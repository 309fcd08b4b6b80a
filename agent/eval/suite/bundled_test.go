package suite

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"terraloom/agent/environment"
	"terraloom/agent/eval"
	"terraloom/agent/llm"
	"terraloom/agent/rsure"
	"terraloom/agent/run"
	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// perfect answers every role from the reference trajectories.
type perfect []*data.Trajectory

func (p perfect) Chat(_ context.Context, r llm.Request) (llm.Reply, error) {
	text := r.Messages[1].Content
	for _, t := range p {
		if !strings.Contains(text, "# Question\n"+t.Query+"\n") && !strings.Contains(text, string(strictjson.AppendString([]byte(`"question":`), t.Query))) {
			continue
		}
		reply := "?"
		switch r.Role {
		case "planner":
			names := make([]string, len(t.Steps))
			for i, s := range t.Steps {
				names[i] = s.Tool
			}
			reply = prompt.PlannerCompletion(names)
		case "executor":
			reply = t.Steps[strings.Count(text, "\nobservation: ")].Arguments.JSON()
		case "answer":
			reply = t.Answer.Get("text").Text()
		}
		return llm.Reply{Text: reply, Usage: llm.Usage{Prompt: 1, Completion: 1}, Tries: 1}, nil
	}
	return llm.Reply{}, llm.ErrScript
}

// open is the bundled environment for a suite.
func bundled(t testing.TB) func(context.Context, *data.Trajectory, string) (run.Environment, func() error, error) {
	env, err := environment.OpenBundled(environment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context, _ *data.Trajectory, _ string) (run.Environment, func() error, error) {
		session, err := env.Session(ctx, "")
		if err != nil {
			return run.Environment{}, nil, err
		}
		w, err := workspace.Open(session.Dir(), workspace.DefaultLimits)
		if err != nil {
			return run.Environment{}, nil, err
		}
		return run.Environment{Tools: fixed{session}, Exists: func(p string) bool { _, err := w.Find(p); return err == nil }},
			func() error { return errors.Join(w.Close(), session.Close()) }, nil
	}
}

type fixed struct{ *environment.Session }

func (f fixed) Invoke(_ context.Context, name string, args strictjson.Value) (tools.Result, error) {
	return f.Session.Invoke(name, args)
}

// A model that knows the references gets them through the whole agent unchanged:
// the validator takes their plans, the gate and the protocol's rules take their
// observations, references to files and numbers stay what they are, and the
// controller finds the evidence sufficient.
func TestReferencesPassTheAgent(t *testing.T) {
	res, err := data.Seeds("ow")
	if err != nil {
		t.Fatal(err)
	}
	var questions []*data.Trajectory
	for i, q := range res.Trajectories {
		if stride := 24; os.Getenv("TERRALOOM_ALL_SEEDS") != "" || i%stride == 0 { // all of them take minutes
			questions = append(questions, q)
		}
	}
	s := newSuite(t, perfect(questions), questions)
	s.Open = bundled(t)
	for _, level := range []rsure.Level{rsure.Off, rsure.Deterministic} {
		for _, mode := range []run.Mode{run.OraclePlan, run.EndToEnd} {
			if testing.Short() && mode == run.EndToEnd {
				continue
			}
			cell := Cell{"ow", mode, None, mode == run.OraclePlan, level}
			scored := must[[]*eval.Scored](t)(s.Run(context.Background(), []Cell{cell}))[0]
			sum := scored.Summary
			if sum.TEM != 1 || *sum.Param != 1 || sum.BenchmarkAccuracy != 1 {
				t.Errorf("%s: TEM %v, Param %v, accuracy %v", cell.Name(), sum.TEM, *sum.Param, sum.BenchmarkAccuracy)
				text, _ := os.ReadFile(s.Out + "/" + cell.Name() + "/" + RecordsFile)
				for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
					if v := parse(t, line); v.Get("status").Text() != string(run.Answered) {
						t.Logf("%s %s: %.400s", v.Get("question").Text(), v.Get("status").Text(), v.Get("result").Get("reason").Text())
					}
				}
			}
		}
	}
}

// DATA-14: the prompts that the agent sends are those of training, byte for byte:
// what the extractor would write for the reference's node is what the executor is
// asked after the agent's own accepted steps, and the planner likewise.
func TestDATA14PromptsAreThoseOfTraining(t *testing.T) {
	res, err := data.Seeds("ow")
	if err != nil {
		t.Fatal(err)
	}
	var questions []*data.Trajectory
	for i, q := range res.Trajectories {
		if i%41 == 0 {
			questions = append(questions, q)
		}
	}
	model := &checking{perfect: questions, t: t}
	s := newSuite(t, model, questions)
	s.Agent.Config.Style = prompt.Full
	s.Open = bundled(t)
	must[[]*eval.Scored](t)(s.Run(context.Background(), []Cell{{"ow", run.OraclePlan, None, true, rsure.Off}}))
	steps := 0
	for _, q := range questions {
		steps += len(q.Steps)
	}
	if int(model.executor.Load()) != steps {
		t.Errorf("%d executor prompts for %d steps", model.executor.Load(), steps)
	}
}

// checking compares the executor's prompts with those of training.
type checking struct {
	perfect
	t        *testing.T
	executor atomic.Int64
}

func (c *checking) Chat(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if r.Role == "executor" {
		c.executor.Add(1)
		for _, q := range c.perfect {
			if !strings.Contains(r.Messages[1].Content, "# Question\n"+q.Query+"\n") {
				continue
			}
			names := make([]string, len(q.Steps))
			for i, s := range q.Steps {
				names[i] = s.Tool
			}
			skill := skills.Route(skills.Default(), q.Query, names)
			task := prompt.Task{Query: q.Query, Inputs: q.Inputs, Guidance: prompt.Guidance{Skill: skill.Name, Text: skill.Guidance}}
			i := strings.Count(r.Messages[1].Content, "\nobservation: ")
			found, err := catalogue.Default().Resolve(names[i])
			if err != nil {
				return llm.Reply{}, err
			}
			want := prompt.Executor(prompt.Full, task, prompt.Tool{Name: names[i], Spec: found.Tool}, q.Steps[:i])
			if len(r.Messages) != len(want) || r.Messages[0].Content != want[0].Content || r.Messages[1].Content != want[1].Content {
				c.t.Errorf("%s step %d: the agent asks\n%s\nwant\n%s", q.ID, i+1, r.Messages[1].Content, want[1].Content)
			}
		}
	}
	return c.perfect.Chat(ctx, r)
}
