package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ParseJSON reads one JSON value. It keeps what a plain Unmarshal loses: the order of object keys, 1 apart from 1.0, and
// integers of any size. Repeated keys, invalid UTF-8, lone surrogates, numbers beyond float64 and nesting past 200 are refused.
// The strings have the origin FromTemplate; see WithOrigin.
func ParseJSON(data []byte) (Value, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("JSON: the bytes are not valid UTF-8")
	}
	if at := loneSurrogate(data); at >= 0 {
		return nil, fmt.Errorf("JSON: offset %d: a \\u escape is half of a surrogate pair", at)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := parseValue(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("JSON: offset %d: %w", dec.InputOffset(), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("JSON: offset %d: more text after the value", dec.InputOffset())
	}
	return v, nil
}

func parseValue(dec *json.Decoder, depth int) (Value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	tok, err := dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch tok := tok.(type) {
	case nil:
		return None{}, nil
	case bool:
		return Bool(tok), nil
	case string:
		return literal(tok), nil
	case json.Number:
		return parseNumber(string(tok))
	case json.Delim:
		if tok == '[' {
			list := &List{}
			for dec.More() {
				item, err := parseValue(dec, depth+1)
				if err != nil {
					return nil, err
				}
				list.items = append(list.items, item)
			}
			_, err := dec.Token()
			return list, err
		}
	}
	dict := NewDict()
	for dec.More() {
		k, err := parseValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		name := k.(Text).s
		if _, repeated := dict.Get(name); repeated {
			return nil, fmt.Errorf("the key %q is repeated", name)
		}
		v, err := parseValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		dict.Set(name, v)
	}
	_, err = dec.Token()
	return dict, err
}

func parseNumber(s string) (Value, error) {
	if !strings.ContainsAny(s, ".eE") {
		if i, ok := parseInt(s, 10); ok {
			return i, nil
		}
		return nil, fmt.Errorf("an integer has more than %d digits", maxIntDigits)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s does not fit a float64", s)
	}
	return Float(f), nil
}

// loneSurrogate returns the offset of the first \u escape that is an unpaired surrogate, or -1.
func loneSurrogate(data []byte) int {
	unit := func(at int) rune { // the UTF-16 code unit escaped at this offset, or 0
		if at+6 > len(data) || data[at] != '\\' || data[at+1] != 'u' {
			return 0
		}
		u, err := strconv.ParseUint(string(data[at+2:at+6]), 16, 16)
		if err != nil {
			return 0
		}
		return rune(u)
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		if u := unit(i); utf16.IsSurrogate(u) {
			if utf16.DecodeRune(u, unit(i+6)) == utf8.RuneError {
				return i
			}
			i += 11
			continue
		}
		i++ // the escaped character
	}
	return -1
}

// jsonStyle is the set of arguments of json.dumps that templates use.
type jsonStyle struct {
	ascii    bool
	pretty   bool // indent is given
	indent   Text
	item     Text // between items
	colon    Text // after keys
	sortKeys bool
}

// dump writes a value as json.dumps does.
func (st *state) dump(b *builder, v Value, style jsonStyle, level int) {
	st.step(1)
	switch v := v.(type) {
	case None:
		b.literal("null")
	case Bool:
		b.literal(strconv.FormatBool(bool(v)))
	case Int, *bigInt:
		b.literal(reprOf(v))
	case Float:
		b.literal(jsonFloat(float64(v)))
	case Text:
		dumpText(b, v, style.ascii)
	case *List:
		st.dumpItems(b, "[", "]", len(v.items), style, level, func(i int) { st.dump(b, v.items[i], style, level+1) })
	case *tuple:
		st.dumpItems(b, "[", "]", len(v.items), style, level, func(i int) { st.dump(b, v.items[i], style, level+1) })
	case *Dict:
		if style.sortKeys {
			v = st.sortedDict(v)
		}
		st.dumpItems(b, "{", "}", v.Len(), style, level, func(i int) {
			dumpText(b, jsonKey(v.keys[i]), style.ascii)
			b.text(style.colon)
			st.dump(b, v.vals[i], style, level+1)
		})
	default:
		typeError("Object of type %s is not JSON serializable", v.pyType())
	}
}

func (st *state) dumpItems(b *builder, open, end string, n int, style jsonStyle, level int, item func(int)) {
	st.enter()
	defer st.leave()
	newline := func(level int) {
		if style.pretty {
			b.literal("\n")
			for range level {
				b.text(style.indent)
			}
		}
	}
	b.literal(open)
	for i := range n {
		if i > 0 {
			b.text(style.item)
		}
		newline(level + 1)
		item(i)
	}
	if n > 0 {
		newline(level)
	}
	b.literal(end)
}

func (st *state) sortedDict(d *Dict) *Dict {
	out := NewDict()
	for _, k := range st.sorted(d.keys, func(k Value) Value { return k }, false) {
		h := st.mustHash(k)
		v, _ := d.lookUp(h)
		out.put(h, k, v)
	}
	return out
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatText(f)
}

func jsonKey(k Value) Text {
	switch k := k.(type) {
	case Text:
		return k
	case None:
		return literal("null")
	case Bool:
		return literal(strconv.FormatBool(bool(k)))
	case Int, *bigInt:
		return literal(reprOf(k))
	case Float:
		return literal(jsonFloat(float64(k)))
	}
	typeError("keys must be str, int, float, bool or None, not %s", k.pyType())
	return Text{}
}

// dumpText writes a quoted string. An escape has the origin of the character it stands for; the quotes are the template's.
func dumpText(b *builder, t Text, ascii bool) {
	b.literal(`"`)
	for s, m := range t.runs {
		start := 0
		for i, r := range s {
			if r >= 0x20 && r != '"' && r != '\\' && (r < 0x7f || !ascii) {
				continue
			}
			b.add(s[start:i], m)
			b.add(jsonEscape(r), m)
			start = i + utf8.RuneLen(r)
		}
		b.add(s[start:], m)
	}
	b.literal(`"`)
}

func jsonEscape(r rune) string {
	switch r {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\f':
		return `\f`
	case '\b':
		return `\b`
	}
	if r > 0xffff {
		hi, lo := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
