package slots

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"go.yaml.in/yaml/v4"

	"terraloom/data"
	"terraloom/data/strictyaml"
)

// Type is the type of a slot (Earth-Agent-Pro Fig. 6).
type Type string

// The slot types.
const (
	Place       Type = "place"       // a gazetteer place: name, country, region, bbox and coordinates move together
	BBox        Type = "bbox"        // west, south, east, north in degrees
	Date        Type = "date"        // a day, written YYYY-MM-DD
	Period      Type = "period"      // a displacement of all dates, in years or days
	File        Type = "file"        // a number or word in file and folder names
	Artifact    Type = "artifact"    // a name of a produced file
	NumberType  Type = "number"      // a number
	Threshold   Type = "threshold"   // a limit that the query names
	Count       Type = "count"       // a whole number
	TextType    Type = "text"        // free text
	Observation Type = "observation" // a value that a tool returned
)

// Types lists the slot types with the letter that marks them in reviews.
var Types = map[Type]string{
	Place: "P", BBox: "I", Date: "T", Period: "T", File: "F", Artifact: "F", NumberType: "I", Threshold: "I", Count: "I", TextType: "I", Observation: "O",
}

// Roles of a slot: a root is drawn, a derived slot is computed from others.
const (
	Root    = "root"
	Derived = "derived"
)

// Slot is one mutable value u_r of a seed.
type Slot struct {
	Name   string  `yaml:"name"`
	Type   Type    `yaml:"type"`
	Role   string  `yaml:"role"`
	Group  string  `yaml:"group,omitempty"` // slots of one group change together
	Seed   any     `yaml:"seed,omitempty"`  // root: the seed's own value
	Source *Source `yaml:"source,omitempty"`
	Expr   string  `yaml:"expr,omitempty"` // derived: an expr-lang expression over other slots
}

// Source says what a root slot is drawn from. Exactly one field is set.
type Source struct {
	Gazetteer *GazetteerSource `yaml:"gazetteer,omitempty"`
	Range     *RangeSource     `yaml:"range,omitempty"`
	Choice    []any            `yaml:"choice,omitempty" json:",omitempty"`
}

// GazetteerSource draws a place of one kind.
type GazetteerSource struct {
	Kind   string   `yaml:"kind"`
	Need   []string `yaml:"need,omitempty" json:",omitempty"`   // what the place must have: admin, country, continent, sea, near
	Except []string `yaml:"except,omitempty" json:",omitempty"` // names never drawn
}

// RangeSource draws a number from a grid: min, min+step, … ≤ max.
type RangeSource struct {
	Min    float64   `yaml:"min"`
	Max    float64   `yaml:"max"`
	Step   float64   `yaml:"step"`
	Except []float64 `yaml:"except,omitempty" json:",omitempty"`
}

// Occurrence is one place of the seed where slots stand: the JSON pointer of a
// leaf and either the template of its text or the slot that is its whole value.
type Occurrence struct {
	At   string `yaml:"at"`
	Text string `yaml:"text,omitempty"` // "{slot}" and "{slot:format}" are replaced, "{{" and "}}" are braces
	Slot string `yaml:"slot,omitempty"`
}

// Program is the instantiation program F_z of one seed (Eq. 11): it takes root
// values only, everything else follows.
type Program struct {
	Version     int          `yaml:"program"`
	Seed        string       `yaml:"seed"`
	SeedHash    string       `yaml:"seed_hash"`
	Origin      string       `yaml:"origin"` // "analysis" or the model that proposed it
	Slots       []Slot       `yaml:"slots" json:",omitempty"`
	Occurrences []Occurrence `yaml:"occurrences" json:",omitempty"`
	Answer      string       `yaml:"answer"`                            // derived, fixed or none
	Notes       []string     `yaml:"notes,omitempty" json:",omitempty"` // what discovery left fixed, and why
	Review      *Review      `yaml:"review,omitempty"`
}

// What becomes of the seed's answer in instances.
const (
	AnswerDerived = "derived" // its numbers follow from the observations
	AnswerFixed   = "fixed"   // it names no number that changes
	AnswerNone    = "none"    // it cannot be derived and is left out
)

// Review states.
const (
	MachineChecked = "machine-checked" // every lint and property check passed
	Approved       = "approved"        // by a person, by name
)

// Review binds a verdict to the program text it was given on.
type Review struct {
	State string `yaml:"state"`
	By    string `yaml:"by,omitempty"`
	Hash  string `yaml:"hash"` // Program.Hash at review time
}

// ErrStaleReview is returned where a program or its seed changed after its review.
var ErrStaleReview = errors.New("the review is void: the program changed after it")

// HashSeed identifies a seed's content.
func HashSeed(t *data.Trajectory) string {
	sum := sha256.Sum256(t.Value().AppendJSON(nil))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Hash identifies everything in the program but its review. It does not depend
// on how the YAML file spells it; an empty list is as good as none.
func (p *Program) Hash() string {
	q := *p
	q.Review = nil
	text, err := json.Marshal(&q)
	if err != nil {
		panic(err) // every field is plain data
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// State is the review state in force: "" without a review, ErrStaleReview after an edit.
func (p *Program) State() (string, error) {
	switch {
	case p.Review == nil:
		return "", nil
	case p.Review.Hash != p.Hash():
		return "", fmt.Errorf("%s: %w; run slots lint and approve again", p.Seed, ErrStaleReview)
	}
	return p.Review.State, nil
}

// SetReview records a verdict on the program as it stands.
func (p *Program) SetReview(state, by string) {
	p.Review = &Review{State: state, By: by, Hash: p.Hash()}
}

// YAML is the program file's content.
func (p *Program) YAML() []byte {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(p); err != nil {
		panic(err) // every field is plain data
	}
	return buf.Bytes()
}

// ParseProgram reads a program file strictly: unknown and repeated keys are errors.
func ParseProgram(src []byte, name string) (*Program, error) {
	var p Program
	if err := strictyaml.Unmarshal(src, name, &p); err != nil {
		return nil, err
	}
	if p.Version != 1 {
		return nil, fmt.Errorf("%s: program: version %d is unknown, this release reads version 1", name, p.Version)
	}
	if _, err := json.Marshal(&p); err != nil { // Hash could not be taken
		return nil, fmt.Errorf("%s: values must be texts and finite numbers: %w", name, err)
	}
	return &p, nil
}

// ReadProgram reads a program file.
func ReadProgram(path string) (*Program, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseProgram(src, path)
}

// slot returns the slot of that name.
func (p *Program) slot(name string) *Slot {
	for i := range p.Slots {
		if p.Slots[i].Name == name {
			return &p.Slots[i]
		}
	}
	return nil
}
