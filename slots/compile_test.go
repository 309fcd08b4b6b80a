package slots

import (
	"errors"
	"strings"
	"testing"
)

// small is a seed with a place, dates, a folder number and one mean.
const smallQuery = "How warm was Nairobi on 2020-02-05 and 2020-02-06?"

func smallSteps() string {
	return step("get_filelist", `{"dir_path":"benchmark/data/question7"}`, `["Nairobi_2020-02-05.tif","Nairobi_2020-02-06.tif"]`) + "," +
		step("calc_batch_image_mean", `{"file_list":["benchmark/data/question7/Nairobi_2020-02-05.tif","benchmark/data/question7/Nairobi_2020-02-06.tif"]}`, "[291.5,293.25]") + "," +
		step("mean", `{"x":[291.5,293.25]}`, "292.375")
}

// Every refusal of Compile names the seed and what is wrong.
func TestCompileRefusals(t *testing.T) {
	seed := seedOf(t, smallQuery, smallSteps(), `,"inputs":{"data_path":"benchmark/data/question7"}`)
	const one = "slots:\n  - {name: n, type: count, role: root, seed: 7, source: {range: {min: 8, max: 20, step: 1}}}\n"
	derived := func(typ, expr string) string {
		return one + "  - {name: d, type: " + typ + ", role: derived, expr: '" + strings.ReplaceAll(expr, "'", "''") + "'}\noccurrences: []\n"
	}
	root := func(slot string) string { return "slots:\n  - " + slot + "\noccurrences: []\n" }
	at := func(occurrences string) string { return one + "occurrences:\n" + occurrences }
	for _, test := range []struct {
		name, program string
		want          []string
	}{
		// Names, roles, types.
		{"no name", root(`{name: 1n, type: count, role: root, seed: 7, source: {choice: [1]}}`), []string{`slot "1n": a name is a letter`}},
		{"twice", one + "  - {name: n, type: count, role: root, seed: 7, source: {choice: [1]}}\noccurrences: []\n", []string{"slot n is declared twice"}},
		{"type", root(`{name: n, type: year, role: root, seed: 7, source: {choice: [1]}}`), []string{`slot n: unknown type "year"`}},
		{"role", root(`{name: n, type: count, role: leaf, seed: 7, source: {choice: [1]}}`), []string{`slot n: role "leaf" is neither root nor derived`}},
		{"root without source", root(`{name: n, type: count, role: root, seed: 7}`), []string{"slot n: a root slot needs a source and no expr"}},
		{"root with expr", root(`{name: n, type: count, role: root, seed: 7, source: {choice: [1]}, expr: "1"}`), []string{"slot n: a root slot needs a source and no expr"}},
		{"derived without expr", root(`{name: n, type: count, role: derived}`), []string{"slot n: a derived slot needs an expr and no source"}},
		{"derived with source", root(`{name: n, type: count, role: derived, expr: "1", source: {choice: [1]}}`), []string{"slot n: a derived slot needs an expr and no source"}},
		{"helper's name", root(`{name: shift, type: count, role: root, seed: 7, source: {choice: [1]}}`), []string{"slot shift: the name is taken by the expression language"}},
		{"function's name", root(`{name: len, type: count, role: root, seed: 7, source: {choice: [1]}}`), []string{"slot len: the name is taken"}},
		{"keyword", root(`{name: in, type: count, role: root, seed: 7, source: {choice: [1]}}`), []string{"slot in: the name is taken"}},
		{"observed", root(`{name: observed, type: count, role: root, seed: 7, source: {choice: [1]}}`), []string{"slot observed: the name is taken"}},
		// Sources.
		{"two sources", root(`{name: n, type: count, role: root, seed: 7, source: {choice: [1], range: {min: 1, max: 2, step: 1}}}`), []string{"slot n: source: give exactly one of gazetteer, range and choice"}},
		{"no source", root(`{name: n, type: count, role: root, seed: 7, source: {}}`), []string{"slot n: source: give exactly one"}},
		{"gazetteer for a count", root(`{name: n, type: count, role: root, seed: 7, source: {gazetteer: {kind: city}}}`), []string{"slot n: source gazetteer: only a place slot"}},
		{"place by choice", root(`{name: n, type: place, role: root, seed: Nairobi, source: {choice: [Lima]}}`), []string{"slot n: a place is drawn from the gazetteer, so that its country, box and coordinates move with it"}},
		{"unknown place", root(`{name: n, type: place, role: root, seed: Nairoby, source: {gazetteer: {kind: city}}}`), []string{`slot n: seed: "Nairoby" is not in the gazetteer`}},
		{"unknown kind", root(`{name: n, type: place, role: root, seed: Nairobi, source: {gazetteer: {kind: town}}}`), []string{`no place of kind "town" fits`}},
		{"unknown need", root(`{name: n, type: place, role: root, seed: Nairobi, source: {gazetteer: {kind: city, need: [river]}}}`), []string{`need "river" is none of admin, country, continent, sea, near`}},
		{"empty choice", root(`{name: n, type: count, role: root, seed: 7, source: {choice: []}}`), []string{"slot n: source"}},
		{"choice of another type", root(`{name: n, type: count, role: root, seed: 7, source: {choice: [1, two]}}`), []string{"slot n: source choice", "two is not a whole number"}},
		{"backward range", root(`{name: n, type: count, role: root, seed: 7, source: {range: {min: 2, max: 1, step: 1}}}`), []string{"min 2, max 1, step 1 are no finite grid"}},
		{"no step", root(`{name: n, type: number, role: root, seed: 7, source: {range: {min: 1, max: 2, step: 0}}}`), []string{"are no finite grid"}},
		{"too fine a range", root(`{name: n, type: number, role: root, seed: 7, source: {range: {min: 0, max: 1, step: 1e-10}}}`), []string{"are no finite grid"}},
		{"fraction of a count", root(`{name: n, type: count, role: root, seed: 7, source: {range: {min: 0, max: 1, step: 0.5}}}`), []string{"a count is a whole number, min and step must be too"}},
		{"range of texts", root(`{name: n, type: text, role: root, seed: x, source: {range: {min: 0, max: 1, step: 1}}}`), []string{"a text is not drawn from a range"}},
		{"seed value of another type", root(`{name: n, type: count, role: root, seed: seven, source: {choice: [1]}}`), []string{"slot n: seven is not a whole number"}},
		{"no seed value", root(`{name: n, type: count, role: root, source: {choice: [1]}}`), []string{"slot n", "is not a whole number"}},
		// Expressions: SLOT-4.
		{"syntax", derived("count", "n +"), []string{"slot d:", "unexpected token"}},
		{"undeclared slot", derived("count", "m + 1"), []string{"slot d: unknown name m"}},
		{"undeclared function", derived("count", "plus(n, 1)"), []string{"s: slot d: unknown name plus"}},
		{"no files", derived("text", `readFile("x")`), []string{"slot d: unknown name readFile"}},
		{"no clock", derived("text", `string(now())`), []string{"slot d: unknown name now"}},
		{"no map order", derived("count", `len(groupBy([1], # > 0))`), []string{"slot d: unknown name groupBy"}},
		{"wrong argument", derived("date", `shift(n, 1, 0)`), []string{"slot d:", "cannot use int as argument"}},
		{"unknown property", "slots:\n  - {name: p, type: place, role: root, seed: Nairobi, source: {gazetteer: {kind: city}}}\n  - {name: d, type: text, role: derived, expr: p.mayor}\noccurrences: []\n", []string{"slot d:", "no field mayor"}},
		{"too many nodes", derived("count", "1"+strings.Repeat(" + n", 300)), []string{"slot d:", "exceeds maximum allowed nodes"}},
		{"nested predicates", derived("count", `count([1], any([1], any([1], # == n)))`), []string{"slot d: predicates are nested 3 deep; at most 2"}},
		{"cycle", one + "  - {name: d, type: count, role: derived, expr: e + 1}\n  - {name: e, type: count, role: derived, expr: d + 1}\noccurrences: []\n", []string{"slots depend on each other: d → e → d"}},
		{"cycle of one", derived("count", "d + 1"), []string{"slots depend on each other: d → d"}},
		{"fails on the seed's values", derived("date", `shift("2020-02-29", 1, 0)`), []string{"slot d:", "no counterpart 1 years away"}},
		{"wrong type of result", derived("date", `"5 May"`), []string{"slot d: 5 May is not a date written YYYY-MM-DD"}},
		{"not finite", derived("number", `1 / 0`), []string{"slot d: +Inf is not a finite number"}},
		{"empty text", derived("text", `""`), []string{"slot d: the result is not a non-empty text"}},
		{"box with west after east", derived("bbox", `[3, 1, 2, 4]`), []string{"slot d:", "west < east and south < north"}},
		{"box of three", derived("bbox", `[1, 2, 3]`), []string{"slot d:", "west < east"}},
		{"box of words", derived("bbox", `["a", 1, 2, 3]`), []string{"slot d:", "is not a number"}},
		{"place by expression", derived("place", `"Lima"`), []string{"slot d: type place cannot be derived"}},
		{"observation of a number", derived("observation", `n`), []string{"slot d: the result is not an observation"}},
		{"was nowhere", derived("observation", `was("/steps/9/observation")`), []string{`was("/steps/9/observation"): the seed has no such place`}},
		// Occurrences.
		{"nowhere", at("  - {at: /steps/0/arguments/file_path, text: \"{n}\"}\n"), []string{"occurrence /steps/0/arguments/file_path: the seed has no such place"}},
		{"twice in one place", at("  - {at: /query, text: \"{n}\"}\n  - {at: /query, text: \"{n}!\"}\n"), []string{"occurrence /query is given twice"}},
		{"text and slot", at(`  - {at: /query, text: "{n}", slot: n}
`), []string{"occurrence /query: give text or slot"}},
		{"neither", at(`  - {at: /query}
`), []string{"occurrence /query: give text or slot"}},
		{"tool", at(`  - {at: /steps/0/tool, text: "tool{n}"}
`), []string{"occurrence /steps/0/tool: tools and ids are fixed"}},
		{"id", at(`  - {at: /id, text: "s{n}"}
`), []string{"occurrence /id: tools and ids are fixed"}},
		{"seed id", at(`  - {at: /seed_id, text: "s{n}"}
`), []string{"tools and ids are fixed"}},
		{"S2 unknown slot", at(`  - {at: /query, text: "How {warm}?"}
`), []string{`occurrence /query: unknown slot "warm" in template "How {warm}?"`}},
		{"S2 empty slot", at(`  - {at: /query, text: "How {}?"}
`), []string{"occurrence /query", "is not a slot name"}},
		{"unknown whole slot", at(`  - {at: /steps/2/observation, slot: m}
`), []string{`occurrence /steps/2/observation: unknown slot "m"`}},
		{"template for a number", at(`  - {at: /steps/2/observation, text: "{n}"}
`), []string{"a text template needs a string, the seed has number"}},
		{"format", at(`  - {at: /query, text: "{n:.2f}"}
`), []string{"{n:.2f}: a whole number's format is like 04d"}},
		{"date format", one + "  - {name: d, type: date, role: derived, expr: '\"2020-02-05\"'}\noccurrences:\n  - {at: /query, text: \"{d:%H}\"}\n", []string{"{d:%H}: date layout"}},
		{"number format", one + "  - {name: d, type: number, role: derived, expr: '1.5'}\noccurrences:\n  - {at: /query, text: \"{d:.99f}\"}\n", []string{"{d:.99f}: a number's format is like .2f"}},
		{"place style", "slots:\n  - {name: p, type: place, role: root, seed: Nairobi, source: {gazetteer: {kind: city}}}\noccurrences:\n  - {at: /query, text: \"{p:loud}\"}\n", []string{"{p:loud}:"}},
		{"observation in text", one + "  - {name: d, type: observation, role: derived, expr: 'was(\"/steps/2/observation\")'}\noccurrences:\n  - {at: /query, text: \"{d}\"}\n", []string{"a observation slot cannot stand inside text"}},
	} {
		p, err := ParseProgram([]byte("program: 1\nseed: s\nseed_hash: "+HashSeed(seed)+"\norigin: test\n"+test.program+"answer: none\n"), "p.yaml")
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		_, err = Compile(p, seed, arithmetic{})
		wantError(t, test.name, err, append(test.want, "slot program s: ")...)
		if !errors.Is(err, ErrProgram) {
			t.Errorf("%s: %v is no ErrProgram", test.name, err)
		}
	}

	p := programOf(t, seed, at(`  - {at: /query, text: "How warm {n}?"}
`))
	p.SeedHash = "sha256:0"
	_, err := Compile(p, seed, arithmetic{})
	wantError(t, "stale seed", err, "it was made for another version of the seed (sha256:0", "discover it again")
	p.Seed = "other"
	_, err = Compile(p, seed, arithmetic{})
	wantError(t, "other seed", err, `it is for seed "other", not "s"`)
	p = programOf(t, seed, at(`  - {at: /query, text: "How warm {n}?"}
`))
	for len(p.Slots) <= maxSlots {
		p.Slots = append(p.Slots, p.Slots[0])
	}
	_, err = Compile(p, seed, arithmetic{})
	wantError(t, "too many slots", err, "5001 slots; at most 5000")
}

