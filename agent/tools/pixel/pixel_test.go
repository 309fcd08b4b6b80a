package pixel

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/raster"
)

// awkward are values that comparisons and sorting get wrong.
var awkward = []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.7, -0.7, 1e-45, -1e-45, math.MaxFloat32, -math.MaxFloat32,
	float32(math.Inf(1)), float32(math.Inf(-1)), nan}

func mixed(rng *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		switch rng.IntN(4) {
		case 0:
			out[i] = awkward[rng.IntN(len(awkward))]
		case 1:
			out[i] = float32(rng.IntN(5)) // many equal
		default:
			out[i] = float32(rng.NormFloat64() * 100)
		}
	}
	return out
}

func TestPercentileAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 10, 1000, raster.ChunkPixels + 17} {
		data := mixed(rng, n)
		data[0] = 4
		sorted := slices.DeleteFunc(slices.Clone(data), func(v float32) bool { return !raster.Finite(v) })
		slices.Sort(sorted)
		for _, q := range []float64{0, 0.1, 25, 50, 63.7, 99.9, 100} {
			at := q / 100 * float64(len(sorted)-1)
			k := int(at)
			want := float64(sorted[k])
			if k+1 < len(sorted) {
				want += (float64(sorted[k+1]) - want) * (at - float64(k))
			}
			if got, valid := Percentile(data, q); got != want || valid != len(sorted) {
				t.Fatalf("n %d, q %g: %g of %d, want %g of %d", n, q, got, valid, want, len(sorted))
			}
		}
	}
	if v, n := Percentile([]float32{nan, float32(math.Inf(1))}, 50); !math.IsNaN(v) || n != 0 {
		t.Errorf("of no valid pixel: %g, %d", v, n)
	}
}

func TestCountOpAgainstTest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	data := mixed(rng, raster.ChunkPixels+1000)
	for _, op := range []Op{Above, Below, Equal, AtLeast, AtMost} {
		for _, limit := range append(awkward, 0.7, 3, -50) {
			matching, valid := 0, 0
			for _, v := range data {
				if raster.Finite(v) {
					valid++
					if op.Test(v, limit) {
						matching++
					}
				}
			}
			if m, n := CountOp(data, op, limit); m != matching || n != valid {
				t.Errorf("x %v %g: %d of %d, want %d of %d", op, limit, m, n, matching, valid)
			}
		}
	}
}

func TestMoments(t *testing.T) {
	m := CentralMoments([]float32{1, 2, 3, 6, nan})
	if m.N != 4 || m.Mean != 3 || m.M2 != 3.5 || m.M3 != 4.5 || m.M4 != 24.5 {
		t.Errorf("%+v", m)
	}
	if s := CentralMoments([]float32{2, 2, 2}); !math.IsNaN(s.Skewness()) || !math.IsNaN(s.Kurtosis()) {
		t.Error("equal values have a skewness or a kurtosis")
	}
	if s := CentralMoments(nil); s.N != 0 || !math.IsNaN(s.Kurtosis()) {
		t.Errorf("%+v", s)
	}
}

func TestStretch(t *testing.T) {
	d := []float32{1, 2, 3, 6, nan}
	Stretch(d, d)
	if !slices.Equal(d[:4], []float32{0, 51, 102, 255}) || raster.Finite(d[4]) {
		t.Errorf("%v", d)
	}
	if Stretch(d, []float32{5, 5, nan, 5, 5}); d[0] != 0 || d[1] != 0 || raster.Finite(d[2]) {
		t.Errorf("of equal values: %v", d)
	}
}

