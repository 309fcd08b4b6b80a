package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/agent/rsure"
	"terraloom/agent/tools"
	"terraloom/agent/verify"
	"terraloom/data/catalogue"
	"terraloom/data/plan"
	"terraloom/data/prompt"
	"terraloom/data/strictjson"
)

// try is one attempt at a node: what the executor wrote, and what was said to it.
type try struct {
	tool, reply, feedback string
}

// visit carries out node i: up to Limits.Attempts attempts, the first with the
// planned tool. It returns with the node accepted, or ok false and the last
// diagnosis. Rejected attempts are feedback for this node and nothing else.
func (r *runner) visit(i int) (ok bool, diagnosis string, err error) {
	tool := r.state.Node(i).Planned
	tries := r.resumed
	r.resumed = nil
	if n := len(tries); n > 0 {
		tool = tries[n-1].tool
		diagnosis = tries[n-1].feedback
		if r.nextTool != "" {
			tool, r.nextTool = r.nextTool, ""
		}
	}
	for attempt := len(tries) + 1; attempt <= r.config.Limits.Attempts; attempt++ {
		c, v, err := r.attempt(i, attempt, tool, tries)
		if err != nil {
			return false, "", err
		}
		if v.Decision == verify.Accept {
			return true, "", r.accept(i, c, v.Done)
		}
		next := tool
		if v.Decision == verify.Replace {
			if r.config.Mode == OraclePlan {
				v.Decision = verify.Retry // the plan is fixed
			} else if attempt < r.config.Limits.Attempts {
				if next, v.Feedback, err = r.replacement(i, tool, v, tries); err != nil {
					return false, "", err
				}
			}
		}
		if err := r.tried(i, attempt, c, v, next); err != nil {
			return false, "", err
		}
		diagnosis = v.Feedback
		tries = append(tries, try{tool, c.reply, v.Feedback})
		tool = next
	}
	return false, fmt.Sprintf("%d attempts failed; the last with %s: %s", len(tries), tries[len(tries)-1].tool, diagnosis), nil
}

// call is what one attempt made.
type call struct {
	tool    *catalogue.Tool
	name    string // as planned: may be an alias
	reply   string
	args    strictjson.Value // Absent where the reply held none
	sources []memory.Source
	result  tools.Result
	made    bool // the environment was called
}

// attempt grounds, calls and verifies (Eq. 7).
func (r *runner) attempt(i, attempt int, name string, tries []try) (call, verify.Verdict, error) {
	c := call{name: name}
	found, err := r.catalogue.Resolve(name)
	if err != nil {
		return c, verify.Verdict{Decision: verify.Replace, Code: verify.CodeTool, Feedback: err.Error()}, nil
	}
	c.tool = found.Tool
	c.args, c.reply, err = r.ground(name, found.Tool, tries)
	if err != nil {
		var bad *groundError
		if errors.As(err, &bad) {
			return c, verify.Verdict{Decision: verify.Retry, Code: bad.code, Feedback: bad.Error()}, nil
		}
		return c, verify.Verdict{}, err
	}
	// The schema first, and then what the values refer to.
	if _, err := found.Tool.Bind(c.args); err != nil {
		return c, verify.Verdict{Decision: verify.Retry, Code: verify.CodeParameters, Feedback: err.Error()}, nil
	}
	known := memory.NewKnown(r.task.Question, r.task.Inputs, r.prompt.Guidance.Text, r.state.Evidence, r.env.Exists)
	resolved, sources, problems := known.Resolve(found.Tool, c.args)
	if len(problems) > 0 {
		return c, verify.Verdict{Decision: verify.Retry, Code: verify.CodeReference, Feedback: strings.Join(problems, "; ")}, nil
	}
	c.args, c.sources = resolved, sources
	action := rsure.Action{Tool: found.Tool.Name, Args: c.args}
	if why, err := r.session.Before(action); err != nil {
		return c, verify.Verdict{}, fmt.Errorf("%w: %w", errStop, err)
	} else if why != "" {
		return c, verify.Verdict{Decision: verify.Retry, Code: verify.CodeProtocol, Feedback: why}, nil
	}
	if most := r.config.Limits.ToolCalls; most > 0 && r.calls >= most {
		return c, verify.Verdict{}, fmt.Errorf("%w: %d tool calls", errStop, r.calls)
	}
	if err := r.event(&memory.Event{Kind: memory.Called, Node: i, Attempt: attempt, Tool: name, Arguments: c.args}); err != nil {
		return c, verify.Verdict{}, err
	}
	r.calls++
	c.made = true
	result, callErr := r.env.Tools.Invoke(r.ctx, name, c.args)
	if err := r.ctx.Err(); err != nil {
		return c, verify.Verdict{}, err
	}
	c.result = result
	v, err := r.judge(i, action, &c, callErr)
	return c, v, err
}

