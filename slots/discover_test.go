package slots

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/slots/gazetteer"
)

// discover returns the program that analysis finds; it must pass lint.
func discover(t *testing.T, seed *data.Trajectory) *Program {
	t.Helper()
	return discovered(t, seed, arithmetic{}).Program
}

func listing(names ...string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return step("get_filelist", `{"dir_path":"benchmark/data/question7"}`, "["+strings.Join(quoted, ",")+"]")
}

// choices are the values a root slot is drawn from.
func choices(p *Program, name string) []any {
	if s := p.slot(name); s != nil && s.Source != nil {
		return s.Source.Choice
	}
	return nil
}

func hasNote(p *Program, part string) bool {
	return slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, part) })
}

func TestDiscoverDates(t *testing.T) {
	for _, test := range []struct {
		name, query, files string
		days               bool                   // may days move too
		years              func(years []any) bool // what the choice of years must be
		why                string
	}{
		{"single days move by days too", "Difference between July 12, 2022 and July 14, 2022?", "a_2022-07-12.tif a_2022-07-14.tif", true, nil, ""},
		{"a month's name pins the days", "Mean of July 2022, from 2022-07-01 to 2022-07-31?", "a_2022-07-01.tif a_2022-07-31.tif", false, nil, ""},
		{"a month in a file name does", "Difference of 2022-07-12 and 2022-07-14?", "a_2022-07-12_july.tif a_2022-07-14.tif", false, nil, ""},
		{"a season does", "Mean of the summer, 2022-07-12 to 2022-07-14?", "a_2022-07-12.tif a_2022-07-14.tif", false, nil, ""},
		{"a bare year does", "Mean of 2022, from 2022-07-12 to 2022-07-14?", "a_2022-07-12.tif a_2022-07-14.tif", false, nil, ""},
		{"many days stay in their months", "All scenes?", "2022_07_01.tif 2022_07_02.tif 2022_07_03.tif 2022_07_04.tif 2022_07_05.tif 2022_07_06.tif 2022_07_07.tif", false, nil, ""},
		{"a leap day needs leap years", "On 2020-02-29?", "a_2020-02-29.tif", false, func(y []any) bool { return everyMultiple(y, 4) && len(y) == 5 }, ""},
		{"16-day composites keep their day of year", "NDVI over the growing seasons?", "NDVI_2019-03-06.tif NDVI_2019-03-22.tif NDVI_2019-04-07.tif NDVI_2019-04-23.tif", false, func(y []any) bool { return everyMultiple(y, 4) }, ""},
		{"MODIS begins in 2000", "LST of 2003?", "a_2003_LST.tif", false, func(y []any) bool {
			return slices.Contains(y, any(-2)) && !slices.Contains(y, any(-3)) && slices.Contains(y, any(22)) && !slices.Contains(y, any(23))
		}, ""},
		{"night lights begin in 2012", "Nighttime lights of 2014-06-01?", "a_avg_rad_2014-06-01.tif", true, func(y []any) bool { return slices.Contains(y, any(-2)) && !slices.Contains(y, any(-3)) }, ""},
		{"Sentinel-2 begins in 2015", "Sentinel-2 scene of 2017-08-01?", "a_2017-08-01.tif", true, func(y []any) bool { return slices.Contains(y, any(-2)) && !slices.Contains(y, any(-3)) }, ""},
		{"built-up volume comes every five years", "built_volume of 2000 and 2010?", "a_built_volume_total_2000.tif a_built_volume_total_2010.tif", false, func(y []any) bool {
			return everyMultiple(y, 5) && slices.Contains(y, any(-20)) && slices.Contains(y, any(15))
		}, ""},
		{"days keep to the record too", "LST of December 23, 2022?", "a_2022-12-23.tif", true, func(y []any) bool { return slices.Contains(y, any(2)) && !slices.Contains(y, any(3)) }, ""}, // 12 days later is 2026
		{"at its beginning", "LST of 2003-03-05?", "a_2003-03-05.tif", true, func(y []any) bool { return slices.Contains(y, any(-2)) && !slices.Contains(y, any(-3)) }, ""},
		{"days stay where years can move only without", "Night lights of 2012-05-03 and 2025-12-28?", "a_avg_rad_2012-05-03.tif a_avg_rad_2025-12-28.tif", false, func(y []any) bool { return len(y) == 0 }, "dates stay"},
		{"the narrowest of several records counts", "avg_rad beside built_volume of 2015 and 2020?", "a_avg_rad_2015.tif a_built_volume_total_2020.tif", false, func(y []any) bool { return len(y) == 1 && y[0] == any(5) }, ""},
		{"no other place in the record", "built_volume from 1980 to 2025?", "a_built_volume_total_1980.tif a_built_volume_total_2025.tif", false, func(y []any) bool { return len(y) == 0 }, "dates stay: no other year between 1980 and 2025 holds the whole period"},
	} {
		seed := seedOf(t, test.query, listing(strings.Fields(test.files)...)+","+step("f", `{"a":1}`, "[1.5,2.5]"), `,"inputs":{"data_path":"benchmark/data/question7"}`)
		p := discover(t, seed)
		years := choices(p, "years")
		if got := p.slot("days") != nil; got != test.days {
			t.Errorf("%s: days move: %v, want %v", test.name, got, test.days)
		}
		if test.years == nil && len(years) == 0 || test.years != nil && !test.years(years) {
			t.Errorf("%s: the years move by %v", test.name, years)
		}
		if test.why != "" && !hasNote(p, test.why) {
			t.Errorf("%s: notes %q", test.name, p.Notes)
		}
		if slices.Contains(years, any(0)) {
			t.Errorf("%s: the years can stay", test.name)
		}
	}
}

