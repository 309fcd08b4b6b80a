package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"terraloom/data/spelling"
	"terraloom/data/strictjson"
)

// ProblemKind says what is wrong with one argument.
type ProblemKind string

// The kinds of Problem.
const (
	MissingArgument ProblemKind = "missing" // a required argument is not given
	UnknownArgument ProblemKind = "unknown" // a key that the tool does not have
	WrongType       ProblemKind = "type"
	OutOfBounds     ProblemKind = "value" // right type, but outside enum, bounds or keys
)

// Problem is one fault of an argument object.
type Problem struct {
	Kind    ProblemKind
	Pointer string // JSON pointer into the arguments: "/x/3"; of the missing key for MissingArgument
	Msg     string // what was expected and what to do
}

// ArgumentsError lists every fault of the arguments of one call. It wraps ErrArguments.
type ArgumentsError struct {
	Tool     string
	Problems []Problem
}

func (e *ArgumentsError) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = p.Msg
		if p.Kind == WrongType || p.Kind == OutOfBounds {
			parts[i] = p.Pointer + ": " + p.Msg
		}
	}
	return e.Tool + ": " + strings.Join(parts, "; ")
}

// Unwrap makes errors.Is(err, ErrArguments) true.
func (e *ArgumentsError) Unwrap() error { return ErrArguments }

// Validate checks args against the schema that the model was shown, strictly:
// canonical keys only, no conversions. The error is an *ArgumentsError with
// every fault. Bind is the lenient counterpart.
func (t *Tool) Validate(args strictjson.Value) error {
	e := &ArgumentsError{Tool: t.Name}
	if args.Kind() != strictjson.Object {
		e.add(WrongType, "", "the arguments must be an object, got %s %s", args.Kind(), clip(args))
		return e
	}
	for i := range args.Len() {
		p, ok := t.Param(args.Key(i))
		if !ok {
			e.unknown(t, args.Key(i))
			continue
		}
		e.value(p, args.Index(i))
	}
	e.missing(t, args)
	return e.orNil()
}

func (e *ArgumentsError) orNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}

func (e *ArgumentsError) add(kind ProblemKind, pointer, format string, args ...any) {
	e.Problems = append(e.Problems, Problem{Kind: kind, Pointer: pointer, Msg: fmt.Sprintf(format, args...)})
}

func (e *ArgumentsError) unknown(t *Tool, key string) {
	names := make([]string, len(t.Params))
	for i, p := range t.Params {
		names[i] = p.Name
	}
	hint := didYouMean(key, names)
	if hint == "" {
		hint = " (known: " + strings.Join(names, ", ") + ")"
	}
	e.add(UnknownArgument, "/"+strictjson.EscapePointer(key), "unknown argument %q%s", clipText(key), hint)
}

func (e *ArgumentsError) missing(t *Tool, args strictjson.Value) {
	for i := range t.Params {
		p := &t.Params[i]
		if p.Required() && args.Get(p.Name).IsAbsent() {
			e.add(MissingArgument, "/"+p.Name, "missing argument %q (%s: %s)", p.Name, p.Type, p.Doc)
		}
	}
}

func (e *ArgumentsError) value(p *Param, v strictjson.Value) {
	if f := p.Type.check(v); f != nil {
		e.add(WrongType, "/"+p.Name+f.pointer, "%s", f.msg)
	} else if f := p.bounds(v); f != nil {
		e.add(OutOfBounds, "/"+p.Name+f.pointer, "%s", f.msg)
	}
}

// check returns the first fault of v as the value of p, or nil.
func (p *Param) check(v strictjson.Value) *fault {
	if f := p.Type.check(v); f != nil {
		return f
	}
	return p.bounds(v)
}

// bounds checks enum, keys and numeric bounds of a value of the right type.
func (p *Param) bounds(v strictjson.Value) *fault {
	bad := func(format string, args ...any) *fault { return &fault{msg: fmt.Sprintf(format, args...)} }
	switch v.Kind() {
	case strictjson.String:
		if p.Enum != nil && !slices.Contains(p.Enum, v.Text()) {
			return bad("%q is none of %s%s", v.Text(), strings.Join(p.Enum, ", "), didYouMean(v.Text(), p.Enum))
		}
	case strictjson.Object:
		for _, k := range p.Keys {
			if v.Get(k).IsAbsent() {
				return bad("needs the members %s; %q is missing", strings.Join(p.Keys, ", "), k)
			}
		}
	case strictjson.Number:
		x, _ := v.Float()
		switch {
		case p.Minimum != nil && x < *p.Minimum:
			return bad("%s is below the minimum %v", v.Text(), *p.Minimum)
		case p.Maximum != nil && x > *p.Maximum:
			return bad("%s is above the maximum %v", v.Text(), *p.Maximum)
		case p.Above != nil && x <= *p.Above:
			return bad("%s must be greater than %v", v.Text(), *p.Above)
		}
	}
	return nil
}

// didYouMean is ` (did you mean "x"?)` for the known name nearest to name, or
// nothing when none is near: neither contains the other and more than half of
// the letters would change.
func didYouMean(name string, known []string) string {
	if len(name) > maxGuess {
		return ""
	}
	best, bestDist := "", len(name)/2+1
	for _, k := range known {
		d := spelling.Distance(strings.ToLower(name), strings.ToLower(k))
		if len(name) > 2 && (strings.Contains(k, name) || strings.Contains(name, k)) {
			d = min(d, len(name)/2)
		}
		if d < bestDist {
			best, bestDist = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// maxGuess is the longest name that didYouMean looks at.
const maxGuess = 100