// judge is V_hyb with the observation protocol: rules, the protocol's gate, and
// then, where neither has decided, the protocol's verifier or the checker.
func (r *runner) judge(i int, action rsure.Action, c *call, callErr error) (verify.Verdict, error) {
	v := verify.Rules(&verify.Outcome{Tool: c.tool, Args: c.args, Result: c.result, Err: callErr})
	if v.Decision == verify.Retry || v.Decision == verify.Replace {
		r.session.Refused(action, v.Feedback)
		return v, nil
	}
	undecided := v.Decision == verify.Undecided
	j, err := r.session.Judge(r.ctx, action, &c.result, callErr, undecided)
	if err != nil {
		return verify.Verdict{}, err
	}
	if join := Join(j); join.Decision != verify.Accept {
		return join, nil
	}
	if !undecided || r.config.Protocol == rsure.Full || r.config.Checks == ByRules {
		return verify.Verdict{Decision: verify.Accept}, nil
	}
	v, err = verify.Check(r.ctx, r.meter, r.config.Models.Other, &verify.Case{
		Question: r.task.Question, Skill: r.prompt.Guidance.Text, Tool: c.name, Arguments: c.args, Observation: c.result.Value,
		Note: v.Feedback, Remaining: r.state.Plan(i)[1:],
	})
	return v, err
}

// Join translates a judgement of the observation protocol: accept is accept, a
// request for evidence a retry, a rejection a replacement; what the protocol's
// rules refuse is tried again.
func Join(j rsure.Judgement) verify.Verdict {
	switch {
	case j.Decision == rsure.Accept:
		return verify.Verdict{Decision: verify.Accept}
	case j.Rules && j.Decision == rsure.Reject:
		return verify.Verdict{Decision: verify.Replace, Code: verify.CodeProtocol, Feedback: j.Feedback}
	}
	return verify.Verdict{Decision: verify.Retry, Code: verify.CodeProtocol, Feedback: j.Feedback}
}

// accept commits a verified call to node and memory in one journal line.
func (r *runner) accept(i int, c call, done bool) error {
	record := memory.Record{Tool: c.name, Arguments: c.args, Observation: c.result.Value, Support: c.result.Evidence.Value(),
		Provenance: memory.Provenance{Files: r.state.FilesOf(c.tool, c.args, c.result.Artefacts), Sources: c.sources}}
	if record.Provenance.Sources == nil {
		record.Provenance.Sources = []memory.Source{}
	}
	if err := r.event(&memory.Event{Kind: memory.Committed, Node: i, Record: &record, Reason: clip(c.result.Text(), 500)}); err != nil {
		return err
	}
	if done && r.config.EarlyStop && r.config.Mode == EndToEnd && i < len(r.state.Nodes) {
		return r.event(&memory.Event{Kind: memory.Stopped, Node: i, Reason: "the checker finds the evidence sufficient"})
	}
	return nil
}

// tried puts a rejected attempt into the journal: not into the state.
func (r *runner) tried(i, attempt int, c call, v verify.Verdict, next string) error {
	r.errors[v.Code]++
	e := memory.Event{Kind: memory.Tried, Node: i, Attempt: attempt, Tool: c.name, Arguments: c.args, Decision: string(v.Decision), Reason: v.Feedback, Code: v.Code, Reply: c.reply, Next: next}
	if c.made {
		e.Observation = c.result.Value
		if e.Observation.IsAbsent() {
			e.Observation = strictjson.NullValue()
		}
	}
	return r.event(&e)
}

