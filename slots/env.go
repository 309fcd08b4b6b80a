package slots

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// Limits of one derived slot. A program that needs more is refused.
const (
	maxNodes    = 500         // nodes of an expression
	maxNesting  = 2           // predicates inside predicates
	maxMemory   = 100_000     // expr-lang memory units of one evaluation
	maxResult   = 64 << 10    // bytes of a text, also between
	maxList     = 10_000      // items of a list, also between
	maxEvaluate = time.Second // wall clock of one evaluation
	maxSlots    = 5_000       // slots of a program
)

// builtins are the functions of expr-lang that programs may call: those whose
// cost its memory budget bounds and whose result does not depend on map order,
// clock or environment.
var builtins = strings.Fields(`len upper lower trim trimPrefix trimSuffix repeat hasPrefix hasSuffix indexOf lastIndexOf
	abs ceil floor int float min max sum mean median first last take reverse sort concat
	map filter all any none one count find findIndex reduce`)

// keywords are what else cannot name a slot.
var keywords = strings.Fields("was observed tick let in not and or matches contains startsWith endsWith nil true false if else")

// reserved reports whether the expression language uses a name itself.
func reserved(name string) bool {
	return slices.Contains(builtins, name) || slices.Contains(keywords, name) || slices.ContainsFunc(helpers, func(h helper) bool { return h.name == name })
}

// placeValue is what expressions see of a place.
type placeValue struct {
	Name      string    `expr:"name"`
	Admin     string    `expr:"admin"`
	Country   string    `expr:"country"`
	Continent string    `expr:"continent"`
	Sea       string    `expr:"sea"`
	Near      string    `expr:"near"`
	Kind      string    `expr:"kind"`
	Lon       float64   `expr:"lon"`
	Lat       float64   `expr:"lat"`
	BBox      []float64 `expr:"bbox"` // west, south, east, north, degrees
}

func newPlaceValue(p gazetteer.Place) placeValue {
	return placeValue{p.Name, p.Admin, p.Country, p.Continent, p.Sea, p.Near, string(p.Kind), p.Lon, p.Lat, []float64{p.West, p.South, p.East, p.North}}
}

// sample is a value of the Go type that slots of type t have in expressions.
func (t Type) sample() any {
	switch t {
	case Place:
		return placeValue{}
	case BBox:
		return []float64{}
	case Date, TextType, Artifact:
		return ""
	case NumberType, Threshold:
		return 0.0
	case Observation:
		return strictjson.Value{}
	}
	return 0 // period, file, count
}

var identifier = regexp.MustCompile(`[A-Za-z_]\w*`)

// compileExpr type-checks one derived slot against the slots it may name.
func compileExpr(src string, all map[string]any) (*vm.Program, error) {
	env := map[string]any{"was": all["was"], "observed": all["observed"], "tick": all["tick"]}
	for _, word := range identifier.FindAllString(src, -1) { // the whole would be copied for each slot
		if v, ok := all[word]; ok {
			env[word] = v
		}
	}
	options := []expr.Option{
		expr.Env(env), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(), expr.Patch(visitFunc(guard)),
	}
	for _, name := range builtins {
		options = append(options, expr.EnableBuiltin(name))
	}
	for _, h := range helpers {
		options = append(options, h.option)
	}
	prog, err := expr.Compile(src, options...)
	if err != nil {
		return nil, err
	}
	// DisableAllBuiltins leaves some predicates in place, groupBy among them, whose
	// result has no fixed order.
	// It also takes unknown names for arguments of functions with declared types.
	deepest, foreign := 0, ""
	declared := map[string]bool{}
	root := prog.Node()
	ast.Walk(&root, visitFunc(func(n *ast.Node) {
		switch x := (*n).(type) {
		case *ast.BuiltinNode:
			if !slices.Contains(builtins, x.Name) {
				foreign = x.Name
			}
		case *ast.PredicateNode:
			deepest = max(deepest, predicateDepth(x))
		case *ast.VariableDeclaratorNode:
			declared[x.Name] = true
		}
	}))
	for _, name := range names(prog) {
		if _, known := env[name]; !known && !declared[name] && !reserved(name) {
			foreign = name
		}
	}
	if foreign != "" {
		return nil, fmt.Errorf("unknown name %s", foreign)
	}
	if deepest > maxNesting {
		return nil, fmt.Errorf("predicates are nested %d deep; at most %d", deepest, maxNesting)
	}
	return prog, nil
}

