package synthetic

import (
	"context"
	"math"
	"testing"

	"terraloom/agent/archive"
)

// Over warm land NDVI and surface temperature anticorrelate.
func TestNDVIAndTemperatureAnticorrelate(t *testing.T) {
	values(t)
	a := New(1, nil)
	for _, place := range []string{"Great Plains", "Chengdu Plain", "Central Valley", "New York", "Okavango Delta", "Madrid"} {
		ndvi := fetch(t, a, spec(t, "MOD13A2", place, 2, 40, "2020-07-11", "2020-07-11", "NDVI"))[0]
		lst := fetch(t, a, spec(t, "MOD11A2", place, 2, 40, "2020-07-11", "2020-07-11", "LST_Day_1km"))[0]
		r, n := correlation(ndvi.values, lst.values, func(i int) bool { return ndvi.values[i] > 0.05 && lst.values[i] > 285 })
		if n > 100 && r > -0.35 {
			t.Errorf("%s: the correlation over %d pixels is %.2f, want below -0.35", place, n, r)
		}
	}
}

// Days are warmer than nights, and afternoons than mornings, over land.
func TestDayAndNight(t *testing.T) {
	values(t)
	a := New(1, nil)
	for _, place := range []string{"Sahara Desert", "London", "Beijing", "Sydney", "Congo Basin", "Tibetan Plateau"} {
		terra := fetch(t, a, spec(t, "MOD11A2", place, 1, 24, "2020-03-01", "2020-03-20", "LST_Day_1km", "LST_Night_1km"))
		aqua := fetch(t, a, spec(t, "MYD11A2", place, 1, 24, "2020-03-01", "2020-03-20", "LST_Day_1km"))
		day, night := of(terra, "LST_Day_1km"), of(terra, "LST_Night_1km")
		for i := range day {
			warmer, later, n := 0, 0, 0
			for k, v := range day[i].values {
				if w, x := night[i].values[k], aqua[i].values[k]; v == v && w == w && x == x {
					n++
					if v > w {
						warmer++
					}
					if x > v-1 {
						later++
					}
				}
			}
			if n > 0 && (warmer < n*97/100 || later < n*95/100) {
				t.Errorf("%s: of %d pixels %d are warmer by day, %d in the afternoon", place, n, warmer, later)
			}
		}
	}
}

// The temperature falls with height, and summer is where the Sun is.
func TestClimate(t *testing.T) {
	values(t)
	a := New(1, nil)
	lst := func(place, from, to string) float64 {
		var sum, n float64
		for _, l := range fetch(t, a, spec(t, "MOD11A2", place, 0.5, 12, from, to, "LST_Day_1km")) {
			if m := mean(l.values); m == m {
				sum, n = sum+m, n+1
			}
		}
		return sum / n
	}
	for _, tt := range []struct {
		place         string
		january, july float64 // °C, wide
	}{
		{"London", 8, 26}, {"Sydney", 34, 16}, {"Singapore", 33, 33}, {"Sahara Desert", 25, 47}, {"Beijing", 5, 38}, {"Himalayas", 5, 20}, {"Mumbai", 32, 33},
	} {
		jan, jul := lst(tt.place, "2019-01-01", "2019-01-31")-273.15, lst(tt.place, "2019-07-01", "2019-07-31")-273.15
		if math.Abs(jan-tt.january) > 9 || math.Abs(jul-tt.july) > 9 {
			t.Errorf("%s has %.1f °C by day in January and %.1f in July, expected about %g and %g", tt.place, jan, jul, tt.january, tt.july)
		}
	}
}

