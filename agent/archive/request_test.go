package archive

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func on(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

// good is a spec without faults.
func good() Spec {
	return Spec{Product: "MOD11A1", Bands: []string{"LST"}, Box: Box{-101.84, 20.98, -101.54, 21.23}, Start: on("2020-01-01"), End: on("2020-01-31"), Name: "Leon"}
}

func TestResolve(t *testing.T) {
	r, err := Resolve(Products(), good())
	if err != nil {
		t.Fatal(err)
	}
	if r.Product.ID != "MODIS/061/MOD11A1" || len(r.Bands) != 1 || r.Bands[0].Name != "LST_Day_1km" || r.ScaleM != 1000 || !r.OwnScale || !r.Step.IsZero() {
		t.Errorf("resolved to %+v", r)
	}
	s := good()
	s.Bands = nil
	if r, err := Resolve(Products(), s); err != nil || len(r.Bands) != len(r.Product.Bands) {
		t.Errorf("no bands resolve to %v, %v", r, err)
	}
	s.Interval = "day" // the product's own
	if r, err := Resolve(Products(), s); err != nil || !r.Step.IsZero() {
		t.Errorf("the product's own interval resolves to %v, %v", r.Step, err)
	}
}

func TestResolveFaults(t *testing.T) {
	tests := []struct {
		name        string
		change      func(*Spec)
		field, want string
		kind        error
	}{
		{"product", func(s *Spec) { s.Product = "MOD11A9" }, "source", "MODIS/061/MOD11A1", ErrUnknownProduct},
		{"no product", func(s *Spec) { s.Product = "" }, "source", "products", ErrUnknownProduct},
		{"band", func(s *Spec) { s.Bands = []string{"B4"} }, "bands", "LST_Night_1km", ErrUnknownBand},
		{"band twice", func(s *Spec) { s.Bands = []string{"LST", "LST_Day_1km"} }, "bands", "listed twice", nil},
		{"west > east", func(s *Spec) { s.Box.West, s.Box.East = s.Box.East, s.Box.West }, "bbox", "west (-101.54) must be less than east (-101.84)", nil},
		{"south > north", func(s *Spec) { s.Box.South = 40 }, "bbox", "south (40) must be less", nil},
		{"latitude", func(s *Spec) { s.Box.North = 91 }, "bbox", "-90 … 90", nil},
		{"NaN", func(s *Spec) { s.Box.North = math.NaN() }, "bbox", "four numbers", nil},
		{"before the record", func(s *Spec) { s.Start = on("1999-12-31") }, "time_range", "2000-02-24 … 2025-12-31", nil},
		{"after the record", func(s *Spec) { s.End = on("2031-01-01") }, "time_range", "2000-02-24 … 2025-12-31", nil},
		{"backwards", func(s *Spec) { s.End = on("2019-01-01") }, "time_range", "must not be after", nil},
		{"no period", func(s *Spec) { s.End = time.Time{} }, "time_range", "first and the last day", nil},
		{"interval", func(s *Spec) { s.Interval = "fortnight" }, "interval", `"8 days"`, nil},
		{"short interval", func(s *Spec) { s.Product, s.Bands, s.Interval = "MOD13Q1", nil, "8 days" }, "interval", "each 16 days", nil},
		{"scale", func(s *Spec) { s.ScaleM = -5 }, "scale_m", "positive", nil},
		{"pixels", func(s *Spec) { s.Box = Box{-120, 20, -80, 50} }, "scale_m", "use at least 1", ErrTooLarge},
		{"name", func(s *Spec) { s.Name = "../x" }, "base_save_name", "letters", nil},
		{"hidden name", func(s *Spec) { s.Name = ".x" }, "base_save_name", "letters", nil},
		{"no name", func(s *Spec) { s.Name = "" }, "base_save_name", "letters", nil},
	}
	for _, tt := range tests {
		s := good()
		tt.change(&s)
		_, err := Resolve(Products(), s)
		var e *SpecError
		if !errors.As(err, &e) || !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v is no *SpecError", tt.name, err)
			continue
		}
		if e.Field != tt.field || !strings.Contains(err.Error(), tt.want) || tt.kind != nil && !errors.Is(err, tt.kind) {
			t.Errorf("%s: %v, want field %s, %q, kind %v", tt.name, err, tt.field, tt.want, tt.kind)
		}
	}
}

// All faults come at once.
func TestResolveCollectsFaults(t *testing.T) {
	s := good()
	s.Box.West, s.Bands, s.Name, s.Start = 10, []string{"B9"}, "a/b", on("1990-01-01")
	_, err := Resolve(Products(), s)
	for _, field := range []string{"bbox", "bands", "base_save_name", "time_range"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("the fault of %s is missing from %v", field, err)
		}
	}
}

// The scale that the error names is enough.
func TestLeastScale(t *testing.T) {
	s := good()
	s.Box = Box{-120, 20, -80, 50}
	s.ScaleM = 1778
	if _, err := Resolve(Products(), s); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "use at least 1") {
		t.Fatalf("%v", err)
	}
	s.ScaleM = 1885
	r, err := Resolve(Products(), s)
	if err != nil || r.Grid.Width*r.Grid.Height > MaxPixels {
		t.Errorf("%v", err)
	}
}

func TestGrid(t *testing.T) {
	const deg = 1000 / metresPerDegree
	g := NewGrid(Box{0, 0, 3 * deg, 2 * deg}, 1000)
	if g.X != 0 || g.Y != 1 || g.Width != 3 || g.Height != 2 {
		t.Errorf("a box on pixel borders has the grid %+v", g)
	}
	g = NewGrid(Box{-0.5 * deg, -1.5 * deg, 0.5 * deg, 0.1 * deg}, 1000)
	if g.X != -1 || g.Y != 0 || g.Width != 2 || g.Height != 3 {
		t.Errorf("a box across 0° has the grid %+v", g)
	}
	if x, y := g.Centre(0, 0); math.Abs(x+0.5*deg) > 1e-12 || math.Abs(y-0.5*deg) > 1e-12 {
		t.Errorf("the first pixel lies at %g, %g", x, y)
	}
	b := g.Transform().Bounds(g.Width, g.Height)
	if math.Abs(b.MinX+deg) > 1e-12 || math.Abs(b.MaxY-deg) > 1e-12 || math.Abs(b.MaxX-deg) > 1e-12 || math.Abs(b.MinY+2*deg) > 1e-12 {
		t.Errorf("the grid covers %+v", b)
	}
	if g := NewGrid(Box{10, 50, 10 + 1e-9, 50 + 1e-9}, 1000); g.Width != 1 || g.Height != 1 {
		t.Errorf("a point has the grid %+v", g)
	}
}
