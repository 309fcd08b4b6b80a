package reward

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

const example = `{"file_list":["a.tif","b.tif"],"threshold":0.75}`

// Hand-computed from Eq. 13, m = 2.
func TestREW1ScoreIsEq13(t *testing.T) {
	ref := reference(t, example)
	for _, c := range []struct {
		completion string
		want       Score
	}{
		{example, Score{2, Object, 2, 2, 0, 0, 2, "every key and value is right"}},
		{`{"file_list":["a.tif","b.tif"],"threshold":0.7501}`, Score{1.5, Object, 2, 2, 0, 0, 1, "/threshold: expected 0.75, got 0.7501"}},
		{`{"file_list":["b.tif","a.tif"],"threshold":0.75}`, Score{1.5, Object, 2, 2, 0, 0, 1, `/file_list/0: expected "a.tif", got "b.tif"`}},
		{`{"file_list":["a.tif","b.tif"],"threshold":0.75,"x":1}`, Score{1.5, Object, 2, 2, 0, 1, 2, `extra "x"`}},
		{`{"threshold":0.75}`, Score{0.5, Object, 2, 1, 1, 0, 1, `missing "file_list"`}},
		{`{"foo":1}`, Score{-1, Object, 2, 0, 2, 1, 0, `missing "file_list", "threshold"; extra "foo"; held at -1 instead of -1.5`}},
	} {
		if got := DefaultRules().Score(ref, c.completion); got != c.want {
			t.Errorf("%s\n got %+v\nwant %+v", c.completion, got, c.want)
		}
	}
}

func TestREW2ParseFailureAndNonObject(t *testing.T) {
	ref := reference(t, example)
	for _, text := range []string{`{"threshold":0.75`, "", " \n", "nul", "{'threshold':0.75}"} {
		if s := DefaultRules().Score(ref, text); s.Reward != -2 || s.Status != ParseFailure || s.Keys != 2 || !strings.HasPrefix(s.Reason, "not JSON: ") {
			t.Errorf("%q: %+v", text, s)
		}
	}
	for text, what := range map[string]string{
		`{}`: "an object of 0 members", `[]`: "a list of 0 items", `null`: "null", `"x"`: `"x"`, `3`: "3", `true`: "true",
		`[{"threshold":0.75}]`: "a list of 1 item",
	} {
		if s := DefaultRules().Score(ref, text); s.Reward != -1 || s.Status != NotObject || !strings.Contains(s.Reason, what) {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

func TestREW3MissingExtraWrongCosts(t *testing.T) {
	ref := reference(t, `{"a":1,"b":2,"c":3,"d":4}`)
	for completion, want := range map[string]float64{
		`{"a":1,"b":2,"c":3}`:                             1.25,
		`{"a":1,"b":2,"c":3,"d":4,"e":5}`:                 1.75,
		`{"a":1,"b":2,"c":3,"d":5}`:                       1.75,
		`{"a":1,"b":2,"c":3,"e":4}`:                       1.0, // a renamed key is one missing and one extra
		`{"a":9,"b":9,"c":9,"d":9}`:                       1.0,
		`{"a":1}`:                                         -0.25,
		`{"a":9,"w":1,"x":1,"y":1,"z":1}`:                 -1,
		`{"a":1,"b":2,"c":3,"d":4.0}`:                     1.75,
		`{"a":1,"b":2,"c":3,"d":"4"}`:                     1.75,
		`{"a":true,"b":2,"c":3,"d":[4]}`:                  1.5,
		`{"d":4,"c":3,"b":2,"a":1}`:                       2,
		"\t{ \"a\" : 1,\r\n\"b\":2,\"c\":3,\n\"d\":4 }\n": 2,
	} {
		if got := DefaultRules().Score(ref, completion).Reward; got != want {
			t.Errorf("%s: %v, want %v", completion, got, want)
		}
	}
}

// A missing key costs more than an extra one, for every m.
func TestMissingCostsMoreThanExtra(t *testing.T) {
	for m := 2; m < 40; m++ {
		members := make([]strictjson.Member, m)
		for i := range members {
			members[i] = strictjson.Member{Key: "key" + strconv.Itoa(i), Value: strictjson.Int(i)}
		}
		ref := reference(t, strictjson.Obj(members...).JSON())
		without := DefaultRules().Score(ref, strictjson.Obj(members[1:]...).JSON()).Reward
		with := DefaultRules().Score(ref, strictjson.Obj(append(members, strictjson.Member{Key: "more", Value: strictjson.Int(0)})...).JSON()).Reward
		if !(without < with && with < 2) {
			t.Errorf("m=%d: missing %v, extra %v", m, without, with)
		}
	}
}

func TestREW4Equivalence(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`0.75`, `0.7500005`, true},
		{`{"a":[1.0]}`, `{"a":[1.0000001]}`, true},
		{`0.75`, `0.750002`, false},
		{`1`, `true`, false},
		{`0`, `false`, false},
		{`"1"`, `1`, false},
		{`1`, `1.0`, false},
		{`1e0`, `1.0`, true},
		{`1`, `1e0`, false}, // an exponent makes a float, as in Python
		{`0.75`, `7.5e-1`, true},
		{`0.75`, `0.750000000`, true},
		{`0.75`, `0.750001`, true}, // the limit is inclusive for the numbers as written
		{`0.75`, `0.749999`, true},
		{`0.75`, `0.7500010000001`, false},
		{`0.0`, `0.000001`, true},
		{`1e10`, `10000000000.000001`, true},
		{`1e10`, `10000000000.000002`, false}, // float64 cannot tell the two apart
		{`-0.0`, `0.0`, true},
		{`-0`, `0`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`9007199254740993.0`, `9007199254740992.0`, false},
		{`1e999`, `1e999`, true},
		{`1e999`, `1e998`, false},
		{`1e308`, `-1e308`, false},
		{`1e-999999999`, `0.000001`, true}, // no 10^999999999 is ever computed
		{`null`, `false`, false},
		{`null`, `null`, true},
		{`""`, `null`, false},
		{`"a"`, `"\u0061"`, true},
		{`"é"`, `"e\u0301"`, false}, // NFC and NFD are different texts
		{`[]`, `{}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[1,2]`, `[1]`, false},
		{`[1]`, `[1,2]`, false},
		{`{"a":1,"b":{"c":[null,{"d":0.5}]}}`, `{"b":{"c":[null,{"d":0.5000001}]},"a":1}`, true},
		{`{"a":1,"b":2}`, `{"a":1,"c":2}`, false},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
	} {
		for _, p := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			n := newNode(parsed(t, p[0]), nil)
			if got := DefaultRules().equal(&n, parsed(t, p[1])); got != c.want {
				t.Errorf("%s ≡ %s: %v, want %v", p[0], p[1], got, c.want)
			}
		}
	}
}

