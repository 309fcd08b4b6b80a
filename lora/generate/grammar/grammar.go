// Package grammar constrains generation to JSON documents of a schema: at every step it tells which tokens can follow.
//
// A schema may use: type (object, array, string, number, integer, boolean, null, or a list of them), properties,
// required, additionalProperties, items, minItems, maxItems, enum, const, anyOf, oneOf, and $ref to a part of the same
// document that does not contain the reference. Annotations (title, description, default, examples, format, …) are
// read over. Any other keyword is an error: a constraint that is not kept would be a lie.
//
// Documents are compact, with at most one space after ':' and ','. Objects with properties have no others; their
// members come in any order. Numbers have at most 15 digits before and after the point and 2 in the exponent, strings
// no escaped surrogates, and values of no type at most 6 levels: every document can be read back by any parser.
//
//	g, err := grammar.Compile(schema)
//	doc := g.Start(grammar.NewVocabulary(tok))
//	for !doc.Complete() {
//		mask := doc.Mask(tokensLeft)
//		id := …                     // one of the mask
//		err := doc.Advance(id)
//	}
package grammar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// ErrSchema: a schema that is not one, or uses what this package does not keep.
var ErrSchema = errors.New("schema cannot be used")

// anyDepth is how many levels a value of no type may have.
const anyDepth = 6

// maxProperties of one object: they are counted in the bits of a word.
const maxProperties = 64

// maxNodes bounds a schema with its references expanded.
const maxNodes = 100_000

type nodeKind uint8

const (
	kindLiteral nodeKind = iota // one of texts
	kindString
	kindNumber
	kindInteger
	kindObject // exactly the properties
	kindMap    // any keys
	kindArray
	kindUnion
)

// node is a part of a schema.
type node struct {
	id       int
	kind     nodeKind
	texts    []string   // kindLiteral: JSON texts
	props    []property // kindObject
	required uint64     // kindObject: bits of props
	items    *node      // kindArray, kindMap: the values
	minItems int
	maxItems int     // −1: no limit
	options  []*node // kindUnion
	shortest int     // bytes of the shortest value
}

type property struct {
	key   string // as a JSON text, with its quotes
	value *node
}

// Grammar is a compiled schema. It is safe for concurrent use.
type Grammar struct {
	root  *node
	masks maskCache
}

// Compile reads a JSON schema. Errors name the place in the schema by its JSON pointer.
func Compile(schema []byte) (*Grammar, error) {
	root, err := strictjson.Parse(schema)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	c := &compiler{root: root, open: map[string]bool{}}
	n, err := c.node(root, "")
	if err != nil {
		return nil, err
	}
	return &Grammar{root: n}, nil
}

// Shortest is the number of bytes of the shortest document.
func (g *Grammar) Shortest() int { return g.root.shortest }

type compiler struct {
	root  strictjson.Value
	nodes int
	open  map[string]bool // references being expanded
}

func refuse(pointer, format string, args ...any) error {
	if pointer == "" {
		pointer = "/"
	}
	return fmt.Errorf("%w: %s: %s", ErrSchema, pointer, fmt.Sprintf(format, args...))
}

func (c *compiler) add(n node) *node {
	n.id = c.nodes
	c.nodes++
	n.shortest = n.measure()
	return &n
}

// annotations say nothing about which documents are valid.
var annotations = []string{"title", "description", "default", "examples", "format", "deprecated", "readOnly", "writeOnly",
	"$schema", "$id", "$comment", "$defs", "definitions"}

// keywords are the constraints, with the types they belong to ("" for all).
var keywords = map[string]string{"type": "", "enum": "", "const": "", "anyOf": "", "oneOf": "", "$ref": "",
	"properties": "object", "required": "object", "additionalProperties": "object",
	"items": "array", "minItems": "array", "maxItems": "array"}

