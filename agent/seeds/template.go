package seeds

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"go.yaml.in/yaml/v4"

	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// scope is what templates of one seed may name: its parameters, and the
// observations of the steps done so far under their ids.
type scope struct {
	values map[string]any
	used   map[string]bool
}

// newScope resolves the parameters of a seed. A place gives place, country,
// admin, file (its name in file names) and, with half, the half width of the area
// in degrees, bbox; place2 gives place2, country2, … alike.
func newScope(f *Family, s Seed) (*scope, error) {
	sc := &scope{values: map[string]any{}, used: map[string]bool{}}
	for _, params := range []map[string]any{f.Params, s} {
		for k, v := range params {
			if !isName.MatchString(k) {
				return nil, fmt.Errorf("parameter %q: use small letters, digits and underscores", k)
			}
			if k != coreKey {
				sc.values[k] = dateText(v)
			}
		}
	}
	for _, n := range []string{"", "2", "3"} {
		name, ok := sc.values["place"+n].(string)
		if !ok {
			continue
		}
		p, ok := gazetteer.ByName(name)
		if !ok {
			return nil, fmt.Errorf("place%s: %q is not in the gazetteer", n, name)
		}
		said := p.Name
		if p.Article {
			said = "the " + said
		}
		set := map[string]any{"place": said, "country": p.Country, "admin": p.Admin, "file": strings.ReplaceAll(p.Name, " ", "_")}
		sc.used["place"+n] = true
		half, err := strconv.ParseFloat(fmt.Sprint(sc.values["half"]), 64)
		if err != nil {
			return nil, fmt.Errorf("half, the half width of the area in degrees, is required")
		}
		sc.used["half"] = true
		set["bbox"] = []any{around(p.Lon, -half), around(p.Lat, -half), around(p.Lon, half), around(p.Lat, half)}
		for k, v := range set {
			sc.values[k+n] = v
			if k != "place" {
				sc.used[k+n] = true // need not be used
			}
		}
	}
	return sc, nil
}

func around(centre, d float64) float64 {
	f, _ := strconv.ParseFloat(strconv.FormatFloat(centre+d, 'f', 4, 64), 64)
	return f
}

// unused is a parameter that no template named, or "".
func (sc *scope) unused(f *Family, s Seed) string {
	for _, params := range []map[string]any{s, f.Params} {
		for k := range params {
			if k != coreKey && !sc.used[k] {
				return k
			}
		}
	}
	return ""
}

// value fills in an argument template. A text that begins with "=" is an
// expression; any other text may hold {names}.
func (sc *scope) value(n *yaml.Node) (strictjson.Value, error) {
	switch n.Kind {
	case yaml.AliasNode:
		return sc.value(n.Alias)
	case yaml.SequenceNode:
		items := make([]strictjson.Value, len(n.Content))
		for i, k := range n.Content {
			var err error
			if items[i], err = sc.value(k); err != nil {
				return items[i], err
			}
		}
		return strictjson.List(items...), nil
	case yaml.MappingNode:
		var members []strictjson.Member
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := sc.value(n.Content[i+1])
			if err != nil {
				return v, err
			}
			members = append(members, strictjson.Member{Key: n.Content[i].Value, Value: v})
		}
		return strictjson.Obj(members...), nil
	}
	switch n.Tag {
	case "!!null":
		return strictjson.NullValue(), nil
	case "!!bool":
		return strictjson.Boolean(n.Value == "true"), nil
	case "!!int", "!!float":
		if v, ok := strictjson.Literal(n.Value); ok {
			return v, nil
		}
		return strictjson.Value{}, fmt.Errorf("line %d: write %q as JSON does", n.Line, n.Value)
	}
	if src, ok := strings.CutPrefix(n.Value, "="); ok {
		x, err := sc.eval(src)
		if err != nil {
			return strictjson.Value{}, fmt.Errorf("line %d: %w", n.Line, err)
		}
		return toJSON(x)
	}
	text, err := sc.text(n.Value)
	return strictjson.Text(text), err
}

// eval runs an expression over the scope.
func (sc *scope) eval(src string) (any, error) {
	for _, word := range word.FindAllString(src, -1) {
		sc.used[word] = true
	}
	options := append([]expr.Option{expr.Env(sc.values)}, functions...)
	prog, err := expr.Compile(src, options...)
	if err != nil {
		return nil, err
	}
	return expr.Run(prog, sc.values)
}

var word = regexp.MustCompile(`[a-z_][a-z0-9_]*`)

