package catalogue

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"terraloom/data/strictjson"
)

// Tool is one tool's declaration. It is immutable.
type Tool struct {
	Name    string
	Family  string   // index, inversion, perception, analysis, statistics, acquisition
	Origin  string   // kit: public kit; seed-calls: called by the public tasks only; inferred: schema inferred from figures
	Domains []string // of spectrum, products, rgb
	Tags    []string // words for lexical retrieval
	Summary string   // one sentence
	Returns Type     // of the observation
	Pure    bool     // the result depends on the arguments alone
	Batch   bool     // path parameters take lists of equal length where the public kit takes one path
	Aliases []string // other names of the tool
	Params  []Param  // in call order

	spread, records string // see tools.yaml
	signature       string
	schema          string
}

// Param is one parameter.
type Param struct {
	Name    string
	Type    Type
	Default strictjson.Value // Absent if the parameter is required
	IO      string           // "in": path read; "out": path written; "": not a path
	Enum    []string         // allowed texts, if any
	Keys    []string         // members that a dict must have, if any
	Minimum *float64         // inclusive
	Maximum *float64         // inclusive
	Above   *float64         // exclusive minimum
	Unit    string
	Doc     string
	Aliases []string // other keys for the parameter
}

// Required reports whether a call must give the parameter.
func (p *Param) Required() bool { return p.Default.IsAbsent() }

// Param returns the parameter of that canonical name.
func (t *Tool) Param(name string) (*Param, bool) {
	for i := range t.Params {
		if t.Params[i].Name == name {
			return &t.Params[i], true
		}
	}
	return nil, false
}

// Signature is the tool on one line for small prompts:
// name(param: type, param: type = default) — summary. A parameter with an enum
// shows its values as the type.
func (t *Tool) Signature() string { return t.signature }

// Schema is the JSON Schema (draft 2020-12) of the argument object, compact and
// always with the same bytes. Validate accepts exactly what it accepts, but for
// numbers beyond 64-bit range.
func (t *Tool) Schema() string { return t.schema }

func newTool(f fileTool) (*Tool, error) {
	t := &Tool{
		Name: f.Name, Family: f.Family, Origin: f.Origin, Domains: f.Domains, Tags: f.Tags, Summary: f.Summary,
		Pure: f.Pure, Batch: f.Batch, Aliases: f.Aliases, spread: f.Spread, records: f.Records,
	}
	if t.Origin == "" {
		t.Origin = "kit"
	}
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("tool %q: %w", f.Name, fmt.Errorf(format, args...)))
	}
	oneOf := func(what, got string, known []string) {
		if !slices.Contains(known, got) {
			bad("%s %q is none of %s", what, got, strings.Join(known, ", "))
		}
	}
	if t.Name == "" || t.Summary == "" || len(t.Tags) == 0 || len(t.Domains) == 0 || len(f.Params) == 0 {
		bad("needs name, summary, tags, domains and params")
	}
	oneOf("family", t.Family, families)
	oneOf("origin", t.Origin, origins)
	for _, d := range t.Domains {
		oneOf("domain", d, domains)
	}
	var err error
	if t.Returns, err = ParseType(f.Returns); err != nil {
		bad("returns: %w", err)
	}
	keys := map[string]bool{t.spread: true, t.records: true}
	for _, fp := range f.Params {
		p, err := newParam(fp, t.Batch)
		if err != nil {
			bad("parameter %q: %w", fp.Name, err)
		}
		for _, k := range append([]string{p.Name}, p.Aliases...) {
			if keys[k] {
				bad("key %q is used twice", k)
			}
			keys[k] = true
		}
		t.Params = append(t.Params, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	t.signature, t.schema = t.makeSignature(), t.makeSchema()
	return t, nil
}

func newParam(f fileParam, batch bool) (Param, error) {
	p := Param{
		Name: f.Name, IO: f.IO, Enum: f.Enum, Keys: f.Keys, Minimum: f.Minimum, Maximum: f.Maximum, Above: f.Above,
		Unit: f.Unit, Doc: f.Doc, Aliases: f.Aliases,
	}
	if p.Name == "" || p.Doc == "" {
		return p, errors.New("needs name and doc")
	}
	if p.IO != "" && p.IO != "in" && p.IO != "out" {
		return p, fmt.Errorf("io %q is neither in nor out", p.IO)
	}
	text := f.Type
	if batch && text == "str" && p.IO != "" {
		text = "str | list[str]"
	}
	var err error
	if p.Type, err = ParseType(text); err != nil {
		return p, err
	}
	if f.Default.Kind != 0 {
		if p.Default, err = jsonOf(&f.Default); err != nil {
			return p, err
		}
		if flt := p.check(p.Default); flt != nil {
			return p, fmt.Errorf("default: %s", flt.msg)
		}
	}
	return p, nil
}

// jsonOf turns a YAML scalar or list into JSON, keeping the spelling of numbers.
func jsonOf(n *yaml.Node) (strictjson.Value, error) {
	switch {
	case n.Kind == yaml.SequenceNode:
		items := make([]strictjson.Value, len(n.Content))
		for i, c := range n.Content {
			var err error
			if items[i], err = jsonOf(c); err != nil {
				return strictjson.Value{}, err
			}
		}
		return strictjson.List(items...), nil
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		return strictjson.Text(n.Value), nil
	case n.Kind == yaml.ScalarNode:
		return strictjson.Parse([]byte(n.Value))
	}
	return strictjson.Value{}, fmt.Errorf("line %d: a default is a scalar or a list", n.Line)
}

func (t *Tool) makeSignature() string {
	var b strings.Builder
	b.WriteString(t.Name + "(")
	for i := range t.Params {
		p := &t.Params[i]
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.Name + ": " + p.typeText())
		if !p.Required() {
			b.WriteString(" = " + p.Default.JSON())
		}
	}
	b.WriteString(") — " + t.Summary)
	return b.String()
}