// NDSI finds the snow, NDWI (McFeeters) the water, NDVI the plants.
func TestIndicesFindTheirCover(t *testing.T) {
	values(t)
	a := New(1, nil)
	s := spec(t, "MOD09A1", "European Alps", 2, 64, "2021-02-02", "2021-02-02", "sur_refl_b04", "sur_refl_b06")
	ls := fetch(t, a, s)
	rd, _ := newReader(a.world, mustResolve(t, s))
	v := rd.view(rd.strips[0], on("2021-02-02"), observed)
	snow, cloud := rd.spread(v.Snow()), rd.spread(v.Cloud())
	hit, miss := 0, 0
	for i := range snow {
		if cloud[i] > 0 || snow[i] > 0.1 && snow[i] < 0.8 {
			continue
		}
		ndsi := (ls[0].values[i] - ls[1].values[i]) / (ls[0].values[i] + ls[1].values[i])
		if (ndsi > 0.4) == (snow[i] >= 0.8) {
			hit++
		} else {
			miss++
		}
	}
	if hit < 200 || miss*50 > hit {
		t.Errorf("NDSI > 0.4 is right in %d pixels and wrong in %d", hit, miss)
	}

	s = spec(t, "Landsat 8", "Lake Geneva", 0.5, 80, "2021-06-01", "2021-09-30", "SR_B3", "SR_B5", "QA_PIXEL")
	ls = fetch(t, a, s)
	rd, _ = newReader(a.world, mustResolve(t, s))
	clearest, most := 0, 0
	for k, l := range of(ls, "QA_PIXEL") {
		n := 0
		for _, q := range l.stored {
			if int(q)&31 == 0 {
				n++
			}
		}
		if n > most {
			clearest, most = k, n
		}
	}
	green, nir := of(ls, "SR_B3")[clearest], of(ls, "SR_B5")[clearest]
	v = rd.view(rd.strips[0], green.Date, observed)
	water, cloud, shadow := rd.spread(v.Water()), rd.spread(v.Cloud()), rd.spread(v.Shadow())
	wet := 0
	hit, miss = 0, 0
	for i := range water {
		if cloud[i] > 0 || shadow[i] > 0 || water[i] > 0.1 && water[i] < 0.9 {
			continue
		}
		if water[i] >= 0.9 {
			wet++
		}
		ndwi := (green.values[i] - nir.values[i]) / (green.values[i] + nir.values[i])
		if (ndwi > 0) == (water[i] >= 0.9) {
			hit++
		} else {
			miss++
		}
	}
	if wet < 100 || hit < 500 || miss*50 > hit {
		t.Errorf("NDWI > 0 is right in %d pixels, %d of them water, and wrong in %d", hit, wet, miss)
	}
}

