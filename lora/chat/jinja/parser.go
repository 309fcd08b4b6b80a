package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// parser turns tokens into a tree. It follows Jinja's grammar, including its odder corners, so that what Python refuses to compile
// is refused here.
type parser struct {
	tokens     []token
	at         int
	depth      int
	open       []string      // the tags that are not closed yet
	soft       int           // inside {% if %} and inline if: unknown filters and tests fail only when they run
	unknown    []unknownName // filters and tests that are missing elsewhere
	generation bool          // the template has a {% generation %} tag
	slices     int           // slice expressions so far
	work       int           // steps spent on looking for constants
}

type unknownName struct {
	what, name string
	line       int
}

func (p *parser) cur() token { return p.tokens[p.at] }

func (p *parser) look() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	p.at = min(p.at+1, len(p.tokens)-1)
	return t
}

func (p *parser) line() int { return p.cur().line }

func (p *parser) isOp(op string) bool { return p.cur().kind == tokOp && p.cur().text == op }

func (p *parser) isName(names ...string) bool {
	return p.cur().kind == tokName && slices.Contains(names, p.cur().text)
}

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOp(op string) {
	if !p.skipOp(op) {
		raise(ErrSyntax, "expected '%s', got '%s'", op, p.cur())
	}
}

func (p *parser) expect(kind tokenKind) token {
	if p.cur().kind != kind {
		raise(ErrSyntax, "expected %s, got '%s'", kindNames[kind], p.cur())
	}
	return p.next()
}

func (p *parser) expectName(name string) {
	if !p.skipName(name) {
		raise(ErrSyntax, "expected '%s', got '%s'", name, p.cur())
	}
}

// enter bounds the recursion of the parser; call leave when done.
func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		raise(ErrLimit, "nested deeper than %d", maxNesting)
	}
}

func (p *parser) leave() { p.depth-- }

// block parses statements up to one of the end tags, whose name is left as the current token. With no end tags it parses to the end
// of the template.
func (p *parser) block(ends ...string) []stmt {
	p.enter()
	defer p.leave()
	var body []stmt
	for {
		switch t := p.cur(); t.kind {
		case tokEOF:
			if len(ends) > 0 {
				raise(ErrSyntax, "unexpected end of template: {%% %s %%} is not closed by '%s'", p.open[len(p.open)-1],
					strings.Join(ends, "' or '"))
			}
			return body
		case tokData:
			p.next()
			body = append(body, &dataStmt{t.text})
		case tokVarBegin:
			p.next()
			body = append(body, &outStmt{p.printed(p.tuple(tupleOptions{condexpr: true})), t.line})
			p.expect(tokVarEnd)
		default:
			p.expect(tokBlockBegin)
			if p.isName(ends...) {
				return body
			}
			body = append(body, p.statement()...)
			p.expect(tokBlockEnd)
		}
	}
}

// printed is fold for the expression of a print statement.
func (p *parser) printed(e expr) expr {
	if p.slices > 0 && p.constant(e) {
		return &constantExpr{e, true}
	}
	return e
}

// body is the block inside the current tag, after an optional colon and the end of the tag.
func (p *parser) body(ends ...string) []stmt {
	p.skipOp(":")
	p.expect(tokBlockEnd)
	return p.block(ends...)
}

// lastBody is a body with a single end tag, which is consumed.
func (p *parser) lastBody(end string) []stmt {
	body := p.body(end)
	p.next()
	return body
}

// hard runs f outside any {% if %}: Jinja checks filter names at compile time in every new scope.
func (p *parser) hard(f func()) {
	soft := p.soft
	p.soft = 0
	f()
	p.soft = soft
}

// scopeBody is a lastBody that is a scope of its own.
func (p *parser) scopeBody(end string) (body []stmt) {
	p.hard(func() { body = p.lastBody(end) })
	return body
}

var refusedTags = []string{"include", "import", "from", "extends", "block", "autoescape"}

