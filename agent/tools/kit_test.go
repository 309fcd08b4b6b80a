package tools

import (
	"bytes"
	"compress/gzip"
	"errors"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/raster"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// testWorkspace is a workspace in a temporary folder.
func testWorkspace(t testing.TB) *workspace.Workspace {
	t.Helper()
	w, err := workspace.Open(t.TempDir(), workspace.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// goldenNumber reads a number of testdata/kit.json.gz, where NaN and infinities are texts.
func goldenNumber(v strictjson.Value) float64 {
	switch v.Text() {
	case "nan":
		return math.NaN()
	case "inf":
		return math.Inf(1)
	case "-inf":
		return math.Inf(-1)
	}
	f, _ := v.Float()
	return f
}

func sampleType(name string) raster.DataType {
	return map[string]raster.DataType{"float32": raster.Float32, "uint8": raster.Uint8, "int16": raster.Int16, "uint16": raster.Uint16}[name]
}

// writeGolden makes an input raster of the golden file.
func writeGolden(t *testing.T, dir string, v strictjson.Value) {
	t.Helper()
	w, _ := v.Get("width").Float()
	h, _ := v.Get("height").Float()
	px, _ := v.Get("pixel").Float()
	path := filepath.Join(dir, v.Get("path").Text())
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	bands := v.Get("bands")
	if strings.HasSuffix(path, ".png") {
		img := image.NewGray(image.Rect(0, 0, int(w), int(h)))
		for i := range img.Pix {
			img.Pix[i] = uint8(goldenNumber(bands.Index(0).Index(i)))
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	crs, err := raster.EPSG(32633)
	if err != nil {
		t.Fatal(err)
	}
	spec := raster.Spec{Width: int(w), Height: int(h), Type: sampleType(v.Get("type").Text()), CRS: crs,
		Transform: raster.NorthUp(500000, 4000000, px, px), Bands: make([]raster.BandSpec, bands.Len())}
	if n := v.Get("nodata"); n.Kind() != strictjson.Null {
		spec.NoData = new(goldenNumber(n))
	}
	out, err := raster.Create(path, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Abort()
	for b := range bands.Len() {
		numbers := make([]float64, bands.Index(b).Len())
		for i := range numbers {
			numbers[i] = goldenNumber(bands.Index(b).Index(i))
		}
		window := raster.Window{Width: int(w), Height: int(h)}
		switch spec.Type {
		case raster.Float32:
			err = raster.WriteSamples(out, b+1, window, converted[float32](numbers))
		case raster.Uint8:
			err = raster.WriteSamples(out, b+1, window, converted[uint8](numbers))
		case raster.Int16:
			err = raster.WriteSamples(out, b+1, window, converted[int16](numbers))
		case raster.Uint16:
			err = raster.WriteSamples(out, b+1, window, converted[uint16](numbers))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func converted[T raster.Sample](in []float64) []T {
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = T(v)
	}
	return out
}

// near reports whether two numbers agree within a few units of single precision;
// NaN agrees with NaN.
func near(a, b, tolerance float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b)
	}
	return a == b || math.Abs(a-b) <= tolerance*max(math.Abs(a), math.Abs(b), 1e-3)
}

// sameFile compares a raster that a call made with the recorded one.
func sameFile(t *testing.T, w *workspace.Workspace, call string, want strictjson.Value) {
	t.Helper()
	r, err := w.OpenRaster(want.Get("path").Text())
	if err != nil {
		t.Errorf("%s: %v", call, err)
		return
	}
	defer r.Close()
	if got := r.Info.Type; got != sampleType(want.Get("type").Text()) {
		t.Errorf("%s: samples of %v, want %s", call, got, want.Get("type").Text())
	}
	n := want.Get("nodata")
	switch got := r.Info.Bands[0].NoData; {
	case n.Kind() == strictjson.Null && got != nil:
		t.Errorf("%s: nodata %g, want none", call, *got)
	case n.Kind() != strictjson.Null && (got == nil || !near(*got, goldenNumber(n), 0)):
		t.Errorf("%s: nodata %v, want %s", call, got, n.JSON())
	}
	bands := want.Get("bands")
	if len(r.Info.Bands) != bands.Len() {
		t.Errorf("%s: %d bands, want %d", call, len(r.Info.Bands), bands.Len())
		return
	}
	for b := range bands.Len() {
		got, err := publicSamples(r, b+1)
		if err != nil || len(got) != bands.Index(b).Len() {
			t.Errorf("%s: band %d: %d pixels, %v; want %d", call, b+1, len(got), err, bands.Index(b).Len())
			return
		}
		wrong := 0
		for i, v := range got {
			if g := goldenNumber(bands.Index(b).Index(i)); !near(v, g, 2e-6) {
				if wrong++; wrong <= 3 {
					t.Errorf("%s: band %d, pixel %d is %v, want %v", call, b+1, i, v, g)
				}
			}
		}
	}
}

// nearValue compares observations number by number.
func nearValue(got, want strictjson.Value, tolerance float64) bool {
	switch {
	case got.Kind() == strictjson.Number && want.Kind() == strictjson.Number:
		a, _ := got.Float()
		b, _ := want.Float()
		return near(a, b, tolerance)
	case got.Kind() != want.Kind() || got.Len() != want.Len():
		return false
	case got.Kind() == strictjson.Array:
		for i := range got.Len() {
			if !nearValue(got.Index(i), want.Index(i), tolerance) {
				return false
			}
		}
		return true
	}
	return got.Equal(want)
}

// The public kit itself, run on small rasters (testdata/kit.md has the recipe), is
// reproduced under Compat EarthAgent: observations, messages and every pixel of
// every file.
func TestPublicKit(t *testing.T) {
	f, err := os.Open("testdata/kit.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	golden := mustParse(t, string(text))
	w := testWorkspace(t)
	rasters, calls := golden.Get("rasters"), golden.Get("calls")
	for i := range rasters.Len() {
		writeGolden(t, w.Dir(), rasters.Index(i))
	}
	r, err := New(EarthAgent, WithWorkspace(w))
	if err != nil {
		t.Fatal(err)
	}
	exact, tools := 0, map[string]bool{}
	for i := range calls.Len() {
		c := calls.Index(i)
		name := c.Get("tool").Text()
		tools[name] = true
		label := name + " " + c.Get("args").JSON()
		got, err := r.Invoke(t.Context(), name, c.Get("args"))
		if want := c.Get("error"); !want.IsAbsent() {
			if !errors.Is(err, ErrBadArguments) {
				t.Errorf("%s: got %s, %v; the kit fails: %s", label, got.Value.JSON(), err, want.Text())
			}
			continue
		}
		want := c.Get("output")
		if err != nil || !nearValue(got.Value, want, 1e-6) {
			t.Errorf("%s\ngot  %s, %v\nwant %s", label, got.Value.JSON(), err, want.JSON())
			continue
		}
		if got.Value.Equal(want) {
			exact++
		}
		for k := range c.Get("files").Len() {
			sameFile(t, w, label, c.Get("files").Index(k))
		}
	}
	t.Logf("%d calls of %d tools; %d observations have the very digits", calls.Len(), len(tools), exact)
}
