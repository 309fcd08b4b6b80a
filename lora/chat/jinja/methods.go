package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The methods of str, dict, list and tuple that templates call. init fills them: the functions refer back to the tables.
var textMethods, dictMethods, listMethods map[string]*function

// method declares a method whose arguments are a fixed list.
func method(table map[string]*function, name, spec string, apply func(st *state, subject Value, args []Value) Value) {
	table[name] = &function{params: signature(name, spec), apply: apply}
}

// textMethod declares a method of str.
func textMethod(name, spec string, apply func(st *state, t Text, args []Value) Value) {
	method(textMethods, name, spec, func(st *state, subject Value, args []Value) Value { return apply(st, subject.(Text), args) })
}

func init() {
	textMethods, dictMethods, listMethods = map[string]*function{}, map[string]*function{}, map[string]*function{}
	initTextMethods()
	initTextPredicates()

	view := func(kind string) func(*state, Value, []Value) Value {
		return func(_ *state, d Value, _ []Value) Value { return &dictView{kind, d.(*Dict)} }
	}
	method(dictMethods, "keys", "", view("keys"))
	method(dictMethods, "values", "", view("values"))
	method(dictMethods, "items", "", view("items"))
	method(dictMethods, "copy", "", func(st *state, d Value, _ []Value) Value {
		st.step(d.(*Dict).Len())
		return d.(*Dict).copy()
	})
	method(dictMethods, "get", "key default? /", func(st *state, d Value, a []Value) Value {
		if v, ok := d.(*Dict).lookUp(st.mustHash(a[0])); ok {
			return v
		}
		return orElse(a[1], None{})
	})
	method(listMethods, "count", "value /", func(st *state, l Value, a []Value) Value {
		n := 0
		for _, item := range st.list(l) {
			if st.equal(item, a[0]) {
				n++
			}
		}
		return Int(n)
	})
	method(listMethods, "index", "value /", func(st *state, l Value, a []Value) Value {
		for i, item := range st.list(l) {
			if st.equal(item, a[0]) {
				return Int(i)
			}
		}
		typeError("%s is not in list", reprOf(a[0]))
		return nil
	})
}

func orElse(v, otherwise Value) Value {
	if v == nil {
		return otherwise
	}
	return v
}

// wantText is the text of an argument that must be a str.
func wantText(v Value) Text {
	t, ok := v.(Text)
	if !ok {
		refuseUndefined(v)
		typeError("a str argument is required, not '%s'", v.pyType())
	}
	return t
}

func texts(parts []Text) *List {
	l := &List{}
	for _, p := range parts {
		l.items = append(l.items, p)
	}
	return l
}

// prefixes are the strings in the argument of startswith and endswith: a str or a tuple of them.
func prefixes(v Value) []Value {
	if t, ok := v.(*tuple); ok {
		return t.items
	}
	return []Value{v}
}

// region is t[lo:hi] for the optional bounds of find, count, startswith …; the offset is in code points.
func region(t Text, lo, hi Value) (part Text, offset int, ok bool) {
	n := t.length()
	start, stop, _ := sliceBounds(n, orElse(lo, None{}), orElse(hi, None{}), None{})
	if first, isInt := asInt(orElse(lo, None{})); start > stop || isInt && first > int64(n) {
		return Text{}, 0, false
	}
	return t.slice(t.offset(start), t.offset(stop)), start, true
}

// find searches with f and returns the code point index of the match, or -1.
func find(t Text, a []Value, f func(string, string) int) int {
	part, offset, ok := region(t, a[1], a[2])
	if !ok {
		wantText(a[0])
		return -1
	}
	i := f(part.s, wantText(a[0]).s)
	if i < 0 {
		return -1
	}
	return offset + part.runeIndex(i)
}

// cutset is the predicate of the optional argument of strip.
func cutset(v Value) func(rune) bool {
	if _, none := orElse(v, None{}).(None); none {
		return isSpace
	}
	chars := wantText(v).s
	return func(r rune) bool { return strings.ContainsRune(chars, r) }
}

