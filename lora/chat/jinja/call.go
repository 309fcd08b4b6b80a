package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// callArgs are evaluated call arguments.
type callArgs struct {
	args   []Value
	kwargs []kwarg
}

type kwarg struct {
	name  string
	value Value
}

// take removes a keyword argument and returns it, or nil.
func (a *callArgs) take(name string) Value {
	for i, k := range a.kwargs {
		if k.name == name {
			a.kwargs = slices.Delete(slices.Clone(a.kwargs), i, i+1)
			return k.value
		}
	}
	return nil
}

func (st *state) evalArgs(list argList, act *activation) callArgs {
	a := callArgs{args: st.evalAll(list.args, act)}
	for _, k := range list.kwargs {
		a.kwargs = append(a.kwargs, kwarg{k.name, st.eval(k.x, act)})
	}
	if list.star != nil {
		a.args = append(a.args, st.list(st.eval(list.star, act))...)
	}
	if list.dstar != nil {
		v := st.eval(list.dstar, act)
		d, ok := v.(*Dict)
		if !ok {
			refuseUndefined(v)
			typeError("argument after ** must be a mapping, not %s", v.pyType())
		}
		for k, v := range d.Entries {
			name, ok := k.(Text)
			if !ok {
				typeError("keywords must be strings")
			}
			if slices.ContainsFunc(a.kwargs, func(k kwarg) bool { return k.name == name.s }) {
				typeError("got multiple values for keyword argument '%s'", name.s)
			}
			a.kwargs = append(a.kwargs, kwarg{name.s, v})
		}
	}
	return a
}

// evalCall calls a value; caller is the macro of a {% call %} block, or nil.
func (st *state) evalCall(e *callExpr, act *activation, caller *macro) Value {
	fn := st.eval(e.fn, act)
	a := st.evalArgs(e.args, act)
	if caller != nil {
		if a.take("caller") != nil {
			typeError("got multiple values for keyword argument 'caller'")
		}
		a.kwargs = append(a.kwargs, kwarg{"caller", caller})
	}
	switch fn := fn.(type) {
	case *builtin:
		return fn.call(st, a)
	case *macro:
		return fn.call(st, a)
	case *loop:
		if fn.again == nil {
			typeError("The loop must have the 'recursive' marker to be called recursively.")
		}
		return fn.again(signature("loop", "iterable").bind(a)[0])
	case *undefined:
		fn.raise()
	}
	typeError("'%s' object is not callable", fn.pyType())
	return nil
}

// macro is a macro, or the body of a call block, together with the variables around it.
type macro struct {
	def *macroDef
	env *activation
}

func (*macro) pyType() string { return "Macro" }

func (m *macro) call(st *state, a callArgs) Text {
	st.enter()
	defer st.leave()
	d := m.def
	act := &activation{make([]Value, d.fn.slots), m.env}
	given := min(len(a.args), len(d.params))
	foundCaller := given == len(d.params) && d.explicitCaller
	for i, p := range d.params {
		if i < given {
			act.slots[p.ref.slot] = a.args[i]
			continue
		}
		act.slots[p.ref.slot] = a.take(p.name)
		foundCaller = foundCaller || p.name == "caller"
	}
	if d.caller >= 0 && !foundCaller {
		v := a.take("caller")
		if v == nil {
			v = undefinedHint("No caller defined")
		}
		act.slots[d.caller] = v
	}
	switch {
	case d.kwargs >= 0:
		rest := NewDict()
		for _, k := range a.kwargs {
			rest.Set(k.name, k.value)
		}
		act.slots[d.kwargs] = rest
	case len(a.kwargs) > 0:
		typeError("macro '%s' takes no keyword argument '%s'", d.name, a.kwargs[0].name)
	}
	switch {
	case d.varargs >= 0:
		act.slots[d.varargs] = &tuple{a.args[given:]}
	case len(a.args) > len(d.params):
		typeError("macro '%s' takes not more than %d argument(s)", d.name, len(d.params))
	}
	st.enterFrame(d.frame, act)
	for i, p := range d.params {
		if act.slots[p.ref.slot] != nil {
			continue
		}
		if k := i - (len(d.params) - len(d.defaults)); k >= 0 {
			act.slots[p.ref.slot] = st.eval(d.defaults[k], act)
		} else {
			act.slots[p.ref.slot] = &undefined{hint: fmt.Sprintf("parameter '%s' was not provided", p.name), kind: ErrUndefined}
		}
	}
	b := st.builder()
	st.run(d.body, act, b)
	return b.done()
}

// loop is the variable of that name inside a for loop.
type loop struct {
	st      *state
	source  Value
	iter    func() (Value, bool)
	depth0  int
	index0  int
	before  Value
	current Value
	after   []Value // items read ahead
	size    int     // -1 until asked for
	changed []Value // arguments of the last changed(), or nil
	again   func(Value) Value
}

func (*loop) pyType() string { return "LoopContext" }

func newLoop(st *state, source Value, depth int) *loop {
	return &loop{st: st, source: source, iter: st.iterate(source), depth0: depth, index0: -1, size: -1}
}

func (l *loop) next() (Value, bool) {
	v, ok := l.peek()
	if !ok {
		return nil, false
	}
	l.after = l.after[1:]
	l.index0++
	l.before, l.current = l.current, v
	return v, true
}

