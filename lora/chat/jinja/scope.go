package jinja

import "slices"

// This file binds names to variables as Jinja's compiler does. Which variable a name means is decided before the template runs: a
// name that is set anywhere in a scope belongs to that scope from its start, {% if %} is no scope, loops and blocks are, and macros
// see the variables around them as they are at the time of the call.

// scope is one function of the compiled template: the template itself, a macro, a call or generation block, a recursive loop.
// Its variables live in numbered slots.
type scope struct {
	parent *scope
	slots  int
	loops  int // loops around the current statement, inside this function
}

// frame is one block scope inside a function.
type frame []load

// load says what a variable holds when its frame is entered.
type load struct {
	slot   int
	action loadAction
	name   string
	alias  ref
}

type loadAction uint8

const (
	loadUndefined loadAction = iota // set later in this frame
	loadContext                     // looked up among the render's variables
	loadAlias                       // starts as the outer variable of the same name
	loadParam                       // set by whoever enters the frame
)

// symbols is the table of one frame while it is being bound.
type symbols struct {
	work   *int
	parent *symbols
	fn     *scope
	slots  map[string]int // slots given to names; shared by the copies made for branches
	loads  map[string]load
	stores map[string]bool
}

func (b *binder) symbols(parent *symbols, fn *scope) *symbols {
	return &symbols{&b.work, parent, fn, map[string]int{}, map[string]load{}, map[string]bool{}}
}

func (s *symbols) copy() *symbols {
	c := &symbols{s.work, s.parent, s.fn, nil, map[string]load{}, map[string]bool{}}
	charge(s.work, 10*len(s.loads))
	c.slots = s.slots
	for k, v := range s.loads {
		c.loads[k] = v
	}
	for k := range s.stores {
		c.stores[k] = true
	}
	return c
}

func (s *symbols) define(name string, l load) {
	slot, ok := s.slots[name]
	if !ok {
		slot = s.fn.slots
		s.fn.slots++
		s.slots[name] = slot
	}
	l.slot = slot
	s.loads[name] = l
}

// find returns the variable that a name means in this frame, seen from function fn.
func (s *symbols) find(name string, fn *scope) (ref, bool) {
	for ; s != nil; s = s.parent {
		if l, ok := s.loads[name]; ok {
			up := 0
			for ; fn != s.fn; fn = fn.parent {
				up++
			}
			return ref{up, l.slot}, true
		}
	}
	return ref{}, false
}

// outer returns how a name that is set here starts: as the outer variable if there is one.
func (s *symbols) outer(name string, otherwise load) load {
	if r, ok := s.parent.find(name, s.fn); ok {
		return load{action: loadAlias, alias: r}
	}
	return otherwise
}

func (s *symbols) load(name string) {
	if _, ok := s.find(name, s.fn); !ok {
		if name == "self" {
			raise(ErrUnsupported, "the variable 'self', which holds a template's blocks")
		}
		s.define(name, load{action: loadContext, name: name})
	}
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if _, ok := s.loads[name]; !ok {
		s.define(name, s.outer(name, load{action: loadUndefined}))
	}
}

func (s *symbols) param(name string) int {
	s.stores[name] = true
	s.define(name, load{action: loadParam})
	return s.loads[name].slot
}

// merge takes over the tables of an if statement's branches: what only some of them set keeps its earlier meaning in the others.
func (s *symbols) merge(bs ...*symbols) {
	fresh := map[string]bool{}
	for _, b := range bs {
		for name := range b.stores {
			if !s.stores[name] {
				fresh[name] = true
			}
		}
	}
	for _, b := range bs {
		for name, l := range b.loads {
			s.loads[name] = l
		}
		for name := range b.stores {
			s.stores[name] = true
		}
	}
	for name := range fresh {
		s.define(name, s.outer(name, load{action: loadContext, name: name}))
	}
}

// frame returns the finished frame.
func (s *symbols) frame() frame {
	var f frame
	for _, l := range s.loads {
		if l.action != loadParam {
			f = append(f, l)
		}
	}
	slices.SortFunc(f, func(a, b load) int { return a.slot - b.slot })
	return f
}

