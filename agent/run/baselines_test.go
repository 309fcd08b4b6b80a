package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/agent/rsure"
	"terraloom/agent/verify"
	"terraloom/data/strictjson"
)

// said is a turn of the executor without a call.
func said(text string) llm.Line { return llm.Line{Role: "executor", Reply: text} }

// critic is a scene of the CRITIC loop.
func critic(t *testing.T, lines ...llm.Line) *scene {
	s := newScene(t, lines...)
	s.agent.Config.Mode, s.agent.Config.Skills = Critic, false
	return s
}

func (s *scene) drafted() []string {
	var out []string
	for _, e := range s.events(memory.Drafted) {
		out = append(out, e.Reason)
	}
	return out
}

// EVAL-25: with CRITIC the base agent first gives an initial answer; the model then
// calls tools to check it, and where they bear it out the answer stands.
func TestCriticAccepts(t *testing.T) {
	s := critic(t, called("get_filelist", listArgs), said("1.25 nW"), called("calc_batch_image_mean", meanArgs), said(" 1.25  nW"))
	if o := s.run().must(t, Answered); o.Answer != "1.25  nW" || len(o.State.Evidence) != 2 {
		t.Errorf("%q from %d observations", o.Answer, len(o.State.Evidence))
	}
	s.invoked("get_filelist", "calc_batch_image_mean")
	asked := s.asked("executor")
	if len(asked) != 4 || strings.Contains(asked[1], critiquePrompt) || !strings.HasSuffix(asked[2], "<assistant>1.25 nW\n<user>"+critiquePrompt+"\n") || !strings.Contains(asked[3], "5.375") {
		t.Errorf("%q", asked)
	}
	if got := s.drafted(); !slices.Equal(got, []string{"1.25 nW"}) {
		t.Errorf("drafts %q", got)
	}
}

// EVAL-25: … and revises the answer based on the feedback of the tools; a revision
// is checked again.
func TestCriticRevises(t *testing.T) {
	s := critic(t, said("It fell."), called("calc_batch_image_mean", meanArgs), said("It rose by 1.25."), said("It rose by 1.25."))
	if o := s.run().must(t, Answered); o.Answer != "It rose by 1.25." {
		t.Errorf("%q", o.Answer)
	}
	if got := s.drafted(); !slices.Equal(got, []string{"It fell.", "It rose by 1.25."}) {
		t.Errorf("drafts %q", got)
	}
}

// The rounds of checking are bounded: after the last one the revision is the answer.
func TestCriticRounds(t *testing.T) {
	for rounds, want := range map[int]string{0: "a", 1: "b", 3: "d"} {
		s := critic(t, said("a"), said("b"), said("c"), said("d"), said("e"))
		s.agent.Config.Limits.Critiques = rounds
		if o := s.run().must(t, Answered); o.Answer != want || len(s.drafted()) != rounds {
			t.Errorf("%d rounds: %q after %d drafts", rounds, o.Answer, len(s.drafted()))
		}
	}
}

// The initial solution and its corrections share one budget of calls (RSure-Agent
// §5.4); where it ends during a check the model answers from what it has.
func TestCriticBudget(t *testing.T) {
	s := critic(t, called("get_filelist", listArgs), said("draft"), always(called("get_filelist", listArgs)), llm.Line{Role: "answer", Contains: critiquePrompt, Reply: "revised"})
	o := s.run().must(t, Incomplete)
	if len(s.tools.made) != rsure.DefaultLimits.Calls || o.Answer != "revised" {
		t.Errorf("%d calls, %q", len(s.tools.made), o.Answer)
	}
}

// toolsFail is a scene of the Tools Fail loop.
func toolsFail(t *testing.T, lines ...llm.Line) *scene {
	s := newScene(t, lines...)
	s.agent.Config.Mode, s.agent.Config.Skills = ToolsFail, false
	return s
}

// judged is the judge's reply to an output that holds a text.
func judged(output, reply string) llm.Line {
	return llm.Line{Role: "verifier", Contains: `"output":"` + output, Reply: reply, Repeat: true}
}