func TestREW4SchemaDeclaresNumber(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"f":{"type":"number"},"i":{"type":"integer"},"u":{"anyOf":[{"type":"null"},{"type":["string","number"]}]},
		"l":{"type":"array","items":{"type":"number"}},"o":{"type":"object","additionalProperties":{"type":"number"}},
		"n":{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"type":"array","items":{"type":"number"}}}]},
		"any":{}},"additionalProperties":false}`
	numbers, err := NumbersIn(schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reference, completion string
		want                  float64
	}{
		{`{"f":1}`, `{"f":1.0}`, 2},
		{`{"f":1.0}`, `{"f":1}`, 2},
		{`{"f":1}`, `{"f":1.0000005}`, 2},
		{`{"f":1}`, `{"f":1.1}`, 1},
		{`{"f":1}`, `{"f":2}`, 1},
		{`{"f":1}`, `{"f":true}`, 1},
		{`{"f":1}`, `{"f":"1"}`, 1},
		{`{"f":9007199254740993}`, `{"f":9007199254740992.0}`, 1},
		{`{"i":1}`, `{"i":1.0}`, 1},
		{`{"u":1}`, `{"u":1.0}`, 2},
		{`{"l":[1,2]}`, `{"l":[1.0,2]}`, 2},
		{`{"o":{"x":1}}`, `{"o":{"x":1.0}}`, 2},
		{`{"n":[[1]]}`, `{"n":[[1.0]]}`, 2},
		{`{"n":[1]}`, `{"n":[1.0]}`, 1},
		{`{"any":1}`, `{"any":1.0}`, 1},
		{`{"other":1}`, `{"other":1.0}`, 1},
	} {
		ref, err := NewReference(c.reference, numbers)
		if err != nil {
			t.Fatal(err)
		}
		if got := DefaultRules().Score(ref, c.completion).Reward; got != c.want {
			t.Errorf("%s, %s: %v, want %v", c.reference, c.completion, got, c.want)
		}
	}
	for _, bad := range []string{`[]`, `{`, `3`} {
		if _, err := NumbersIn(bad); err == nil {
			t.Errorf("schema %s is accepted", bad)
		}
	}
}

// Every schema of the tool catalogue is read, and float parameters are where
// the integer spelling is right.
func TestCatalogueSchemas(t *testing.T) {
	declared := 0
	for _, tool := range catalogue.Default().Tools() {
		numbers, err := NumbersIn(tool.Schema())
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		for _, p := range tool.Params {
			if want := p.Type.String() == "float"; want != numbers.member(p.Name).here() && (want || p.Type.String() == "int") {
				t.Errorf("%s.%s is a %s, but number is %v", tool.Name, p.Name, p.Type, !want)
			} else if want {
				declared++
			}
		}
	}
	if declared < 20 {
		t.Errorf("only %d float parameters found in the catalogue", declared)
	}
}

func TestREW5StrictParsing(t *testing.T) {
	ref := reference(t, `{"a":1}`)
	refused := []string{
		"```json\n{\"a\":1}\n```", `The arguments are {"a":1}`, `{"a":1} Done.`, `{"a":1}{"a":1}`, `{"a":1,"a":1}`, `{"a":1,"a":2}`, `{"a":NaN}`,
		`{"a":Infinity}`, `{"a":-Infinity}`, `{"a":1,}`, `{a:1}`, `{'a':1}`, `{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":0x1}`, `{"a":1} // note`,
		`{"a":"` + "\xff" + `"}`, `{"a":"\ud800"}`, "{\"a\":\"\n\"}", `<think>x</think>{"a":1}`, "\u00a0" + `{"a":1}`, `{"a":True}`, `{"a":None}`,
		strings.Repeat("[", 100_000), `{"x":{"a":1,"a":2}}`,
	}
	for _, text := range refused {
		if s := DefaultRules().Score(ref, text); s.Status != ParseFailure || s.Reward != -2 {
			t.Errorf("%.40q: %+v", text, s)
		}
	}
	if s := DefaultRules().Score(ref, " \r\n\t{\"a\":1}\n "); s.Reward != 2 {
		t.Errorf("white space around the object: %+v", s)
	}
}

