package run

import (
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/agent/rsure"
	"terraloom/agent/verify"
)

// called is a turn of the executor that calls a tool.
func called(tool, args string) llm.Line {
	return llm.Line{Role: "executor", Calls: []llm.ToolCall{{Name: tool, Arguments: args}}}
}

// EVAL-25: ReAct shares backbone, tools and budget; it stops at its limit of
// calls and leaves a trace.
func TestEVAL25ReActStopsAtItsLimit(t *testing.T) {
	s := newScene(t, always(called("get_filelist", listArgs)), llm.Line{Role: "answer", Reply: "I cannot tell"})
	s.agent.Config.Mode, s.agent.Config.Limits.ToolCalls = ReAct, 6
	o := s.run().must(t, Incomplete)
	if len(s.tools.made) != 6 || len(o.Trace("q").Get("tool_calls").Index(5).Get("name").Text()) == 0 || o.Answer != "I cannot tell" {
		t.Errorf("%v %q", s.tools.made, o.Answer)
	}
}

// ReAct reads calls that a model writes as text, and answers with its last words.
func TestReActTextCalls(t *testing.T) {
	s := newScene(t, llm.Line{Role: "executor", Reply: "Let me see.\n<tool_call>\n{\"name\": \"get_filelist\", \"arguments\": " + listArgs + "}\n</tool_call>"}, called("magic", "{}"), called("mean", "{"), llm.Line{Role: "executor", Reply: "<think>hm</think>There are two files."})
	s.agent.Config.Mode = ReAct
	o := s.run().must(t, Answered)
	s.invoked("get_filelist")
	if o.Answer != "There are two files." || o.Errors[verify.CodeTool] != 1 || o.Errors[verify.CodeReply] != 1 {
		t.Errorf("%q %v", o.Answer, o.Errors)
	}
	if _, err := s.agent.Resume(t.Context(), s.env(), s.dir); err != nil {
		t.Error(err)
	}
}

// protected is a ReAct scene under the full protocol.
func protected(t *testing.T, lines ...llm.Line) *scene {
	s := newScene(t, lines...)
	s.agent.Config.Mode, s.agent.Config.Protocol, s.agent.Config.Skills = ReAct, rsure.Full, false
	s.task.Question = "How many ships lie in the harbour?"
	return s
}

// RS-11, RS-21: an observation that does not pass never enters reasoning; h_t has
// the feedback in its place, and the answer sees accepted observations alone, in a
// context of its own (RS-22).
func TestRSTwoHistories(t *testing.T) {
	s := protected(t, called("calc_batch_image_mean", meanArgs), called("calc_batch_image_sum", meanArgs), called("calc_batch_image_hotspot_percentage", meanArgs), llm.Line{Role: "executor", Reply: "enough"},
		llm.Line{Role: "verifier", Contains: "4.125", Reply: `{"decision": "accept"}`},
		llm.Line{Role: "verifier", Contains: "777.5", Reply: `{"decision": "reject", "reason": "sums of what"}`},
		llm.Line{Role: "verifier", Contains: "0.888", Reply: `{"decision": "request_evidence", "needed": "the threshold"}`},
		llm.Line{Role: "answer", Reply: "two"})
	s.tools.results["calc_batch_image_sum"] = []string{"[777.5,777.5]"}
	s.tools.results["calc_batch_image_hotspot_percentage"] = []string{"[0.888,0.888]"}
	o := s.run().must(t, Answered)
	for k, p := range s.asked("executor") {
		if strings.Contains(p, "777.5") || strings.Contains(p, "0.888") {
			t.Errorf("turn %d reads an observation that was not accepted", k+1)
		}
		if k == 3 && (!strings.Contains(p, "reject: sums of what") || !strings.Contains(p, "request_evidence: the threshold") || !strings.Contains(p, "4.125")) {
			t.Errorf("the last turn lacks what it should read: %s", p)
		}
	}
	asked := s.asked("answer")
	if len(asked) != 1 || !strings.Contains(asked[0], "4.125") || strings.Contains(asked[0], "777.5") || strings.Contains(asked[0], "0.888") || strings.Contains(asked[0], "<assistant>") {
		t.Errorf("%v", asked)
	}
	if !o.Failed || !o.Requested || o.Rejected != 1 || o.Answer != "two" {
		t.Errorf("%+v", o)
	}
	// RS-17: the verifier sees R10 and no earlier turn.
	for _, p := range s.asked("verifier") {
		for _, part := range []string{`"task_type":"Object Counting"`, "How many ships", `"action":`, `"observation":`, `"evidence":`, `"prior":null`} {
			if !strings.Contains(p, part) {
				t.Errorf("the verifier does not see %s", part)
			}
		}
		if strings.Count(p, "calc_batch_image") > 4 || strings.Contains(p, "<assistant>") {
			t.Errorf("the verifier sees more than R10: %s", p)
		}
	}
}

