package slots

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// samples is how many instances a lint composes and verifies.
const samples = 5

// Lint checks a program against its seed. It compiles; with the seed's own
// values it gives the seed back byte for byte (Compose(Decompose(z)) = z); every
// place, date and sample number that moves is claimed wherever it stands; what
// must stay fixed (tools, bands, products) does; a place moves with everything
// said about it; and sample instances verify. It returns every problem found.
func Lint(p *Program, seed *data.Trajectory, tools Tools) []error {
	c, err := Compile(p, seed, tools)
	if err != nil {
		return []error{err}
	}
	return c.lint(tools)
}

func (c *Compiled) lint(tools Tools) []error {
	p, seed := c.Program, c.Seed
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, c.errorf(format, args...))
	}
	for _, err := range []error{c.restores(), c.claims()} {
		if err != nil {
			problems = append(problems, err)
		}
	}
	used, checked := map[string]bool{}, map[string]bool{}
	for _, o := range p.Occurrences {
		used[o.Slot] = true
		parts, _ := parseTemplate(o.Text)
		for _, pt := range parts {
			used[pt.slot] = true
		}
		if c.touchesFixed(o, checked) {
			bad("occurrence %s: bands, products and methods stay as the seed has them", o.At)
		}
	}
	for _, s := range p.Slots {
		for _, d := range p.Slots {
			used[s.Name] = used[s.Name] || d.Role == Derived && regexp.MustCompile(`\b`+s.Name+`\b`).MatchString(d.Expr)
		}
		if !used[s.Name] {
			bad("slot %s stands nowhere", s.Name)
		}
		if s.Type == Place && s.Role == Root {
			place, _ := gazetteer.ByName(fmt.Sprint(s.Seed))
			for _, x := range sites(seed, place) {
				if !slices.ContainsFunc(p.Occurrences, func(o Occurrence) bool { return o.At == x.at && c.covers(o, x.start, x.end) }) {
					bad("slot %s: %s gives coordinates of %s; they must move with the place", s.Name, x.at, place.Name)
				}
			}
		}
	}
	made := 0
	var last error
	for k := range 4 * samples {
		v := c.Draw(rand.New(rand.NewPCG(uint64(k), 0x9e3779b97f4a7c15)))
		t, err := c.Instance(v, tools)
		if err == nil {
			err = c.Verify(t, v, tools)
		}
		if err != nil {
			last = err
			continue
		}
		if made++; made == samples {
			return problems
		}
	}
	bad("only %d of %d sample draws verify; last: %v", made, 4*samples, last)
	return problems
}

// Check compiles and lints a program and records the machine's review where it
// passes.
func Check(p *Program, seed *data.Trajectory, tools Tools) (*Compiled, error) {
	c, err := Compile(p, seed, tools)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.lint(tools)...); err != nil {
		return nil, err
	}
	p.SetReview(MachineChecked, "")
	return c, nil
}

// nothing computes no observation, so that recorded ones are rendered.
type nothing struct{}

func (nothing) Computes(string) bool { return false }
func (nothing) Call(string, strictjson.Value) (strictjson.Value, error) {
	return strictjson.Value{}, errors.New("no tools")
}

// recorded is c with every observation as the seed records it.
func (c *Compiled) recorded() *Compiled {
	r := *c
	r.steps = slices.Clone(c.steps)
	for i := range r.steps {
		r.steps[i].computed, r.steps[i].remap = false, nil
	}
	return &r
}

