package synthetic

import (
	"context"
	"math"
	"testing"

	"terraloom/agent/archive"
	"terraloom/agent/archive/world"
)

// yearly is the series of the yearly means of a band over a place.
func yearly(t *testing.T, a *Archive, product, band, place string, degrees float64, n, from, to int) []float64 {
	t.Helper()
	s := spec(t, product, place, degrees, n, "2020-01-01", "2020-12-31", band)
	s.Start, s.End = on("2000-01-01").AddDate(from-2000, 0, 0), on("2000-12-31").AddDate(to-2000, 0, 0)
	s.Interval = "year"
	var out []float64
	for _, l := range fetch(t, a, s) {
		out = append(out, mean(l.values))
	}
	if len(out) != to-from+1 {
		t.Fatalf("%d yearly rasters from %d to %d", len(out), from, to)
	}
	return out
}

// trueSlope is the trend per year of the same series without weather, noise and
// clouds.
func trueSlope(t *testing.T, a *Archive, product, band, place string, degrees float64, n, from, to int) float64 {
	t.Helper()
	s := spec(t, product, place, degrees, n, "2020-01-01", "2020-12-31", band)
	s.Start, s.End = on("2000-01-01").AddDate(from-2000, 0, 0), on("2000-12-31").AddDate(to-2000, 0, 0)
	states, err := a.Normal(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	sums, counts := map[int]float64{}, map[int]float64{}
	for _, st := range states {
		for _, v := range st.Grid.Data {
			if v == v {
				sums[st.Date.Year()] += float64(v)
				counts[st.Date.Year()]++
			}
		}
	}
	series := make([]float64, 0, len(sums))
	for y := from; y <= to; y++ {
		series = append(series, sums[y]/counts[y])
	}
	b, _ := slope(series)
	return b
}

// A least-squares trend over the yearly means of a product finds the trend that is
// planted at the place.
func TestTrendToolFindsPlantedTrends(t *testing.T) {
	values(t)
	a := New(1, nil)
	planted := func(place string) world.Trends {
		p := placeOf(t, place)
		return a.TrendsAt(p.Lon, p.Lat)
	}
	for _, place := range []string{"Sahara Desert", "North China Plain"} { // nothing lies over them
		if p := placeOf(t, place); a.TrendsAt(p.Lon, p.Lat) != a.Trends(p) {
			t.Errorf("%s has the trends %+v at its point, planted are %+v", place, planted(place), a.Trends(p))
		}
	}
	tests := []struct {
		product, band string
		places        []string
		from, to      int
		plant         func(world.Trends) float64
		unit          string
		ratio         [2]float64 // of the true slope to what is planted
	}{
		{"MOD11A2", "LST_Night_1km", []string{"Great Plains", "Sahara Desert", "Tibetan Plateau", "Congo Basin"}, 2003, 2022, func(w world.Trends) float64 { return w.Warming }, "K", [2]float64{0.6, 1.5}},
		{"MOD13A2", "NDVI", []string{"Great Plains", "North China Plain", "Amazon Rainforest"}, 2003, 2022, func(w world.Trends) float64 { return w.Greening }, "NDVI", [2]float64{0.15, 1.4}},
	}
	for _, tt := range tests {
		strong := 0
		for _, place := range tt.places {
			plant := tt.plant(planted(place))
			want := trueSlope(t, a, tt.product, tt.band, place, 0.6, 8, tt.from, tt.to)
			got, se := slope(yearly(t, a, tt.product, tt.band, place, 0.6, 8, tt.from, tt.to))
			if math.Abs(got-want) > 4*se {
				t.Errorf("%s %s: the tool finds %.5f ± %.5f %s a year, the truth is %.5f", place, tt.band, got, se, tt.unit, want)
			}
			if r := want / plant; r < tt.ratio[0] || r > tt.ratio[1] {
				t.Errorf("%s %s: the truth %.5f is not what is planted, %.5f", place, tt.band, want, plant)
			}
			if math.Abs(want) > 3*se {
				strong++
				if got*plant <= 0 {
					t.Errorf("%s %s: the tool finds %.5f, planted is %.5f", place, tt.band, got, plant)
				}
			}
		}
		if strong == 0 {
			t.Errorf("%s: no planted trend stands out of the weather", tt.band)
		}
	}
}

// The lights of a city grow at the planted rate, its buildings too.
func TestCityGrowth(t *testing.T) {
	values(t)
	a := New(1, nil)
	for _, place := range []string{"Mumbai", "Leon", "Seoul", "London"} {
		plant := a.Trends(placeOf(t, place))
		at := a.TrendsAt(placeOf(t, place).Lon, placeOf(t, place).Lat)
		if math.Abs(at.Lights-plant.Lights) > 0.005 {
			continue // a smaller place lies over it
		}
		series := yearly(t, a, "VCMCFG", "avg_rad", place, 0.15, 24, 2013, 2024)
		for i, v := range series {
			series[i] = math.Log(v)
		}
		got, se := slope(series)
		if math.Abs(got-plant.Lights) > 4*se+0.15*math.Abs(plant.Lights)+0.002 {
			t.Errorf("%s: the lights grow by %.4f ± %.4f a year, planted is %.4f", place, got, se, plant.Lights)
		}
		s := spec(t, "GHS_BUILT_V", place, 0.3, 48, "1985-01-01", "2020-12-31", "built_volume_total")
		volume := fetch(t, a, s)
		for i := range volume[1:] {
			if mean(volume[i+1].values) <= mean(volume[i].values) {
				t.Errorf("%s: the buildings shrink from %d to %d", place, volume[i].Date.Year(), volume[i+1].Date.Year())
			}
		}
	}
}

// A lake's water follows its planted level.
func TestLakeLevel(t *testing.T) {
	values(t)
	a := New(1, nil)
	for _, place := range []string{"Lake Urmia", "Lake Balkhash", "Lake Chad", "Lake Tana"} {
		p := placeOf(t, place)
		plant := a.Trends(p).Level
		share := func(year string) float64 {
			s := archive.Spec{Product: "MOD09A1", Bands: []string{"sur_refl_b02", "sur_refl_b04"}, Name: "x", ScaleM: 3000, Start: on(year + "-08-05"), End: on(year + "-08-12"),
				Box: archive.Box{West: p.West, South: p.South, East: p.East, North: p.North}}
			st, err := a.Normal(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			wet := 0.0
			nir, green := st[0].Grid.Data, st[1].Grid.Data
			for i := range nir {
				if green[i] > nir[i] {
					wet++
				}
			}
			return wet / float64(len(nir))
		}
		if change := share("2024") - share("2002"); math.Abs(plant) > 0.001 && change*plant <= 0 {
			t.Errorf("%s: the share of water changes by %.4f, the planted level by %.4f a year", place, change, plant)
		}
	}
}
