package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Origin says who supplied a piece of text. Callers number their own sources from 1; negative numbers are theirs too.
type Origin int32

// FromTemplate is the origin of everything the template wrote itself: its data, its string literals, the digits of numbers, the
// punctuation of dumped JSON.
const FromTemplate Origin = 0

// Mark describes the bytes [Start, End) of a Text.
type Mark struct {
	Start, End int
	Origin     Origin
	Generated  bool // written inside {% generation %}
}

func (m Mark) plain() bool { return m.Origin == FromTemplate && !m.Generated }

func (m Mark) same(o Mark) bool { return m.Origin == o.Origin && m.Generated == o.Generated }

// Text is a Python str that remembers, byte by byte, where it came from. Every operation of this package carries the marks along,
// so the final output still tells the template's own text from text that a message brought in.
type Text struct {
	s     string
	marks []Mark // sorted, disjoint, none plain; bytes outside them are the template's
	safe  bool   // markupsafe.Markup
}

// NewText returns a Text whose bytes all have the given origin. s must be valid UTF-8.
func NewText(s string, origin Origin) Text {
	if origin == FromTemplate || s == "" {
		return Text{s: s}
	}
	return Text{s: s, marks: []Mark{{End: len(s), Origin: origin}}}
}

func literal(s string) Text { return Text{s: s} }

// String returns the characters.
func (t Text) String() string { return t.s }

// Marks returns the marked byte ranges, sorted and disjoint; what lies between them is the template's own text.
func (t Text) Marks() []Mark { return slices.Clone(t.marks) }

// runs yields the text cut where its marks change, from left to right. Start and End of the yielded mark are not meaningful.
func (t Text) runs(yield func(string, Mark) bool) {
	at := 0
	for _, m := range t.marks {
		if at < m.Start && !yield(t.s[at:m.Start], Mark{}) {
			return
		}
		if !yield(t.s[m.Start:m.End], m) {
			return
		}
		at = m.End
	}
	if at < len(t.s) {
		yield(t.s[at:], Mark{})
	}
}

// slice returns the bytes [i, j).
func (t Text) slice(i, j int) Text {
	out := Text{s: t.s[i:j], safe: t.safe}
	first, _ := slices.BinarySearchFunc(t.marks, i, func(m Mark, at int) int { return m.End - at - 1 })
	for _, m := range t.marks[first:] {
		if m.Start >= j {
			break
		}
		m.Start, m.End = max(m.Start, i)-i, min(m.End, j)-i
		if m.Start < m.End {
			out.marks = append(out.marks, m)
		}
	}
	return out
}

// plainText drops the Markup flag, as str() does.
func (t Text) plainText() Text { t.safe = false; return t }

func (t Text) withSafe(safe bool) Text { t.safe = safe; return t }

// length is the number of code points.
func (t Text) length() int { return utf8.RuneCountInString(t.s) }

// offset returns the byte offset of code point n; n may equal length.
func (t Text) offset(n int) int {
	at := 0
	for ; n > 0; n-- {
		for at++; at < len(t.s) && !utf8.RuneStart(t.s[at]); at++ {
		}
	}
	return at
}

// runeIndex returns the code point index of byte offset at.
func (t Text) runeIndex(at int) int { return utf8.RuneCountInString(t.s[:at]) }

// chars returns the code points as texts of their own, as iterating over a str does (plain even for Markup).
func (t Text) chars() []Value {
	out := make([]Value, 0, len(t.s))
	for i, r := range t.s {
		out = append(out, t.slice(i, i+utf8.RuneLen(r)).plainText())
	}
	return out
}

// builder assembles a Text. Every text longer than a slice of another is made by a builder, which charges the render's budget.
type builder struct {
	st    *state
	buf   strings.Builder
	marks []Mark
}

func (st *state) builder() *builder { return &builder{st: st} }

func (b *builder) add(s string, m Mark) {
	if s == "" {
		return
	}
	start := b.buf.Len()
	b.st.grow(start, len(s))
	b.buf.WriteString(s)
	if m.plain() {
		return
	}
	m.Start, m.End = start, start+len(s)
	if n := len(b.marks); n > 0 && b.marks[n-1].End == start && b.marks[n-1].same(m) {
		b.marks[n-1].End = m.End
		return
	}
	b.marks = append(b.marks, m)
}

func (b *builder) literal(s string) { b.add(s, Mark{}) }

func (b *builder) text(t Text) {
	if t.marks == nil {
		b.add(t.s, Mark{})
		return
	}
	for s, m := range t.runs {
		b.add(s, m)
	}
}

// generated is text, with every byte marked as written inside {% generation %}.
func (b *builder) generated(t Text) {
	for s, m := range t.runs {
		m.Generated = true
		b.add(s, m)
	}
}