func mustResolve(t testing.TB, s archive.Spec) *archive.Request {
	t.Helper()
	r, err := archive.Resolve(archive.Products(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// spread lays a field of the product's own pixels over the request's.
func (rd *reader) spread(f []float32) []float64 {
	out := make([]float64, 0, len(rd.row)*len(rd.col))
	for _, r := range rd.row {
		for _, c := range rd.col {
			out = append(out, float64(f[r*len(rd.cols)+c]))
		}
	}
	return out
}

// The split-window algorithm of Jiménez-Muñoz et al. (2014, IEEE GRSL 11) recovers
// the surface temperature from the radiances of MODIS within 1 K (rms) under a
// clear sky, if it knows emissivity and water vapour.
func TestSplitWindow(t *testing.T) {
	values(t)
	a := New(1, nil)
	for _, place := range []string{"London", "Sahara Desert", "Congo Basin", "Beijing", "Great Plains", "Singapore", "Himalayas"} {
		for _, date := range []string{"2020-01-15", "2020-07-15"} {
			s := spec(t, "MOD021KM", place, 1.5, 40, date, date, "Radiance_31_Day", "Radiance_32_Day")
			ls := fetch(t, a, s)
			t31, t32 := brightness(t, ls[0]), brightness(t, ls[1])
			rd, _ := newReader(a.world, mustResolve(t, s))
			v := rd.view(rd.strips[0], on(date), observed)
			lst, cloud := rd.spread(v.SurfaceTemperature(v.product.LocalHour(on(date), false))), rd.spread(v.Cloud())
			e31, e32, vapour := rd.spread(v.Emissivity(11.03)), rd.spread(v.Emissivity(12.02)), rd.spread(v.Vapour())
			sum, n := 0.0, 0.0
			for i := range lst {
				if cloud[i] > 0 {
					continue
				}
				d, w := t31[i]-t32[i], vapour[i]/10
				e, de := (e31[i]+e32[i])/2, e31[i]-e32[i]
				got := t31[i] - 0.268 + 1.378*d + 0.183*d*d + (54.3-2.238*w)*(1-e) + (-129.2+16.4*w)*de
				sum, n = sum+(got-lst[i])*(got-lst[i]), n+1
			}
			if rms := math.Sqrt(sum / n); n > 50 && rms > 1 {
				t.Errorf("%s on %s: split-window is off by %.2f K (rms of %.0f pixels), want below 1", place, date, rms, n)
			}
		}
	}
}

// brightness turns a layer of radiances into temperatures by its band's constants.
func brightness(t testing.TB, l layer) []float64 {
	t.Helper()
	p, _ := archive.FindProduct(archive.Products(), l.Product)
	b, ok := p.Band(l.Band)
	if !ok || b.K1 == 0 {
		t.Fatalf("%s %s is not thermal", l.Product, l.Band)
	}
	out := make([]float64, len(l.values))
	for i, v := range l.values {
		out[i] = b.K2 / math.Log(b.K1/v+1)
	}
	return out
}

// The single-channel formula, which knows nothing of the atmosphere, stays within
// 3 K of the surface in dry air.
func TestSingleChannel(t *testing.T) {
	values(t)
	a := New(1, nil)
	checked := 0
	for _, place := range []string{"Death Valley National Park", "Beijing", "Madrid"} {
		s := spec(t, "LC08_TOA", place, 0.3, 40, "2020-01-01", "2020-02-28", "B4", "B5", "B10")
		ls := fetch(t, a, s)
		rd, _ := newReader(a.world, mustResolve(t, s))
		for k, bt := range of(ls, "B10") {
			v := rd.view(rd.strips[0], bt.Date, observed)
			lst, cloud, vapour := rd.spread(v.SurfaceTemperature(10.2)), rd.spread(v.Cloud()), rd.spread(v.Vapour())
			red, nir := of(ls, "B4")[k].values, of(ls, "B5")[k].values
			sum, n := 0.0, 0.0
			for i := range lst {
				if cloud[i] > 0 || vapour[i] > 12 {
					continue
				}
				ndvi := (nir[i] - red[i]) / (nir[i] + red[i])
				e := 0.97 + 0.003*ndvi
				if ndvi > 0.7 {
					e = 0.99
				} else if ndvi < 0.2 {
					e = 0.96
				}
				got := bt.values[i] / (1 + 10.9*bt.values[i]/14387.7*math.Log(e))
				sum, n = sum+math.Abs(got-lst[i]), n+1
			}
			if n > 100 {
				checked++
				if off := sum / n; off > 3 {
					t.Errorf("%s on %s: single-channel is off by %.2f K", place, bt.Date.Format("2006-01-02"), off)
				}
			}
		}
	}
	if checked < 3 {
		t.Errorf("only %d clear scenes", checked)
	}
}

// The ratio of an absorbing band to the window gives the water vapour back.
func TestWaterVapour(t *testing.T) {
	values(t)
	a := New(1, nil)
	s := spec(t, "MOD021KM", "North China Plain", 1.5, 32, "2023-04-05", "2023-04-20", "Reflectance_2", "Reflectance_5", "Reflectance_18")
	ls := fetch(t, a, s)
	rd, _ := newReader(a.world, mustResolve(t, s))
	sum, n := 0.0, 0.0
	for k, absorbing := range of(ls, "Reflectance_18") {
		b2, b5 := of(ls, "Reflectance_2")[k].values, of(ls, "Reflectance_5")[k].values
		v := rd.view(rd.strips[0], on(absorbing.Date.Format("2006-01-02")), observed)
		vapour, cloud, water := rd.spread(v.Vapour()), rd.spread(v.Cloud()), rd.spread(v.Water())
		for i := range vapour {
			if cloud[i] > 0 || water[i] > 0.05 {
				continue
			}
			window := b2[i] + (b5[i]-b2[i])*(0.936-0.865)/(1.24-0.865)
			got := -math.Log(absorbing.values[i]/window) / 0.03
			sum, n = sum+math.Abs(got-vapour[i]), n+1
		}
	}
	if n < 500 || sum/n > 3 {
		t.Errorf("the band ratio is off by %.2f mm in %.0f pixels, want below 3", sum/n, n)
	}
}

// What QA_PIXEL and state_1km call clear shows the surface; what they call cloudy
// is bright and cold.
func TestCloudMasks(t *testing.T) {
	values(t)
	a := New(1, nil)
	clear, masked := 0, 0
	p, _ := archive.FindProduct(archive.Products(), "Landsat 8")
	qaBand, _ := p.Band("QA_PIXEL")
	cloudBit, _ := qaBand.Bit("cloud")
	for _, place := range []string{"London", "Chicago", "Rosario"} {
		s := spec(t, "Landsat 8", place, 0.3, 48, "2021-04-01", "2021-08-31", "SR_B4", "ST_B10", "QA_PIXEL")
		ls := fetch(t, a, s)
		state, err := a.Truth(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		n := len(ls) / 3
		for k := range n {
			red, st, qa := ls[k], ls[n+k], ls[2*n+k]
			truth := state[k].Grid.Data
			warm := state[n+k].Grid.Data
			for i := range qa.stored {
				off := math.Abs(red.values[i] - float64(truth[i]))
				flags := int(qa.stored[i])
				switch {
				case flags&31 == 0: // bits 0 to 4, what apply_cloud_mask looks at
					clear++
					if off > 0.03 {
						t.Fatalf("%s %s: a clear pixel is off by %.3f, flags %b", place, red.Date.Format("2006-01-02"), off, flags)
					}
				case cloudBit.Get(flags) == 1:
					masked++
					if red.values[i] < 0.35 || st.values[i] > float64(warm[i])-8 {
						t.Fatalf("%s: a cloud has the reflectance %.2f and %.1f K over a surface of %.1f K", place, red.values[i], st.values[i], warm[i])
					}
				}
			}
		}
	}
	if clear < 5000 || masked < 5000 {
		t.Errorf("%d clear and %d cloudy pixels are too few to judge", clear, masked)
	}
}

// Landsat and MODIS see one world: their temperatures of a place and day agree.
func TestSensorsAgree(t *testing.T) {
	values(t)
	a := New(1, nil)
	land := fetch(t, a, spec(t, "Landsat 8", "Central Valley", 0.2, 60, "2021-07-01", "2021-07-31", "ST_B10", "QA_PIXEL"))
	st, qa := of(land, "ST_B10")[0], of(land, "QA_PIXEL")[0]
	day := st.Date.Format("2006-01-02")
	modis := fetch(t, a, spec(t, "MOD11A1", "Central Valley", 0.2, 20, day, day, "LST_Day_1km"))[0]
	clear := make([]float64, 0, len(st.values))
	for i, v := range st.values {
		if int(qa.stored[i])&31 == 0 {
			clear = append(clear, v)
		}
	}
	if len(clear) < 500 || modis.Valid < 50 {
		t.Fatalf("%d and %d clear pixels on %s are too few", len(clear), modis.Valid, day)
	}
	if d := mean(clear) - mean(modis.values); math.Abs(d) > 2 {
		t.Errorf("Landsat sees %.2f K more than MODIS", d)
	}
}

// Cities are warmer than their surroundings, built up and bright at night.
func TestUrbanHeat(t *testing.T) {
	values(t)
	a := New(1, nil)
	for _, place := range []string{"Beijing", "London", "Chicago", "Sao Paulo"} {
		lst := fetch(t, a, spec(t, "MOD11A2", place, 1.2, 40, "2020-06-01", "2020-07-20", "LST_Night_1km"))
		lights := fetch(t, a, spec(t, "VCMCFG", place, 1.2, 40, "2020-06-01", "2020-06-01", "avg_rad"))[0]
		volume := fetch(t, a, spec(t, "GHS_BUILT_V", place, 1.2, 40, "2020-01-01", "2020-01-01", "built_volume_total"))[0]
		var city, country, n, m float64
		for _, l := range lst {
			for i, v := range l.values {
				switch {
				case v != v:
				case lights.values[i] > 15:
					city, n = city+v, n+1
				case lights.values[i] < 1:
					country, m = country+v, m+1
				}
			}
		}
		if n < 20 || m < 20 || city/n-country/m < 0.7 {
			t.Errorf("%s is %.2f K warmer at night than its surroundings (%.0f and %.0f pixels)", place, city/n-country/m, n, m)
		}
		if r, _ := correlation(lights.values, volume.values, func(int) bool { return true }); r < 0.7 {
			t.Errorf("%s: the lights correlate with the buildings by %.2f only", place, r)
		}
	}
}

// Fires burn in the dry season, mostly, and leave scars that lower the NBR.
func TestFires(t *testing.T) {
	values(t)
	a := New(1, nil)
	burning := func(from, to string) (pixels int, total float64) {
		s := spec(t, "MYD14A1", "Thailand", 6, 150, from, to, "MaxFRP")
		for _, l := range fetch(t, a, s) {
			for _, v := range l.values {
				if v > 0 {
					pixels, total = pixels+1, total+v
				}
			}
		}
		return pixels, total
	}
	dry, power := burning("2018-02-01", "2018-02-28")
	wet, _ := burning("2018-08-01", "2018-08-28")
	if dry < 20 || wet*4 > dry {
		t.Errorf("%d fire pixels in the dry season, %d in the wet", dry, wet)
	}
	if m := power / float64(dry); m < 5 || m > 300 {
		t.Errorf("a fire pixel has %.1f MW on average", m)
	}
}

// SMAP's soil moisture follows the rain of the season and has gaps and fill values.
func TestSoilMoistureAndRain(t *testing.T) {
	values(t)
	a := New(1, nil)
	series := func(product, band, from, to string) (m float64, valid, total int) {
		var sum float64
		s := spec(t, product, "Sahel", 3, 24, from, to, band)
		s.Box = archive.Box{West: -10, South: 13, East: 30, North: 15}
		s.ScaleM = 50000
		for _, l := range fetch(t, a, s) {
			valid, total = valid+l.Valid, total+l.Width*l.Height
			for _, v := range l.values {
				if v == v {
					sum += v
				}
			}
		}
		return sum / float64(valid), valid, total
	}
	dry, valid, total := series("SMAP", "soil_moisture_am", "2020-01-01", "2020-03-10")
	wet, _, _ := series("SMAP", "soil_moisture_am", "2020-07-15", "2020-09-20")
	rainDry, _, _ := series("GPM", "precipitation", "2020-01-01", "2020-03-10")
	rainWet, _, _ := series("GPM", "precipitation", "2020-07-15", "2020-09-20")
	if wet < dry+0.04 || rainWet < 5*rainDry {
		t.Errorf("soil moisture %.3f and %.3f, rain %.2f and %.2f mm a day in the dry and the wet season", dry, wet, rainDry, rainWet)
	}
	if valid == total || valid < total/3 {
		t.Errorf("%d of %d pixels are valid", valid, total)
	}
}

// The rain of a year adds up to what the climate says.
func TestRainOfAYear(t *testing.T) {
	values(t)
	a := New(1, nil)
	for _, place := range []string{"Congo Basin", "London", "Sahara Desert"} {
		s := spec(t, "GPM", place, 14, 10, "2015-01-01", "2020-12-31", "precipitation")
		s.Interval = "year"
		got := 0.0
		years := fetch(t, a, s)
		for _, l := range years {
			got += mean(l.values) / float64(len(years))
		}
		s.Interval, s.Start, s.End = "", on("2018-01-01"), on("2018-12-31")
		normal, err := a.Normal(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for _, n := range normal {
			sum := 0.0
			for _, v := range n.Grid.Data {
				sum += float64(v)
			}
			want += sum / float64(len(n.Grid.Data))
		}
		if math.Abs(got-want) > 0.25*want+12 { // six years of a desert have few storms
			t.Errorf("%s has %.0f mm a year, the climate %.0f", place, got, want)
		}
	}
}

// Backscatter tells water from land and city.
func TestBackscatter(t *testing.T) {
	values(t)
	a := New(1, nil)
	s := spec(t, "Sentinel-1", "Lake Geneva", 0.6, 64, "2020-06-01", "2020-06-12", "VV", "VH")
	ls := fetch(t, a, s)
	rd, _ := newReader(a.world, mustResolve(t, s))
	v := rd.view(rd.strips[0], ls[0].Date, observed)
	water := rd.spread(v.Water())
	var lake, land, n, m, cross float64
	for i, x := range ls[0].values {
		cross += ls[1].values[i] - x
		if water[i] > 0.95 {
			lake, n = lake+x, n+1
		} else if water[i] < 0.05 {
			land, m = land+x, m+1
		}
	}
	if n < 50 || m < 50 || land/m-lake/n < 6 || cross/float64(len(water)) > -4 {
		t.Errorf("VV is %.1f dB over the lake and %.1f over land, VH %.1f dB lower", lake/n, land/m, -cross/float64(len(water)))
	}
}
