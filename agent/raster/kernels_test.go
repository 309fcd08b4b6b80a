package raster

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// naiveStats is the definition: two passes in float64, invalid values left out.
func naiveStats(data []float32) (n int, sum, mean, std, lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, v := range data {
		if Finite(v) {
			n++
			sum += float64(v)
			lo, hi = min(lo, float64(v)), max(hi, float64(v))
		}
	}
	mean = sum / float64(n)
	for _, v := range data {
		if Finite(v) {
			std += (float64(v) - mean) * (float64(v) - mean)
		}
	}
	return n, sum, mean, math.Sqrt(std / float64(n)), lo, hi
}

func near(a, b, tolerance float64) bool {
	return a == b || math.Abs(a-b) <= tolerance*max(1, math.Abs(a), math.Abs(b))
}

func TestStats(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int{1, 7, 8, 9, statBlock, statBlock + 1, ChunkPixels + 3, 3*ChunkPixels + 17} {
		for name, value := range map[string]func(i int) float32{
			"all valid":    func(int) float32 { return float32(rng.NormFloat64()*3 + 290) },
			"some invalid": func(i int) float32 { return []float32{NaN(), float32(math.Inf(1)), float32(i), -2}[rng.IntN(4)] },
			"first valid": func(i int) float32 {
				if i == 0 {
					return 4
				}
				return NaN()
			},
			"large": func(int) float32 { return math.MaxFloat32 },
			"opposite infinities": func(i int) float32 {
				if i == 0 {
					return 1
				}
				return float32(math.Inf(i%2*2 - 1))
			},
		} {
			data := make([]float32, n)
			for i := range data {
				data[i] = value(i)
			}
			data[0] = min(data[0], 1e30) // at least one valid value
			if !Finite(data[0]) {
				data[0] = 1
			}
			valid, sum, mean, std, lo, hi := naiveStats(data)
			s := Summarize(data)
			if s.Total != int64(n) || s.Valid != int64(valid) || s.Min != lo || s.Max != hi || !near(s.Sum, sum, 1e-12) ||
				!near(s.Mean(), mean, 1e-12) || !near(s.Std(0), std, 1e-9) {
				t.Errorf("%s, %d values: %+v mean %v std %v; want %d %v %v %v %v %v", name, n, s, s.Mean(), s.Std(0), valid, sum, mean, std, lo, hi)
			}
			if m, k := Mean(data); k != valid || !near(m, mean, 1e-12) {
				t.Errorf("%s, %d values: Mean %v of %d, want %v of %d", name, n, m, k, mean, valid)
			}
		}
	}
	s := Summarize([]float32{2, 4, 4, 4, 5, 5, 7, 9, NaN()})
	if s.Mean() != 5 || s.Std(0) != 2 || !near(s.Std(1), math.Sqrt(32.0/7), 1e-15) || s.Valid != 8 || s.Total != 9 {
		t.Errorf("%+v", s)
	}
	none := Summarize([]float32{NaN(), NaN()})
	if none.Valid != 0 || none.Total != 2 || !math.IsNaN(none.Mean()) || !math.IsNaN(none.Std(0)) {
		t.Errorf("no valid values: %+v", none)
	}
	if one := Summarize([]float32{3}); one.Std(0) != 0 || !math.IsNaN(one.Std(1)) {
		t.Errorf("one value: %+v", one)
	}
	if m, n := Mean(nil); n != 0 || !math.IsNaN(m) {
		t.Errorf("mean of nothing: %v of %d", m, n)
	}
}

// A large constant offset must not drown the spread.
func TestStatsOffset(t *testing.T) {
	data := make([]float32, 200000)
	for i := range data {
		data[i] = 16777216 - float32(i%2)
	}
	if s := Summarize(data); !near(s.Std(0), 0.5, 1e-12) {
		t.Errorf("std %v, want 0.5", s.Std(0))
	}
}

func TestStatsDoNotDependOnCores(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	data := make([]float32, 5*ChunkPixels+100)
	for i := range data {
		data[i] = float32(rng.NormFloat64())
	}
	many := Summarize(data)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if one := Summarize(data); one != many {
		t.Errorf("%+v on one core, %+v on many", one, many)
	}
}