// The limits hold while an expression runs: it ends with an error, in time and
// within memory, whatever it does.
func TestExpressionLimits(t *testing.T) {
	seed := seedOf(t, smallQuery, smallSteps(), "")
	for _, test := range []struct{ name, typ, expr, want string }{
		{"memory", "count", `len(1..200000)`, "memory budget exceeded"},
		{"memory of a text", "text", `repeat("a", 200000)`, "memory budget exceeded"},
		{"long text", "text", `repeat("a", 70000)`, "a non-empty text of at most 65536 bytes"},
		{"long list between", "count", `let x = map(1..20000, # + n); len(x)`, "a list of 20000 items; at most 10000"},
		{"doubling by reduce", "text", `reduce(1..60, #acc + #acc, "a")`, "a text of 131072 bytes; at most 65536"},
		{"doubling by let", "text", strings.Repeat("let x = ", 0) + doubling(40), "bytes; at most 65536"},
		{"join", "text", `join(map(1..9000, repeat("a", 9)), "bbbbbbbb")`, "a text of"},
		{"replace", "text", `replace(repeat("a", 9000), "a", repeat("b", 9000))`, "bytes; at most 65536"},
		{"split", "count", `len(split(repeat("a", 70000), ""))`, "a text of 70000 bytes; at most 65536"},
		{"join of numbers", "text", `join(map(1..3, # + n), "-")`, "join: item 0 is int, not a text"},
		{"string of a list", "text", `string([n])`, "string: []interface {} is neither number nor text"},
		{"time", "count", `let x = map(1..9000, # + n); count(x, count(x, # == -1) > 0)`, "takes longer than 1s"},
	} {
		p := programOf(t, seed, "slots:\n  - {name: n, type: count, role: root, seed: 7, source: {choice: [8]}}\n  - {name: d, type: "+test.typ+", role: derived, expr: '"+test.expr+"'}\noccurrences: []\n")
		_, err := Compile(p, seed, arithmetic{})
		wantError(t, test.name, err, "slot d:", test.want)
	}
}

