package strictjson

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting Parse accepts.
const MaxDepth = 512

// Error is a refusal of a JSON text.
type Error struct {
	Line, Column int    // 1-based; Column counts bytes
	Pointer      string // RFC 6901 pointer of the enclosing value
	Msg          string
}

func (e *Error) Error() string {
	at := ""
	if e.Pointer != "" {
		at = " at " + e.Pointer
	}
	return fmt.Sprintf("%d:%d%s: %s", e.Line, e.Column, at, e.Msg)
}

var bom = []byte("\xef\xbb\xbf")

// Parse reads exactly one JSON value (RFC 8259) from data; a byte order mark
// before it and white space around it are allowed. The error is an *Error.
func Parse(data []byte) (Value, error) {
	p := parser{data: string(bytes.TrimPrefix(data, bom))}
	p.space()
	v := p.value(0)
	p.space()
	if p.err == nil && p.pos < len(p.data) {
		p.fail("bytes after the JSON value, starting with %q", clip(p.data[p.pos:]))
	}
	if p.err != nil {
		return Value{}, p.err
	}
	return v, nil
}

type parser struct {
	data string
	pos  int
	path []token // of the value being read
	err  *Error

	// Children collect on these stacks and move to slices of their final
	// length when their array or object closes.
	keys []string
	kids []Value
}

// token is one step of the path: a key, or an index where key is false.
type token struct {
	key  bool
	name string
	n    int
}

func clip(s string) string {
	if len(s) > 12 {
		return s[:12] + "…"
	}
	return s
}

func (p *parser) fail(format string, args ...any) {
	if p.err != nil {
		return
	}
	before := p.data[:p.pos]
	ptr := strings.Builder{}
	for _, t := range p.path {
		if !t.key {
			t.name = itoa(t.n)
		}
		ptr.WriteString("/" + EscapePointer(t.name))
	}
	p.err = &Error{
		Line:    1 + strings.Count(before, "\n"),
		Column:  p.pos - strings.LastIndexByte(before, '\n'),
		Pointer: ptr.String(),
		Msg:     fmt.Sprintf(format, args...),
	}
}

func (p *parser) space() {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) Value {
	if p.err != nil {
		return Value{}
	}
	if depth > MaxDepth {
		p.fail("nested deeper than %d levels", MaxDepth)
		return Value{}
	}
	if p.pos == len(p.data) {
		p.fail("the text ends where a value should be")
		return Value{}
	}
	switch c := p.data[p.pos]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return Value{kind: String, text: p.str()}
	case c == '-' || '0' <= c && c <= '9':
		n := numberLen(p.data[p.pos:])
		if n == 0 {
			p.fail("not a JSON number: %q", clip(p.data[p.pos:]))
			return Value{}
		}
		lit := p.data[p.pos : p.pos+n]
		p.pos += n
		if p.pos < len(p.data) && strings.IndexByte(" \t\r\n,]}", p.data[p.pos]) < 0 {
			p.fail("not a JSON number: %q", clip(lit+p.data[p.pos:]))
		}
		return Value{kind: Number, text: lit}
	}
	for _, w := range [...]struct {
		word string
		v    Value
	}{{"true", Boolean(true)}, {"false", Boolean(false)}, {"null", NullValue()}} {
		if strings.HasPrefix(p.data[p.pos:], w.word) {
			p.pos += len(w.word)
			return w.v
		}
	}
	p.fail("%q is not JSON (NaN, Infinity, comments, single quotes and bare words are refused)", clip(p.data[p.pos:]))
	return Value{}
}

func (p *parser) array(depth int) Value {
	p.pos++
	p.space()
	if p.pos < len(p.data) && p.data[p.pos] == ']' {
		p.pos++
		return Value{kind: Array}
	}
	first := len(p.kids)
	p.path = append(p.path, token{})
	for p.err == nil {
		p.path[len(p.path)-1].n = len(p.kids) - first
		p.space()
		kid := p.value(depth + 1)
		p.kids = append(p.kids, kid)
		p.space()
		if p.next(']', "array") {
			break
		}
	}
	p.path = p.path[:len(p.path)-1]
	return p.take(Array, 0, first)
}

