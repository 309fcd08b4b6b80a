package plot

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"terraloom/agent/raster"
)

// decoded is the picture that f writes; a second run must give the same bytes.
func decoded(t *testing.T, f func(w *bytes.Buffer) error) image.Image {
	t.Helper()
	var first, second bytes.Buffer
	if err := f(&first); err != nil {
		t.Fatal(err)
	}
	if err := f(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("a second run differs: %v", err)
	}
	img, err := png.Decode(&first)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// pixels counts the pixels of a colour.
func pixels(img image.Image, want color.NRGBA) int {
	n := 0
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			if color.NRGBAModel.Convert(img.At(x, y)) == want {
				n++
			}
		}
	}
	return n
}

// tinted counts the pixels of about a colour, as those of thin lines are mixed with
// what lies under them.
func tinted(img image.Image, want color.NRGBA) int {
	n := 0
	far := func(a, b uint8) bool { return max(a, b)-min(a, b) > 90 }
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			if c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA); !far(c.R, want.R) && !far(c.G, want.G) && !far(c.B, want.B) {
				n++
			}
		}
	}
	return n
}

func dataset(t *testing.T, spec raster.Spec, width int, bands ...[]float32) *raster.Dataset {
	t.Helper()
	var grids []*raster.Grid
	for _, b := range bands {
		g, err := raster.NewGrid(width, len(b)/width, raster.WGS84, raster.NorthUp(10, 50, 0.01, 0.01))
		if err != nil {
			t.Fatal(err)
		}
		copy(g.Data, b)
		grids = append(grids, g)
	}
	path := filepath.Join(t.TempDir(), "a.tif")
	if err := raster.Save(path, spec, grids...); err != nil {
		t.Fatal(err)
	}
	ds, err := raster.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ds.Close() })
	return ds
}

var nodata = raster.Spec{NoData: new(-9999.0)}

// A field of four pixels: each quarter of the map has the colour of its value, the
// one without data is grey.
func TestMapColours(t *testing.T) {
	ds := dataset(t, nodata, 2, []float32{0, 1, 0.5, raster.NaN()})
	img := decoded(t, func(w *bytes.Buffer) error { return Maps(w, "field", Image{Title: "a.tif", Data: ds}) })
	s := newScale(0, 1)
	grey := color.NRGBA{faint.Y, faint.Y, faint.Y, 255}
	n := map[color.NRGBA]int{}
	for _, c := range []color.NRGBA{s.at(0), s.at(1), s.at(0.5), grey} {
		n[c] = pixels(img, c)
	}
	least, most := math.MaxInt, 0
	for _, k := range n {
		least, most = min(least, k), max(most, k)
	}
	// Each is a quarter of a map whose longer side has 560 pixels, up to the colour bar's own.
	if least < 270*160 || most > least+3000 {
		t.Errorf("pixels of the four colours: %v", n)
	}
}

func TestMaskHasALegend(t *testing.T) {
	ds := dataset(t, raster.Spec{Type: raster.Uint8}, 2, []float32{0, 255, 255, 255})
	l, err := newLayer(Image{Data: ds})
	if err != nil || len(l.classes) != 2 || l.share[255] != 3 {
		t.Fatalf("%+v, %v", l, err)
	}
	img := decoded(t, func(w *bytes.Buffer) error { return Maps(w, "", Image{Data: ds}) })
	zero, set := pixels(img, classColours[0]), pixels(img, classColours[1])
	if ratio := float64(set) / float64(zero); ratio < 2.8 || ratio > 3.2 {
		t.Errorf("%d pixels of 255 and %d of 0", set, zero)
	}
}

func TestColourPictureWithBoxes(t *testing.T) {
	ds := dataset(t, raster.Spec{Type: raster.Uint8}, 2, []float32{10, 10, 10, 10}, []float32{20, 20, 20, 20}, []float32{30, 30, 30, 30})
	img := decoded(t, func(w *bytes.Buffer) error {
		return Maps(w, "boxes", Image{Data: ds, Boxes: [][4]float64{{0.5, 0.5, 1.5, 1.5}}})
	})
	// A square of half the side: 4 × 280 pixels, two wide.
	if n := tinted(img, color.NRGBA{0xff, 0x30, 0x30, 255}); n < 1800 || n > 3500 {
		t.Errorf("%d pixels of the box", n)
	}
	if n := pixels(img, color.NRGBA{10, 20, 30, 255}); n < 280_000 {
		t.Errorf("%d pixels of the picture", n)
	}
}

