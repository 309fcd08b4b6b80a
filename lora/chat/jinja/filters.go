package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// filters and tests are the supported ones; init fills them. leftOut names those that Jinja has and this package does not.
var (
	filters map[string]*function
	tests   map[string]*function
	leftOut = map[string]map[string]bool{
		"filter": set("attr batch center filesizeformat forceescape groupby pprint random slice striptags truncate urlencode urlize " +
			"wordcount wordwrap xmlattr"),
	}
)

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

func filter(name, spec string, apply func(st *state, v Value, a []Value) Value) {
	method(filters, name, spec, apply)
}

func init() {
	filters = map[string]*function{}
	initTextFilters()
	initNumberFilters()
	initSequenceFilters()
	initTests()
	for alias, name := range map[string]string{"d": "default", "e": "escape", "count": "length"} {
		filters[alias] = filters[name]
	}
}

func initTextFilters() {
	textual := func(name string, f func(*state, Text) Text) {
		filter(name, "", func(st *state, v Value, _ []Value) Value { return f(st, st.softStr(v)) })
	}
	textual("upper", (*state).upper)
	textual("lower", (*state).lower)
	textual("capitalize", (*state).capitalize)
	textual("title", (*state).titleFilter)
	textual("string", func(_ *state, t Text) Text { return t })
	filter("escape", "", func(st *state, v Value, _ []Value) Value { return st.escape(v) })
	filter("safe", "", func(st *state, v Value, _ []Value) Value { return st.str(v).withSafe(true) })
	filter("trim", "chars?", func(st *state, v Value, a []Value) Value {
		return st.softStr(v).strip(true, true, cutset(a[0]))
	})
	filter("replace", "old new count?", func(st *state, v Value, a []Value) Value {
		limit := -1
		if _, none := orElse(a[2], None{}).(None); !none {
			limit = index(a[2])
		}
		return st.replace(st.str(v), st.str(a[0]).s, st.str(a[1]), limit)
	})
	filter("default", "default_value? boolean?", func(_ *state, v Value, a []Value) Value {
		if _, missing := v.(*undefined); missing || a[1] != nil && truth(a[1]) && !truth(v) {
			return orElse(a[0], Text{})
		}
		return v
	})
	filter("indent", "width? first? blank?", func(st *state, v Value, a []Value) Value {
		return st.indent(v, orElse(a[0], Int(4)), truth(orElse(a[1], Bool(false))), truth(orElse(a[2], Bool(false))))
	})
	filters["format"] = &function{raw: func(st *state, v Value, a callArgs) Value {
		if len(a.kwargs) == 0 {
			return st.format(st.softStr(v), &tuple{a.args})
		}
		if len(a.args) > 0 {
			typeError("can't handle positional and keyword arguments at the same time")
		}
		d := NewDict()
		for _, k := range a.kwargs {
			d.Set(k.name, k.value)
		}
		return st.format(st.softStr(v), d)
	}}
	filter("tojson", "ensure_ascii? indent? separators? sort_keys?", func(st *state, v Value, a []Value) Value {
		b := st.builder()
		st.dump(b, v, jsonArgs(st, a), 0)
		return b.done()
	})
}

// jsonArgs reads the arguments of tojson.
func jsonArgs(st *state, a []Value) jsonStyle {
	style := jsonStyle{
		ascii:    truth(orElse(a[0], Bool(false))),
		item:     literal(", "),
		colon:    literal(": "),
		sortKeys: truth(orElse(a[3], Bool(false))),
	}
	if indent := orElse(a[1], None{}); indent != (Value)(None{}) {
		style.pretty = true
		style.item = literal(",")
		if t, ok := indent.(Text); ok {
			style.indent = t.plainText()
		} else {
			style.indent = st.repeat(literal(" "), Int(index(indent))).(Text)
		}
	}
	if seps := orElse(a[2], None{}); seps != (Value)(None{}) {
		parts := st.list(seps)
		if len(parts) != 2 {
			typeError("separators must be a pair")
		}
		style.item, style.colon = wantText(parts[0]).plainText(), wantText(parts[1]).plainText()
	}
	return style
}

