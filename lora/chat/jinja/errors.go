package jinja

import (
	"errors"
	"fmt"
)

// The kinds of failure a caller can tell apart with errors.Is. A failure of none of these kinds is one that Python would
// report as TypeError, ValueError, ZeroDivisionError or the like.
var (
	// ErrSyntax: the template does not parse or compile.
	ErrSyntax = errors.New("template syntax error")
	// ErrRaised: the template itself refused its input by calling raise_exception; Error.Message is its argument.
	ErrRaised = errors.New("raised by the template")
	// ErrUndefined: an undefined value was used where Jinja does not allow one.
	ErrUndefined = errors.New("undefined value used")
	// ErrSecurity: the sandbox refused an attribute or a namespace name.
	ErrSecurity = errors.New("refused by the sandbox")
	// ErrUnsupported: the template needs a part of Jinja or Python that is outside the subset of this package.
	ErrUnsupported = errors.New("outside the supported subset")
	// ErrLimit: the render passed one of the limits (source, nesting, steps, output) or its deadline.
	ErrLimit = errors.New("limit exceeded")
	// ErrInternal: a bug in this package; never the fault of the template.
	ErrInternal = errors.New("internal error")
)

// Error is every error that Parse and Render return.
type Error struct {
	Kind    error  // one of the sentinels above, or nil for an ordinary Python error
	Line    int    // line of the template source, from 1; 0 if unknown
	Message string // what went wrong, in Python's words where Python has some
	cause   error  // the context's error behind an exceeded deadline
}

func (e *Error) Error() string {
	s := "template"
	if e.Line > 0 {
		s = fmt.Sprintf("template line %d", e.Line)
	}
	if e.Kind != nil {
		s += ": " + e.Kind.Error()
	}
	return s + ": " + e.Message
}

func (e *Error) Unwrap() []error {
	var chain []error
	for _, err := range []error{e.Kind, e.cause} {
		if err != nil {
			chain = append(chain, err)
		}
	}
	return chain
}

// raise stops the parse or the render. The evaluator mirrors a language with exceptions, so inside this package an error
// travels as a panic with a *Error; guard turns it back into an error at the border.
func raise(kind error, format string, args ...any) {
	panic(&Error{Kind: kind, Message: fmt.Sprintf(format, args...)})
}

// typeError raises what Python calls TypeError, ValueError and so on.
func typeError(format string, args ...any) { raise(nil, format, args...) }

// guard runs f and returns the *Error it raised. line tells where the template was.
func guard(line func() int, f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Error:
			if p.Line == 0 {
				p.Line = line()
			}
			err = p
		default:
			err = &Error{Kind: ErrInternal, Line: line(), Message: fmt.Sprint(p)}
		}
	}()
	f()
	return nil
}