func (c *compiler) node(s strictjson.Value, at string) (*node, error) {
	if c.nodes > maxNodes {
		return nil, refuse(at, "more than %d parts with references expanded", maxNodes)
	}
	switch s.Kind() {
	case strictjson.Bool:
		if s.True() {
			return c.any(anyDepth), nil
		}
		return nil, refuse(at, "the schema false allows nothing")
	case strictjson.Object:
	default:
		return nil, refuse(at, "a schema is an object, not %s", s.Kind())
	}
	for i := range s.Len() {
		key := s.Key(i)
		if _, known := keywords[key]; !known && !slices.Contains(annotations, key) {
			return nil, refuse(at, "the keyword %q is not supported", key)
		}
	}
	// Keywords that replace all others.
	for _, key := range []string{"$ref", "enum", "const", "anyOf", "oneOf"} {
		if s.Get(key).IsAbsent() {
			continue
		}
		for i := range s.Len() {
			other := s.Key(i)
			_, constraint := keywords[other]
			// A type beside enum or const says again what the values are.
			if constraint && other != key && !(other == "type" && (key == "enum" || key == "const")) {
				return nil, refuse(at, "%q beside %q is not supported", other, key)
			}
		}
		return c.whole(s, key, at)
	}
	types, err := typesOf(s, at)
	if err != nil {
		return nil, err
	}
	stated := types != nil
	for i := range s.Len() {
		switch t := keywords[s.Key(i)]; {
		case t == "" || slices.Contains(types, t):
		case stated:
			return nil, refuse(at, "%q needs \"type\": %q", s.Key(i), t)
		default:
			types = append(types, t) // of the types it could have, the one that is described
		}
	}
	if types == nil {
		return c.any(anyDepth), nil
	}
	var options []*node
	for _, t := range types {
		n, err := c.typed(s, t, at)
		if err != nil {
			return nil, err
		}
		options = append(options, n)
	}
	return c.union(options), nil
}

// whole compiles a schema that consists of one keyword.
func (c *compiler) whole(s strictjson.Value, key, at string) (*node, error) {
	v := s.Get(key)
	below := at + "/" + key
	switch key {
	case "$ref":
		return c.reference(v, below)
	case "const":
		return c.literal(s, []strictjson.Value{v}, at)
	}
	if v.Kind() != strictjson.Array || v.Len() == 0 {
		return nil, refuse(below, "expected a list with at least one entry")
	}
	if key == "enum" {
		values := make([]strictjson.Value, v.Len())
		for i := range values {
			values[i] = v.Index(i)
		}
		return c.literal(s, values, at)
	}
	var options []*node
	for i := range v.Len() {
		n, err := c.node(v.Index(i), fmt.Sprintf("%s/%d", below, i))
		if err != nil {
			return nil, err
		}
		for j, o := range options {
			if key == "oneOf" && !disjoint(o, n) {
				return nil, refuse(below, "options %d and %d may both be valid for one document, which oneOf forbids: use anyOf", j, i)
			}
		}
		options = append(options, n)
	}
	return c.union(options), nil
}

// literal allows those of the values that have the schema's type, if it names one.
func (c *compiler) literal(s strictjson.Value, values []strictjson.Value, at string) (*node, error) {
	types, err := typesOf(s, at)
	if err != nil {
		return nil, err
	}
	n := node{kind: kindLiteral}
	for _, v := range values {
		name := map[strictjson.Kind]string{strictjson.Null: "null", strictjson.Bool: "boolean", strictjson.Number: "number",
			strictjson.String: "string", strictjson.Array: "array", strictjson.Object: "object"}[v.Kind()]
		if types == nil || slices.Contains(types, name) || v.IsInteger() && slices.Contains(types, "integer") {
			n.texts = append(n.texts, v.JSON())
		}
	}
	if len(n.texts) == 0 {
		return nil, refuse(at, "no value has one of the types %v", types)
	}
	return c.add(n), nil
}

