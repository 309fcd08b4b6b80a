package run

import (
	"os"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/agent/rsure"
	"terraloom/agent/verify"
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

// RS-23: the mean of June to August is accepted as what it is, local evidence, and
// keeps its coverage; the gap in a task of June to September stays open, and the
// answer controller names September (AGT-26).
func TestRS23LocalEvidenceLeavesTheGap(t *testing.T) {
	const files = `["benchmark/data/question1/lst_2020-06-01.tif","benchmark/data/question1/lst_2020-07-01.tif","benchmark/data/question1/lst_2020-08-01.tif"]`
	s := newScene(t, planner("get_filelist", "calc_batch_image_mean", "mean"), args("get_filelist", listArgs), args("calc_batch_image_mean", `{"file_list":`+files+`}`), args("mean", `{"x":[301.25,302.5,303.75]}`),
		always(llm.Line{Role: "verifier", Reply: `{"decision": "accept"}`}), llm.Line{Role: "answer", Reply: "302.5 K from June to August; September is missing"})
	s.task.Question = "What was the mean temperature from June to September 2020?"
	s.agent.Config.Protocol, s.agent.Config.Limits.Repairs = rsure.Full, 0
	s.tools.results = map[string][]string{"get_filelist": {`["lst_2020-06-01.tif","lst_2020-07-01.tif","lst_2020-08-01.tif"]`}, "calc_batch_image_mean": {"[301.25,302.5,303.75]"}, "mean": {"302.5"}}
	o := s.run().must(t, Incomplete)
	if m := o.State.Evidence; len(m) != 3 || m[1].Arguments.Get("file_list").JSON() != files || m[2].Observation.JSON() != "302.5" {
		t.Errorf("the local evidence is not kept: %+v", m)
	}
	if n := len(s.script.Asked("verifier")); n != 1 || len(s.events(memory.Tried)) != 0 || o.Failed {
		t.Errorf("%d verifications, %d calls not accepted", n, len(s.events(memory.Tried)))
	}
	if want := []string{verify.DefectCoverage + ": the files used lack September"}; !slices.Equal(o.Gaps, want) || o.Reason != want[0] {
		t.Errorf("gaps %q, reason %q, want %q", o.Gaps, o.Reason, want)
	}
	if asked := s.asked("answer"); len(asked) != 1 || !strings.Contains(asked[0], "lst_2020-08-01.tif") || !strings.Contains(asked[0], "302.5") {
		t.Errorf("the answer does not see the evidence with its coverage: %q", asked)
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
