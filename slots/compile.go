package slots

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/vm"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// Tools is what instantiation needs of the tool kit.
type Tools interface {
	// Computes reports whether Call gives the tool's observation: arithmetic on the
	// arguments always, raster tools only where imagery exists.
	Computes(tool string) bool
	// Call runs the tool.
	Call(tool string, arguments strictjson.Value) (strictjson.Value, error)
}

// Compiled is a program bound to its seed: it composes instances. It is safe
// for concurrent use.
type Compiled struct {
	Program     *Program
	ProgramHash string
	Seed        *data.Trajectory
	Analysis    *Analysis

	draws    []draw         // root slots, in program order
	derived  []derivedSlot  // in evaluation order
	slotAt   map[string]int // slot name → index into Program.Slots
	query    node
	inputs   node
	answer   node
	steps    []stepPlan
	seedVals Values // slot values of the seed itself, derived ones too; nil for slots that read observed()

	fileForms map[int][]string // what must be gone where a file number changes, by slot
}

type derivedSlot struct {
	slot int
	prog *vm.Program
	late bool // reads observed(): evaluated after the steps
}

// stepPlan is how one step of an instance is made.
type stepPlan struct {
	arguments   node
	observation node
	thought     node
	computed    bool              // the observation is the tool's own
	own         strictjson.Value  // computed: what the tool returns on the seed's arguments
	remap       map[string]string // computed: pointer into the seed's observation → pointer into the tool's own
	uses        []data.Use
}

// ErrProgram is returned for a program that cannot be used with its seed.
var ErrProgram = errors.New("slot program")

// Compile checks the program against its seed and prepares it.
func Compile(p *Program, seed *data.Trajectory, tools Tools) (*Compiled, error) {
	fail := func(format string, args ...any) (*Compiled, error) {
		return nil, fmt.Errorf("%w %s: %s", ErrProgram, p.Seed, fmt.Sprintf(format, args...))
	}
	if p.Seed != seed.ID {
		return fail("it is for seed %q, not %q", p.Seed, seed.ID)
	}
	if h := HashSeed(seed); p.SeedHash != h {
		return fail("it was made for another version of the seed (%s, the seed is %s); discover it again", p.SeedHash, h)
	}
	if len(p.Slots) > maxSlots {
		return fail("%d slots; at most %d", len(p.Slots), maxSlots)
	}
	c := &Compiled{Program: p, ProgramHash: p.Hash(), Seed: seed, Analysis: Analyze(seed), slotAt: map[string]int{}}
	if err := c.compileSlots(); err != nil {
		return nil, err
	}
	if err := c.compileNodes(tools); err != nil {
		return nil, err
	}
	var err error
	if c.seedVals, err = c.SeedValues(); err != nil {
		return nil, err
	}
	f := frame{c: c, values: c.seedVals}
	if err := f.derive(false); err != nil {
		return fail("with the seed's own values: %v", err)
	}
	c.fileForms = c.formsOfFiles()
	return c, nil
}

func (c *Compiled) errorf(format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrProgram, c.Program.Seed, fmt.Sprintf(format, args...))
}

// compileSlots checks names, roles and sources and compiles the expressions.
func (c *Compiled) compileSlots() error {
	p := c.Program
	env := map[string]any{
		"was":      func(string) (any, error) { return nil, nil },
		"observed": func(int, string) (any, error) { return nil, nil },
		"tick":     func(any) (any, error) { return nil, nil },
	}
	for i, s := range p.Slots {
		switch _, repeated := c.slotAt[s.Name]; {
		case !isName(s.Name):
			return c.errorf("slot %q: a name is a letter followed by letters, digits and underscores", s.Name)
		case repeated:
			return c.errorf("slot %s is declared twice", s.Name)
		case Types[s.Type] == "":
			return c.errorf("slot %s: unknown type %q", s.Name, s.Type)
		case s.Role != Root && s.Role != Derived:
			return c.errorf("slot %s: role %q is neither root nor derived", s.Name, s.Role)
		case reserved(s.Name):
			return c.errorf("slot %s: the name is taken by the expression language", s.Name)
		case s.Role == Root && (s.Source == nil || s.Expr != ""):
			return c.errorf("slot %s: a root slot needs a source and no expr", s.Name)
		case s.Role == Derived && (s.Source != nil || s.Expr == ""):
			return c.errorf("slot %s: a derived slot needs an expr and no source", s.Name)
		}
		c.slotAt[s.Name] = i
		env[s.Name] = s.Type.sample()
	}
	reads := map[int][]int{} // derived slot → slots it names
	progs := map[int]derivedSlot{}
	for i, s := range p.Slots {
		if s.Role == Root {
			d, err := newDraw(&p.Slots[i])
			if err != nil {
				return c.errorf("slot %s: %v", s.Name, err)
			}
			c.draws = append(c.draws, d)
			continue
		}
		prog, err := compileExpr(s.Expr, env)
		if err != nil {
			return c.errorf("slot %s: %v", s.Name, err)
		}
		d := derivedSlot{slot: i, prog: prog}
		for _, name := range names(prog) {
			if j, ok := c.slotAt[name]; ok {
				reads[i] = append(reads[i], j)
			}
			d.late = d.late || name == "observed"
		}
		progs[i] = d
	}
	return c.order(reads, progs)
}