func (c *compiler) reference(v strictjson.Value, at string) (*node, error) {
	ref := v.Text()
	if v.Kind() != strictjson.String || ref == "" || ref[0] != '#' {
		return nil, refuse(at, "%s: only references into the same schema are supported (\"#/…\")", v.JSON())
	}
	target, ok := c.root.At(ref[1:])
	if !ok {
		return nil, refuse(at, "%s leads nowhere", v.JSON())
	}
	if c.open[ref] {
		return nil, refuse(at, "%s contains itself: recursive schemas are not supported", v.JSON())
	}
	c.open[ref] = true
	defer delete(c.open, ref)
	return c.node(target, ref[1:])
}

var jsonTypes = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// typesOf is the value of "type" as a list; nil if there is none.
func typesOf(s strictjson.Value, at string) ([]string, error) {
	v := s.Get("type")
	var out []string
	switch v.Kind() {
	case strictjson.Absent:
		return nil, nil
	case strictjson.String:
		out = []string{v.Text()}
	case strictjson.Array:
		for i := range v.Len() {
			out = append(out, v.Index(i).Text())
		}
	}
	if len(out) == 0 {
		return nil, refuse(at+"/type", "expected one of %v or a list of them", jsonTypes)
	}
	for _, t := range out {
		if !slices.Contains(jsonTypes, t) {
			return nil, refuse(at+"/type", "%q is not one of %v", t, jsonTypes)
		}
	}
	return out, nil
}

func (c *compiler) typed(s strictjson.Value, t, at string) (*node, error) {
	switch t {
	case "string":
		return c.add(node{kind: kindString}), nil
	case "number":
		return c.add(node{kind: kindNumber}), nil
	case "integer":
		return c.add(node{kind: kindInteger}), nil
	case "boolean":
		return c.add(node{kind: kindLiteral, texts: []string{"true", "false"}}), nil
	case "null":
		return c.add(node{kind: kindLiteral, texts: []string{"null"}}), nil
	case "array":
		return c.array(s, at)
	}
	return c.object(s, at)
}

func (c *compiler) array(s strictjson.Value, at string) (*node, error) {
	n := node{kind: kindArray, maxItems: -1}
	for key, to := range map[string]*int{"minItems": &n.minItems, "maxItems": &n.maxItems} {
		v := s.Get(key)
		if v.IsAbsent() {
			continue
		}
		f, ok := v.Float()
		if !ok || f < 0 || f != math.Trunc(f) || f > 1<<20 {
			return nil, refuse(at+"/"+key, "expected a whole number from 0 to %d", 1<<20)
		}
		*to = int(f)
	}
	if n.maxItems >= 0 && n.minItems > n.maxItems {
		return nil, refuse(at, "minItems %d is more than maxItems %d", n.minItems, n.maxItems)
	}
	items := s.Get("items")
	if items.IsAbsent() {
		n.items = c.any(anyDepth - 1)
		return c.add(n), nil
	}
	var err error
	if n.items, err = c.node(items, at+"/items"); err != nil {
		return nil, err
	}
	return c.add(n), nil
}

func (c *compiler) object(s strictjson.Value, at string) (*node, error) {
	props, required, additional := s.Get("properties"), s.Get("required"), s.Get("additionalProperties")
	if !props.IsAbsent() && props.Kind() != strictjson.Object {
		return nil, refuse(at+"/properties", "expected an object")
	}
	if !required.IsAbsent() && required.Kind() != strictjson.Array {
		return nil, refuse(at+"/required", "expected a list of names")
	}
	closed := additional.Kind() == strictjson.Bool && !additional.True()
	if props.IsAbsent() && !closed {
		if required.Len() > 0 {
			return nil, refuse(at+"/required", "names without properties are not supported")
		}
		values := c.any(anyDepth - 1)
		if additional.Kind() == strictjson.Object {
			var err error
			if values, err = c.node(additional, at+"/additionalProperties"); err != nil {
				return nil, err
			}
		}
		return c.add(node{kind: kindMap, items: values}), nil
	}
	if props.Len() > maxProperties {
		return nil, refuse(at+"/properties", "%d properties, at most %d are supported", props.Len(), maxProperties)
	}
	n := node{kind: kindObject}
	index := map[string]int{}
	for i := range props.Len() {
		key := props.Key(i)
		value, err := c.node(props.Index(i), at+"/properties/"+strictjson.EscapePointer(key))
		if err != nil {
			return nil, err
		}
		index[key] = i
		n.props = append(n.props, property{string(strictjson.AppendString(nil, key)), value})
	}
	for i := range required.Len() {
		p, ok := index[required.Index(i).Text()]
		if !ok {
			return nil, refuse(fmt.Sprintf("%s/required/%d", at, i), "%s is not one of the properties", required.Index(i).JSON())
		}
		n.required |= 1 << p
	}
	return c.add(n), nil
}