func TestEach(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	seen := make([]bool, 1000)
	if err := each(len(seen), func(i int) error { seen[i] = true; return nil }); err != nil || slices.Contains(seen, false) {
		t.Errorf("not every index ran (%v)", err)
	}
	fault := errors.New("fault")
	if err := each(1000, func(i int) error {
		if i == 7 {
			return fault
		}
		return nil
	}); !errors.Is(err, fault) {
		t.Errorf("%v", err)
	}
	defer func() {
		if p := recover(); p != "boom" {
			t.Errorf("a panic of a worker must reach the caller, got %v", p)
		}
	}()
	_ = each(10, func(i int) error { panic("boom") })
}

func TestWindows(t *testing.T) {
	for _, tt := range [][4]int{{10, 7, 4, 3}, {1, 1, 100, 100}, {8, 8, 4, 4}, {0, 5, 1, 1}, {5, 5, 0, 1}} {
		covered := make([]int, tt[0]*tt[1])
		for w := range Windows(tt[0], tt[1], tt[2], tt[3]) {
			if err := w.check(tt[0], tt[1]); err != nil {
				t.Fatal(err)
			}
			for y := range w.Height {
				for x := range w.Width {
					covered[(w.Y+y)*tt[0]+w.X+x]++
				}
			}
		}
		for i, n := range covered {
			if want := min(1, tt[2]); n != want {
				t.Fatalf("%v: pixel %d is covered %d times", tt, i, n)
			}
		}
	}
	for _, tt := range [][4]int{{20000, 20000, 256, 256}, {20000, 20000, 20000, 1}, {20000, 20000, 20000, 20000}, {10, 10, 16, 16}, {300, 200, 100, 7}} {
		x, y := windowStep(tt[0], tt[1], tt[2], tt[3])
		whole := (x%tt[2] == 0 || x == tt[0]) && (y%tt[3] == 0 || y == tt[1])
		if !whole || x*y > 4*windowPixels && x*y > tt[2]*tt[3] || x < 1 || y < 1 {
			t.Errorf("%v: windows of %d×%d", tt, x, y)
		}
	}
}

func TestGeoTransform(t *testing.T) {
	tr := GeoTransform{500000, 8, 6, 4000000, 6, -8}
	inv, ok := tr.Invert()
	if !ok {
		t.Fatal("no inverse")
	}
	x, y := tr.Apply(12.5, -3)
	if c, r := inv.Apply(x, y); !near(c, 12.5, 1e-9) || !near(r, -3, 1e-9) {
		t.Errorf("(%v,%v)", c, r)
	}
	if _, ok := (GeoTransform{0, 1, 2, 0, 2, 4}).Invert(); ok {
		t.Error("a singular transform has no inverse")
	}
	i := Info{Width: 100, Height: 50, Transform: NorthUp(10, 60, 0.1, 0.2)}
	if b, ok := i.Bounds(); !ok || !near(b.MinX, 10, 1e-12) || !near(b.MaxX, 20, 1e-12) || !near(b.MinY, 50, 1e-12) || b.MaxY != 60 {
		t.Errorf("bounds %+v", b)
	}
	tests := []struct {
		b    Bounds
		want Window
		err  error
	}{
		{Bounds{11, 55, 12, 56}, Window{10, 20, 10, 5}, nil},
		{Bounds{11.05, 55.1, 11.06, 55.11}, Window{10, 24, 1, 1}, nil},
		{Bounds{-180, -90, 180, 90}, Window{0, 0, 100, 50}, nil},
		{Bounds{30, 50, 40, 60}, Window{}, ErrRange},
		{Bounds{20, 50, 30, 60}, Window{}, ErrRange}, // touches the border only
		{Bounds{math.NaN(), 50, 30, 60}, Window{}, ErrRange},
	}
	for _, tt := range tests {
		if w, err := i.Window(tt.b); w != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%+v: %v, %v; want %v, %v", tt.b, w, err, tt.want, tt.err)
		}
	}
	if _, err := (Info{Width: 1, Height: 1}).Window(Bounds{}); !errors.Is(err, ErrMismatch) {
		t.Errorf("no transform: %v", err)
	}
}

