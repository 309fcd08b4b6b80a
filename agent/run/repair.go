package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
)

// Reasons for which a repair is refused (Earth-Agent-Pro §IV-D).
const (
	NotInCatalogue = "not_in_catalog" // a tool that does not exist
	NotInSkill     = "not_in_skill"   // a tool outside the active skill
	RepeatsRepair  = "repeats_repair" // an archived suffix at the same node again
	NoProgress     = "no_progress"    // the suffix that failed, or its first tool after a repair that added no evidence
	BadLength      = "bad_length"     // empty, more than 2·old + 2 tools, or a workflow of more than 50
	TooRepetitive  = "too_repetitive" // a tool more than three times in a row, or a pair three times
	NotAPlan       = "not_a_plan"     // the reply could not be read
)

const (
	longestWorkflow = 50
	mostInARow      = 3
	mostPairs       = 3
)

// Refusal says why a suffix at node i may not replace the nodes from there on,
// "" if it may. skill reports whether a tool is in the active skill; repeatable
// whether its repetition rule lets a tool be called once for each image or pair.
func Refusal(s *memory.State, i int, suffix []string, cat *catalogue.Catalogue, skill, repeatable func(*catalogue.Tool) bool) (code, reason string) {
	old := s.Plan(i)
	tools := make([]*catalogue.Tool, len(suffix))
	switch n := len(suffix); {
	case n == 0:
		return BadLength, "the suffix is empty"
	case n > 2*len(old)+2:
		return BadLength, fmt.Sprintf("the suffix has %d tools in place of %d; at most %d are allowed", n, len(old), 2*len(old)+2)
	case i-1+n > longestWorkflow:
		return BadLength, fmt.Sprintf("the workflow would have %d steps; at most %d are allowed", i-1+n, longestWorkflow)
	}
	for k, name := range suffix {
		found, err := cat.Resolve(name)
		if err != nil {
			return NotInCatalogue, err.Error()
		}
		tools[k] = found.Tool
	}
	for k, t := range tools {
		if !skill(t) {
			return NotInSkill, fmt.Sprintf("%s is not a tool of the active skill", suffix[k])
		}
	}
	if slices.Equal(suffix, old) {
		return NoProgress, "that is the suffix that failed"
	}
	for _, r := range s.Archive {
		if r.At == i && len(r.New) > 0 && slices.Equal(r.New, suffix) || r.At == i && slices.Equal(plannedOf(r.Old), suffix) {
			return RepeatsRepair, "the same suffix was tried at this step before"
		}
	}
	if n := len(s.Archive); n > 0 {
		if last := s.Archive[n-1]; last.At == i && last.Evidence == len(s.Evidence) && len(last.New) > 0 && last.New[0] == suffix[0] {
			return NoProgress, fmt.Sprintf("the last repair began with %s too and gave no new evidence", suffix[0])
		}
	}
	if why := repetition(tools, repeatable); why != "" {
		return TooRepetitive, why
	}
	return "", ""
}

func plannedOf(nodes []memory.Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Planned
	}
	return names
}

func repetition(tools []*catalogue.Tool, repeatable func(*catalogue.Tool) bool) string {
	run := 1
	for k := 1; k < len(tools); k++ {
		if run++; tools[k] != tools[k-1] {
			run = 1
		}
		if run > mostInARow && !repeatable(tools[k]) {
			return fmt.Sprintf("%s stands %d times in a row", tools[k].Name, run)
		}
	}
	for k := 0; k+2*mostPairs <= len(tools); k++ {
		a, b := tools[k], tools[k+1]
		pairs := 1
		for pairs < mostPairs && tools[k+2*pairs] == a && tools[k+2*pairs+1] == b {
			pairs++
		}
		if a != b && pairs == mostPairs && !repeatable(a) && !repeatable(b) {
			return fmt.Sprintf("%s and %s take turns %d times", a.Name, b.Name, pairs)
		}
	}
	return ""
}

// PerItem reports whether a tool works on one image, pair or group at a time: the
// repetition rules of the skills let such a tool be called once for each. A
// statistic over a whole list is not one.
func PerItem(t *catalogue.Tool) bool {
	numbers := 0
	for _, p := range t.Params {
		if p.IO == "in" {
			return true
		}
		if typ := p.Type.String(); p.Required() && (typ == "float" || typ == "int") {
			numbers++
		}
	}
	return numbers == 2 && len(t.Params) == 2
}

const repairTask = `# State
The workflow is under way. Steps done (kept as they are):
%s
Step %d (%s) failed for good: %s
Steps that were planned from there on: %s
%s
# Your part
Give the tools from step %d on that lead to the answer, as {"tool_sequence":["name", …]}: a sequence that avoids this failure. Steps before %d are not repeated.`

// repair asks the Planner for a new suffix from node i and installs the first
// that no rule refuses (Eq. 9). ok is false where the limits are reached, and in
// OraclePlan, whose plan is fixed.
func (r *runner) repair(i int, diagnosis string) (ok bool, err error) {
	if r.config.Mode == OraclePlan || r.repairs >= r.config.Limits.Repairs {
		return false, nil
	}
	messages := r.repairPrompt(i, diagnosis)
	for range r.config.Limits.Candidates {
		reply, err := r.ask("planner", r.config.Models.Planner, messages)
		if err != nil {
			return false, err
		}
		suffix, perr := readPlan(reply.Text)
		code, reason := "", ""
		if perr != nil {
			code, reason = NotAPlan, perr.Error()
			if strings.Contains(perr.Error(), "a list of at least one tool name, found a list of 0") {
				code = BadLength
			}
		} else {
			code, reason = Refusal(r.state, i, suffix, r.catalogue,
				func(t *catalogue.Tool) bool { return r.allowed(t.Name) },
				func(t *catalogue.Tool) bool { return r.skill != nil && PerItem(t) })
		}
		if code == "" {
			r.repairs++
			return true, r.event(&memory.Event{Kind: memory.Repaired, Node: i, Tools: suffix, Reason: diagnosis})
		}
		if err := r.event(&memory.Event{Kind: memory.Refused, Node: i, Tools: suffix, Code: code, Reason: reason}); err != nil {
			return false, err
		}
		messages = append(messages, llm.Message{Role: "assistant", Content: reply.Text},
			llm.Message{Role: "user", Content: fmt.Sprintf("That suffix is refused (%s): %s.\nReply with another one in the same form.", code, reason)})
	}
	return false, nil
}

// repairPrompt is the Planner's prompt of training with the state behind it.
func (r *runner) repairPrompt(i int, diagnosis string) []llm.Message {
	messages := chat(prompt.Planner(r.config.Style, r.prompt, r.candidates))
	var done, tried strings.Builder
	for _, n := range r.state.Nodes[:i-1] {
		fmt.Fprintf(&done, "%d. %s -> %s\n", n.Index, n.Invoked, clip(n.Result, 300))
	}
	if done.Len() == 0 {
		done.WriteString("none\n")
	}
	for _, rev := range r.state.Archive {
		if rev.At == i {
			fmt.Fprintf(&tried, "Tried before from step %d: %s (%s)\n", i, strings.Join(plannedOf(rev.Old), ", "), clip(rev.Diagnosis, 300))
		}
	}
	messages[1].Content += "\n\n" + fmt.Sprintf(repairTask, done.String(), i, r.state.Node(i).Planned, diagnosis, strings.Join(r.state.Plan(i), ", "), tried.String(), i, i)
	return messages
}

// errStop ends a run inside the loop; its text is the reason.
var errStop = errors.New("limit reached")
