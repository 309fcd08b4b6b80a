package eval

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/raster"
	"terraloom/agent/rsure"
	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
)

// RS-16: a calibration call is valid if its observation matches the reference's;
// tools that the reference does not call, and questions of no known type, say
// nothing.
func TestCalibrate(t *testing.T) {
	call := func(name, output string) Call {
		return Call{Name: name, Input: parsed(t, "{}"), Output: parsed(t, output)}
	}
	benchmark := []Question{
		{ID: "q1", Query: "How many ships lie there?", Calls: []Call{call("InstructSAM", "10"), call("mean", "[1.0, 2.0]")}},
		{ID: "q2", Query: "xyzzy", Calls: []Call{call("mean", "1")}},
		{ID: "q3", Query: "How many cars are parked?", Calls: []Call{call("mean", "1")}},
	}
	run := &Run{Predictions: map[string]*Prediction{
		"q1": {Calls: []Call{call("InstructSAM", "11"), call("mean", "[1.0, 2.5]"), call("kurtosis", "3"), {Name: "mean", Input: parsed(t, "{}")}}},
		"q2": {Calls: []Call{call("mean", "1")}},
	}}
	samples, tasks, err := Calibrate(context.Background(), nil, "", []*Run{run}, benchmark)
	if err != nil || len(samples) != 2 || len(tasks) != 1 || tasks[0] != "q1" {
		t.Fatalf("%+v %v %v", samples, tasks, err)
	}
	if s := samples[0]; s.Task != "Object Counting" || s.Config.Coarse != "perceive:objects" || !s.Valid || samples[1].Valid {
		t.Errorf("%+v", samples)
	}
	p, err := rsure.Fit(samples, tasks, []string{"q9"})
	if err != nil || len(p.Coarse) != 2 || len(p.Fine) != 1 {
		t.Errorf("%+v %v", p, err)
	}
}

// RS-14 to RS-16: a prior that is fitted on logged runs, whose calls have no
// evidence, is found online at the finest level with n_min calls, also for a
// measurement tool of the kit and for calls that were logged by an alias.
func TestPriorIsFoundOnline(t *testing.T) {
	dir := t.TempDir()
	if err := raster.Save(filepath.Join(dir, "a.tif"), raster.Spec{Type: raster.Float32}, &raster.Grid{Width: 2, Height: 2, Data: []float32{0, 1, 1, 1}}); err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(dir, workspace.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	kit, err := tools.New(tools.Correct, tools.WithWorkspace(w))
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]string{
		"calculate_area":                       `{"input_image_path":"a.tif","gsd":2}`,
		"calc_batch_image_hotspot_percentage":  `{"file_list":["a.tif"],"threshold":0.5}`,
		"calc_single_image_hotspot_percentage": `{"file_list":["a.tif"],"threshold":0.5}`, // an alias of it
		"count_above_threshold":                `{"file_path":"a.tif","threshold":0.5}`,
		"calc_batch_fire_pixels":               `{"file_list":["a.tif"]}`,
		"calculate_threshold_ratio":            `{"image_paths":["a.tif"]}`,
	}
	var benchmark []Question
	run := &Run{Predictions: map[string]*Prediction{}}
	log := func(tool string, valid, calls int) {
		for i := range calls {
			id := fmt.Sprintf("%s-%d", tool, i)
			got := "1"
			if i >= valid {
				got = "2"
			}
			benchmark = append(benchmark, Question{ID: id, Query: "What is the area of the courts?", Calls: []Call{{Name: tool, Input: parsed(t, "{}"), Output: parsed(t, "1")}}})
			run.Predictions[id] = &Prediction{Calls: []Call{{Name: tool, Input: parsed(t, arguments[tool]), Output: parsed(t, got)}}}
		}
	}
	log("calculate_area", 6, 8)
	log("calc_single_image_hotspot_percentage", 8, 8)
	log("count_above_threshold", 1, 4) // with the next 8 calls of the metric count
	log("calc_batch_fire_pixels", 2, 4)
	log("calculate_threshold_ratio", 7, 7)
	samples, tasks, err := Calibrate(context.Background(), nil, "", []*Run{run}, benchmark)
	if err != nil {
		t.Fatal(err)
	}
	prior, err := rsure.Fit(samples, tasks, nil)
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]struct {
		level string
		value float64
	}{"calculate_area": {"fine", 7. / 10}, "calc_batch_image_hotspot_percentage": {"fine", 9. / 10}, "count_above_threshold": {"coarse", 4. / 10}, "calculate_threshold_ratio": {}} {
		script := llm.NewScript(llm.Line{Reply: `{"decision": "accept"}`})
		s := (&rsure.Protocol{Level: rsure.Full, Limits: rsure.DefaultLimits, Prior: prior, Verifier: script}).Start("What is the area of the yard?", nil)
		a := rsure.Action{Tool: tool, Args: parsed(t, arguments[tool])}
		r, err := kit.Invoke(t.Context(), tool, a.Args)
		if err != nil {
			t.Fatal(err)
		}
		j, err := s.Judge(t.Context(), a, &r, nil, true)
		if err != nil || j.Source != want.level || (j.Prior != nil) != (want.level != "") || j.Prior != nil && math.Abs(*j.Prior-want.value) > 1e-12 {
			t.Errorf("%s: %+v %v, want %+v", tool, j, err, want)
		}
		if asked := script.Asked("verifier"); len(asked) != 1 || strings.HasSuffix(asked[0].Messages[1].Content, `"prior":null}`) != (want.level == "") {
			t.Errorf("%s: %+v", tool, asked)
		}
	}
}

func TestSameObservation(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"100", "114.9", true}, {"100", "115", false}, {"0", "0.0", true}, {"0", "0.1", false}, {`"a "`, `"a"`, true}, {`"a"`, "1", false},
		{"[1,2]", "[1,2]", true}, {"[1,2]", "[1]", false}, {`{"a":1,"b":"x"}`, `{"b":"x","a":1.05}`, true}, {`{"a":1}`, `{"b":1}`, false}, {"true", "true", true}, {"true", "false", false},
	} {
		if got := SameObservation(parsed(t, c.want), parsed(t, c.got)); got != c.same {
			t.Errorf("%s, %s: %v", c.want, c.got, got)
		}
	}
}
