package jinja

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// key is the identity of a value inside a dict: 1, 1.0 and True are one key, as in Python.
type key struct {
	kind byte
	num  int64
	frac float64
	str  string
}

func textKey(s string) key { return key{kind: 's', str: s} }

// hash returns the dict key of a value; ok is false for lists, dicts and what holds them.
func (st *state) hash(v Value) (k key, ok bool) {
	st.step(1)
	switch v := v.(type) {
	case Text:
		return textKey(v.s), true
	case None:
		return key{kind: 'N'}, true
	case Bool, Int:
		i, _ := asInt(v)
		return key{kind: 'i', num: i}, true
	case *bigInt:
		return key{kind: 'I', str: v.v.String()}, true
	case Float:
		if f := float64(v); f == math.Trunc(f) && !math.IsInf(f, 0) {
			return st.hash(floatToInt(f))
		}
		return key{kind: 'f', frac: float64(v)}, true
	case *tuple:
		st.enter()
		defer st.leave()
		b := st.builder()
		for _, item := range v.items {
			h, ok := st.hash(item)
			if !ok {
				return key{}, false
			}
			b.literal(fmt.Sprintf("%c%d/%v/%d:", h.kind, h.num, h.frac, len(h.str)))
			b.literal(h.str)
		}
		return key{kind: 't', str: b.buf.String()}, true
	case *undefined:
		return key{kind: 'U'}, true
	case *pyRange:
		return key{kind: 'r', str: fmt.Sprint(*v)}, true
	case *List, *Dict:
		return key{}, false
	case *dictView:
		return key{kind: 'p', str: fmt.Sprintf("%p", v)}, v.kind == "values"
	}
	return key{kind: 'p', str: fmt.Sprintf("%p", v)}, true // by identity
}

// mustHash is hash for values that have to be hashable.
func (st *state) mustHash(v Value) key {
	k, ok := st.hash(v)
	if !ok {
		typeError("unhashable type: '%s'", v.pyType())
	}
	return k
}

// equal is a == b.
func (st *state) equal(a, b Value) bool {
	st.step(1)
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b) == 0
	}
	switch a := a.(type) {
	case Text:
		b, ok := b.(Text)
		if ok && len(a.s) == len(b.s) {
			st.step(len(a.s) / bytesPerStep)
		}
		return ok && a.s == b.s
	case None:
		_, ok := b.(None)
		return ok
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	case *List:
		b, ok := b.(*List)
		return ok && st.equalItems(a.items, b.items)
	case *tuple:
		b, ok := b.(*tuple)
		return ok && st.equalItems(a.items, b.items)
	case *pyRange:
		b, ok := b.(*pyRange)
		return ok && a.len() == b.len() && (a.len() == 0 || a.start == b.start && (a.len() == 1 || a.step == b.step))
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || a.Len() != b.Len() {
			return false
		}
		st.enter()
		defer st.leave()
		for k, av := range a.Entries {
			if bv, ok := b.lookUp(st.mustHash(k)); !ok || !st.equal(av, bv) {
				return false
			}
		}
		return true
	case *dictView:
		b, ok := b.(*dictView)
		if !ok || a.kind == "values" || b.kind == "values" || length(a) != length(b) {
			return ok && a == b
		}
		for i := range length(a) {
			if !st.contains(b, a.item(i)) {
				return false
			}
		}
		return true
	}
	return a == b
}

func (st *state) equalItems(a, b []Value) bool {
	st.enter()
	defer st.leave()
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !st.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// order is the sign of a compared with b, or unordered; op names the operator in the error for values without an order.
func (st *state) order(op string, a, b Value) int {
	st.step(1)
	refuseUndefined(a, b)
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b)
	}
	switch x := a.(type) {
	case Text:
		if y, ok := b.(Text); ok {
			st.step(min(len(x.s), len(y.s)) / bytesPerStep)
			return strings.Compare(x.s, y.s)
		}
	case *List:
		if y, ok := b.(*List); ok {
			return st.orderItems(op, x.items, y.items)
		}
	case *tuple:
		if y, ok := b.(*tuple); ok {
			return st.orderItems(op, x.items, y.items)
		}
	}
	typeError("'%s' not supported between instances of '%s' and '%s'", op, a.pyType(), b.pyType())
	return 0
}

func (st *state) orderItems(op string, a, b []Value) int {
	st.enter()
	defer st.leave()
	for i := range min(len(a), len(b)) {
		if !st.equal(a[i], b[i]) {
			return st.order(op, a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compare evaluates one comparison operator.
func (st *state) compare(op string, a, b Value) bool {
	switch op {
	case "==":
		return st.equal(a, b)
	case "!=":
		return !st.equal(a, b)
	case "in":
		return st.contains(b, a)
	case "not in":
		return !st.contains(b, a)
	}
	c := st.order(op, a, b)
	if c == unordered {
		return false
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	default: // ">="
		return c >= 0
	}
}

// contains is item in container.
func (st *state) contains(container, item Value) bool {
	switch c := container.(type) {
	case Text:
		needle, ok := item.(Text)
		if !ok {
			typeError("'in <string>' requires string as left operand, not %s", item.pyType())
		}
		st.step(1 + len(c.s)/bytesPerStep)
		return strings.Contains(c.s, needle.s)
	case *Dict:
		_, ok := c.lookUp(st.mustHash(item))
		return ok
	case *dictView:
		if c.kind == "keys" {
			_, ok := c.dict.lookUp(st.mustHash(item))
			return ok
		}
	case *pyRange, *List, *tuple, *undefined, *generator:
	default:
		typeError("argument of type '%s' is not iterable", container.pyType())
	}
	next := st.iterate(container)
	for v, ok := next(); ok; v, ok = next() {
		if st.equal(v, item) {
			return true
		}
	}
	return false
}

// sorted is sorted(items, key=keyOf, reverse=reverse).
func (st *state) sorted(items []Value, keyOf func(Value) Value, reverse bool) []Value {
	type pair struct{ key, item Value }
	pairs := make([]pair, len(items))
	for i, item := range items {
		pairs[i] = pair{keyOf(item), item}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		if reverse {
			a, b = b, a
		}
		if c := st.order("<", a.key, b.key); c != unordered {
			return c
		}
		return 0
	})
	out := make([]Value, len(pairs))
	for i, p := range pairs {
		out[i] = p.item
	}
	return out
}
