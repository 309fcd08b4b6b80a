package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"terraloom/lora/backend/backendtest"
)

func readReport(t *testing.T, path string) (r Report) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A part that fails, panics, finds no number or outlives its time costs no other part's result.
func TestRunKeepsWhatWorks(t *testing.T) {
	defer func(d time.Duration) { grace = d }(grace)
	grace = 10 * time.Millisecond
	out := filepath.Join(t.TempDir(), "report.json")
	forever := make(chan struct{})
	defer close(forever)
	good := func(context.Context) (any, error) { return 7, nil }
	parts := []Part{
		{"good", 1, good},
		{"fails", 1, func(context.Context) (any, error) { return "half", errors.New("broken") }},
		{"panics", 1, func(context.Context) (any, error) { panic("bad graph") }},
		{"no number", 1, func(context.Context) (any, error) { return math.NaN(), nil }},
		{"too long", 0.01, func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() }},
		{"good again", 1, func(context.Context) (any, error) {
			if r := readReport(t, out); len(r.Parts) != 5 || r.Complete {
				t.Errorf("the file has %d parts, complete %t", len(r.Parts), r.Complete)
			}
			return 8, nil
		}},
		{"deaf", 0.01, func(context.Context) (any, error) { <-forever; return nil, nil }},
		{"left", 1, good},
	}
	_, err := Run(t.Context(), backendtest.Open(t), parts, Options{Out: out, Limit: 5 * time.Second})
	if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "fails, panics, no number, too long, deaf, left") {
		t.Errorf("%v", err)
	}
	r := readReport(t, out)
	want := []struct{ result, err string }{
		{"7", ""}, {`"half"`, "broken"}, {"", "bad graph"}, {"", "unsupported value"}, {"", "deadline"}, {"8", ""}, {"", "still busy"}, {"", "deaf did not stop"},
	}
	if !r.Complete || len(r.Parts) != len(want) || r.Device == "" || r.Versions["go"] == "" {
		t.Fatalf("%+v", r)
	}
	for i, w := range want {
		if e := r.Parts[i]; string(e.Result) != w.result || !strings.Contains(e.Error, w.err) || w.err == "" && e.Error != "" {
			t.Errorf("%s: %s, %q", e.Name, e.Result, e.Error)
		}
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := filepath.Join(t.TempDir(), "report.json")
	parts := []Part{
		{"first", 1, func(ctx context.Context) (any, error) { cancel(); return 1, nil }},
		{"second", 1, func(context.Context) (any, error) { t.Error("second was run"); return nil, nil }},
	}
	if _, err := Run(ctx, backendtest.Open(t), parts, Options{Out: out, Limit: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if r := readReport(t, out); len(r.Parts) != 2 || string(r.Parts[0].Result) != "1" || !strings.Contains(r.Parts[1].Error, "not run") {
		t.Errorf("%+v", r.Parts)
	}
	if _, err := Run(t.Context(), backendtest.Open(t), nil, Options{Out: filepath.Join(t.TempDir(), "no", "such", "report.json"), Limit: time.Minute}); err == nil {
		t.Error("a report that cannot be written was no error")
	}
}

// The rehearsal: the parts of a GPU run on tiny shapes.
func TestPartsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for half a minute")
	}
	b := backendtest.Open(t)
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		_, file, _, _ := runtime.Caller(0)
		root = filepath.Join(filepath.Dir(file), "..", "..", "..", "shared")
	}
	goldens := filepath.Join(root, "model-golden")
	parts, err := Parts(b, Small, goldens)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		t.Run(p.Name, func(t *testing.T) {
			if _, err := os.Stat(goldens); p.Name == "goldens" && err != nil {
				t.Skipf("no reference models (set TERRALOOM_SHARED): %v", err)
			}
			got, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch r := got.(type) {
			case Checked:
				if r.Precision != "float32" || !(r.BFloat16 > 0) {
					t.Errorf("%+v", r)
				}
			case Bandwidth:
				if !(r.Rate > 0.1) {
					t.Errorf("%+v", r)
				}
			case []Compared:
				for _, c := range r {
					if len(c.Deviations) != 6 {
						t.Errorf("%+v", c)
					}
				}
			case Training:
				if len(r.Steps) != timedSteps || !(r.MFU > 0 && r.MFU < 1.5) || !(r.LossLast < r.LossFirst) {
					t.Errorf("%+v", r)
				}
			case []Decoding:
				if len(r) != 3 || !(r[2].PerSecond > r[0].PerSecond) {
					t.Errorf("%+v", r)
				}
				for _, d := range r {
					if !(d.Share > 0 && d.Step > 0) {
						t.Errorf("%+v", d)
					}
				}
			default:
				t.Errorf("%T", got)
			}
		})
	}
	if _, err := Parts(b, "huge", goldens); err == nil || !strings.Contains(err.Error(), `"huge"`) {
		t.Errorf("%v", err)
	}
}

// The shapes are the published ones, by their numbers of parameters.
func TestFullShapes(t *testing.T) {
	models, err := subjects(Full)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"qwen3.5-0.8b": 752393024, "qwen3.5-4b": 4205751296}
	if len(models) != len(want) {
		t.Errorf("%d models", len(models))
	}
	for _, s := range models {
		if got := s.config.Parameters(); got != want[s.name] {
			t.Errorf("%s: %d parameters, expected %d", s.name, got, want[s.name])
		}
	}
}

func TestGoldenTolerance(t *testing.T) {
	g := &golden{}
	g.info.Tensors = map[string]struct{ Atol float64 }{"x": {0.1}}
	d, err := g.numbers("x", []float32{1, 2}, []float32{1, 2.5})
	if err != nil || d.Max != 0.5 || d.Max <= d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	nan := float32(math.NaN())
	for name, got := range map[string][]float32{"no number": {1, nan}, "length": {1}} {
		if _, err := g.numbers("x", got, []float32{1, 2}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := g.numbers("y", nil, nil); err == nil {
		t.Error("a golden without tolerance was compared")
	}
	_, err = compareGoldens(t.Context(), nil, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "--goldens") {
		t.Errorf("%v", err)
	}
}