// functions are what expressions may call besides expr-lang's own:
//
//	paths(x)               the paths that an observation names, as a list
//	path(x)                the only one
//	having(list, text…)    the items that contain one of the texts
//	output(list, old, new) file names for results: those of the list with old
//	                       replaced; of one path, one name
var functions = []expr.Option{
	expr.Function("paths", func(a ...any) (any, error) { return paths(a[0]) }, new(func(any) []any)),
	expr.Function("path", func(a ...any) (any, error) {
		list, err := paths(a[0])
		if err != nil || len(list) != 1 {
			return nil, fmt.Errorf("path: %d paths (%v)", len(list), err)
		}
		return list[0], nil
	}, new(func(any) string)),
	expr.Function("having", func(a ...any) (any, error) {
		var out []any
		for _, item := range a[0].([]any) {
			for _, text := range a[1:] {
				if strings.Contains(item.(string), text.(string)) {
					out = append(out, item)
					break
				}
			}
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("having: no item contains %v", a[1:])
		}
		return out, nil
	}, new(func([]any, string) []any), new(func([]any, string, string) []any), new(func([]any, string, string, string) []any)),
	expr.Function("output", func(a ...any) (any, error) {
		rename := func(p string) (string, error) {
			base := path.Base(p)
			if !strings.Contains(base, a[1].(string)) {
				return "", fmt.Errorf("output: %s has no %q", base, a[1])
			}
			return strings.Replace(base, a[1].(string), a[2].(string), 1), nil
		}
		if p, ok := a[0].(string); ok {
			return rename(p)
		}
		list := a[0].([]any)
		out := make([]any, len(list))
		for i, p := range list {
			name, err := rename(p.(string))
			if err != nil {
				return nil, err
			}
			out[i] = name
		}
		return out, nil
	}, new(func(any, string, string) any)),
}

// paths are the paths of an observation: a list, or a text with one, the words of
// a message cut off.
func paths(x any) ([]any, error) {
	switch x := x.(type) {
	case []any:
		var out []any
		for _, item := range x {
			more, err := paths(item)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
		return out, nil
	case string:
		return []any{strings.TrimPrefix(strings.TrimPrefix(x, "Result saved at "), "Result save at ")}, nil
	}
	return nil, fmt.Errorf("%v is no path", x)
}

var hole = regexp.MustCompile(`\{([a-z][a-z0-9_]*)(?::([a-z]+))?\}`)

// text fills in {name} and {name:form}. A date is written "July 12, 2021", or in
// one of the forms iso, month ("July 2021") and year.
func (sc *scope) text(s string) (string, error) {
	var failed error
	out := hole.ReplaceAllStringFunc(s, func(m string) string {
		g := hole.FindStringSubmatch(m)
		v, ok := sc.values[g[1]]
		if !ok && failed == nil {
			failed = fmt.Errorf("%s: no parameter of this name", m)
		}
		sc.used[g[1]] = true
		t, err := time.Parse(time.DateOnly, fmt.Sprint(v))
		layout := map[string]string{"": "January 2, 2006", "iso": time.DateOnly, "month": "January 2006", "year": "2006"}[g[2]]
		switch {
		case err == nil && layout != "":
			return t.Format(layout)
		case g[2] != "" && failed == nil:
			failed = fmt.Errorf("%s: the form fits no date %v", m, v)
		}
		return fmt.Sprint(v)
	})
	return out, failed
}

// toJSON converts a result of an expression.
func toJSON(x any) (strictjson.Value, error) {
	switch x := x.(type) {
	case nil:
		return strictjson.NullValue(), nil
	case string:
		return strictjson.Text(x), nil
	case bool:
		return strictjson.Boolean(x), nil
	case int:
		return strictjson.Int(x), nil
	case float64:
		return strictjson.Float(x), nil
	case []any:
		items := make([]strictjson.Value, len(x))
		for i := range x {
			var err error
			if items[i], err = toJSON(x[i]); err != nil {
				return items[i], err
			}
		}
		return strictjson.List(items...), nil
	}
	return strictjson.Value{}, fmt.Errorf("%T is nothing that an argument can be", x)
}

// fromJSON is an observation as expressions see it.
func fromJSON(v strictjson.Value) any {
	switch v.Kind() {
	case strictjson.String:
		return v.Text()
	case strictjson.Bool:
		return v.True()
	case strictjson.Number:
		if n, err := strconv.Atoi(v.Text()); err == nil && v.IsInteger() {
			return n
		}
		f, _ := v.Float()
		return f
	case strictjson.Array:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = fromJSON(v.Index(i))
		}
		return out
	case strictjson.Object:
		out := map[string]any{}
		for i := range v.Len() {
			out[v.Key(i)] = fromJSON(v.Index(i))
		}
		return out
	}
	return nil
}