func initTextMethods() {
	strip := func(name string, left, right bool) {
		textMethod(name, "chars? /", func(_ *state, t Text, a []Value) Value { return t.strip(left, right, cutset(a[0])) })
	}
	strip("strip", true, true)
	strip("lstrip", true, false)
	strip("rstrip", false, true)

	split := func(name string, bySep func(Text, string, int) []Text, bySpace func(Text, int) []Text) {
		textMethod(name, "sep? maxsplit?", func(st *state, t Text, a []Value) Value {
			limit := -1
			if a[1] != nil {
				limit = index(a[1])
			}
			var parts []Text
			if _, none := orElse(a[0], None{}).(None); none {
				parts = bySpace(t, limit)
			} else if sep := wantText(a[0]).s; sep != "" {
				parts = bySep(t, sep, limit)
			} else {
				typeError("empty separator")
			}
			st.step(elementCost * len(parts))
			return texts(parts)
		})
	}
	split("split", Text.split, Text.fields)
	split("rsplit", Text.rsplit, Text.rfields)
	textMethod("splitlines", "keepends?", func(st *state, t Text, a []Value) Value {
		parts := t.lines(index(orElse(a[0], Bool(false))) != 0)
		st.step(elementCost * len(parts))
		return texts(parts)
	})

	partition := func(name string, cut func(string, string) int, right bool) {
		textMethod(name, "sep /", func(_ *state, t Text, a []Value) Value {
			sep := wantText(a[0])
			if sep.s == "" {
				typeError("empty separator")
			}
			empty := Text{safe: t.safe}
			i := cut(t.s, sep.s)
			switch {
			case i >= 0:
				j := i + len(sep.s)
				return &tuple{[]Value{t.slice(0, i), t.slice(i, j), t.slice(j, len(t.s))}}
			case right:
				return &tuple{[]Value{empty, empty, t}}
			}
			return &tuple{[]Value{t, empty, empty}}
		})
	}
	partition("partition", strings.Index, false)
	partition("rpartition", strings.LastIndex, true)

	textMethod("removeprefix", "prefix /", func(_ *state, t Text, a []Value) Value {
		return t.slice(len(t.s)-len(strings.TrimPrefix(t.s, wantText(a[0]).s)), len(t.s))
	})
	textMethod("removesuffix", "suffix /", func(_ *state, t Text, a []Value) Value {
		return t.slice(0, len(strings.TrimSuffix(t.s, wantText(a[0]).s)))
	})

	textMethod("upper", "", func(st *state, t Text, _ []Value) Value { return st.upper(t) })
	textMethod("lower", "", func(st *state, t Text, _ []Value) Value { return st.lower(t) })
	textMethod("title", "", func(st *state, t Text, _ []Value) Value { return st.title(t) })
	textMethod("capitalize", "", func(st *state, t Text, _ []Value) Value { return st.capitalize(t) })

	textMethod("replace", "old new count? /", func(st *state, t Text, a []Value) Value {
		with := wantText(a[1])
		if t.safe {
			with = st.escape(with)
		}
		limit := -1
		if a[2] != nil {
			limit = index(a[2])
		}
		return st.replace(t, wantText(a[0]).s, with, limit).withSafe(t.safe)
	})
	textMethod("join", "iterable /", func(st *state, t Text, a []Value) Value {
		var parts []Text
		for i, v := range st.list(a[0]) {
			if t.safe {
				parts = append(parts, st.escape(v))
				continue
			}
			part, ok := v.(Text)
			if !ok {
				typeError("sequence item %d: expected str instance, %s found", i, v.pyType())
			}
			parts = append(parts, part)
		}
		return st.join(t, parts).withSafe(t.safe)
	})

	starts := func(name string, has func(string, string) bool) {
		textMethod(name, "prefix start? end? /", func(_ *state, t Text, a []Value) Value {
			part, _, ok := region(t, a[1], a[2])
			for _, p := range prefixes(a[0]) {
				if p := wantText(p); ok && has(part.s, p.s) {
					return Bool(true)
				}
			}
			return Bool(false)
		})
	}
	starts("startswith", strings.HasPrefix)
	starts("endswith", strings.HasSuffix)
	textMethod("count", "sub start? end? /", func(_ *state, t Text, a []Value) Value {
		part, _, ok := region(t, a[1], a[2])
		if sub := wantText(a[0]); ok {
			return Int(strings.Count(part.s, sub.s))
		}
		return Int(0)
	})
	search := func(name string, f func(string, string) int, must bool) {
		textMethod(name, "sub start? end? /", func(_ *state, t Text, a []Value) Value {
			i := find(t, a, f)
			if i < 0 && must {
				typeError("substring not found")
			}
			return Int(i)
		})
	}
	search("find", strings.Index, false)
	search("rfind", strings.LastIndex, false)
	search("index", strings.Index, true)
	search("rindex", strings.LastIndex, true)
}

// initTextPredicates declares the is... methods: true for a non-empty text all of whose characters qualify.
func initTextPredicates() {
	all := func(name string, is func(rune) bool) {
		textMethod(name, "", func(_ *state, t Text, _ []Value) Value {
			return Bool(t.s != "" && strings.IndexFunc(t.s, func(r rune) bool { return !is(r) }) < 0)
		})
	}
	digit := func(r rune) bool { return unicode.Is(unicode.Nd, r) || isDigitForm(r) }
	all("isspace", isSpace)
	all("isalpha", unicode.IsLetter)
	all("isdigit", digit)
	all("isalnum", func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || digit(r) })
	textMethod("isupper", "", func(_ *state, t Text, _ []Value) Value { return Bool(hasCase(t.s, isUpper, isLower)) })
	textMethod("islower", "", func(_ *state, t Text, _ []Value) Value { return Bool(hasCase(t.s, isLower, isUpper)) })
}

// isDigitForm holds for the characters with Numeric_Type=Digit: superscripts, circled digits and the like.
func isDigitForm(r rune) bool {
	for _, span := range [][2]rune{{0xb2, 0xb3}, {0xb9, 0xb9}, {0x1369, 0x1371}, {0x19da, 0x19da}, {0x2070, 0x2070}, {0x2074, 0x2079},
		{0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247c}, {0x2488, 0x2490}, {0x24ea, 0x24ea}, {0x24f5, 0x24fd}, {0x24ff, 0x24ff},
		{0x2776, 0x277e}, {0x2780, 0x2788}, {0x278a, 0x2792}, {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a}} {
		if r >= span[0] && r <= span[1] {
			return true
		}
	}
	return false
}

func isUpper(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }

func isLower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }

// hasCase reports whether the text has a character of the wanted case and none of the other.
func hasCase(s string, want, other func(rune) bool) bool {
	found := false
	for _, r := range s {
		if other(r) || unicode.IsTitle(r) {
			return false
		}
		found = found || want(r)
	}
	return found
}

// firstRune is the length in bytes of the first character.
func firstRune(s string) int {
	_, size := utf8.DecodeRuneInString(s)
	return size
}