// guard puts a call of tick around whatever an evaluation repeats or uses again:
// the bodies of predicates and the values of variables. There limits of time and
// size are checked, so that neither loops nor doubling get past them.
func guard(n *ast.Node) {
	ticked := func(body ast.Node) ast.Node {
		if c, ok := body.(*ast.CallNode); ok {
			if id, ok := c.Callee.(*ast.IdentifierNode); ok && id.Value == "tick" {
				return body
			}
		}
		return &ast.CallNode{Callee: &ast.IdentifierNode{Value: "tick"}, Arguments: []ast.Node{body}}
	}
	switch x := (*n).(type) {
	case *ast.PredicateNode:
		x.Node = ticked(x.Node)
	case *ast.VariableDeclaratorNode:
		x.Value = ticked(x.Value)
	}
}

// tick hands v on within the limits of the evaluation that runs.
func (f *frame) tick(v any) (any, error) {
	if time.Since(f.started) > maxEvaluate {
		return nil, fmt.Errorf("the evaluation takes longer than %s", maxEvaluate)
	}
	switch x := v.(type) {
	case string:
		return textResult(x, len(x))
	case []any:
		if len(x) > maxList {
			return nil, fmt.Errorf("a list of %d items; at most %d", len(x), maxList)
		}
	}
	return v, nil
}

// textResult is s unless n, its length to be, is over the limit.
func textResult(s string, n int) (any, error) {
	if n > maxResult {
		return nil, fmt.Errorf("a text of %d bytes; at most %d", n, maxResult)
	}
	return s, nil
}

// names returns the identifiers an expression reads.
func names(prog *vm.Program) []string {
	var found []string
	node := prog.Node()
	ast.Walk(&node, visitFunc(func(n *ast.Node) {
		if id, ok := (*n).(*ast.IdentifierNode); ok {
			found = append(found, id.Value)
		}
	}))
	return found
}

type visitFunc func(*ast.Node)

func (f visitFunc) Visit(n *ast.Node) { f(n) }

// predicateDepth is 1 for a predicate without another inside.
func predicateDepth(p *ast.PredicateNode) int {
	deepest := 0
	inner := p.Node
	ast.Walk(&inner, visitFunc(func(m *ast.Node) {
		if q, ok := (*m).(*ast.PredicateNode); ok && q != p {
			deepest = max(deepest, predicateDepth(q))
		}
	}))
	return 1 + deepest
}