// Temperature and emissivity separation finds the temperature that made the radiances.
func TestTESRecovers(t *testing.T) {
	w := ASTERThermal[:]
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		truth, emissivity := 270+50*rng.Float64(), make([]float64, 5)
		lo, hi := 2.0, 0.0
		for k := range emissivity {
			emissivity[k] = 0.75 + 0.24*rng.Float64()
			lo, hi = min(lo, emissivity[k]), max(hi, emissivity[k])
		}
		// The method knows surfaces that obey its own relation of minimum and contrast; scale one onto it.
		mean := 0.0
		for _, e := range emissivity {
			mean += e / 5
		}
		scale := (0.994 - 0.687*math.Pow((hi-lo)/mean, 0.737)) / lo
		if hi*scale > 0.995 || hi*scale < 0.97 {
			continue
		}
		bands := make([][]float32, 5)
		for k := range bands {
			bands[k] = []float32{float32(Brightness(Radiance(truth, w[k])*emissivity[k]*scale, w[k]))}
		}
		lst, e, mmd := []float32{0}, []float32{0}, []float32{0}
		TES(lst, e, mmd, bands, w, 3)
		// The contrast is taken from emissivities normalised to 0.99, which differ a little.
		if math.Abs(float64(lst[0])-truth) > 1 || math.Abs(float64(e[0])-emissivity[3]*scale) > 0.02 {
			t.Errorf("%g K and emissivity %g, the truth is %g and %g", lst[0], e[0], truth, emissivity[3]*scale)
		}
	}
}

func TestPlanckInverts(t *testing.T) {
	for _, temp := range []float64{180, 273.15, 300, 500} {
		for _, w := range ASTERThermal {
			if got := Brightness(Radiance(temp, w), w); math.Abs(got-temp) > 1e-9*temp {
				t.Errorf("%g K at %g µm comes back as %g", temp, w, got)
			}
		}
	}
	// Emission with emissivity 1 is the brightness temperature itself.
	if got := Emission(300, 10.9, 1); got != 300 {
		t.Errorf("Emission(300, 10.9, 1) = %g", got)
	}
}

func TestTVDINeedsData(t *testing.T) {
	few := make([]float32, 99)
	for i := range few {
		few[i] = float32(i) / 100
	}
	if _, _, err := TVDI(make([]float32, 99), few, slices.Repeat([]float32{300}, 99)); !errors.Is(err, ErrTooFew) {
		t.Errorf("99 pixels: %v", err)
	}
	// The edges of a triangle are found, its maximum included.
	var ndvi, lst []float32
	for i := range 100 {
		n := float32(i) / 99
		ndvi, lst = append(ndvi, n, n), append(lst, 320-20*n, 300)
	}
	dry, wet, err := TVDI(make([]float32, 200), ndvi, lst)
	if err != nil || math.Abs(dry.Slope+20) > 0.3 || math.Abs(dry.Intercept-320) > 0.3 || math.Abs(wet.Slope) > 1e-9 || math.Abs(wet.Intercept-300) > 1e-9 {
		t.Errorf("dry %+v, wet %+v, %v", dry, wet, err)
	}
}

func bitmap(rows ...string) *Bitmap {
	b := NewBitmap(len(rows[0]), len(rows))
	for y, row := range rows {
		for x, c := range row {
			b.Set[y*b.Width+x] = c == '#'
		}
	}
	return b
}

func (b *Bitmap) String() string {
	var s strings.Builder
	for i, set := range b.Set {
		if set {
			s.WriteByte('#')
		} else {
			s.WriteByte('.')
		}
		if (i+1)%b.Width == 0 {
			s.WriteByte('\n')
		}
	}
	return s.String()
}

func TestErode(t *testing.T) {
	got := bitmap(
		"#####..",
		"#####..",
		"#####..",
		".......").Erode()
	want := bitmap( // the border of the image takes nothing away
		"####...",
		"####...",
		".......",
		".......")
	if !slices.Equal(got.Set, want.Set) {
		t.Errorf("\n%swant\n%s", got, want)
	}
}

