package jinja

import (
	"maps"
	"math/big"
	"slices"
	"unicode/utf8"
)

// Value is a Python value: None, Bool, Int, Float, Text, *List, *Dict, or one that only templates make.
type Value interface {
	pyType() string // the name Python gives the type
}

// The values that come from JSON. Integers outside int64 are held as *bigInt.
type (
	None  struct{}
	Bool  bool
	Int   int64
	Float float64
	List  struct{ items []Value }
)

type (
	bigInt    struct{ v *big.Int }
	tuple     struct{ items []Value }
	pyRange   struct{ start, stop, step int64 }
	namespace struct{ attrs *Dict }
	// generator is a one-shot iterable: always true, without length, empty once consumed.
	generator struct {
		name string
		next func() (Value, bool)
	}
	// dictView is what dict.keys(), .values() and .items() return.
	dictView struct {
		kind string // "keys", "values" or "items"
		dict *Dict
	}
	// undefined stands for a missing variable, attribute or item. It prints as nothing and raises in most uses.
	undefined struct {
		hint string // the whole message, or empty: then it is made from obj and name
		obj  Value
		name Value
		kind error // ErrUndefined, or ErrSecurity for an attribute that the sandbox refuses
	}
	// builtin is a global function or a bound method.
	builtin struct {
		name string
		call func(*state, callArgs) Value
	}
)

func (None) pyType() string       { return "NoneType" }
func (Bool) pyType() string       { return "bool" }
func (Int) pyType() string        { return "int" }
func (*bigInt) pyType() string    { return "int" }
func (Float) pyType() string      { return "float" }
func (*List) pyType() string      { return "list" }
func (*tuple) pyType() string     { return "tuple" }
func (*Dict) pyType() string      { return "dict" }
func (*pyRange) pyType() string   { return "range" }
func (*namespace) pyType() string { return "Namespace" }
func (*generator) pyType() string { return "generator" }
func (v *dictView) pyType() string {
	return "dict_" + v.kind
}
func (*undefined) pyType() string { return "Undefined" }
func (*builtin) pyType() string   { return "builtin_function_or_method" }
func (t Text) pyType() string {
	if t.safe {
		return "Markup"
	}
	return "str"
}

// NewList returns a list of the given items.
func NewList(items ...Value) *List { return &List{items: items} }

// Items returns the items of the list; they are not to be changed.
func (l *List) Items() []Value { return l.items }

// Dict is a Python dict: it keeps the order in which keys were first set.
type Dict struct {
	keys, vals []Value
	index      map[key]int
}

// NewDict returns an empty Dict.
func NewDict() *Dict { return &Dict{index: map[key]int{}} }

// Len is the number of entries.
func (d *Dict) Len() int { return len(d.keys) }

// Get returns the value of a string key.
func (d *Dict) Get(name string) (Value, bool) { return d.lookUp(textKey(name)) }

// Set sets a string key, whose origin is the template.
func (d *Dict) Set(name string, v Value) { d.put(textKey(name), literal(name), v) }

// Entries yields the entries in order.
func (d *Dict) Entries(yield func(Value, Value) bool) {
	for i, k := range d.keys {
		if !yield(k, d.vals[i]) {
			return
		}
	}
}

func (d *Dict) lookUp(h key) (Value, bool) {
	if i, ok := d.index[h]; ok {
		return d.vals[i], true
	}
	return nil, false
}

func (d *Dict) put(h key, k, v Value) {
	if i, ok := d.index[h]; ok {
		d.vals[i] = v
		return
	}
	d.index[h] = len(d.keys)
	d.keys = append(d.keys, k)
	d.vals = append(d.vals, v)
}

func (d *Dict) copy() *Dict {
	return &Dict{slices.Clone(d.keys), slices.Clone(d.vals), maps.Clone(d.index)}
}

// item is the i-th entry as the view shows it.
func (v *dictView) item(i int) Value {
	switch v.kind {
	case "keys":
		return v.dict.keys[i]
	case "values":
		return v.dict.vals[i]
	}
	return &tuple{items: []Value{v.dict.keys[i], v.dict.vals[i]}}
}

func (r *pyRange) len() int64 {
	switch {
	case r.step > 0 && r.start < r.stop:
		return (r.stop-r.start-1)/r.step + 1
	case r.step < 0 && r.start > r.stop:
		return (r.start-r.stop-1)/-r.step + 1
	}
	return 0
}

func (r *pyRange) item(i int64) Value { return Int(r.start + i*r.step) }

