package slots

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"terraloom/slots/gazetteer"
)

// lintOf lints a program after edits of its YAML.
func lintOf(t *testing.T, edits ...string) error {
	t.Helper()
	seed := verifySeed(t)
	p, err := Discover(seed, arithmetic{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(p.YAML())
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the program lacks %q:\n%s", edits[i], text)
		}
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	q, err := ParseProgram([]byte(text), "p.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return errors.Join(Lint(q, seed, arithmetic{})...)
}

func TestLint(t *testing.T) {
	if err := lintOf(t); err != nil {
		t.Fatalf("the discovered program: %v", err)
	}
	for _, test := range []struct {
		name  string
		edits []string
		want  []string
	}{
		{"the seed is not restored", []string{"seed: 7", "seed: 8"}, []string{`it reads "8\"}", the seed has "7\"}"`}},
		{"nor its observations", []string{`vary(was("/steps/2/observation"), `, `vary(was("/steps/2/observation"), 2 * `}, []string{"/steps/2/observation"}},
		{"S2 a typing error leaves a brace", []string{"{place1}", "{{place1}"}, []string{"closes nothing"}},
		{"an old place that no occurrence claims", []string{"share of {place1} was", "share of Nairobi was"}, []string{"old value left", "nairobi", "slot place1"}},
		{"an old date", []string{"on {d20220712:%B %-d, %Y}", "on July 12, 2022"}, []string{"old value left", `"July 12, 2022"`}},
		{"an old folder", []string{`text: benchmark/data/question{sample}` + "\n", `text: benchmark/data/question7` + "\n"}, []string{"old value left", "question7"}},
		{"the limit in the question alone", []string{"  - at: /steps/4/arguments/threshold\n    slot: threshold\n", ""}, []string{"only 0 of 20 sample draws verify", "/arguments/threshold", "is not in the question"}},
		{"the limit in the call alone", []string{"above {threshold} K", "above 305.5 K"}, []string{"only 0 of 20 sample draws verify", "is not in the question"}},
		{"a value that is computed is drawn", []string{"threshold\n    slot: threshold\n", "threshold\n    slot: threshold\n  - at: /steps/3/arguments/x/0\n    slot: scale1\n"}, []string{"sample draws verify"}},
		{"idle slot", []string{"occurrences:\n", "  - name: idle\n    type: count\n    role: root\n    seed: 1\n    source:\n      choice: [2]\noccurrences:\n"}, []string{"slot idle stands nowhere"}},
		{"does not compile", []string{"role: derived", "role: derive"}, []string{`role "derive" is neither root nor derived`}},
	} {
		wantError(t, test.name, lintOf(t, test.edits...), append(test.want, "s")...)
	}
	// All problems at once.
	err := lintOf(t, "share of {place1} was", "share of Nairobi was", "occurrences:\n", "  - name: idle\n    type: count\n    role: root\n    seed: 1\n    source:\n      choice: [2]\noccurrences:\n")
	wantError(t, "two problems", err, "slot idle stands nowhere", "nairobi")
}

// SLOT-7: bands, sensors, products and methods stay; a program that makes one
// mutable is refused, in an argument and in a file's name.
func TestBandsAndProductsAreFixed(t *testing.T) {
	seed := seedOf(t, "Which share is over 0.25?", step("get_filelist", `{"dir_path":"d"}`, `["a_SR_B5_2020.tif","a_BT_31.tif"]`)+","+
		step("f", `{"band_index":3,"parameter":"LST","wavelengths":[8.3,8.6],"mode":"above","red_band_file":"d/a_SR_B5_2020.tif","paths":["d/a_BT_31.tif"]}`, "2.5"), "")
	const number = "slots:\n  - {name: n, type: number, role: root, seed: 3, source: {choice: [4]}}\n  - {name: w, type: text, role: root, seed: LST, source: {choice: [PWV]}}\n  - {name: b, type: file, role: root, seed: 31, source: {choice: [32]}}\n  - {name: y, type: file, role: root, seed: 2020, source: {choice: [2021]}}\noccurrences:\n"
	for _, test := range []struct {
		occurrence string
		fixed      bool
	}{
		{`{at: /steps/1/arguments/band_index, slot: n}`, true},
		{`{at: /steps/1/arguments/parameter, text: "{w}"}`, true},
		{`{at: /steps/1/arguments/wavelengths/0, slot: n}`, true},
		{`{at: /steps/1/arguments/mode, text: "{w}"}`, true},
		{`{at: /steps/1/arguments/paths/0, text: "d/a_BT_{b}.tif"}`, true},
		{`{at: /steps/0/observation/1, text: "a_BT_{b}.tif"}`, true},
		{`{at: /steps/1/arguments/red_band_file, text: "d/a_SR_B5_{y}.tif"}`, false}, // a file's date
		{`{at: /steps/0/observation/0, text: "a_SR_B5_{y}.tif"}`, false},
	} {
		p := programOf(t, seed, number+"  - "+test.occurrence+"\n")
		err := errors.Join(Lint(p, seed, arithmetic{})...)
		if got := err != nil && strings.Contains(err.Error(), "bands, products and methods stay as the seed has them"); got != test.fixed {
			t.Errorf("%s is refused for a fixed part: %v, want %v (%v)", test.occurrence, got, test.fixed, err)
		}
	}
}

// SLOT-3: a place moves with its coordinates and its box; a program that moves
// it alone is refused.
func TestCoordinatesMoveWithThePlace(t *testing.T) {
	tana, _ := gazetteer.ByName("Lake Tana")
	seed := seedOf(t, "How much of Lake Tana (12.03° N, 37.3°E; 36.9–37.6° E) is above 25 °C?",
		step("download_product", fmt.Sprintf(`{"bbox":[%.2f,%.2f,%.2f,%.2f],"center":{"lat":12.00,"lon":37}}`, tana.West, tana.South, tana.East, tana.North), `["Lake_Tana_2020-01-05.tif"]`)+","+
			step("f", `{"p":"Lake_Tana_2020-01-05.tif","xy":[37.5,12.5]}`, "[1.5,2.5]"), `,"inputs":{"aoi_bbox":[36.90,11.60,37.60,12.30]}`)
	c := discovered(t, seed, arithmetic{})
	for k := range uint64(25) {
		in, v := sample(t, c, arithmetic{}, k)
		p := v[c.slotAt["place1"]].(gazetteer.Place)
		signed := func(deg float64, positive, negative string, d int) string {
			side := positive
			if deg < 0 {
				side, deg = negative, -deg
			}
			return fmt.Sprintf("%.*f|%s", d, deg, side)
		}
		lat, lon := signed(roundTo(p.Lat+roundTo(12.03-tana.Lat, 6), 2), "N", "S", 2), signed(roundTo(p.Lon+roundTo(37.3-tana.Lon, 6), 1), "E", "W", 1)
		want := strings.ReplaceAll(lat, "|", "° ") + ", " + strings.ReplaceAll(lon, "|", "°")
		if !strings.Contains(in.Query, p.Name+" ("+want) && !strings.Contains(in.Query, want) {
			t.Errorf("%s at %v, %v: %q lacks %q", p.Name, p.Lat, p.Lon, in.Query, want)
		}
		box := in.Inputs.Get("aoi_bbox")
		for i, edge := range []float64{p.West, p.South, p.East, p.North} {
			if f, _ := box.Index(i).Float(); f != edge {
				t.Errorf("%s: box %s, want the place's own", p.Name, box.JSON())
				break
			}
		}
		if got := in.Steps[0].Arguments.Get("bbox"); !sameNumbers(got, box) {
			t.Errorf("argument %s, input %s", got.JSON(), box.JSON())
		}
		if f, _ := in.Steps[0].Arguments.Get("center").Get("lat").Float(); f < p.South-0.5 || f > p.North+0.5 {
			t.Errorf("%s: centre %v", p.Name, f)
		}
		if got := in.Steps[1].Arguments.Get("xy").JSON(); got != "[37.5,12.5]" {
			t.Errorf("numbers that are called nothing moved: %s", got)
		}
	}
	// Restored in the seed's own spelling.
	same, err := c.recorded().instance(append(Values(nil), c.seedVals...), nothing{}, false)
	if err != nil || same.Query != seed.Query || same.Inputs.JSON() != seed.Inputs.JSON() || same.Steps[0].Arguments.JSON() != seed.Steps[0].Arguments.JSON() {
		t.Errorf("restored: %v, %s %s %s", err, same.Query, same.Inputs.JSON(), same.Steps[0].Arguments.JSON())
	}
	for _, left := range []string{"/inputs/aoi_bbox", "/steps/0/arguments/bbox", "/steps/0/arguments/center/lon", "/query"} {
		p := *c.Program
		p.Occurrences = slices.Clone(p.Occurrences)
		for i := range p.Occurrences {
			if o := &p.Occurrences[i]; o.At == left {
				if o.Text == "" {
					p.Occurrences = slices.Delete(p.Occurrences, i, i+1)
				} else {
					o.Text = "How much of the {place1} (12.03° N, 37.3°E; 36.9–37.6° E) is above 25 °C?"
				}
				break
			}
		}
		wantError(t, left, errors.Join(Lint(&p, seed, arithmetic{})...), "slot place1: "+left+" gives coordinates of Lake Tana; they must move with the place")
	}
}
