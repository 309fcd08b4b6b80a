package run

import (
	"os"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
)

// AGT-27: incomplete evidence produces an actionable diagnosis, after which the
// Executor reopens the specified node; with none specified, the final node.
func TestAGT27Reopening(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		node  int
	}{
		"named":     {`{"sufficient": false, "diagnosis": "the means hold clouds", "step": 2}`, 2},
		"not named": {`{"sufficient": false, "diagnosis": "the trend must be robust", "step": null}`, 3},
	} {
		s := newScene(t, append([]llm.Line{planner(trendPlan...), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs), args("compute_linear_trend", trendArgs),
			{Role: "controller", Reply: c.reply}, {Role: "planner", Contains: "# State", Reply: planOf("calc_batch_image_sum", "compute_linear_trend")},
			args("calc_batch_image_sum", meanArgs), args("compute_linear_trend", trendArgs)}, answers("x")...)...)
		s.agent.Config.Checks = ByModel
		s.tools.results["calc_batch_image_sum"] = []string{"[4.125,5.375]"}
		o := s.run().must(t, Answered)
		if r := o.State.Archive; len(r) != 1 || r[0].At != c.node {
			t.Errorf("%s: %+v", name, r)
		}
		if s.tools.count("get_filelist") != 1 || s.tools.count("calc_batch_image_sum") != 1 || len(o.Gaps) != 1 {
			t.Errorf("%s: %v, gaps %v", name, s.tools.made, o.Gaps)
		}
		if repair := s.asked("planner")[1]; !strings.Contains(repair, strings.Split(c.reply, `"`)[5]) {
			t.Errorf("%s: the diagnosis does not reach the Planner", name)
		}
	}
}

// A gap that cannot be closed within the limits gives an answer from what there
// is, marked incomplete.
func TestGapThatStaysOpen(t *testing.T) {
	s := newScene(t, append([]llm.Line{always(llm.Line{Role: "controller", Reply: `{"sufficient": false, "diagnosis": "more is needed"}`})}, append(answers("from what there is"), planner("get_filelist", "mean"), args("get_filelist", listArgs), args("mean", `{"x":[1,2]}`))...)...)
	s.agent.Config.Checks, s.agent.Config.Limits.Repairs = ByModel, 0
	s.tools.results["mean"] = []string{"1.5"}
	if o := s.run().must(t, Incomplete); o.Answer != "from what there is" || !strings.Contains(o.Reason, "more is needed") {
		t.Errorf("%+v", o)
	}
}

// AGT-28: the final answer is generated only from M: a rejected value is in no
// prompt of the answer.
func TestAGT28AnswerFromEvidence(t *testing.T) {
	s := newScene(t, append([]llm.Line{planner(trendPlan...), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs), args("calc_batch_image_mean", meanArgs), args("compute_linear_trend", trendArgs),
		{Role: "checker", Reply: `{"decision": "retry", "feedback": "that is not plausible"}`}}, answers("x")...)...)
	s.agent.Config.Checks = ByModel
	s.tools.results["calc_batch_image_mean"] = []string{"[999.25,999.5]", "[4.125,5.375]"}
	s.run().must(t, Answered)
	asked := s.asked("answer")
	if len(asked) != 1 || strings.Contains(asked[0], "999") || !strings.Contains(asked[0], "5.375") {
		t.Errorf("%v", asked)
	}
	if strings.Contains(asked[0], "assistant") {
		t.Error("the answer has earlier turns in its context")
	}
}

// By rule the answer is the last accepted number with the task's unit, and no model
// is asked for it.
func TestAnswerByRule(t *testing.T) {
	s := smooth(t)
	s.agent.Config.Answers, s.task.Unit = ByRules, "nW per year"
	if o := s.run().must(t, Answered); o.Answer != "1.25 nW per year" || len(s.script.Asked("answer")) != 0 {
		t.Errorf("%q", o.Answer)
	}
	s = newScene(t, planner("get_filelist"), always(args("get_filelist", "no")))
	s.agent.Config.Answers, s.agent.Config.Limits.Repairs = ByRules, 0
	if o := s.run().must(t, Incomplete); o.Answer != "" {
		t.Errorf("without evidence: %q", o.Answer)
	}
}

// The controller's rules come before its model.
func TestControllerRulesFirst(t *testing.T) {
	s := smooth(t)
	s.agent.Config.Checks, s.agent.Config.Limits.Repairs = ByModel, 0
	s.task.Question = "How did the nighttime light intensity develop in the years 2019 to 2021?"
	o := s.run().must(t, Incomplete)
	if !strings.Contains(o.Reason, "2021") || len(s.script.Asked("controller")) != 0 {
		t.Errorf("%s; controller asked %d times", o.Reason, len(s.script.Asked("controller")))
	}
}

// A model that does not answer ends the run as failed, and the run can go on later.
func TestModelAway(t *testing.T) {
	s := newScene(t, planner(trendPlan...), args("get_filelist", listArgs), llm.Line{Role: "executor", Error: "500"})
	if o := s.run().must(t, Broken); !strings.Contains(o.Reason, "500") {
		t.Errorf("%s", o.Reason)
	}
	s.agent.Model = llm.NewScript(append(answers("later"), args("calc_batch_image_mean", meanArgs), args("compute_linear_trend", trendArgs))...)
	o, err := s.agent.Resume(t.Context(), s.env(), s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if o.must(t, Answered).Answer != "later" || s.tools.count("get_filelist") != 1 {
		t.Errorf("%q, %v", o.Answer, s.tools.made)
	}
}

// AGT-9, AGT-16: accept commits node result and evidence together, in one line of
// the journal: cut anywhere, it leaves both or neither.
func TestAGT16AcceptIsOneLine(t *testing.T) {
	s := smooth(t)
	s.run()
	path := s.dir + "/" + memory.JournalFile
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= len(text); cut += 7 {
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, events, err := memory.Open(s.dir)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		state, err := memory.Replay(events)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if state == nil {
			continue
		}
		accepted := 0
		for _, n := range state.Nodes {
			if n.Status == memory.Accepted {
				accepted++
			}
		}
		if accepted != len(state.Evidence) {
			t.Fatalf("cut at %d: %d nodes accepted, %d records", cut, accepted, len(state.Evidence))
		}
	}
}

// shared is the folder of the real data; the test is skipped where it is missing.
func shared(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("TERRALOOM_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no real data: %v; set TERRALOOM_SHARED", err)
	}
	return dir
}