func (p *parser) object(depth int) Value {
	p.pos++
	p.space()
	if p.pos < len(p.data) && p.data[p.pos] == '}' {
		p.pos++
		return Value{kind: Object}
	}
	firstKey, first := len(p.keys), len(p.kids)
	var seen map[string]bool
	for p.err == nil {
		p.space()
		if p.pos == len(p.data) || p.data[p.pos] != '"' {
			p.fail("expected a key in double quotes")
			break
		}
		at := p.pos
		key := p.str()
		if p.err != nil {
			break
		}
		before := p.keys[firstKey:]
		if len(before) == 16 {
			seen = make(map[string]bool, 64)
			for _, k := range before {
				seen[k] = true
			}
		}
		repeated := seen[key]
		if seen == nil {
			repeated = slices.Contains(before, key)
		} else {
			seen[key] = true
		}
		if repeated {
			p.pos = at
			p.fail("key %q is repeated", key)
			break
		}
		p.space()
		if p.pos == len(p.data) || p.data[p.pos] != ':' {
			p.fail("expected ':' after key %q", key)
			break
		}
		p.pos++
		p.space()
		p.keys = append(p.keys, key)
		p.path = append(p.path, token{key: true, name: key})
		kid := p.value(depth + 1)
		p.path = p.path[:len(p.path)-1]
		p.kids = append(p.kids, kid)
		p.space()
		if p.next('}', "object") {
			break
		}
	}
	return p.take(Object, firstKey, first)
}

// take moves the children from the stacks into a value.
func (p *parser) take(kind Kind, firstKey, first int) Value {
	v := Value{kind: kind}
	if p.err == nil {
		in := &sub{kids: slices.Clone(p.kids[first:])}
		if kind == Object {
			in.keys = slices.Clone(p.keys[firstKey:])
			p.keys = p.keys[:firstKey]
		}
		v.sub = in
	}
	p.kids = p.kids[:first]
	return v
}

// next consumes a comma or the closing bracket and reports whether it closed.
func (p *parser) next(closing byte, what string) bool {
	if p.err != nil {
		return true
	}
	if p.pos == len(p.data) {
		p.fail("the text ends inside an %s", what)
		return true
	}
	switch p.data[p.pos] {
	case closing:
		p.pos++
		return true
	case ',':
		p.pos++
		return false
	}
	p.fail("expected ',' or %q in an %s, found %q", closing, what, clip(p.data[p.pos:]))
	return true
}

func (p *parser) str() string {
	p.pos++ // the opening quote
	start := p.pos
	for i := start; i < len(p.data); i++ { // fast path: no escape, ASCII
		switch c := p.data[i]; {
		case c == '"':
			p.pos = i + 1
			return p.data[start:i]
		case c == '\\' || c < 0x20 || c >= utf8.RuneSelf:
			return p.slowStr(start, i)
		}
	}
	p.fail("the text ends inside a string")
	return ""
}

func (p *parser) slowStr(start, from int) string {
	b := append(make([]byte, 0, from-start+32), p.data[start:from]...)
	for i := from; i < len(p.data); {
		c := p.data[i]
		switch {
		case c == '"':
			p.pos = i + 1
			return string(b)
		case c < 0x20:
			p.pos = i
			p.fail("control character %#x in a string must be escaped", c)
			return ""
		case c == '\\':
			p.pos = i
			r, n := p.escape(p.data[i:])
			if n == 0 {
				return ""
			}
			b = utf8.AppendRune(b, r)
			i += n
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(p.data[i:])
			if r == utf8.RuneError && n == 1 {
				p.pos = i
				p.fail("invalid UTF-8 byte %#x in a string", c)
				return ""
			}
			b = append(b, p.data[i:i+n]...)
			i += n
		}
	}
	p.pos = len(p.data)
	p.fail("the text ends inside a string")
	return ""
}

// escape decodes one escape sequence at the start of s; n = 0 after a failure.
func (p *parser) escape(s string) (r rune, n int) {
	if len(s) < 2 {
		p.fail("the text ends inside a string")
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, s[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	if s[1] != 'u' {
		p.fail("unknown escape %q", s[:2])
		return 0, 0
	}
	u, ok := hex4(s[2:])
	if !ok {
		p.fail("\\u needs four hexadecimal digits")
		return 0, 0
	}
	if !utf16.IsSurrogate(u) {
		return u, 6
	}
	if strings.HasPrefix(s[6:], `\u`) {
		if low, ok := hex4(s[8:]); ok {
			if r := utf16.DecodeRune(u, low); r != utf8.RuneError {
				return r, 12
			}
		}
	}
	p.fail("lone surrogate %s", s[:6])
	return 0, 0
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := 0; i < 4; i++ {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// numberLen is the length of the JSON number at the start of s, or 0.
func numberLen(s string) int {
	digits := func(i int) int {
		for i < len(s) && '0' <= s[i] && s[i] <= '9' {
			i++
		}
		return i
	}
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	j := digits(i)
	if j == i || s[i] == '0' && j > i+1 {
		return 0
	}
	i = j
	if i < len(s) && s[i] == '.' {
		if j = digits(i + 1); j == i+1 {
			return 0
		}
		i = j
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		k := i + 1
		if k < len(s) && (s[k] == '+' || s[k] == '-') {
			k++
		}
		if j = digits(k); j == k {
			return 0
		}
		i = j
	}
	return i
}
