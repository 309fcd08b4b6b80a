package run

import (
	"slices"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/agent/verify"
)

// The run that goes well: node by node, evidence in order, an answer from M.
func TestSmoothRun(t *testing.T) {
	s := smooth(t)
	o := s.run().must(t, Answered)
	s.invoked(trendPlan...)
	if o.Answer != "1.25 per year" || len(o.State.Evidence) != 3 || s.script.Left() != 0 {
		t.Errorf("%q, %d records, %d lines left", o.Answer, len(o.State.Evidence), s.script.Left())
	}
	if r := o.State.Evidence[2]; r.Tool != "compute_linear_trend" || len(r.Provenance.Sources) != 2 || r.Provenance.Sources[0].From != "record 2" {
		t.Errorf("%+v", r)
	}
	if files := o.Trace("question1").Get("tool_calls"); files.Len() != 3 || files.Index(1).Get("decision").Text() != "accept" {
		t.Errorf("%s", files.JSON())
	}
}

// AGT-10, AGT-15: retry updates the arguments and feedback for the current tool,
// replace selects another tool of P_s; both leave the persistent state unchanged,
// and only accept commits.
func TestAGT10RetryReplaceAccept(t *testing.T) {
	s := newScene(t, append(answers("x"), planner("get_filelist", "calc_batch_image_mean"), args("get_filelist", listArgs),
		args("calc_batch_image_mean", meanArgs), args("calc_batch_image_mean", meanArgs), args("calc_batch_image_sum", meanArgs))...)
	s.agent.Config.Checks = ByModel
	s.agent.Model = llm.NewScript(append([]llm.Line{
		planner("get_filelist", "calc_batch_image_mean"), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs), args("calc_batch_image_mean", meanArgs), args("calc_batch_image_sum", meanArgs),
		{Role: "checker", Reply: `{"decision": "retry", "feedback": "leave the clouds out"}`},
		{Role: "checker", Reply: `{"decision": "replace", "tool": "calc_batch_image_sum", "feedback": "the mean is not robust"}`},
	}, answers("x")...)...)
	s.script = s.agent.Model.(*llm.Script)
	s.tools.results["calc_batch_image_sum"] = []string{"[4.0,5.0]"}
	var hashes []string
	s.agent.Progress = func(e memory.Event) {
		if e.Kind == memory.Tried || e.Kind == memory.Called && e.Node == 2 {
			events, err := memory.Read(s.dir)
			if err != nil {
				t.Fatal(err)
			}
			state, err := memory.Replay(events)
			if err != nil {
				t.Fatal(err)
			}
			hashes = append(hashes, state.Hash())
		}
	}
	o := s.run().must(t, Answered)
	s.invoked("get_filelist", "calc_batch_image_mean", "calc_batch_image_mean", "calc_batch_image_sum")
	if len(o.State.Evidence) != 2 || len(slices.Compact(hashes)) != 1 {
		t.Errorf("%d records; the state changed between attempts: %v", len(o.State.Evidence), hashes)
	}
	if n := o.State.Node(2); n.Planned != "calc_batch_image_mean" || n.Invoked != "calc_batch_image_sum" {
		t.Errorf("%+v", n)
	}
	asked := s.asked("executor")
	if !strings.Contains(asked[2], "leave the clouds out") || !strings.Contains(asked[3], "the mean is not robust") {
		t.Error("the feedback does not reach the next attempt")
	}
}

// AGT-15: a replacement outside P_s is refused.
func TestAGT15ReplacementOutsideTheCandidates(t *testing.T) {
	s := newScene(t, append([]llm.Line{planner("get_filelist", "calc_batch_image_mean"), args("get_filelist", listArgs), always(args("calc_batch_image_mean", meanArgs)),
		{Role: "checker", Reply: `{"decision": "replace", "tool": "SAM2", "feedback": "segment it"}`},
		{Role: "planner", Contains: "Name one other tool", Reply: planOf("SAM2")}}, answers("x")...)...)
	s.agent.Config.Checks = ByModel
	s.run().must(t, Answered)
	s.invoked("get_filelist", "calc_batch_image_mean", "calc_batch_image_mean")
	if tried := s.events(memory.Tried); len(tried) != 1 || !strings.Contains(tried[0].Reason, `the replacement "SAM2" is refused`) {
		t.Errorf("%+v", tried)
	}
}