// order sorts derived slots so that each comes after what it reads.
func (c *Compiled) order(reads map[int][]int, progs map[int]derivedSlot) error {
	state := map[int]int{} // 1 while open, 2 when placed
	var visit func(i int, path []string) error
	visit = func(i int, path []string) error {
		s := c.Program.Slots[i]
		path = append(path, s.Name)
		if s.Role == Root || state[i] == 2 {
			return nil
		}
		if state[i] == 1 {
			return c.errorf("slots depend on each other: %s", strings.Join(path, " → "))
		}
		state[i] = 1
		d := progs[i]
		for _, j := range reads[i] {
			if err := visit(j, path); err != nil {
				return err
			}
			for _, before := range c.derived {
				d.late = d.late || before.slot == j && before.late
			}
		}
		state[i] = 2
		c.derived = append(c.derived, d)
		return nil
	}
	for i := range c.Program.Slots {
		if err := visit(i, nil); err != nil {
			return err
		}
	}
	return nil
}

// compileNodes places every occurrence and edge in the seed's tree.
func (c *Compiled) compileNodes(tools Tools) error {
	at := map[string]*Occurrence{}
	for i, o := range c.Program.Occurrences {
		if _, ok := c.Seed.Value().At(o.At); !ok {
			return c.errorf("occurrence %s: the seed has no such place", o.At)
		}
		if at[o.At] != nil {
			return c.errorf("occurrence %s is given twice", o.At)
		}
		if (o.Text == "") == (o.Slot == "") {
			return c.errorf("occurrence %s: give text or slot", o.At)
		}
		if parts := strings.Split(o.At, "/"); len(parts) == 4 && parts[1] == "steps" && parts[3] == "tool" || parts[1] == "id" || parts[1] == "seed_id" {
			return c.errorf("occurrence %s: tools and ids are fixed", o.At)
		}
		at[o.At] = &c.Program.Occurrences[i]
	}
	b := &builder{c: c, at: at, edges: map[string]*edge{}}
	for _, l := range c.Analysis.Leaves {
		if l.Use.From >= 0 && carriesNumber(l.Use.Transform, l.Value) {
			b.edges[fmt.Sprintf("/steps/%d/arguments%s", l.Step, l.Pointer)] = &edge{use: l.Use}
		}
	}
	s := c.Seed
	c.query = b.build("/query", strictjson.Text(s.Query))
	c.inputs = b.build("/inputs", s.Inputs)
	c.answer = b.build("/answer", s.Answer)
	for i, st := range s.Steps {
		prefix := "/steps/" + strconv.Itoa(i)
		plan := stepPlan{
			arguments:   b.build(prefix+"/arguments", st.Arguments),
			observation: b.build(prefix+"/observation", st.Observation),
			thought:     b.build(prefix+"/thought", optionalText(st.Thought)),
			uses:        slices.Clone(c.Analysis.Uses[i]),
		}
		if tools.Computes(st.Tool) {
			if out, err := tools.Call(st.Tool, st.Arguments); err == nil {
				plan.computed, plan.own = true, out
				plan.remap = remap(st.Observation, out)
			}
		}
		for j, u := range plan.uses {
			if to, ok := c.steps[u.From].remap[u.Observation]; ok {
				plan.uses[j].Observation = to
			}
		}
		c.steps = append(c.steps, plan)
	}
	return b.err
}

func optionalText(s string) strictjson.Value {
	if s == "" {
		return strictjson.Value{}
	}
	return strictjson.Text(s)
}

// carriesNumber reports whether an edge hands on a number, which composing must
// copy; path edges follow from templates.
func carriesNumber(transform string, v strictjson.Value) bool {
	if v.Kind() == strictjson.Number {
		return true
	}
	return transform == asText || strings.HasPrefix(transform, parsePrefix)
}

// remap maps the number leaves of a recorded observation to where the tool's
// own output has them, for records of another shape or with wrong values. It is
// nil where the shapes agree.
func remap(recorded, own strictjson.Value) map[string]string {
	if sameShape(recorded, own) {
		return nil
	}
	type leaf struct {
		pointer string
		f       float64
	}
	var outs []leaf
	own.Leaves("", func(p string, v strictjson.Value) {
		if f, ok := v.Float(); ok {
			outs = append(outs, leaf{p, f})
		}
	})
	if len(outs) == 0 {
		return nil
	}
	m := map[string]string{}
	n := 0
	recorded.Leaves("", func(p string, v strictjson.Value) {
		f, ok := v.Float()
		if !ok {
			if f, _, ok = textNumber(v.Text()); !ok {
				return
			}
		}
		best := outs[min(n, len(outs)-1)].pointer // by order where no value agrees
		for _, o := range outs {
			if near(o.f, f) {
				best = o.pointer
				break
			}
		}
		n++
		m[p] = best
	})
	if recorded.Len() > 0 {
		m[""] = ""
	}
	return m
}

