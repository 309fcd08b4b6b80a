package run

import (
	"strings"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
)

// critiquePrompt has the model check its answer with tools.
const critiquePrompt = `Check this answer with tools before it is given. Find what it rests on: which files and which period, which operation, unit and scale. Call the tools that can show it wrong, such as the same quantity by another way, the inputs of a step, a part of the whole. What they return decides, not what you said before.
Then reply with the answer alone and call no tool: word for word the same where the checks bear it out, corrected where they do not.`

// drafts are the answers that a CRITIC run has so far: the initial one and its
// revisions.
func (r *runner) drafts() []string {
	var out []string
	for i := range r.events {
		if r.events[i].Kind == memory.Drafted {
			out = append(out, r.events[i].Reason)
		}
	}
	return out
}

// critique is the CRITIC adaptation (Gou et al. 2024; RSure-Agent §5.4): the loop
// first gives an initial answer, then checks it with the same tools and revises it
// by what they return. It takes the answer that a round ended with and returns the
// turns that begin the next; final is true where there is none: the checks left
// the answer as it was, or Limits.Critiques rounds are over. Calls of checks count
// in the budget as all others do.
func (r *runner) critique(answer string) (next []llm.Message, final bool, err error) {
	drafts := r.drafts()
	if n := len(drafts); n > 0 && same(drafts[n-1], answer) {
		return nil, true, nil
	}
	if len(drafts) == r.config.Limits.Critiques {
		return nil, true, nil
	}
	return critiqueTurns(answer), false, r.event(&memory.Event{Kind: memory.Drafted, Attempt: len(drafts) + 1, Reason: answer})
}

func critiqueTurns(answer string) []llm.Message {
	return []llm.Message{{Role: "assistant", Content: answer}, {Role: "user", Content: critiquePrompt}}
}

// same compares answers without regard to white space.
func same(a, b string) bool {
	return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}
