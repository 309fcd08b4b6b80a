package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data"
)

func TestAuditClasses(t *testing.T) {
	step := func(tool, args string) data.Step { return data.Step{Tool: tool, Arguments: mustParse(t, args)} }
	seed := &data.Trajectory{ID: "s", Steps: []data.Step{
		step("difference", `{"a":1,"b":2}`),
		step("difference", `{"a":"1","b":2}`),
		step("argmax", `{"x":[1]}`),
		step("division", `{"a":0,"b":1}`),
		step("magic", `{}`),
		step("calc_batch_image_hotspot_percentage", `{"file_list":["a.tif"],"threshold":"30% more"}`),
		step("calc_batch_image_mean", `{"file_list":["/elsewhere/a.tif"]}`),
		step("threshold_segmentation", `{"input_image_path":"a.tif","threshold":1,"output_path":"../b.tif"}`),
		step("lst_multi_channel", `{"band31_path":["a","b"],"band32_path":["c"],"output_path":["d","e"]}`),
		step("lst_multi_channel", `{"band31_path":["a","b"],"band32_path":["c","d"],"output_path":["e","f"]}`),
		step("calculate_mean_lst_by_ndvi", `{"red_paths":["a","b"],"nir_paths":["c"],"lst_paths":["d","e"],"ndvi_threshold":0.2}`),
		step("apply_scale_offset", `{"file_list":["a","b"],"scale":1,"output_path":["d"]}`),
		step("calculate_area", `{"image_path":"a.png","gsd":null}`),
	}}
	a, err := Audit([]*data.Trajectory{seed})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		class AuditClass
		kind  string
	}{
		{Native, ""}, {ByAlias, "converted"}, {ByAlias, "tool name"}, {Impossible, "undefined"}, {Impossible, "unknown tool"}, {Impossible, "type argument"},
		{Impossible, "path"}, {Impossible, "path"}, {Impossible, "lists of unequal length"}, {ByAlias, "listed"},
		{Impossible, "lists of unequal length"}, {Impossible, "lists of unequal length"}, {ByAlias, "renamed"},
	} {
		c := a.Calls[i]
		if c.Class != want.class || c.Step != i || strings.Join(c.Kinds, " ") != want.kind || (c.Reason == "") != (c.Class == Native) {
			t.Errorf("call %d: %+v, want %s %q", i, c, want.class, want.kind)
		}
	}
	if s := a.String(); !strings.HasPrefix(s, "13 calls\n     1 native\n     4 by alias: ") || !strings.Contains(s, "\n     8 impossible: lists of unequal length 3, path 2, ") || !strings.Contains(s, "s step 4: unknown tool") {
		t.Errorf("summary:\n%s", s)
	}
	if v := a.Value(); v.Get("total").JSON() != "13" || v.Get("impossible").JSON() != "8" || v.Get("calls").Index(3).Get("class").Text() != "impossible" {
		t.Errorf("JSON: %s", v.JSON())
	}
}

// Every call of the public tasks has a class; what is impossible is a fault of the
// record: lists of unequal length, paths of another machine, words for a number.
func TestAuditOfTheReferenceCalls(t *testing.T) {
	text := sharedFile(t, "earth-bench/question.json")
	path := filepath.Join(t.TempDir(), "question.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	res, err := data.Import(path, "", data.ImportOptions{Regime: "ap"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := Audit(res.Trajectories)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(a)
	if len(a.Calls) != 1335 || a.Count(Native) != 1215 || a.Count(ByAlias) != 104 || a.Count(Impossible) != 16 {
		t.Errorf("%d calls, %d native, %d by alias, %d impossible; want 1335, 1215, 104, 16", len(a.Calls), a.Count(Native), a.Count(ByAlias), a.Count(Impossible))
	}
	shortest := 0
	for _, c := range a.Calls {
		if c.Class == Impossible && c.Kinds[0] == "unknown tool" {
			t.Errorf("%s step %d: %s", c.Seed, c.Step, c.Reason)
		}
		shortest += boolInt(strings.Contains(c.Reason, "up to the end of the shortest list"))
	}
	// The rest are paths of another machine and words for a number.
	if shortest != 9 {
		t.Errorf("%d of the impossible calls run under %s, want 9", shortest, EarthAgent)
	}
}
