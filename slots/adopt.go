package slots

import (
	"slices"
	"strings"
)

// answerGroup holds the slots of an answer.
const answerGroup = "answer"

// AdoptAnswer derives the answer as another program of the same trajectory does:
// one for another wording of the question, say.
func (p *Program) AdoptAnswer(from *Program) {
	inAnswer := func(s Slot) bool { return s.Group == answerGroup }
	atAnswer := func(o Occurrence) bool { return strings.HasPrefix(o.At, "/answer") }
	p.Slots = slices.DeleteFunc(slices.Clone(p.Slots), inAnswer)
	p.Occurrences = slices.DeleteFunc(slices.Clone(p.Occurrences), atAnswer)
	for _, s := range from.Slots {
		if inAnswer(s) {
			p.Slots = append(p.Slots, s)
		}
	}
	for _, o := range from.Occurrences {
		if atAnswer(o) {
			p.Occurrences = append(p.Occurrences, o)
		}
	}
	p.Answer, p.Review = from.Answer, nil
}
