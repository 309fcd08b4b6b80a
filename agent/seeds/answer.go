package seeds

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots"
)

// Answer says which observations answer the question and how that is written: a
// number at one place, or several parts.
type Answer struct {
	Step      string  `yaml:"step"`
	At        string  `yaml:"at"` // JSON pointer into the observation
	Decimals  int     `yaml:"decimals"`
	Parts     []Part  `yaml:"parts"`     // instead of step, at and decimals
	Unit      string  `yaml:"unit"`      // of the numbers; like the tolerance, not of an answer in words
	Tolerance float64 `yaml:"tolerance"` // largest absolute error of a right answer's numbers
	Text      string  `yaml:"text"`      // {value} stands for the number, {name} for the part of that name
}

// Part is one value of an answer: what stands at one place of an observation, or
// an expression over several.
type Part struct {
	Name     string `yaml:"name"`
	Step     string `yaml:"step"`
	At       string `yaml:"at"`
	Decimals *int   `yaml:"decimals"` // of a number; without them the part is a text
	// Is is an expression in the language of slot programs, in which at(step, pointer)
	// is an observed value and {name} a parameter, as count([word(at(a, "/x"))], # == "{y}").
	Is string `yaml:"is"`
}

func (a *Answer) parts() []Part {
	if len(a.Parts) > 0 {
		return a.Parts
	}
	return []Part{{Name: "value", Step: a.Step, At: a.At, Decimals: &a.Decimals}}
}

// faults of an answer's form.
func (a *Answer) faults(steps []Step) (faults []string) {
	bad := func(format string, args ...any) { faults = append(faults, "answer: "+fmt.Sprintf(format, args...)) }
	if len(a.Parts) > 0 && (a.Step != "" || a.At != "" || a.Decimals != 0) {
		bad("give either parts, or step, at and decimals")
	}
	numbers := slices.ContainsFunc(a.parts(), func(p Part) bool { return p.Decimals != nil })
	switch {
	case a.Text == "":
		bad("text is required")
	case numbers && a.Tolerance <= 0:
		bad("tolerance above 0 is required")
	case !numbers && (a.Tolerance != 0 || a.Unit != ""):
		bad("an answer in words has no unit and no tolerance")
	}
	for _, p := range a.parts() {
		if !isName.MatchString(p.Name) {
			bad("part %q: use small letters, digits and underscores", p.Name)
		}
		if p.Decimals != nil && *p.Decimals < 0 {
			bad("part %s: decimals from 0", p.Name)
		}
		switch known := slices.ContainsFunc(steps, func(st Step) bool { return st.ID == p.Step && p.Step != "" }); {
		case (p.Is == "") == (p.Step == ""):
			bad("part %s: give either step or is", p.Name)
		case p.Step != "" && !known:
			bad("step %q is no step's id", p.Step)
		}
	}
	for _, m := range hole.FindAllStringSubmatch(a.Text, -1) {
		if !slices.ContainsFunc(a.parts(), func(p Part) bool { return p.Name == m[1] && m[2] == "" }) {
			bad("text: %s is none of its parts", m[0])
		}
	}
	return faults
}

var atCall = regexp.MustCompile(`\bat\(([a-z][a-z0-9_]*)\s*,`)

// slot is the derived slot of a part: it reads the answer off the observations of
// whatever instance.
func (p Part) slot(f *Family, sc *scope) (slots.Slot, error) {
	s := slots.Slot{Name: "answer_" + p.Name, Type: slots.TextType, Role: slots.Derived, Group: answerGroup}
	index := func(id string) int { return slices.IndexFunc(f.Steps, func(st Step) bool { return st.ID == id }) }
	if p.Step != "" {
		s.Expr = fmt.Sprintf("observed(%d, %q)", index(p.Step), p.At)
		if p.Decimals == nil {
			s.Expr = "word(" + s.Expr + ")"
		} else {
			s.Expr = "num(" + s.Expr + ")"
		}
	} else {
		text, err := sc.text(p.Is)
		if err != nil {
			return s, err
		}
		s.Expr = atCall.ReplaceAllStringFunc(text, func(m string) string {
			i := index(atCall.FindStringSubmatch(m)[1])
			if i < 0 && err == nil {
				err = fmt.Errorf("%s…): no step has this id", m)
			}
			return "observed(" + strconv.Itoa(i) + ","
		})
		if err != nil {
			return s, err
		}
	}
	if p.Decimals != nil {
		s.Type, s.Expr = slots.NumberType, fmt.Sprintf("round(%s, %d)", s.Expr, *p.Decimals)
	}
	return s, nil
}

// answerGroup is the group of the slots that make the answer.
const answerGroup = "answer"

// set makes a program derive the answer as the specification says.
func (a *Answer) set(p *slots.Program, f *Family, sc *scope) error {
	p.Slots = slices.DeleteFunc(p.Slots, func(s slots.Slot) bool { return s.Group == answerGroup })
	p.Occurrences = slices.DeleteFunc(p.Occurrences, func(o slots.Occurrence) bool { return o.At == "/answer/text" })
	format := map[string]string{}
	for _, part := range a.parts() {
		s, err := part.slot(f, sc)
		if err != nil {
			return fmt.Errorf("answer: part %s: %w", part.Name, err)
		}
		p.Slots = append(p.Slots, s)
		format[part.Name] = "{" + s.Name + "}"
		if part.Decimals != nil {
			format[part.Name] = fmt.Sprintf("{%s:.%df}", s.Name, *part.Decimals)
		}
	}
	text := hole.ReplaceAllStringFunc(a.Text, func(m string) string { return format[hole.FindStringSubmatch(m)[1]] })
	p.Occurrences = append(p.Occurrences, slots.Occurrence{At: "/answer/text", Text: text})
	p.Answer = slots.AnswerDerived
	return nil
}

// of reads the answer off the observations of t.
func (a *Answer) of(t *data.Trajectory, f *Family, sc *scope) (strictjson.Value, error) {
	seed := *t
	seed.Answer = strictjson.Obj(strictjson.Member{Key: "text", Value: strictjson.Text("?")})
	p := &slots.Program{Version: 1, Seed: seed.ID, SeedHash: slots.HashSeed(&seed), Origin: "specification"}
	if err := a.set(p, f, sc); err != nil {
		return strictjson.Value{}, err
	}
	recorded := slots.Recorded{Seed: &seed}
	c, err := slots.Compile(p, &seed, recorded)
	if err != nil {
		return strictjson.Value{}, err
	}
	z, err := c.Instance(make(slots.Values, len(p.Slots)), recorded)
	if err != nil {
		return strictjson.Value{}, err
	}
	members := []strictjson.Member{{Key: "text", Value: z.Answer.Get("text")}}
	if parts := a.parts(); len(parts) == 1 {
		if x, ok := a.number(z.Answer.Get("text").Text()); ok {
			members = append(members, strictjson.Member{Key: "number", Value: strictjson.Float(x)})
		}
	}
	return strictjson.Obj(members...), nil
}

// number is the number of an answer's text with one part, if that is a number.
func (a *Answer) number(text string) (float64, bool) {
	at := hole.FindStringIndex(a.Text)
	end := len(text) - (len(a.Text) - at[1])
	if len(hole.FindAllString(a.Text, 2)) != 1 || end < at[0] {
		return 0, false
	}
	x, err := strconv.ParseFloat(text[at[0]:end], 64)
	return x, err == nil
}
