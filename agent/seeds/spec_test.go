package seeds

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v4"

	"terraloom/agent/environment"
)

// good is a family with holes that the tests fill with faults.
const good = `
families:
- name: warm-share
  domain: spectrum
  skill: earth-brightness-temperature
  objective: share of warm ground
  params: {half: 0.1}
  steps:
  - {id: t, tool: download_product, do: "download it", args: {source: MODIS/061/MOD11A2, bands: [LST_Day_1km], bbox: =bbox, time_range: [=from, =from], interval: 8 days, scale_m: 1000, base_save_name: "{file}"}}
  - {id: share, tool: calculate_threshold_ratio, do: "take the share", args: {image_paths: =t, threshold: =limit}}
  answer: {step: share, decimals: 2, unit: "%", tolerance: 0.5, text: "{value} %"}
  ap: ["Which share of {place} was above {limit} counts from {from}?"]
  ow: ["How much of {place} was above {limit} counts in the 8 days from {from}?"]
  seeds:
  - {core: 2, place: Po Valley, from: 2021-07-12, limit: 15000}
`

func load(text string) (*Spec, error) {
	return Load(fstest.MapFS{"a.yaml": {Data: []byte(text)}, "scenes.yaml": {Data: []byte("collections: {}")}})
}

func TestFaultsOfSpecifications(t *testing.T) {
	if _, err := load(good); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, by, want string }{
		{"domain: spectrum", "domains: spectrum", `a.yaml:4: unknown key "families.domains"; did you mean "domain"?`},
		{"core: 2", "core: 102", "core 102 is of the domain products"},
		{"core: 2", "core: 0", "a seed needs the number of its task core, 1 to 248"},
		{"core: 2,", "", "a seed needs the number of its task core"},
		{"tool: calculate_threshold_ratio", "tool: threshold", `step 2: "threshold" is no tool of the catalogue`},
		{"tool: calculate_threshold_ratio", "tool: calculate_nbr", "the skill earth-brightness-temperature does not allow calculate_nbr"},
		{"skill: earth-brightness-temperature", "skill: magic", `skill "magic" is not bundled`},
		{`do: "take the share", `, "", "step 2: do is required"},
		{"id: share", "id: t", `step 2: id "t" is taken`},
		{"step: share,", "step: shares,", "shares"},
		{"tolerance: 0.5", "tolerance: 0", "tolerance above 0"},
		{"ow: [", "ow: [] #", "objective, steps, ap, ow and seeds are required"},
		{"  seeds:\n", "  seeds:\n  - {core: 2, place: Nile Delta, from: 2021-07-12, limit: 1}\n", "core 2 has a seed in warm-share"},
	} {
		text := strings.Replace(good, test.old, test.by, 1)
		if text == good {
			t.Fatalf("%q is not in the family", test.old)
		}
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v\nwant %q", test.by, err, test.want)
		}
	}
}

// Faults that show when a seed is carried out name file, family, core and step.
func TestFaultsOfExecution(t *testing.T) {
	for _, test := range []struct{ old, by, want string }{
		{"place: Po Valley", "place: Atlantis", `place: "Atlantis" is not in the gazetteer`},
		{"interval: 8 days", "scale: 1", "step 1 (download_product): interval is required"},
		{"{half: 0.1}", "{}", "half, the half width of the area in degrees, is required"},
		{"limit: 15000}", "limit: 15000, spare: 1}", `parameter "spare" is used nowhere`},
		{"source: MODIS/061/MOD11A2", "source: MOD11A2", "source MOD11A2: give a product's ID"},
		{"threshold: =limit", "threshold: =limits", "unknown name limits"},
		{"{file}", "{files}", "{files}: no parameter of this name"},
		{"from: 2021-07-12", "from: 1990-07-12", "step 1 (download_product): "},
		{"=t, threshold", `'=having(t, "_1990-")', threshold`, "having: no item contains"},
	} {
		text := strings.Replace(good, test.old, test.by, 1)
		if text == good {
			t.Fatalf("%q is not in the family", test.old)
		}
		spec, err := load(text)
		if err != nil {
			t.Errorf("%s: %v", test.by, err)
			continue
		}
		env, err := environment.Open(nil, environment.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = BuildAll(context.Background(), spec, env, Options{}, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "a.yaml: family warm-share, core 2: ") || !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v\nwant %q", test.by, err, test.want)
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTemplates(t *testing.T) {
	f := &Family{Params: map[string]any{"half": 0.25, "day": "2021-07-12", "n": 3}}
	sc, err := newScope(f, Seed{"core": 1, "place": "Okavango Delta", "place2": "Lima"})
	if err != nil {
		t.Fatal(err)
	}
	sc.values["x"] = []any{"benchmark/out/A_NDVI_2021-07-12.tif", "benchmark/out/A_LST_2021-07-12.tif"}
	sc.values["saved"] = []any{"Result saved at benchmark/out/B.tif"}
	for _, test := range []struct{ text, want string }{
		{"around {place} ({country}) and {place2}", "around the Okavango Delta (Botswana) and Lima"},
		{"{day}, {day:iso}, {day:month}, {day:year}, {n}", "July 12, 2021, 2021-07-12, July 2021, 2021, 3"},
		{"{file}_x", "Okavango_Delta_x"},
	} {
		if got, err := sc.text(test.text); err != nil || got != test.want {
			t.Errorf("%s: %q, %v; want %q", test.text, got, err, test.want)
		}
	}
	for _, test := range []struct{ yaml, want string }{
		{`'=having(x, "_NDVI_")'`, `["benchmark/out/A_NDVI_2021-07-12.tif"]`},
		{`'=output(x, "A_", "C_")'`, `["C_NDVI_2021-07-12.tif","C_LST_2021-07-12.tif"]`},
		{`'=path(saved)'`, `"benchmark/out/B.tif"`},
		{`'=paths(saved)'`, `["benchmark/out/B.tif"]`},
		{`=n*2`, `6`},
		{`[0.0001, =n, above, null, true]`, `[0.0001,3,"above",null,true]`},
		{`=bbox2`, `[-77.29,-12.3,-76.79,-11.8]`},
		{`{a: "{n}"}`, `{"a":"3"}`},
	} {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(test.yaml), &n); err != nil {
			t.Fatal(err)
		}
		if got, err := sc.value(n.Content[0]); err != nil || got.JSON() != test.want {
			t.Errorf("%s: %s, %v; want %s", test.yaml, got.JSON(), err, test.want)
		}
	}
}
