package surface

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"terraloom/agent/raster"
	"terraloom/agent/tools"
	"terraloom/agent/tools/perception"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// eye is a perceiver with fixed answers: boxes by prompt, and a mask that fills
// the boxes it is given.
type eye struct {
	boxes map[string][]perception.Box
	label []perception.Label
}

func (*eye) Backend() string { return "eye" }

func (e *eye) Perceive(_ context.Context, r perception.Request) (perception.Reply, error) {
	out := perception.Reply{Weights: "eye-1", Sensor: "RGB", Resolution: 0.5, Thresholds: map[string]float64{"score": 0.3}, Filtered: 1, Exact: true}
	img := r.Images[len(r.Images)-1]
	switch r.Task {
	case perception.Classify:
		out.Labels, out.Filtered = e.label, 0
	case perception.Detect:
		out.Boxes = e.boxes[r.Prompt]
		for range out.Boxes {
			out.Scores = append(out.Scores, 0.9)
		}
	case perception.Segment, perception.Change:
		boxes := r.Boxes
		if r.Task == perception.Change {
			boxes = e.boxes["change"]
		}
		out.Mask = make([]bool, img.Width*img.Height)
		for _, b := range boxes {
			for y := int(b[1]); y < int(b[3]); y++ {
				for x := int(b[0]); x < int(b[2]); x++ {
					out.Mask[y*img.Width+x] = true
				}
			}
		}
	}
	return out, nil
}

type lab struct {
	*testing.T
	dir string
	s   *Surface
}

func newLab(t *testing.T, e *eye, vlm VLM) *lab {
	t.Helper()
	dir := t.TempDir()
	files, err := workspace.Open(dir, workspace.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	options := []tools.Option{tools.WithWorkspace(files)}
	if e != nil {
		options = append(options, tools.WithPerceiver(e))
	}
	kit, err := tools.New(tools.Correct, options...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(kit, files, vlm)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t, dir, s}
	l.put("img.tif", 100, make([]float32, 100*60))
	return l
}

func (l *lab) put(name string, width int, data []float32) {
	l.Helper()
	g, err := raster.NewGrid(width, len(data)/width, raster.WGS84, raster.NorthUp(10, 50, 0.01, 0.01))
	if err != nil {
		l.Fatal(err)
	}
	copy(g.Data, data)
	if err := os.MkdirAll(filepath.Dir(filepath.Join(l.dir, name)), 0o755); err != nil {
		l.Fatal(err)
	}
	if err := raster.Save(filepath.Join(l.dir, name), raster.Spec{NoData: new(-9999.0)}, g); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) invoke(name, args string) (tools.Result, error) {
	l.Helper()
	v, err := strictjson.Parse([]byte(args))
	if err != nil {
		l.Fatalf("%s: %v", args, err)
	}
	res, err := l.s.Invoke(l.Context(), name, v)
	l.evidence(name+" "+args, &res)
	return res, err
}

// call is invoke where an observation must come.
func (l *lab) call(name, args string) strictjson.Value {
	l.Helper()
	res, err := l.invoke(name, args)
	if err != nil || res.Evidence.Status != tools.OK {
		l.Fatalf("%s %s: %v %s", name, args, err, res.Evidence.Value().JSON())
	}
	return res.Value
}

// evidence holds every evidence against the schema of all tools, and measurements
// against what they recompute.
func (l *lab) evidence(label string, r *tools.Result) {
	l.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(tools.EvidenceSchema()))
	if err != nil {
		l.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("evidence", doc); err != nil {
		l.Fatal(err)
	}
	text := r.Evidence.Value().JSON()
	got, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		l.Fatal(err)
	}
	if r.Evidence.Status == tools.Failed {
		return // it says what was refused, not what was seen
	}
	if err := c.MustCompile("evidence").Validate(got); err != nil {
		l.Errorf("%s: evidence %s\n%v", label, text, err)
	}
	if (r.Evidence.Status == tools.OK) == (r.Value.Kind() == strictjson.Null) {
		l.Errorf("%s: the status %s with the observation %s", label, r.Evidence.Status, r.Value.JSON())
	}
	if f, ok := r.Value.Float(); ok && r.Evidence.Family == tools.Measure {
		if v, ok := r.Evidence.Measure.Recompute(); !ok || len(v) != 1 || math.Abs(v[0]-f) > 1e-9*math.Abs(f) {
			l.Errorf("%s: the evidence recomputes %v, the observation is %g", label, v, f)
		}
	}
}