func (p *Param) typeText() string {
	if p.Enum == nil {
		return p.Type.String()
	}
	return `"` + strings.Join(p.Enum, `" | "`) + `"`
}

func (t *Tool) makeSchema() string {
	var properties []strictjson.Member
	required := []strictjson.Value{}
	for i := range t.Params {
		p := &t.Params[i]
		properties = append(properties, strictjson.Member{Key: p.Name, Value: p.schema()})
		if p.Required() {
			required = append(required, strictjson.Text(p.Name))
		}
	}
	return strictjson.Obj(
		strictjson.Member{Key: "type", Value: strictjson.Text("object")},
		strictjson.Member{Key: "properties", Value: strictjson.Obj(properties...)},
		strictjson.Member{Key: "required", Value: strictjson.List(required...)},
		strictjson.Member{Key: "additionalProperties", Value: strictjson.Boolean(false)},
	).JSON()
}

// schema is the JSON Schema of one parameter. Bounds and enum go inside the
// alternative they speak of, so that null and lists stay allowed beside them.
func (p *Param) schema() strictjson.Value {
	var m []strictjson.Member
	if alts := p.Type.alternatives(); len(alts) == 1 {
		m = p.schemaOf(alts[0])
	} else {
		branches := make([]strictjson.Value, len(alts))
		for i, a := range alts {
			branches[i] = strictjson.Obj(p.schemaOf(a)...)
		}
		m = []strictjson.Member{{Key: "anyOf", Value: strictjson.List(branches...)}}
	}
	doc := p.Doc
	if p.Unit != "" {
		doc += " (" + p.Unit + ")"
	}
	m = append(m, strictjson.Member{Key: "description", Value: strictjson.Text(doc)})
	if !p.Required() {
		m = append(m, strictjson.Member{Key: "default", Value: p.Default})
	}
	return strictjson.Obj(m...)
}

// schemaOf is the schema of the argument itself as type t, which is no union.
func (p *Param) schemaOf(t Type) []strictjson.Member {
	m := typeSchema(t)
	bound := func(key string, x *float64) {
		if x != nil {
			v, _ := strictjson.Parse([]byte(strings.TrimSuffix(strictjson.FormatFloat(*x), ".0")))
			m = append(m, strictjson.Member{Key: key, Value: v})
		}
	}
	switch t.kind {
	case intType, floatType:
		bound("minimum", p.Minimum)
		bound("maximum", p.Maximum)
		bound("exclusiveMinimum", p.Above)
	case strType:
		if p.Enum != nil {
			m = append(m, strictjson.Member{Key: "enum", Value: textList(p.Enum)})
		}
	case dictType:
		if p.Keys != nil {
			m = append(m, strictjson.Member{Key: "required", Value: textList(p.Keys)})
		}
	}
	return m
}

func typeSchema(t Type) []strictjson.Member {
	if t.kind == unionType {
		branches := make([]strictjson.Value, len(t.alts))
		for i, a := range t.alts {
			branches[i] = strictjson.Obj(typeSchema(a)...)
		}
		return []strictjson.Member{{Key: "anyOf", Value: strictjson.List(branches...)}}
	}
	var m []strictjson.Member
	if name := jsonName[t.kind]; name != "" {
		m = append(m, strictjson.Member{Key: "type", Value: strictjson.Text(name)})
	}
	if t.elem != nil && t.elem.kind != anyType {
		key := "items"
		if t.kind == dictType {
			key = "additionalProperties"
		}
		m = append(m, strictjson.Member{Key: key, Value: strictjson.Obj(typeSchema(*t.elem)...)})
	}
	return m
}

func textList(texts []string) strictjson.Value {
	items := make([]strictjson.Value, len(texts))
	for i, s := range texts {
		items[i] = strictjson.Text(s)
	}
	return strictjson.List(items...)
}
