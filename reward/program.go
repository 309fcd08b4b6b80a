package reward

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"terraloom/data/strictjson"
)

// Limits of a program. Together with the wall clock, which every round of a
// predicate looks at, they bound its time and memory.
const (
	maxNodes  = 500       // nodes of a program
	maxMemory = 1_000_000 // expr-lang memory units of one run
	maxRounds = 200_000   // rounds of all predicates of one run
)

// allowed are the builtins of programs: deterministic, and none makes a new text
// or a list that the memory limit does not count.
const allowed = "len,trim,trimPrefix,trimSuffix,hasPrefix,hasSuffix,indexOf,lastIndexOf,abs,ceil,floor,round,int,float," +
	"min,max,sum,mean,median,first,last,map,filter,all,any,none,one,count,find,findIndex,findLast,findLastIndex"

// view is what a program sees.
type view struct {
	Completion string         `expr:"completion"` // the text
	Arguments  any            `expr:"arguments"`  // what it parses to; nil if it does not
	Reference  map[string]any `expr:"reference"`
	Score      float64        `expr:"score"` // Eq. 13
	Status     string         `expr:"status"`
	Keys       int            `expr:"keys"` // the parts of Eq. 13 as Score names them
	Matched    int            `expr:"matched"`
	Missing    int            `expr:"missing"`
	Extra      int            `expr:"extra"`
	Values     int            `expr:"values"`
	Length     int            `expr:"length"` // of the text in characters
	Round      func() bool    `expr:"$round"` // called before each round of a predicate
}

// program is an expr-lang program whose result is a reward.
type program struct{ code *vm.Program }

// compile checks a program. It returns a number, or nil where it has nothing to
// say, and sees the fields of view. Beyond builtins it has number(x, unit) and
// near(x, y, tolerance): see Number. It cannot make new texts, so that no value
// outgrows what it was given.
func compile(src string) (*program, error) {
	if strings.TrimSpace(src) == "" {
		return nil, errors.New("is empty; write an expression such as \"score - 0.1 * extra\"")
	}
	options := []expr.Option{
		expr.Env(view{}), expr.MaxNodes(maxNodes), expr.Optimize(false), expr.DisableAllBuiltins(), expr.Patch(roundPatch{}),
		expr.Function("number", func(a ...any) (any, error) {
			if f, ok := asNumber(a[0], a[1].(string)); ok {
				return f, nil
			}
			return nil, nil
		}, new(func(any, string) any)),
		expr.Function("near", func(a ...any) (any, error) {
			x, okX := asNumber(a[0], "")
			y, okY := asNumber(a[1], "")
			tolerance, okT := asNumber(a[2], "")
			if !okT || tolerance < 0 {
				return nil, fmt.Errorf("near: the tolerance %v is no number of at least 0", a[2])
			}
			return okX && okY && math.Abs(x-y) <= tolerance, nil
		}, new(func(any, any, any) bool)),
	}
	for name := range strings.SplitSeq(allowed, ",") {
		options = append(options, expr.EnableBuiltin(name))
	}
	code, err := expr.Compile(src, options...)
	if err != nil {
		return nil, err
	}
	root := code.Node()
	var check costCheck
	ast.Walk(&root, &check)
	if check.err != nil {
		return nil, check.err
	}
	switch kindOf(root) {
	case reflect.Interface, reflect.Int, reflect.Float64:
		return &program{code}, nil
	}
	return nil, fmt.Errorf("the result is a %s; a number or nil is needed", root.Type())
}

// kindOf is the kind of a checked node's value, Interface where only a run tells.
func kindOf(n ast.Node) reflect.Kind {
	if t := n.Type(); t != nil {
		return t.Kind()
	}
	return reflect.Interface
}

// roundPatch makes every predicate call $round before its body. The virtual
// machine has no time limit of its own; predicates are its only loops.
type roundPatch struct{}

func (roundPatch) Visit(node *ast.Node) {
	if p, ok := (*node).(*ast.PredicateNode); ok {
		p.Node = &ast.SequenceNode{Nodes: []ast.Node{&ast.CallNode{Callee: &ast.IdentifierNode{Value: "$round"}}, p.Node}}
	}
}

// costCheck refuses what expr-lang does not bound or order: joined texts,
// patterns that come out of data, and the predicates that cannot be disabled.
type costCheck struct{ err error }

func (c *costCheck) Visit(node *ast.Node) {
	if c.err != nil {
		return
	}
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if !slices.Contains(strings.Split(allowed, ","), n.Name) {
			c.err = fmt.Errorf("%s is not available; there are %s", n.Name, allowed)
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "+":
			for _, side := range []ast.Node{n.Left, n.Right} {
				if k := kindOf(side); c.err == nil && k != reflect.Int && k != reflect.Float64 {
					c.err = fmt.Errorf("%s: + adds numbers only; write float(x) or int(x) for a value out of arguments or reference", side)
				}
			}
		case "matches":
			if _, constant := n.Right.(*ast.StringNode); !constant {
				c.err = fmt.Errorf("%s: the pattern of matches must be a text in quotes", n.Right)
			}
		}
	}
}

// run evaluates the program for one completion.
func (p *program) run(ctx context.Context, s *sample, timeout time.Duration) (float64, error) {
	ctx, cancel := limit(ctx, timeout)
	defer cancel()
	rounds := 0
	env := view{
		Completion: s.Completion, Score: s.score.Reward, Status: string(s.score.Status), Keys: s.score.Keys, Matched: s.score.Matched,
		Missing: s.score.Missing, Extra: s.score.Extra, Values: s.score.Values, Length: utf8.RuneCountInString(s.Completion),
		Arguments: plain(s.value), Reference: plain(s.Reference.json).(map[string]any),
		Round: func() bool {
			if rounds++; rounds > maxRounds {
				panic(fmt.Errorf("stopped after %d rounds of its predicates", maxRounds))
			}
			if ctx.Err() != nil {
				panic(context.Cause(ctx))
			}
			return true
		},
	}
	machine := vm.VM{MemoryBudget: maxMemory}
	out, err := machine.Run(p.code, env) // turns panics into errors
	if err != nil {
		return 0, err
	}
	return rewardOf(out)
}

// rewardOf reads a function's result; nil is NaN.
func rewardOf(out any) (float64, error) {
	f := math.NaN()
	switch x := out.(type) {
	case nil:
		return f, nil
	case int:
		f = float64(x)
	case float64:
		f = x
	default:
		return 0, fmt.Errorf("returned %v, a %T; a number or nil is needed", out, out)
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("returned %v; a finite number is needed", f)
	}
	return f, nil
}

// plain turns a JSON value into what expr-lang computes with. An integer beyond
// int becomes a float, a number beyond float64 its literal.
func plain(v strictjson.Value) any {
	switch v.Kind() {
	case strictjson.Bool:
		return v.True()
	case strictjson.String:
		return v.Text()
	case strictjson.Number:
		f, ok := v.Float()
		switch {
		case !ok:
			return v.Text()
		case v.IsInteger() && math.Abs(f) < 1<<53:
			return int(f)
		}
		return f
	case strictjson.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case strictjson.Object:
		m := make(map[string]any, v.Len())
		for i := range v.Len() {
			m[v.Key(i)] = plain(v.Index(i))
		}
		return m
	}
	return nil
}
