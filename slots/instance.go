package slots

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/vm"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// Instance composes the trajectory z = Compose(κ, u) of Eq. 11 from root
// values: derived slots by their expressions, arguments along the dependency
// graph, observations of pure tools by running the tool again. It fills v with
// the derived values. Id, source and provenance are the caller's.
func (c *Compiled) Instance(v Values, tools Tools) (*data.Trajectory, error) {
	return c.instance(v, tools, true)
}

// instance composes with or without what is derived from observations: answers
// name places in the tools' own outputs, which recorded ones need not have.
func (c *Compiled) instance(v Values, tools Tools, answer bool) (*data.Trajectory, error) {
	f := &frame{c: c, values: v, observations: make([]strictjson.Value, len(c.Seed.Steps))}
	if err := f.derive(false); err != nil {
		return nil, err
	}
	t := &data.Trajectory{Domain: c.Seed.Domain, Regime: c.Seed.Regime, Skill: c.Seed.Skill, Steps: make([]data.Step, len(c.steps))}
	for i := range c.steps {
		if err := f.step(i, &t.Steps[i], tools); err != nil {
			return nil, fmt.Errorf("step %d (%s): %w", i, c.Seed.Steps[i].Tool, err)
		}
	}
	var err error
	if t.Inputs, err = f.render(&c.inputs); err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	if answer {
		if err := f.derive(true); err != nil {
			return nil, err
		}
		rendered, err := f.render(&c.answer)
		if err != nil {
			return nil, fmt.Errorf("answer: %w", err)
		}
		t.Answer = c.answerOf(rendered)
	}
	q, err := f.render(&c.query)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	t.Query, t.Slots = q.Text(), c.rootsValue(v)
	return t, nil
}

// derive computes the derived slots; those that read observed() come late.
func (f *frame) derive(late bool) error {
	c := f.c
	if f.env == nil {
		f.machine = &vm.VM{MemoryBudget: maxMemory}
		f.env = make(map[string]any, len(f.values)+3)
		for i, x := range f.values {
			if p, ok := x.(gazetteer.Place); ok {
				f.env[c.Program.Slots[i].Name] = newPlaceValue(p)
			} else if x != nil {
				f.env[c.Program.Slots[i].Name] = x
			}
		}
		f.env["was"], f.env["observed"], f.env["tick"] = c.was, f.observed, f.tick
	}
	for _, d := range c.derived {
		if d.late != late {
			continue
		}
		x, err := f.evaluate(d)
		if err != nil {
			return err
		}
		f.values[d.slot], f.env[c.Program.Slots[d.slot].Name] = x, x
	}
	return nil
}

// answerOf keeps the text of a rendered answer: letters name choices that
// instances do not have.
func (c *Compiled) answerOf(rendered strictjson.Value) strictjson.Value {
	if c.Program.Answer == AnswerNone {
		return strictjson.Value{}
	}
	if text := rendered.Get("text"); !text.IsAbsent() {
		return strictjson.Obj(strictjson.Member{Key: "text", Value: text})
	}
	return rendered
}

// step renders the arguments of step i and makes its observation.
func (f *frame) step(i int, s *data.Step, tools Tools) error {
	plan := &f.c.steps[i]
	s.Tool, s.Uses = f.c.Seed.Steps[i].Tool, plan.uses
	var err error
	if s.Arguments, err = f.render(&plan.arguments); err != nil {
		return err
	}
	if plan.computed {
		if s.Observation, err = tools.Call(s.Tool, s.Arguments); err != nil {
			return fmt.Errorf("recomputing: %w", err)
		}
	} else if s.Observation, err = f.render(&plan.observation); err != nil {
		return fmt.Errorf("observation: %w", err)
	}
	f.observations[i] = s.Observation
	thought, err := f.render(&plan.thought)
	s.Thought = thought.Text()
	return err
}

// was returns the seed's own value at a pointer.
func (c *Compiled) was(pointer string) (any, error) {
	v, ok := c.seedValue(pointer)
	if !ok {
		return nil, fmt.Errorf("was(%q): the seed has no such place", pointer)
	}
	return v, nil
}

// seedValue resolves /steps/N/… without building the whole seed's value.
func (c *Compiled) seedValue(pointer string) (strictjson.Value, bool) {
	if rest, ok := strings.CutPrefix(pointer, "/steps/"); ok {
		number, _, _ := strings.Cut(rest, "/")
		if step, err := strconv.Atoi(number); err == nil && step >= 0 && step < len(c.Seed.Steps) {
			prefix := "/steps/" + number
			if p, ok := cutPointer(pointer, prefix+"/observation"); ok {
				return c.Seed.Steps[step].Observation.At(p)
			}
			if p, ok := cutPointer(pointer, prefix+"/arguments"); ok {
				return c.Seed.Steps[step].Arguments.At(p)
			}
		}
	}
	return c.Seed.Value().At(pointer)
}

func cutPointer(pointer, prefix string) (string, bool) {
	if len(pointer) < len(prefix) || pointer[:len(prefix)] != prefix || len(pointer) > len(prefix) && pointer[len(prefix)] != '/' {
		return "", false
	}
	return pointer[len(prefix):], true
}

// observed returns what the instance's step returned, at a pointer into the
// seed's observation of that step.
func (f *frame) observed(step int, pointer string) (any, error) {
	if step < 0 || step >= len(f.observations) {
		return nil, fmt.Errorf("observed(%d, …): the trajectory has steps 0 to %d", step, len(f.observations)-1)
	}
	if to, ok := f.c.steps[step].remap[pointer]; ok {
		pointer = to
	}
	v, ok := f.observations[step].At(pointer)
	if !ok {
		return nil, fmt.Errorf("observed(%d, %q): nothing there", step, pointer)
	}
	return v, nil
}

// rootsValue is the JSON object of an instance's root slot values.
func (c *Compiled) rootsValue(v Values) strictjson.Value {
	members := make([]strictjson.Member, 0, len(c.draws))
	for i := range c.draws {
		name := c.draws[i].slot.Name
		var x strictjson.Value
		switch y := v[c.slotAt[name]].(type) {
		case gazetteer.Place:
			x = strictjson.Text(y.Name)
		case string:
			x = strictjson.Text(y)
		case int:
			x = strictjson.Int(y)
		case float64:
			x = strictjson.Float(y)
		case []float64:
			x = boxValue(y)
		}
		members = append(members, strictjson.Member{Key: name, Value: x})
	}
	return strictjson.Obj(members...)
}