// declare enters the names of a node into the frame s, without looking into inner scopes.
func (s *symbols) declare(n any) {
	charge(s.work, 1)
	switch n := n.(type) {
	case *nameExpr:
		if n.store {
			s.store(n.name)
		} else {
			s.load(n.name)
		}
	case *attrTarget:
		s.load(n.ns.name)
	case *setStmt:
		s.declare(n.x)
		s.declare(n.target)
	case *setBlockStmt:
		s.declare(n.target)
	case *macroStmt:
		s.declare(n.target)
	case *forStmt:
		s.declare(n.iter)
	case *callStmt:
		s.declare(n.call)
	case *withStmt:
		declareAll(s, n.values)
	case *filterStmt, *generationStmt:
	case *ifStmt:
		s.declareIf(n.branches, n.other)
	default:
		declareAll(s, children(n))
	}
}

func declareAll[N any](s *symbols, ns []N) {
	for _, n := range ns {
		s.declare(n)
	}
}

func (s *symbols) declareIf(branches []branch, other []stmt) {
	s.declare(branches[0].test)
	body, elifs, rest := s.copy(), s.copy(), s.copy()
	declareAll(body, branches[0].body)
	for _, b := range branches[1:] {
		elifs.declareIf([]branch{b}, nil)
	}
	declareAll(rest, other)
	s.merge(body, elifs, rest)
}

// params enters the names of a target as parameters of the frame.
func (s *symbols) params(target expr) {
	switch n := target.(type) {
	case *nameExpr:
		s.param(n.name)
	case *tupleExpr:
		for _, item := range n.items {
			s.params(item)
		}
	}
}

// undeclared reports which of the names are read below the nodes before anything there sets them.
func (b *binder) undeclared(ns []stmt, names ...string) map[string]bool {
	open, found := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		open[name] = true
	}
	var visit func(any)
	visit = func(n any) {
		charge(&b.work, 1)
		if n, ok := n.(*nameExpr); ok {
			if n.store {
				delete(open, n.name)
			} else if open[n.name] {
				found[n.name] = true
			}
			return
		}
		for _, c := range children(n) {
			visit(c)
		}
	}
	for _, n := range ns {
		visit(n)
	}
	return found
}

// binder gives every name of a template its variable, after the symbols of each frame are known. It also bounds the depth of the tree,
// which the evaluator descends recursively, and refuses break and continue outside loops.
type binder struct {
	depth int
	line  int
	work  int // steps spent; a hostile template could make Jinja's algorithm take quadratic time
}

func charge(work *int, n int) {
	if *work += n; *work > maxSteps {
		raise(ErrLimit, "more than %d steps to compile", maxSteps)
	}
}

// bindTemplate binds a whole template; it returns the template's own function and frame.
func (b *binder) bindTemplate(body []stmt) (*scope, frame) {
	fn := &scope{}
	s := b.symbols(nil, fn)
	declareAll(s, body)
	b.all(body, s, fn)
	return fn, s.frame()
}

func (b *binder) all(ns []stmt, s *symbols, fn *scope) {
	for _, n := range ns {
		b.bind(n, s, fn)
	}
}

// bind resolves the names below a node that stands in frame s of function fn.
func (b *binder) bind(n any, s *symbols, fn *scope) {
	if n == nil {
		return
	}
	if b.depth++; b.depth > maxNesting {
		raise(ErrLimit, "nested deeper than %d", maxNesting)
	}
	defer func() { b.depth-- }()
	switch n := n.(type) {
	case *nameExpr:
		b.name(n, s, fn)
	case *attrTarget:
		b.name(n.ns, s, fn)
	case *forStmt:
		b.line = n.line
		b.bindFor(n, s, fn)
	case *setBlockStmt:
		b.line = n.line
		inner := b.symbols(s, fn)
		declareAll(inner, n.body)
		b.all(n.body, inner, fn)
		b.bind(n.filter, inner, fn)
		b.bind(n.target, s, fn)
		n.frame = inner.frame()
	case *filterStmt:
		b.line = n.line
		inner := b.symbols(s, fn)
		declareAll(inner, n.body)
		inner.declare(n.filter)
		b.all(n.body, inner, fn)
		b.bind(n.filter, inner, fn)
		n.frame = inner.frame()
	case *withStmt:
		b.line = n.line
		inner := b.symbols(s, fn)
		for _, t := range n.targets {
			inner.params(t)
		}
		declareAll(inner, n.body)
		for i := range n.targets {
			b.bind(n.values[i], s, fn)
			b.bind(n.targets[i], inner, fn)
		}
		b.all(n.body, inner, fn)
		n.frame = inner.frame()
	case *macroStmt:
		b.line = n.line
		b.bindDef(n.def, s, fn)
		b.name(n.target, s, fn)
	case *callStmt:
		b.line = n.line
		b.bindDef(n.def, s, fn)
		b.bind(n.call, s, fn)
	case *generationStmt:
		b.line = n.line
		b.bindDef(n.def, s, fn)
	case *breakStmt:
		b.line = n.line
		b.inLoop("break", fn)
	case *continueStmt:
		b.line = n.line
		b.inLoop("continue", fn)
	default:
		if line := lineOf(n); line > 0 {
			b.line = line
		}
		for _, c := range children(n) {
			b.bind(c, s, fn)
		}
	}
}