// AGT-11: rejected attempts provide retry feedback for the current node and leave
// the accepted history unchanged: node 2's failed text is in its second attempt
// and in no prompt of node 3.
func TestAGT11RejectedAttemptsStayLocal(t *testing.T) {
	s := newScene(t, append(answers("x"), planner(trendPlan...), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs), args("calc_batch_image_mean", meanArgs), args("compute_linear_trend", trendArgs))...)
	s.tools.results["calc_batch_image_mean"] = []string{`"Error: the disk 4711 is gone"`, "[4.125,5.375]"}
	s.run().must(t, Answered)
	asked := s.asked("executor")
	if len(asked) != 4 || !strings.Contains(asked[2], "the disk 4711") {
		t.Fatalf("%d prompts", len(asked))
	}
	if strings.Contains(asked[3], "4711") {
		t.Error("node 3 sees what node 2 failed with")
	}
	for _, p := range append(s.asked("answer"), s.asked("controller")...) {
		if strings.Contains(p, "4711") {
			t.Error("the answer sees a rejected attempt")
		}
	}
}

// AGT-13: there is no fourth call in one visit of a node.
func TestAGT13ThreeAttempts(t *testing.T) {
	s := newScene(t, append(answers("x"), planner("get_filelist", "calc_batch_image_mean"), args("get_filelist", listArgs), always(args("calc_batch_image_mean", meanArgs)))...)
	s.agent.Config.Limits.Repairs = 0
	s.tools.results["calc_batch_image_mean"] = []string{"!no"}
	o := s.run().must(t, Incomplete)
	if n := s.tools.count("calc_batch_image_mean"); n != 3 {
		t.Errorf("%d calls", n)
	}
	if n := o.State.Node(2); n.Status != memory.Failed || !strings.Contains(n.Diagnosis, "3 attempts failed") {
		t.Errorf("%+v", n)
	}
}

// AGT-14: the gate first applies deterministic checks for structural errors, error
// marks and batch coverage; the checker evaluates what these cannot resolve.
func TestAGT14RulesBeforeTheChecker(t *testing.T) {
	bad := []llm.Line{args("calc_batch_image_mean", "no JSON"), args("calc_batch_image_mean", `{"files":[]}`)}
	s := newScene(t, append(append(bad, planner("get_filelist", "calc_batch_image_mean"), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs)), answers("x")[0])...)
	s.agent.Config.Checks, s.agent.Config.Limits.Repairs = ByModel, 0
	s.tools.results["calc_batch_image_mean"] = []string{`"Error: nothing there"`}
	o := s.run().must(t, Incomplete)
	if n := len(s.script.Asked("checker")); n != 0 {
		t.Errorf("%d calls of the checker", n)
	}
	s.invoked("get_filelist", "calc_batch_image_mean") // what has no valid arguments is not called
	if o.Errors[verify.CodeReply] != 1 || o.Errors[verify.CodeParameters] != 1 || o.Errors[verify.CodeMarker] != 1 {
		t.Errorf("%v", o.Errors)
	}
}

// AGT-14: the checker sees the question, the grounded arguments, the active skill
// and the remaining workflow.
func TestAGT14CheckerContext(t *testing.T) {
	s := smooth(t)
	s.agent.Config.Checks = ByModel
	s.run().must(t, Answered)
	asked := s.asked("checker")
	if len(asked) != 1 { // of the means; the listing and the arithmetic are decided by rules
		t.Fatalf("%d", len(asked))
	}
	for _, part := range []string{"By how much did the nighttime light intensity increase?", `"a_2020-01-01.tif`, "## Procedure", `"remaining":["compute_linear_trend"]`, "[4.125,5.375]"} {
		if !strings.Contains(asked[0], strings.TrimPrefix(part, `"`)) && !strings.Contains(asked[0], part) {
			t.Errorf("the checker does not see %s", part)
		}
	}
}

// AGT-17: after all attempts fail the final diagnosis is written to the failed
// node, and repair gets it with the node's index.
func TestAGT17DiagnosisReachesRepair(t *testing.T) {
	s := newScene(t, append(answers("x"), planner("get_filelist", "calc_batch_image_mean"), args("get_filelist", listArgs), always(args("calc_batch_image_mean", meanArgs)),
		llm.Line{Role: "planner", Contains: "# State", Reply: planOf("calc_batch_image_sum")}, args("calc_batch_image_sum", meanArgs))...)
	s.tools.results["calc_batch_image_mean"] = []string{"!the sensor was asleep"}
	s.tools.results["calc_batch_image_sum"] = []string{"[4.0,5.0]"}
	s.run().must(t, Answered)
	repair := s.asked("planner")[1]
	if !strings.Contains(repair, "Step 2 (calc_batch_image_mean) failed for good") || !strings.Contains(repair, "the sensor was asleep") {
		t.Errorf("%s", repair)
	}
}

// AGT-29: early termination exists and can be switched off.
func TestAGT29EarlyStop(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := newScene(t, append([]llm.Line{planner(trendPlan...), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs), args("compute_linear_trend", trendArgs),
			{Role: "checker", Reply: `{"decision": "accept", "done": true}`}}, answers("x")...)...)
		s.agent.Config.Checks, s.agent.Config.EarlyStop = ByModel, on
		o := s.run().must(t, Answered)
		if got := len(o.State.Nodes) == 2; got != on {
			t.Errorf("early stop %v: %d nodes", on, len(o.State.Nodes))
		}
		if !on {
			s.invoked(trendPlan...)
		}
	}
}

