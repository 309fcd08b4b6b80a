package run

import (
	"slices"
	"strings"

	"terraloom/agent/llm"
	"terraloom/data/catalogue"
	"terraloom/data/plan"
	"terraloom/data/prompt"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// routerPrompt asks for a skill (R_skill of Eq. 5).
const routerPrompt = `You choose the skill for an Earth-observation question. The user message is one JSON object with "question", "inputs" and "skills". Reply with the name of exactly one skill and nothing else.`

// route chooses the skill: by the model, whose reply must be a known name, else
// by keywords. With a given plan it is the skill that covers it, as in training.
func (r *runner) route() error {
	if !r.config.Skills {
		return r.routed(nil)
	}
	fallback := skills.Route(r.skills, r.task.Question, nil)
	if len(r.task.Plan) > 0 {
		if s := skills.Route(r.skills, r.task.Question, r.canonical(r.task.Plan)); s != nil {
			return r.routed(s)
		}
		return r.routed(fallback)
	}
	if r.config.Routing == ByRules {
		return r.routed(fallback)
	}
	list := make([]strictjson.Value, len(r.skills))
	for i, s := range r.skills {
		list[i] = strictjson.Obj(strictjson.Member{Key: "name", Value: strictjson.Text(s.Name)},
			strictjson.Member{Key: "description", Value: strictjson.Text(s.Description)}, strictjson.Member{Key: "when", Value: strictjson.Text(s.When)})
	}
	user := strictjson.Obj(strictjson.Member{Key: "question", Value: strictjson.Text(r.task.Question)},
		strictjson.Member{Key: "inputs", Value: r.task.Inputs}, strictjson.Member{Key: "skills", Value: strictjson.List(list...)}).JSON()
	reply, err := r.ask("router", r.config.Models.Other, []llm.Message{{Role: "system", Content: routerPrompt}, {Role: "user", Content: user}})
	if err != nil {
		return err
	}
	name := strings.Trim(bare(reply.Text), " \t\r\n\"'.`")
	if at := slices.IndexFunc(r.skills, func(s *skills.Skill) bool { return s.Name == name }); at >= 0 {
		return r.routed(r.skills[at])
	}
	return r.routed(fallback)
}

// use sets what the skill decides: guidance and candidates P_s.
func (r *runner) use(s *skills.Skill) {
	r.skill = s
	r.prompt = prompt.Task{Query: r.task.Question, Inputs: r.task.Inputs}
	if s != nil {
		r.prompt.Guidance = prompt.Guidance{Skill: s.Name, Text: s.Guidance}
	}
	r.candidates = candidates(r.catalogue, s)
}

// candidates are P_s, in catalogue order: all tools of the skill, as in training,
// for a skill has no more than a prompt can show. Without a skill they are all
// tools of the catalogue.
func candidates(cat *catalogue.Catalogue, s *skills.Skill) []prompt.Tool {
	var out []prompt.Tool
	for _, t := range cat.Tools() {
		if s == nil || slices.Contains(s.Tools, t.Name) {
			out = append(out, prompt.Tool{Name: t.Name, Spec: t})
		}
	}
	return out
}

// canonical gives catalogue names where there are any.
func (r *runner) canonical(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n
		if found, err := r.catalogue.Resolve(n); err == nil {
			out[i] = found.Tool.Name
		}
	}
	return out
}

// allowed reports whether a tool, by name or alias, is in P_s.
func (r *runner) allowed(name string) bool {
	found, err := r.catalogue.Resolve(name)
	return err == nil && slices.ContainsFunc(r.candidates, func(t prompt.Tool) bool { return t.Spec == found.Tool })
}

// readPlan reads a Planner's reply.
func readPlan(text string) ([]string, error) { return plan.Parse(bare(text)) }
