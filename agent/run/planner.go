package run

import (
	"fmt"
	"strings"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/data"
	"terraloom/data/prompt"
	"terraloom/data/strictjson"
)

// debaters are the roles after the first, which gets the prompt of training as it
// is (Earth-Agent-Pro Fig. 4). Each answers in the form of training.
var debaters = []struct{ name, task string }{
	{"tool schema specialist", "Check that each tool gets what it needs from the inputs or an earlier tool, by the tools' parameters, and that what it returns is used."},
	{"benchmark minimalist", "Take out every tool that the answer does not need; keep repetitions that the question asks for."},
	{"skeptical moderator", "Weigh the candidates against the question and the skill, and decide on the sequence that will be carried out."},
}

// makePlan gets a valid plan: one candidate, by one prompt or by the debate, then
// up to Limits.Plans − 1 corrections with the validator's errors. ok is false
// where there is none. PlanningOnly takes the candidate as it is.
func (r *runner) makePlan() (tools []string, ok bool, err error) {
	messages := chat(prompt.Planner(r.config.Style, r.prompt, r.candidates))
	reply, err := r.ask("planner", r.config.Models.Planner, messages)
	if err != nil {
		return nil, false, err
	}
	if r.config.Planning == Debate {
		if messages, reply, err = r.debate(messages, reply); err != nil {
			return nil, false, err
		}
	}
	for attempt := 1; ; attempt++ {
		tools, perr := readPlan(reply.Text)
		if r.config.Mode == PlanningOnly {
			return tools, perr == nil, nil
		}
		faults := r.planFaults(tools, perr)
		if len(faults) == 0 {
			return tools, true, nil
		}
		if err := r.event(&memory.Event{Kind: memory.Refused, Tools: tools, Code: "plan", Reason: strings.Join(faults, "; ")}); err != nil {
			return nil, false, err
		}
		if attempt >= r.config.Limits.Plans {
			return nil, false, nil
		}
		messages = append(messages, llm.Message{Role: "assistant", Content: reply.Text},
			llm.Message{Role: "user", Content: "That plan cannot be carried out: " + strings.Join(faults, "; ") + ".\nReply with a corrected plan in the same form."})
		if reply, err = r.ask("planner", r.config.Models.Planner, messages); err != nil {
			return nil, false, err
		}
	}
}

// debate lets the later roles revise the candidate, each seeing what was said
// before. It returns the moderator's messages, to which corrections can be added.
func (r *runner) debate(base []llm.Message, reply llm.Reply) ([]llm.Message, llm.Reply, error) {
	said := "EO workflow specialist: " + bare(reply.Text)
	var messages []llm.Message
	for _, d := range debaters {
		messages = []llm.Message{base[0], {Role: "user", Content: base[1].Content + "\n\n# Discussion\n" + said +
			"\n\n# Your part\nYou are the " + d.name + ". " + d.task + " Revise the last candidate, or repeat it if it is right."}}
		var err error
		if reply, err = r.ask("planner", r.config.Models.Planner, messages); err != nil {
			return nil, reply, err
		}
		said += "\n" + d.name + ": " + bare(reply.Text)
	}
	return messages, reply, nil
}

// planFaults is the catalogue validator: every tool exists, is in A_s, and the
// sequence is valid, which means that what reads files has something before it
// that could have made or found them.
func (r *runner) planFaults(tools []string, perr error) []string {
	if perr != nil {
		return []string{perr.Error()}
	}
	var faults []string
	files := r.namesFiles()
	for i, name := range tools {
		found, err := r.catalogue.Resolve(name)
		switch {
		case err != nil:
			faults = append(faults, fmt.Sprintf("step %d: %v", i+1, err))
			continue
		case !r.allowed(name):
			faults = append(faults, fmt.Sprintf("step %d: %s is not a tool of the skill %s", i+1, name, r.skill.Name))
		}
		reads, writes := false, found.Tool.Name == "get_filelist"
		for _, p := range found.Tool.Params {
			reads = reads || p.IO == "in" && p.Required()
			writes = writes || p.IO == "out"
		}
		if reads && !files && found.Tool.Name != "get_filelist" {
			faults = append(faults, fmt.Sprintf("step %d: %s reads files, and neither the inputs nor an earlier step gives any", i+1, name))
		}
		files = files || writes
	}
	return faults
}

// namesFiles reports whether question or inputs name files or a folder of them.
func (r *runner) namesFiles() bool {
	found := strings.Contains(r.task.Question, "/") && strings.Contains(r.task.Question, ".")
	r.task.Inputs.Leaves("", func(_ string, leaf strictjson.Value) {
		found = found || leaf.Kind() == strictjson.String && strings.ContainsAny(leaf.Text(), "/.") && !strings.Contains(leaf.Text(), " ")
	})
	return found
}

// chat are messages of a training prompt.
func chat(messages []data.Message) []llm.Message {
	out := make([]llm.Message, len(messages))
	for i, m := range messages {
		out[i] = llm.Message{Role: m.Role, Content: m.Content}
	}
	return out
}
