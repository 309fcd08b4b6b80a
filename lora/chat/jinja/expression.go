package jinja

import (
	"slices"
	"strings"
)

type tupleOptions struct {
	simplified bool // only names and literals: assignment targets
	condexpr   bool // allow an inline if
	namespace  bool // allow ns.name
	parens     bool // inside parentheses, where () is the empty tuple
}

// tuple parses an expression, or several with commas, which make a tuple.
func (p *parser) tuple(o tupleOptions) expr {
	var items []expr
	isTuple := false
	for {
		if len(items) > 0 {
			p.expectOp(",")
		}
		if k := p.cur().kind; k == tokVarEnd || k == tokBlockEnd || p.isOp(")") {
			break
		}
		switch {
		case o.simplified:
			items = append(items, p.primary(o.namespace))
		case o.condexpr:
			items = append(items, p.expression())
		default:
			items = append(items, p.or())
		}
		if !p.isOp(",") {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if len(items) > 0 {
			return items[0]
		}
		if !o.parens {
			raise(ErrSyntax, "expected an expression, got '%s'", p.cur())
		}
	}
	return &tupleExpr{items}
}

// expression parses an expression with inline ifs. Their parts are checked for unknown filters only when they run.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	line, unknown := p.line(), len(p.unknown)
	n := p.or()
	if !p.isName("if") {
		return n
	}
	p.unknown = p.unknown[:unknown]
	p.soft++
	defer func() { p.soft-- }()
	for long := 0; p.skipName("if"); long++ {
		p.chained(long)
		c := &condExpr{then: n, line: line}
		c.test = p.or()
		if p.skipName("else") {
			c.other = p.expression()
		}
		n = p.fold(c)
	}
	return n
}

// fold wraps an expression without variables that slices something; see constantExpr.
func (p *parser) fold(e expr) expr {
	if p.slices > 0 && p.constant(e) {
		return &constantExpr{x: e}
	}
	return e
}

// constant reports whether Jinja's optimizer can evaluate the expression: no variables, no calls, no filters that see the context.
func (p *parser) constant(n any) bool {
	charge(&p.work, 1)
	switch n := n.(type) {
	case *nameExpr, *callExpr:
		return false
	case *filterExpr:
		if n.x == nil || n.def == nil || n.def.raw != nil {
			return false
		}
	case *testExpr:
		if n.def == nil {
			return false
		}
	}
	return !slices.ContainsFunc(children(n), func(c any) bool { return !p.constant(c) })
}