func lineOf(n any) int {
	switch n := n.(type) {
	case *outStmt:
		return n.line
	case *setStmt:
		return n.line
	case *ifStmt:
		return n.line
	}
	return 0
}

func (b *binder) inLoop(what string, fn *scope) {
	if fn.loops == 0 {
		raise(ErrSyntax, "'%s' outside loop", what)
	}
}

func (b *binder) name(n *nameExpr, s *symbols, fn *scope) {
	r, ok := s.find(n.name, fn)
	if !ok {
		raise(ErrSyntax, "the name '%s' cannot be used here", n.name)
	}
	n.ref = r
}

func (b *binder) bindFor(n *forStmt, s *symbols, fn *scope) {
	if b.assignsLoop(n) {
		raise(ErrSyntax, "can't assign to the special variable 'loop' inside a loop")
	}
	b.bind(n.iter, s, fn)
	if n.test != nil {
		inner := b.symbols(s, fn)
		inner.params(n.target)
		inner.declare(n.test)
		n.testTarget = cloneTarget(n.target)
		b.bind(n.testTarget, inner, fn)
		b.bind(n.test, inner, fn)
		n.testFrame = inner.frame()
	}
	if n.recursive {
		fn = &scope{parent: fn}
		n.fn = fn
	}
	inner := b.symbols(s, fn)
	n.loopSlot = -1
	if n.recursive || b.undeclared(n.body, "loop")["loop"] {
		n.loopSlot = inner.param("loop")
	}
	inner.params(n.target)
	declareAll(inner, n.body)
	b.bind(n.target, inner, fn)
	fn.loops++
	b.all(n.body, inner, fn)
	fn.loops--
	n.bodyFrame = inner.frame()

	other := b.symbols(s, fn)
	declareAll(other, n.other)
	b.all(n.other, other, fn)
	n.otherFrame = other.frame()
}

// assignsLoop reports whether anything inside the loop sets the name "loop".
func (b *binder) assignsLoop(n any) bool {
	charge(&b.work, 1)
	if name, ok := n.(*nameExpr); ok {
		return name.store && name.name == "loop"
	}
	for _, c := range children(n) {
		if b.assignsLoop(c) {
			return true
		}
	}
	return false
}

func cloneTarget(n expr) expr {
	switch n := n.(type) {
	case *tupleExpr:
		c := &tupleExpr{}
		for _, item := range n.items {
			c.items = append(c.items, cloneTarget(item))
		}
		return c
	case *nameExpr:
		return &nameExpr{name: n.name, store: true}
	}
	return n
}

func (b *binder) bindDef(d *macroDef, s *symbols, fn *scope) {
	d.fn = &scope{parent: fn}
	inner := b.symbols(s, d.fn)
	declare := func() {
		for _, p := range d.params {
			inner.param(p.name)
		}
		declareAll(inner, d.defaults)
		declareAll(inner, d.body)
	}
	declare()
	special := b.undeclared(d.body, "caller", "kwargs", "varargs")
	d.caller, d.kwargs, d.varargs = -1, -1, -1
	for i, p := range d.params {
		switch p.name {
		case "caller":
			d.explicitCaller = true
			if special["caller"] && i < len(d.params)-len(d.defaults) {
				raise(ErrSyntax, "the special argument 'caller' must be omitted or have a default")
			}
		case "kwargs", "varargs":
			special[p.name] = false
		}
	}
	if special["caller"] && !d.explicitCaller {
		d.caller = inner.param("caller")
	}
	if special["kwargs"] {
		d.kwargs = inner.param("kwargs")
	}
	if special["varargs"] {
		d.varargs = inner.param("varargs")
	}
	for _, p := range d.params {
		b.name(p, inner, d.fn)
	}
	for _, e := range d.defaults {
		b.bind(e, inner, d.fn)
	}
	b.all(d.body, inner, d.fn)
	d.frame = inner.frame()
}