func TestExtraction(t *testing.T) {
	ref := reference(t, `{"a":1,"b":{"c":"}"}}`)
	r := DefaultRules()
	r.Extract = true
	const gold = `{"a":1,"b":{"c":"}"}}`
	for completion, want := range map[string]float64{
		gold:                                2,
		"```json\n" + gold + "\n```":        2,
		"The arguments: " + gold + " Done.": 2,
		gold + gold:                         -2,
		"Either " + gold + " or " + gold:    -2,
		"Use {x} here: " + gold:             -2,
		"no object here":                    -2,
		"} then {":                          -2,
		"[1]":                               -1,
		`"quoted {} text"`:                  -1,
		`[` + gold + `]`:                    -1, // JSON as it stands: an array is no object
		`x {"a":1,"a":1}`:                   -2,
		`x {}`:                              -1,
		strings.Repeat(gold+"\n", 1000):     -2,
	} {
		if s := r.Score(ref, completion); s.Reward != want {
			t.Errorf("%.60q: %+v, want %v", completion, s, want)
		}
	}
}

func TestREW6EmptyReference(t *testing.T) {
	for _, text := range []string{`{}`, `[]`, `null`, `"x"`, ``, `{"a":1,"a":2}`, `{"a":`, `[{"a":1}]`} {
		if _, err := NewReference(text, nil); !errors.Is(err, ErrReference) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if ref := reference(t, example); ref.JSON().JSON() != example {
		t.Errorf("JSON() = %s", ref.JSON().JSON())
	}
}

// The package knows neither trainers nor the agent, reads no files, and the
// argument reward uses no network.
func TestREW7Imports(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		seen++
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range tree.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			switch {
			case path == "os" || strings.HasPrefix(path, "os/") || path == "io/fs":
				t.Errorf("%s imports %s", f.Name(), path)
			case strings.HasPrefix(path, "terraloom/") && !strings.HasPrefix(path, "terraloom/data/"):
				t.Errorf("%s imports %s", f.Name(), path)
			case strings.HasPrefix(path, "net") && f.Name() != "endpoint.go" && path != "net/url":
				t.Errorf("%s imports %s", f.Name(), path)
			}
		}
	}
	if seen < 5 {
		t.Fatalf("only %d files seen", seen)
	}
}

