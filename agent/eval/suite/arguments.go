package suite

import (
	"context"
	"errors"
	"strings"

	"terraloom/agent/llm"
	"terraloom/agent/run"
	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// arguments has the executor ground every node of the reference plan, each after
// the reference steps before it, with the prompt of training. What it writes is
// recorded with the reference observation; a reply that is no JSON object is
// recorded as the text it is, which matches nothing.
func (s *Suite) arguments(ctx context.Context, a *run.Agent, t *data.Trajectory) (*Record, error) {
	cat := catalogue.For(t.Source)
	task := prompt.Task{Query: t.Query, Inputs: t.Inputs}
	var names []string
	o := &run.Outcome{Task: run.Task{ID: t.ID, Question: t.Query}, Status: run.Incomplete, Reason: "arguments alone", Errors: map[string]int{}}
	specs := make([]prompt.Tool, len(t.Steps))
	for i, step := range t.Steps {
		found, err := cat.Resolve(step.Tool)
		if err != nil {
			return failedRecord(t.ID, err), nil
		}
		specs[i] = prompt.Tool{Name: step.Tool, Spec: found.Tool}
		names, o.Plan = append(names, found.Tool.Name), append(o.Plan, step.Tool)
	}
	if a.Config.Skills {
		all := a.Skills
		if all == nil {
			all = skills.Default()
		}
		if skill := skills.Route(all, t.Query, names); skill != nil {
			task.Guidance = prompt.Guidance{Skill: skill.Name, Text: skill.Guidance}
			o.Skill = skill.Name
		}
	}
	meter := s.meter(&a.Config)
	for i, step := range t.Steps {
		var messages []llm.Message
		for _, m := range prompt.Executor(a.Config.Style, task, specs[i], t.Steps[:i]) {
			messages = append(messages, llm.Message{Role: m.Role, Content: m.Content})
		}
		reply, err := meter.Chat(ctx, llm.Request{Role: "executor", Model: a.Config.Models.Executor, Messages: messages, MaxTokens: a.Config.Limits.Reply})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, llm.ErrBudget):
			o.Status, o.Reason = run.OverBudget, err.Error()
		default:
			o.Status, o.Reason = run.Broken, err.Error()
		}
		if err != nil {
			break
		}
		args, err := strictjson.Parse([]byte(strings.TrimSpace(reply.Text)))
		if err != nil || args.Kind() != strictjson.Object {
			o.Errors["reply"]++
			args = strictjson.Text(reply.Text)
		}
		observation := step.Observation
		if observation.IsAbsent() {
			observation = strictjson.NullValue()
		}
		o.Calls = append(o.Calls, run.Call{Node: i + 1, Tool: step.Tool, Arguments: args, Observation: observation, Decision: "accept"})
	}
	o.Spent = meter.Spent()
	return recordOf(t.ID, o), nil
}
