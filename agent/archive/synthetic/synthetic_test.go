package synthetic

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/raster"
	"terraloom/slots/gazetteer"
)

// values skips a test that looks at values only: under the race detector, which
// runs the short tests, they take minutes and show nothing more.
func values(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("checks values only; run without -short")
	}
}

func on(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

func placeOf(t testing.TB, name string) gazetteer.Place {
	t.Helper()
	p, ok := gazetteer.ByName(name)
	if !ok {
		t.Fatalf("the gazetteer has no %q", name)
	}
	return p
}

// boxAround is a box of so many degrees around a place's point.
func boxAround(t testing.TB, name string, degrees float64) archive.Box {
	p := placeOf(t, name)
	return archive.Box{West: p.Lon - degrees/2, South: p.Lat - degrees/2, East: p.Lon + degrees/2, North: p.Lat + degrees/2}
}

// spec asks for bands of a product around a place in about n × n pixels.
func spec(t testing.TB, product, place string, degrees float64, n int, from, to string, bands ...string) archive.Spec {
	return archive.Spec{Product: product, Bands: bands, Box: boxAround(t, place, degrees), Start: on(from), End: on(to),
		ScaleM: degrees * 111320 / float64(n), Name: "x"}
}

// layer is a delivered raster in physical values, and as it is stored.
type layer struct {
	archive.File
	values []float64 // NaN where invalid
	stored []float64
}

func fetch(t testing.TB, a archive.Archive, s archive.Spec) []layer {
	t.Helper()
	files, err := archive.Fetch(context.Background(), a, s, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out := make([]layer, len(files))
	for i, f := range files {
		ds, err := raster.Open(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		g, err := ds.ReadBand(1)
		if err != nil {
			t.Fatal(err)
		}
		ds.Close()
		out[i] = layer{File: f, values: make([]float64, len(g.Data)), stored: make([]float64, len(g.Data))}
		for k, v := range g.Data {
			out[i].stored[k], out[i].values[k] = float64(v), float64(v)*f.Scale+f.Offset
		}
	}
	return out
}

// of returns the layers of a band.
func of(ls []layer, band string) []layer {
	return slices.DeleteFunc(slices.Clone(ls), func(l layer) bool { return l.Band != band })
}

func mean(v []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range v {
		if x == x {
			sum += x
			n++
		}
	}
	return sum / float64(n)
}

// correlation of the pairs that are both valid and chosen.
func correlation(x, y []float64, use func(i int) bool) (r float64, n int) {
	var sx, sy, sxx, syy, sxy float64
	for i := range x {
		if x[i] != x[i] || y[i] != y[i] || !use(i) {
			continue
		}
		n++
		sx, sy = sx+x[i], sy+y[i]
		sxx, syy, sxy = sxx+x[i]*x[i], syy+y[i]*y[i], sxy+x[i]*y[i]
	}
	f := float64(n)
	return (sxy - sx*sy/f) / math.Sqrt((sxx-sx*sx/f)*(syy-sy*sy/f)), n
}

// slope is the least-squares trend per step of a series, with its standard error.
func slope(y []float64) (b, se float64) {
	n := float64(len(y))
	var sx, sy, sxx, sxy float64
	for i, v := range y {
		x := float64(i)
		sx, sy, sxx, sxy = sx+x, sy+v, sxx+x*x, sxy+x*v
	}
	d := n*sxx - sx*sx
	b = (n*sxy - sx*sy) / d
	a := (sy - b*sx) / n
	rest := 0.0
	for i, v := range y {
		e := v - a - b*float64(i)
		rest += e * e
	}
	return b, math.Sqrt(rest / (n - 2) * n / d)
}

// Every band of every product can be observed, in the range, type and place that
// the table states, and somewhere with valid pixels.
func TestEveryBand(t *testing.T) {
	values(t)
	a := New(1, nil)
	for _, p := range a.Products() {
		seen := map[string]int{}
		for _, place := range []string{"Rome", "Central Valley"} {
			s := archive.Spec{Product: p.ID, Box: boxAround(t, place, 12*p.Resolution/111320), ScaleM: p.Resolution, Name: "x", Start: on("2021-07-01"), End: on("2021-07-03")}
			switch {
			case p.Once:
				s.Start, s.End = p.Start, p.Start
			case p.End.Before(s.End):
				s.Start, s.End = on("2011-07-01"), on("2011-07-17")
			case p.Revisit > 0:
				s.Start, s.End = on("2022-06-20"), on("2022-07-25")
			case p.Cadence.Unit != archive.Day || p.Cadence.N > 1:
				s.Start, s.End = on("2019-12-01"), on("2020-02-10")
			}
			for _, l := range fetch(t, a, s) {
				b, ok := p.Band(l.Band)
				if !ok || b.Name != l.Band {
					t.Fatalf("%s delivers a band %q", p.ID, l.Band)
				}
				if l.Type != b.Type || l.Scale != b.Scale || l.Offset != b.Offset || l.Unit != b.Unit || (l.Fill == nil) != (b.Fill == nil) {
					t.Errorf("%s %s is delivered as %+v", p.ID, b.Name, l.File)
				}
				for _, v := range l.stored {
					switch {
					case v != v:
					case v < float64(float32(b.Valid[0])) || v > float64(float32(b.Valid[1])):
						t.Fatalf("%s %s has the stored value %g, valid are %v", p.ID, b.Name, v, b.Valid)
					default:
						seen[b.Name]++
					}
				}
				if b.Fill == nil && !b.Type.Float() && l.Valid != l.Width*l.Height {
					t.Errorf("%s %s has invalid pixels but no fill value", p.ID, b.Name)
				}
			}
		}
		for _, b := range p.Bands {
			if seen[b.Name] == 0 {
				t.Errorf("%s %s never has a valid pixel", p.ID, b.Name)
			}
		}
	}
}

// Overlapping boxes and repeated downloads agree pixel for pixel, in one archive
// or in another of the same seed; another seed is another world.
func TestOverlapsAgree(t *testing.T) {
	for _, product := range []string{"MOD11A1", "LC08_L2", "MOD13Q1", "MOD14A1", "Sentinel-1", "SMAP"} {
		p, _ := archive.FindProduct(archive.Products(), product)
		pixel := p.Resolution / 111319.49
		big := boxAround(t, "Chengdu", 48*pixel)
		small := archive.Box{West: big.West + 17.3*pixel, South: big.South + 5.1*pixel, East: big.East - 8*pixel, North: big.North - 20*pixel}
		s := archive.Spec{Product: product, Box: big, Start: on("2020-06-01"), End: on("2020-06-20"), Name: "x"}
		one := fetch(t, New(7, nil), s)
		again := fetch(t, New(7, nil), s)
		for i := range one {
			if one[i].SHA256 != again[i].SHA256 {
				t.Errorf("%s: a second download of %s differs", product, one[i].Name())
			}
		}
		s.Box = small
		part := fetch(t, New(7, nil), s)
		if len(part) != len(one) {
			t.Fatalf("%s: %d rasters of a part, %d of the whole", product, len(part), len(one))
		}
		for i, l := range part {
			whole := one[i]
			dx := int(math.Round((l.Transform[0] - whole.Transform[0]) / pixel))
			dy := int(math.Round((whole.Transform[3] - l.Transform[3]) / pixel))
			for j := range l.Height {
				for k := range l.Width {
					got, want := l.stored[j*l.Width+k], whole.stored[(j+dy)*whole.Width+k+dx]
					if got != want && (got == got || want == want) {
						t.Fatalf("%s %s: pixel %d, %d is %g in one box and %g in another", product, l.Band, k, j, got, want)
					}
				}
			}
		}
		other := fetch(t, New(8, nil), s)
		if slices.EqualFunc(part, other, func(a, b layer) bool { return a.SHA256 == b.SHA256 }) {
			t.Errorf("%s is the same in two worlds", product)
		}
	}
}

// Name is the file's name.
func (l layer) Name() string { return filepath.Base(l.Path) }

// A raster worked on in strips equals the same pixels worked on at once.
func TestStripsAgree(t *testing.T) {
	values(t)
	a := New(1, nil)
	p, _ := archive.FindProduct(archive.Products(), "MOD09A1")
	pixel := p.Resolution / 111319.49
	box := archive.Box{West: 10, South: 45, East: 10 + 300*pixel, North: 45 + 300*pixel}
	s := archive.Spec{Product: "MOD09A1", Bands: []string{"sur_refl_b02"}, Box: box, Start: on("2020-07-11"), End: on("2020-07-11"), Name: "x"}
	whole := fetch(t, a, s)[0]
	s.Box = archive.Box{West: 10, South: 45, East: 10 + 300*pixel, North: 45 + 120*pixel}
	part := fetch(t, a, s)[0]
	from := (whole.Height - part.Height) * whole.Width
	if !slices.Equal(whole.stored[from:], part.stored) {
		t.Error("a raster of two strips and one of a single strip differ")
	}
}

// Another pixel size takes the nearest of the product's own pixels.
func TestScale(t *testing.T) {
	a := New(1, nil)
	s := archive.Spec{Product: "MOD13A2", Bands: []string{"NDVI"}, Box: boxAround(t, "Great Plains", 0.3), Start: on("2020-06-25"), End: on("2020-06-25"), Name: "x"}
	own := fetch(t, a, s)[0]
	for _, scale := range []float64{200, 3000} {
		s.ScaleM = scale
		got := fetch(t, a, s)[0]
		for j := range got.Height {
			for i := range got.Width {
				x, y := got.Transform.Apply(float64(i)+0.5, float64(j)+0.5)
				inv, _ := own.Transform.Invert()
				c, r := inv.Apply(x, y)
				if c < 0 || r < 0 || int(c) >= own.Width || int(r) >= own.Height {
					continue
				}
				if want := own.stored[int(r)*own.Width+int(c)]; got.stored[j*got.Width+i] != want {
					t.Fatalf("at %g m pixel %d, %d is %g, the product's own is %g", scale, i, j, got.stored[j*got.Width+i], want)
				}
			}
		}
	}
}

// A composite is the mean, maximum or sum of the acquisitions in it.
func TestComposites(t *testing.T) {
	a := New(1, nil)
	for _, tt := range []struct{ product, band string }{{"MOD11A1", "LST_Day_1km"}, {"MOD14A1", "MaxFRP"}, {"GPM", "precipitation"}} {
		s := spec(t, tt.product, "Thailand", 1.5, 24, "2020-03-01", "2020-03-31", tt.band)
		daily := fetch(t, a, s)
		s.Interval = "month"
		got := fetch(t, a, s)
		if len(got) != 1 || len(daily) != 31 || got[0].Days != 31 || got[0].Date != on("2020-03-01") {
			t.Fatalf("%s: %d composites of %d rasters: %+v", tt.product, len(got), len(daily), got[0].File)
		}
		for i, v := range got[0].values {
			sum, most, n := 0.0, 0.0, 0
			for _, d := range daily {
				if x := d.values[i]; x == x {
					sum, most, n = sum+x, max(most, x), n+1
				}
			}
			want := map[string]float64{"LST_Day_1km": sum / float64(n), "MaxFRP": most, "precipitation": sum}[tt.band]
			if n == 0 {
				want = math.NaN()
			}
			if math.Abs(v-want) > 0.0101+1e-5*math.Abs(want) || (v == v) != (want == want) {
				t.Fatalf("%s: pixel %d of the month is %g, the days give %g", tt.product, i, v, want)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	a := New(1, nil)
	s := spec(t, "MOD13Q1", "Rome", 0.1, 16, "2021-01-02", "2021-01-16", "NDVI")
	_, err := archive.Fetch(context.Background(), a, s, t.TempDir())
	var e *archive.SpecError
	if !errors.As(err, &e) || !errors.Is(err, archive.ErrNoData) || e.Field != "time_range" {
		t.Errorf("an empty period gives %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := archive.Fetch(ctx, a, spec(t, "MOD13Q1", "Rome", 0.1, 16, "2021-01-01", "2021-03-16", "NDVI"), t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled fetch gives %v", err)
	}
	if _, err := archive.Fetch(context.Background(), a, spec(t, "MOD13Q1", "Rome", 0.1, 16, "2021-01-01", "2021-01-16", "NDVI"), filepath.Join(t.TempDir(), "no")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder gives %v", err)
	}
}

// Swath products name the time of their overpass; pairs of bands share it.
func TestSwathTimes(t *testing.T) {
	a := New(1, nil)
	ls := fetch(t, a, spec(t, "MOD021KM", "Taklamakan Desert", 0.2, 16, "2020-02-20", "2020-02-23", "Radiance_31_Day", "Radiance_32_Day", "Radiance_31_Night"))
	day31, day32, night := of(ls, "Radiance_31_Day"), of(ls, "Radiance_32_Day"), of(ls, "Radiance_31_Night")
	for i, l := range day31 {
		if !l.Clock || !l.Date.Equal(day32[i].Date) || l.Date.Equal(night[i].Date) {
			t.Errorf("times %s, %s and %s", l.Date, day32[i].Date, night[i].Date)
		}
		if want := "x_Radiance_31_Day_" + l.Date.Format("2006-01-02_1504") + ".tif"; l.Name() != want {
			t.Errorf("the file is called %s, want %s", l.Name(), want)
		}
	}
}