// groundError is a reply without usable arguments.
type groundError struct {
	code string
	error
}

// ground asks the executor for arguments: by the prompt of training, whose reply
// is the argument object, or by a native tool call. Earlier attempts at this node
// follow as turns of the chat.
func (r *runner) ground(name string, t *catalogue.Tool, tries []try) (args strictjson.Value, reply string, err error) {
	shown := prompt.Tool{Name: name, Spec: t}
	messages := chat(prompt.Executor(r.config.Style, r.prompt, shown, r.state.Steps()))
	q := llm.Request{Role: "executor", Model: r.config.Models.Executor, MaxTokens: r.config.Limits.Reply}
	if r.config.Arguments == ByCall {
		if view := memory.View(r.state.Grounding(t)); view != "" {
			messages[1].Content += "\n\n# Files at hand\n" + view
		}
		messages[0].Content += "\nGive them by calling the tool."
		q.Tools = []llm.Tool{{Name: name, Description: t.Summary, Schema: t.Schema()}}
	}
	for _, a := range tries {
		text := a.feedback
		if a.tool != name {
			text = fmt.Sprintf("(the tool was %s then) %s", a.tool, text)
		} else if view := memory.View(r.state.Grounding(t)); view != "" {
			text += "\nFiles at hand:\n" + view
		}
		messages = append(messages, llm.Message{Role: "assistant", Content: a.reply}, llm.Message{Role: "user", Content: "That was not accepted: " + text + "\nReply with other arguments in the same form."})
	}
	q.Messages = messages
	answer, err := r.meter.Chat(r.ctx, q)
	if err != nil {
		return strictjson.Value{}, "", err
	}
	reply = answer.Text
	text := answer.Text
	if len(answer.Calls) > 0 {
		c := answer.Calls[0]
		if reply = c.Arguments; c.Name != name && c.Name != t.Name {
			return strictjson.Value{}, reply, &groundError{verify.CodeReply, fmt.Errorf("this step is %s, not %q; give its arguments", name, c.Name)}
		}
		text = c.Arguments
	}
	args, err = objectIn(text)
	if err != nil {
		return strictjson.Value{}, reply, &groundError{verify.CodeReply, err}
	}
	return args, reply, nil
}

// replacement chooses another tool of P_s: the checker's proposal, else the
// Planner's. Where neither names one the same tool is tried again, and the
// feedback says so.
func (r *runner) replacement(i int, tool string, v verify.Verdict, tries []try) (next, feedback string, err error) {
	tested := func(name string) bool {
		return name == tool || slices.ContainsFunc(tries, func(t try) bool { return t.tool == name })
	}
	if v.Tool != "" && r.allowed(v.Tool) && !tested(v.Tool) {
		return v.Tool, v.Feedback, nil
	}
	messages := chat(prompt.Planner(r.config.Style, r.prompt, r.candidates))
	messages[1].Content += fmt.Sprintf("\n\n# Your part\nStep %d of the workflow, %s, cannot be done with this tool: %s\nSteps after it: %s\nName one other tool for this step alone, as {\"tool_sequence\":[\"name\"]}.",
		i, tool, v.Feedback, strings.Join(r.state.Plan(i)[1:], ", "))
	reply, err := r.ask("planner", r.config.Models.Planner, messages)
	if err != nil {
		return "", "", err
	}
	names, perr := plan.Parse(bare(reply.Text))
	switch {
	case perr != nil || len(names) != 1:
		return tool, v.Feedback + " (no other tool was named)", nil
	case !r.allowed(names[0]):
		return tool, fmt.Sprintf("%s (the replacement %q is refused: it is not among the candidates)", v.Feedback, names[0]), nil
	case tested(names[0]):
		return tool, fmt.Sprintf("%s (%s was tried already)", v.Feedback, names[0]), nil
	}
	return names[0], v.Feedback, nil
}
