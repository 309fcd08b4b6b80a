package jinja

import (
	"strconv"
	"strings"
)

func initSequenceFilters() {
	filter("length", "", func(_ *state, v Value, _ []Value) Value { return Int(length(v)) })
	filter("list", "", func(st *state, v Value, _ []Value) Value { return &List{st.list(v)} })
	filter("first", "", func(st *state, v Value, _ []Value) Value {
		if item, ok := st.iterate(v)(); ok {
			return item
		}
		return undefinedHint("No first item, sequence was empty.")
	})
	filter("last", "", func(st *state, v Value, _ []Value) Value {
		switch v := v.(type) {
		case Text:
			if v.s != "" {
				return st.item(v, Int(-1))
			}
		case *List, *tuple, *Dict, *dictView, *pyRange:
			if items := st.list(v); len(items) > 0 {
				return items[len(items)-1]
			}
		default:
			// Undefined has __len__ but no __getitem__ that answers; reversed() asks for neither when it is empty.
			if _, ok := v.(*undefined); !ok {
				typeError("'%s' object is not reversible", v.pyType())
			}
		}
		return undefinedHint("No last item, sequence was empty.")
	})
	filter("reverse", "", func(st *state, v Value, _ []Value) Value {
		switch v := v.(type) {
		case Text:
			return st.getSlice(v, None{}, None{}, Int(-1))
		case *List, *tuple, *Dict, *dictView, *pyRange, *undefined:
			items := st.list(v)
			return &generator{"reversed", func() (Value, bool) {
				if len(items) == 0 {
					return nil, false
				}
				last := items[len(items)-1]
				items = items[:len(items)-1]
				return last, true
			}}
		case *generator:
			items := st.list(v)
			for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
				items[i], items[j] = items[j], items[i]
			}
			return &List{items}
		}
		typeError("argument must be iterable")
		return nil
	})
	filter("join", "d? attribute?", func(st *state, v Value, a []Value) Value {
		get := st.attrGetter(a[1], nil)
		var parts []Text
		next := st.iterate(v)
		for item, ok := next(); ok; item, ok = next() {
			parts = append(parts, st.str(get(item)))
		}
		return st.join(st.str(orElse(a[0], Text{})), parts)
	})
	filter("items", "", func(st *state, v Value, _ []Value) Value {
		var next func() (Value, bool)
		return &generator{"do_items", func() (Value, bool) {
			if next == nil {
				switch v := v.(type) {
				case *undefined:
					return nil, false
				case *Dict:
					next = st.iterate(&dictView{"items", v})
				default:
					typeError("Can only get item pairs from a mapping.")
				}
			}
			return next()
		}}
	})
	initOrderFilters()
	initSelectFilters()
}

func initOrderFilters() {
	filter("sort", "reverse? case_sensitive? attribute?", func(st *state, v Value, a []Value) Value {
		fold := foldUnless(st, a[1])
		var getters []func(Value) Value
		if t, ok := orElse(a[2], None{}).(Text); ok {
			for _, part := range t.split(",", -1) {
				getters = append(getters, st.attrGetter(part, nil))
			}
		} else {
			getters = append(getters, st.attrGetter(a[2], nil))
		}
		keyOf := func(v Value) Value {
			k := &List{}
			for _, get := range getters {
				k.items = append(k.items, fold(get(v)))
			}
			return k
		}
		return &List{st.sorted(st.list(v), keyOf, index(orElse(a[0], Bool(false))) != 0)}
	})
	filter("dictsort", "case_sensitive? by? reverse?", func(st *state, v Value, a []Value) Value {
		by, _ := orElse(a[1], literal("key")).(Text)
		if by.s != "key" && by.s != "value" {
			typeError(`You can only sort by either "key" or "value"`)
		}
		d, ok := v.(*Dict)
		if !ok {
			refuseUndefined(v)
			typeError("'%s' object has no attribute 'items'", v.pyType())
		}
		fold := foldUnless(st, a[0])
		keyOf := func(v Value) Value {
			pair := v.(*tuple).items
			if by.s == "key" {
				return fold(pair[0])
			}
			return fold(pair[1])
		}
		return &List{st.sorted(st.list(&dictView{"items", d}), keyOf, index(orElse(a[2], Bool(false))) != 0)}
	})
	filter("unique", "case_sensitive? attribute?", func(st *state, v Value, a []Value) Value {
		var next func() (Value, bool)
		seen := map[key]bool{}
		return &generator{"sync_do_unique", func() (Value, bool) {
			fold, get := foldUnless(st, a[0]), st.attrGetter(a[1], nil)
			if next == nil {
				next = st.iterate(v)
			}
			for item, ok := next(); ok; item, ok = next() {
				if k := st.mustHash(fold(get(item))); !seen[k] {
					seen[k] = true
					return item, true
				}
			}
			return nil, false
		}}
	})
	extreme := func(name, op string) {
		filter(name, "case_sensitive? attribute?", func(st *state, v Value, a []Value) Value {
			next := st.iterate(v)
			best, ok := next()
			if !ok {
				return undefinedHint("No aggregated item, sequence was empty.")
			}
			fold, get := foldUnless(st, a[0]), st.attrGetter(a[1], nil)
			bestKey := fold(get(best))
			for item, ok := next(); ok; item, ok = next() {
				if k := fold(get(item)); st.compare(op, k, bestKey) {
					best, bestKey = item, k
				}
			}
			return best
		})
	}
	extreme("min", "<")
	extreme("max", ">")
	filter("sum", "attribute? start?", func(st *state, v Value, a []Value) Value {
		get := st.attrGetter(a[0], nil)
		total := orElse(a[1], Int(0))
		if _, isText := total.(Text); isText {
			typeError("sum() can't sum strings [use ''.join(seq) instead]")
		}
		next := st.iterate(v)
		for item, ok := next(); ok; item, ok = next() {
			total = st.binary("+", total, get(item))
		}
		return total
	})
}

