package seeds

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots"
)

// answerOf reads an answer off three steps: two classifications and a list of
// numbers.
func answerOf(t *testing.T, spec string) (strictjson.Value, *slots.Program, error) {
	t.Helper()
	f := &Family{Name: "f", Steps: []Step{{ID: "a", Tool: "MSCN"}, {ID: "b", Tool: "MSCN"}, {ID: "c", Tool: "bboxes2centroids"}}}
	if err := yaml.Unmarshal([]byte(spec), &f.Answer); err != nil {
		t.Fatal(err)
	}
	if faults := f.Answer.faults(f.Steps); len(faults) > 0 {
		t.Fatal(faults)
	}
	z := &data.Trajectory{ID: "seed-189", SeedID: "seed-189", Domain: "rgb", Query: "?"}
	for i, observation := range []string{`{"predicted_class":"Park","confidence":0.75}`, `{"predicted_class":"Pond","confidence":0.5}`, `[[12.34,5.0],[7,8]]`} {
		v, err := strictjson.Parse([]byte(observation))
		if err != nil {
			t.Fatal(err)
		}
		z.Steps = append(z.Steps, data.Step{Tool: f.Steps[i].Tool, Arguments: strictjson.Obj(strictjson.Member{Key: "k", Value: strictjson.Int(i)}), Observation: v})
	}
	sc := &scope{values: map[string]any{"label": "Park"}, used: map[string]bool{}}
	v, err := f.Answer.of(z, f, sc)
	if err != nil {
		return v, nil, err
	}
	p := &slots.Program{Slots: []slots.Slot{{Name: "answer1", Group: answerGroup}, {Name: "sample"}}, Occurrences: []slots.Occurrence{{At: "/answer/text", Text: "{answer1}"}, {At: "/query", Text: "?"}}}
	return v, p, f.Answer.set(p, f, sc)
}

func TestAnswers(t *testing.T) {
	for _, test := range []struct{ name, spec, want string }{
		{"a number", `{step: a, at: /confidence, decimals: 1, unit: "%", tolerance: 1, text: "{value} %"}`, `{"text":"0.8 %","number":0.8}`},
		{"a whole number", `{step: c, at: /1/0, decimals: 0, unit: px, tolerance: 1, text: "{value}"}`, `{"text":"7","number":7.0}`},
		{"a word", `{parts: [{name: side, step: b, at: /predicted_class}], text: "{side}"}`, `{"text":"Pond"}`},
		{"a point", `{parts: [{name: x, step: c, at: /0/0, decimals: 1}, {name: y, step: c, at: /0/1, decimals: 1}], unit: px, tolerance: 1, text: "({x}, {y})"}`, `{"text":"(12.3, 5.0)"}`},
		{"a count over steps", `{parts: [{name: n, is: 'count([word(at(a, "/predicted_class")), word(at(b, "/predicted_class"))], # == "{label}")', decimals: 0}], unit: images, tolerance: 1, text: "{n} images"}`, `{"text":"1 images","number":1.0}`},
		{"a ranking", `{parts: [{name: order, is: 'ranking(["A", "B"], [num(at(b, "/confidence")), num(at(a, "/confidence"))])'}], text: "{order}"}`, `{"text":"B > A"}`},
		{"a sum", `{parts: [{name: s, is: 'num(at(a, "/confidence")) + num(at(b, "/confidence"))', decimals: 2}], unit: "1", tolerance: 1, text: "{s}"}`, `{"text":"1.25","number":1.25}`},
	} {
		v, p, err := answerOf(t, test.spec)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if v.JSON() != test.want {
			t.Errorf("%s: %s, want %s", test.name, v.JSON(), test.want)
		}
		// The program derives that answer and nothing else of it; other slots stay.
		if slices.ContainsFunc(p.Slots, func(s slots.Slot) bool { return s.Name == "answer1" }) || p.Slots[0].Name != "sample" {
			t.Errorf("%s: slots %+v", test.name, p.Slots)
		}
		if p.Answer != slots.AnswerDerived || len(p.Occurrences) != 2 || p.Occurrences[1].At != "/answer/text" || !strings.Contains(p.Occurrences[1].Text, "{answer_") {
			t.Errorf("%s: occurrences %+v", test.name, p.Occurrences)
		}
	}
	for spec, want := range map[string]string{
		`{step: a, at: /weather, unit: m, tolerance: 1, text: "{value}"}`:         "nothing there",
		`{step: a, at: /predicted_class, unit: m, tolerance: 1, text: "{value}"}`: "is not a number",
		`{parts: [{name: w, step: a, at: /confidence}], text: "{w}"}`:             "is not a text",
		`{parts: [{name: w, is: 'word(at(d, "/x"))'}], text: "{w}"}`:              "no step has this id",
		`{parts: [{name: w, is: 'word(at(a, "/{place}"))'}], text: "{w}"}`:        "{place}: no parameter",
		`{parts: [{name: w, is: 'count([1], # == 1)'}], text: "{w}"}`:             "not a non-empty text",
		`{parts: [{name: w, is: 'now()'}], text: "{w}"}`:                          "now",
	} {
		if v, _, err := answerOf(t, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %q", spec, v.JSON(), err, want)
		}
	}
}

func TestFaultsOfAnswers(t *testing.T) {
	steps := []Step{{ID: "a"}}
	for spec, want := range map[string]string{
		`{step: b, tolerance: 1, text: "{value}"}`:                          `step "b" is no step's id`,
		`{tolerance: 1, text: "{value}"}`:                                   "give either step or is",
		`{step: a, decimals: -1, tolerance: 1, text: "{value}"}`:            "decimals from 0",
		`{step: a, unit: m, text: "{value}"}`:                               "tolerance above 0",
		`{parts: [{name: x, step: a}], unit: side, text: "{x}"}`:            "an answer in words has no unit",
		`{step: a, text: "{value}"}`:                                        "tolerance above 0",
		`{step: a, unit: m, tolerance: 1}`:                                  "text is required",
		`{step: a, tolerance: 1, text: "{number}"}`:                         "{number} is none of its parts",
		`{step: a, tolerance: 1, text: "{value:iso}"}`:                      "{value:iso} is none of its parts",
		`{step: a, parts: [{name: x, step: a}], tolerance: 1, text: "{x}"}`: "either parts, or step",
		`{parts: [{name: X, step: a}], tolerance: 1, text: "x"}`:            "small letters",
		`{parts: [{name: x, step: a, is: "1"}], tolerance: 1, text: "{x}"}`: "give either step or is",
	} {
		var a Answer
		if err := yaml.Unmarshal([]byte(spec), &a); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(a.faults(steps), "; "); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}
