package seeds

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/environment"
	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data"
	"terraloom/data/strictjson"
)

// replay makes the calls of a seed up to a step in a fresh session.
func replay(t *testing.T, env *environment.Environment, s *data.Trajectory, steps int) *environment.Session {
	t.Helper()
	session, err := env.Session(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range steps {
		got, err := session.Call(s.Steps[i].Tool, s.Steps[i].Arguments)
		if err != nil || !got.Equal(s.Steps[i].Observation) {
			t.Fatalf("%s step %d: %s, %v", s.ID, i, got.JSON(), err)
		}
	}
	return session
}

// with is an argument object with one member changed.
func with(args strictjson.Value, key string, v strictjson.Value) strictjson.Value {
	kids := make([]strictjson.Value, args.Len())
	for i := range kids {
		if kids[i] = args.Index(i); args.Key(i) == key {
			kids[i] = v
		}
	}
	return args.Rebuilt(kids)
}

// stepOf is the index of the first call of a tool.
func stepOf(t *testing.T, s *data.Trajectory, tool string) int {
	t.Helper()
	for i := range s.Steps {
		if s.Steps[i].Tool == tool {
			return i
		}
	}
	t.Fatalf("%s does not call %s", s.ID, tool)
	return 0
}

// Three seeds are disturbed. What comes back is evidence of what is wrong, not a number.
func TestPerturbedSeedsGiveHonestEvidence(t *testing.T) {
	spec := bundledSpec(t)
	env := openEnvironment(t, spec)
	have := bundled(t, "")

	t.Run("a missing file", func(t *testing.T) {
		s := have[ID(2)]
		i := stepOf(t, s, "calculate_threshold_ratio")
		session := replay(t, env, s, i)
		lost := s.Steps[i].Arguments.Get("image_paths").Index(0).Text()
		if err := os.Remove(filepath.Join(session.Dir(), filepath.FromSlash(lost))); err != nil {
			t.Fatal(err)
		}
		res, err := session.Invoke(s.Steps[i].Tool, s.Steps[i].Arguments)
		if !errors.Is(err, tools.ErrBadArguments) || !errors.Is(err, workspace.ErrNotFound) || res.Evidence.Status != tools.Failed || !strings.Contains(res.Evidence.Reason, filepath.Base(lost)) {
			t.Errorf("%v: %s", err, res.JSON().JSON())
		}
		if res.Value.Kind() != strictjson.Null {
			t.Errorf("a value in spite of it: %s", res.Value.JSON())
		}
	})

	t.Run("a cloud-covered date", func(t *testing.T) {
		s := have[ID(2)]
		i := stepOf(t, s, "apply_scale_offset") + 1 // the temperature, which clouds hide
		session := replay(t, env, s, 0)
		// A day of the rainy season over a rainforest: the sky stays closed.
		args := s.Steps[1].Arguments
		args = with(args, "bbox", list(100.2, -0.9, 100.4, -0.7))
		args = with(args, "interval", strictjson.Text("day"))
		args = with(args, "source", strictjson.Text("MODIS/061/MOD11A1"))
		covered := ""
		for day := 1; day <= 28 && covered == ""; day++ {
			date := strictjson.Text("2020-11-" + string(rune('0'+day/10)) + string(rune('0'+day%10)))
			res, err := session.Invoke("download_product", with(args, "time_range", strictjson.List(date, date)))
			if err != nil {
				t.Fatal(err)
			}
			if res.Evidence.Used == 0 {
				covered = res.Value.Index(0).Text()
				if len(res.Evidence.Warnings) == 0 || !strings.Contains(res.Evidence.Warnings[0], "clouds") {
					t.Errorf("the download does not warn: %s", res.JSON().JSON())
				}
			}
		}
		if covered == "" {
			t.Fatal("no day without a view; choose another place")
		}
		scale := with(with(s.Steps[i].Arguments, "file_list", strictjson.List(strictjson.Text(covered))), "output_path", strictjson.List(strictjson.Text("k.tif")))
		res, err := session.Invoke("apply_scale_offset", scale)
		if err != nil || res.Evidence.Status != tools.Insufficient || res.Value.Kind() != strictjson.Null || len(res.Artefacts) != 0 {
			t.Errorf("%v: %s", err, res.JSON().JSON())
		}
		if _, err := session.Call("apply_scale_offset", scale); !errors.Is(err, tools.ErrInsufficient) {
			t.Errorf("%v; want %v", err, tools.ErrInsufficient)
		}
	})

	t.Run("an empty selection", func(t *testing.T) {
		s := have[ID(25)] // the mean of one band where another is above a limit
		i := stepOf(t, s, "calculate_band_mean_by_condition")
		session := replay(t, env, s, i)
		res, err := session.Invoke(s.Steps[i].Tool, with(s.Steps[i].Arguments, "condition_threshold", strictjson.Int(400)))
		if err != nil || res.Evidence.Status != tools.Insufficient || res.Value.Kind() != strictjson.Null || res.Evidence.Reason == "" {
			t.Errorf("%v: %s", err, res.JSON().JSON())
		}
	})
}

func list(f ...float64) strictjson.Value {
	items := make([]strictjson.Value, len(f))
	for i := range f {
		items[i] = strictjson.Float(f[i])
	}
	return strictjson.List(items...)
}
