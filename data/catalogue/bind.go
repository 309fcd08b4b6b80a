package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// NoteKind says how a call departs from the declared schema.
type NoteKind string

// The kinds of Note.
const (
	Renamed   NoteKind = "renamed"   // an alias key
	Converted NoteKind = "converted" // a text read as a number, boolean, list or object; a number read as a boolean
	Wrapped   NoteKind = "wrapped"   // one value where a list is declared
	Listed    NoteKind = "listed"    // a list where the public kit declares one path
	Regrouped NoteKind = "regrouped" // arguments given as one list, or as a list of objects
)

// Note is one leniency that Bind used.
type Note struct {
	Kind NoteKind
	Key  string // as the caller spelt it
	Msg  string
}

// Binding is an argument object as the tool's function wants it.
type Binding struct {
	Args  strictjson.Value // canonical keys in call order, defaults filled in, values of the declared types
	Notes []Note           // empty if Validate accepts the call
}

// Has reports whether a leniency of that kind was used.
func (b Binding) Has(kind NoteKind) bool {
	return slices.ContainsFunc(b.Notes, func(n Note) bool { return n.Kind == kind })
}

// Bind reads args as the public kit's server would, and a little more kindly:
// alias keys, numbers and booleans as text ("290.94", "false"), lists and
// objects as JSON text, one value for a list, null for "use the default".
// What it cannot read is an *ArgumentsError with every fault.
func (t *Tool) Bind(args strictjson.Value) (Binding, error) {
	b := binder{tool: t, err: &ArgumentsError{Tool: t.Name}}
	if args.Kind() == strictjson.String { // arguments serialised twice
		if v, err := strictjson.Parse([]byte(args.Text())); err == nil && v.Kind() == strictjson.Object {
			b.note(Converted, "", "the arguments came as JSON text")
			args = v
		}
	}
	if args.Kind() != strictjson.Object {
		b.err.add(WrongType, "", "the arguments must be an object, got %s %s", args.Kind(), clip(args))
		return Binding{}, b.err
	}
	given := b.regroup(b.rename(args, ""))
	b.err.missing(t, given)
	members := make([]strictjson.Member, 0, len(t.Params))
	for i := range t.Params {
		p := &t.Params[i]
		v := given.Get(p.Name)
		if v.IsAbsent() || v.Kind() == strictjson.Null && !p.Required() {
			v = p.Default
		} else {
			v = b.coerce(p, v)
		}
		members = append(members, strictjson.Member{Key: p.Name, Value: v})
	}
	if err := b.err.orNil(); err != nil {
		return Binding{}, err
	}
	return Binding{Args: strictjson.Obj(members...), Notes: b.notes}, nil
}

type binder struct {
	tool  *Tool
	notes []Note
	err   *ArgumentsError
}

func (b *binder) note(kind NoteKind, key, format string, args ...any) {
	b.notes = append(b.notes, Note{Kind: kind, Key: key, Msg: fmt.Sprintf(format, args...)})
}

// rename gives every member its canonical key; prefix is the pointer of args.
func (b *binder) rename(args strictjson.Value, prefix string) strictjson.Value {
	members := make([]strictjson.Member, 0, args.Len())
	seen := map[string]string{}
	for i := range args.Len() {
		key := args.Key(i)
		name := b.canonical(key)
		switch {
		case name == "":
			b.err.unknown(b.tool, key)
			continue
		case seen[name] != "":
			b.err.add(UnknownArgument, prefix+"/"+strictjson.EscapePointer(key),
				"arguments %q and %q are the same parameter; give one", seen[name], key)
			continue
		case name != key:
			b.note(Renamed, key, "%s stands for %s", key, name)
		}
		seen[name] = key
		members = append(members, strictjson.Member{Key: name, Value: args.Index(i)})
	}
	return strictjson.Obj(members...)
}

// canonical is the parameter or grouping key that key stands for, or "".
func (b *binder) canonical(key string) string {
	if key != "" && (key == b.tool.spread || key == b.tool.records) {
		return key
	}
	for i := range b.tool.Params {
		if p := &b.tool.Params[i]; p.Name == key || slices.Contains(p.Aliases, key) {
			return p.Name
		}
	}
	return ""
}

// regroup opens a spread list or a list of records into the tool's parameters.
func (b *binder) regroup(args strictjson.Value) strictjson.Value {
	if list := args.Get(b.tool.spread); b.tool.spread != "" && !list.IsAbsent() {
		if list.Kind() != strictjson.Array || list.Len() != len(b.tool.Params) || args.Len() != 1 {
			b.err.add(WrongType, "/"+b.tool.spread, "expected %d values in order, alone, got %s", len(b.tool.Params), clip(list))
			return args
		}
		b.note(Regrouped, b.tool.spread, "%s gives the arguments in order", b.tool.spread)
		var members []strictjson.Member
		for i := range list.Len() {
			members = append(members, strictjson.Member{Key: b.tool.Params[i].Name, Value: list.Index(i)})
		}
		return strictjson.Obj(members...)
	}
	if list := args.Get(b.tool.records); b.tool.records != "" && !list.IsAbsent() {
		return b.records(args, list)
	}
	return args
}