func TestOutlines(t *testing.T) {
	for _, c := range []struct {
		b    *Bitmap
		want int
	}{
		{bitmap("...", "..."), 0},
		{bitmap("#.#", ".#."), 1}, // diagonals connect
		{bitmap("#.#", "#.#"), 2},
		{bitmap("#####", "#...#", "#.#.#", "#...#", "#####"), 1}, // what lies in a hole does not count
		{bitmap("###.#", "#...#", "#.#.#", "#...#", "#####"), 2}, // the hole is open
		{bitmap("#"), 1},
	} {
		if got := c.b.Outlines(); got != c.want {
			t.Errorf("\n%s%d outlines, want %d", c.b, got, c.want)
		}
	}
}

// A skeleton is thin, lies in the shape and has its parts and holes.
func TestSkeleton(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 30 {
		b := NewBitmap(40, 30)
		for range 6 {
			x, y, w, h := rng.IntN(34), rng.IntN(24), 2+rng.IntN(12), 2+rng.IntN(10)
			for j := y; j < min(y+h, 29); j++ {
				for i := x; i < min(x+w, 39); i++ {
					b.Set[j*40+i] = true
				}
			}
		}
		s := b.Skeleton()
		for i := range s.Set {
			if s.Set[i] && !b.Set[i] {
				t.Fatal("the skeleton leaves the shape")
			}
		}
		if s.Outlines() != b.Outlines() {
			t.Errorf("the skeleton has %d parts, the shape %d:\n%s%s", s.Outlines(), b.Outlines(), b, s)
		}
		if again := s.Skeleton(); !slices.Equal(again.Set, s.Set) {
			t.Error("a skeleton can be thinned further")
		}
		for y := range 28 { // no 3×3 square is left
			for x := range 38 {
				if s.at(x+1, y+1, false) && s.hood(x+1, y+1) == 255 {
					t.Fatalf("a square is left at %d, %d:\n%s", x, y, s)
				}
			}
		}
	}
	if s := bitmap("....", ".##.", ".##.", "....").Skeleton(); s.Outlines() != 1 {
		t.Errorf("a square of 2×2 vanishes:\n%s", s)
	}
}

func TestDirection(t *testing.T) {
	g := &raster.Grid{Width: 3, Height: 3, Data: []float32{0, 1, 1, 0, 1, 0, 0, 0, 0}}
	s, n := Direction(g, func(v float32) bool { return v == 1 })
	if s != (Sides{North: 3, East: 1}) || n != 3 {
		t.Errorf("%+v of %d", s, n)
	}
}

func TestColormaps(t *testing.T) {
	for _, name := range ColormapNames() {
		m, err := ColormapOf(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ColormapOf(name + "_r")
		if err != nil || m.At(0) != r.At(1) || m.At(1) != r.At(0) {
			t.Errorf("%s reversed: %v", name, err)
		}
		if m.At(-1) != m.At(0) || m.At(2) != m.At(1) {
			t.Errorf("%s beyond its ends", name)
		}
	}
	v, err := ColormapOf("viridis")
	if err != nil || v.At(0) != [3]float32{68, 1, 84} || v.At(1) != [3]float32{253, 231, 37} {
		t.Errorf("viridis goes from %v to %v, %v", v.At(0), v.At(1), err)
	}
	if _, err := ColormapOf("rainbows"); err == nil {
		t.Error("an unknown map is taken")
	}
}

// Kernels give the same bits whatever the number of pieces they are cut into.
func TestKernelsAreCutFree(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	n := 3*raster.ChunkPixels + 5
	a, b := mixed(rng, n), mixed(rng, n)
	whole := make([]float32, n)
	NormalizedDifference(whole, a, b)
	for i := 0; i < n; i += 4097 {
		end := min(i+4097, n)
		part := make([]float32, end-i)
		NormalizedDifference(part, a[i:end], b[i:end])
		for k := range part {
			if math.Float32bits(part[k]) != math.Float32bits(whole[i+k]) && (raster.Finite(part[k]) || raster.Finite(whole[i+k])) {
				t.Fatalf("pixel %d is %g alone and %g in the whole", i+k, part[k], whole[i+k])
			}
		}
	}
}