func (b *builder) done() Text { return Text{s: b.buf.String(), marks: b.marks} }

// concat joins texts. The result is plain.
func (st *state) concat(parts ...Text) Text {
	b := st.builder()
	for _, p := range parts {
		b.text(p)
	}
	return b.done()
}

// join is sep.join(parts).
func (st *state) join(sep Text, parts []Text) Text {
	b := st.builder()
	for i, p := range parts {
		if i > 0 {
			b.text(sep)
		}
		b.text(p)
	}
	return b.done()
}

// mapRuns rewrites a text run by run; each result keeps the mark of the run it came from.
func (st *state) mapRuns(t Text, f func(string) string) Text {
	b := st.builder()
	for s, m := range t.runs {
		b.add(f(s), m)
	}
	return b.done().withSafe(t.safe)
}

// isSpace is Python's str.isspace for one character, which is also what \s matches.
func isSpace(r rune) bool {
	switch {
	case r >= 0x09 && r <= 0x0d, r >= 0x1c && r <= 0x20, r == 0x85, r == 0xa0, r == 0x1680,
		r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// strip removes leading and trailing characters for which cut holds.
func (t Text) strip(left, right bool, cut func(rune) bool) Text {
	i, j := 0, len(t.s)
	if left {
		i = len(t.s) - len(strings.TrimLeftFunc(t.s, cut))
	}
	if right {
		j = max(i, len(strings.TrimRightFunc(t.s, cut)))
	}
	return t.slice(i, j)
}

// split is str.split(sep, limit) for a non-empty sep; a negative limit means no limit.
func (t Text) split(sep string, limit int) []Text {
	var out []Text
	at := 0
	for limit != 0 {
		i := strings.Index(t.s[at:], sep)
		if i < 0 {
			break
		}
		out = append(out, t.slice(at, at+i))
		at += i + len(sep)
		limit--
	}
	return append(out, t.slice(at, len(t.s)))
}

// rsplit is str.rsplit(sep, limit) for a non-empty sep.
func (t Text) rsplit(sep string, limit int) []Text {
	var out []Text
	end := len(t.s)
	for limit != 0 {
		i := strings.LastIndex(t.s[:end], sep)
		if i < 0 {
			break
		}
		out = append(out, t.slice(i+len(sep), end))
		end = i
		limit--
	}
	out = append(out, t.slice(0, end))
	slices.Reverse(out)
	return out
}

// fields is str.split(None, limit).
func (t Text) fields(limit int) []Text {
	var out []Text
	rest := t.strip(true, false, isSpace)
	for rest.s != "" {
		if limit == 0 {
			return append(out, rest)
		}
		i := strings.IndexFunc(rest.s, isSpace)
		if i < 0 {
			i = len(rest.s)
		}
		out = append(out, rest.slice(0, i))
		rest = rest.slice(i, len(rest.s)).strip(true, false, isSpace)
		limit--
	}
	return out
}

// rfields is str.rsplit(None, limit).
func (t Text) rfields(limit int) []Text {
	var out []Text
	rest := t.strip(false, true, isSpace)
	for rest.s != "" {
		if limit == 0 {
			out = append(out, rest)
			break
		}
		start := 0
		if i := strings.LastIndexFunc(rest.s, isSpace); i >= 0 {
			_, size := utf8.DecodeRuneInString(rest.s[i:])
			start = i + size
		}
		out = append(out, rest.slice(start, len(rest.s)))
		rest = rest.slice(0, start).strip(false, true, isSpace)
		limit--
	}
	slices.Reverse(out)
	return out
}

// lines is str.splitlines(keep).
func (t Text) lines(keep bool) []Text {
	var out []Text
	start := 0
	for i := 0; i < len(t.s); {
		r, size := utf8.DecodeRuneInString(t.s[i:])
		next := i + size
		switch r {
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		case '\r':
			if strings.HasPrefix(t.s[next:], "\n") {
				next++
			}
		default:
			i = next
			continue
		}
		end := i
		if keep {
			end = next
		}
		out = append(out, t.slice(start, end))
		start, i = next, next
	}
	if start < len(t.s) {
		out = append(out, t.slice(start, len(t.s)))
	}
	return out
}

// replace is str.replace(old, with, limit). Kept and inserted characters keep their own marks.
func (st *state) replace(t Text, old string, with Text, limit int) Text {
	b := st.builder()
	if old == "" {
		// Python inserts before every character and at the end.
		for i, r := range t.s {
			if limit == 0 {
				b.text(t.slice(i, len(t.s)))
				return b.done()
			}
			b.text(with)
			b.text(t.slice(i, i+utf8.RuneLen(r)))
			limit--
		}
		if limit != 0 {
			b.text(with)
		}
		return b.done()
	}
	return st.join(with, t.split(old, limit))
}