func (b *binder) records(args, list strictjson.Value) strictjson.Value {
	at := "/" + b.tool.records
	if list.Kind() != strictjson.Array || list.Len() == 0 || args.Len() != 1 {
		b.err.add(WrongType, at, "expected a list of argument objects, alone, got %s", clip(list))
		return args
	}
	b.note(Regrouped, b.tool.records, "%s gives a batch of %d calls", b.tool.records, list.Len())
	columns := make(map[string][]strictjson.Value)
	for i := range list.Len() {
		if list.Index(i).Kind() != strictjson.Object {
			b.err.add(WrongType, fmt.Sprintf("%s/%d", at, i), "expected an argument object, got %s", clip(list.Index(i)))
			return args
		}
		record := b.rename(list.Index(i), fmt.Sprintf("%s/%d", at, i))
		for k := range record.Len() {
			columns[record.Key(k)] = append(columns[record.Key(k)], record.Index(k))
		}
	}
	var members []strictjson.Member
	for i := range b.tool.Params {
		name := b.tool.Params[i].Name
		switch n := len(columns[name]); n {
		case 0:
		case list.Len():
			members = append(members, strictjson.Member{Key: name, Value: strictjson.List(columns[name]...)})
		default:
			b.err.add(MissingArgument, at, "only %d of %d calls give %q", n, list.Len(), name)
		}
	}
	return strictjson.Obj(members...)
}

// coerce makes v fit p, noting conversions; what cannot fit is recorded as a fault.
func (b *binder) coerce(p *Param, v strictjson.Value) strictjson.Value {
	if p.Type.check(v) == nil {
		if b.tool.Batch && p.IO != "" && v.Kind() == strictjson.Array {
			b.note(Listed, p.Name, "%d paths", v.Len())
		}
		b.err.value(p, v)
		return v
	}
	if w, ok := convert(p.Type, v); ok {
		b.note(Converted, p.Name, "%s read as %s", clip(v), clip(w))
		b.err.value(p, w)
		return w
	}
	looksLikeList := strings.HasPrefix(strings.TrimSpace(v.Text()), "[") // but is not JSON: a list that lost its way
	if list, ok := p.Type.alternative(listType); ok && !looksLikeList {
		if w, ok := convert(*list.elem, v); ok {
			b.note(Wrapped, p.Name, "one value for a list")
			w = strictjson.List(w)
			b.err.value(p, w)
			return w
		}
	}
	b.err.value(p, v)
	return v
}

// convert reads v as t: texts as numbers, booleans, null, JSON lists and objects; 0 and 1 as booleans.
func convert(t Type, v strictjson.Value) (strictjson.Value, bool) {
	if t.check(v) == nil {
		return v, true
	}
	for _, a := range t.alternatives() {
		if w, ok := convertOne(a, v); ok {
			return w, true
		}
	}
	return v, false
}

func convertOne(t Type, v strictjson.Value) (strictjson.Value, bool) {
	text := strings.TrimSpace(v.Text())
	isText := v.Kind() == strictjson.String
	switch t.kind {
	case floatType, intType:
		if n, ok := strictjson.Literal(strings.TrimPrefix(text, "+")); isText && ok && t.check(n) == nil {
			return n, true
		}
	case boolType:
		switch strings.ToLower(text) {
		case "true", "1":
			return strictjson.Boolean(true), true
		case "false", "0":
			return strictjson.Boolean(false), true
		}
		if f, ok := v.Float(); ok && (f == 0 || f == 1) {
			return strictjson.Boolean(f == 1), true
		}
	case nullType:
		if isText && (text == "None" || text == "null") {
			return strictjson.NullValue(), true
		}
	case listType, dictType:
		if isText {
			parsed, err := strictjson.Parse([]byte(text))
			if err != nil || parsed.Kind() == strictjson.String {
				return v, false
			}
			return convert(t, parsed)
		}
		if t.kind == listType && v.Kind() == strictjson.Array || t.kind == dictType && v.Kind() == strictjson.Object {
			kids := make([]strictjson.Value, v.Len())
			for i := range kids {
				var ok bool
				if kids[i], ok = convert(*t.elem, v.Index(i)); !ok {
					return v, false
				}
			}
			return v.Rebuilt(kids), true
		}
	}
	return v, false
}
