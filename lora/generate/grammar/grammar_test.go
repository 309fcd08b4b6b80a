package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"terraloom/data/strictjson"
)

// fakeTokens is a vocabulary of all bytes and of longer pieces that begin and end anywhere in JSON.
type fakeTokens [][]byte

func (t fakeTokens) VocabSize() int             { return len(t) }
func (t fakeTokens) TokenBytes(id int32) []byte { return t[id] }

func newFakeTokens(seed uint64) fakeTokens {
	var t fakeTokens
	for b := range 256 {
		t = append(t, []byte{byte(b)})
	}
	for _, s := range []string{`{"`, `":`, `": `, `",`, `", "`, `"}`, `"}]`, `},{`, `, `, `[]`, `{}`, `":[`, `true`, `false`, `null`, `tr`, `ue`, `0.`, `12`, `-1`, `e5`, `\u0`,
		`\n`, `abc`, `d":`, `été`, "\xc3", "\xe2\x82", "\xac", `name`, `"name"`, `":"`, `red`, `gree`, `n"`, `}}`, `]]`, `1,2`, `  `} {
		t = append(t, []byte(s))
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	pieces := `{}[],:"aeiou019.-+ \tnrul`
	for range 400 {
		var b []byte
		for range 2 + rng.IntN(4) {
			b = append(b, pieces[rng.IntN(len(pieces))])
		}
		t = append(t, b)
	}
	return t
}

func none(int32) bool { return false }

var schemas = map[string]string{
	"scalars":  `{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"number"},"i":{"type":"integer"},"b":{"type":"boolean"},"z":{"type":"null"}},"required":["s","n","i","b","z"],"additionalProperties":false}`,
	"optional": `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"}},"required":["b"],"additionalProperties":false}`,
	"enum":     `{"type":"object","properties":{"tool":{"enum":["ndvi","ndwi","ndbi \"x\"",3,null,[1, 2]]},"unit":{"type":"string","enum":["K","°C",5]}},"required":["tool","unit"]}`,
	"plan":     `{"type":"object","properties":{"tool_sequence":{"type":"array","items":{"type":"string","enum":["calculate_ndvi","compute_tvdi","sens_slope"]},"minItems":2,"maxItems":4}},"required":["tool_sequence"],"additionalProperties":false}`,
	"nested":   `{"type":"array","minItems":1,"maxItems":3,"items":{"type":"object","properties":{"name":{"type":"string"},"box":{"type":"array","items":{"type":"number"},"minItems":4,"maxItems":4}},"required":["name","box"]}}`,
	"map":      `{"type":"object","additionalProperties":{"type":"integer"}}`,
	"free":     `{"type":"object"}`,
	"any":      `true`,
	"untyped":  `{"type":"array"}`,
	"nullable": `{"type":"object","properties":{"x":{"type":["string","null"]},"y":{"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"integer"}}]}},"required":["x","y"]}`,
	"union":    `{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"v":{"type":"integer"}},"required":["kind","v"],"additionalProperties":false},{"type":"object","properties":{"kind":{"const":"b"},"w":{"type":"string"}},"required":["kind"],"additionalProperties":false}]}`,
	"refs":     `{"$defs":{"p":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}},"type":"object","properties":{"a":{"$ref":"#/$defs/p"},"b":{"$ref":"#/$defs/p"}},"required":["a","b"]}`,
	"number":   `{"type":"number"}`,
	"string":   `{"type":"string"}`,
	"empty":    `{"type":"object","properties":{},"additionalProperties":false}`,
	"none":     `{"type":"array","maxItems":0}`,
}

func validator(t testing.TB, schema string) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", v); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// write fills a document with random tokens, at most left of them.
func write(t testing.TB, d *Document, tokens fakeTokens, rng *rand.Rand, left int) string {
	t.Helper()
	var text []byte
	for ; left > 0 && !d.Complete(); left-- {
		if d.MayEnd() && rng.IntN(4) == 0 {
			break
		}
		m := d.Mask(left)
		var ids []int32
		for id := range int32(len(tokens)) {
			if m.Has(id) {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			t.Fatalf("nothing can follow %q", text)
		}
		id := ids[rng.IntN(len(ids))]
		if err := d.Advance(id); err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		text = append(text, tokens[id]...)
	}
	if !d.MayEnd() {
		t.Fatalf("not complete: %q", text)
	}
	return string(text)
}

// TestRandomWriter: whatever a model prefers, what it writes is a document of the schema, within its budget.
func TestRandomWriter(t *testing.T) {
	tokens := newFakeTokens(1)
	vocab := NewVocabulary(tokens, none)
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for name, schema := range schemas {
		t.Run(name, func(t *testing.T) {
			g, err := Compile([]byte(schema))
			if err != nil {
				t.Fatal(err)
			}
			valid := validator(t, schema)
			seen := map[string]bool{}
			for round := range rounds {
				rng := rand.New(rand.NewPCG(uint64(round), 7))
				text := write(t, g.Start(vocab), tokens, rng, g.Shortest()+rng.IntN(60))
				seen[text] = true
				if _, err := strictjson.Parse([]byte(text)); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
				if err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				if err := valid.Validate(v); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				var any any
				if err := json.Unmarshal([]byte(text), &any); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
			}
			if len(seen) < 2 && name != "empty" && name != "none" {
				t.Errorf("always %v", seen)
			}
		})
	}
}

// TestLateBudget: with too few tokens left the shortest way to the end is taken, longer tokens first.
func TestLateBudget(t *testing.T) {
	tokens := newFakeTokens(1)
	g, err := Compile([]byte(`{"type":"object","properties":{"name":{"type":"boolean"}},"required":["name"]}`))
	if err != nil {
		t.Fatal(err)
	}
	d := g.Start(NewVocabulary(tokens, none))
	rng := rand.New(rand.NewPCG(1, 1))
	var text string
	for n := 0; !d.Complete(); n++ {
		if n > 20 {
			t.Fatalf("no end: %q", text)
		}
		m := d.Mask(1)
		var ids []int32
		for id := range int32(len(tokens)) {
			if m.Has(id) {
				ids = append(ids, id)
			}
		}
		id := ids[rng.IntN(len(ids))]
		if err := d.Advance(id); err != nil {
			t.Fatal(err)
		}
		text += string(tokens[id])
	}
	if text != `{"name":true}` {
		t.Errorf("%s", text)
	}
}

func TestAcceptsWhole(t *testing.T) {
	tokens := newFakeTokens(1)
	vocab := NewVocabulary(tokens, none)
	for _, c := range []struct {
		schema, text string
		ok           bool
	}{
		{"scalars", `{"s":"a\"\u00e9\n€","n":-1.5e-3,"i":0,"b":true,"z":null}`, true},
		{"scalars", `{"z":null, "b": false, "i": -7, "n": 0.5, "s": ""}`, true},
		{"scalars", `{"s":"","n":1,"i":0.5,"b":true,"z":null}`, false},
		{"scalars", `{"s":"","n":01,"i":1,"b":true,"z":null}`, false},
		{"scalars", `{"s":"","s":"","n":1,"i":1,"b":true,"z":null}`, false},
		{"scalars", `{"s":"\ud800","n":1,"i":1,"b":true,"z":null}`, false},
		{"scalars", "{\"s\":\"\xff\",\"n\":1,\"i\":1,\"b\":true,\"z\":null}", false},
		{"scalars", "{\"s\":\"\n\",\"n\":1,\"i\":1,\"b\":true,\"z\":null}", false},
		{"optional", `{"b":1}`, true},
		{"optional", `{"a":"x"}`, false},
		{"optional", `{"b":1,"d":2}`, false},
		{"optional", `{"b":1,}`, false},
		{"plan", `{"tool_sequence":["sens_slope","sens_slope"]}`, true},
		{"plan", `{"tool_sequence":["sens_slope"]}`, false},
		{"plan", `{"tool_sequence":["sens_slopes","sens_slope"]}`, false},
		{"enum", `{"tool":[1,2],"unit":"°C"}`, true},
		{"enum", `{"tool":3,"unit":5}`, false},
		{"map", `{"a":1,"b":2}`, true},
		{"map", `{"a":1,"a":2}`, false},
		{"map", `{"":1,"a":2}`, true},
		{"map", `{"a":"x"}`, false},
		{"nullable", `{"x":null,"y":[1]}`, true},
		{"any", `[[[[{"a":1}]]]]`, true},
		{"any", `[[[[[[1]]]]]]`, false},
		{"union", `{"kind":"b","w":"x"}`, true},
		{"union", `{"kind":"a","w":"x"}`, false},
		{"none", `[]`, true},
		{"none", `[1]`, false},
		{"number", `1e400`, false},
	} {
		g, err := Compile([]byte(schemas[c.schema]))
		if err != nil {
			t.Fatal(err)
		}
		d := g.Start(vocab)
		err = nil
		for i := 0; i < len(c.text) && err == nil; i++ {
			if m := d.Mask(1 << 20); m.Has(int32(c.text[i])) != (d.Advance(int32(c.text[i])) == nil) {
				t.Fatalf("%s: mask and Advance differ at byte %d", c.text, i)
			} else if !m.Has(int32(c.text[i])) {
				err = ErrToken
			}
		}
		if ok := err == nil && d.MayEnd(); ok != c.ok {
			t.Errorf("%s %s: accepted %t, expected %t", c.schema, c.text, ok, c.ok)
		}
	}
}

func TestRefusedSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{`:                                  "",
		`3`:                                  "an object, not",
		`false`:                              "allows nothing",
		`{"type":"strin"}`:                   `/type: "strin"`,
		`{"type":"string","pattern":"a+"}`:   `"pattern" is not supported`,
		`{"properties":{"a":{"minimum":3}}}`: "/properties/a",
		`{"type":"object","required":["a"],"properties":{"b":{}}}`: `/required/0: "a"`,
		`{"type":"array","minItems":3,"maxItems":2}`:               "minItems 3",
		`{"type":"array","minItems":-1}`:                           "/minItems",
		`{"enum":[]}`:                                              "/enum",
		`{"type":"string","enum":[1]}`:                             "no value",
		`{"$ref":"other.json"}`:                                    "#/",
		`{"$ref":"#/$defs/x"}`:                                     "leads nowhere",
		`{"$defs":{"x":{"type":"array","items":{"$ref":"#/$defs/x"}}},"$ref":"#/$defs/x"}`: "recursive",
		`{"oneOf":[{"type":"number"},{"type":"integer"}]}`:                                 "anyOf",
		`{"anyOf":[{"type":"string"}],"type":"string"}`:                                    `"type" beside "anyOf"`,
		`{"type":"string","properties":{}}`:                                                `"properties" needs`,
	} {
		_, err := Compile([]byte(schema))
		if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", schema, err, want)
		}
	}
}

// TestClosing: the number of bytes to the end is exact: some byte shortens it by one, and none by more.
func TestClosing(t *testing.T) {
	tokens := newFakeTokens(1)
	vocab := NewVocabulary(tokens, none)
	for name, schema := range schemas {
		g, err := Compile([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		for round := range 20 {
			rng := rand.New(rand.NewPCG(uint64(round), 3))
			d := g.Start(vocab)
			for range 60 {
				if d.Complete() {
					break
				}
				before := closing(d.at)
				best := before + 1
				var can []int32
				for b := range int32(256) {
					next := Document{g, vocab, d.at}
					if next.Advance(b) == nil {
						can = append(can, b)
						best = min(best, closing(next.at))
					}
				}
				if before > 0 && best != before-1 {
					t.Fatalf("%s: %d bytes to the end, %d after the best byte", name, before, best)
				}
				if err := d.Advance(can[rng.IntN(len(can))]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range schemas {
		f.Add([]byte(s), uint64(1))
	}
	tokens := newFakeTokens(1)
	vocab := NewVocabulary(tokens, none)
	f.Fuzz(func(t *testing.T, schema []byte, seed uint64) {
		g, err := Compile(schema)
		if err != nil {
			if !errors.Is(err, ErrSchema) {
				t.Fatalf("%v is not ErrSchema", err)
			}
			return
		}
		if g.Shortest() > 300 {
			return
		}
		text := write(t, g.Start(vocab), tokens, rand.New(rand.NewPCG(seed, 1)), g.Shortest()+20)
		if _, err := strictjson.Parse([]byte(text)); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	tokens := newFakeTokens(1)
	rng := rand.New(rand.NewPCG(1, 2))
	for len(tokens) < 50_000 {
		t := make([]byte, 2+rng.IntN(8))
		for i := range t {
			t[i] = byte('a' + rng.IntN(26))
		}
		tokens = append(tokens, t)
	}
	vocab := NewVocabulary(tokens, none)
	for i := range b.N {
		g, err := Compile([]byte(fmt.Sprintf(`{"type":"object","properties":{"k%d":{"type":"string"}},"required":["k%d"]}`, i, i)))
		if err != nil {
			b.Fatal(err)
		}
		d := g.Start(vocab)
		for _, c := range []byte(fmt.Sprintf(`{"k%d":"`, i)) {
			if err := d.Advance(int32(c)); err != nil {
				b.Fatal(err)
			}
		}
		d.Mask(100)
	}
}
