package raster

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The pattern of the files in testdata/matrix; see testdata/make.py.
const (
	patternW, patternH, patternBands = 37, 29, 3
)

func patternBase(x, y, band int) int { return (x*7 + y*13 + (band-1)*31) % 251 }

// patternOf returns the pattern's sample as a value of T.
func patternOf[T Sample](x, y, band int) T {
	v := patternBase(x, y, band)
	wide := uint64(v) * 0x0101010101010101
	var out any
	switch typeOf[T]() {
	case Uint8:
		out = uint8(v)
	case Int8:
		out = int8(v - 125)
	case Uint16:
		out = uint16(v * 257)
	case Int16:
		out = int16(v*251 - 31000)
	case Uint32:
		out = uint32(v) * 0x01010101
	case Int32:
		out = int32(v*0x01010101 - 1<<31)
	case Uint64:
		out = wide
	case Int64:
		out = int64(wide ^ 1<<63)
	case Float32:
		out = float32(float64(v)*0.37 - 20)
	case Float64:
		out = float64(v)*0.37 - 20
	}
	return out.(T)
}

func open(t testing.TB, path string) *Dataset {
	t.Helper()
	ds, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ds.Close() })
	return ds
}

// checkPattern compares windows of every band, aligned with blocks and not, with the pattern, exactly.
func checkPattern[T Sample](t *testing.T, ds *Dataset) {
	t.Helper()
	for band := 1; band <= patternBands; band++ {
		for _, w := range []Window{{0, 0, patternW, patternH}, {3, 4, 20, 13}, {15, 15, 2, 2}, {36, 28, 1, 1}, {0, 7, 37, 1}} {
			got := make([]T, w.Pixels())
			if err := ReadSamples(ds, band, w, got); err != nil {
				t.Fatal(err)
			}
			g, err := ds.ReadWindow(band, w)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				want := patternOf[T](w.X+i%w.Width, w.Y+i/w.Width, band)
				if v != want {
					t.Fatalf("band %d window %v pixel %d: %v, want %v", band, w, i, v, want)
				}
				if g.Data[i] != float32(want) {
					t.Fatalf("band %d window %v pixel %d as float32: %v, want %v", band, w, i, g.Data[i], float32(want))
				}
			}
		}
	}
}