func TestDeclarations(t *testing.T) {
	list := Declarations()
	if len(list) != 4 || len(Modes) != 7 || len(Metrics) != 7 || len(Products) != 10 || len(standards) != 10 || len(units) != 7 {
		t.Errorf("%d tools, %d modes, %d metrics, %d products", len(list), len(Modes), len(Metrics), len(Products))
	}
	for _, d := range list {
		if _, err := strictjson.Parse([]byte(d.Schema)); err != nil || schemas()[d.Name] == nil || d.Summary == "" {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	kinds := map[string]int{}
	seen := map[string]bool{}
	for _, c := range Cards() {
		kinds[c.Kind()]++
		if seen[c.ID] || c.Title == "" || len(c.Text) < 80 || len(c.Words) < 3 {
			t.Errorf("card %s is used twice or thin", c.ID)
		}
		seen[c.ID] = true
	}
	if len(kinds) != 3 || kinds["routing"] != 3 || kinds["recipe"] != 13 || kinds["knowledge"] != 13 {
		t.Errorf("cards: %v", kinds)
	}
	for _, p := range Products {
		if _, ok := standards[p]; !ok {
			t.Errorf("%s has no tool", p)
		}
	}
}

func TestRefusals(t *testing.T) {
	l := newLab(t, &eye{}, nil)
	for _, c := range []struct{ tool, args, says string }{
		{"look", `{}`, "there are perceive, measure, execute and retrieve"},
		{"perceive", `{"image_paths":["img.tif"],"mode":"smell"}`, "mode"},
		{"perceive", `{"image_paths":["img.tif"],"mode":"scene"}`, "label_space"},
		{"perceive", `{"image_paths":["img.tif"],"mode":"change"}`, "image_paths"},
		{"perceive", `{"image_paths":["none.tif"],"mode":"objects","target_groups":{"a":["x"]}}`, "not found"},
		{"perceive", `{"image_paths":["img.tif"],"mode":"evidence"}`, "needs a vision-language model"},
		{"perceive", `{"image_paths":["img.tif"],"mode":"objects","backend":"vlm","target_groups":{"a":["x"]}}`, "needs a vision-language model"},
		{"measure", `{"sources":[{"mode":"objects"}],"spec":{"metric":"count"}}`, "image_paths"},
		{"measure", `{"sources":[{"mode":"extent","extent":[0,0,4,4]}],"spec":{"metric":"volume"}}`, "metric"},
		{"measure", `{"sources":[{"mode":"extent","extent":[0,0,4,4]}],"spec":{"metric":"area","unit":"kg"}}`, "no unit of area"},
		{"measure", `{"sources":[{"mode":"extent","extent":[0,0,4,4]}],"spec":{"metric":"area"}}`, "gsd"},
		{"measure", `{"sources":[{"mode":"extent","extent":[4,0,0,4]}],"spec":{"metric":"count"}}`, "x1 < x2"},
		{"measure", `{"sources":[{"mode":"extent","extent":[0,0,4e9,4]}],"spec":{"metric":"count"}}`, "at most 1000000"},
		{"measure", `{"sources":[{"mode":"extent","extent":[0,0,4,4]}],"spec":{"metric":"count","subject":"ship"}}`, "the sources have extent"},
		{"measure", `{"sources":[{"mode":"extent","extent":[0,0,4,4]}],"spec":{"metric":"count","relation":"within"}}`, "needs a reference"},
		{"measure", `{"sources":[{"mode":"objects","layer_path":"img.tif"}],"spec":{"metric":"count"}}`, "no layer"},
		{"execute", `{"nodes":[{"id":"a","op":"teleport"}]}`, "there is no operator"},
		{"execute", `{"nodes":[{"id":"a","op":"mean","inputs":{"data":"@b"}}]}`, "no earlier node"},
		{"execute", `{"nodes":[{"id":"a","op":"raster.product","inputs":{"data":"x"}}]}`, "takes a collection from a node"},
		{"execute", `{"nodes":[{"id":"a","op":"temporal.trend","inputs":{"data":[1,2]}}]}`, "takes a series from a node"},
		{"execute", `{"nodes":[{"id":"a","op":"mean","params":{"x":[1,2]}},{"id":"a","op":"mean","params":{"x":[1]}}]}`, "used twice"},
		{"execute", `{"nodes":[{"id":"a","op":"mean","params":{"x":[1,2]}},{"id":"b","op":"raster.batch_reduce","inputs":{"data":"@a"}}]}`, "gives a value"},
		{"execute", `{"nodes":[{"id":"a","op":"raster.summarize","inputs":{"data":"img.tif"},"params":{"bnad":1}}]}`, "it has band"},
		{"execute", `{"nodes":[{"id":"a","op":"spatial.query","params":{"layer_paths":["img.tif"],"metric":"size"}}]}`, "there are count"},
		{"execute", `{"nodes":[]}`, "nodes"},
		{"retrieve", `{"query":"ndvi","top_k":9}`, "top_k"},
	} {
		res, err := l.invoke(c.tool, c.args)
		var e *tools.Error
		if err == nil || !errors.As(err, &e) || !strings.Contains(err.Error(), c.says) || res.Evidence.Status != tools.Failed {
			t.Errorf("%s %s: %v, %s; want an error saying %q", c.tool, c.args, err, res.Evidence.Status, c.says)
		}
	}
}

// Objects of two prompts in one group are one class; their layer holds what the
// observation says, and a measurement of it needs no model.
func TestObjectsAndTheirMeasures(t *testing.T) {
	l := newLab(t, &eye{boxes: map[string][]perception.Box{
		"ship":   {{10, 10, 20, 14}, {40, 10, 50, 14}},
		"vessel": {{10, 10, 20, 14}}, // the first ship again
		"pier":   {{0, 20, 100, 24}},
	}}, nil)
	const groups = `"target_groups":{"ships":["ship","vessel"],"piers":["pier"]}`
	res, err := l.invoke("rs_perceive", `{"image_paths":["img.tif"],"mode":"objects","gsd":0.5,`+groups+`}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Value.Get("counts").JSON(); got != `{"ships":2,"piers":1}` {
		t.Errorf("counts %s", got)
	}
	if m := &res.Evidence.Model; m.Backend != "eye" || m.Weights != "eye-1" || len(m.Boxes) != 3 || len(m.Scores) != 3 || m.Filtered != 3 || m.Geometry != "exact" || !m.Complete {
		t.Errorf("evidence %+v", m)
	}
	layer := res.Value.Get("layer_paths").Index(0).Text()
	if _, err := os.Stat(filepath.Join(l.dir, layer)); err != nil {
		t.Error(err)
	}
	byLayer := `{"mode":"objects","layer_path":"` + layer + `"}`
	perceived := `{"mode":"objects","image_paths":["img.tif"],"gsd":0.5,` + groups + `}`
	for _, c := range []struct{ spec, want string }{
		{`{"metric":"count","subject":"ships"}`, "2"},
		{`{"metric":"area","subject":"ships"}`, "20.0"}, // 2 · 10 · 4 px · 0.5²
		{`{"metric":"area","subject":"ships","unit":"px"}`, "80.0"},
		{`{"metric":"area","subject":"ships","unit":"ha"}`, "0.002"},
		{`{"metric":"distance","subject":"ships","reference":"piers"}`, "3.0"},        // 6 px
		{`{"metric":"distance","subject":"ships","unit":"px"}`, "20.0"},               // from each other
		{`{"metric":"fraction","subject":"ships","denominator":"image"}`, "0.01333"},  // 80 of 6000
		{`{"metric":"percentage","subject":"piers","denominator":"image"}`, "6.6667"}, // 400 of 6000
		{`{"metric":"percentage","subject":"ships","reference":"piers","relation":"within_distance","distance":2,"denominator":"subject"}`, "0.0"},
		{`{"metric":"count","subject":"ships","reference":"piers","relation":"within_distance","distance":3}`, "2"},
		{`{"metric":"count","subject":"ships","reference":"piers","relation":"disjoint"}`, "2"},
		{`{"metric":"boolean","subject":"ships","reference":"piers","relation":"intersects"}`, "false"},
		{`{"metric":"overlap","subject":"ships","reference":"piers"}`, "0.0"},
	} {
		for _, source := range []string{byLayer, perceived} {
			got := l.call("measure", `{"sources":[`+source+`],"spec":`+c.spec+`}`)
			a, okA := got.Float()
			var b float64
			_, errB := fmt.Sscan(c.want, &b)
			if okA && errB == nil && math.Abs(a-b) > 1e-3*math.Abs(b) || !okA && got.JSON() != c.want {
				t.Errorf("%s: %s, want %s", c.spec, got.JSON(), c.want)
			}
		}
	}
	// The same over the layer as a node of a DAG.
	got := l.call("execute", `{"nodes":[{"id":"n","op":"spatial.query","params":{"layer_paths":["`+layer+`"],"metric":"count","subject":"ships"}},{"id":"twice","op":"multiply","params":{"a":"@n","b":2}}]}`)
	if f, _ := got.Float(); f != 4 {
		t.Errorf("twice the count is %s", got.JSON())
	}
}

// An area of 900 pixels of 0.13 m is 15.21 m² (exactly: pixels · gsd²).
func TestAreaOfARegion(t *testing.T) {
	l := newLab(t, &eye{boxes: map[string][]perception.Box{"court": {{10, 10, 40, 40}}, "line": {{20, 0, 22, 60}}}}, nil)
	source := `{"mode":"regions","image_paths":["img.tif"],"gsd":0.13,"target_groups":{"court":["court"],"line":["line"]}}`
	got := l.call("measure", `{"sources":[`+source+`],"spec":{"metric":"area","subject":"court"}}`)
	if f, _ := got.Float(); math.Abs(f-15.21) > 1e-9 {
		t.Errorf("%s m²", got.JSON())
	}
	// The line of 2 × 60 pixels has half of its pixels, 2 × 30, on the court.
	got = l.call("measure", `{"sources":[`+source+`],"spec":{"metric":"fraction","subject":"court","reference":"line","denominator":"reference"}}`)
	if f, _ := got.Float(); f != 0.5 {
		t.Errorf("share %s", got.JSON())
	}
	got = l.call("measure", `{"sources":[`+source+`],"spec":{"metric":"overlap","subject":"court","reference":"line"}}`)
	if f, _ := got.Float(); math.Abs(f-60.0/960) > 1e-12 {
		t.Errorf("overlap %s", got.JSON())
	}
}

func TestChange(t *testing.T) {
	l := newLab(t, &eye{boxes: map[string][]perception.Box{"change": {{1, 1, 4, 4}, {50, 50, 52, 52}}}}, nil)
	got := l.call("perceive", `{"image_paths":["img.tif","img.tif"],"mode":"change"}`)
	if got.Get("counts").JSON() != `{"change":2}` || got.Get("change").Index(0).Get("pixels").JSON() != "9.0" {
		t.Errorf("%s", got.JSON())
	}
	n := l.call("measure", `{"sources":[{"mode":"change","image_paths":["img.tif","img.tif"]}],"spec":{"metric":"area","unit":"px"}}`)
	if n.JSON() != "13.0" {
		t.Errorf("changed area %s", n.JSON())
	}
}

func TestScene(t *testing.T) {
	l := newLab(t, &eye{label: []perception.Label{{Name: "Dense Residential", Score: 0.7}, {Name: "Port", Score: 0.2}}}, nil)
	got := l.call("perceive", `{"image_paths":["img.tif"],"mode":"scene","label_space":["port","beach"]}`)
	if got.JSON() != `{"predictions":[{"image_index":1,"class_name":"port","confidence":0.2}]}` {
		t.Error(got.JSON())
	}
	res, err := l.invoke("perceive", `{"image_paths":["img.tif"],"mode":"scene","label_space":["forest","beach"]}`)
	if err != nil || res.Evidence.Status != tools.Insufficient || !strings.Contains(res.Evidence.Reason, "label_space") {
		t.Errorf("%v %s", err, res.Evidence.Reason)
	}
}

// What is not found is insufficient where that was asked for.
func TestStrict(t *testing.T) {
	l := newLab(t, &eye{}, nil)
	res, err := l.invoke("perceive", `{"image_paths":["img.tif"],"mode":"objects","quality_policy":"strict","target_groups":{"ships":["ship"]}}`)
	if err != nil || res.Evidence.Status != tools.Insufficient || res.Evidence.Model.Complete {
		t.Errorf("%v %s", err, res.Evidence.Value().JSON())
	}
	if got := l.call("perceive", `{"image_paths":["img.tif"],"mode":"objects","target_groups":{"ships":["ship"]}}`); got.Get("counts").JSON() != `{"ships":0}` {
		t.Errorf("%s", got.JSON())
	}
	// No pair has no distance; a share of nothing is no share.
	for _, spec := range []string{`{"metric":"distance","unit":"px"}`, `{"metric":"fraction","denominator":"subject"}`} {
		res, err := l.invoke("measure", `{"sources":[{"mode":"objects","image_paths":["img.tif"],"target_groups":{"ships":["ship"]}}],"spec":`+spec+`}`)
		if err != nil || res.Evidence.Status != tools.Insufficient {
			t.Errorf("%s: %v %s", spec, err, res.Value.JSON())
		}
	}
}

// Tiles look at the parts of a large picture; their boxes come back in its pixels.
func TestTiles(t *testing.T) {
	l := newLab(t, &eye{boxes: map[string][]perception.Box{"car": {{5, 5, 9, 9}}}}, nil)
	writePNG(t, filepath.Join(l.dir, "wide.png"), 1500, 40)
	got := l.call("perceive", `{"image_paths":["wide.png"],"mode":"objects","view":"tiles","target_groups":{"cars":["car"]}}`)
	if got.Get("counts").JSON() != `{"cars":2}` || got.Get("objects").Index(1).Get("bbox_xyxy").JSON() != "[1029.0,5.0,1033.0,9.0]" {
		t.Error(got.JSON())
	}
}
