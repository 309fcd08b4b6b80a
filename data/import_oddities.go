package data

import (
	"regexp"
	"strings"

	"terraloom/data/strictjson"
)

var numberText = regexp.MustCompile(`^[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\s*%?$`)

// isNumberText reports whether a text is a number or a percentage.
func isNumberText(s string) bool {
	return s != "" && len(s) < 40 && strings.IndexByte("+-0123456789", s[0]) >= 0 && numberText.MatchString(s)
}

// hasDrive reports whether a text holds a path with a drive letter.
func hasDrive(s string) bool {
	for i := 1; i+1 < len(s); i++ {
		if s[i] != ':' || s[i+1] != '/' && s[i+1] != '\\' {
			continue
		}
		letter := s[i-1] | 0x20
		if 'a' <= letter && letter <= 'z' && (i == 1 || strings.IndexByte(" \t\n", s[i-2]) >= 0) {
			return true
		}
	}
	return false
}

// otherEntry reports whether a text names the folder of another entry, as in
// question12 or question-12.
func (e *benchEntry) otherEntry(s string) bool {
	for {
		_, rest, ok := strings.Cut(s, "question")
		if !ok {
			return false
		}
		rest = strings.TrimLeft(rest, "-_ ")
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits > 0 && rest[:digits] != e.number {
			return true
		}
		s = rest
	}
}

// checkArguments lists the oddities of a call's arguments.
func (e *benchEntry) checkArguments(step int, s *Step) {
	lengths := map[int]bool{}
	for i := range s.Arguments.Len() {
		key, v := s.Arguments.Key(i), s.Arguments.Index(i)
		if v.Kind() == strictjson.Array {
			e.checkList(step, key, v)
			if v.Len() > 0 && v.Index(0).Kind() == strictjson.String {
				lengths[v.Len()] = true
			}
		}
	}
	if len(lengths) > 1 {
		e.note(UnequalLists, step, "%s", s.Tool)
	}
	checks := []struct {
		kind string
		hit  func(text string) bool
		at   string // pointer of the first hit
	}{
		{kind: NumberInText, hit: isNumberText},
		{kind: BooleanInText, hit: func(s string) bool { return strings.EqualFold(s, "true") || strings.EqualFold(s, "false") }},
		{kind: OuterBlanks, hit: func(s string) bool { return s != strings.TrimSpace(s) }},
		{kind: AbsolutePath, hit: hasDrive},
		{kind: OtherEntryPath, hit: e.otherEntry},
	}
	s.Arguments.Leaves("", func(pointer string, leaf strictjson.Value) {
		if leaf.Kind() != strictjson.String {
			return
		}
		for i := range checks {
			if c := &checks[i]; c.at == "" && c.hit(leaf.Text()) {
				c.at = pointer
			}
		}
	})
	for _, c := range checks {
		if c.at != "" {
			e.note(c.kind, step, "arguments%s", c.at)
		}
	}
}

func (e *benchEntry) checkList(step int, key string, list strictjson.Value) {
	seen := map[string]bool{}
	null, repeated := false, false
	for i := range list.Len() {
		v := list.Index(i)
		null = null || v.Kind() == strictjson.Null
		if v.Kind() == strictjson.String {
			repeated = repeated || seen[v.Text()]
			seen[v.Text()] = true
		}
	}
	if null {
		e.note(NullInList, step, "arguments/%s", key)
	}
	if repeated {
		e.note(RepeatedItems, step, "arguments/%s", key)
	}
}

// checkObservation lists the oddities of an observation and its declared type.
func (e *benchEntry) checkObservation(step int, s *Step, declared strictjson.Value) {
	v := s.Observation
	if !declaredFits(declared.Text(), v) {
		e.note(DeclaredType, step, "declared %s, found %s", declared.Text(), v.Kind())
	}
	text := v.Text()
	switch {
	case v.Kind() == strictjson.String && isNumberText(text):
		e.note(NumberInText, step, "observation")
	case v.Kind() == strictjson.String && text != "" && strings.ContainsRune("[{(", rune(text[0])):
		e.note(TextLiteral, step, "observation")
	}
	absolute, other := false, false
	v.Leaves("", func(_ string, leaf strictjson.Value) {
		if leaf.Kind() == strictjson.String {
			absolute = absolute || hasDrive(leaf.Text())
			other = other || e.otherEntry(leaf.Text())
		}
	})
	if absolute {
		e.note(AbsolutePath, step, "observation")
	}
	if other {
		e.note(OtherEntryPath, step, "observation")
	}
	if n := pathCount(s.Arguments); n > 0 && strings.Contains(s.Tool, "_batch_") && v.Kind() == strictjson.Array && v.Len() != n {
		e.note(ResultCount, step, "%d paths in, %d values out", n, v.Len())
	}
}

// pathCount is the length of the first list of texts among the arguments.
func pathCount(arguments strictjson.Value) int {
	for i := range arguments.Len() {
		if v := arguments.Index(i); v.Kind() == strictjson.Array && v.Len() > 0 && v.Index(0).Kind() == strictjson.String {
			return v.Len()
		}
	}
	return 0
}

// declaredFits reports whether a value is of its declared type. The types
// "text" and null are given to values of every kind and say nothing.
func declaredFits(declared string, v strictjson.Value) bool {
	switch declared {
	case "int", "float":
		return v.Kind() == strictjson.Number
	case "str":
		return v.Kind() == strictjson.String
	case "list", "list(str)", "list(float)":
		return v.Kind() == strictjson.Array
	}
	return true
}