// helpers are the functions of the expression language beyond its builtins.
// They are deterministic and free of input and output. Numbers come as any
// because expr-lang hands int variables to float64 parameters unconverted.
var helpers = []helper{
	// shift moves a date by whole years, then by days; 29 February has no counterpart in most years.
	function("shift", func(a []any) (any, error) {
		t, err := dateArg(a[0])
		if err != nil {
			return nil, err
		}
		years, days := a[1].(int), a[2].(int)
		moved := time.Date(t.Year()+years, t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
		if moved.Day() != t.Day() {
			return nil, fmt.Errorf("%s has no counterpart %d years away", a[0], years)
		}
		return moved.AddDate(0, 0, days).Format(time.DateOnly), nil
	}, new(func(string, int, int) string)),
	// addMonths moves a date by calendar months and stays inside the target month.
	function("addMonths", func(a []any) (any, error) {
		t, err := dateArg(a[0])
		if err != nil {
			return nil, err
		}
		first := time.Date(t.Year(), t.Month()+time.Month(a[1].(int)), 1, 0, 0, 0, 0, time.UTC)
		last := first.AddDate(0, 1, -1).Day()
		return first.AddDate(0, 0, min(t.Day(), last)-1).Format(time.DateOnly), nil
	}, new(func(string, int) string)),
	function("addDays", func(a []any) (any, error) {
		t, err := dateArg(a[0])
		return t.AddDate(0, 0, a[1].(int)).Format(time.DateOnly), err
	}, new(func(string, int) string)),
	function("daysBetween", func(a []any) (any, error) {
		t, err := dateArg(a[0])
		if err != nil {
			return nil, err
		}
		u, err := dateArg(a[1])
		return int(u.Sub(t).Hours() / 24), err
	}, new(func(string, string) int)),
	function("year", func(a []any) (any, error) {
		t, err := dateArg(a[0])
		return t.Year(), err
	}, new(func(string) int)),
	function("month", func(a []any) (any, error) {
		t, err := dateArg(a[0])
		return int(t.Month()), err
	}, new(func(string) int)),
	function("dayOfYear", func(a []any) (any, error) {
		t, err := dateArg(a[0])
		return t.YearDay(), err
	}, new(func(string) int)),
	function("formatDate", func(a []any) (any, error) {
		t, err := dateArg(a[0])
		if err != nil {
			return nil, err
		}
		return FormatDate(t, a[1].(string))
	}, new(func(string, string) string)),
	function("title", func(a []any) (any, error) {
		words := strings.Fields(a[0].(string))
		for i, w := range words {
			_, first := utf8.DecodeRuneInString(w)
			words[i] = strings.ToUpper(w[:first]) + w[first:]
		}
		return strings.Join(words, " "), nil
	}, new(func(string) string)),
	// The next four are expr-lang's, which have no bound on what they return.
	function("split", func(a []any) (any, error) {
		s := a[0].(string)
		if _, err := textResult(s, len(s)); err != nil {
			return nil, err
		}
		var parts []any
		for _, part := range strings.Split(s, a[1].(string)) {
			parts = append(parts, part)
		}
		return parts, nil
	}, new(func(string, string) []any)),
	function("join", func(a []any) (any, error) {
		parts, sep, n := a[0].([]any), a[1].(string), 0
		texts := make([]string, len(parts))
		for i, part := range parts {
			text, ok := part.(string)
			if !ok {
				return nil, fmt.Errorf("join: item %d is %T, not a text", i, part)
			}
			texts[i], n = text, n+len(text)+len(sep)
		}
		if _, err := textResult("", n); err != nil {
			return nil, err
		}
		return strings.Join(texts, sep), nil
	}, new(func([]any, string) string)),
	function("replace", func(a []any) (any, error) {
		s, old, by := a[0].(string), a[1].(string), a[2].(string)
		if _, err := textResult("", len(s)+strings.Count(s, old)*(len(by)-len(old))); err != nil {
			return nil, err
		}
		return strings.ReplaceAll(s, old, by), nil
	}, new(func(string, string, string) string)),
	function("string", func(a []any) (any, error) {
		switch x := a[0].(type) {
		case string:
			return x, nil
		case int, bool:
			return fmt.Sprint(x), nil
		case float64:
			return strconv.FormatFloat(x, 'f', -1, 64), nil
		}
		return nil, fmt.Errorf("string: %T is neither number nor text", a[0])
	}, new(func(any) string)),
	function("pad", func(a []any) (any, error) {
		width := a[1].(int)
		if width < 0 || width > 32 {
			return nil, fmt.Errorf("pad: width %d is not between 0 and 32", width)
		}
		return fmt.Sprintf("%0*d", width, a[0].(int)), nil
	}, new(func(int, int) string)),
	function("round", func(a []any) (any, error) {
		f, err := floatArg(a[0])
		if err != nil {
			return nil, err
		}
		d := a[1].(int)
		if d < 0 || d > 15 {
			return nil, fmt.Errorf("round: %d decimals is not between 0 and 15", d)
		}
		return roundTo(f, d), nil
	}, new(func(any, int) float64)),
	function("clamp", func(a []any) (any, error) {
		f, err := floatArg(a[0])
		if err != nil {
			return nil, err
		}
		lo, err := floatArg(a[1])
		if err != nil {
			return nil, err
		}
		hi, err := floatArg(a[2])
		return math.Max(lo, math.Min(hi, f)), err
	}, new(func(any, any, any) float64)),
	// bboxAround is the box of the given half width in kilometres around a point: west, south, east, north.
	function("bboxAround", func(a []any) (any, error) {
		var v [3]float64
		for i := range v {
			f, err := floatArg(a[i])
			if err != nil {
				return nil, err
			}
			v[i] = f
		}
		dLat := v[2] / 111.32
		dLon := dLat / math.Max(0.01, math.Cos(v[1]*math.Pi/180))
		return []float64{roundTo(v[0]-dLon, 4), roundTo(v[1]-dLat, 4), roundTo(v[0]+dLon, 4), roundTo(v[1]+dLat, 4)}, nil
	}, new(func(any, any, any) []float64)),
	// distanceKm is the great-circle distance between lon1, lat1 and lon2, lat2.
	function("distanceKm", func(a []any) (any, error) {
		var v [4]float64
		for i := range v {
			f, err := floatArg(a[i])
			if err != nil {
				return nil, err
			}
			v[i] = f * math.Pi / 180
		}
		s := math.Pow(math.Sin((v[3]-v[1])/2), 2) + math.Cos(v[1])*math.Cos(v[3])*math.Pow(math.Sin((v[2]-v[0])/2), 2)
		return 2 * 6371.0088 * math.Asin(math.Sqrt(s)), nil
	}, new(func(any, any, any, any) float64)),
	// vary maps every number v of an observation to v·scale + offset and keeps its decimals.
	function("vary", func(a []any) (any, error) {
		scale, err := floatArg(a[1])
		if err != nil {
			return nil, err
		}
		offset, err := floatArg(a[2])
		if err != nil {
			return nil, err
		}
		v, ok := a[0].(strictjson.Value)
		if !ok {
			return nil, fmt.Errorf("vary: the first argument is an observation, as was(pointer) returns it")
		}
		return vary(v, scale, offset), nil
	}, new(func(any, any, any) strictjson.Value)),
	// word reads a text out of an observation.
	function("word", func(a []any) (any, error) {
		switch x := a[0].(type) {
		case string:
			return textResult(x, len(x))
		case strictjson.Value:
			if x.Kind() == strictjson.String {
				return textResult(x.Text(), len(x.Text()))
			}
		}
		return nil, fmt.Errorf("word: %v is not a text", a[0])
	}, new(func(any) string)),
	// ranking orders names by their numbers, the largest first: "B > A = C".
	function("ranking", func(a []any) (any, error) { return ranking(a[0].([]any), a[1].([]any)) }, new(func([]any, []any) string)),
	// num reads a number out of an observation.
	function("num", func(a []any) (any, error) { return floatArg(a[0]) }, new(func(any) float64)),
}

// ranking writes names in the order of their numbers, the largest first, with "="
// between equal ones; these stay in the order given.
func ranking(names, numbers []any) (string, error) {
	if len(names) != len(numbers) || len(names) == 0 {
		return "", fmt.Errorf("ranking: %d names for %d numbers", len(names), len(numbers))
	}
	type item struct {
		name   string
		number float64
	}
	items := make([]item, len(names))
	for i := range names {
		name, ok := names[i].(string)
		f, err := floatArg(numbers[i])
		if !ok || err != nil {
			return "", fmt.Errorf("ranking: item %d is no name with a number", i)
		}
		items[i] = item{name, f}
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(b.number, a.number) })
	var b strings.Builder
	for i, it := range items {
		switch {
		case i > 0 && it.number == items[i-1].number:
			b.WriteString(" = ")
		case i > 0:
			b.WriteString(" > ")
		}
		b.WriteString(it.name)
	}
	s := b.String()
	_, err := textResult(s, len(s))
	return s, err
}

type helper struct {
	name   string
	option expr.Option
}

func function(name string, f func([]any) (any, error), signature any) helper {
	return helper{name, expr.Function(name, func(args ...any) (any, error) {
		v, err := f(args)
		if err != nil {
			return nil, err
		}
		return v, nil
	}, signature)}
}

func dateArg(a any) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, a.(string))
	if err != nil {
		return t, fmt.Errorf("%q is not a date written YYYY-MM-DD", a)
	}
	return t, nil
}

func floatArg(a any) (float64, error) {
	switch x := a.(type) {
	case float64:
		return x, nil
	case int:
		return float64(x), nil
	case strictjson.Value:
		if f, ok := x.Float(); ok {
			return f, nil
		}
		if f, _, ok := textNumber(x.Text()); ok && x.Kind() == strictjson.String {
			return f, nil
		}
		return 0, fmt.Errorf("%s is not a number", clip(x.JSON(), 40))
	}
	return 0, fmt.Errorf("%v is not a number", a)
}
