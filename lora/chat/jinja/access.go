package jinja

import "strings"

// getAttr is x.name: a method or attribute of the type first, then the item.
func (st *state) getAttr(x Value, name string) Value {
	if v := attribute(x, name); v != nil {
		return v
	}
	if d, ok := x.(*Dict); ok {
		if v, ok := d.Get(name); ok {
			return v
		}
	}
	return &undefined{obj: x, name: literal(name), kind: ErrUndefined}
}

// getItem is x[arg]: the item first, then, for a string, the attribute.
func (st *state) getItem(x, arg Value) Value {
	refuseUndefined(x)
	if v := st.item(x, arg); v != nil {
		return v
	}
	if name, ok := arg.(Text); ok {
		if v := attribute(x, name.s); v != nil {
			return v
		}
	}
	return &undefined{obj: x, name: arg, kind: ErrUndefined}
}

// item is the item of a container, or nil if there is none or x is no container.
func (st *state) item(x, arg Value) Value {
	if d, ok := x.(*Dict); ok {
		if k, ok := st.hash(arg); ok {
			v, _ := d.lookUp(k)
			return v
		}
		return nil
	}
	i, ok := asInt(arg)
	if !ok {
		return nil
	}
	at := func(n int) (int, bool) {
		if i < 0 {
			i += int64(n)
		}
		return int(i), i >= 0 && i < int64(n)
	}
	switch x := x.(type) {
	case *List:
		if i, ok := at(len(x.items)); ok {
			return x.items[i]
		}
	case *tuple:
		if i, ok := at(len(x.items)); ok {
			return x.items[i]
		}
	case *pyRange:
		if i, ok := at(int(x.len())); ok {
			return x.item(int64(i))
		}
	case Text:
		st.step(1 + len(x.s)/bytesPerStep)
		if i, ok := at(x.length()); ok {
			from := x.offset(i)
			return x.slice(from, from+x.slice(from, len(x.s)).offset(1))
		}
	}
	return nil
}

// attribute is Python's getattr inside the sandbox: nil if there is no such attribute, an undefined value that raises
// ErrSecurity when used if it is private or changes its object.
func attribute(x Value, name string) Value {
	unsafe := func() Value {
		return &undefined{hint: "access to attribute '" + name + "' of '" + x.pyType() + "' object is unsafe.", obj: x, name: literal(name),
			kind: ErrSecurity}
	}
	if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") && len(name) > 4 {
		if u, ok := x.(*undefined); ok && !isOneOf(name, objectAttributes) {
			u.raise()
		}
		return unsafe()
	}
	var methods map[string]*function
	var missing string
	switch x := x.(type) {
	case *undefined:
		x.raise()
	case *namespace:
		v, _ := x.attrs.Get(name)
		return v
	case *loop:
		return x.attr(name)
	case *macro:
		if name == "name" {
			return literal(x.def.name)
		}
		missing = "arguments caller catch_kwargs catch_varargs explicit_caller"
	case Text:
		methods = textMethods
		missing = "casefold center encode expandtabs format format_map isascii isdecimal isidentifier isnumeric isprintable istitle " +
			"ljust maketrans rjust swapcase translate zfill"
		if x.safe {
			missing += " escape striptags unescape"
		}
	case *Dict:
		methods = dictMethods
		missing = "fromkeys"
		if isOneOf(name, "clear pop popitem setdefault update") {
			return unsafe()
		}
	case *List:
		methods = listMethods
		missing = "copy"
		if isOneOf(name, "append clear pop reverse insert sort extend remove") {
			return unsafe()
		}
	case *tuple:
		methods = listMethods
	case Bool, Int, *bigInt:
		missing = "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes"
	case Float:
		missing = "as_integer_ratio conjugate fromhex hex imag is_integer real"
	case *pyRange:
		missing = "count index start step stop"
	case *dictView:
		missing = "isdisjoint mapping"
	case *generator:
		missing = "close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw"
	}
	if m, ok := methods[name]; ok {
		return &builtin{name, func(st *state, a callArgs) Value { return st.applyTo(m, x, a) }}
	}
	if isOneOf(name, missing) {
		raise(ErrUnsupported, "the attribute '%s' of '%s' objects", name, x.pyType())
	}
	return nil
}

