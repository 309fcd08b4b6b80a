package slots

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// Values are the slot values u(z) of one instance by slot index; roots only,
// until Compose adds the derived ones.
type Values []any

// draw is the domain of one root slot.
type draw struct {
	slot   *Slot
	places []gazetteer.Place
	n      int // size of the domain; grid points of a range
	at     func(i int) any
}

// newDraw lists the domain of a root slot.
func newDraw(s *Slot) (draw, error) {
	d := draw{slot: s}
	src := s.Source
	set := 0
	for _, given := range [...]bool{src.Gazetteer != nil, src.Range != nil, src.Choice != nil} {
		if given {
			set++
		}
	}
	if set != 1 {
		return d, fmt.Errorf("source: give exactly one of gazetteer, range and choice")
	}
	switch {
	case src.Gazetteer != nil:
		if s.Type != Place {
			return d, fmt.Errorf("source gazetteer: only a place slot is drawn from the gazetteer")
		}
		return d, d.fromGazetteer(src.Gazetteer)
	case s.Type == Place:
		return d, fmt.Errorf("a place is drawn from the gazetteer, so that its country, box and coordinates move with it")
	case src.Range != nil:
		return d, d.fromRange(src.Range)
	}
	return d, d.fromChoice(src.Choice)
}

func (d *draw) fromGazetteer(g *GazetteerSource) error {
	name, _ := d.slot.Seed.(string)
	seed, ok := gazetteer.ByName(name)
	if !ok {
		return fmt.Errorf("seed: %q is not in the gazetteer", name)
	}
	except := map[string]bool{seed.Name: true}
	for _, n := range g.Except {
		except[n] = true
	}
	for _, p := range gazetteer.OfKind(gazetteer.Kind(g.Kind)) {
		if except[p.Name] || sharesWord(p.Name, seed.Name) {
			continue
		}
		usable := true
		for _, need := range g.Need {
			form, err := formOf(need)
			if err != nil {
				return err
			}
			usable = usable && p.Field(form) != "" && p.Field(form) != p.Name
		}
		if usable {
			d.places = append(d.places, p)
		}
	}
	if len(d.places) == 0 {
		return fmt.Errorf("source gazetteer: no place of kind %q fits", g.Kind)
	}
	d.n, d.at = len(d.places), func(i int) any { return d.places[i] }
	return nil
}

// sharesWord reports whether two place names share a word of their own (not
// lake, river, new, …), so that one would pass for a leftover of the other.
func sharesWord(a, b string) bool {
	common := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(a), func(r rune) bool { return r == ' ' || r == '-' }) {
		common[w] = len(w) > 3 && !genericWords[w]
	}
	for _, w := range strings.FieldsFunc(strings.ToLower(b), func(r rune) bool { return r == ' ' || r == '-' }) {
		if common[w] {
			return true
		}
	}
	return false
}

var genericWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields("lake river basin delta desert plain plains plateau mountain mountains range forest reserve national park island islands bay gulf ocean coast valley city great northern southern eastern western north south east west central region province state glacier icefield wetland reservoir area lakes peninsula steppe grassland highlands") {
		m[w] = true
	}
	return m
}()

func (d *draw) fromRange(r *RangeSource) error {
	if !(r.Step > 0) || !(r.Max >= r.Min) || math.IsInf(r.Min, 0) || math.IsInf(r.Max, 0) || (r.Max-r.Min)/r.Step > 1e9 {
		return fmt.Errorf("source range: min %v, max %v, step %v are no finite grid", r.Min, r.Max, r.Step)
	}
	whole := wholeType(d.slot.Type)
	if whole && (r.Min != math.Trunc(r.Min) || r.Step != math.Trunc(r.Step)) {
		return fmt.Errorf("source range: a %s is a whole number, min and step must be too", d.slot.Type)
	}
	if !whole && d.slot.Type != NumberType && d.slot.Type != Threshold {
		return fmt.Errorf("source range: a %s is not drawn from a range", d.slot.Type)
	}
	d.n = int(math.Floor((r.Max-r.Min)/r.Step+1e-9)) + 1
	value := func(i int) float64 {
		f := r.Min + float64(i)*r.Step
		return roundTo(f, 9) // 0.1 + 2·0.1 is 0.3
	}
	d.at = func(i int) any {
		f := value(i)
		for range d.n { // an excepted value gives way to its neighbour
			if !slices.Contains(r.Except, f) {
				break
			}
			i = (i + 1) % d.n
			f = value(i)
		}
		if whole {
			return int(f)
		}
		return f
	}
	return nil
}

func (d *draw) fromChoice(choice []any) error {
	if len(choice) == 0 {
		return fmt.Errorf("source choice: the list is empty")
	}
	vals := make([]any, len(choice))
	for i, v := range choice {
		v, err := d.slot.Type.check(v, d.slot.Name)
		if err != nil {
			return fmt.Errorf("source choice: %w", err)
		}
		vals[i] = v
	}
	d.n, d.at = len(vals), func(i int) any { return vals[i] }
	return nil
}

func wholeType(t Type) bool { return t == Count || t == Period || t == File }

// seedValue is a root slot's own value in the seed.
func (d *draw) seedValue() (any, error) {
	if d.slot.Type == Place {
		name, _ := d.slot.Seed.(string)
		p, ok := gazetteer.ByName(name)
		if !ok {
			return nil, fmt.Errorf("slot %s: seed %q is not in the gazetteer", d.slot.Name, name)
		}
		return p, nil
	}
	return d.slot.Type.check(d.slot.Seed, d.slot.Name)
}

// SeedValues are the root values of the seed itself.
func (c *Compiled) SeedValues() (Values, error) {
	v := make(Values, len(c.Program.Slots))
	for i := range c.draws {
		d := &c.draws[i]
		x, err := d.seedValue()
		if err != nil {
			return nil, c.errorf("%v", err)
		}
		v[c.slotAt[d.slot.Name]] = x
	}
	return v, nil
}

// Draw draws every root slot. Places of one instance differ from each other.
func (c *Compiled) Draw(rng *rand.Rand) Values {
	v := make(Values, len(c.Program.Slots))
	taken := map[string]bool{}
	for i := range c.draws {
		d := &c.draws[i]
		x := d.at(rng.IntN(d.n))
		for try := 0; try < 64 && d.places != nil && taken[x.(gazetteer.Place).Name]; try++ {
			x = d.at(rng.IntN(d.n))
		}
		if d.places != nil {
			taken[x.(gazetteer.Place).Name] = true
		}
		v[c.slotAt[d.slot.Name]] = x
	}
	return v
}

// SeedTuple is the root tuple of the seed itself, as Instance records it.
func (c *Compiled) SeedTuple() (string, error) {
	v, err := c.SeedValues()
	if err != nil {
		return "", err
	}
	return c.rootsValue(v).JSON(), nil
}

// DrawnSteps lists the steps whose observations the program makes, which no tool
// has computed.
func (c *Compiled) DrawnSteps() strictjson.Value {
	var steps []strictjson.Value
	for i := range c.steps {
		if s := &c.steps[i]; !s.computed && hasSlot(&s.observation, c, Observation) {
			steps = append(steps, strictjson.Int(i))
		}
	}
	return strictjson.List(steps...)
}

// hasSlot reports whether a node renders a slot of type t as a whole value.
func hasSlot(n *node, c *Compiled, t Type) bool {
	if n.kind == slotNode && c.Program.Slots[n.slot].Type == t {
		return true
	}
	for i := range n.kids {
		if hasSlot(&n.kids[i], c, t) {
			return true
		}
	}
	return false
}