// doubling is a chain of n variables, each twice the one before.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`let a = "x"; `)
	last := "a"
	for i := range n {
		next := "a" + strings.Repeat("b", i+1)
		b.WriteString("let " + next + " = " + last + " + " + last + "; ")
		last = next
	}
	return b.String() + last
}

func TestExpressionHelpers(t *testing.T) {
	seed := seedOf(t, smallQuery, smallSteps(), "")
	for _, test := range []struct{ typ, expr, want string }{
		{"date", `shift("2020-02-05", -3, 0)`, "2017-02-05"},
		{"date", `shift("2020-12-30", 1, 3)`, "2022-01-02"},
		{"date", `shift("2020-02-29", 4, 0)`, "2024-02-29"},
		{"date", `addMonths("2020-01-31", 1)`, "2020-02-29"},
		{"date", `addMonths("2020-11-30", 3)`, "2021-02-28"},
		{"date", `addMonths("2020-01-15", -13)`, "2018-12-15"},
		{"date", `addDays("2020-02-28", 2)`, "2020-03-01"},
		{"count", `daysBetween("2020-02-28", "2020-03-01")`, "2"},
		{"count", `daysBetween("2020-03-01", "2019-03-01")`, "-366"},
		{"count", `year("2020-02-28") + month("2020-02-28")`, "2022"},
		{"count", `dayOfYear("2020-12-31")`, "366"},
		{"text", `formatDate("2020-02-05", "%B %-d")`, "February 5"},
		{"text", `title("île de la réunion")`, "Île De La Réunion"},
		{"text", `pad(n, 3) + pad(1234, 3)`, "0071234"},
		{"number", `round(2.345, 2)`, "2.35"},
		{"number", `round(n, 0)`, "7"},
		{"number", `clamp(n, 1, 5.5)`, "5.5"},
		{"number", `clamp(-2, 1, 5.5)`, "1"},
		{"bbox", `bboxAround(0, 60, 111.32)`, "[-2 59 2 61]"},
		{"bbox", `[p.lon, p.lat, p.lon + 1, p.lat + 1]`, "[36.82 -1.29 37.82 -0.29000000000000004]"},
		{"number", `round(distanceKm(0, 0, 0, 90), 1)`, "10007.6"},
		{"number", `round(distanceKm(13.4, 52.5, 2.35, 48.86), 0)`, "876"},
		{"text", `p.name + ", " + p.country + ", " + p.continent`, "Nairobi, Kenya, Africa"},
		{"number", `num(was("/steps/1/observation/1"))`, "293.25"},
		{"text", `word("north") + word(was("/steps/0/tool"))`, "northget_filelist"},
		{"text", `ranking(["A", "B", "C"], [2, n, 2.0])`, "B > A = C"},
		{"text", `ranking(["C", "B", "A"], [-1, -1, was("/steps/1/observation/1")])`, "A > C = B"},
		{"observation", `vary(was("/steps/1/observation"), 1, 0.5)`, "[292.0,293.75]"},
		{"text", `replace(upper("a b"), " ", "_") + join(split("x-y", "-"), "+") + string(1.50) + string(n) + string(true)`, "A_Bx+y1.57true"},
		{"count", `count([1, 2, n], # > 1)`, "2"},
		{"count", `reduce([1, 2, n], #acc + #, 0)`, "10"},
		{"count", `let double = n * 2; double + 1`, "15"},
		{"count", `sum(map(p.bbox, int(#))) > 1000 ? 1 : 2`, "2"},
	} {
		p := programOf(t, seed, "slots:\n  - {name: n, type: count, role: root, seed: 7, source: {choice: [8]}}\n  - {name: p, type: place, role: root, seed: Nairobi, source: {gazetteer: {kind: city}}}\n  - {name: d, type: "+test.typ+", role: derived, expr: '"+test.expr+"'}\noccurrences: []\n")
		c, err := Compile(p, seed, arithmetic{})
		if err != nil {
			t.Errorf("%s: %v", test.expr, err)
			continue
		}
		if got := show(c.seedVals[2]); got != test.want {
			t.Errorf("%s is %s, want %s", test.expr, got, test.want)
		}
	}
	for expr, want := range map[string]string{
		`shift("2019-02-29", 1, 0)`: "is not a date written YYYY-MM-DD", `addMonths("x", 1)`: "is not a date", `addDays("2020-1-1", 1)`: "is not a date", `formatDate("2020-01-01", "%H")`: "date layout",
		`string(daysBetween("2020-01-01", "x"))`: "is not a date", `pad(1, 40)`: "width 40 is not between 0 and 32", `string(round(1, 20))`: "20 decimals is not between 0 and 15",
		`string(num(was("/query")))`: "is not a number", `string(clamp(1, "a", 2))`: "is not a number", `string(distanceKm(1, 2, 3, "x"))`: "is not a number", `string(bboxAround("a", 1, 1)[0])`: "is not a number",
		`word(n)`: "is not a text", `word(was("/steps/1/observation"))`: "is not a text", `ranking(["A"], [1, 2])`: "1 names for 2 numbers", `ranking([], [])`: "0 names for 0 numbers",
		`ranking(["A", 1], [1, 2])`: "item 1 is no name with a number", `ranking(["A"], ["x"])`: "item 0 is no name with a number",
		`string(num(vary(n, 1, 0)))`: "vary: the first argument is an observation", `string(num(observed(0, "")))`: "",
	} {
		p := programOf(t, seed, "slots:\n  - {name: n, type: count, role: root, seed: 7, source: {choice: [8]}}\n  - {name: d, type: text, role: derived, expr: '"+expr+"'}\noccurrences: []\n")
		c, err := Compile(p, seed, arithmetic{})
		if want == "" { // read after the steps: no list is a number then
			if err == nil {
				v := c.Draw(rngOf(1))
				_, err = c.Instance(v, arithmetic{})
			}
			want = "is not a number"
		}
		wantError(t, expr, err, want)
	}
}
