package catalogue

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"terraloom/data/strictjson"
)

// typeKind is the head of a Type.
type typeKind uint8

const (
	anyType typeKind = iota
	nullType
	boolType
	intType
	floatType
	strType
	listType
	dictType
	unionType
)

// jsonName is the JSON Schema type of each kind; any and union have none.
var jsonName = [...]string{"", "null", "boolean", "integer", "number", "string", "array", "object", ""}

var scalarKinds = map[string]typeKind{
	"any": anyType, "null": nullType, "bool": boolType, "int": intType, "float": floatType, "str": strType,
	"list": listType, "dict": dictType,
}

// Type is a parameter or result type, spelt as Python annotations are:
// str, int, float, bool, any, null, list[T], dict[T] (string keys), A | B.
// A bare list or dict holds anything.
type Type struct {
	kind typeKind
	elem *Type  // list, dict
	alts []Type // union
}

// ParseType reads a type.
func ParseType(s string) (Type, error) {
	t, rest, err := parseUnion(s)
	if err == nil && rest != "" {
		err = fmt.Errorf("unexpected %q", rest)
	}
	if err != nil {
		return Type{}, fmt.Errorf("type %q: %w", s, err)
	}
	return t, nil
}

func parseUnion(s string) (Type, string, error) {
	t, rest, err := parseOne(s)
	if err != nil || !strings.HasPrefix(rest, "|") {
		return t, rest, err
	}
	u := Type{kind: unionType, alts: []Type{t}}
	for strings.HasPrefix(rest, "|") {
		if t, rest, err = parseOne(rest[1:]); err != nil {
			return Type{}, "", err
		}
		u.alts = append(u.alts, t)
	}
	return u, rest, nil
}

func parseOne(s string) (Type, string, error) {
	s = strings.TrimLeft(s, " ")
	n := 0
	for n < len(s) && 'a' <= s[n] && s[n] <= 'z' {
		n++
	}
	kind, ok := scalarKinds[s[:n]]
	if !ok {
		return Type{}, "", fmt.Errorf("no type name at %q", s)
	}
	t, rest := Type{kind: kind}, s[n:]
	if kind == listType || kind == dictType {
		t.elem = &Type{}
		if strings.HasPrefix(rest, "[") {
			elem, after, err := parseUnion(rest[1:])
			if err != nil {
				return Type{}, "", err
			}
			if !strings.HasPrefix(after, "]") {
				return Type{}, "", fmt.Errorf("missing ] at %q", after)
			}
			t.elem, rest = &elem, after[1:]
		}
	}
	return t, strings.TrimLeft(rest, " "), nil
}

// String spells the type as ParseType reads it.
func (t Type) String() string {
	switch t.kind {
	case listType, dictType:
		name := "list"
		if t.kind == dictType {
			name = "dict"
		}
		if t.elem.kind == anyType {
			return name
		}
		return name + "[" + t.elem.String() + "]"
	case unionType:
		names := make([]string, len(t.alts))
		for i, a := range t.alts {
			names[i] = a.String()
		}
		return strings.Join(names, " | ")
	}
	return [...]string{"any", "null", "bool", "int", "float", "str"}[t.kind]
}

// alternatives are the members of a union, or the type itself.
func (t Type) alternatives() []Type {
	if t.kind == unionType {
		return t.alts
	}
	return []Type{t}
}

// alternative returns the member of that kind.
func (t Type) alternative(kind typeKind) (Type, bool) {
	for _, a := range t.alternatives() {
		if a.kind == kind {
			return a, true
		}
	}
	return Type{}, false
}

// fault is a value that does not fit its type; pointer is relative to the argument.
type fault struct {
	pointer, msg string
}

// check returns the first place where v does not fit t, or nil.
func (t Type) check(v strictjson.Value) *fault {
	switch t.kind {
	case anyType:
		return nil
	case unionType:
		var deepest *fault
		for _, a := range t.alts {
			f := a.check(v)
			if f == nil {
				return nil
			}
			if deepest == nil || len(f.pointer) > len(deepest.pointer) {
				deepest = f
			}
		}
		if deepest.pointer == "" {
			return mismatch(t, v)
		}
		return deepest
	case listType, dictType:
		want := strictjson.Array
		if t.kind == dictType {
			want = strictjson.Object
		}
		if v.Kind() != want {
			return mismatch(t, v)
		}
		for i := range v.Len() {
			if f := t.elem.check(v.Index(i)); f != nil {
				f.pointer = "/" + childKey(v, i) + f.pointer
				return f
			}
		}
		return nil
	}
	ok := false
	switch t.kind {
	case nullType:
		ok = v.Kind() == strictjson.Null
	case boolType:
		ok = v.Kind() == strictjson.Bool
	case strType:
		ok = v.Kind() == strictjson.String
	case floatType, intType:
		if v.Kind() == strictjson.Number {
			f, finite := v.Float()
			if !finite {
				return &fault{msg: "number beyond 64-bit range: " + clip(v)}
			}
			ok = t.kind == floatType || f == math.Trunc(f)
		}
	}
	if !ok {
		return mismatch(t, v)
	}
	return nil
}

func mismatch(t Type, v strictjson.Value) *fault {
	return &fault{msg: fmt.Sprintf("expected %s, got %s %s", t, v.Kind(), clip(v))}
}

func childKey(v strictjson.Value, i int) string {
	if v.Kind() == strictjson.Object {
		return strictjson.EscapePointer(v.Key(i))
	}
	return fmt.Sprint(i)
}

// clip is a short spelling of v for messages.
func clip(v strictjson.Value) string { return clipText(v.JSON()) }

func clipText(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	end := most
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