// RS-19: a request allows at most K_max = 3 targeted follow-up calls; a tool that
// never gives enough is called 1 + 3 times.
func TestRS19FollowUps(t *testing.T) {
	var lines []llm.Line
	for _, n := range []string{"1", "2", "3", "4", "5", "6"} {
		lines = append(lines, called("calc_batch_image_mean", `{"file_list":["`+n+`.tif"]}`))
	}
	s := protected(t, append(lines, llm.Line{Role: "executor", Reply: "enough"}, always(llm.Line{Role: "verifier", Reply: `{"decision": "request_evidence", "needed": "more"}`}), llm.Line{Role: "answer", Reply: "unknown"})...)
	s.run().must(t, Answered)
	if n := len(s.tools.made); n != 4 {
		t.Errorf("%d calls, want 1 + 3", n)
	}
}

// RS-20: at most H_max = 10 tool calls, follow-ups and corrections included; there
// is no eleventh.
func TestRS20TenCalls(t *testing.T) {
	var lines []llm.Line
	for n := range 12 {
		lines = append(lines, called("mean", `{"x":[`+strings.Repeat("1,", n)+`2]}`))
	}
	s := protected(t, append(lines, llm.Line{Role: "answer", Reply: "x"})...)
	s.tools.results["mean"] = []string{"1.5"}
	o := s.run().must(t, Incomplete)
	if len(s.tools.made) != 10 || len(o.State.Evidence) != 10 {
		t.Errorf("%d calls, %d accepted", len(s.tools.made), len(o.State.Evidence))
	}
}

// RS-25: neither, verification without prior, full: the base passes a wrong
// observation on, the protocol does not.
func TestRS25Switches(t *testing.T) {
	for level, passes := range map[rsure.Level]bool{rsure.Off: true, rsure.Deterministic: true, rsure.Full: false} {
		s := protected(t, called("calc_batch_image_mean", meanArgs), llm.Line{Role: "executor", Reply: "x"}, always(llm.Line{Role: "verifier", Reply: `{"decision": "reject", "reason": "wrong"}`}), llm.Line{Role: "answer", Reply: "x"})
		s.agent.Config.Protocol = level
		s.run().must(t, Answered)
		asked := s.asked("executor")
		if got := strings.Contains(asked[1], "5.375"); got != passes {
			t.Errorf("%s: the wrong observation passes: %v", level, got)
		}
	}
	// The rules alone stop what lacks evidence.
	s := protected(t, called("SM3Det", `{"image_path":"a.png","text_prompt":"ship"}`), llm.Line{Role: "executor", Reply: "x"}, llm.Line{Role: "answer", Reply: "x"})
	s.agent.Config.Protocol = rsure.Deterministic
	s.tools.results["SM3Det"] = []string{"[[1,2,3,4]]"}
	s.tools.bare = true
	s.run().must(t, Answered)
	if asked := s.asked("executor"); !strings.Contains(asked[1], "evidence src.formula is missing") || strings.Contains(asked[1], "[[1,2,3,4]]") {
		t.Errorf("%s", asked[1])
	}
}

// RS-24: in the workflow an accept is an accept, a request for evidence a retry,
// a rejection a replacement, and what the gate refuses a retry.
func TestRS24Join(t *testing.T) {
	for _, c := range []struct {
		j    rsure.Judgement
		want verify.Decision
	}{
		{rsure.Judgement{Decision: rsure.Accept, Rules: true}, verify.Accept},
		{rsure.Judgement{Decision: rsure.Request, Rules: true, Feedback: "f"}, verify.Retry},
		{rsure.Judgement{Decision: rsure.Reject, Rules: true, Feedback: "f"}, verify.Replace},
		{rsure.Judgement{Decision: rsure.Reject, Feedback: "f"}, verify.Retry},
	} {
		if v := Join(c.j); v.Decision != c.want || v.Feedback != c.j.Feedback {
			t.Errorf("%+v: %+v", c.j, v)
		}
	}
	// In a run: a request leads to a second attempt with what is needed in its prompt.
	s := newScene(t, append(answers("x"), planner("get_filelist", "calc_batch_image_mean"), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs),
		args("calc_batch_image_mean", `{"file_list":["benchmark/data/question1/a_2019-01-01.tif"]}`),
		llm.Line{Role: "verifier", Reply: `{"decision": "request_evidence", "needed": "the first year alone"}`}, llm.Line{Role: "verifier", Reply: `{"decision": "accept"}`})...)
	s.agent.Config.Protocol = rsure.Full
	o := s.run().must(t, Answered)
	if asked := s.asked("executor"); len(asked) != 3 || !strings.Contains(asked[2], "the first year alone") {
		t.Errorf("%d prompts", len(asked))
	}
	if !o.Requested || !o.AcceptedLater || len(s.events(memory.Tried)) != 1 {
		t.Errorf("%+v", o)
	}
}