func everyMultiple(values []any, n int) bool {
	for _, v := range values {
		if v.(int)%n != 0 {
			return false
		}
	}
	return len(values) > 0
}

// Dates in words, files, arguments, thoughts and as numbers are one group.
func TestDiscoverClaimsEveryMention(t *testing.T) {
	seed := seedOf(t, "Trend from July 12, 2020 to 12 July 2022 in the first half of 2021?",
		listing("Lima_2020_07_12.tif", "Lima_20220712_1030.tif")+","+
			step("f", `{"x":[2020,2021,2022],"output_path":"question7/out_2020-07-12.tif","year":1999}`, `"Result saved at out/question7/out_2020-07-12.tif"`), `,"inputs":{"data_path":"benchmark/data/question7"}`)
	seed.Steps[1].Thought = "From 2020 on"
	p := discover(t, seed)
	at := map[string]string{}
	for _, o := range p.Occurrences {
		at[o.At] = o.Text + o.Slot
	}
	for pointer, want := range map[string]string{
		"/query":                         "Trend from {d20200712:%B %-d, %Y} to {d20220712:%-d %B %Y} in the first half of {y2021}?",
		"/steps/0/observation/0":         "{place1:_}_{d20200712:%Y_%m_%d}.tif",
		"/steps/0/observation/1":         "{place1:_}_{d20220712:%Y%m%d}_1030.tif",
		"/steps/1/arguments/x/1":         "y2021",
		"/steps/1/arguments/output_path": "question{sample}/out_{d20200712}.tif",
		"/steps/1/observation":           "Result saved at out/question{sample}/out_{d20200712}.tif",
		"/steps/1/thought":               "From {y2020} on",
		"/inputs/data_path":              "benchmark/data/question{sample}",
		"/steps/0/arguments/dir_path":    "benchmark/data/question{sample}",
		"/steps/1/arguments/year":        "",
	} {
		if at[pointer] != want {
			t.Errorf("%s: %q, want %q", pointer, at[pointer], want)
		}
	}
}

func TestDiscoverPlaces(t *testing.T) {
	seed := seedOf(t, "Compare Nairobi in southern Kenya with Lima, Peru.", listing("Nairobi_2020-01-05.tif", "Lima_2020-01-05.tif")+","+step("f", `{"a":1}`, "[1.5,2.5]"), "")
	p := discover(t, seed)
	a, b := p.slot("place1"), p.slot("place2")
	if a == nil || b == nil || a.Seed != "Nairobi" || b.Seed != "Lima" {
		t.Fatalf("slots %+v, %+v", a, b)
	}
	if g := a.Source.Gazetteer; g.Kind != string(gazetteer.City) || !slices.Contains(g.Need, "country") || !slices.Contains(g.Except, "Lima") {
		t.Errorf("source of place1 %+v", g)
	}
	there := p.slot("place1_country_there")
	if there == nil || there.Group != "place1" || there.Expr != `place1.name == "Nairobi" ? "southern Kenya" : place1_country` {
		t.Errorf("a direction that is true of the old place only: %+v", there)
	}
	c := discovered(t, seed, arithmetic{})
	for k := range uint64(12) {
		in, v := sample(t, c, arithmetic{}, k)
		p, q := v[c.slotAt["place1"]].(gazetteer.Place), v[c.slotAt["place2"]].(gazetteer.Place)
		if p.Name == q.Name {
			t.Errorf("both places are %s", p.Name)
		}
		if want := "Compare " + p.Name + " in " + p.Country + " with " + q.Name + ", " + q.Country + "."; in.Query != want {
			t.Errorf("query %q, want %q", in.Query, want)
		}
	}
}

