package world

import (
	"math"
	"slices"
	"testing"
	"time"

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

// axesOf covers a place's box, grown by a factor, with n × n pixels.
func axesOf(p gazetteer.Place, n int, grow float64) Axes {
	hx, hy := (p.East-p.West)/2*grow, (p.North-p.South)/2*grow
	cx, cy := (p.West+p.East)/2, (p.South+p.North)/2
	a := Axes{Footprint: 2 * hx / float64(n)}
	for i := range n {
		a.Lon = append(a.Lon, cx-hx+2*hx*(float64(i)+.5)/float64(n))
		a.Lat = append(a.Lat, cy+hy-2*hy*(float64(i)+.5)/float64(n))
	}
	return a
}

// pointOf is the pixel of a kilometre at a place's point.
func pointOf(p gazetteer.Place) Axes {
	return Axes{Lon: []float64{p.Lon}, Lat: []float64{p.Lat}, Footprint: 0.01}
}

func mean(f []float32) float64 {
	s := 0.0
	for _, v := range f {
		s += float64(v)
	}
	return s / float64(len(f))
}

func day(s string) int {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return int(t.Unix() / 86400)
}

// Every place of the gazetteer is what its kind says at its point, in its summer.
func TestPlacesAreWhatTheyAre(t *testing.T) {
	values(t)
	w := New(1)
	wrong := map[gazetteer.Kind][]string{}
	total := map[gazetteer.Kind]int{}
	for _, p := range gazetteer.All() {
		at := day("2019-07-10")
		if p.Lat < 0 {
			at = day("2019-01-10")
		}
		s := w.Patch(pointOf(p)).Mean(at, 1)
		water, snow, urban, plants, land := s.Water()[0], s.Snow()[0], s.Urban()[0], s.Plants()[0], s.Land()[0]
		ok := true
		switch p.Kind {
		case gazetteer.Lake, gazetteer.Reservoir:
			ok = water+snow > 0.5
		case gazetteer.Sea:
			ok = water+snow > 0.9 && land < 0.1
		case gazetteer.City:
			ok = land > 0.9 && urban > 0.3
		case gazetteer.Desert:
			ok = land > 0.9 && plants < 0.15 && water < 0.1
		case gazetteer.Glacier:
			ok = snow > 0.5
		case gazetteer.Forest:
			ok = plants > 0.5
		case gazetteer.Plain, gazetteer.Grassland:
			ok = land > 0.9 && water < 0.2
		case gazetteer.MountainRange, gazetteer.Volcano, gazetteer.Plateau:
			ok = land > 0.8 && s.Elevation()[0] > 250
		default:
			continue
		}
		total[p.Kind]++
		if !ok {
			wrong[p.Kind] = append(wrong[p.Kind], p.Name)
		}
	}
	for kind, names := range wrong {
		// A place may lie under another that is smaller.
		if len(names)*12 > total[kind] {
			t.Errorf("%d of %d places of the kind %s are something else: %v", len(names), total[kind], kind, names)
		}
	}
}

// Patches of any shape agree on a pixel.
func TestPatchesAgree(t *testing.T) {
	p, _ := gazetteer.ByName("Chengdu")
	whole := axesOf(p, 24, 1.2)
	part := Axes{Lon: whole.Lon[5:9], Lat: whole.Lat[10:20], Footprint: whole.Footprint}
	w := New(3)
	a, b := w.Patch(whole).Scene(day("2020-07-01"), 1), w.Patch(part).Scene(day("2020-07-01"), 1)
	fields := map[string]func(s *Scene) []float32{
		"temperature": func(s *Scene) []float32 { return s.SurfaceTemperature(10.5) }, "red": func(s *Scene) []float32 { return s.Reflectance(0.645) },
		"cloud": (*Scene).Cloud, "shadow": (*Scene).Shadow, "rain": (*Scene).Rain, "lights": (*Scene).Lights, "moisture": (*Scene).SoilMoisture,
		"vapour": (*Scene).Vapour, "fire": (*Scene).FirePower, "burnt": (*Scene).Burnt, "albedo": (*Scene).Albedo,
		"emissivity": func(s *Scene) []float32 { return s.Emissivity(11) },
	}
	for name, f := range fields {
		x, y := f(a), f(b)
		for j := range part.Lat {
			for i := range part.Lon {
				if got, want := y[j*4+i], x[(j+10)*24+i+5]; got != want {
					t.Fatalf("%s: pixel %d, %d is %g in a part and %g in the whole", name, i, j, got, want)
				}
			}
		}
	}
	// Single columns that lie far apart are evaluated by another path.
	sparse := Axes{Lon: []float64{whole.Lon[0], whole.Lon[23], whole.Lon[23] + 40}, Lat: whole.Lat[3:4], Footprint: whole.Footprint}
	x, y := a.SurfaceTemperature(10.5), w.Patch(sparse).Scene(day("2020-07-01"), 1).SurfaceTemperature(10.5)
	if y[0] != x[3*24] || y[1] != x[3*24+23] {
		t.Errorf("far pixels are %g, %g, in the whole %g, %g", y[0], y[1], x[3*24], x[3*24+23])
	}
}

// The order in which fields are asked for does not matter.
func TestOrderDoesNotMatter(t *testing.T) {
	p, _ := gazetteer.ByName("Thailand")
	patch := New(1).Patch(axesOf(p, 12, 0.5))
	a, b := patch.Scene(day("2018-03-01"), 8), patch.Scene(day("2018-03-01"), 8)
	a.FirePower()
	a.Rain()
	a.Cloud()
	want := a.SurfaceTemperature(13.5)
	got := b.SurfaceTemperature(13.5)
	if !slices.Equal(got, want) || !slices.Equal(a.Cloud(), b.Cloud()) || !slices.Equal(a.FirePower(), b.FirePower()) {
		t.Error("a scene depends on the order of the questions")
	}
}

// Noise has zero mean and unit variance, closes at the antimeridian, and is less
// for an observer who averages.
func TestNoise(t *testing.T) {
	values(t)
	ax := &axes{foot: 0.001}
	for i := range 400 {
		ax.lon = append(ax.lon, -180+float64(i)*0.9)
	}
	for j := range 150 {
		ax.lat = append(ax.lat, 75-float64(j))
	}
	f := make([]float32, 400*150)
	noise(f, ax, 42, 0, band{7, 14, 0.7}, 1)
	variance := func(f []float32) float64 {
		s := 0.0
		for _, v := range f {
			s += float64(v) * float64(v)
		}
		return s / float64(len(f))
	}
	if m, v := mean(f), variance(f); math.Abs(m) > 0.03 || math.Abs(v-1) > 0.08 {
		t.Errorf("mean %.3f, variance %.3f", m, v)
	}
	coarse := make([]float32, len(f))
	noise(coarse, &axes{lon: ax.lon, lat: ax.lat, foot: 0.5}, 42, 0, band{7, 14, 0.7}, 1)
	if v := variance(coarse); v < 0.3 || v > 0.95 {
		t.Errorf("a footprint of half a degree sees the variance %.3f", v)
	}
	ends := make([]float32, 2)
	noise(ends, &axes{lon: []float64{-180 + 1e-7, 180 - 1e-7}, lat: []float64{10}, foot: 0.001}, 42, 0, band{5, 12, 0.7}, 1)
	if math.Abs(float64(ends[0]-ends[1])) > 1e-3 {
		t.Errorf("the two sides of the antimeridian have %g and %g", ends[0], ends[1])
	}
	var sum [60]float64
	for d := range sum {
		g := make([]float32, 100)
		drift(g, &axes{lon: ax.lon[:10], lat: ax.lat[:10], foot: 0.001}, 42, float64(d)/10, 3, band{7, 10, 0.7}, 1)
		sum[d] = float64(g[0])
	}
	for d := range sum[1:] {
		if math.Abs(sum[d+1]-sum[d]) > 0.4 {
			t.Errorf("drift jumps by %.2f within a tenth of a day", sum[d+1]-sum[d])
		}
	}
}

func TestNormal(t *testing.T) {
	values(t)
	var s, ss float64
	const n = 20000
	for i := range n {
		v := Normal(7, int64(i%200), int64(i/200))
		s, ss = s+v, ss+v*v
	}
	if m, v := s/n, ss/n; math.Abs(m) > 0.03 || math.Abs(v-1) > 0.04 {
		t.Errorf("mean %.3f, variance %.3f", m, v)
	}
}

func TestMaps(t *testing.T) {
	m := theMaps()
	for _, tt := range []struct {
		name     string
		lon, lat float64
		lo, hi   float64
	}{{"Kansas", -98, 38.5, 1, 1}, {"mid-Atlantic", -40, 30, 0, 0}, {"Denmark", 10, 56, 0.2, 0.95}, {"Chukotka across the antimeridian", 179.9, 67.5, 0.9, 1}, {"South Pole", 0, -89.9, 1, 1}} {
		if s := m.landShare(tt.lon, tt.lat); s < tt.lo || s > tt.hi {
			t.Errorf("%s: the share of land is %.2f, expected %.2f … %.2f", tt.name, s, tt.lo, tt.hi)
		}
	}
	if a, b := m.landShare(-179.999, 68), m.landShare(179.999, 68); math.Abs(a-b) > 0.01 {
		t.Errorf("the land map does not close: %g and %g", a, b)
	}
	desert, _ := m.landscapeAt(10, 24)
	forest, _ := m.landscapeAt(23, 0)
	if desert.rain > 120 || forest.rain < 1800 || forest.tree < 0.7 {
		t.Errorf("desert %+v, forest %+v", desert, forest)
	}
	for name, bad := range map[string][2]string{"short land": {"...\n", regionsTXT}, "letter": {landTXT, "?" + regionsTXT[1:]}, "digit": {"x" + landTXT[1:], regionsTXT}} {
		if _, err := readMaps(bad[0], bad[1]); err == nil {
			t.Errorf("%s: a broken map is read", name)
		}
	}
}

// The places with a height of their own are in the gazetteer.
func TestHeights(t *testing.T) {
	n := 0
	for _, p := range thePlaces() {
		if p.high {
			n++
		}
	}
	if n < 50 {
		t.Errorf("%d heights belong to places", n)
	}
	if _, err := readPlaces("Rome\thigh\n"); err == nil {
		t.Error("a height that is no number is read")
	}
}

// Cover adds up, and every field is finite and in range, everywhere and always.
func TestRanges(t *testing.T) {
	values(t)
	w := New(5)
	var a Axes
	a.Footprint = 1
	for i := range 60 {
		a.Lon = append(a.Lon, -179+6*float64(i))
	}
	for j := range 36 {
		a.Lat = append(a.Lat, 89.5-5.1*float64(j))
	}
	p := w.Patch(a)
	check := func(name string, f []float32, lo, hi float64) {
		t.Helper()
		for i, v := range f {
			if !(float64(v) >= lo && float64(v) <= hi) {
				t.Fatalf("%s at %.1f, %.1f is %g, expected %g … %g", name, a.Lon[i%60], a.Lat[i/60], v, lo, hi)
			}
		}
	}
	for _, at := range []string{"1985-01-15", "2005-04-15", "2020-07-15", "2030-10-15"} {
		for _, span := range []int{1, 16} {
			s := p.Scene(day(at), span)
			check("water", s.Water(), 0, 1)
			check("snow", s.Snow(), 0, 1)
			check("urban", s.Urban(), 0, 1)
			check("plants", s.Plants(), 0, 1)
			check("bare", s.Bare(), 0, 1)
			check("burnt", s.Burnt(), 0, 1)
			for i := range s.Water() {
				if sum := s.Water()[i] + s.Snow()[i] + s.Urban()[i] + s.Plants()[i] + s.Burnt()[i]; sum > 1.0001 {
					t.Fatalf("the covers at %.1f, %.1f add up to %g", a.Lon[i%60], a.Lat[i/60], sum)
				}
			}
			check("surface temperature", s.SurfaceTemperature(13.5), 185, 345)
			check("night temperature", s.SurfaceTemperature(1.5), 185, 320)
			check("red", s.Reflectance(0.645), 0.001, 1.1)
			check("albedo", s.Albedo(), 0.005, 0.98)
			check("emissivity", s.Emissivity(9), 0.7, 1)
			check("soil moisture", s.SoilMoisture(), 0.02, 0.5)
			check("rain", s.Rain(), 0, 400)
			check("vapour", s.Vapour(), 0.5, 70)
			check("cloud", s.Cloud(), 0, 1)
			check("lights", s.Lights(), 0, 1000)
			check("fire", s.FirePower(), 0, 2000)
			share, height := s.Built()
			check("built share", share, 0, 1)
			check("building height", height, 3, 40)
		}
	}
	check("elevation", p.Elevation(), -500, 9000)
}

// Seasons are those of the hemisphere, and the planted warming shows in the mean.
func TestSeasonsAndWarming(t *testing.T) {
	w := New(1)
	for _, name := range []string{"Berlin", "Sydney", "Cape Town", "Beijing"} {
		p, ok := gazetteer.ByName(name)
		if !ok {
			t.Fatal(name)
		}
		patch := w.Patch(pointOf(p))
		january, july := patch.Mean(day("2019-01-15"), 1).Air()[0], patch.Mean(day("2019-07-15"), 1).Air()[0]
		if (july > january) != (p.Lat > 0) || math.Abs(float64(july-january)) < 5 {
			t.Errorf("%s has %.1f °C in January and %.1f in July", name, january, july)
		}
		then, now := patch.Mean(day("2000-07-15"), 1).Air()[0], patch.Mean(day("2020-07-15"), 1).Air()[0]
		if got, want := float64(now-then)/20, patch.Trends(0).Warming; math.Abs(got-want) > 0.002 {
			t.Errorf("%s warms by %.4f K a year, planted is %.4f", name, got, want)
		}
	}
}

func BenchmarkPatch(b *testing.B) {
	p, _ := gazetteer.ByName("London")
	a := axesOf(p, 64, 1)
	w := New(1)
	for b.Loop() {
		w.Patch(a)
	}
}

func BenchmarkScene(b *testing.B) {
	p, _ := gazetteer.ByName("London")
	patch := New(1).Patch(axesOf(p, 64, 1))
	for b.Loop() {
		s := patch.Scene(18000, 1)
		s.SurfaceTemperature(10.5)
		s.Cloud()
	}
}
