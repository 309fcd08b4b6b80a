package strictjson

import (
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// EscapePointer escapes one reference token of a JSON pointer (RFC 6901).
func EscapePointer(token string) string {
	if strings.ContainsAny(token, "~/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
	}
	return token
}

// At resolves a JSON pointer (RFC 6901); ok is false where it leads nowhere.
func (v Value) At(pointer string) (w Value, ok bool) {
	if pointer == "" {
		return v, v.kind != Absent
	}
	if pointer[0] != '/' {
		return Value{}, false
	}
	for _, token := range strings.Split(pointer[1:], "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch v.kind {
		case Object:
			v = v.Get(token)
		case Array:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= v.Len() || itoa(i) != token {
				return Value{}, false
			}
			v = v.Index(i)
		default:
			return Value{}, false
		}
		if v.kind == Absent {
			return Value{}, false
		}
	}
	return v, true
}

// Leaves calls f for every value without children (scalars, empty arrays and
// objects) in order, with its pointer below prefix.
func (v Value) Leaves(prefix string, f func(pointer string, leaf Value)) {
	in := v.inside()
	if len(in.kids) == 0 {
		if v.kind != Absent {
			f(prefix, v)
		}
		return
	}
	for i, kid := range in.kids {
		if v.kind == Array {
			kid.Leaves(prefix+"/"+itoa(i), f)
		} else {
			kid.Leaves(prefix+"/"+EscapePointer(in.keys[i]), f)
		}
	}
}
