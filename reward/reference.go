package reward

import (
	"errors"
	"fmt"
	"slices"

	"terraloom/data/strictjson"
)

// ErrReference is a reference that cannot be scored against.
var ErrReference = errors.New("unusable reference")

// Reference is θ*, the right argument object, prepared for scoring. It is
// immutable: goroutines may share it.
type Reference struct {
	root node
	json strictjson.Value
}

// node is a reference value with what every comparison needs worked out.
type node struct {
	kind  strictjson.Kind
	text  string // String: the text; Number: the literal; Bool: "true" or "false"
	keys  []string
	kids  []node
	index map[string]int // key to position; nil where a scan is as fast

	// Number
	integer  bool    // spelt without fraction and exponent
	float    float64 // the value
	finite   bool    // float holds it
	anyFloat bool    // the schema says number: 1 and 1.0 are equivalent
}

// indexFrom is the number of keys from which a map beats a scan.
const indexFrom = 16

// NewReference prepares the reference whose JSON text is given. numbers says
// where integers and floats may stand for each other; nil is nowhere. A text
// that is not one JSON object with at least one member is an ErrReference,
// because Eq. 13 divides by the number of keys.
func NewReference(text string, numbers *Numbers) (*Reference, error) {
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%w: not JSON: %w", ErrReference, err)
	}
	if v.Kind() != strictjson.Object || v.Len() == 0 {
		return nil, fmt.Errorf("%w: expected an object with at least one member, got %s; a node without arguments has no Executor record", ErrReference, describe(v))
	}
	return &Reference{root: newNode(v, numbers), json: v}, nil
}

// JSON is the reference as it was given.
func (r *Reference) JSON() strictjson.Value { return r.json }

func newNode(v strictjson.Value, numbers *Numbers) node {
	n := node{kind: v.Kind(), text: v.Text(), anyFloat: numbers.here()}
	switch n.kind {
	case strictjson.Number:
		n.integer = v.IsInteger()
		n.float, n.finite = v.Float()
	case strictjson.Array, strictjson.Object:
		n.kids = make([]node, v.Len())
		for i := range n.kids {
			below := numbers.items()
			if n.kind == strictjson.Object {
				n.keys = append(n.keys, v.Key(i))
				below = numbers.member(v.Key(i))
			}
			n.kids[i] = newNode(v.Index(i), below)
		}
		if len(n.keys) >= indexFrom {
			n.index = make(map[string]int, len(n.keys))
			for i, k := range n.keys {
				n.index[k] = i
			}
		}
	}
	return n
}

// find returns the position of key, or -1. hint is where it stands if both
// objects have the same order, as most completions have.
func (n *node) find(key string, hint int) int {
	if hint < len(n.keys) && n.keys[hint] == key {
		return hint
	}
	if n.index != nil {
		if i, ok := n.index[key]; ok {
			return i
		}
		return -1
	}
	return slices.Index(n.keys, key)
}

// Numbers is where a JSON Schema declares the type number. There, and only
// there, an integer literal and a float literal are compared by value. A nil
// Numbers declares nothing.
type Numbers struct {
	self    bool
	list    *Numbers            // of array items
	rest    *Numbers            // of members without an entry in members
	members map[string]*Numbers // of object members; an entry may be nil
}

// NumbersIn reads a JSON Schema (draft 2020-12) as package catalogue writes
// them: type, properties, additionalProperties, items, anyOf and oneOf count,
// references are not followed.
func NumbersIn(schema string) (*Numbers, error) {
	v, err := strictjson.Parse([]byte(schema))
	if err != nil {
		return nil, fmt.Errorf("argument schema: %w", err)
	}
	if v.Kind() != strictjson.Object {
		return nil, fmt.Errorf("argument schema: expected an object, got %s", describe(v))
	}
	return numbersIn(v), nil
}

func numbersIn(schema strictjson.Value) *Numbers {
	n := &Numbers{}
	types := schema.Get("type")
	n.self = types.Text() == "number"
	for i := range types.Len() {
		n.self = n.self || types.Index(i).Text() == "number"
	}
	n.list = numbersIn0(schema.Get("items"))
	n.rest = numbersIn0(schema.Get("additionalProperties"))
	properties := schema.Get("properties")
	for i := range properties.Len() {
		if n.members == nil {
			n.members = map[string]*Numbers{}
		}
		n.members[properties.Key(i)] = numbersIn0(properties.Index(i))
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		branches := schema.Get(word)
		for i := range branches.Len() {
			n = n.or(numbersIn0(branches.Index(i)))
		}
	}
	return n
}

// numbersIn0 is numbersIn for a place where a schema may be missing or a boolean.
func numbersIn0(schema strictjson.Value) *Numbers {
	if schema.Kind() != strictjson.Object {
		return nil
	}
	return numbersIn(schema)
}

// or declares what either of the two declares.
func (n *Numbers) or(m *Numbers) *Numbers {
	if n == nil {
		return m
	}
	if m == nil {
		return n
	}
	sum := &Numbers{self: n.self || m.self, list: n.list.or(m.list), rest: n.rest.or(m.rest), members: map[string]*Numbers{}}
	for k := range n.members {
		sum.members[k] = n.members[k].or(m.member(k))
	}
	for k := range m.members {
		sum.members[k] = m.members[k].or(n.member(k))
	}
	return sum
}

func (n *Numbers) here() bool { return n != nil && n.self }

func (n *Numbers) items() *Numbers {
	if n == nil {
		return nil
	}
	return n.list
}

func (n *Numbers) member(key string) *Numbers {
	if n == nil {
		return nil
	}
	if below, ok := n.members[key]; ok {
		return below
	}
	return n.rest
}
