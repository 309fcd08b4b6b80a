package slots

import (
	"strings"
	"testing"
	"time"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// S1, SLOT-13: a slot value is inserted literally and once, whatever it holds.
func TestS1SlotValuesAreInsertedLiterally(t *testing.T) {
	seed := seedOf(t, "Find each ship and each boat.", step("SM3Det", `{"text_prompt":"ship"}`, `"none"`), "")
	for _, value := range []string{"{other}", "{what}", "{{what}}", "}", "%Y", `a "quoted" \ text`, "<think>", "$1", "{place_2}"} {
		p := programOf(t, seed, `slots:
  - {name: what, type: text, role: root, seed: ship, source: {choice: [x]}}
  - {name: other, type: text, role: root, seed: boat, source: {choice: [raft]}}
occurrences:
  - {at: /query, text: "Find each {what} and each {other}."}
  - {at: /steps/0/arguments/text_prompt, text: "{what}"}
`)
		p.Slots[0].Source.Choice = []any{value}
		in, _ := sample(t, compile(t, p, seed, arithmetic{}), arithmetic{}, 1)
		if want := "Find each " + value + " and each raft."; in.Query != want {
			t.Errorf("query %q, want %q", in.Query, want)
		}
		if got := in.Steps[0].Arguments.Get("text_prompt").Text(); got != value {
			t.Errorf("argument %q, want %q", got, value)
		}
	}
}

// S2: what an occurrence leaves out cannot reach a row: no placeholder remains.
func TestS2NoPlaceholderRemains(t *testing.T) {
	for _, seed := range sampleSeeds(t) {
		c := discovered(t, seed, arithmetic{})
		for k := range uint64(3) {
			in, _ := sample(t, c, arithmetic{}, k)
			text := in.Value().JSON()
			for _, s := range c.Program.Slots {
				if strings.Contains(text, "{"+s.Name) {
					t.Errorf("%s: {%s} is in the instance", seed.ID, s.Name)
				}
			}
		}
	}
}

// SLOT-1: Compose(Decompose(z)) is z, byte for byte.
func TestSeedValuesRestoreTheSeed(t *testing.T) {
	for _, seed := range append(sampleSeeds(t), realSeeds(t)...) {
		p, err := Discover(seed, arithmetic{})
		if err != nil {
			t.Errorf("%s: %v", seed.ID, err)
			continue
		}
		c := compile(t, p, seed, arithmetic{}).recorded()
		v, err := c.SeedValues()
		if err != nil {
			t.Fatal(err)
		}
		in, err := c.instance(v, nothing{}, false)
		if err != nil {
			t.Errorf("%s: %v", seed.ID, err)
			continue
		}
		in.ID, in.SeedID, in.Source, in.Answer, in.Slots, in.Provenance = seed.ID, seed.SeedID, seed.Source, seed.Answer, seed.Slots, seed.Provenance
		for i := range in.Steps {
			in.Steps[i].Uses = seed.Steps[i].Uses // the analysis, which seeds do not carry
		}
		if a, b := seed.Value().JSON(), in.Value().JSON(); a != b {
			i := 0
			for i < len(a) && i < len(b) && a[i] == b[i] {
				i++
			}
			t.Errorf("%s differs at byte %d: %.100s, want %.100s", seed.ID, i, b[max(0, i-20):], a[max(0, i-20):])
		}
	}
}

// SLOT-6, SLOT-15: a changed observation reaches every later argument, and pure
// tools are run again on it.
func TestChangesPropagate(t *testing.T) {
	steps := step("calc_batch_image_mean", `{"file_list":["a.tif","b.tif"]}`, "[10.5,12.5]") + "," +
		step("mean", `{"x":[10.5,12.5]}`, "11.5") + "," +
		step("difference", `{"a":12.5,"b":"11.5"}`, "1.0") + "," +
		step("threshold", `{"threshold":17.25}`, "3.25")
	seed := seedOf(t, "q", steps, `,"answer":{"text":"It is 1.0 K."}`)
	p := programOf(t, seed, `slots:
  - {name: scale, type: number, role: root, seed: 1, source: {choice: [2]}}
  - {name: o, type: observation, role: derived, expr: 'vary(was("/steps/0/observation"), scale, 0)'}
  - {name: result, type: number, role: derived, expr: 'round(num(observed(2, "")), 1)'}
occurrences:
  - {at: /steps/0/observation, slot: o}
  - {at: /answer/text, text: "It is {result:.1f} K."}
answer: derived
`)
	in, _ := sample(t, compile(t, p, seed, arithmetic{}), arithmetic{}, 1)
	for i, want := range []string{"[21.0,25.0]", "23.0", "2.0", "3.25"} {
		if got := in.Steps[i].Observation.JSON(); got != want {
			t.Errorf("observation %d is %s, want %s", i, got, want)
		}
	}
	for i, want := range []string{"", `{"x":[21.0,25.0]}`, `{"a":25.0,"b":"23.0"}`, `{"threshold":34.5}`} { // 1.5 · 23
		if got := in.Steps[i].Arguments.JSON(); want != "" && got != want {
			t.Errorf("arguments %d are %s, want %s", i, got, want)
		}
	}
	if got := in.Answer.JSON(); got != `{"text":"It is 2.0 K."}` {
		t.Errorf("answer %s", got)
	}
	if got := in.Slots.JSON(); got != `{"scale":2.0}` {
		t.Errorf("slots %s", got)
	}
	if u := in.Steps[1].Uses; len(u) != 1 || u[0].From != 0 || u[0].Transform != identity {
		t.Errorf("edges %+v", u)
	}
}

// What an edge carries keeps the seed's kind and manner of writing.
func TestCarry(t *testing.T) {
	for _, test := range []struct{ transform, observed, like, want string }{
		{identity, "12.5", "10.5", "12.5"}, {identity, "12.50", "10.5", "12.50"}, {identity, "7", "3", "7"},
		{asText, "12.5", `"10.5"`, `"12.5"`}, {asText, "12.5", `"3.7440"`, `"12.5000"`}, {asText, "12.25", `"3.7"`, `"12.25"`}, {asText, "12.5", `"10.5%"`, `"12.5%"`},
		{asText, `"12.5%"`, `"10.5"`, `"12.5"`}, {asText, `"12.5%"`, `"10.5%"`, `"12.5%"`},
		{asNumber, `"12.50%"`, "10.5", "12.50"}, {asNumber, `"7"`, "10", "7"},
		{"round:2", "3.14159", "2.72", "3.14"}, {"round:1", "3.0", "2.7", "3.0"},
		{"scale:1.5", "0.28", "0.3", "0.42"}, {"scale:1.1", "0.3", "0.22", "0.33"}, {"scale:0.5", "7", "1.5", "3.5"},
		{"parse:/0/1", `"[[324.6, 12.50]]"`, "3.5", "12.50"}, {"parse:/", `"(7)"`, "3", ""}, {"parse:/0", `"[7]"`, `"3"`, `"7"`},
		{"parse:/0", `"nothing"`, "3", ""}, {"parse:/5", `"[7]"`, "3", ""}, {identity, `"text"`, "3", ""}, {"scale:x", "1.5", "3.5", ""}, {identity, "[1]", "3", ""}, {identity, "null", "3", ""},
	} {
		v, err := carry(test.transform, parse(t, test.observed), parse(t, test.like))
		if test.want == "" {
			wantError(t, test.transform+" "+test.observed, err, "transform "+test.transform+" does not apply to")
		} else if err != nil || v.JSON() != test.want {
			t.Errorf("%s of %s, like %s: %s, %v; want %s", test.transform, test.observed, test.like, v.JSON(), err, test.want)
		}
	}
}

// Where the seed's own record of a pure tool is wrong, instances have the right
// value, and what was taken from the record follows it.
func TestWrongRecordsAreCorrected(t *testing.T) {
	steps := step("calc_batch_image_mean", `{"file_list":["a.tif"]}`, "[10.5,12.5]") + "," +
		step("mean", `{"x":[10.5,12.5]}`, `[99.75]`) + "," + // wrong, and of another shape
		step("difference", `{"a":99.75,"b":12.5}`, "87.25")
	seed := seedOf(t, "q", steps, `,"answer":{"letter":"A","text":"99.75"}`)
	c := discovered(t, seed, arithmetic{})
	if n, wrong := c.Computed(); n != 2 || len(wrong) != 1 || wrong[0].Step != 1 || wrong[0].Tool != "mean" || wrong[0].Right.JSON() != "11.5" || !hasNote(c.Program, "step 1: mean returns 11.5, the seed records [99.75]") {
		t.Errorf("%d computed, wrong %+v, notes %q", n, wrong, c.Program.Notes)
	}
	in, _ := sample(t, c, arithmetic{}, 3)
	mean := in.Steps[1].Observation
	if mean.Kind() != strictjson.Number || !in.Steps[2].Arguments.Get("a").Equal(mean) {
		t.Errorf("the mean is %s, the next argument %s", mean.JSON(), in.Steps[2].Arguments.JSON())
	}
	if got := in.Answer; !got.Get("letter").IsAbsent() {
		t.Errorf("the answer keeps the letter of choices that are gone: %s", got.JSON())
	}
}

// A record is wrong where some number of it is nowhere near in the tool's output.
func TestDisagrees(t *testing.T) {
	for _, test := range []struct {
		recorded, own string
		want          bool
	}{
		{"11.5", "11.5", false}, {"11.6", "11.5", false}, {"12.5", "11.5", true}, {"-11.5", "11.5", true}, {`"11.5"`, "11.5", false}, {`"11.50%"`, "11.5", false},
		{"0.12", "[0.12,1.9]", false}, {`{"slope":0.12,"intercept":1.9}`, "[0.12,1.9]", false}, {"[0.12,3.0]", "[0.12,1.9]", true},
		{`["no trend",0.5]`, `["no trend",0.5,1.0]`, false}, {`"increasing"`, `"increasing"`, false}, {`"increasing"`, `"none"`, true}, {"[]", "[1]", true},
	} {
		if got := disagrees(parse(t, test.recorded), parse(t, test.own)); got != test.want {
			t.Errorf("recorded %s, returned %s: wrong is %v, want %v", test.recorded, test.own, got, test.want)
		}
	}
	if disagrees(strictjson.Value{}, parse(t, "1")) {
		t.Error("a missing record is wrong")
	}
}

// D4: what an argument is as JSON stays: 1.0, 1, "1" and true are four things,
// also where slots and edges give the values.
func TestD4ArgumentsKeepTheirKind(t *testing.T) {
	steps := step("f", `{"a":1.0,"b":1,"c":"1","d":true,"e":1.50,"f":9007199254740993,"g":null}`, "[305.50,7]") + "," +
		step("g", `{"x":305.50,"y":"305.5","threshold":305.50}`, "3.25")
	seed := seedOf(t, "Above 305.50 K in question7?", steps, `,"inputs":{"data_path":"question7"}`)
	c := discovered(t, seed, arithmetic{})
	in, _ := sample(t, c, arithmetic{}, 2)
	if got, want := in.Steps[0].Arguments.JSON(), seed.Steps[0].Arguments.JSON(); got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
	for key, kind := range map[string]strictjson.Kind{"x": strictjson.Number, "y": strictjson.String, "threshold": strictjson.Number} {
		if v := in.Steps[1].Arguments.Get(key); v.Kind() != kind || v.IsInteger() {
			t.Errorf("%s is %s", key, v.JSON())
		}
	}
	if whole := in.Steps[0].Observation.Index(1); !whole.IsInteger() {
		t.Errorf("a whole number became %s", whole.JSON())
	}
}

// SLOT-9: dates move together and keep order, count, cadence and spelling.
func TestDatesMoveTogether(t *testing.T) {
	list := `["A_avg_rad_2013-01-01.tif","A_avg_rad_2014-01-01.tif","A_avg_rad_2015-01-01.tif"]`
	seed := seedOf(t, "How did the night lights change from 2013 to 2015, between January 1, 2013 and 01 Jan 2015?", step("get_filelist", `{"dir_path":"d"}`, list)+","+
		step("trend", `{"x":[2013,2014,2015],"output_path":"t_20130101.tif"}`, "0.5"), "")
	c := discovered(t, seed, arithmetic{})
	in, v := sample(t, c, arithmetic{}, 1)
	years := v[c.slotAt["years"]].(int)
	if years == 0 {
		t.Fatal("the dates did not move")
	}
	at := func(y int) string { return time.Date(y+years, 1, 1, 0, 0, 0, 0, time.UTC).Format("2006") }
	for _, test := range []struct{ got, want string }{
		{in.Query, "How did the night lights change from " + at(2013) + " to " + at(2015) + ", between January 1, " + at(2013) + " and 01 Jan " + at(2015) + "?"},
		{in.Steps[0].Observation.Index(2).Text(), "A_avg_rad_" + at(2015) + "-01-01.tif"},
		{in.Steps[1].Arguments.Get("x").JSON(), "[" + at(2013) + "," + at(2014) + "," + at(2015) + "]"},
		{in.Steps[1].Arguments.Get("output_path").Text(), "t_" + at(2013) + "0101.tif"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}

// A place moves with whatever is said about it, in the spelling of each file.
func TestPlacesMoveTogether(t *testing.T) {
	list := `["Lake_Tana_2020-01-05.tif","lake tana-Ethiopia_2020-01-06.tif","LakeTana_2020-01-07.tif"]`
	seed := seedOf(t, "How much did Lake Tana in Ethiopia, Africa, shrink?", step("get_filelist", `{"dir_path":"d"}`, list)+","+
		step("f", `{"p":["d/Lake_Tana_2020-01-05.tif"]}`, "1.5"), "")
	c := discovered(t, seed, arithmetic{})
	for k := range uint64(8) {
		in, v := sample(t, c, arithmetic{}, k)
		p := v[c.slotAt["place1"]].(gazetteer.Place)
		if p.Kind != gazetteer.Lake || p.Name == "Lake Tana" {
			t.Fatalf("drawn %+v", p)
		}
		if !strings.Contains(in.Query, p.Name) || !strings.Contains(in.Query, p.Country) || !strings.Contains(in.Query, p.Continent) {
			t.Errorf("%s, %s, %s in %q", p.Name, p.Country, p.Continent, in.Query)
		}
		under := strings.ReplaceAll(p.Name, " ", "_")
		if got := in.Steps[0].Observation.Index(0).Text(); !strings.HasPrefix(got, under+"_20") {
			t.Errorf("%s: first file %q", p.Name, got)
		}
		country := strings.ReplaceAll(p.Country, " ", "_") // one word in the seed: the file's joint decides
		if got := in.Steps[0].Observation.Index(1).Text(); !strings.HasPrefix(got, strings.ToLower(p.Name)+"-"+country+"_20") {
			t.Errorf("%s: second file %q", p.Name, got)
		}
		if got, want := in.Steps[1].Arguments.Get("p").Index(0).Text(), "d/"+in.Steps[0].Observation.Index(0).Text(); got != want {
			t.Errorf("argument %q, want %q", got, want)
		}
		if strings.Contains(strings.ToLower(in.Value().JSON()), "tana") {
			t.Errorf("the old name is in %s", in.Value().JSON())
		}
	}
}

// SLOT-10: file names keep their grammar: glued extensions, clock times, bands.
func TestFileNamesKeepTheirGrammar(t *testing.T) {
	list := `["Taklamakan.tif_2020-02-23_0550_Emis31.tif","Taklamakan.tif_2020-02-23_0550_Emis32.tif","2020_02_23_0550_BT_31.tif"]`
	seed := seedOf(t, "Retrieve the temperature of the Taklamakan desert on 2020-02-23.", step("get_filelist", `{"dir_path":"d"}`, list), "")
	c := discovered(t, seed, arithmetic{})
	in, v := sample(t, c, arithmetic{}, 2)
	files := in.Steps[0].Observation
	place, date, ok := strings.Cut(files.Index(0).Text(), ".tif_")
	if want := gazetteer.Restyle(v[c.slotAt["place1"]].(gazetteer.Place).Name, gazetteer.Style{}); !ok || strings.ReplaceAll(place, "_", " ") != want {
		t.Errorf("place %q of %q, want %q", place, files.Index(0).Text(), want)
	}
	day, rest, _ := strings.Cut(date, "_")
	if rest != "0550_Emis31.tif" || files.Index(1).Text() != place+".tif_"+day+"_0550_Emis32.tif" || files.Index(2).Text() != strings.ReplaceAll(day, "-", "_")+"_0550_BT_31.tif" {
		t.Errorf("files %s", files.JSON())
	}
}

// SLOT-14: a question about pictures has neither place nor date and makes
// distinct instances all the same.
func TestPicturesVary(t *testing.T) {
	for _, seed := range sampleSeeds(t) {
		if seed.Domain != "rgb" {
			continue
		}
		c := discovered(t, seed, arithmetic{})
		seen := map[string]bool{}
		for k := range uint64(10) {
			in, _ := sample(t, c, arithmetic{}, k)
			seen[in.Value().JSON()] = true
		}
		if len(seen) != 10 {
			t.Errorf("%s: %d distinct instances of 10", seed.ID, len(seen))
		}
	}
}

// Compiled is safe for concurrent use and draws the same from the same stream.
func TestInstancesAreReproducible(t *testing.T) {
	seed := sampleSeeds(t)[3]
	c := discovered(t, seed, arithmetic{})
	got := make(chan string)
	for range 4 {
		go func() {
			v := c.Draw(rngOf(9))
			in, err := c.Instance(v, arithmetic{})
			if err != nil {
				got <- err.Error()
				return
			}
			got <- in.Value().JSON()
		}()
	}
	v := c.Draw(rngOf(9))
	first, err := c.Instance(v, arithmetic{})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if s := <-got; s != first.Value().JSON() {
			t.Errorf("made at the same time: %.200s\nalone: %.200s", s, first.Value().JSON())
		}
	}
}

// Every type of root slot can be drawn from a choice and is recorded.
func TestRootsOfEveryType(t *testing.T) {
	seed := seedOf(t, "Above 0.5 on 2020-01-05, ship, 7 at 2?", step("f", `{"bbox":[1.5,2,3.5,4],"n":7,"x":0.5,"d":"2020-01-05"}`, "1.5"), "")
	p := programOf(t, seed, `slots:
  - {name: box, type: bbox, role: root, seed: [1.5, 2, 3.5, 4], source: {choice: [[5, 6, 7.5, 8]]}}
  - {name: n, type: count, role: root, seed: 7, source: {choice: [9]}}
  - {name: x, type: number, role: root, seed: 0.5, source: {choice: [1]}}
  - {name: d, type: date, role: root, seed: 2020-01-05, source: {choice: [2021-02-06]}}
  - {name: what, type: text, role: root, seed: ship, source: {choice: [boat]}}
occurrences:
  - {at: /query, text: "Above {x} on {d}, {what}, {n} at 2?"}
  - {at: /steps/0/arguments/bbox, slot: box}
  - {at: /steps/0/arguments/n, slot: n}
  - {at: /steps/0/arguments/x, slot: x}
  - {at: /steps/0/arguments/d, slot: d}
`)
	c := compile(t, p, seed, arithmetic{})
	in, _ := sample(t, c, arithmetic{}, 1)
	if got, want := in.Steps[0].Arguments.JSON(), `{"bbox":[5.0,6.0,7.5,8.0],"n":9,"x":1.0,"d":"2021-02-06"}`; got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
	if want := "Above 1 on 2021-02-06, boat, 9 at 2?"; in.Query != want {
		t.Errorf("query %q, want %q", in.Query, want)
	}
	if got, want := in.Slots.JSON(), `{"box":[5.0,6.0,7.5,8.0],"n":9,"x":1.0,"d":"2021-02-06","what":"boat"}`; got != want {
		t.Errorf("slots %s, want %s", got, want)
	}
	same, err := c.recorded().instance(append(Values(nil), c.seedVals...), nothing{}, false)
	if err != nil || same.Steps[0].Arguments.JSON() != seed.Steps[0].Arguments.JSON() || same.Query != seed.Query {
		t.Errorf("restored: %s, %v", same.Steps[0].Arguments.JSON(), err)
	}
}

// A program may not fail quietly: what cannot be composed is an error with the
// step and the slot.
func TestCompositionErrors(t *testing.T) {
	seed := seedOf(t, "q 2020-02-29", step("mean", `{"x":[1.5,2.5]}`, "2.0")+","+step("difference", `{"a":2.0,"b":1.0}`, "1.0"), `,"answer":{"text":"1.0"}`)
	for _, test := range []struct{ name, program, want string }{
		{"no such date", `slots:
  - {name: years, type: period, role: root, seed: 0, source: {choice: [1]}}
  - {name: d, type: date, role: derived, expr: 'shift("2020-02-29", years, 0)'}
occurrences:
  - {at: /query, text: "q {d}"}
`, "slot d: 2020-02-29 has no counterpart 1 years away"},
		{"argument of another kind", `slots:
  - {name: t, type: text, role: root, seed: x, source: {choice: [y]}}
occurrences:
  - {at: /steps/0/arguments/x, slot: t}
`, "step 0 (mean): recomputing"},
		{"observed nowhere", `slots:
  - {name: n, type: number, role: root, seed: 1, source: {choice: [2]}}
  - {name: r, type: number, role: derived, expr: 'num(observed(1, "/a"))'}
occurrences:
  - {at: /answer/text, text: "{r}"}
`, `observed(1, "/a"): nothing there`},
		{"observed a later step", `slots:
  - {name: n, type: number, role: root, seed: 1, source: {choice: [2]}}
  - {name: r, type: number, role: derived, expr: 'num(observed(7, ""))'}
occurrences:
  - {at: /answer/text, text: "{r}"}
`, "observed(7, …): the trajectory has steps 0 to 1"},
		{"place as a whole value", `slots:
  - {name: p, type: place, role: root, seed: Lima, source: {gazetteer: {kind: city}}}
occurrences:
  - {at: /answer/text, slot: p}
`, "slot p: a place cannot be a whole value"},
	} {
		p := programOf(t, seed, test.program)
		p.Answer = AnswerDerived
		c := compile(t, p, seed, numericOnly{})
		_, err := c.Instance(c.Draw(rngOf(1)), numericOnly{})
		wantError(t, test.name, err, test.want)
	}
}

// numericOnly is arithmetic that refuses what is no list of numbers.
type numericOnly struct{ arithmetic }

func (n numericOnly) Call(tool string, args strictjson.Value) (strictjson.Value, error) {
	if x := args.Get("x"); tool == "mean" && x.Kind() != strictjson.Array {
		return strictjson.Value{}, data.ErrNotFound
	}
	return n.arithmetic.Call(tool, args)
}