// AGT-30: errors are counted by kind.
func TestAGT30Counters(t *testing.T) {
	s := newScene(t, append(answers("x"), planner("get_filelist", "calc_batch_image_mean"), args("get_filelist", listArgs),
		args("calc_batch_image_mean", `{"file_list":["nowhere/z.tif"]}`), args("calc_batch_image_mean", `{"file_list":7}`), args("calc_batch_image_mean", meanArgs))...)
	o := s.run().must(t, Answered)
	if o.Errors[verify.CodeReference] != 1 || o.Errors[verify.CodeParameters] != 1 || len(o.Errors) != 2 {
		t.Errorf("%v", o.Errors)
	}
	s.invoked("get_filelist", "calc_batch_image_mean")
}

// References are resolved from provenance, never invented: a bare file name
// becomes the path of the listing, a rounded number the observed one, and a number
// that is nowhere is refused.
func TestReferencesAreResolved(t *testing.T) {
	s := newScene(t, append(answers("x"), planner(trendPlan...), args("get_filelist", listArgs),
		args("calc_batch_image_mean", `{"file_list":["a_2019-01-01.tif","a_2020-01-01.tif"]}`), args("compute_linear_trend", `{"y":[4.125,9.876]}`), args("compute_linear_trend", `{"y":[4.13,5.37512]}`))...)
	s.tools.results["calc_batch_image_mean"] = []string{"[4.128,5.37512]"}
	o := s.run().must(t, Answered)
	if got := o.State.Evidence[1].Arguments.Get("file_list").Index(0).Text(); got != "benchmark/data/question1/a_2019-01-01.tif" {
		t.Errorf("%s", got)
	}
	if got := o.State.Evidence[2].Arguments.JSON(); got != `{"y":[4.128,5.37512]}` {
		t.Errorf("%s", got)
	}
	if tried := s.events(memory.Tried); len(tried) != 1 || !strings.Contains(tried[0].Reason, "the number 9.876 is in no observation") {
		t.Errorf("%+v", tried)
	}
}

// Native tool calls give the same arguments, with the files at hand in the prompt.
func TestArgumentsByCall(t *testing.T) {
	call := func(tool, args string) llm.Line {
		return llm.Line{Role: "executor", Contains: "# Next step\n" + tool, Calls: []llm.ToolCall{{Name: tool, Arguments: args}}}
	}
	s := newScene(t, append(answers("x"), planner(trendPlan...), call("get_filelist", listArgs), call("calc_batch_image_mean", meanArgs), call("compute_linear_trend", trendArgs))...)
	s.agent.Config.Arguments = ByCall
	s.run().must(t, Answered)
	for _, r := range s.script.Asked("executor") {
		if len(r.Tools) != 1 || r.Tools[0].Schema == "" {
			t.Errorf("%+v", r.Tools)
		}
	}
}

// EVAL-15: with an oracle plan replacement, early termination, replanning and
// editing are off; grounding, calls, verification and retries are on, and a
// replace acts as a retry.
func TestEVAL15OraclePlan(t *testing.T) {
	s := newScene(t, append([]llm.Line{args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs), args("calc_batch_image_mean", meanArgs), args("compute_linear_trend", trendArgs),
		{Role: "checker", Reply: `{"decision": "replace", "tool": "calc_batch_image_sum", "feedback": "no"}`}, {Role: "checker", Reply: `{"decision": "accept", "done": true}`}}, answers("x")...)...)
	s.agent.Config.Mode, s.agent.Config.Checks = OraclePlan, ByModel
	s.task.Plan = trendPlan
	o := s.run().must(t, Answered)
	s.invoked("get_filelist", "calc_batch_image_mean", "calc_batch_image_mean", "compute_linear_trend")
	var accepted []string
	for _, r := range o.State.Evidence {
		accepted = append(accepted, r.Tool)
	}
	if !slices.Equal(accepted, trendPlan) || len(s.script.Asked("planner")) != 0 {
		t.Errorf("%v, planner asked %d times", accepted, len(s.script.Asked("planner")))
	}
}

// With an oracle plan a step that cannot be done ends the execution: nothing is
// replanned.
func TestEVAL15NoReplanning(t *testing.T) {
	s := newScene(t, append(answers("x"), args("get_filelist", listArgs), always(args("calc_batch_image_mean", meanArgs)))...)
	s.agent.Config.Mode, s.task.Plan = OraclePlan, trendPlan
	s.tools.results["calc_batch_image_mean"] = []string{"!no"}
	s.run().must(t, Incomplete)
	if len(s.script.Asked("planner")) != 0 || len(s.events(memory.Repaired)) != 0 {
		t.Error("the plan was changed")
	}
}
