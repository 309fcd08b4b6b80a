package rsure

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

func parse(t testing.TB, text string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// whole is a result of a family with all its evidence.
func whole(t testing.TB, family tools.Family) *tools.Result {
	r := &tools.Result{Evidence: tools.Evidence{Family: family, Status: tools.OK, Operator: "op", Parameters: parse(t, "{}"), Formula: "f", Used: 900}}
	switch family {
	case tools.Perceive:
		r.Value = parse(t, "[[1,2,3,4]]")
		r.Evidence.Model = tools.ModelEvidence{Backend: "scenes", Weights: "w-1", Sensor: "aerial", Thresholds: []tools.Threshold{{Name: "score", Value: .3}}, Boxes: [][]float64{{1, 2, 3, 4}}, Scores: []float64{.9}, Geometry: "exact", Complete: true}
	case tools.Measure:
		r.Value = parse(t, "15.21")
		r.Evidence.Measure = tools.MeasureEvidence{Metric: "area", Unit: "m²", Scale: 1, GSD: .13, Aggregate: "single", Layers: []tools.Node{{Name: "m.png", Status: tools.OK}}, Numerator: []float64{900}, Denominator: []float64{1}}
	case tools.Execute:
		r.Value = parse(t, "4.5")
		r.Evidence.Nodes = []tools.Node{{Name: "a.tif", Output: parse(t, "4.5"), Valid: 9, Total: 10, Status: tools.OK}}
		r.Evidence.Bands = []tools.BandUse{{Symbol: "x", Path: "a.tif", Band: 1}}
	}
	return r
}

// RS-2, RS-3: every observation has status, observation and evidence of its
// family; with any field deleted the diagnosis names it.
func TestRS3EveryFieldIsRequired(t *testing.T) {
	for family, fields := range required {
		r := whole(t, family)
		if faults := Faults(Action{Tool: "x", Args: parse(t, "{}")}, r, nil); faults != nil {
			t.Errorf("%s: whole evidence: %v", family, faults)
		}
		for _, field := range fields {
			part, key, _ := strings.Cut(field, "/")
			faults := Missing(family, without(r.Evidence.Value(), part, key))
			if len(faults) != 1 || !strings.Contains(faults[0], part+"."+key) {
				t.Errorf("%s without %s: %v", family, field, faults)
			}
		}
	}
}

// without is a value with the member part.key left out.
func without(v strictjson.Value, part, key string) strictjson.Value {
	var out []strictjson.Member
	for i := range v.Len() {
		m := strictjson.Member{Key: v.Key(i), Value: v.Index(i)}
		if m.Key == part {
			var inner []strictjson.Member
			for j := range m.Value.Len() {
				if m.Value.Key(j) != key {
					inner = append(inner, strictjson.Member{Key: m.Value.Key(j), Value: m.Value.Index(j)})
				}
			}
			m.Value = strictjson.Obj(inner...)
		}
		out = append(out, m)
	}
	return strictjson.Obj(out...)
}

// RS-4, RS-6: data that do not suffice, errors and an ok status with missing
// evidence do not pass.
func TestRS6Status(t *testing.T) {
	r := whole(t, tools.Execute)
	r.Evidence.Status, r.Evidence.Reason = tools.Insufficient, "no valid pixel"
	if f := Faults(Action{}, r, nil); len(f) != 1 || !strings.Contains(f[0], "insufficient: no valid pixel") {
		t.Errorf("%v", f)
	}
	if f := Faults(Action{}, &tools.Result{}, errors.New("bad path")); len(f) != 1 || f[0] != "bad path" {
		t.Errorf("%v", f)
	}
	r = whole(t, tools.Execute)
	r.Evidence.Formula = ""
	if f := Faults(Action{}, r, nil); len(f) != 1 || !strings.Contains(f[0], "src.formula") {
		t.Errorf("%v", f)
	}
	r.Evidence.Family = "guess"
	if f := Faults(Action{}, r, nil); len(f) == 0 {
		t.Error("an unknown family passes")
	}
}

// faults checks one fixture for a rule.
func faults(t *testing.T, name string, a Action, r *tools.Result, want string) {
	t.Helper()
	got := strings.Join(Faults(a, r, nil), "; ")
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// RS-7: Valid() of perceive, one failing fixture for each rule.
func TestRS7ValidPerceive(t *testing.T) {
	act := func(args string) Action { return Action{"perceive", parse(t, args)} }
	sized := act(`{"mode":"objects","image_size":[100,50]}`)
	for name, c := range map[string]struct {
		change func(*tools.ModelEvidence)
		want   string
	}{
		"as it is":           {func(*tools.ModelEvidence) {}, ""},
		"confidence above 1": {func(m *tools.ModelEvidence) { m.Scores[0] = 1.2 }, "confidence 0 is 1.2"},
		"outside the image":  {func(m *tools.ModelEvidence) { m.Boxes[0] = []float64{1, 2, 101, 4} }, "outside the image"},
		"corners turned":     {func(m *tools.ModelEvidence) { m.Boxes[0] = []float64{3, 2, 1, 4} }, "wrong way round"},
		"three numbers":      {func(m *tools.ModelEvidence) { m.Boxes[0] = []float64{3, 2, 1} }, "3 numbers"},
	} {
		r := whole(t, tools.Perceive)
		c.change(&r.Evidence.Model)
		faults(t, name, sized, r, c.want)
	}
	for name, c := range map[string]struct{ args, value, want string }{
		"scene":              {`{"mode":"scene","image_paths":["a","b"],"label_space":["port","farm"]}`, `{"predictions":[{"image_index":1,"class_name":"port"},{"image_index":2,"class_name":"farm"}]}`, ""},
		"an image left out":  {`{"mode":"scene","image_paths":["a","b"],"label_space":["port"]}`, `{"predictions":[{"image_index":1,"class_name":"port"}]}`, "image 2 has 0 predictions"},
		"an image twice":     {`{"mode":"scene","image_paths":["a"],"label_space":["port"]}`, `{"predictions":[{"image_index":1,"class_name":"port"},{"image_index":1,"class_name":"port"}]}`, "image 1 has 2 predictions"},
		"no such image":      {`{"mode":"scene","image_paths":["a"],"label_space":["port"]}`, `{"predictions":[{"image_index":2,"class_name":"port"}]}`, "for image 2 of 1"},
		"a class of its own": {`{"mode":"scene","image_paths":["a"],"label_space":["port"]}`, `{"predictions":[{"image_index":1,"class_name":"A"}]}`, "not in label_space"},
		"evidence":           {`{"mode":"evidence"}`, `{"observations":[],"quality":{"visibility":"clear","readability":"limited"}}`, ""},
		"evidence answers":   {`{"mode":"evidence"}`, `{"answer":"B","quality":{"visibility":"clear","readability":"limited"}}`, "must not answer"},
		"visibility":         {`{"mode":"evidence"}`, `{"quality":{"visibility":"good","readability":"clear"}}`, "quality.visibility"},
		"readability":        {`{"mode":"evidence"}`, `{"quality":{"visibility":"clear"}}`, "quality.readability"},
		"measurement":        {`{"mode":"measurement"}`, `{"measurement":{"point_a":{"xy":[1,2]},"point_b":{"xy":[3,4]},"scale_bar":{"start_xy":[0,0],"end_xy":[9,0]}}}`, ""},
		"one landmark":       {`{"mode":"measurement"}`, `{"measurement":{"point_a":{"xy":[1,2]},"scale_bar":{"start_xy":[0,0],"end_xy":[9,0]}}}`, "point_b"},
		"no scale bar":       {`{"mode":"measurement"}`, `{"measurement":{"point_a":{"xy":[1,2]},"point_b":{"xy":[3,4]}}}`, "scale_bar"},
	} {
		r := whole(t, tools.Perceive)
		r.Value = parse(t, c.value)
		faults(t, name, act(c.args), r, c.want)
	}
}

// RS-8: 900 px × 0.13² = 15.21 passes, 16.0 fails; the unit fits the metric, a
// ground sample distance is there, geometry is exact (RS-5).
func TestRS8ValidMeasure(t *testing.T) {
	a := Action{"measure", parse(t, "{}")}
	for name, c := range map[string]struct {
		change func(*tools.Result)
		want   string
	}{
		"15.21":        {func(*tools.Result) {}, ""},
		"16.0":         {func(r *tools.Result) { r.Value = strictjson.Float(16) }, "does not follow from the evidence"},
		"unit":         {func(r *tools.Result) { r.Evidence.Measure.Unit = "%" }, "does not fit the metric area"},
		"no gsd":       {func(r *tools.Result) { r.Evidence.Measure.GSD = 0 }, "ground sample distance"},
		"approximate":  {func(r *tools.Result) { r.Evidence.Model.Geometry = "approximate" }, "approximate"},
		"more values":  {func(r *tools.Result) { r.Value = parse(t, "[15.21,1.0]") }, "2 values are reported"},
		"zero divisor": {func(r *tools.Result) { r.Evidence.Measure.Denominator[0] = 0 }, "cannot be recomputed"},
	} {
		r := whole(t, tools.Measure)
		c.change(r)
		faults(t, name, a, r, c.want)
	}
	faults(t, "vlm source", Action{"measure", parse(t, `{"sources":[{"mode":"objects","backend":"vlm"}]}`)}, whole(t, tools.Measure), "approximate")
	faults(t, "local source", Action{"measure", parse(t, `{"sources":[{"mode":"objects","backend":"local"}]}`)}, whole(t, tools.Measure), "")
}

// RS-9: no failed node, valid pixels, finite results, mapped bands, and fields
// that exist: the diagnosis lists the valid names.
func TestRS9ValidExecute(t *testing.T) {
	a := Action{"execute", parse(t, "{}")}
	for name, c := range map[string]struct {
		change func(*tools.Result)
		want   string
	}{
		"as it is":        {func(*tools.Result) {}, ""},
		"a failed node":   {func(r *tools.Result) { r.Evidence.Nodes[0].Status = tools.Failed }, "node a.tif failed"},
		"no valid pixel":  {func(r *tools.Result) { r.Evidence.Nodes[0].Valid = 0 }, "no pixel or value is valid"},
		"not finite":      {func(r *tools.Result) { r.Value = parse(t, "[1,null]") }, "not finite"},
		"an unmapped one": {func(r *tools.Result) { r.Evidence.Bands[0].Path = "" }, "mapped to no band"},
	} {
		r := whole(t, tools.Execute)
		c.change(r)
		faults(t, name, a, r, c.want)
	}
	r := whole(t, tools.Execute)
	r.Value = parse(t, `{"trend":"up","p":0.01,"z":2.5,"tau":0.4}`)
	faults(t, "fields", Action{"execute", parse(t, `{"fields":["sen_slope","z_score"]}`)}, r, `no output field "sen_slope"; the fields are trend, p, z, tau`)
}

// RS-1: the enumerations of the surface: 21 task types here; modes, metrics and
// products are those of the tools.
func TestTaskTypes(t *testing.T) {
	if len(TaskTypes) != 21 || len(slices.Compact(slices.Sorted(slices.Values(TaskTypes)))) != 21 {
		t.Errorf("%d task types", len(TaskTypes))
	}
	for _, rule := range taskWords {
		if !slices.Contains(TaskTypes, rule.task) {
			t.Errorf("a rule gives %q", rule.task)
		}
	}
}