const (
	reliable   = `{"decision": "accept"}`
	unreliable = `{"decision": "reject", "feedback": "point 3: nights are not that bright"}`
)

// EVAL-25: with Tools Fail accepted observations enter the reasoning history and
// rejection feedback is returned to the planner, which adjusts its calls: it tries
// again, takes another tool, or goes on without.
func TestToolsFail(t *testing.T) {
	const bad, good = "[777.5,777.5]", "[4.125,5.375]"
	one := called("calc_batch_image_mean", meanArgs)
	for name, c := range map[string]struct {
		turns    []llm.Line
		results  []string // of calc_batch_image_mean, in turn
		made     []string
		accepted int
	}{
		"judged fine":          {[]llm.Line{one, said("x")}, []string{good}, []string{"calc_batch_image_mean"}, 1},
		"failed and retried":   {[]llm.Line{one, one, said("x")}, []string{bad, good}, []string{"calc_batch_image_mean", "calc_batch_image_mean"}, 1},
		"failed and replaced":  {[]llm.Line{one, called("compute_linear_trend", trendArgs), said("x")}, []string{bad}, []string{"calc_batch_image_mean", "compute_linear_trend"}, 1},
		"failed and left out":  {[]llm.Line{one, said("x")}, []string{bad}, []string{"calc_batch_image_mean"}, 0},
		"an error, not silent": {[]llm.Line{one, said("x")}, []string{"!no such band"}, []string{"calc_batch_image_mean"}, 0},
	} {
		s := toolsFail(t, append(c.turns, judged(bad, unreliable), judged("", reliable))...)
		s.tools.results["calc_batch_image_mean"] = c.results
		o := s.run().must(t, Answered)
		if !slices.Equal(s.tools.made, c.made) || len(o.State.Evidence) != c.accepted || o.Answer != "x" {
			t.Errorf("%s: %v, %d accepted, %q", name, s.tools.made, len(o.State.Evidence), o.Answer)
		}
		asked := s.asked("executor")
		last := asked[len(asked)-1]
		if strings.Contains(last, "777.5") || strings.Contains(last, "nights are not that bright") != (c.results[0] == bad) || strings.Contains(last, "no such band") != (c.results[0] != bad && c.results[0] != good) {
			t.Errorf("%s: the loop reads %s", name, last)
		}
		judgements := len(c.made)
		if c.results[0] != bad && c.results[0] != good {
			judgements--
		}
		if n := len(s.script.Asked("verifier")); n != judgements {
			t.Errorf("%s: %d judgements, want %d", name, n, judgements)
		}
		if o.Failed != (c.results[0] != good) || o.Errors[verify.CodeChecker] != strings.Count(strings.Join(c.results, ""), bad) {
			t.Errorf("%s: failed %v, errors %v", name, o.Failed, o.Errors)
		}
	}
}

// The judge sees image, task context and checklist, and neither evidence nor prior.
func TestToolsFailJudge(t *testing.T) {
	s := toolsFail(t, called("get_filelist", listArgs), called("calc_batch_image_mean", meanArgs), said("x"), judged("", reliable))
	e := s.env()
	s.agent.Config.Vision = true
	e.Images = func(strictjson.Value) []llm.Image { return []llm.Image{{MIME: "image/png", Data: []byte("pixels")}} }
	if _, err := s.agent.Run(context.Background(), s.task, e, s.dir); err != nil {
		t.Fatal(err)
	}
	r := s.script.Asked("verifier")[1]
	user := parse(t, r.Messages[1].Content)
	var keys []string
	for i := range user.Len() {
		keys = append(keys, user.Key(i))
	}
	if !slices.Equal(keys, []string{"question", "inputs", "earlier", "tool", "arguments", "output"}) || len(r.Messages) != 2 || len(r.Messages[1].Images) != 1 || !strings.Contains(r.Messages[0].Content, "checklist") {
		t.Errorf("%v %+v", keys, r)
	}
	if earlier := user.Get("earlier"); earlier.Len() != 1 || earlier.Index(0).Get("output").JSON() != listing || user.Get("output").Text() != "[4.125,5.375]" {
		t.Errorf("%s", user.JSON())
	}
	if r.Model != "base" {
		t.Errorf("the judge is %q", r.Model)
	}
}