// objectAttributes are the private attributes that every Python object has.
const objectAttributes = "__class__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__ __getattribute__ __getstate__ __gt__ __hash__ " +
	"__init__ __init_subclass__ __le__ __lt__ __module__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __sizeof__ " +
	"__slots__ __str__ __subclasshook__"

func isOneOf(word, list string) bool {
	return word != "" && strings.Contains(" "+list+" ", " "+word+" ") && !strings.Contains(word, " ")
}

// set is ns[name] = v.
func (n *namespace) set(name string, v Value) {
	checkNamespaceName(literal(name))
	n.attrs.Set(name, v)
}

func checkNamespaceName(name Value) {
	if t, ok := name.(Text); ok && strings.HasPrefix(t.s, "_") {
		raise(ErrSecurity, "Chat templates cannot store underscore-prefixed attributes on a namespace, but got %s. "+
			"Please rename the attribute.", reprOf(name))
	}
}

// getSlice is x[lo:hi:step].
func (st *state) getSlice(x, lo, hi, step Value) Value {
	refuseUndefined(x)
	n := -1
	switch x := x.(type) {
	case Text:
		n = x.length()
		st.step(1 + len(x.s)/bytesPerStep)
	case *List, *tuple, *pyRange:
		n = length(x)
	}
	if !isBound(lo) || !isBound(hi) || !isBound(step) || n < 0 {
		if st.lenient {
			return undefinedHint(objectName(x) + " has no such slice")
		}
		if n < 0 {
			typeError("'%s' object has no slices", x.pyType())
		}
		typeError("slice indices must be integers or None or have an __index__ method")
	}
	start, stop, by := sliceBounds(n, lo, hi, step)
	picked := &pyRange{int64(start), int64(stop), int64(by)}
	pick := func(items []Value) []Value {
		if by == 1 {
			return items[start:max(start, stop)]
		}
		out := make([]Value, 0, picked.len())
		st.step(int(picked.len()))
		for i := range picked.len() {
			out = append(out, items[start+int(i)*by])
		}
		return out
	}
	switch x := x.(type) {
	case *List:
		return &List{pick(x.items)}
	case *tuple:
		return &tuple{pick(x.items)}
	case *pyRange:
		return &pyRange{x.start + int64(start)*x.step, x.start + int64(stop)*x.step, x.step * int64(by)}
	}
	t := x.(Text)
	if by == 1 {
		from := t.offset(start)
		return t.slice(from, from+t.slice(from, len(t.s)).offset(max(stop-start, 0)))
	}
	st.step(elementCost * n)
	b := st.builder()
	for _, c := range pick(t.chars()) {
		b.text(c.(Text))
	}
	return b.done().withSafe(t.safe)
}

// sliceBounds is slice(lo, hi, step).indices(n).
func sliceBounds(n int, lo, hi, step Value) (start, stop, by int) {
	by = 1
	if _, none := step.(None); !none {
		by = sliceIndex(step)
	}
	if by == 0 {
		typeError("slice step cannot be zero")
	}
	low, high := 0, n
	if by < 0 {
		low, high = -1, n-1
	}
	bound := func(v Value, otherwise int) int {
		if _, none := v.(None); none {
			return otherwise
		}
		i := sliceIndex(v)
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	if by < 0 {
		return bound(lo, high), bound(hi, low), by
	}
	return bound(lo, low), bound(hi, high), by
}

// isBound reports whether a value may be part of a slice.
func isBound(v Value) bool {
	_, none := v.(None)
	_, isInt := asInt(v)
	return none || isInt
}

// sliceIndex clips to a range in which the arithmetic on bounds cannot overflow.
func sliceIndex(v Value) int {
	const far = 1 << 40
	return min(max(index(v), -far), far)
}