func (l *loop) peek() (Value, bool) {
	if len(l.after) == 0 {
		v, ok := l.iter()
		if !ok {
			return nil, false
		}
		l.after = append(l.after, v)
	}
	return l.after[0], true
}

// length is the number of items; a generator is read to its end for it.
func (l *loop) length() int {
	if l.size >= 0 {
		return l.size
	}
	if _, ok := l.source.(*generator); !ok {
		l.size = length(l.source)
		return l.size
	}
	for v, ok := l.iter(); ok; v, ok = l.iter() {
		l.st.step(elementCost)
		l.after = append(l.after, v)
	}
	l.size = l.index0 + 1 + len(l.after)
	return l.size
}

func (l *loop) attr(name string) Value {
	switch name {
	case "index":
		return Int(l.index0 + 1)
	case "index0":
		return Int(l.index0)
	case "revindex":
		return Int(l.length() - l.index0)
	case "revindex0":
		return Int(l.length() - l.index0 - 1)
	case "length":
		return Int(l.length())
	case "depth":
		return Int(l.depth0 + 1)
	case "depth0":
		return Int(l.depth0)
	case "first":
		return Bool(l.index0 == 0)
	case "last":
		_, more := l.peek()
		return Bool(!more)
	case "previtem":
		if l.index0 == 0 {
			return undefinedHint("there is no previous item")
		}
		return l.before
	case "nextitem":
		if v, ok := l.peek(); ok {
			return v
		}
		return undefinedHint("there is no next item")
	case "cycle":
		return &builtin{"cycle", func(_ *state, a callArgs) Value {
			if len(a.args) == 0 || len(a.kwargs) > 0 {
				typeError("cycle() takes one or more items")
			}
			return a.args[l.index0%len(a.args)]
		}}
	case "changed":
		return &builtin{"changed", func(st *state, a callArgs) Value {
			if len(a.kwargs) > 0 {
				typeError("changed() takes no keyword arguments")
			}
			if l.changed != nil && st.equalItems(l.changed, a.args) {
				return Bool(false)
			}
			l.changed = append([]Value{}, a.args...)
			return Bool(true)
		}}
	}
	return nil
}

// params describes the parameters of a function: "a b? /": b may be left out, and a "/" at the end forbids keywords.
type params struct {
	fn         string
	names      []string
	required   int
	positional bool
}

func signature(fn, spec string) params {
	p := params{fn: fn}
	for _, name := range strings.Fields(spec) {
		if name == "/" {
			p.positional = true
			continue
		}
		base, optional := strings.CutSuffix(name, "?")
		if !optional {
			p.required++
		}
		p.names = append(p.names, base)
	}
	return p
}

// bind returns the arguments in the order of the parameters, nil for those left out.
func (p params) bind(a callArgs) []Value {
	if len(a.args) > len(p.names) {
		typeError("%s() takes at most %d argument(s) (%d given)", p.fn, len(p.names), len(a.args))
	}
	out := make([]Value, len(p.names))
	copy(out, a.args)
	for _, k := range a.kwargs {
		i := slices.Index(p.names, k.name)
		if i < 0 || p.positional {
			typeError("%s() got an unexpected keyword argument '%s'", p.fn, k.name)
		}
		if out[i] != nil {
			typeError("%s() got multiple values for argument '%s'", p.fn, k.name)
		}
		out[i] = k.value
	}
	for i, v := range out[:p.required] {
		if v == nil {
			typeError("%s() missing the required argument '%s'", p.fn, p.names[i])
		}
	}
	return out
}

// function is a filter, a test or a method: something applied to a subject with arguments.
type function struct {
	params params
	apply  func(st *state, subject Value, args []Value) Value
	// raw is set instead of apply where the arguments are not a fixed list.
	raw func(st *state, subject Value, a callArgs) Value
}

func (f *function) call(st *state, subject Value, a callArgs) Value {
	if f.raw != nil {
		return f.raw(st, subject, a)
	}
	return f.apply(st, subject, f.params.bind(a))
}

func noSuch(what, name string) {
	if leftOut[what][name] {
		raise(ErrUnsupported, "the %s '%s'", what, name)
	}
	raise(ErrSyntax, "no %s named '%s'", what, name)
}

func (st *state) evalFilter(e *filterExpr, act *activation, captured Value) Value {
	var x Value
	switch inner, ok := e.x.(*filterExpr); {
	case e.x == nil:
		x = captured
	case ok:
		x = st.evalFilter(inner, act, captured)
	default:
		x = st.eval(e.x, act)
	}
	if e.def == nil {
		st.evalArgs(e.args, act)
		noSuch("filter", e.name)
	}
	return st.applyTo(e.def, x, st.evalArgs(e.args, act))
}

func (st *state) evalTest(e *testExpr, act *activation) Value {
	x := st.eval(e.x, act)
	a := st.evalArgs(e.args, act)
	if e.def == nil {
		noSuch("test", e.name)
	}
	return st.applyTo(e.def, x, a)
}

// applyTo calls a filter, test or method and charges for the size of its subject.
func (st *state) applyTo(f *function, subject Value, a callArgs) Value {
	if t, ok := subject.(Text); ok {
		st.step(1 + len(t.s)/bytesPerStep)
	}
	return f.call(st, subject, a)
}
