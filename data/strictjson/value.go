// Package strictjson is JSON as training data needs it: number literals keep
// their spelling, object members keep their order, and whatever another reader
// could understand differently (repeated keys, NaN, invalid UTF-8, lone
// surrogates, trailing bytes) is an error with its place.
//
// encoding/json takes the last of two equal keys, rewrites 1.0 as 1, rounds
// 9007199254740993 and replaces bad UTF-8, each without a word.
package strictjson

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is the JSON type of a Value.
type Kind uint8

// The kinds. The zero Value is Absent: no JSON value at all, which is not null.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"absent", "null", "boolean", "number", "string", "array", "object"}[k]
}

// Value is one immutable JSON value. Copies share their children.
type Value struct {
	_    [0]func() // no ==: use Equal
	kind Kind
	text string // String: the decoded text; Number: the literal; Bool: "true" or "false"
	sub  *sub   // Array, Object: what is inside; nil where nothing is
}

// sub is held by pointer because most values are leaves, of which documents
// hold many thousands.
type sub struct {
	keys []string // Object: member names, in order
	kids []Value  // Array: items; Object: member values, parallel to keys
}

var none sub

func (v Value) inside() *sub {
	if v.sub == nil {
		return &none
	}
	return v.sub
}

func holding(kind Kind, keys []string, kids []Value) Value {
	if len(kids) == 0 {
		return Value{kind: kind}
	}
	return Value{kind: kind, sub: &sub{keys, kids}}
}

// Kind returns the JSON type.
func (v Value) Kind() Kind { return v.kind }

// IsAbsent reports whether v is the zero Value.
func (v Value) IsAbsent() bool { return v.kind == Absent }

// Text is the decoded text of a String, the literal of a Number, "true" or "false" of a Bool, else "".
func (v Value) Text() string { return v.text }

// Len is the number of array items or object members, else 0.
func (v Value) Len() int { return len(v.inside().kids) }

// Index returns array item or object member value i; it panics out of range, as a slice does.
func (v Value) Index(i int) Value { return v.inside().kids[i] }

// Key returns the name of object member i; it panics out of range.
func (v Value) Key(i int) string { return v.inside().keys[i] }

// Get returns the member named key, or the zero Value.
func (v Value) Get(key string) Value {
	in := v.inside()
	for i, k := range in.keys {
		if k == key {
			return in.kids[i]
		}
	}
	return Value{}
}

// Float returns a Number as float64; ok is false for other kinds and for literals beyond float64.
func (v Value) Float() (f float64, ok bool) {
	if v.kind != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(v.text, 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// IsInteger reports whether v is a Number written without fraction and exponent.
func (v Value) IsInteger() bool {
	return v.kind == Number && !strings.ContainsAny(v.text, ".eE")
}

// True reports whether v is the boolean true.
func (v Value) True() bool { return v.kind == Bool && v.text == "true" }

// NullValue returns JSON null.
func NullValue() Value { return Value{kind: Null} }

// Text returns a String.
func Text(s string) Value { return Value{kind: String, text: s} }

// Boolean returns a Bool.
func Boolean(b bool) Value { return Value{kind: Bool, text: strconv.FormatBool(b)} }

// Int returns an integer Number.
func Int(n int) Value { return Value{kind: Number, text: strconv.Itoa(n)} }

// Float returns a Number spelt as Python's repr spells a float: shortest digits
// that read back equal, always with a fraction or an exponent. NaN and
// infinities, which JSON lacks, give null.
func Float(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return NullValue()
	}
	return Value{kind: Number, text: FormatFloat(f)}
}

// FormatFloat spells a finite float as Python's repr does.
func FormatFloat(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// Literal returns a Number with the given spelling; ok is false unless it is a JSON number.
func Literal(s string) (v Value, ok bool) {
	if n := numberLen(s); n == 0 || n != len(s) {
		return Value{}, false
	}
	return Value{kind: Number, text: s}, true
}

// List returns an Array of the items, which it keeps.
func List(items ...Value) Value { return holding(Array, nil, items) }

// Member is one name and value of an object under construction.
type Member struct {
	Key   string
	Value Value
}

// Obj returns an Object of the members in order, leaving out Absent ones.
func Obj(members ...Member) Value {
	keys, kids := make([]string, 0, len(members)), make([]Value, 0, len(members))
	for _, m := range members {
		if m.Value.kind != Absent {
			keys, kids = append(keys, m.Key), append(kids, m.Value)
		}
	}
	return holding(Object, keys, kids)
}

// Rebuilt returns v, an Array or Object, with other children (same count and names).
func (v Value) Rebuilt(kids []Value) Value {
	in := v.inside()
	if len(kids) != len(in.kids) {
		panic("strictjson: Rebuilt with another number of children")
	}
	return holding(v.kind, in.keys, kids)
}

// Equal reports whether two values are the same JSON: same kinds, same texts,
// same literals, arrays in order, object members in order.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind || v.text != w.text || v.Len() != w.Len() {
		return false
	}
	a, b := v.inside(), w.inside()
	return a == b || slices.Equal(a.keys, b.keys) && slices.EqualFunc(a.kids, b.kids, Value.Equal)
}
