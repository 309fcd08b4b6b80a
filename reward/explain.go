package reward

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"terraloom/data/strictjson"
)

// explain is the reason of a score in one line. Keys of the reference come in
// its order, extra keys sorted, so that the order of the completion is unseen.
func (r Rules) explain(ref *Reference, v strictjson.Value, s Score, at []int, raw float64) string {
	if s.Exact() {
		return "every key and value is right"
	}
	var parts []string
	if s.Missing > 0 {
		var names []string
		for i, j := range at {
			if j == missing {
				names = append(names, ref.root.keys[i])
			}
		}
		parts = append(parts, "missing "+list(names))
	}
	if s.Extra > 0 {
		var names []string
		for j := range v.Len() {
			if ref.root.find(v.Key(j), j) < 0 {
				names = append(names, v.Key(j))
			}
		}
		slices.Sort(names)
		parts = append(parts, "extra "+list(names))
	}
	bad := s.Matched - s.Values
	for i, j := range at {
		if j >= missing {
			continue
		}
		where, what := r.difference(&ref.root.kids[i], v.Index(wrong(j)))
		text := clip("/"+strictjson.EscapePointer(ref.root.keys[i])+where) + ": " + what
		if bad > 1 {
			text += fmt.Sprintf(" (and %d more wrong values)", bad-1)
		}
		parts = append(parts, text)
		break
	}
	if raw < s.Reward {
		parts = append(parts, fmt.Sprintf("held at %d instead of %.4g", rewardFloor, raw))
	}
	return oneLine(strings.Join(parts, "; "))
}

// oneLine removes what would break a line: keys may hold any character.
func oneLine(s string) string {
	const most = 400
	if len(s) > most {
		s = s[:cut(s, most)] + "…"
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, s)
}

// difference describes the first place where v is not equivalent to n, as a
// JSON pointer below both and a text.
func (r Rules) difference(n *node, v strictjson.Value) (pointer, text string) {
	plain := "expected " + describeNode(n) + ", got " + describe(v)
	if n.kind != v.Kind() {
		return "", plain
	}
	switch n.kind {
	case strictjson.Number:
		if n.integer != v.IsInteger() && !n.anyFloat {
			plain += " (an integer and a float differ)"
		}
	case strictjson.Object:
		seen := make([]int, len(n.kids)) // 1 + index in v
		var extra []string
		for j := range v.Len() {
			if i := n.find(v.Key(j), j); i >= 0 {
				seen[i] = 1 + j
			} else {
				extra = append(extra, v.Key(j))
			}
		}
		if i := slices.Index(seen, 0); i >= 0 {
			return "", "missing " + list(n.keys[i:i+1])
		}
		if len(extra) > 0 {
			slices.Sort(extra)
			return "", "extra " + list(extra)
		}
		for i, j := range seen {
			if kid := v.Index(j - 1); !r.equal(&n.kids[i], kid) {
				below, text := r.difference(&n.kids[i], kid)
				return "/" + strictjson.EscapePointer(n.keys[i]) + below, text
			}
		}
	case strictjson.Array:
		if r.Lists != Ordered {
			return "", plain + fmt.Sprintf(" without a partner for every item (lists: %s)", r.Lists)
		}
		for i := range min(len(n.kids), v.Len()) {
			if kid := v.Index(i); !r.equal(&n.kids[i], kid) {
				below, text := r.difference(&n.kids[i], kid)
				return "/" + strconv.Itoa(i) + below, text
			}
		}
	}
	return "", plain
}

// describe names a value in a few words. The members of an object stay unseen
// because their order must not show.
func describe(v strictjson.Value) string {
	return describeAs(v.Kind(), v.Text(), v.Len())
}

func describeNode(n *node) string { return describeAs(n.kind, n.text, len(n.kids)) }

func describeAs(kind strictjson.Kind, text string, size int) string {
	switch kind {
	case strictjson.Array:
		return counted("a list of", size, "item")
	case strictjson.Object:
		return counted("an object of", size, "member")
	case strictjson.String:
		return strconv.Quote(clip(text))
	case strictjson.Null:
		return "null"
	case strictjson.Absent:
		return "nothing"
	}
	return clip(text)
}

func counted(what string, n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%s %d %s", what, n, noun)
}

// list quotes the first names.
func list(names []string) string {
	const most = 3
	quoted := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		quoted = append(quoted, strconv.Quote(clip(name)))
	}
	text := strings.Join(quoted, ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// clip shortens a text for a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:cut(s, most)] + "…"
}

// cut is the last rune border of s at or before n < len(s).
func cut(s string, n int) int {
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