func TestDiscoverThresholds(t *testing.T) {
	ratio := func(threshold string) string {
		return step("calculate_threshold_ratio", `{"image_paths":"a.tif","threshold":`+threshold+`}`, "37.42")
	}
	for _, test := range []struct {
		name, query, steps, answer string
		varies                     bool
		query1, note               string
	}{
		{"named", "Share above 305.5 K?", ratio("305.5"), "", true, "Share above {threshold} K?", ""},
		{"as a percentage", "Share above 30%?", ratio("0.3"), "", true, "Share above {thresholdPercent}%?", ""},
		{"with zeros", "Share above 0.50?", ratio("0.5"), "", true, "Share above {threshold:.2f}?", ""},
		{"twice", "Share above 305 K, really 305 K?", ratio("305"), "", true, "Share above {threshold} K, really {threshold} K?", ""},
		{"in two calls", "Share above 305 K?", ratio("305") + "," + ratio("305.0"), "", true, "Share above {threshold} K?", ""},
		{"not named", "Share of warm pixels?", ratio("305.5"), "", false, "", ""},
		{"two limits", "Share between 300 K and 305 K?", ratio("300") + "," + ratio("305"), "", false, "", "2 thresholds stay"},
		{"another limit in the unit", "Share above 305 K, not 400 K?", ratio("305"), "", false, "", "another limit in the same unit"},
		{"written in two ways", "Share above 0.3 (30%)?", ratio("0.3"), "", false, "", "writes it in two ways"},
		{"in the answer too", "Share above 305 K?", ratio("305"), `,"answer":{"text":"37.42 % are above 305 K"}`, false, "", "/answer/text names it too"},
		{"zero", "Share above 0?", ratio("0"), "", false, "", ""},
	} {
		p := discover(t, seedOf(t, test.query, test.steps, test.answer))
		s := p.slot("threshold")
		if (s != nil) != test.varies {
			t.Errorf("%s: threshold %+v, notes %q", test.name, s, p.Notes)
			continue
		}
		if test.note != "" && !hasNote(p, test.note) {
			t.Errorf("%s: notes %q", test.name, p.Notes)
		}
		for _, o := range p.Occurrences {
			if o.At == "/query" && test.varies && o.Text != test.query1 {
				t.Errorf("%s: %q, want %q", test.name, o.Text, test.query1)
			}
		}
		if test.varies && (s.Type != Threshold || len(s.Source.Range.Except) != 1) {
			t.Errorf("%s: %+v", test.name, s)
		}
	}
}

func TestDiscoverObservations(t *testing.T) {
	// Values stay in the range of their kind, their order stays, and pure tools are not drawn.
	for _, test := range []struct {
		name, tool, observation string
		low, high               float64
	}{
		{"shares", "calc_batch_image_hotspot_percentage", "[0.12,0.5,0.93]", 0, 1},
		{"percentages", "calculate_threshold_ratio", "[3.5,37.42,98.2]", 0, 100},
		{"whole percentages", "calculate_threshold_ratio", "[3,37,98]", 0, 100},
		{"indices", "calc_batch_image_mean", "[-0.62,0.1,0.84]", -1, 1},
		{"temperatures", "calc_batch_image_mean", "[271.5,290.25,318.75]", 200, 350},
		{"free values", "calc_batch_image_mean", "[0.0,12.5,4000.75]", 0, 1e9},
		{"mixed signs", "calc_batch_image_mean", "[-40.5,0.0,12.25]", -41, 41},
		{"counts", "count_above_threshold", "[3,7,12]", 0, 1000},
		{"boxes", "SM3Det", `"[[10.5, 20.5, 30.25, 44.0], [100.0, 20.5, 130.0, 44.5]]"`, 0, 2000},
	} {
		seed := seedOf(t, "q", step(test.tool, `{"a":1}`, test.observation), "")
		c := discovered(t, seed, arithmetic{})
		before := numbersOf(t, seed)
		for k := range uint64(20) {
			in, _ := sample(t, c, arithmetic{}, k)
			after := numbersOf(t, in)
			if slices.Equal(before, after) || len(before) != len(after) {
				t.Errorf("%s: %v became %v", test.name, before, after)
				break
			}
			for i := range after {
				if after[i] < test.low || after[i] > test.high {
					t.Errorf("%s: %v has a value outside %v to %v", test.name, after, test.low, test.high)
				}
				for j := range i {
					if (before[j] < before[i]) != (after[j] < after[i]) {
						t.Errorf("%s: the order of %v is another in %v", test.name, before, after)
					}
				}
			}
		}
	}
}

// numbersOf are the numbers of the first observation, those of a Python literal too.
func numbersOf(t *testing.T, tr *data.Trajectory) []float64 {
	t.Helper()
	m := measured{}
	m.collect(tr.Steps[0].Observation)
	return m.values
}