// raise reports a use of the undefined value.
func (u *undefined) raise() {
	raise(u.kind, "%s", u.message())
}

func (u *undefined) message() string {
	switch name, isText := u.name.(Text); {
	case u.hint != "":
		return u.hint
	case u.obj == nil:
		return reprOf(u.name) + " is undefined"
	case isText:
		return "'" + objectName(u.obj) + "' has no attribute " + reprOf(name)
	default:
		return objectName(u.obj) + " has no element " + reprOf(u.name)
	}
}

func objectName(v Value) string {
	if _, ok := v.(None); ok {
		return "None"
	}
	return v.pyType() + " object"
}

func undefinedName(name string) *undefined {
	return &undefined{name: literal(name), kind: ErrUndefined}
}

func undefinedHint(hint string) *undefined { return &undefined{hint: hint, kind: ErrUndefined} }

// refuseUndefined raises if any of the values is undefined: the operators do so whatever the other operand is.
func refuseUndefined(vs ...Value) {
	for _, v := range vs {
		if u, ok := v.(*undefined); ok {
			u.raise()
		}
	}
}

// truth is bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case None, *undefined:
		return false
	case Bool:
		return bool(v)
	case Int:
		return v != 0
	case Float:
		return v != 0
	case Text:
		return v.s != ""
	case *bigInt, *generator, *namespace, *builtin, *macro:
		return true
	}
	return length(v) > 0
}

// length is len(v).
func length(v Value) int {
	switch v := v.(type) {
	case Text:
		return v.length()
	case *List:
		return len(v.items)
	case *tuple:
		return len(v.items)
	case *Dict:
		return v.Len()
	case *dictView:
		return v.dict.Len()
	case *pyRange:
		return int(v.len())
	case *undefined:
		return 0
	case *loop:
		return v.length()
	}
	typeError("object of type '%s' has no len()", v.pyType())
	return 0
}

// iterate is iter(v): a function that returns the next item until there is none.
func (st *state) iterate(v Value) func() (Value, bool) {
	counted := func(n int, item func(int) Value) func() (Value, bool) {
		i := 0
		return func() (Value, bool) {
			if i == n {
				return nil, false
			}
			i++
			st.step(1)
			return item(i - 1), true
		}
	}
	switch v := v.(type) {
	case *List:
		return counted(len(v.items), func(i int) Value { return v.items[i] })
	case *tuple:
		return counted(len(v.items), func(i int) Value { return v.items[i] })
	case *Dict:
		return counted(v.Len(), func(i int) Value { return v.keys[i] })
	case *dictView:
		return counted(v.dict.Len(), v.item)
	case *pyRange:
		return counted(int(v.len()), func(i int) Value { return v.item(int64(i)) })
	case *undefined:
		return counted(0, nil)
	case Text:
		at := 0
		return func() (Value, bool) {
			if at == len(v.s) {
				return nil, false
			}
			st.step(1)
			start := at
			for at++; at < len(v.s) && !utf8.RuneStart(v.s[at]); at++ {
			}
			return v.slice(start, at).plainText(), true
		}
	case *generator:
		return func() (Value, bool) {
			if v.next == nil {
				return nil, false
			}
			st.enter()
			defer st.leave()
			st.step(1)
			item, ok := v.next()
			if !ok {
				v.next = nil
			}
			return item, ok
		}
	}
	typeError("'%s' object is not iterable", v.pyType())
	return nil
}

// list is list(v).
func (st *state) list(v Value) []Value {
	switch v := v.(type) {
	case *List:
		st.step(len(v.items))
		return append([]Value(nil), v.items...)
	case *tuple:
		st.step(len(v.items))
		return append([]Value(nil), v.items...)
	}
	var out []Value
	next := st.iterate(v)
	for item, ok := next(); ok; item, ok = next() {
		st.step(elementCost)
		out = append(out, item)
	}
	return out
}

// WithOrigin returns a deep copy of a value from JSON in which every string, keys included, has the given origin.
func WithOrigin(v Value, o Origin) Value {
	switch v := v.(type) {
	case Text:
		return NewText(v.s, o)
	case *List:
		out := make([]Value, len(v.items))
		for i, item := range v.items {
			out[i] = WithOrigin(item, o)
		}
		return NewList(out...)
	case *Dict:
		out := v.copy()
		for i := range out.keys {
			out.keys[i], out.vals[i] = WithOrigin(out.keys[i], o), WithOrigin(out.vals[i], o)
		}
		return out
	}
	return v
}