// escape is markupsafe.escape.
func (st *state) escape(v Value) Text {
	if t, ok := v.(Text); ok && t.safe {
		return t
	}
	t := st.str(v)
	if strings.ContainsAny(t.s, `&<>'"`) {
		t = st.mapRuns(t, htmlEscaper.Replace)
	}
	return t.withSafe(true)
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func (st *state) indent(v, width Value, first, blank bool) Value {
	pad, ok := width.(Text)
	if !ok {
		pad = st.repeat(literal(" "), Int(index(width))).(Text)
	}
	t, ok := v.(Text)
	if !ok {
		refuseUndefined(v)
		typeError("unsupported operand type(s) for +=: '%s' and 'str'", v.pyType())
	}
	pad = pad.plainText()
	lines := st.concat(t, literal("\n")).lines(false)
	b := st.builder()
	for i, line := range lines {
		if i > 0 {
			b.literal("\n")
		}
		if (i > 0 || first) && (line.s != "" || blank || i == 0) {
			b.text(pad)
		}
		b.text(line)
	}
	return b.done().withSafe(t.safe)
}

func initNumberFilters() {
	filter("abs", "", func(_ *state, v Value, _ []Value) Value {
		if !isNumber(v) {
			typeError("bad operand type for abs(): '%s'", v.pyType())
		}
		if compareNumbers(v, Int(0)) < 0 {
			return negate(v)
		}
		return sign("+", v)
	})
	filter("int", "default? base?", func(_ *state, v Value, a []Value) Value {
		return toInt(v, orElse(a[0], Int(0)), orElse(a[1], Int(10)))
	})
	filter("float", "default?", func(_ *state, v Value, a []Value) Value {
		refuseUndefined(v)
		if t, ok := v.(Text); ok {
			if f, ok := parseFloat(t.s); ok {
				return Float(f)
			}
		} else if isNumber(v) {
			return Float(asFloat(v))
		}
		return orElse(a[0], Float(0))
	})
	filter("round", "precision? method?", func(_ *state, v Value, a []Value) Value {
		refuseUndefined(v)
		return round(v, orElse(a[0], Int(0)), orElse(a[1], literal("common")))
	})
}

// toInt is the filter int; a base that is no number counts as a text that is none.
func toInt(v, otherwise, base Value) Value {
	refuseUndefined(v)
	var f float64
	switch v := v.(type) {
	case Bool, Int, *bigInt:
		return sign("+", v)
	case Float:
		f = float64(v)
		if math.IsInf(f, 0) {
			typeError("cannot convert float infinity to integer")
		}
	case Text:
		if b, ok := asInt(base); ok && (b == 0 || b >= 2 && b <= 36) {
			if i, ok := parseInt(v.s, int(b)); ok {
				return i
			}
		}
		var ok bool
		if f, ok = parseFloat(v.s); !ok {
			return otherwise
		}
	default:
		return otherwise
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return otherwise
	}
	return floatToInt(f)
}

func floatToInt(f float64) Value {
	i, _ := big.NewFloat(f).Int(nil)
	return normInt(i)
}

func round(v, precision, how Value) Value {
	kind, _ := how.(Text)
	if kind.s != "common" && kind.s != "ceil" && kind.s != "floor" {
		typeError("method must be common, ceil or floor")
	}
	if !isNumber(v) {
		typeError("type %s doesn't define __round__ method", v.pyType())
	}
	_, whole := precision.(None)
	if whole && kind.s == "common" {
		precision = Int(0)
	}
	digits := index(precision)
	if kind.s != "common" {
		scale := arithmetic("**", Int(10), Int(digits))
		scaled := asFloat(arithmetic("*", v, scale))
		if math.IsInf(scaled, 0) || math.IsNaN(scaled) {
			typeError("cannot convert float %s to integer", floatText(scaled))
		}
		edge := math.Floor(scaled)
		if kind.s == "ceil" {
			edge = math.Ceil(scaled)
		}
		return arithmetic("/", floatToInt(edge), scale)
	}
	f, isFloat := v.(Float)
	if !isFloat {
		return roundInt(v, digits)
	}
	x := float64(f)
	switch {
	case whole:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			typeError("cannot convert float %s to integer", floatText(x))
		}
		return floatToInt(math.RoundToEven(x))
	case math.IsNaN(x) || math.IsInf(x, 0) || digits > 323:
		return f
	case digits < -308:
		return Float(math.Copysign(0, x))
	case digits >= 0: // the correctly rounded decimal, half to even on the exact binary value
		r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
		return Float(r)
	}
	scale := math.Pow(10, float64(-digits))
	return Float(math.RoundToEven(x/scale) * scale)
}

