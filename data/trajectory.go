// Package data knows the trajectory schema, its strict JSON codec, dataset
// folders in Parquet and JSONL with their manifests, and importers for foreign
// trajectory files. It knows nothing of models and slots.
package data

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"terraloom/data/strictjson"
)

// Trajectory is one worked Earth-observation question: z = (q, c, τ, y) of
// Earth-Agent-Pro Eq. 4. In JSON it is one object with the members named here.
type Trajectory struct {
	ID         string           // unique in a dataset; instances are "<seed_id>-<index>"
	SeedID     string           // the seed it was made from; equal to ID in a seed
	Source     string           // "earth-bench", "openearthagent", "own", …
	Domain     string           // "spectrum", "products", "rgb", "gis", …
	Regime     string           // "if", "ap" or "ow"; "" where unknown
	Query      string           // the question as asked
	Inputs     strictjson.Value // object: what is at hand before step 0 (c of Eq. 4)
	Skill      string           // "" where unknown
	Steps      []Step           // τ, in order
	Answer     strictjson.Value // y; Absent where the source has none
	Slots      strictjson.Value // object: slot values of an instance; Absent in seeds
	Provenance strictjson.Value // object: where the row came from
}

// Step is one tool call and what it returned.
type Step struct {
	Tool        string
	Arguments   strictjson.Value // object
	Observation strictjson.Value // any JSON value; Absent where none was recorded
	Thought     string
	Uses        []Use
}

// Use is one edge of the dependency graph: the argument leaf or list at
// Argument took its value from the observation of step From at Observation.
type Use struct {
	Argument    string // JSON pointer into the step's arguments
	From        int    // index of the producing step
	Observation string // JSON pointer into that step's observation
	Transform   string // how the value changed on the way; "identity" where it did not
}

var (
	trajectoryKeys = []string{"id", "seed_id", "source", "domain", "regime", "query", "inputs", "skill", "steps", "answer", "slots", "provenance"}
	stepKeys       = []string{"tool", "arguments", "observation", "thought", "uses"}
	useKeys        = []string{"argument", "from", "observation", "transform"}
)

// Value encodes t; empty optional members are left out.
func (t *Trajectory) Value() strictjson.Value {
	steps := make([]strictjson.Value, len(t.Steps))
	for i, s := range t.Steps {
		uses := make([]strictjson.Value, len(s.Uses))
		for j, u := range s.Uses {
			uses[j] = strictjson.Obj(
				strictjson.Member{Key: "argument", Value: strictjson.Text(u.Argument)},
				strictjson.Member{Key: "from", Value: strictjson.Int(u.From)},
				strictjson.Member{Key: "observation", Value: strictjson.Text(u.Observation)},
				strictjson.Member{Key: "transform", Value: strictjson.Text(u.Transform)})
		}
		steps[i] = strictjson.Obj(
			strictjson.Member{Key: "tool", Value: strictjson.Text(s.Tool)},
			strictjson.Member{Key: "arguments", Value: s.Arguments},
			strictjson.Member{Key: "observation", Value: s.Observation},
			strictjson.Member{Key: "thought", Value: optional(s.Thought)},
			strictjson.Member{Key: "uses", Value: nonEmpty(uses)})
	}
	return strictjson.Obj(
		strictjson.Member{Key: "id", Value: strictjson.Text(t.ID)},
		strictjson.Member{Key: "seed_id", Value: strictjson.Text(t.SeedID)},
		strictjson.Member{Key: "source", Value: strictjson.Text(t.Source)},
		strictjson.Member{Key: "domain", Value: strictjson.Text(t.Domain)},
		strictjson.Member{Key: "regime", Value: optional(t.Regime)},
		strictjson.Member{Key: "query", Value: strictjson.Text(t.Query)},
		strictjson.Member{Key: "inputs", Value: t.Inputs},
		strictjson.Member{Key: "skill", Value: optional(t.Skill)},
		strictjson.Member{Key: "steps", Value: strictjson.List(steps...)},
		strictjson.Member{Key: "answer", Value: t.Answer},
		strictjson.Member{Key: "slots", Value: t.Slots},
		strictjson.Member{Key: "provenance", Value: t.Provenance})
}

func optional(s string) strictjson.Value {
	if s == "" {
		return strictjson.Value{}
	}
	return strictjson.Text(s)
}

func nonEmpty(items []strictjson.Value) strictjson.Value {
	if len(items) == 0 {
		return strictjson.Value{}
	}
	return strictjson.List(items...)
}

