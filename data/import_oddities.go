package data

import (
	"regexp"
	"strings"

	"terraloom/data/strictjson"
)

var (
	numberText  = regexp.MustCompile(`^[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\s*%?$`)
	drivePath   = regexp.MustCompile(`(?:^|\s)[A-Za-z]:[\\/]`)
	entryFolder = regexp.MustCompile(`question[-_ ]?([0-9]+)`)
)

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
	found := map[string]string{} // kind → first pointer
	s.Arguments.Leaves("", func(pointer string, leaf strictjson.Value) {
		if leaf.Kind() != strictjson.String {
			return
		}
		text := leaf.Text()
		for kind, hit := range map[string]bool{
			NumberInText:   numberText.MatchString(text),
			BooleanInText:  strings.EqualFold(text, "true") || strings.EqualFold(text, "false"),
			OuterBlanks:    text != strings.TrimSpace(text),
			AbsolutePath:   drivePath.MatchString(text),
			OtherEntryPath: e.otherEntry(text),
		} {
			if _, ok := found[kind]; hit && !ok {
				found[kind] = pointer
			}
		}
	})
	for _, kind := range []string{NumberInText, BooleanInText, OuterBlanks, AbsolutePath, OtherEntryPath} {
		if pointer, ok := found[kind]; ok {
			e.note(kind, step, "arguments%s", pointer)
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

func (e *benchEntry) otherEntry(text string) bool {
	for _, m := range entryFolder.FindAllStringSubmatch(text, -1) {
		if m[1] != e.number {
			return true
		}
	}
	return false
}

// checkObservation lists the oddities of an observation and its declared type.
func (e *benchEntry) checkObservation(step int, s *Step, declared strictjson.Value) {
	v := s.Observation
	if !declaredFits(declared.Text(), v) {
		e.note(DeclaredType, step, "declared %s, found %s", declared.Text(), v.Kind())
	}
	text := v.Text()
	switch {
	case v.Kind() == strictjson.String && numberText.MatchString(text):
		e.note(NumberInText, step, "observation")
	case v.Kind() == strictjson.String && text != "" && strings.ContainsRune("[{(", rune(text[0])):
		e.note(TextLiteral, step, "observation")
	}
	absolute, other := false, false
	v.Leaves("", func(_ string, leaf strictjson.Value) {
		if leaf.Kind() == strictjson.String {
			absolute = absolute || drivePath.MatchString(leaf.Text())
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