// roundInt rounds an integer to a power of ten, half to even.
func roundInt(v Value, digits int) Value {
	v = sign("+", v)
	if digits >= 0 {
		return v
	}
	scale := arithmetic("**", Int(10), Int(-digits))
	rest := arithmetic("%", v, scale)
	low := arithmetic("-", v, rest)
	odd := truth(arithmetic("%", arithmetic("//", low, scale), Int(2)))
	if c := compareNumbers(arithmetic("*", rest, Int(2)), scale); c > 0 || c == 0 && odd {
		return arithmetic("+", low, scale)
	}
	return low
}

func initTests() {
	tests = map[string]*function{}
	is := func(name string, f func(*state, Value) bool) {
		method(tests, name, "", func(st *state, v Value, _ []Value) Value { return Bool(f(st, v)) })
	}
	isType := func(name string, f func(Value) bool) { is(name, func(_ *state, v Value) bool { return f(v) }) }

	isType("defined", func(v Value) bool { _, u := v.(*undefined); return !u })
	isType("undefined", func(v Value) bool { _, u := v.(*undefined); return u })
	isType("none", func(v Value) bool { _, n := v.(None); return n })
	isType("boolean", func(v Value) bool { _, b := v.(Bool); return b })
	isType("true", func(v Value) bool { b, ok := v.(Bool); return ok && bool(b) })
	isType("false", func(v Value) bool { b, ok := v.(Bool); return ok && !bool(b) })
	isType("integer", func(v Value) bool { return v.pyType() == "int" })
	isType("float", func(v Value) bool { return v.pyType() == "float" })
	isType("number", isNumber)
	isType("string", func(v Value) bool { _, t := v.(Text); return t })
	isType("mapping", func(v Value) bool { _, d := v.(*Dict); return d })
	isType("escaped", func(v Value) bool { t, ok := v.(Text); return ok && t.safe })
	isType("callable", func(v Value) bool {
		switch v.(type) {
		case *builtin, *macro, *loop, *undefined:
			return true
		}
		return false
	})
	isType("iterable", func(v Value) bool {
		switch v.(type) {
		case Text, *List, *tuple, *Dict, *dictView, *pyRange, *generator, *undefined, *loop:
			return true
		}
		return false
	})
	isType("sequence", func(v Value) bool {
		switch v.(type) {
		case Text, *List, *tuple, *Dict, *pyRange, *undefined:
			return true
		}
		return false
	})
	is("lower", func(st *state, v Value) bool { return hasCase(st.str(v).s, isLower, isUpper) })
	is("upper", func(st *state, v Value) bool { return hasCase(st.str(v).s, isUpper, isLower) })
	is("odd", func(st *state, v Value) bool { return st.equal(st.binary("%", v, Int(2)), Int(1)) })
	is("even", func(st *state, v Value) bool { return st.equal(st.binary("%", v, Int(2)), Int(0)) })
	is("filter", func(st *state, v Value) bool { return knownName(st, "filter", filters, v) })
	is("test", func(st *state, v Value) bool { return knownName(st, "test", tests, v) })

	with := func(name, spec string, f func(*state, Value, Value) bool) {
		method(tests, name, spec, func(st *state, v Value, a []Value) Value { return Bool(f(st, v, a[0])) })
	}
	with("divisibleby", "num", func(st *state, v, num Value) bool { return st.equal(st.binary("%", v, num), Int(0)) })
	with("sameas", "other", func(_ *state, v, other Value) bool { return same(v, other) })
	with("in", "seq", func(st *state, v, container Value) bool { return st.contains(container, v) })
	for op, names := range map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, "<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"},
		">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"},
	} {
		for _, name := range names {
			with(name, "other /", func(st *state, v, other Value) bool { return st.compare(op, v, other) })
		}
	}
}

// knownName reports whether Jinja has a filter or test of that name, supported here or not.
func knownName(st *state, what string, table map[string]*function, v Value) bool {
	t, ok := v.(Text)
	if !ok {
		st.mustHash(v)
		return false
	}
	return table[t.s] != nil || leftOut[what][t.s]
}

// same is "a is b": identity for what has one, equality for the small values that Python shares.
func same(a, b Value) bool {
	if a.pyType() != b.pyType() {
		return false
	}
	switch x := a.(type) {
	case Text:
		return x.s == b.(Text).s
	case Float:
		return false
	}
	return a == b
}
