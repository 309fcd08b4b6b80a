package jinja

// activation holds the variables of one call of a scope; a nil slot is a variable that is not set.
type activation struct {
	slots  []Value
	parent *activation
}

func (a *activation) at(r ref) *Value {
	for range r.up {
		a = a.parent
	}
	return &a.slots[r.slot]
}

// flow says how a block of statements ended.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

// enterFrame gives the variables of a frame their first values.
func (st *state) enterFrame(f frame, act *activation) {
	for _, l := range f {
		switch l.action {
		case loadUndefined:
			act.slots[l.slot] = nil
		case loadAlias:
			act.slots[l.slot] = *act.at(l.alias)
		case loadContext:
			act.slots[l.slot] = st.lookUp(l.name)
		}
	}
}

// lookUp finds a variable of the render, or a global function; nil if there is none.
func (st *state) lookUp(name string) Value {
	if st.vars != nil {
		if v, ok := st.vars.Get(name); ok {
			return v
		}
	}
	if g, ok := globals[name]; ok {
		return g
	}
	return nil
}

func (st *state) run(body []stmt, act *activation, out *builder) flow {
	for _, s := range body {
		if f := st.exec(s, act, out); f != flowNext {
			return f
		}
	}
	return flowNext
}

func (st *state) exec(s stmt, act *activation, out *builder) flow {
	st.step(1)
	switch s := s.(type) {
	case *dataStmt:
		out.literal(s.text)
	case *outStmt:
		st.line = s.line
		out.text(st.str(st.eval(s.x, act)))
	case *ifStmt:
		st.line = s.line
		for _, b := range s.branches {
			if truth(st.eval(b.test, act)) {
				return st.run(b.body, act, out)
			}
		}
		return st.run(s.other, act, out)
	case *forStmt:
		st.line = s.line
		return st.execFor(s, act, out)
	case *setStmt:
		st.line = s.line
		st.checkNamespaces(s.target, act)
		st.assign(s.target, st.eval(s.x, act), act)
	case *setBlockStmt:
		st.line = s.line
		text, f := st.capture(s.frame, s.body, s.filter, act)
		if f != flowNext {
			return f
		}
		st.checkNamespaces(s.target, act)
		st.assign(s.target, text, act)
	case *filterStmt:
		st.line = s.line
		text, f := st.capture(s.frame, s.body, s.filter, act)
		if f != flowNext {
			return f
		}
		out.text(st.str(text))
	case *withStmt:
		st.line = s.line
		st.enterFrame(s.frame, act)
		for i, target := range s.targets {
			st.assign(target, st.eval(s.values[i], act), act)
		}
		return st.run(s.body, act, out)
	case *macroStmt:
		st.line = s.line
		*act.at(s.target.ref) = &macro{s.def, act}
	case *callStmt:
		st.line = s.line
		caller := &macro{s.def, act}
		out.text(st.str(st.evalCall(s.call, act, caller)))
	case *generationStmt:
		st.line = s.line
		out.generated((&macro{s.def, act}).call(st, callArgs{}))
	case *breakStmt:
		return flowBreak
	case *continueStmt:
		return flowContinue
	}
	return flowNext
}

// capture runs a block into a text and passes it through the filters.
func (st *state) capture(f frame, body []stmt, filter expr, act *activation) (Value, flow) {
	st.enterFrame(f, act)
	b := st.builder()
	if flow := st.run(body, act, b); flow != flowNext {
		return nil, flow
	}
	text := b.done()
	if filter == nil {
		return text, flowNext
	}
	return st.evalFilter(filter.(*filterExpr), act, text), flowNext
}

// checkNamespaces refuses to set attributes of anything but a namespace, before the value is computed.
func (st *state) checkNamespaces(target expr, act *activation) {
	switch n := target.(type) {
	case *attrTarget:
		if _, ok := (*act.at(n.ns.ref)).(*namespace); !ok {
			typeError("cannot assign attribute on non-namespace object")
		}
	case *tupleExpr:
		for _, item := range n.items {
			st.checkNamespaces(item, act)
		}
	}
}

func (st *state) assign(target expr, v Value, act *activation) {
	switch n := target.(type) {
	case *nameExpr:
		*act.at(n.ref) = v
	case *attrTarget:
		(*act.at(n.ns.ref)).(*namespace).set(n.name, v)
	case *tupleExpr:
		next := st.iterate(v)
		items := make([]Value, len(n.items))
		for i := range items {
			item, ok := next()
			if !ok {
				typeError("not enough values to unpack (expected %d, got %d)", len(items), i)
			}
			items[i] = item
		}
		if _, more := next(); more {
			typeError("too many values to unpack (expected %d)", len(items))
		}
		for i, item := range items {
			st.assign(n.items[i], item, act)
		}
	}
}

func (st *state) execFor(n *forStmt, act *activation, out *builder) flow {
	v := st.eval(n.iter, act)
	if !n.recursive {
		return st.runLoop(n, st.newLoop(n, v, act, 0), act, out)
	}
	out.text(st.recurse(n, v, act, 0))
	return flowNext
}

// recurse runs a recursive loop over v into a text of its own.
func (st *state) recurse(n *forStmt, v Value, outer *activation, depth int) Text {
	st.enter()
	defer st.leave()
	act := &activation{make([]Value, n.fn.slots), outer}
	b := st.builder()
	l := st.newLoop(n, v, outer, depth)
	l.again = func(v Value) Value { return st.recurse(n, v, outer, depth+1) }
	st.runLoop(n, l, act, b)
	return b.done()
}

// newLoop prepares a loop over v. The test of "for x in v if test" runs in the function around the loop.
func (st *state) newLoop(n *forStmt, v Value, outer *activation, depth int) *loop {
	if n.test == nil {
		return newLoop(st, v, depth)
	}
	started := false
	var next func() (Value, bool)
	return newLoop(st, &generator{name: "loop filter", next: func() (Value, bool) {
		if !started {
			started = true
			st.enterFrame(n.testFrame, outer)
			next = st.iterate(v)
		}
		for item, ok := next(); ok; item, ok = next() {
			st.assign(n.testTarget, item, outer)
			if truth(st.eval(n.test, outer)) {
				return item, true
			}
		}
		return nil, false
	}}, depth)
}

func (st *state) runLoop(n *forStmt, l *loop, act *activation, out *builder) flow {
	empty := true
	for item, ok := l.next(); ok; item, ok = l.next() {
		if n.loopSlot >= 0 {
			act.slots[n.loopSlot] = l
		}
		st.assign(n.target, item, act)
		st.enterFrame(n.bodyFrame, act)
		f := st.run(n.body, act, out)
		if f == flowBreak {
			break
		}
		if f == flowNext {
			empty = false // Jinja notes this at the end of the body, which break and continue skip
		}
	}
	if empty && n.other != nil {
		st.enterFrame(n.otherFrame, act)
		return st.run(n.other, act, out)
	}
	return flowNext
}