// any is a value of no type with at most depth levels.
func (c *compiler) any(depth int) *node {
	options := []*node{
		c.add(node{kind: kindLiteral, texts: []string{"true", "false", "null"}}),
		c.add(node{kind: kindString}), c.add(node{kind: kindNumber}),
	}
	if depth > 1 {
		inner := c.any(depth - 1)
		options = append(options, c.add(node{kind: kindArray, items: inner, maxItems: -1}), c.add(node{kind: kindMap, items: inner}))
	}
	return c.union(options)
}

func (c *compiler) union(options []*node) *node {
	if len(options) == 1 {
		return options[0]
	}
	return c.add(node{kind: kindUnion, options: options})
}

// disjoint reports whether it is certain that no value belongs to both nodes.
func disjoint(a, b *node) bool {
	switch {
	case a.kind == kindUnion:
		for _, o := range a.options {
			if !disjoint(o, b) {
				return false
			}
		}
		return true
	case b.kind == kindUnion || b.kind == kindLiteral && a.kind != kindLiteral:
		return disjoint(b, a)
	case a.kind == kindLiteral:
		for _, t := range a.texts {
			if b.kind == kindLiteral && slices.Contains(b.texts, t) || b.kind != kindLiteral && strings.IndexByte(firsts[b.kind], t[0]) >= 0 {
				return false
			}
		}
		return true
	case firsts[a.kind] != firsts[b.kind]:
		return true
	case a.kind != kindObject || b.kind != kindObject:
		return false
	}
	// Objects that both must have a member with different values.
	for i, p := range a.props {
		for j, q := range b.props {
			if p.key == q.key && a.required&(1<<i) != 0 && b.required&(1<<j) != 0 && disjoint(p.value, q.value) {
				return true
			}
		}
	}
	return false
}

// firsts are the bytes that values of a kind can begin with.
var firsts = map[nodeKind]string{kindString: `"`, kindNumber: "-0123456789", kindInteger: "-0123456789", kindObject: "{", kindMap: "{", kindArray: "["}

// measure computes shortest.
func (n *node) measure() int {
	switch n.kind {
	case kindLiteral:
		best := len(n.texts[0])
		for _, t := range n.texts {
			best = min(best, len(t))
		}
		return best
	case kindString, kindMap:
		return 2
	case kindNumber, kindInteger:
		return 1
	case kindArray:
		return 2 + n.minItems*n.items.shortest + max(n.minItems-1, 0)
	case kindObject:
		return 1 + n.closing(0, false)
	}
	best := math.MaxInt
	for _, o := range n.options {
		best = min(best, o.shortest)
	}
	return best
}

// member is the length of the shortest member of a property.
func (p property) member() int { return len(p.key) + 1 + p.value.shortest }

// closing is how many bytes an object needs at least to its end when the properties in used are written; comma: a
// comma comes before the next member.
func (n *node) closing(used uint64, comma bool) int {
	total, members := 1, 0
	for i, p := range n.props {
		if n.required&^used&(1<<i) != 0 {
			total += p.member()
			members++
		}
	}
	if !comma {
		members = max(members-1, 0)
	}
	return total + members
}
