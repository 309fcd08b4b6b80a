package slots

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// maxShown is how many items of a list a review shows in full.
const maxShown = 4

// Show writes a program for review: slots with their domains, then the seed with
// every occurrence marked by its slot's letter, [P] place, [T] time, [F] file,
// [I] interim value, [O] observation, each above the same text of a sample
// instance.
func (c *Compiled) Show(tools Tools, sample uint64) (string, error) {
	var b strings.Builder
	state, err := c.Program.State()
	if err != nil {
		state = err.Error()
	}
	if state == "" {
		state = "not reviewed"
	}
	fmt.Fprintf(&b, "%s  (%s, program by %s, answer %s)\n\n", c.Seed.ID, state, c.Program.Origin, c.Program.Answer)
	for i := range c.draws {
		d := &c.draws[i]
		fmt.Fprintf(&b, "  [%s] %-14s %-11s seed %v, one of %d\n", slotLetter(d.slot), d.slot.Name, d.slot.Type, d.slot.Seed, d.n)
	}
	derived := map[string]int{}
	for _, d := range c.derived {
		derived[slotLetter(&c.Program.Slots[d.slot])]++
	}
	for _, letter := range sortedKeys(derived) {
		fmt.Fprintf(&b, "  [%s] %d derived slots\n", letter, derived[letter])
	}
	for _, n := range c.Program.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	v := c.Draw(rand.New(rand.NewPCG(sample, 1)))
	t, err := c.Instance(v, tools)
	if err == nil {
		err = c.Verify(t, v, tools)
	}
	if err != nil {
		return "", fmt.Errorf("sample %d: %w; try another", sample, err)
	}
	occurrence := map[string]*Occurrence{}
	for i, o := range c.Program.Occurrences {
		occurrence[o.At] = &c.Program.Occurrences[i]
	}
	whole := t.Value()
	pair := func(at, seed string) {
		now := ""
		if x, ok := whole.At(at); ok {
			now = x.Text()
			if x.Len() > 0 {
				now = x.JSON()
			}
		}
		marked := seed
		if o := occurrence[at]; o != nil {
			marked = c.mark(o, seed)
		}
		if now == seed {
			fmt.Fprintf(&b, "    %-40s %s\n", at, clip(seed, 300))
			return
		}
		fmt.Fprintf(&b, "    %-40s %s\n    %-40s %s\n", at, clip(marked, 300), "", clip(now, 300))
	}
	shown := map[string]int{}
	b.WriteString("\n")
	seedValue := c.Seed.Value()
	eachText(c.Seed, func(step int, p, text string) {
		if step >= 0 {
			p = "/steps/" + strconv.Itoa(step) + p
		}
		list := p[:strings.LastIndexByte(p, '/')]
		if shown[list]++; shown[list] == maxShown+1 && strings.Count(list, "/") > 2 {
			fmt.Fprintf(&b, "    %s/… (more)\n", list)
		}
		if shown[list] <= maxShown || strings.Count(list, "/") <= 2 {
			pair(p, text)
		}
	})
	for _, o := range c.Program.Occurrences {
		if v, ok := seedValue.At(o.At); ok && o.Slot != "" {
			text := v.Text()
			if v.Len() > 0 {
				text = v.JSON()
			}
			pair(o.At, text)
		}
	}
	return b.String(), nil
}

// slotLetter marks a slot in a review; whatever moves with the dates is time.
func slotLetter(s *Slot) string {
	if s.Group == timeGroup {
		return Types[Date]
	}
	return Types[s.Type]
}

// mark writes the seed's text with "[P]{…}" around every slot.
func (c *Compiled) mark(o *Occurrence, seed string) string {
	if o.Slot != "" {
		return "[" + slotLetter(&c.Program.Slots[c.slotAt[o.Slot]]) + "]{" + seed + "}"
	}
	parts, err := parseTemplate(o.Text)
	if err != nil {
		return seed
	}
	var b strings.Builder
	for _, p := range parts {
		if p.slot == "" {
			b.WriteString(p.lit)
			continue
		}
		s := &c.Program.Slots[c.slotAt[p.slot]]
		text := "…" // an answer, known after the steps
		if render, err := s.Type.formatter(p.format); err == nil && c.seedVals[c.slotAt[p.slot]] != nil {
			if buf, err := render(c.seedVals[c.slotAt[p.slot]], nil); err == nil {
				text = string(buf)
			}
		}
		fmt.Fprintf(&b, "[%s]{%s}", slotLetter(s), text)
	}
	return b.String()
}