func (p *parser) or() expr {
	parts := []expr{p.and()}
	for p.skipName("or") {
		parts = append(parts, p.and())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return p.fold(&orExpr{parts})
}

func (p *parser) and() expr {
	parts := []expr{p.not()}
	for p.skipName("and") {
		parts = append(parts, p.not())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return p.fold(&andExpr{parts})
}

func (p *parser) not() expr {
	if !p.skipName("not") {
		return p.comparison()
	}
	p.enter()
	defer p.leave()
	return p.fold(&notExpr{p.not()})
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) comparison() expr {
	first := p.sum()
	var rest []operand
	for {
		op := p.cur().text
		switch {
		case p.cur().kind == tokOp && slices.Contains(comparisons, op):
			p.next()
		case p.skipName("in"):
		case p.isName("not") && p.look().kind == tokName && p.look().text == "in":
			p.next()
			p.next()
			op = "not in"
		default:
			if rest == nil {
				return first
			}
			return p.fold(&compareExpr{first, rest})
		}
		rest = append(rest, operand{op, p.sum()})
	}
}

// chain parses a left-associative run of operators.
func (p *parser) chain(part func() expr, ops ...string) expr {
	first := part()
	var rest []operand
	for p.cur().kind == tokOp && slices.Contains(ops, p.cur().text) {
		op := p.next().text
		rest = append(rest, operand{op, part()})
	}
	if rest == nil {
		return first
	}
	return p.fold(&chainExpr{first, rest})
}

func (p *parser) sum() expr { return p.chain(p.concat, "+", "-") }

func (p *parser) concat() expr {
	parts := []expr{p.product()}
	for p.skipOp("~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return p.fold(&concatExpr{parts})
}

func (p *parser) product() expr { return p.chain(p.power, "*", "/", "//", "%") }

func (p *parser) power() expr { return p.chain(func() expr { return p.unary(true) }, "**") }

func (p *parser) unary(withFilter bool) expr {
	var n expr
	if p.isOp("-") || p.isOp("+") {
		p.enter()
		defer p.leave()
		n = p.fold(&signExpr{p.next().text, p.unary(false)})
	} else {
		n = p.primary(false)
	}
	n = p.postfix(n)
	if withFilter {
		n = p.filters(n)
	}
	return n
}

func (p *parser) primary(namespace bool) expr {
	switch t := p.cur(); t.kind {
	case tokName:
		p.next()
		switch t.text {
		case "true", "True":
			return &constExpr{Bool(true)}
		case "false", "False":
			return &constExpr{Bool(false)}
		case "none", "None":
			return &constExpr{None{}}
		}
		n := &nameExpr{name: t.text}
		if namespace && p.skipOp(".") {
			return &attrTarget{n, p.expect(tokName).text}
		}
		return n
	case tokString:
		var b strings.Builder
		for p.cur().kind == tokString {
			b.WriteString(p.next().text)
		}
		return &constExpr{literal(b.String())}
	case tokInt, tokFloat:
		p.next()
		return &constExpr{t.num}
	case tokOp:
		switch t.text {
		case "(":
			p.enter()
			defer p.leave()
			p.next()
			n := p.tuple(tupleOptions{condexpr: true, parens: true})
			p.expectOp(")")
			return n
		case "[":
			return &listExpr{p.items("]", p.expression)}
		case "{":
			n := &dictExpr{}
			p.items("}", func() expr {
				n.keys = append(n.keys, p.expression())
				p.expectOp(":")
				n.vals = append(n.vals, p.expression())
				return nil
			})
			return n
		}
	}
	raise(ErrSyntax, "unexpected '%s'", p.cur())
	return nil
}

// items parses what stands between brackets, separated by commas, with one more comma allowed at the end.
func (p *parser) items(end string, item func() expr) []expr {
	p.next()
	var out []expr
	for !p.isOp(end) {
		if len(out) > 0 {
			p.expectOp(",")
			if p.isOp(end) {
				break
			}
		}
		out = append(out, item())
	}
	p.next()
	return out
}

// chained bounds the loops that nest the tree to the left.
func (p *parser) chained(long int) {
	if long > maxNesting {
		raise(ErrLimit, "more than %d operations in one chain", maxNesting)
	}
}

func (p *parser) postfix(n expr) expr {
	for long := 0; ; long++ {
		p.chained(long)
		switch {
		case p.isOp(".") || p.isOp("["):
			n = p.fold(p.subscript(n))
		case p.isOp("("):
			n = &callExpr{n, p.callArgs()}
		default:
			return n
		}
	}
}

// filters parses what may follow an operand: filters, tests and calls.
func (p *parser) filters(n expr) expr {
	for long := 0; ; long++ {
		p.chained(long)
		switch {
		case p.isOp("|"):
			n = p.filter(n, false)
		case p.isName("is"):
			n = p.test(n)
		case p.isOp("("):
			n = &callExpr{n, p.callArgs()}
		default:
			return n
		}
	}
}

func (p *parser) subscript(x expr) expr {
	if p.skipOp(".") {
		switch t := p.next(); t.kind {
		case tokName:
			return &attrExpr{x, t.text}
		case tokInt:
			return &itemExpr{x, &constExpr{t.num}}
		}
		raise(ErrSyntax, "expected a name or number after '.'")
	}
	p.next()
	var args []expr
	for !p.isOp("]") {
		if len(args) > 0 {
			p.expectOp(",")
		}
		args = append(args, p.subscriptArg())
	}
	p.next()
	if len(args) == 1 {
		return &itemExpr{x, args[0]}
	}
	for _, a := range args {
		if _, ok := a.(*sliceExpr); ok {
			raise(ErrSyntax, "a slice beside other subscripts")
		}
	}
	return &itemExpr{x, &tupleExpr{args}}
}

func (p *parser) subscriptArg() expr {
	var lo, hi, step expr
	if !p.isOp(":") {
		lo = p.expression()
		if !p.isOp(":") {
			return lo
		}
	}
	p.next()
	part := func() expr {
		if p.isOp(":") || p.isOp("]") || p.isOp(",") {
			return nil
		}
		return p.expression()
	}
	hi = part()
	if p.skipOp(":") {
		step = part()
	}
	p.slices++
	return &sliceExpr{lo, hi, step}
}

func (p *parser) callArgs() argList {
	var a argList
	invalid := func(bad bool) {
		if bad {
			raise(ErrSyntax, "invalid order of call arguments")
		}
	}
	p.expectOp("(")
	for more := false; !p.isOp(")"); more = true {
		if more {
			p.expectOp(",")
			if p.isOp(")") {
				break
			}
		}
		switch {
		case p.isOp("*"):
			invalid(a.star != nil || a.dstar != nil)
			p.next()
			a.star = p.expression()
		case p.isOp("**"):
			invalid(a.dstar != nil)
			p.next()
			a.dstar = p.expression()
		case p.cur().kind == tokName && p.look().kind == tokOp && p.look().text == "=":
			invalid(a.dstar != nil)
			name := p.next().text
			if slices.ContainsFunc(a.kwargs, func(k kwargExpr) bool { return k.name == name }) {
				raise(ErrSyntax, "keyword argument repeated: %s", name)
			}
			p.next()
			a.kwargs = append(a.kwargs, kwargExpr{name, p.expression()})
		default:
			invalid(a.star != nil || a.dstar != nil || a.kwargs != nil)
			a.args = append(a.args, p.expression())
		}
	}
	p.next()
	return a
}

func (p *parser) dottedName() string {
	name := p.expect(tokName).text
	for p.skipOp(".") {
		name += "." + p.expect(tokName).text
	}
	return name
}

// filter parses a run of filters on x; inline means that the first one has no "|" before it.
func (p *parser) filter(x expr, inline bool) expr {
	for long := 0; inline || p.skipOp("|"); long++ {
		p.chained(long)
		inline = false
		f := &filterExpr{x: x, name: p.dottedName()}
		f.def = p.lookUp("filter", filters, f.name)
		if p.isOp("(") {
			f.args = p.callArgs()
		}
		x = p.fold(f)
	}
	return x
}

func (p *parser) test(x expr) expr {
	p.next()
	negated := p.skipName("not")
	t := &testExpr{x: x, name: p.dottedName()}
	t.def = p.lookUp("test", tests, t.name)
	switch k := p.cur().kind; {
	case p.isOp("("):
		t.args = p.callArgs()
	case p.isName("else", "or", "and"):
	case k == tokName || k == tokString || k == tokInt || k == tokFloat || p.isOp("[") || p.isOp("{"):
		if p.isName("is") {
			raise(ErrSyntax, "tests cannot be chained with 'is'")
		}
		t.args.args = []expr{p.postfix(p.primary(false))}
	}
	if negated {
		return p.fold(&notExpr{p.fold(t)})
	}
	return p.fold(t)
}

// lookUp finds a filter or test. A missing one makes the parse fail in the end, unless it stands in a branch that may never run.
func (p *parser) lookUp(what string, table map[string]*function, name string) *function {
	def := table[name]
	if def == nil && p.soft == 0 {
		p.unknown = append(p.unknown, unknownName{what, name, p.line()})
	}
	return def
}
