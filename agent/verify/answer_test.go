package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/memory"
	"terraloom/data"
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

// done is a state whose steps were all accepted. A step is tool, arguments, observation.
func done(t testing.TB, steps ...[3]string) *memory.State {
	t.Helper()
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s[0]
	}
	state := memory.Init(names)
	for i, s := range steps {
		if err := state.Accept(i+1, memory.Record{Tool: s[0], Arguments: parse(t, s[1]), Observation: parse(t, s[2])}, ""); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

func dated(format string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"`+format+`"`, 1+i)
	}
	return `{"file_list":[` + strings.Join(names, ",") + `]}`
}

// AGT-26: the controller checks required computations, spatiotemporal coverage,
// aggregation, units, numerical scale and non-finite results.
func TestAGT26SixDefects(t *testing.T) {
	days := "[" + strings.TrimSuffix(strings.Repeat("1.5,", 24), ",") + "]"
	list24 := strings.NewReplacer("{", "", "}", "").Replace(dated("benchmark/data/q/x_2020-%02d-01.tif", 12) + "," + dated("benchmark/data/q/x_2021-%02d-01.tif", 12))
	list24 = `{"file_list":[` + strings.NewReplacer(`"file_list":[`, "", "]", "").Replace(list24) + `]}`
	for name, c := range map[string]struct {
		question, inputs string
		state            *memory.State
		defect, says     string
		node             int
	}{
		"the mean was not run": {"Compute the mean rainfall of the lake.", "{}",
			done(t, [3]string{"get_filelist", `{"dir_path":"d"}`, `["a.tif"]`}, [3]string{"calc_batch_image_max", `{"file_list":["d/a.tif"]}`, `[3.5]`}), DefectComputation, "mean", 0},
		"September is missing": {"What was the mean temperature from June to September 2020?", "{}",
			done(t, [3]string{"calc_batch_image_mean", `{"file_list":["q/lst_2020-06-01.tif","q/lst_2020-07-01.tif","q/lst_2020-08-01.tif"]}`, `[1.5,2.5,3.5]`}), DefectCoverage, "September", 1},
		"a year is missing": {"Fit the values for 2013 to 2016.", "{}",
			done(t, [3]string{"calc_batch_image_mean", `{"file_list":["q/a_2013-01-01.tif","q/a_2014-01-01.tif","q/a_2016-01-01.tif"]}`, `[1.5,2.5,3.5]`}), DefectCoverage, "2015", 1},
		"the region is another": {"What is shown?", `{"bbox":[10.5,40.5,11.5,41.5]}`,
			func() *memory.State {
				s := done(t, [3]string{"download_product", `{"source":"x"}`, `["a.tif"]`})
				s.Evidence[0].Provenance.Files = []memory.File{{Path: "a.tif", Region: []float64{30, 40, 31, 41}}}
				return s
			}(), DefectCoverage, "region", 1},
		"daily for annual": {"How did the annual mean values develop?", "{}",
			done(t, [3]string{"calc_batch_image_mean", list24, days}, [3]string{"compute_linear_trend", `{"y":` + days + `}`, `[0.5,1.0]`}), DefectAggregation, "24 values for 2 years", 2},
		"kelvin for °C": {"What is the surface temperature in °C?", "{}",
			done(t, [3]string{"lst_single_channel", `{"bt_path":"a.tif"}`, `"x.tif"`}, [3]string{"mean", `{"x":[300.25,300.75]}`, `300.5`}), DefectUnits, "kelvin_to_celsius", 2},
		"0.28 for 28 %": {"What percentage of the snow was lost?", "{}",
			done(t, [3]string{"calc_extreme_snow_loss_percentage_from_binary_map", `{"binary_map_path":"a.tif"}`, `0.28`}), DefectScale, "per cent", 1},
		"NaN": {"How large is it?", "{}", done(t, [3]string{"calc_batch_image_max", `{"file_list":["a.tif"]}`, `["NaN"]`}), DefectNotFinite, "step 1", 1},
	} {
		gaps := Sufficient(c.question, parse(t, c.inputs), c.state)
		if len(gaps) != 1 || gaps[0].Defect != c.defect || gaps[0].Node != c.node || !strings.Contains(gaps[0].Diagnosis, c.says) {
			t.Errorf("%s: %+v", name, gaps)
		}
	}
	whole := done(t, [3]string{"calc_batch_image_mean", `{"file_list":["q/lst_2020-06-01.tif","q/lst_2020-07-01.tif","q/lst_2020-08-01.tif","q/lst_2020-09-01.tif"]}`, `[1.5,2.5,3.5,4.5]`}, [3]string{"mean", `{"x":[1.5,2.5,3.5,4.5]}`, `3.0`})
	if gaps := Sufficient("What was the mean temperature from June to September 2020?", parse(t, "{}"), whole); gaps != nil {
		t.Errorf("whole evidence: %+v", gaps)
	}
}

// An operation that was planned and not carried out is a gap that names its node.
func TestPendingNodeIsAGap(t *testing.T) {
	s := memory.Init([]string{"get_filelist", "mean"})
	if err := s.Accept(1, memory.Record{Tool: "get_filelist", Arguments: parse(t, "{}"), Observation: parse(t, `["a.tif"]`)}, ""); err != nil {
		t.Fatal(err)
	}
	if gaps := Sufficient("q", parse(t, "{}"), s); len(gaps) != 1 || gaps[0].Node != 2 || gaps[0].Defect != DefectComputation {
		t.Errorf("%+v", gaps)
	}
}

// The reference trajectories are taken for sufficient: rules that speak without
// being sure would reopen what is right.
func TestReferencesAreSufficient(t *testing.T) {
	res, err := data.Import(filepath.Join(shared(t), "earth-bench", "question.json"), "", data.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	alarms := 0
	for _, tr := range res.Trajectories {
		names := make([]string, len(tr.Steps))
		for i, s := range tr.Steps {
			names[i] = s.Tool
		}
		state := memory.Init(names)
		for i, s := range tr.Steps {
			o := s.Observation
			if o.IsAbsent() {
				o = strictjson.Text("not recorded")
			}
			if err := state.Accept(i+1, memory.Record{Tool: s.Tool, Arguments: s.Arguments, Observation: o}, ""); err != nil {
				t.Fatal(err)
			}
		}
		if gaps := Sufficient(tr.Query, tr.Inputs, state); gaps != nil {
			alarms++
			t.Logf("%s %q: %+v", tr.ID, tr.Query[:min(160, len(tr.Query))], gaps)
		}
	}
	if alarms > len(res.Trajectories)/20 {
		t.Errorf("%d of %d reference trajectories are found insufficient", alarms, len(res.Trajectories))
	}
}

// shared is the folder of the real data; the test is skipped where it is missing.
func shared(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("TERRALOOM_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no real data: %v; set TERRALOOM_SHARED", err)
	}
	return dir
}