// foldUnless returns the key function of case-insensitive filters.
func foldUnless(st *state, caseSensitive Value) func(Value) Value {
	if truth(orElse(caseSensitive, Bool(false))) {
		return func(v Value) Value { return v }
	}
	return func(v Value) Value {
		if t, ok := v.(Text); ok {
			return st.lower(t)
		}
		return v
	}
}

// attrGetter returns the function that looks up a dotted path, in which parts of digits are numbers. An undefined step becomes
// otherwise, unless that is nil or None.
func (st *state) attrGetter(path, otherwise Value) func(Value) Value {
	var parts []Value
	switch p := orElse(path, None{}).(type) {
	case None:
	case Text:
		for _, part := range p.split(".", -1) {
			if n, err := strconv.Atoi(part.s); err == nil && strings.Trim(part.s, "0123456789") == "" {
				parts = append(parts, Int(n))
			} else {
				parts = append(parts, part)
			}
		}
	default:
		parts = append(parts, p)
	}
	if _, none := otherwise.(None); none {
		otherwise = nil
	}
	return func(v Value) Value {
		for _, part := range parts {
			v = st.getItem(v, part)
			if _, missing := v.(*undefined); missing && otherwise != nil {
				v = otherwise
			}
		}
		return v
	}
}

func initSelectFilters() {
	lazy := func(name string, prepare func(st *state, a callArgs) func(Value) (Value, bool)) {
		filters[name] = &function{raw: func(st *state, v Value, a callArgs) Value {
			var next func() (Value, bool)
			var pick func(Value) (Value, bool)
			return &generator{"sync_do_" + name, func() (Value, bool) {
				if next == nil {
					if !truth(v) {
						return nil, false
					}
					pick, next = prepare(st, a), st.iterate(v)
				}
				for item, ok := next(); ok; item, ok = next() {
					if out, keep := pick(item); keep {
						return out, true
					}
				}
				return nil, false
			}}
		}}
	}
	lazy("map", prepareMap)
	lazy("select", func(st *state, a callArgs) func(Value) (Value, bool) { return prepareSelect(st, a, false, true) })
	lazy("reject", func(st *state, a callArgs) func(Value) (Value, bool) { return prepareSelect(st, a, false, false) })
	lazy("selectattr", func(st *state, a callArgs) func(Value) (Value, bool) { return prepareSelect(st, a, true, true) })
	lazy("rejectattr", func(st *state, a callArgs) func(Value) (Value, bool) { return prepareSelect(st, a, true, false) })
}

func prepareMap(st *state, a callArgs) func(Value) (Value, bool) {
	if len(a.args) == 0 {
		path := a.take("attribute")
		if path == nil {
			typeError("map requires a filter argument")
		}
		get := st.attrGetter(path, a.take("default"))
		if len(a.kwargs) > 0 {
			typeError("Unexpected keyword argument '%s'", a.kwargs[0].name)
		}
		return func(v Value) (Value, bool) { return get(v), true }
	}
	return func(v Value) (Value, bool) {
		f := named("filter", filters, a.args[0])
		return st.applyTo(f, v, callArgs{a.args[1:], a.kwargs}), true
	}
}

// prepareSelect returns the choice of select and its variants: the items, or those with an attribute, that pass a test or are true.
func prepareSelect(st *state, a callArgs, byAttr, want bool) func(Value) (Value, bool) {
	get := func(v Value) Value { return v }
	args := a.args
	if byAttr {
		if len(args) == 0 {
			typeError("Missing parameter for attribute name")
		}
		get, args = st.attrGetter(args[0], nil), args[1:]
	}
	return func(v Value) (Value, bool) {
		x := get(v)
		if len(args) > 0 {
			x = st.applyTo(named("test", tests, args[0]), x, callArgs{args[1:], a.kwargs})
		}
		return v, truth(x) == want
	}
}

// named finds a filter or test whose name is a value of the template.
func named(what string, table map[string]*function, name Value) *function {
	t, ok := name.(Text)
	if !ok {
		typeError("the name of a %s must be a string", what)
	}
	f := table[t.s]
	if f == nil {
		noSuch(what, t.s)
	}
	return f
}