// Means of a series share one range of colours only where the band is the same.
func TestPanels(t *testing.T) {
	low := dataset(t, raster.Spec{Bands: []raster.BandSpec{{Description: "NDVI"}}}, 1, []float32{0, 1.5})
	high := dataset(t, raster.Spec{Bands: []raster.BandSpec{{Description: "NDVI"}}}, 1, []float32{1.5, 3})
	img := decoded(t, func(w *bytes.Buffer) error { return Maps(w, "two", Image{Data: low}, Image{Data: high}) })
	s := newScale(0, 3)
	if once, twice := pixels(img, s.at(0)), pixels(img, s.at(1.5)); once == 0 || twice < once*3/2 {
		t.Errorf("%d pixels of 0 and %d of 1.5, which both maps have", once, twice)
	}
	many := make([]Image, 14)
	for i := range many {
		many[i] = Image{Data: low}
	}
	var b bytes.Buffer
	if err := Maps(&b, "many", many...); err != nil {
		t.Error(err)
	}
}

// A band of 6000 × 6000 pixels is drawn from a tenth of its memory.
func TestLargeRasterInLittleMemory(t *testing.T) {
	const side = 6000
	path := filepath.Join(t.TempDir(), "large.tif")
	w, err := raster.Create(path, raster.Spec{Width: side, Height: side, Type: raster.Uint8, CRS: raster.WGS84, Transform: raster.NorthUp(0, 1, 1e-4, 1e-4)})
	if err != nil {
		t.Fatal(err)
	}
	for win := range raster.Windows(side, side, side, 256) {
		rows := make([]uint8, win.Width*win.Height)
		for i := range rows {
			rows[i] = uint8((win.Y + i/side) / 300)
		}
		if err := raster.WriteSamples(w, 1, win, rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ds, err := raster.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := newLayer(Image{Data: ds})
	runtime.ReadMemStats(&after)
	if err != nil || max(l.width, l.height) > maxSide || l.values[0] != 0 || l.values[len(l.values)-1] != 19 {
		t.Fatalf("%d × %d, %v", l.width, l.height, err)
	}
	if used := after.HeapInuse - min(before.HeapInuse, after.HeapInuse); used > 100<<20 {
		t.Errorf("%d MiB held", used>>20)
	}
}

func TestLines(t *testing.T) {
	days := []time.Time{time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2022, 7, 1, 0, 0, 0, 0, time.UTC), time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)}
	draw := func(y ...float64) int {
		return tinted(decoded(t, func(w *bytes.Buffer) error { return Lines(w, "LST", "", "K", days, Line{Y: y}) }), classColours[1])
	}
	// Over a gap there is no line: two markers instead of a line of some 700 pixels.
	if with, without := draw(1, nan, 3), draw(1, 2, 3); without < with+700 {
		t.Errorf("%d pixels of the series with a gap, %d of the one without", with, without)
	}
	var b bytes.Buffer
	if err := Lines(&b, "", "", "", nil, Line{Y: []float64{nan}}); !errors.Is(err, ErrNothing) {
		t.Errorf("no value: %v", err)
	}
	if err := Lines(&b, "", "", "", nil, Line{X: []float64{1}, Y: []float64{1, 2}}); err == nil {
		t.Error("lists of different lengths are drawn")
	}
	if err := Lines(&b, "", "", "", nil, Line{Y: []float64{5}}); err != nil {
		t.Errorf("one value: %v", err)
	}
}

func TestBars(t *testing.T) {
	img := decoded(t, func(w *bytes.Buffer) error { return Bars(w, "", "", Bar{"one", 1}, Bar{"three", 3}) })
	n := pixels(img, classColours[1])
	if n < 10_000 {
		t.Errorf("%d pixels of the bars", n)
	}
	var b bytes.Buffer
	if err := Bars(&b, "", ""); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
	if err := Bars(&b, "", "", Bar{"x", math.Inf(1)}); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		n      int
		want   string
	}{
		{0, 1, 5, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{-1, 1, 4, "-1.0 -0.5 0.0 0.5 1.0"},
		{15300, 15450, 3, "15300 15350 15400 15450"},
		{20.58, 21.23, 6, "20.6 20.8 21.0 21.2"},
		{3e7, 5e7, 2, "3e+07 4e+07 5e+07"},
		{2, 2, 5, "2"},
	} {
		var got []string
		for _, m := range ticks(c.n).Ticks(c.lo, c.hi) {
			got = append(got, m.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%g to %g: %q, want %q", c.lo, c.hi, got, c.want)
		}
	}
	unix := func(s string) float64 {
		d, err := time.Parse(time.DateOnly, s)
		if err != nil {
			t.Fatal(err)
		}
		return float64(d.Unix())
	}
	for _, c := range []struct{ from, to, want string }{
		{"2022-01-01", "2022-01-05", "2022-01-01 2022-01-02 2022-01-03 2022-01-04 2022-01-05"},
		{"2022-01-01", "2022-06-01", "2022-01 2022-02 2022-03 2022-04 2022-05 2022-06"},
		{"2013-01-01", "2024-01-01", "2013 2015 2017 2019 2021 2023"},
	} {
		var got []string
		for _, m := range (days{}).Ticks(unix(c.from), unix(c.to)) {
			got = append(got, m.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s to %s: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}