// An output without a judgement is no observation; a tool that never passes is
// called until the budget ends.
func TestToolsFailBudget(t *testing.T) {
	s := toolsFail(t, always(called("calc_batch_image_mean", meanArgs)), always(llm.Line{Role: "verifier", Reply: "looks odd"}), llm.Line{Role: "answer", Reply: "I cannot tell"})
	o := s.run().must(t, Incomplete)
	if len(s.tools.made) != rsure.DefaultLimits.Calls || len(o.State.Evidence) != 0 || o.Rejected != rsure.DefaultLimits.Calls || o.Answer != "I cannot tell" {
		t.Errorf("%d calls, %d accepted, %d rejected, %q", len(s.tools.made), len(o.State.Evidence), o.Rejected, o.Answer)
	}
	if n := len(s.script.Asked("verifier")); n != 2*rsure.DefaultLimits.Calls {
		t.Errorf("%d judgements: each is asked for once more", n)
	}
}

// Both adaptations are of RSure-Base: they do not mix with the observation protocol.
func TestBaselinesWithoutProtocol(t *testing.T) {
	for _, mode := range []Mode{Critic, ToolsFail} {
		c := Default
		if c.Mode = mode; c.Validate() != nil {
			t.Errorf("%s: %v", mode, c.Validate())
		}
		c.Protocol = rsure.Deterministic
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "the protocol must be off") {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// turns is a model whose reply follows from how many turns it has taken, so that a
// run that goes on hears what it would have heard.
type turns []llm.Line

func (m turns) Chat(_ context.Context, r llm.Request) (llm.Reply, error) {
	if r.Role == "verifier" {
		if strings.Contains(r.Messages[1].Content, `"tool":"calc_batch_image_mean"`) {
			return llm.Reply{Text: unreliable}, nil
		}
		return llm.Reply{Text: reliable}, nil
	}
	n := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return llm.Reply{Text: m[n].Reply, Calls: m[n].Calls}, nil
}

// A killed loop goes on as an uninterrupted one, whatever the event it was killed at.
func TestBaselinesResume(t *testing.T) {
	for mode, model := range map[Mode]turns{
		Critic:    {called("get_filelist", listArgs), said("a"), called("calc_batch_image_mean", meanArgs), said("b"), said("b")},
		ToolsFail: {called("get_filelist", listArgs), called("calc_batch_image_mean", meanArgs), called("compute_linear_trend", trendArgs), said("b")},
	} {
		fresh := func() *scene {
			s := newScene(t)
			s.agent.Model, s.agent.Config.Mode, s.agent.Config.Skills = model, mode, false
			return s
		}
		whole := fresh()
		want := whole.run().must(t, Answered)
		all, err := memory.Read(whole.dir)
		if err != nil {
			t.Fatal(err)
		}
		for stop := 1; stop < len(all); stop++ {
			s := fresh()
			ctx, cancel := context.WithCancel(context.Background())
			seen := 0
			s.agent.Progress = func(memory.Event) {
				if seen++; seen == stop {
					cancel()
				}
			}
			if _, err := s.agent.Run(ctx, s.task, s.env(), s.dir); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatalf("%s, stopped after event %d: %v", mode, stop, err)
			}
			cancel()
			s.agent.Progress = nil
			got, err := s.agent.Resume(context.Background(), s.env(), s.dir)
			if err != nil {
				t.Fatalf("%s, stopped after event %d: %v", mode, stop, err)
			}
			if got.Answer != want.Answer || got.State.Hash() != want.State.Hash() || !slices.Equal(s.drafted(), whole.drafted()) {
				t.Errorf("%s, stopped after event %d (%s): %q, drafts %q", mode, stop, all[stop-1].Kind, got.Answer, s.drafted())
			}
		}
	}
}
