package jinja

// expr is an expression node; stmt is a statement node.
type (
	expr = any
	stmt = any
)

// ref locates a variable: up function scopes outwards, then a slot.
type ref struct{ up, slot int }

// Expressions.
type (
	constExpr struct{ value Value }
	nameExpr  struct {
		name  string
		store bool // assigned to here
		ref   ref
	}
	attrExpr struct {
		x    expr
		name string
	}
	itemExpr struct {
		x, arg expr
	}
	// sliceExpr is the argument lo:hi:step of an itemExpr; each part may be nil.
	sliceExpr struct{ lo, hi, step expr }
	// constantExpr is an expression without variables that slices something. Jinja's optimizer evaluates it ahead of the render, and
	// there slicing is as lenient as indexing: what has no such slice gives an undefined value. It keeps the result if it is
	// plain data, or if it is printed.
	constantExpr struct {
		x       expr
		printed bool
	}
	callExpr struct {
		fn   expr
		args argList
	}
	// filterExpr applies a filter to x, or to the captured block if x is nil.
	filterExpr struct {
		x    expr
		name string
		def  *function // nil if the filter is unknown: then it fails when it runs
		args argList
	}
	testExpr struct {
		x    expr
		name string
		def  *function
		args argList
	}
	notExpr  struct{ x expr }
	signExpr struct {
		op string // "-" or "+"
		x  expr
	}
	// chainExpr is a left-associative run of arithmetic operators of one precedence.
	chainExpr struct {
		first expr
		rest  []operand
	}
	compareExpr struct {
		first expr
		rest  []operand
	}
	concatExpr struct{ parts []expr }
	andExpr    struct{ parts []expr }
	orExpr     struct{ parts []expr }
	condExpr   struct {
		test, then, other expr // other is nil without an else
		line              int
	}
	listExpr  struct{ items []expr }
	tupleExpr struct{ items []expr }
	dictExpr  struct{ keys, vals []expr }
	// attrTarget is ns.name on the left of a set.
	attrTarget struct {
		ns   *nameExpr
		name string
	}
)

type operand struct {
	op string
	x  expr
}

type argList struct {
	args        []expr
	kwargs      []kwargExpr
	star, dstar expr // *args and **kwargs, or nil
}

type kwargExpr struct {
	name string
	x    expr
}

// Statements.
type (
	dataStmt struct{ text string }
	outStmt  struct {
		x    expr
		line int
	}
	ifStmt struct {
		line     int
		branches []branch
		other    []stmt
	}
	forStmt struct {
		line      int
		target    expr
		iter      expr
		test      expr // nil without a filter
		recursive bool
		body      []stmt
		other     []stmt

		testTarget expr // the target again, bound for the test
		loopSlot   int  // slot of the variable "loop", or -1
		testFrame  frame
		bodyFrame  frame
		otherFrame frame
		fn         *scope // of a recursive loop
	}
	setStmt struct {
		line   int
		target expr
		x      expr
	}
	setBlockStmt struct {
		line   int
		target expr
		filter expr // nil without filters
		body   []stmt
		frame  frame
	}
	filterStmt struct {
		line   int
		filter expr
		body   []stmt
		frame  frame
	}
	withStmt struct {
		line    int
		targets []expr
		values  []expr
		body    []stmt
		frame   frame
	}
	macroStmt struct {
		line   int
		target *nameExpr
		def    *macroDef
	}
	callStmt struct {
		line int
		call *callExpr
		def  *macroDef
	}
	// generationStmt is {% generation %}: its text was written by the model. Jinja compiles it like a call block.
	generationStmt struct {
		line int
		def  *macroDef
	}
	breakStmt    struct{ line int }
	continueStmt struct{ line int }
)

type branch struct {
	test expr
	body []stmt
}

// macroDef is the function behind a macro, a call block or a generation block.
type macroDef struct {
	name     string
	params   []*nameExpr
	defaults []expr // of the last parameters
	body     []stmt

	fn                      *scope
	frame                   frame
	caller, kwargs, varargs int  // slots of the special variables, or -1
	explicitCaller          bool // "caller" is an ordinary parameter
}

// children returns the direct parts of a node in the order in which Jinja visits them.
func children(n any) []any {
	var out []any
	add := func(ns ...any) {
		for _, n := range ns {
			if n != nil {
				out = append(out, n)
			}
		}
	}
	args := func(a argList) {
		add(a.args...)
		for _, k := range a.kwargs {
			add(k.x)
		}
		add(a.star, a.dstar)
	}
	operands := func(first expr, rest []operand) {
		add(first)
		for _, o := range rest {
			add(o.x)
		}
	}
	def := func(d *macroDef) {
		for _, p := range d.params {
			add(p)
		}
		add(d.defaults...)
		add(d.body...)
	}
	switch n := n.(type) {
	case *constantExpr:
		add(n.x)
	case *attrExpr:
		add(n.x)
	case *itemExpr:
		add(n.x, n.arg)
	case *sliceExpr:
		add(n.lo, n.hi, n.step)
	case *callExpr:
		add(n.fn)
		args(n.args)
	case *filterExpr:
		add(n.x)
		args(n.args)
	case *testExpr:
		add(n.x)
		args(n.args)
	case *notExpr:
		add(n.x)
	case *signExpr:
		add(n.x)
	case *chainExpr:
		operands(n.first, n.rest)
	case *compareExpr:
		operands(n.first, n.rest)
	case *concatExpr:
		add(n.parts...)
	case *andExpr:
		add(n.parts...)
	case *orExpr:
		add(n.parts...)
	case *condExpr:
		add(n.test, n.then, n.other)
	case *listExpr:
		add(n.items...)
	case *tupleExpr:
		add(n.items...)
	case *dictExpr:
		for i := range n.keys {
			add(n.keys[i], n.vals[i])
		}
	case *outStmt:
		add(n.x)
	case *ifStmt:
		for _, b := range n.branches {
			add(b.test)
			add(b.body...)
		}
		add(n.other...)
	case *forStmt:
		add(n.target, n.iter)
		add(n.body...)
		add(n.other...)
		add(n.test)
	case *setStmt:
		add(n.target, n.x)
	case *setBlockStmt:
		add(n.target, n.filter)
		add(n.body...)
	case *filterStmt:
		add(n.body...)
		add(n.filter)
	case *withStmt:
		add(n.targets...)
		add(n.values...)
		add(n.body...)
	case *macroStmt:
		def(n.def)
	case *callStmt:
		add(n.call)
		def(n.def)
	case *generationStmt:
		def(n.def)
	}
	return out
}