func TestMatrix(t *testing.T) {
	files, err := filepath.Glob("testdata/matrix/*.tif")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	checks := map[string]func(*testing.T, *Dataset){
		"u8": checkPattern[uint8], "i8": checkPattern[int8], "u16": checkPattern[uint16], "i16": checkPattern[int16],
		"u32": checkPattern[uint32], "i32": checkPattern[int32], "u64": checkPattern[uint64], "i64": checkPattern[int64],
		"f32": checkPattern[float32], "f64": checkPattern[float64],
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".tif")
		t.Run(name, func(t *testing.T) {
			ds := open(t, path)
			parts := strings.Split(name, "_")
			info := ds.Info()
			if info.Width != patternW || info.Height != patternH || len(info.Bands) != patternBands || info.Compression != parts[1] ||
				info.Interleaved != (parts[4] == "pixel") || info.HasMask || info.Bands[0].NoData != nil || info.Format != "GTiff" {
				t.Errorf("info %+v", info)
			}
			if tiled := info.BlockWidth == 16; tiled != (parts[3] == "tile") {
				t.Errorf("block %d×%d", info.BlockWidth, info.BlockHeight)
			}
			checks[parts[0]](t, ds)
			grids, err := ds.ReadBands()
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range grids {
				one, err := ds.ReadBand(i + 1)
				if err != nil || !slices.Equal(one.Data, g.Data) {
					t.Errorf("ReadBand(%d) and ReadBands differ (%v)", i+1, err)
				}
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	ds := open(t, "testdata/meta.tif")
	i := ds.Info()
	if i.CRS.EPSG != 32633 || i.CRS.Kind != Projected || i.CRS.Unit != 1 || i.CRS.String() != "EPSG:32633" {
		t.Errorf("CRS %+v", i.CRS)
	}
	if want := NorthUp(399960, 4500000, 30, 30); i.Transform != want {
		t.Errorf("transform %v, want %v", i.Transform, want)
	}
	if i.Metadata["ACQUIRED"] != "2020-06-01" || i.Metadata["NOTE"] != "a < b & c" {
		t.Errorf("metadata %v", i.Metadata)
	}
	a, b := i.Bands[0], i.Bands[1]
	if a.Description != "LST_Day" || a.Scale != 0.02 || a.Offset != -273.15 || a.Unit != "K" || a.NoData == nil || *a.NoData != -9999 {
		t.Errorf("band 1 %+v", a)
	}
	if b.Description != "QC" || b.Scale != 1 || b.Offset != 0 || b.Metadata["wavelength"] != "10.8" {
		t.Errorf("band 2 %+v", b)
	}
	g, err := ds.ReadBand(2)
	if err != nil {
		t.Fatal(err)
	}
	mask := make([]bool, len(g.Data))
	if err := ds.ReadMask(2, Window{0, 0, g.Width, g.Height}, mask); err != nil {
		t.Fatal(err)
	}
	raw := make([]int16, len(g.Data))
	if err := ReadSamples(ds, 2, Window{0, 0, g.Width, g.Height}, raw); err != nil {
		t.Fatal(err)
	}
	invalid := 0
	for k, v := range g.Data {
		nodata := patternBase(k%g.Width, k/g.Width, 2) == 0
		if nodata {
			invalid++
		}
		if Finite(v) == nodata || mask[k] == nodata || (raw[k] == -9999) != nodata {
			t.Fatalf("pixel %d: value %v, mask %v, sample %d, nodata %v", k, v, mask[k], raw[k], nodata)
		}
	}
	if invalid == 0 {
		t.Error("the pattern has no nodata pixel")
	}
	s, err := ds.Stats(2)
	if err != nil || s[0].Valid != int64(len(raw)-invalid) || s[0].Min < -31000 {
		t.Errorf("stats %+v, %v", s[0], err)
	}
}

func TestMasks(t *testing.T) {
	tests := []struct {
		file  string
		band  int
		valid func(x, y int) bool
		value func(x, y int) float32
	}{
		{"mask.tif", 1, func(x, y int) bool { return (x+y)%2 == 0 }, func(x, y int) float32 { return float32(patternBase(x, y, 1)) }},
		{"alpha.tif", 2, func(x, y int) bool { return x >= 10 }, func(x, y int) float32 { return float32(patternBase(x, y, 2)) }},
		{"alpha.tif", 4, func(x, y int) bool { return true }, func(x, y int) float32 {
			if x < 10 {
				return 0
			}
			return 200
		}},
		{"sparse.tif", 1, func(x, y int) bool { return x < 16 && y < 16 }, func(x, y int) float32 { return patternOf[float32](x, y, 1) }},
		{"cog.tif", 1, func(x, y int) bool { return x < 150 }, func(x, y int) float32 { return float32(x + y) }},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			ds := open(t, "testdata/"+tt.file)
			info := ds.Info()
			for _, w := range []Window{{0, 0, info.Width, info.Height}, {5, 3, 20, 20}} {
				g, err := ds.ReadWindow(tt.band, w)
				if err != nil {
					t.Fatal(err)
				}
				for i, v := range g.Data {
					x, y := w.X+i%w.Width, w.Y+i/w.Width
					if want := tt.valid(x, y); Finite(v) != want || want && v != tt.value(x, y) {
						t.Fatalf("(%d,%d): %v, want valid=%v, %v", x, y, v, want, tt.value(x, y))
					}
				}
			}
		})
	}
	if i := open(t, "testdata/cog.tif").Info(); i.Overviews != 2 || !i.HasMask || i.Compression != "zstd" {
		t.Errorf("COG: %+v", i)
	}
	if i := open(t, "testdata/alpha.tif").Info(); !i.HasMask || !i.Bands[3].Alpha || i.Bands[0].Alpha {
		t.Errorf("alpha: %+v", i)
	}
}

func TestGeoreference(t *testing.T) {
	i := open(t, "testdata/point.tif").Info()
	if want := (GeoTransform{10, 0.5, 0, 50, 0, -0.25}); i.Transform != want || !i.PointSampled || !i.CRS.Same(WGS84) || i.CRS.Kind != Geographic {
		t.Errorf("point: %+v", i)
	}
	i = open(t, "testdata/rotated.tif").Info()
	if want := (GeoTransform{500000, 8, 6, 4000000, 6, -8}); i.Transform != want {
		t.Errorf("rotated: %v", i.Transform)
	}
	i = open(t, "testdata/sinusoidal.tif").Info()
	if i.CRS.EPSG != 0 || i.CRS.Kind != Projected || i.CRS.Unit != 1 || i.CRS.IsZero() {
		t.Errorf("sinusoidal: %+v", i.CRS)
	}
}

// A 64-bit nodata value is compared exactly: its neighbour, equal as a float64, is valid.
func TestNoData64(t *testing.T) {
	ds := open(t, "testdata/nodata64.tif")
	w := Window{0, 0, patternW, patternH}
	mask := make([]bool, w.Pixels())
	if err := ds.ReadMask(1, w, mask); err != nil {
		t.Fatal(err)
	}
	for i, valid := range mask {
		if want := patternBase(i%patternW, i/patternW, 1) != 0; valid != want {
			t.Fatalf("pixel %d: valid %v, want %v", i, valid, want)
		}
	}
	g, err := ds.ReadBand(1)
	if err != nil {
		t.Fatal(err)
	}
	if Finite(g.At(0, 0)) {
		t.Error("pixel (0,0) is nodata")
	}
}

func TestParseNoData(t *testing.T) {
	tests := []struct {
		text   string
		kind   DataType
		sample []byte
		bad    bool
	}{
		{"", Uint8, nil, false},
		{"255", Uint8, []byte{255}, false},
		{"-9999", Uint8, nil, false},
		{"0.5", Uint8, nil, false},
		{"nan", Int16, nil, false},
		{"-128", Int8, []byte{128}, false},
		{"18446744073709551615", Uint64, appendSample(nil, uint64(math.MaxUint64)), false},
		{"9223372036854775807", Int64, appendSample(nil, int64(math.MaxInt64)), false},
		{"1e300", Int64, nil, false},
		{"-3.4028234663852886e+38", Float32, appendSample(nil, float32(-math.MaxFloat32)), false},
		{"-9999.9", Float32, appendSample(nil, float32(-9999.9)), false},
		{"none", Float32, nil, true},
	}
	for _, tt := range tests {
		n, err := parseNoData(tt.text, tt.kind)
		if (err != nil) != tt.bad || !slices.Equal(n.sample, tt.sample) {
			t.Errorf("%q of %v: %v, %v; want %v", tt.text, tt.kind, n.sample, err, tt.sample)
		}
	}
}

func TestReadErrors(t *testing.T) {
	ds := open(t, "testdata/matrix/i32_lzw_p2_strip_band_le.tif")
	w := Window{0, 0, 2, 2}
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"band 0", ds.ReadInto(0, w, make([]float32, 4)), ErrRange},
		{"band 4", ds.ReadInto(4, w, make([]float32, 4)), ErrRange},
		{"buffer", ds.ReadInto(1, w, make([]float32, 5)), ErrRange},
		{"outside", ds.ReadInto(1, Window{36, 0, 2, 2}, make([]float32, 4)), ErrRange},
		{"negative", ds.ReadInto(1, Window{-1, 0, 2, 2}, make([]float32, 4)), ErrRange},
		{"overflow", ds.ReadInto(1, Window{math.MaxInt, 0, 2, 2}, make([]float32, 4)), ErrRange},
		{"empty", ds.ReadInto(1, Window{}, nil), ErrRange},
		{"int32 as float32", ReadSamples(ds, 1, w, make([]float32, 4)), ErrRange},
		{"int32 as uint64", ReadSamples(ds, 1, w, make([]uint64, 4)), ErrRange},
		{"int32 as float64", ReadSamples(ds, 1, w, make([]float64, 4)), nil},
		{"int32 as int64", ReadSamples(ds, 1, w, make([]int64, 4)), nil},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	if _, err := ds.Stats(9); !errors.Is(err, ErrRange) {
		t.Errorf("Stats(9): %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		path, part string
		want       error
	}{
		{filepath.Join(dir, "absent.tif"), "absent.tif", os.ErrNotExist},
		{dir, "regular", ErrFormat},
		{write("empty.tif", ""), "expected", ErrFormat},
		{write("text.tif", "hello, world"), "GeoTIFF", ErrFormat},
		{write("short.tif", "II\x2a\x00"), "cut short", ErrFormat},
		{write("none.tif", "II\x2a\x00\x00\x00\x00\x00"), "without an image", ErrFormat},
		{write("big.tif", "II\x2b\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), "4-byte", ErrFormat},
	}
	if !withGDAL {
		tests = append(tests, []struct {
			path, part string
			want       error
		}{
			{write("a.jp2", "\x00\x00\x00\x0cjP  \r\n\x87\n"), "JPEG 2000", ErrFormat},
			{write("a.nc", "\x89HDF\r\n\x1a\n"), "netCDF", ErrFormat},
			{filepath.Join(dir, "a.nc#LST"), "LST", ErrNoGDAL},
		}...)
	}
	for _, tt := range tests {
		_, err := Open(tt.path)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.part) {
			t.Errorf("%s: %v, want %v with %q", tt.path, err, tt.want, tt.part)
		}
	}
}
