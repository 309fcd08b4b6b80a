package rsure

import (
	"fmt"
	"path/filepath"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/raster"
	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
)

// The metric that a measurement tool of the kit is known by is the one that its
// evidence has.
func TestMetricsAreThoseOfTheEvidence(t *testing.T) {
	dir := t.TempDir()
	bits := &raster.Grid{Width: 5, Height: 5, Data: make([]float32, 25)}
	for _, i := range []int{6, 7, 8, 11, 12, 13, 16, 17, 18} {
		bits.Data[i] = 1
	}
	if err := raster.Save(filepath.Join(dir, "a.tif"), raster.Spec{Type: raster.Float32}, bits); err != nil {
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
	known := 0
	for name, args := range map[string]string{
		"calculate_area": `{"input_image_path":"a.tif","gsd":0.5}`, "calculate_intersection_percentage": `{"path1":"a.tif","threshold1":0.5,"path2":"a.tif","threshold2":0.5}`,
		"calculate_threshold_ratio": `{"image_paths":["a.tif"]}`, "calculate_multi_band_threshold_ratio": `{"image_path":"a.tif","band_conditions":[[0,0.5,"above"]]}`,
		"calc_batch_image_hotspot_percentage": `{"file_list":["a.tif"],"threshold":0.5}`, "calc_extreme_snow_loss_percentage_from_binary_map": `{"binary_map_path":"a.tif"}`,
		"count_above_threshold": `{"file_path":"a.tif","threshold":0.5}`, "count_pixels_satisfying_conditions": `{"image_path":"a.tif","band_conditions":[[0,0.5,"above"]]}`,
		"count_skeleton_contours": `{"image_path":"a.tif"}`, "calc_batch_fire_pixels": `{"file_list":["a.tif"]}`,
	} {
		a := Action{name, parse(t, args)}
		r, err := kit.Invoke(t.Context(), name, a.Args)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c := ConfigOf(a); r.Evidence.Family != tools.Measure || c.Coarse != "measure:"+r.Evidence.Measure.Metric || c.Fine != c.Coarse+"|auto|"+name {
			t.Errorf("%s: %+v, the evidence is %s %q", name, c, r.Evidence.Family, r.Evidence.Measure.Metric)
		}
		known++
	}
	if known != len(metrics) {
		t.Errorf("%d of %d tools were tried", known, len(metrics))
	}
}

// RS-19: the request on a measurement of the kit ends as every other does: after
// K_max follow-ups the tool is closed.
func TestRequestOnMeasurementEnds(t *testing.T) {
	script := llm.NewScript(llm.Line{Reply: `{"decision": "request_evidence", "needed": "more"}`, Repeat: true})
	s := (&Protocol{Level: Full, Limits: DefaultLimits, Verifier: script}).Start("How large is the court?", nil)
	made := 0
	for ; made < DefaultLimits.Calls; made++ {
		a := Action{"calculate_area", parse(t, fmt.Sprintf(`{"input_image_path":"%d.png","gsd":0.13}`, made))}
		if why, err := s.Before(a); err != nil {
			t.Fatal(err)
		} else if why != "" {
			break
		}
		if _, err := s.Judge(t.Context(), a, whole(t, tools.Measure), nil, true); err != nil {
			t.Fatal(err)
		}
	}
	if made != 1+DefaultLimits.FollowUps {
		t.Errorf("%d calls, want 1 + %d", made, DefaultLimits.FollowUps)
	}
}
