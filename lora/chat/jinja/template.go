// Package jinja evaluates the part of Jinja that chat templates use, with the results that Python's jinja2 gives when transformers
// renders a chat: trim_blocks and lstrip_blocks, loop controls, the {% generation %} tag, the immutable sandbox, raise_exception,
// strftime_now, and tojson as json.dumps(ensure_ascii=False). Values are Python's: ordered dicts, integers of any size apart from
// floats, str with code points, one-shot generators, Markup, Undefined. What Python refuses is refused.
//
// Templates come from strangers. Tags that reach outside (include, import, extends, block) are refused when parsing; source size,
// nesting, steps and output are bounded, and a context can end a render. A filter, test or method outside the subset is an
// error that says so, never a silent difference.
//
// Every string remembers which of its characters the template wrote and which came from the caller's data (see Text).
package jinja

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"
)

// The limits of a parse and a render. Templates of published models stay below a fiftieth of each.
const (
	maxSource  = 1 << 20   // bytes
	maxNesting = 200       // tags and expressions in the source; macro calls, recursive loops and data structures in a render
	maxSteps   = 5_000_000 // roughly one per evaluated node, item and 64 bytes of text
	maxOutput  = 16 << 20  // bytes of the output, and of any string on the way there

	bytesPerStep = 64
	elementCost  = 4 // steps for an item of a list made from an iterable
	stepsPerPoll = 1024
)

// Template is a parsed template. It is immutable: any number of goroutines may render it.
type Template struct {
	body       []stmt
	fn         *scope
	frame      frame
	generation bool
}

// Parse compiles a template. The error is an *Error: ErrSyntax, ErrUnsupported or ErrLimit.
func Parse(source string) (*Template, error) {
	switch {
	case len(source) > maxSource:
		return nil, &Error{Kind: ErrLimit, Message: fmt.Sprintf("the source has %d bytes, more than %d", len(source), maxSource)}
	case !utf8.ValidString(source):
		return nil, &Error{Kind: ErrSyntax, Message: "the source is not valid UTF-8"}
	}
	t := &Template{}
	lx := newLexer(source)
	p := &parser{}
	b := &binder{}
	line := func() int { return lx.line }
	err := guard(func() int { return line() }, func() {
		p.tokens = lx.run()
		line = p.line
		t.body = p.block()
		if len(p.unknown) > 0 {
			u := p.unknown[0]
			line = func() int { return u.line }
			noSuch(u.what, u.name)
		}
		line = func() int { return b.line }
		t.fn, t.frame = b.bindTemplate(t.body)
		t.generation = p.generation
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Generation reports whether the template has a {% generation %} tag.
func (t *Template) Generation() bool { return t.generation }

// Render evaluates the template. vars are its variables. now is what strftime_now shows; if nil, a template that asks for
// the time fails. The error is an *Error; a cancelled or expired ctx gives ErrLimit together with the context's error.
func (t *Template) Render(ctx context.Context, vars *Dict, now func() time.Time) (Text, error) {
	st := newState(ctx, now)
	st.vars = vars
	var out Text
	err := guard(func() int { return st.line }, func() {
		st.poll()
		act := &activation{slots: make([]Value, t.fn.slots)}
		b := st.builder()
		st.enterFrame(t.frame, act)
		st.run(t.body, act, b)
		out = b.done()
	})
	return out, err
}

// state is one render in progress.
type state struct {
	ctx   context.Context
	now   func() time.Time
	vars  *Dict
	line  int
	steps int
	depth int

	lenient bool // inside a constantExpr
}

func newState(ctx context.Context, now func() time.Time) *state { return &state{ctx: ctx, now: now} }

// step charges n steps and looks at the context now and then.
func (st *state) step(n int) {
	before := st.steps
	st.steps += n
	if st.steps > maxSteps {
		raise(ErrLimit, "more than %d steps", maxSteps)
	}
	if st.steps/stepsPerPoll != before/stepsPerPoll {
		st.poll()
	}
}

func (st *state) poll() {
	if err := st.ctx.Err(); err != nil {
		panic(&Error{Kind: ErrLimit, Message: err.Error(), cause: err})
	}
}

// grow charges a text of n bytes that becomes add bytes longer.
func (st *state) grow(n, add int) {
	if n+add > maxOutput {
		raise(ErrLimit, "a text of more than %d bytes", maxOutput)
	}
	st.step(1 + add/bytesPerStep)
}

// enter bounds the depth of everything that recurses while rendering; call leave when done.
func (st *state) enter() {
	if st.depth++; st.depth > maxNesting {
		raise(ErrLimit, "nested deeper than %d", maxNesting)
	}
}

func (st *state) leave() { st.depth-- }
