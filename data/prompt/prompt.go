// Package prompt builds the prompts of the Planner and the Executor, one
// function per role. The extractors and the agent call the same functions, so
// that what is trained is what is served (Earth-Agent-Pro §V-A, §V-C, §V-D).
package prompt

import (
	"fmt"
	"strconv"
	"strings"

	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Style says how tools are described.
type Style string

// The styles: Full gives each tool's JSON Schema, Compact one signature line.
// Brief is for models of small contexts: the Planner sees names and summaries
// of the tools without their parameters, and neither role sees guidance.
const (
	Full    Style = "full"
	Compact Style = "compact"
	Brief   Style = "brief"
)

// ParseStyle checks a style name.
func ParseStyle(s string) (Style, error) {
	if st := Style(s); st == Full || st == Compact || st == Brief {
		return st, nil
	}
	return "", fmt.Errorf("prompt style %q is none of %q, %q and %q", s, Full, Compact, Brief)
}

// Tool is a tool as a prompt shows it: a catalogue entry under the name that
// the plan uses for it.
type Tool struct {
	Name string
	Spec *catalogue.Tool
}

// Guidance is the skill text given to both roles.
type Guidance struct {
	Skill string // name; "" leaves the section out
	Text  string
}

// Task is what both roles know: the question, what is at hand, the guidance.
type Task struct {
	Query    string
	Inputs   strictjson.Value
	Guidance Guidance
}

const plannerSystem = `You plan Earth-observation analyses. Given a question, the data at hand and the tools that may be used, choose the calls that answer it.
Reply with one JSON object {"tool_sequence":["name", …]} and nothing else: the tool names in calling order, a name once for every call. Arguments are decided later.`

const executorSystem = `You carry out one step of an Earth-observation analysis. Given the question, the steps done so far and the tool of the next step, decide its arguments.
Reply with one JSON object holding the tool's arguments and nothing else. Take paths and numbers from the inputs, the question and earlier steps; invent none.`

// Planner builds the messages that ask for a tool sequence out of candidates.
func Planner(style Style, task Task, candidates []Tool) []data.Message {
	var b strings.Builder
	task.write(&b, style)
	b.WriteString("\n\n# Tools\n")
	for i, t := range candidates {
		if i > 0 {
			b.WriteByte('\n')
		}
		if style == Brief {
			b.WriteString(t.Name + " — " + t.Spec.Summary)
		} else {
			t.write(&b, style)
		}
	}
	return []data.Message{{Role: "system", Content: plannerSystem}, {Role: "user", Content: b.String()}}
}

// PlannerCompletion is the Planner's reply: one object with the only member
// tool_sequence.
func PlannerCompletion(tools []string) string {
	b := []byte(`{"tool_sequence":[`)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = strictjson.AppendString(b, t)
	}
	return string(append(b, "]}"...))
}

// Executor builds the messages that ask for the arguments of the step after
// prefix, the accepted steps so far.
func Executor(style Style, task Task, tool Tool, prefix []data.Step) []data.Message {
	var b strings.Builder
	task.write(&b, style)
	if len(prefix) > 0 {
		b.WriteString("\n\n# Steps done\n")
		shown := visibility(tool.Spec)
		for i := range prefix {
			s := &prefix[i]
			b.WriteString("## ")
			b.WriteString(strconv.Itoa(i + 1))
			b.WriteByte(' ')
			b.WriteString(s.Tool)
			b.WriteString("\narguments: ")
			b.Write(shown.arguments(s))
			b.WriteString("\nobservation: ")
			if s.Observation.IsAbsent() {
				b.WriteString("none recorded")
			} else {
				b.Write(shown.observation(s.Observation))
			}
			b.WriteByte('\n')
		}
	} else {
		b.WriteString("\n\n")
	}
	b.WriteString("# Next step\n")
	tool.write(&b, style)
	return []data.Message{{Role: "system", Content: executorSystem}, {Role: "user", Content: b.String()}}
}

func (t Task) write(b *strings.Builder, style Style) {
	b.WriteString("# Question\n")
	b.WriteString(t.Query)
	if t.Inputs.Len() > 0 {
		b.WriteString("\n\n# Inputs\n")
		b.Write(t.Inputs.AppendJSON(nil))
	}
	if t.Guidance.Skill != "" && style != Brief {
		b.WriteString("\n\n# Skill: ")
		b.WriteString(t.Guidance.Skill)
		b.WriteByte('\n')
		b.WriteString(t.Guidance.Text)
	}
}

func (t Tool) write(b *strings.Builder, style Style) {
	if style != Full {
		sig := t.Spec.Signature()
		b.WriteString(t.Name)
		b.WriteString(strings.TrimPrefix(sig, t.Spec.Name))
		return
	}
	buf := append([]byte(`{"name":`), strictjson.AppendString(nil, t.Name)...)
	buf = append(buf, `,"description":`...)
	buf = strictjson.AppendString(buf, t.Spec.Summary)
	buf = append(buf, `,"parameters":`...)
	buf = append(buf, t.Spec.Schema()...)
	b.Write(append(buf, '}'))
}
