package raster

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// randomSamples fills a slice with values over the whole range of T.
func randomSamples[T Sample](rng *rand.Rand, n int) []T {
	out := make([]T, n)
	for i := range out {
		switch v := any(&out[i]).(type) {
		case *float32:
			*v = float32(rng.NormFloat64() * 1e3)
		case *float64:
			*v = rng.NormFloat64() * 1e3
		default:
			out[i] = T(rng.Uint64())
		}
	}
	return out
}

// roundTrip writes random samples in windows and reads them back exactly.
func roundTrip[T Sample](t *testing.T, width, height, bands int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.tif")
	kind := typeOf[T]()
	w, err := Create(path, Spec{Width: width, Height: height, Type: kind, Bands: make([]BandSpec, bands)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	rng := rand.New(rand.NewPCG(1, uint64(kind)))
	all := make([][]T, bands)
	for b := range all {
		all[b] = make([]T, width*height)
		for win := range w.Windows() {
			data := randomSamples[T](rng, win.Pixels())
			for y := range win.Height {
				copy(all[b][(win.Y+y)*width+win.X:], data[y*win.Width:(y+1)*win.Width])
			}
			if err := WriteSamples(w, b+1, win, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ds := open(t, path)
	if i := ds.Info(); i.Width != width || i.Height != height || len(i.Bands) != bands || i.Type != kind || i.Compression != "deflate" {
		t.Errorf("info %+v", i)
	}
	for b := range all {
		got := make([]T, width*height)
		if err := ReadSamples(ds, b+1, Window{0, 0, width, height}, got); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, all[b]) {
			t.Errorf("%v, %d×%d, band %d: samples differ", kind, width, height, b+1)
		}
	}
}

func TestWriteRoundTrip(t *testing.T) {
	for _, size := range [][3]int{{1, 1, 1}, {256, 256, 1}, {257, 300, 2}, {31, 600, 4}} {
		roundTrip[uint8](t, size[0], size[1], size[2])
		roundTrip[int8](t, size[0], size[1], size[2])
		roundTrip[uint16](t, size[0], size[1], size[2])
		roundTrip[int16](t, size[0], size[1], size[2])
		roundTrip[uint32](t, size[0], size[1], size[2])
		roundTrip[int32](t, size[0], size[1], size[2])
		roundTrip[uint64](t, size[0], size[1], size[2])
		roundTrip[int64](t, size[0], size[1], size[2])
		roundTrip[float32](t, size[0], size[1], size[2])
		roundTrip[float64](t, size[0], size[1], size[2])
	}
	roundTrip[uint8](t, 2500, 1100, 1) // several windows
}

func TestSaveMetadata(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tif")
	utm, err := EPSG(32633)
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGrid(20, 10, utm, NorthUp(399960.5, 4500000.25, 30, 20))
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Data {
		g.Data[i] = float32(i)
	}
	g.Data[7] = NaN()
	g.Data[8] = float32(math.Inf(-1))
	spec := Spec{
		Type: Int16, NoData: new(-9999.0),
		Bands: []BandSpec{
			{Description: `a < b & "c"`, Scale: 0.0001, Offset: -3.5, Unit: "K", Metadata: map[string]string{"k": "<&>"}},
			{Description: "QA"},
		},
		Metadata: map[string]string{"SOURCE": "x & y", "DATE": "2020-01-01"},
	}
	if err := Save(path, spec, g, g); err != nil {
		t.Fatal(err)
	}
	ds := open(t, path)
	i := ds.Info()
	if !i.CRS.Same(utm) || i.CRS.Unit != 1 || i.Transform != g.Transform || !reflect.DeepEqual(i.Metadata, spec.Metadata) {
		t.Errorf("info %+v", i)
	}
	want := BandInfo{NoData: new(-9999.0), Scale: 0.0001, Offset: -3.5, Description: `a < b & "c"`, Unit: "K", Metadata: map[string]string{"k": "<&>"}}
	if !reflect.DeepEqual(i.Bands[0], want) {
		t.Errorf("band 1 %+v, want %+v", i.Bands[0], want)
	}
	h, err := ds.ReadBand(1)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range h.Data {
		if invalid := k == 7 || k == 8; Finite(v) == invalid || !invalid && v != float32(k) {
			t.Fatalf("pixel %d: %v", k, v)
		}
	}
	raw := make([]int16, 200)
	if err := ReadSamples(ds, 2, Window{0, 0, 20, 10}, raw); err != nil || raw[7] != -9999 || raw[8] != -9999 {
		t.Errorf("stored nodata %d, %d (%v)", raw[7], raw[8], err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Save(path, spec, g, g); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(path); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the same raster written twice differs (%v)", err)
	}
}

// Every kind of coordinate system and transform that is read survives a copy.
func TestCopyGeoreference(t *testing.T) {
	for _, name := range []string{"meta.tif", "sinusoidal.tif", "point.tif", "rotated.tif", "mask.tif"} {
		g, err := open(t, "testdata/"+name).ReadBand(1)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := Save(path, Spec{}, g); err != nil {
			t.Fatal(err)
		}
		h, err := open(t, path).ReadBand(1)
		if err != nil {
			t.Fatal(err)
		}
		if !h.CRS.Same(g.CRS) || h.CRS.Kind != g.CRS.Kind || h.CRS.Unit != g.CRS.Unit || h.Transform != g.Transform {
			t.Errorf("%s: %+v %v became %+v %v", name, g.CRS, g.Transform, h.CRS, h.Transform)
		}
		if err := g.Match(h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	dir := t.TempDir()
	nan := NaN()
	grid := func(v ...float32) *Grid { return &Grid{Width: len(v), Height: 1, Data: v} }
	tests := []struct {
		name string
		spec Spec
		grid *Grid
		part string
		want error
	}{
		{"too large", Spec{Type: Uint8}, grid(1, 256), "column 1, row 0: value 256", ErrRange},
		{"negative", Spec{Type: Uint16}, grid(-1), "value -1", ErrRange},
		{"int64", Spec{Type: Int64}, grid(9.3e18), "value 9.3e+18", ErrRange},
		{"invalid without nodata", Spec{Type: Int16}, grid(nan), "Spec.NoData", ErrRange},
		{"valid nodata", Spec{Type: Int16, NoData: new(0.0)}, grid(0.3), "nodata", ErrRange},
		{"valid float nodata", Spec{NoData: new(-9999.0)}, grid(-9999), "nodata", ErrRange},
		{"nodata does not fit", Spec{Type: Uint8, NoData: new(-1.0)}, grid(1), "nodata value -1", ErrRange},
		{"bands", Spec{Bands: make([]BandSpec, 2)}, grid(1), "2 band descriptions for 1", ErrRange},
		{"type", Spec{Type: 99}, grid(1), "DataType(99)", ErrUnsupported},
		{"unknown CRS kind", Spec{}, &Grid{Width: 1, Height: 1, Data: []float32{1}, CRS: CRS{EPSG: 4326}}, "geographic or projected", ErrUnsupported},
		{"bad transform", Spec{}, &Grid{Width: 1, Height: 1, Data: []float32{1}, Transform: GeoTransform{1}}, "inverse", ErrRange},
		{"length", Spec{}, &Grid{Width: 2, Height: 1, Data: []float32{1}}, "1 values for a window of 2", ErrRange},
		{"edge ok", Spec{Type: Uint8, NoData: new(7.0)}, grid(0, 255, 254.5, -0.4, nan), "", nil},
		{"float ok", Spec{NoData: new(math.NaN())}, grid(0, nan), "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, "a.tif")
			if err := os.WriteFile(path, []byte("before"), 0o644); err != nil {
				t.Fatal(err)
			}
			err := Save(path, tt.spec, tt.grid)
			if !errors.Is(err, tt.want) || err != nil && (!strings.Contains(err.Error(), tt.part) || !strings.Contains(err.Error(), path)) {
				t.Errorf("%v, want %v with %q", err, tt.want, tt.part)
			}
			if b, _ := os.ReadFile(path); (string(b) == "before") != (tt.want != nil) {
				t.Error("a failed write must leave the old file, a good one replace it")
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

func TestWriterWindows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tif")
	w, err := Create(path, Spec{Width: 600, Height: 300, Type: Uint8})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, win := range []Window{{1, 0, 256, 256}, {0, 0, 100, 256}, {0, 0, 256, 299}, {512, 256, 89, 44}} {
		if err := w.WriteWindow(1, win, make([]float32, win.Pixels())); !errors.Is(err, ErrRange) {
			t.Errorf("window %v: %v, want ErrRange", win, err)
		}
	}
	if err := w.WriteWindow(1, Window{512, 256, 88, 44}, make([]float32, 88*44)); err != nil {
		t.Errorf("a refused window must not spoil the writer: %v", err)
	}
	if err := w.WriteWindow(1, Window{512, 256, 88, 44}, make([]float32, 88*44)); !errors.Is(err, ErrRange) {
		t.Errorf("tile written twice: %v", err)
	}
	if err := WriteSamples(w, 1, Window{0, 0, 256, 256}, make([]int8, 256*256)); !errors.Is(err, ErrRange) {
		t.Errorf("wrong sample type: %v", err)
	}
	if err := w.Close(); !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), "5 of 6 tiles") {
		t.Errorf("incomplete raster: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("incomplete raster left a file: %v", err)
	}
	if err := w.WriteBand(1, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write after Close: %v", err)
	}
	if _, err := Create(t.TempDir(), Spec{Width: 1, Height: 1}); !errors.Is(err, ErrRange) {
		t.Errorf("create over a folder: %v", err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "no", "a.tif"), Spec{Width: 1, Height: 1}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("create in a missing folder: %v", err)
	}
}

// The directory of a BigTIFF is written and read like that of a classic file.
func TestWriteBigTIFF(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tif")
	w, err := Create(path, Spec{Width: 300, Height: 40, Type: Int32, CRS: WGS84, Transform: NorthUp(10, 50, 0.1, 0.1), Bands: make([]BandSpec, 2)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	w.at = 1<<32 + 3 // as if more than 4 GiB had been written; the file system stores the gap as a hole
	want := randomSamples[int32](rand.New(rand.NewPCG(3, 3)), 300*40)
	for b := range 2 {
		if err := WriteSamples(w, b+1, Window{0, 0, 300, 40}, want); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Skipf("the file system cannot hold a sparse file of 4 GiB: %v", err)
	}
	ds := open(t, path)
	got := make([]int32, 300*40)
	if err := ReadSamples(ds, 2, Window{0, 0, 300, 40}, got); err != nil || !slices.Equal(got, want) {
		t.Errorf("samples differ (%v)", err)
	}
	if i := ds.Info(); !i.CRS.Same(WGS84) || i.Transform != NorthUp(10, 50, 0.1, 0.1) {
		t.Errorf("info %+v", i)
	}
}
