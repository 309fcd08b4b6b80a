package jinja

import (
	"fmt"
	"slices"
)

func (st *state) eval(e expr, act *activation) Value {
	st.step(1)
	switch e := e.(type) {
	case *constExpr:
		return e.value
	case *nameExpr:
		if v := *act.at(e.ref); v != nil {
			return v
		}
		return undefinedName(e.name)
	case *constantExpr:
		return st.evalConstant(e, act)
	case *attrExpr:
		return st.getAttr(st.eval(e.x, act), e.name)
	case *itemExpr:
		x := st.eval(e.x, act)
		if s, ok := e.arg.(*sliceExpr); ok {
			part := func(e expr) Value {
				if e == nil {
					return None{}
				}
				return st.eval(e, act)
			}
			return st.getSlice(x, part(s.lo), part(s.hi), part(s.step))
		}
		return st.getItem(x, st.eval(e.arg, act))
	case *callExpr:
		return st.evalCall(e, act, nil)
	case *filterExpr:
		return st.evalFilter(e, act, nil)
	case *testExpr:
		return st.evalTest(e, act)
	case *notExpr:
		return Bool(!truth(st.eval(e.x, act)))
	case *signExpr:
		return sign(e.op, st.eval(e.x, act))
	case *chainExpr:
		v := st.eval(e.first, act)
		for _, o := range e.rest {
			v = st.binary(o.op, v, st.eval(o.x, act))
		}
		return v
	case *compareExpr:
		return st.evalCompare(e, act)
	case *concatExpr:
		b := st.builder()
		for _, v := range st.evalAll(e.parts, act) {
			b.text(st.str(v))
		}
		return b.done()
	case *andExpr:
		return st.evalBool(e.parts, act, false)
	case *orExpr:
		return st.evalBool(e.parts, act, true)
	case *condExpr:
		if truth(st.eval(e.test, act)) {
			return st.eval(e.then, act)
		}
		if e.other == nil {
			return undefinedHint(fmt.Sprintf("the inline if-expression on line %d evaluated to false and no else section was defined.",
				e.line))
		}
		return st.eval(e.other, act)
	case *listExpr:
		return &List{st.evalAll(e.items, act)}
	case *tupleExpr:
		return &tuple{st.evalAll(e.items, act)}
	case *dictExpr:
		d := NewDict()
		for i := range e.keys {
			k := st.eval(e.keys[i], act)
			v := st.eval(e.vals[i], act)
			d.put(st.mustHash(k), k, v)
		}
		return d
	}
	panic(fmt.Sprintf("unknown expression %T", e))
}

func (st *state) evalConstant(e *constantExpr, act *activation) Value {
	if st.lenient {
		return st.eval(e.x, act)
	}
	st.lenient = true
	v := st.eval(e.x, act)
	st.lenient = false
	if e.printed || isData(v) {
		return v
	}
	return st.eval(e.x, act)
}

// isData reports whether a value can be written as a Python literal.
func isData(v Value) bool {
	all := func(vs []Value) bool { return !slices.ContainsFunc(vs, func(v Value) bool { return !isData(v) }) }
	switch v := v.(type) {
	case None, Bool, Int, *bigInt, Float, Text, *pyRange:
		return true
	case *List:
		return all(v.items)
	case *tuple:
		return all(v.items)
	case *Dict:
		return all(v.keys) && all(v.vals)
	}
	return false
}

func (st *state) evalAll(es []expr, act *activation) []Value {
	out := make([]Value, len(es))
	for i, e := range es {
		out[i] = st.eval(e, act)
	}
	return out
}

// evalBool evaluates parts up to the first whose truth is stop.
func (st *state) evalBool(parts []expr, act *activation, stop bool) Value {
	var v Value
	for _, e := range parts {
		if v = st.eval(e, act); truth(v) == stop {
			break
		}
	}
	return v
}

func (st *state) evalCompare(e *compareExpr, act *activation) Value {
	left := st.eval(e.first, act)
	for _, o := range e.rest {
		right := st.eval(o.x, act)
		if !st.compare(o.op, left, right) {
			return Bool(false)
		}
		left = right
	}
	return Bool(true)
}

func sign(op string, v Value) Value {
	refuseUndefined(v)
	n := negate(v)
	if n == nil {
		typeError("bad operand type for unary %s: '%s'", op, v.pyType())
	}
	if op == "+" {
		return negate(n)
	}
	return n
}

// binary evaluates an arithmetic operator.
func (st *state) binary(op string, a, b Value) Value {
	if isNumber(a) && isNumber(b) {
		x, xInt := a.(Int)
		y, yInt := b.(Int)
		if xInt && yInt && op != "*" && op != "/" && op != "**" && small(x) && small(y) && y != 0 {
			return smallArithmetic(op, x, y)
		}
		st.chargeInts(a, b)
		return arithmetic(op, a, b)
	}
	if t, ok := a.(Text); ok && op == "%" {
		return st.format(t, b)
	}
	refuseUndefined(a, b)
	switch op {
	case "+":
		if v := st.add(a, b); v != nil {
			return v
		}
	case "*":
		if v := st.repeat(a, b); v != nil {
			return v
		}
		if v := st.repeat(b, a); v != nil {
			return v
		}
	}
	typeError("unsupported operand type(s) for %s: '%s' and '%s'", op, a.pyType(), b.pyType())
	return nil
}

func small(i Int) bool { return i > -1<<62 && i < 1<<62 }

func smallArithmetic(op string, x, y Int) Value {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	}
	q, r := x/y, x%y
	if r != 0 && (r < 0) != (y < 0) {
		q, r = q-1, r+y
	}
	if op == "//" {
		return q
	}
	return r
}

// add is + on sequences; nil if the types do not go together.
func (st *state) add(a, b Value) Value {
	switch a := a.(type) {
	case Text:
		b, ok := b.(Text)
		if !ok {
			return nil
		}
		if a.safe || b.safe { // Markup escapes the plain operand
			return st.concat(st.escape(a), st.escape(b)).withSafe(true)
		}
		return st.concat(a, b)
	case *List:
		if b, ok := b.(*List); ok {
			st.step(len(a.items) + len(b.items))
			return &List{append(a.items[:len(a.items):len(a.items)], b.items...)}
		}
	case *tuple:
		if b, ok := b.(*tuple); ok {
			st.step(len(a.items) + len(b.items))
			return &tuple{append(a.items[:len(a.items):len(a.items)], b.items...)}
		}
	}
	return nil
}

// repeat is seq * n; nil if the types do not go together.
func (st *state) repeat(seq, n Value) Value {
	times, ok := asInt(n)
	if !ok {
		return nil
	}
	times = max(times, 0)
	items := func(in []Value) []Value {
		var out []Value
		for i := int64(0); i < times && len(in) > 0; i++ {
			st.step(len(in))
			out = append(out, in...)
		}
		return out
	}
	switch seq := seq.(type) {
	case Text:
		b := st.builder()
		for i := int64(0); i < times && seq.s != ""; i++ {
			b.text(seq)
		}
		return b.done().withSafe(seq.safe)
	case *List:
		return &List{items(seq.items)}
	case *tuple:
		return &tuple{items(seq.items)}
	}
	return nil
}