func TestREW8OrderAndWhiteSpace(t *testing.T) {
	ref := reference(t, `{"a":{"x":1,"y":[{"p":1,"q":2}]},"b":2,"c":"three","d":null}`)
	pairs := [][2]string{
		{`{"a":{"x":1,"y":[{"p":1,"q":2}]},"b":2,"c":"three","d":null}`, `{"d":null,"c":"three","b":2,"a":{"y":[{"q":2,"p":1}],"x":1}}`},
		{`{"a":{"x":1,"y":[{"p":1,"q":3}]},"b":7,"zz":1,"yy":2}`, `{"yy":2,"zz":1,"b":7,"a":{"y":[{"q":3,"p":1}],"x":1}}`},
		{`{"a":{"x":1,"u":1,"v":2},"b":{"k":1,"l":2}}`, `{"b":{"l":2,"k":1},"a":{"v":2,"u":1,"x":1}}`},
	}
	for _, p := range pairs {
		want := DefaultRules().Score(ref, p[0])
		for _, same := range []string{p[1], strings.NewReplacer(`{`, "{\n  ", `,`, " ,\t", `:`, " : ").Replace(p[1]), "\n\n" + p[0] + "\r\n"} {
			if got := DefaultRules().Score(ref, same); got != want {
				t.Errorf("%s\n got %+v\nwant %+v", same, got, want)
			}
		}
	}
}

func TestReasonIsOneLine(t *testing.T) {
	ref := reference(t, `{"a\nb":{"c\rd":1},"list":[1,2,3],"deep":{"x":{"y":[1,{"z":0.5}]}}}`)
	for completion, want := range map[string]string{
		`{"a\nb":{"c\rd":2},"list":[1,2,3],"deep":{"x":{"y":[1,{"z":0.5}]}}}`: "/a b/c d: expected 1, got 2",
		`{"a\nb":{"c\rd":1},"list":[1,2],"deep":{"x":{"y":[1,{"z":0.5}]}}}`:   "/list: expected a list of 3 items, got a list of 2 items",
		`{"a\nb":{"c\rd":1},"list":[1,2,3],"deep":{"x":{"y":[1,{"z":1}]}}}`:   "/deep/x/y/1/z: expected 0.5, got 1 (an integer and a float differ)",
		`{"a\nb":{"c\rd":1},"list":[1,2,3],"deep":{"x":{"y":[1,{"w":1}]}}}`:   `/deep/x/y/1: missing "z"`,
		`{"a\nb":{},"list":[1,2,3],"deep":{"x":{"y":[1,{"z":0.5,"w":1}]}}}`:   `/a b: missing "c\rd" (and 1 more wrong values)`,
		`{"x":1,"\n":2}`:                `missing "a\nb", "list", "deep"; extra "\n", "x"; held at -1 instead of -1.667`,
		"{\"k\\n\":{\"\u2028\":[tru]}}": "not JSON: 1:16 at /k / /0: \"tru]}}\" is not JSON (NaN, Infinity, comments, single quotes and bare words are refused)",
	} {
		got := DefaultRules().Score(ref, completion).Reason
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", completion, got, want)
		}
		if strings.ContainsAny(got, "\n\r\u2028") {
			t.Errorf("%q has more than one line", got)
		}
	}
	var many strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&many, "%q:1,", strings.Repeat("k", 100)+strconv.Itoa(i))
	}
	if s := DefaultRules().Score(ref, "{"+many.String()+`"z":1}`); len(s.Reason) > 410 || s.Extra != 2001 {
		t.Errorf("%d bytes: %+v", len(s.Reason), s)
	}
}
