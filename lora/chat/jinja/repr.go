package jinja

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str is str(v).
func (st *state) str(v Value) Text {
	if t, ok := v.(Text); ok {
		return t.plainText()
	}
	if _, ok := v.(*undefined); ok {
		return Text{}
	}
	b := st.builder()
	st.repr(b, v)
	return b.done()
}

// softStr is markupsafe.soft_str(v): a str stays as it is, Markup included.
func (st *state) softStr(v Value) Text {
	if t, ok := v.(Text); ok {
		return t
	}
	return st.str(v)
}

// repr writes repr(v).
func (st *state) repr(b *builder, v Value) {
	st.step(1)
	switch v := v.(type) {
	case None:
		b.literal("None")
	case Bool:
		b.literal(map[Bool]string{true: "True", false: "False"}[v])
	case Int:
		b.literal(fmt.Sprint(int64(v)))
	case *bigInt:
		st.chargeInts(v)
		b.literal(intText(v.v))
	case Float:
		b.literal(floatText(float64(v)))
	case Text:
		reprText(b, v)
	case *List:
		st.reprItems(b, "[", "]", v.items)
	case *tuple:
		end := ")"
		if len(v.items) == 1 {
			end = ",)"
		}
		st.reprItems(b, "(", end, v.items)
	case *Dict:
		st.reprDict(b, v)
	case *pyRange:
		s := fmt.Sprintf("range(%d, %d", v.start, v.stop)
		if v.step != 1 {
			s += fmt.Sprintf(", %d", v.step)
		}
		b.literal(s + ")")
	case *dictView:
		items := make([]Value, v.dict.Len())
		for i := range items {
			items[i] = v.item(i)
		}
		b.literal(v.pyType() + "(")
		st.reprItems(b, "[", "]", items)
		b.literal(")")
	case *namespace:
		b.literal("<Namespace ")
		st.reprDict(b, v.attrs)
		b.literal(">")
	case *undefined:
		b.literal("Undefined")
	case *macro:
		name := "anonymous"
		if v.def.name != "" {
			name = reprOf(literal(v.def.name))
		}
		b.literal("<Macro " + name + ">")
	case *loop:
		b.literal(fmt.Sprintf("<LoopContext %d/%d>", v.index0+1, v.length()))
	case *builtin:
		b.literal("<function " + v.name + ">")
	case *generator:
		b.literal("<generator object " + v.name + ">")
	}
}

func (st *state) reprItems(b *builder, open, end string, items []Value) {
	st.enter()
	defer st.leave()
	b.literal(open)
	for i, item := range items {
		if i > 0 {
			b.literal(", ")
		}
		st.repr(b, item)
	}
	b.literal(end)
}

func (st *state) reprDict(b *builder, d *Dict) {
	st.enter()
	defer st.leave()
	b.literal("{")
	for i, k := range d.keys {
		if i > 0 {
			b.literal(", ")
		}
		st.repr(b, k)
		b.literal(": ")
		st.repr(b, d.vals[i])
	}
	b.literal("}")
}

// reprText writes a quoted string: single quotes, unless the text holds one and no double quote.
func reprText(b *builder, t Text) {
	quote := '\''
	if strings.Contains(t.s, "'") && !strings.Contains(t.s, `"`) {
		quote = '"'
	}
	if t.safe {
		b.literal("Markup(")
	}
	b.literal(string(quote))
	for s, m := range t.runs {
		start := 0
		for i, r := range s {
			if r != quote && r != '\\' && (unicode.IsPrint(r) || r == ' ') {
				continue
			}
			b.add(s[start:i], m)
			b.add(reprEscape(r), m)
			start = i + utf8.RuneLen(r)
		}
		b.add(s[start:], m)
	}
	b.literal(string(quote))
	if t.safe {
		b.literal(")")
	}
}

func reprEscape(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\'', '"', '\\':
		return `\` + string(r)
	}
	switch {
	case r <= 0xff:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// reprOf is repr(v) for messages.
func reprOf(v Value) string {
	st := newState(context.Background(), nil)
	b := st.builder()
	st.repr(b, v)
	return b.done().s
}