func (p *parser) statement() []stmt {
	t := p.expect(tokName)
	p.open = append(p.open, t.text)
	defer func() { p.open = p.open[:len(p.open)-1] }()
	switch t.text {
	case "if":
		return []stmt{p.ifStatement(t.line)}
	case "for":
		return []stmt{p.forStatement(t.line)}
	case "set":
		return []stmt{p.setStatement(t.line)}
	case "macro":
		return []stmt{p.macroStatement(t.line)}
	case "call":
		return []stmt{p.callStatement(t.line)}
	case "filter":
		n := &filterStmt{line: t.line}
		p.hard(func() { n.filter = p.filter(nil, true) })
		n.body = p.scopeBody("endfilter")
		return []stmt{n}
	case "with":
		return []stmt{p.withStatement(t.line)}
	case "print":
		var out []stmt
		for p.cur().kind != tokBlockEnd {
			if out != nil {
				p.expectOp(",")
			}
			out = append(out, &outStmt{p.printed(p.expression()), t.line})
		}
		return out
	case "generation":
		p.generation = true
		return []stmt{&generationStmt{t.line, &macroDef{body: p.scopeBody("endgeneration")}}}
	case "break":
		return []stmt{&breakStmt{t.line}}
	case "continue":
		return []stmt{&continueStmt{t.line}}
	}
	if slices.Contains(refusedTags, t.text) {
		raise(ErrUnsupported, "the tag {%% %s %%}", t.text)
	}
	if len(p.open) > 1 {
		raise(ErrSyntax, "unknown tag '%s' inside {%% %s %%}", t.text, p.open[len(p.open)-2])
	}
	raise(ErrSyntax, "unknown tag '%s'", t.text)
	return nil
}

func (p *parser) ifStatement(line int) stmt {
	n := &ifStmt{line: line}
	p.soft++
	defer func() { p.soft-- }()
	for {
		test := p.tuple(tupleOptions{})
		n.branches = append(n.branches, branch{test, p.body("elif", "else", "endif")})
		switch p.next().text {
		case "elif":
			continue
		case "else":
			n.other = p.lastBody("endif")
		}
		return n
	}
}

func (p *parser) forStatement(line int) stmt {
	n := &forStmt{line: line, target: p.target(tupleOptions{})}
	p.expectName("in")
	n.iter = p.tuple(tupleOptions{})
	if p.skipName("if") {
		p.hard(func() { n.test = p.expression() })
	}
	n.recursive = p.skipName("recursive")
	p.hard(func() { n.body = p.body("endfor", "else") })
	if p.next().text == "else" {
		n.other = p.scopeBody("endfor")
	}
	return n
}

func (p *parser) setStatement(line int) stmt {
	target := p.target(tupleOptions{namespace: true})
	if p.skipOp("=") {
		return &setStmt{line, target, p.tuple(tupleOptions{condexpr: true})}
	}
	n := &setBlockStmt{line: line, target: target}
	p.hard(func() { n.filter = p.filter(nil, false) })
	n.body = p.scopeBody("endset")
	return n
}

func (p *parser) withStatement(line int) stmt {
	n := &withStmt{line: line}
	for p.cur().kind != tokBlockEnd {
		if n.targets != nil {
			p.expectOp(",")
		}
		n.targets = append(n.targets, p.target(tupleOptions{}))
		p.expectOp("=")
		n.values = append(n.values, p.expression())
	}
	n.body = p.scopeBody("endwith")
	return n
}

func (p *parser) macroStatement(line int) stmt {
	target := p.nameTarget()
	def := &macroDef{name: target.name}
	p.signature(def)
	def.body = p.scopeBody("endmacro")
	return &macroStmt{line, target, def}
}

func (p *parser) callStatement(line int) stmt {
	def := &macroDef{}
	if p.isOp("(") {
		p.signature(def)
	}
	call, ok := p.expression().(*callExpr)
	if !ok {
		raise(ErrSyntax, "{%% call %%} expects a call")
	}
	def.body = p.scopeBody("endcall")
	return &callStmt{line, call, def}
}

func (p *parser) signature(def *macroDef) {
	p.expectOp("(")
	for !p.isOp(")") {
		if len(def.params) > 0 {
			p.expectOp(",")
		}
		param := p.nameTarget()
		if slices.ContainsFunc(def.params, func(o *nameExpr) bool { return o.name == param.name }) {
			raise(ErrSyntax, "duplicate argument '%s'", param.name)
		}
		if p.skipOp("=") {
			p.hard(func() { def.defaults = append(def.defaults, p.expression()) })
		} else if len(def.defaults) > 0 {
			raise(ErrSyntax, "the argument '%s' without default follows one with default", param.name)
		}
		def.params = append(def.params, param)
	}
	p.next()
}

func (p *parser) nameTarget() *nameExpr {
	n := &nameExpr{name: p.expect(tokName).text}
	p.checkTarget(n)
	return n
}

func (p *parser) target(o tupleOptions) expr {
	o.simplified = true
	n := p.tuple(o)
	p.checkTarget(n)
	return n
}

func (p *parser) checkTarget(n expr) {
	switch n := n.(type) {
	case *attrTarget:
		return
	case *nameExpr:
		if !slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, n.name) {
			n.store = true
			return
		}
	case *tupleExpr:
		for _, item := range n.items {
			p.checkTarget(item)
		}
		return
	}
	raise(ErrSyntax, "can't assign to this expression (%s)", strings.TrimPrefix(fmt.Sprintf("%T", n), "*jinja."))
}