// restores composes with the seed's own values and compares.
func (c *Compiled) restores() error {
	r := c.recorded()
	v, err := r.SeedValues()
	if err != nil {
		return err
	}
	t, err := r.instance(v, nothing{}, false)
	if err != nil {
		return c.errorf("with the seed's own values: %v", err)
	}
	differ := func(at, seed, got string) error {
		i := 0
		for i < len(seed) && i < len(got) && seed[i] == got[i] {
			i++
		}
		return c.errorf("%s: with the seed's own values it reads %q, the seed has %q", at, clip(got[i:], 60), clip(seed[i:], 60))
	}
	if t.Query != c.Seed.Query {
		return differ("/query", c.Seed.Query, t.Query)
	}
	if a, b := c.Seed.Inputs.JSON(), t.Inputs.JSON(); a != b {
		return differ("/inputs", a, b)
	}
	for i := range t.Steps {
		s, got := &c.Seed.Steps[i], &t.Steps[i]
		at := fmt.Sprintf("/steps/%d", i)
		if a, b := s.Arguments.JSON(), got.Arguments.JSON(); a != b {
			return differ(at+"/arguments", a, b)
		}
		if a, b := s.Observation.JSON(), got.Observation.JSON(); a != b {
			return differ(at+"/observation", a, b)
		}
		if s.Thought != got.Thought {
			return differ(at+"/thought", s.Thought, got.Thought)
		}
	}
	return nil
}

// claims checks that every mention of something that moves is part of an
// occurrence, by looking for it in what the occurrences leave as it is.
func (c *Compiled) claims() error {
	v := append(Values(nil), c.seedVals...)
	for i := range c.draws { // any other value of every root: what of the seed is left then?
		d := &c.draws[i]
		for k := range d.n {
			if x := d.at(k); !sameValue(x, v[c.slotAt[d.slot.Name]]) {
				v[c.slotAt[d.slot.Name]] = x
				break
			}
		}
	}
	t, err := c.recorded().instance(v, nothing{}, false)
	if err != nil {
		return nil // the sample draws tell
	}
	return c.stale(t, v)
}

// sameValue compares two root values.
func sameValue(a, b any) bool {
	if p, ok := a.(gazetteer.Place); ok {
		q, ok := b.(gazetteer.Place)
		return ok && p.Name == q.Name
	}
	return a == b
}

var (
	bandOrProduct = regexp.MustCompile(`(?i)(band|wavelength|product|collection|source|sensor|method|mode|parameter)`)
	productToken  = regexp.MustCompile(`(?i)(?:^|[_ ])(BT_?\d*|Emis\d+|(?:SR_)?B\d{1,2}A?|sur_refl_b\d+|Reflectance_\d+|QA_PIXEL|NDVI|NDWI|LST|albedo|precipitation|avg_rad|MaxFRP|built_(?:volume|surface)[a-z_]*)(?:[_. ]|$)`)
)

// touchesFixed reports whether an occurrence changes what must not change: the
// value of an argument that names a band, product or method, or such a name in
// a file's name. checked holds the templates of file names that were looked at.
func (c *Compiled) touchesFixed(o Occurrence, checked map[string]bool) bool {
	text, path := "", false
	if v, ok := c.seedValue(o.At); ok {
		text = v.Text()
		path = looksLikePath(messagePath(strings.TrimSpace(text)))
	}
	if parts := strings.Split(o.At, "/"); len(parts) >= 5 && parts[3] == "arguments" && bandOrProduct.MatchString(parts[4]) && !path {
		return true
	}
	if name := baseName(o.Text); checked[name] {
		return false
	} else if path {
		checked[name] = true
	}
	for at := len(text) - len(baseName(text)); path; {
		m := productToken.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		if c.covers(o, at+m[2], at+m[3]) {
			return true
		}
		at += m[3]
	}
	return false
}

// covers reports whether an occurrence has a slot on some of the bytes start to
// end of the seed's text, or is a whole value.
func (c *Compiled) covers(o Occurrence, start, end int) bool {
	if o.Slot != "" {
		return true
	}
	parts, err := parseTemplate(o.Text)
	if err != nil {
		return false // Compile refuses it
	}
	at := 0
	for _, p := range parts {
		if p.slot == "" {
			at += len(p.lit)
			continue
		}
		i := c.slotAt[p.slot]
		render, err := c.Program.Slots[i].Type.formatter(p.format)
		if err != nil || c.seedVals[i] == nil {
			return false // an answer, known after the steps
		}
		text, err := render(c.seedVals[i], nil)
		if err != nil {
			return false
		}
		if at < end && start < at+len(text) {
			return true
		}
		at += len(text)
	}
	return false
}