func TestEPSG(t *testing.T) {
	for code, kind := range map[int]CRSKind{4326: Geographic, 4269: Geographic, 32633: Projected, 32760: Projected, 3857: Projected, 6933: Projected, 32661: 0, 2225: 0} {
		c, err := EPSG(code)
		if kind == 0 {
			if !errors.Is(err, ErrUnsupported) {
				t.Errorf("EPSG:%d: %+v, %v", code, c, err)
			}
			continue
		}
		if err != nil || c.Kind != kind || c.EPSG != code || !c.Same(CRS{EPSG: code}) {
			t.Errorf("EPSG:%d: %+v, %v", code, c, err)
		}
	}
}

func grid(t *testing.T, w, h int, tr GeoTransform, f func(x, y int) float32) *Grid {
	t.Helper()
	g, err := NewGrid(w, h, WGS84, tr)
	if err != nil {
		t.Fatal(err)
	}
	for y := range h {
		for x := range w {
			g.Set(x, y, f(x, y))
		}
	}
	return g
}

func TestMatch(t *testing.T) {
	flat := func(x, y int) float32 { return 0 }
	a := grid(t, 10, 10, NorthUp(0, 10, 1, 1), flat)
	shifted := grid(t, 10, 10, NorthUp(0.5, 10, 1, 1), flat)
	scaled := grid(t, 10, 10, NorthUp(0, 10, 1.01, 1), flat)
	rounded := grid(t, 10, 10, NorthUp(1e-9, 10, 1, 1), flat)
	smaller := grid(t, 9, 10, NorthUp(0, 10, 1, 1), flat)
	other := grid(t, 10, 10, NorthUp(0, 10, 1, 1), flat)
	other.CRS = CRS{EPSG: 32633, Kind: Projected}
	bare := grid(t, 10, 10, GeoTransform{}, flat)
	bare.CRS = CRS{}
	for name, tt := range map[string]struct {
		g    *Grid
		want error
	}{"same": {a, nil}, "shifted": {shifted, ErrMismatch}, "scaled": {scaled, ErrMismatch}, "rounded": {rounded, nil},
		"smaller": {smaller, ErrMismatch}, "other CRS": {other, ErrMismatch}, "no georeference": {bare, nil}} {
		if err := a.Match(tt.g); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if _, err := NewGrid(1<<20, 1<<20, CRS{}, GeoTransform{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("huge grid: %v", err)
	}
	if _, err := NewGrid(0, 5, CRS{}, GeoTransform{}); !errors.Is(err, ErrRange) {
		t.Errorf("empty grid: %v", err)
	}
}

func TestResample(t *testing.T) {
	plane := func(x, y int) float32 { return float32(2*x + 3*y) }
	src := grid(t, 8, 6, NorthUp(0, 6, 1, 1), plane)
	like := func(w, h int, tr GeoTransform) *Grid { return grid(t, w, h, tr, func(x, y int) float32 { return 0 }) }

	t.Run("identity", func(t *testing.T) {
		for _, m := range []Method{Nearest, Bilinear} {
			got, err := Resample(src, src, m)
			if err != nil || !slices.Equal(got.Data, src.Data) {
				t.Errorf("%v: %v %v", m, got, err)
			}
		}
	})
	t.Run("nearest to finer and coarser", func(t *testing.T) {
		fine, err := Resample(src, like(16, 12, NorthUp(0, 6, 0.5, 0.5)), Nearest)
		if err != nil {
			t.Fatal(err)
		}
		for y := range 12 {
			for x := range 16 {
				if fine.At(x, y) != plane(x/2, y/2) {
					t.Fatalf("(%d,%d): %v", x, y, fine.At(x, y))
				}
			}
		}
		// Centres of the coarse pixels lie on corners of fine ones: the lower right one is taken, everywhere.
		coarse, err := Resample(src, like(4, 3, NorthUp(0, 6, 2, 2)), Nearest)
		if err != nil {
			t.Fatal(err)
		}
		for y := range 3 {
			for x := range 4 {
				if coarse.At(x, y) != plane(2*x+1, 2*y+1) {
					t.Fatalf("(%d,%d): %v", x, y, coarse.At(x, y))
				}
			}
		}
	})
	t.Run("bilinear keeps a plane", func(t *testing.T) {
		to := like(9, 7, NorthUp(0.9, 5.3, 0.6, 0.5))
		got, err := Resample(src, to, Bilinear)
		if err != nil {
			t.Fatal(err)
		}
		for y := range 7 {
			for x := range 9 {
				wx, wy := to.Transform.Apply(float64(x)+0.5, float64(y)+0.5)
				want := 2*(wx-0.5) + 3*(6-wy-0.5)
				if !near(float64(got.At(x, y)), want, 1e-6) {
					t.Fatalf("(%d,%d): %v, want %v", x, y, got.At(x, y), want)
				}
			}
		}
	})
	t.Run("outside is invalid", func(t *testing.T) {
		got, err := Resample(src, like(8, 6, NorthUp(4, 6, 1, 1)), Bilinear)
		if err != nil {
			t.Fatal(err)
		}
		for x := range 8 {
			if Finite(got.At(x, 2)) != (x < 4) {
				t.Errorf("column %d: %v", x, got.At(x, 2))
			}
		}
	})
	t.Run("invalid pixels neither grow nor shrink", func(t *testing.T) {
		holed := grid(t, 8, 6, NorthUp(0, 6, 1, 1), func(x, y int) float32 {
			if x == 3 && y == 2 {
				return NaN()
			}
			return 5
		})
		for _, m := range []Method{Nearest, Bilinear} {
			got, err := Resample(holed, like(32, 24, NorthUp(0, 6, 0.25, 0.25)), m)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got.Data {
				hole := i%32/4 == 3 && i/32/4 == 2
				if Finite(v) == hole || !hole && v != 5 {
					t.Fatalf("%v: (%d,%d) is %v", m, i%32, i/32, v)
				}
			}
		}
	})
	t.Run("large coordinates", func(t *testing.T) {
		utm := grid(t, 50, 50, NorthUp(399960, 4500000, 30, 30), plane)
		got, err := Resample(utm, like(150, 150, NorthUp(399960, 4500000, 10, 10)), Nearest)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got.Data {
			if v != plane(i%150/3, i/150/3) {
				t.Fatalf("(%d,%d): %v", i%150, i/150, v)
			}
		}
	})
	t.Run("rotated", func(t *testing.T) {
		// A quarter turn: columns of the target run down the rows of the source.
		got, err := Resample(src, like(6, 8, GeoTransform{0, 0, 1, 6, -1, 0}), Nearest)
		if err != nil {
			t.Fatal(err)
		}
		for y := range 8 {
			for x := range 6 {
				if got.At(x, y) != plane(y, x) {
					t.Fatalf("(%d,%d): %v, want %v", x, y, got.At(x, y), plane(y, x))
				}
			}
		}
	})
	t.Run("without georeference", func(t *testing.T) {
		bare := &Grid{Width: 2, Height: 1, Data: []float32{1, 3}}
		got, err := Resample(bare, &Grid{Width: 4, Height: 2, Data: make([]float32, 8)}, Bilinear)
		if err != nil || !slices.Equal(got.Data, []float32{1, 1.5, 2.5, 3, 1, 1.5, 2.5, 3}) {
			t.Errorf("%v %v", got, err)
		}
	})
	t.Run("errors", func(t *testing.T) {
		bare := &Grid{Width: 2, Height: 1, Data: []float32{1, 3}}
		if _, err := Resample(src, bare, Nearest); !errors.Is(err, ErrMismatch) {
			t.Errorf("only one georeferenced: %v", err)
		}
		other := like(8, 6, NorthUp(0, 6, 1, 1))
		other.CRS = CRS{EPSG: 32633, Kind: Projected}
		if _, err := Resample(src, other, Nearest); !errors.Is(err, ErrMismatch) {
			t.Errorf("other CRS: %v", err)
		}
		if _, err := Resample(src, src, 7); !errors.Is(err, ErrUnsupported) {
			t.Errorf("method 7: %v", err)
		}
	})
}

func TestPixelAreas(t *testing.T) {
	sum := func(v []float64) (s float64) {
		for _, a := range v {
			s += a
		}
		return s
	}
	// The whole Earth: the area of the WGS 84 ellipsoid is 510,065,621.724 km² (Moritz 2000 gives 510 065 622 for GRS 80).
	world := Info{Width: 360, Height: 180, CRS: WGS84, Transform: NorthUp(-180, 90, 1, 1)}
	areas, err := world.PixelAreas()
	if err != nil || !near(360*sum(areas)/1e6, 510065621.724, 1e-9) {
		t.Errorf("world: %v km², %v", 360*sum(areas)/1e6, err)
	}
	// 110,574.3 m by 111,319.5 m at the equator, half as wide at 60°.
	if a := areas[90]; !near(a, 110574.3*111319.5, 1e-3) || !near(areas[30]/a, 0.5, 0.02) {
		t.Errorf("equator %v, 60° %v", areas[90], areas[30])
	}
	// Web Mercator cells have the area of the same cells in degrees.
	y := func(lat float64) float64 { return earthRadius * math.Asinh(math.Tan(lat*math.Pi/180)) }
	x := func(lon float64) float64 { return earthRadius * lon * math.Pi / 180 }
	mercator := Info{Width: 1, Height: 1, CRS: CRS{EPSG: 3857, Kind: Projected}, Transform: NorthUp(0, y(60), x(1), y(60)-y(59))}
	if a, err := mercator.PixelAreas(); err != nil || !near(a[0], areas[30], 1e-9) {
		t.Errorf("Web Mercator %v, want %v (%v)", a, areas[30], err)
	}
	tests := []struct {
		crs  CRS
		t    GeoTransform
		want float64
		err  error
	}{
		{CRS{EPSG: 32633, Kind: Projected}, NorthUp(0, 0, 30, 20), 600, nil},
		{CRS{EPSG: 32633, Kind: Projected}, GeoTransform{0, 8, 6, 0, 6, -8}, 100, nil},
		{CRS{EPSG: 2225, Kind: Projected, Unit: 1200.0 / 3937}, NorthUp(0, 0, 3937, 3937), 1440000, nil},
		{CRS{EPSG: 2225, Kind: Projected}, NorthUp(0, 0, 1, 1), 0, ErrUnsupported},
		{WGS84, GeoTransform{0, 1, 1, 0, 1, -1}, 0, ErrUnsupported},
		{CRS{}, NorthUp(0, 0, 1, 1), 0, ErrMismatch},
		{WGS84, GeoTransform{}, 0, ErrMismatch},
	}
	for _, tt := range tests {
		a, err := (&Grid{Width: 1, Height: 1, CRS: tt.crs, Transform: tt.t}).PixelAreas()
		if !errors.Is(err, tt.err) || err == nil && !near(a[0], tt.want, 1e-12) {
			t.Errorf("%v: %v, %v; want %v, %v", tt.crs, a, err, tt.want, tt.err)
		}
	}
}

func TestDataTypes(t *testing.T) {
	for _, k := range []DataType{Uint8, Int8, Uint16, Int16, Uint32, Int32, Uint64, Int64, Float32, Float64} {
		lo, hi := k.Range()
		if k.Size() == 0 || k.String() == "unknown" || !(lo < hi) || !k.exactIn(k) || k.exactIn(Float64) != (k.Float() || k.Size() <= 4) {
			t.Errorf("%v: size %d, range %v to %v", k, k.Size(), lo, hi)
		}
	}
	for pair, want := range map[[2]DataType]bool{
		{Uint8, Int16}: true, {Int8, Uint16}: false, {Uint16, Int16}: false, {Uint16, Float32}: true, {Int32, Float32}: false,
		{Float64, Float32}: false, {Float32, Int64}: false, {Uint32, Int64}: true, {Int64, Float64}: false,
	} {
		if got := pair[0].exactIn(pair[1]); got != want {
			t.Errorf("%v in %v: %v", pair[0], pair[1], got)
		}
	}
	if s := fmt.Sprint(DataType(77)); s != "DataType(77)" || !math.IsNaN(first(DataType(0).Range())) {
		t.Errorf("%s", s)
	}
}

func first(a, _ float64) float64 { return a }