func TestDiscoverAnswers(t *testing.T) {
	mean := step("calc_batch_image_mean", `{"a":1}`, "[301.256,299.5]")
	for _, test := range []struct {
		name, query, steps, text, state, template string
	}{
		{"rounded value", "q", mean, "It is 301.26 K.", AnswerDerived, "It is {answer1:.2f} K."},
		{"two values", "q", mean, "299.5 and 301.3", AnswerDerived, "{answer1:.1f} and {answer2:.1f}"},
		{"percentage of a share", "q", step("f", `{"a":1}`, "0.2512"), "25.1 %", AnswerDerived, "{answer1:.1f} %"},
		{"sign turned", "q", step("f", `{"a":1}`, "-4.25"), "a loss of 4.25", AnswerDerived, "a loss of {answer1:.2f}"},
		{"a dash is no sign", "q", mean, "warm-301.26", AnswerDerived, "warm-{answer1:.2f}"},
		{"nor in a range", "q", mean, "299.5-301.26", AnswerDerived, "{answer1:.1f}-{answer2:.2f}"},
		{"a name's number", "q", mean, "Sentinel-2 shows 301.26", AnswerDerived, "Sentinel-2 shows {answer1:.2f}"},
		{"accuracy rule for one number", "q", step("calc", `{"a":1}`, "880.5"), "About 850 m", AnswerDerived, "About {answer1:.0f} m"},
		{"no number", "q", mean, "It became warmer.", AnswerFixed, ""},
		{"number of the question", "above 12.5?", mean, "Yes, above 12.5.", AnswerFixed, ""},
		{"not observed", "q", mean, "It is 17.4 K.", AnswerNone, ""},
		{"one of two is not observed", "q", mean, "301.3 and 17.4", AnswerNone, ""},
		{"a label", "q", mean, "band 10 is at 301.3", AnswerDerived, "band 10 is at {answer2:.1f}"},
		{"no answer", "q", mean, "", AnswerNone, ""},
	} {
		more := ""
		if test.text != "" {
			more = fmt.Sprintf(`,"answer":{"letter":"B","text":%q}`, test.text)
		}
		p := discover(t, seedOf(t, test.query, test.steps, more))
		if p.Answer != test.state {
			t.Errorf("%s: answer %s, want %s; notes %q", test.name, p.Answer, test.state, p.Notes)
		}
		template := ""
		for _, o := range p.Occurrences {
			if o.At == "/answer/text" {
				template = o.Text
			}
		}
		if template != test.template {
			t.Errorf("%s: template %q, want %q", test.name, template, test.template)
		}
		if test.state == AnswerNone && test.text != "" && !hasNote(p, "the answer is left out") {
			t.Errorf("%s: notes %q", test.name, p.Notes)
		}
	}
}

// Tile numbers in picture names are drawn with their width; sizes and map zones stay.
func TestDiscoverTiles(t *testing.T) {
	seed := seedOf(t, "Which class is it?", step("get_filelist", `{"dir_path":"d"}`, `["0012_4517_1024_32650_park.jpg"]`)+","+
		step("MSCN", `{"input_image_path":"d/0012_4517_1024_32650_park.jpg"}`, `"{'predicted_class': 'Park', 'confidence': 0.79}"`), "")
	seed.Domain = "rgb"
	c := discovered(t, seed, arithmetic{})
	in, _ := sample(t, c, arithmetic{}, 5)
	name := in.Steps[0].Observation.Index(0).Text()
	parts := strings.Split(name, "_")
	if len(parts) != 5 || len(parts[0]) != 4 || len(parts[1]) != 4 || parts[0] == "0012" || parts[1] == "4517" || parts[2] != "1024" || parts[3] != "32650" || parts[4] != "park.jpg" {
		t.Errorf("name %q", name)
	}
	if got := in.Steps[1].Arguments.Get("input_image_path").Text(); got != "d/"+name {
		t.Errorf("argument %q", got)
	}
}

func TestDiscoverNeedsSomethingToChange(t *testing.T) {
	_, err := Discover(seedOf(t, "What is it?", step("f", `{"a":"x"}`, `"none"`), ""), arithmetic{})
	wantError(t, "nothing", err, "slot program s: nothing in the seed can change")
	if !errors.Is(err, ErrProgram) {
		t.Error("it is no ErrProgram")
	}
}

// Every real seed gets a program offline, and it passes every check.
func TestEveryRealSeedGetsAProgram(t *testing.T) {
	for i, seed := range realSeeds(t) {
		p, err := Discover(seed, arithmetic{})
		if err != nil {
			t.Errorf("%s: %v", seed.ID, err)
			continue
		}
		if i%4 == 0 || !testing.Short() {
			if _, err := Check(p, seed, arithmetic{}); err != nil {
				t.Errorf("%s: %v", seed.ID, err)
			}
		}
		if i%31 == 0 {
			again, err := Discover(seed, arithmetic{})
			if err != nil || again.Hash() != p.Hash() {
				t.Errorf("%s: two discoveries differ, %v", seed.ID, err)
			}
		}
	}
}