func near(a, b float64) bool {
	d := a - b
	return d == 0 || d*d <= 4e-4*b*b
}

func sameShape(a, b strictjson.Value) bool {
	if a.Kind() != b.Kind() || a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if a.Kind() == strictjson.Object && a.Key(i) != b.Key(i) || !sameShape(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

// Correction is a pure step whose observation the seed records wrongly: no number
// of the record is within 2 % of what the tool returns there. Instances have the
// tool's value.
type Correction struct {
	Step            int
	Tool            string
	Recorded, Right strictjson.Value
}

// Computed counts the steps whose observations are the tools' own, and lists
// those of them that the seed records wrongly.
func (c *Compiled) Computed() (steps int, wrong []Correction) {
	for i := range c.steps {
		if s := &c.steps[i]; s.computed {
			if steps++; disagrees(c.Seed.Steps[i].Observation, s.own) {
				wrong = append(wrong, Correction{i, c.Seed.Steps[i].Tool, c.Seed.Steps[i].Observation, s.own})
			}
		}
	}
	return steps, wrong
}

// disagrees reports whether a recorded observation is wrong: some number of it
// is nowhere near in the tool's own output, or it has none and differs.
func disagrees(recorded, own strictjson.Value) bool {
	if recorded.IsAbsent() {
		return false // nothing was said
	}
	var right []float64
	own.Leaves("", func(_ string, v strictjson.Value) {
		if f, err := floatArg(v); err == nil {
			right = append(right, f)
		}
	})
	numbers, wrong := 0, false
	recorded.Leaves("", func(_ string, v strictjson.Value) {
		f, err := floatArg(v)
		if err != nil {
			return
		}
		numbers++
		wrong = wrong || !slices.ContainsFunc(right, func(g float64) bool { return near(g, f) })
	})
	return wrong || numbers == 0 && !recorded.Equal(own)
}

// evaluate computes one derived slot and checks its type and limits.
func (f *frame) evaluate(d derivedSlot) (any, error) {
	s := &f.c.Program.Slots[d.slot]
	f.started = time.Now()
	v, err := f.machine.Run(d.prog, f.env)
	if err != nil {
		return nil, fmt.Errorf("slot %s: %w", s.Name, err)
	}
	if spent := time.Since(f.started); spent > maxEvaluate {
		return nil, fmt.Errorf("slot %s: evaluation took %s; at most %s", s.Name, spent.Round(time.Millisecond), maxEvaluate)
	}
	return s.Type.check(v, s.Name)
}

// check converts an expression's result to the Go type of the slot type.
func (t Type) check(v any, name string) (any, error) {
	switch t {
	case NumberType, Threshold:
		f, err := floatArg(v)
		if err != nil || f != f || math.IsInf(f, 0) {
			return nil, fmt.Errorf("slot %s: %v is not a finite number", name, v)
		}
		return f, nil
	case Count, Period, File:
		if n, ok := v.(int); ok {
			return n, nil
		}
		if f, ok := v.(float64); ok && f == float64(int(f)) {
			return int(f), nil
		}
		return nil, fmt.Errorf("slot %s: %v is not a whole number", name, v)
	case Date:
		if day, ok := v.(time.Time); ok { // YAML's own type, where quotes are left out
			return day.Format(time.DateOnly), nil
		}
		if s, ok := v.(string); ok {
			if _, err := time.Parse(time.DateOnly, s); err == nil {
				return s, nil
			}
		}
		return nil, fmt.Errorf("slot %s: %v is not a date written YYYY-MM-DD", name, v)
	case TextType, Artifact:
		if s, ok := v.(string); ok && s != "" && len(s) <= maxResult {
			return s, nil
		}
		return nil, fmt.Errorf("slot %s: the result is not a non-empty text of at most %d bytes", name, maxResult)
	case BBox:
		if list, ok := v.([]any); ok && len(list) == 4 { // written out in the expression
			box := make([]float64, len(list))
			for i := range list {
				var err error
				if box[i], err = floatArg(list[i]); err != nil {
					return nil, fmt.Errorf("slot %s: %w", name, err)
				}
			}
			v = box
		}
		if items, ok := v.([]float64); ok && len(items) == 4 && items[0] < items[2] && items[1] < items[3] {
			return items, nil
		}
		return nil, fmt.Errorf("slot %s: %v is not west, south, east, north with west < east and south < north", name, v)
	case Observation:
		if o, ok := v.(strictjson.Value); ok && o.Len() <= maxList {
			return o, nil
		}
		return nil, fmt.Errorf("slot %s: the result is not an observation of at most %d items", name, maxList)
	}
	return nil, fmt.Errorf("slot %s: type %s cannot be derived", name, t)
}