// DecodeTrajectory decodes one object written by Value. An unknown, misspelt or
// missing member, a wrong kind and an edge that leads nowhere are errors that
// name the member's JSON pointer.
func DecodeTrajectory(v strictjson.Value) (Trajectory, error) {
	d := decoder{}
	o := d.object(v, "", trajectoryKeys)
	t := Trajectory{
		ID: d.text(o, "", "id", true), SeedID: d.text(o, "", "seed_id", true), Source: d.text(o, "", "source", true),
		Domain: d.text(o, "", "domain", true), Regime: d.text(o, "", "regime", false), Query: d.text(o, "", "query", true),
		Inputs: d.kind(o, "", "inputs", strictjson.Object), Skill: d.text(o, "", "skill", false),
		Answer: o.Get("answer"), Slots: d.kind(o, "", "slots", strictjson.Object),
		Provenance: d.kind(o, "", "provenance", strictjson.Object),
	}
	steps := d.kind(o, "", "steps", strictjson.Array)
	if steps.Len() == 0 {
		d.fail("/steps", "a trajectory needs at least one step")
	}
	for i := range steps.Len() {
		at := fmt.Sprintf("/steps/%d", i)
		so := d.object(steps.Index(i), at, stepKeys)
		s := Step{
			Tool: d.text(so, at, "tool", true), Arguments: d.kind(so, at, "arguments", strictjson.Object),
			Observation: so.Get("observation"), Thought: d.text(so, at, "thought", false),
		}
		if s.Arguments.IsAbsent() {
			d.fail(at+"/arguments", "missing")
		}
		uses := d.kind(so, at, "uses", strictjson.Array)
		for j := range uses.Len() {
			ua := fmt.Sprintf("%s/uses/%d", at, j)
			uo := d.object(uses.Index(j), ua, useKeys)
			u := Use{Argument: d.text(uo, ua, "argument", false), Observation: d.text(uo, ua, "observation", false), Transform: d.text(uo, ua, "transform", true)}
			u.From = d.index(uo, ua, "from")
			switch {
			case u.From >= i:
				d.fail(ua+"/from", "must be the index of an earlier step, found %d", u.From)
			default:
				if _, ok := s.Arguments.At(u.Argument); !ok {
					d.fail(ua+"/argument", "%q leads to no argument", u.Argument)
				}
				if _, ok := t.Steps[u.From].Observation.At(u.Observation); !ok {
					d.fail(ua+"/observation", "%q leads nowhere in the observation of step %d", u.Observation, u.From)
				}
			}
			s.Uses = append(s.Uses, u)
		}
		t.Steps = append(t.Steps, s)
	}
	return t, d.err
}

// decoder collects the first error while members are read in order.
type decoder struct{ err error }

func (d *decoder) fail(pointer, format string, args ...any) {
	if d.err == nil {
		if pointer == "" {
			pointer = "/"
		}
		d.err = fmt.Errorf("%s: %s", pointer, fmt.Sprintf(format, args...))
	}
}

func (d *decoder) object(v strictjson.Value, at string, known []string) strictjson.Value {
	if v.Kind() != strictjson.Object {
		d.fail(at, "expected an object, found %s", v.Kind())
		return strictjson.Value{}
	}
	for i := range v.Len() {
		if key := v.Key(i); !slices.Contains(known, key) {
			hint := "known keys: " + strings.Join(known, ", ")
			for _, k := range known {
				if strings.EqualFold(k, key) {
					hint = fmt.Sprintf("it is spelt %q", k)
				}
			}
			d.fail(at+"/"+strictjson.EscapePointer(key), "unknown key; %s", hint)
		}
	}
	return v
}

func (d *decoder) text(o strictjson.Value, at, key string, required bool) string {
	v := o.Get(key)
	if v.IsAbsent() && !required {
		return ""
	}
	if v.Kind() != strictjson.String || required && v.Text() == "" {
		d.fail(at+"/"+key, "expected a non-empty string, found %s", describe(v))
	}
	return v.Text()
}

// index reads a whole number from 0 up.
func (d *decoder) index(o strictjson.Value, at, key string) int {
	v := o.Get(key)
	n, err := strconv.Atoi(v.Text())
	if !v.IsInteger() || err != nil || n < 0 {
		d.fail(at+"/"+key, "expected a whole number from 0 up, found %s", describe(v))
		return 0
	}
	return n
}

func (d *decoder) kind(o strictjson.Value, at, key string, want strictjson.Kind) strictjson.Value {
	v := o.Get(key)
	if v.Kind() != want && !v.IsAbsent() {
		d.fail(at+"/"+key, "expected %s, found %s", want, describe(v))
	}
	return v
}

func describe(v strictjson.Value) string {
	if v.IsAbsent() {
		return "nothing"
	}
	return fmt.Sprintf("%s %s", v.Kind(), clipText(v.JSON(), 40))
}
