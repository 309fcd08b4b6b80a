//go:build gdal

package raster

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airbusgeo/godal"
)

// convert copies a raster of testdata to another format with GDAL, or skips where its driver cannot write.
func convert(t *testing.T, src, driver, name string, args ...string) string {
	t.Helper()
	if err := registerGDAL(); err != nil {
		t.Fatal(err)
	}
	in, err := godal.Open(src, godal.ErrLogger(gdalFailures))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(t.TempDir(), name)
	out, err := in.Translate(path, append([]string{"-of", driver}, args...), godal.ErrLogger(gdalFailures))
	if err != nil {
		t.Skipf("GDAL cannot write %s: %v", driver, err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGDALFormats(t *testing.T) {
	for _, tt := range []struct{ src, driver, name, format string }{
		{"testdata/matrix/u16_lzw_p2_strip_band_le.tif", "JP2OpenJPEG", "a.jp2", "JP2OpenJPEG"},
		{"testdata/meta.tif", "netCDF", "a.nc", "netCDF"},
	} {
		t.Run(tt.driver, func(t *testing.T) {
			args := []string{"-co", "QUALITY=100", "-co", "REVERSIBLE=YES"}
			if tt.driver == "netCDF" {
				args = []string{"-co", "FORMAT=NC4", "-b", "1"}
			}
			path := convert(t, tt.src, tt.driver, tt.name, args...)
			want, err := open(t, tt.src).ReadBand(1)
			if err != nil {
				t.Fatal(err)
			}
			paths := []string{path}
			if tt.driver == "netCDF" {
				paths = append(paths, path+"#Band1")
			}
			for _, path := range paths {
				ds := open(t, path)
				got, err := ds.ReadBand(1)
				if err != nil {
					t.Fatal(err)
				}
				if i := ds.Info(); i.Format != tt.format || i.Width != want.Width || i.Height != want.Height {
					t.Errorf("info %+v", i)
				}
				for i, v := range got.Data {
					if w := want.Data[i]; v != w && (Finite(v) || Finite(w)) {
						t.Fatalf("pixel %d: %v, want %v", i, v, w)
					}
				}
				if tt.driver == "netCDF" && (got.CRS.EPSG != 32633 || got.CRS.Unit != 1 || got.Transform != want.Transform) {
					t.Errorf("%+v %v", got.CRS, got.Transform)
				}
			}
		})
	}
	path := convert(t, "testdata/meta.tif", "netCDF", "two.nc")
	if _, err := Open(path + "#Band2"); err != nil {
		t.Errorf("second variable: %v", err)
	}
	if _, err := Open(path + "#absent"); !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), "Band2") {
		t.Errorf("absent variable: %v", err)
	}
	if ds, err := Open(path); err == nil {
		t.Errorf("a file of two variables opened without naming one: %+v", ds.Info())
	} else if !strings.Contains(err.Error(), "Band1, Band2") {
		t.Errorf("%v", err)
	}
}

// A VRT may point anywhere, so it is not read.
func TestGDALReadsNoReferences(t *testing.T) {
	path := convert(t, "testdata/meta.tif", "VRT", "a.vrt")
	if _, err := Open(path); !errors.Is(err, ErrFormat) {
		t.Errorf("VRT: %v", err)
	}
}

func TestWarp(t *testing.T) {
	utm, err := EPSG(32633)
	if err != nil {
		t.Fatal(err)
	}
	src, err := NewGrid(200, 200, utm, NorthUp(497000, 4503000, 30, 30))
	if err != nil {
		t.Fatal(err)
	}
	for i := range src.Data {
		src.Data[i] = float32(i%200 + 2*(i/200))
	}
	src.Set(100, 100, NaN())
	path := filepath.Join(t.TempDir(), "src.tif")
	if err := Save(path, Spec{NoData: new(-1.0)}, src); err != nil {
		t.Fatal(err)
	}
	// Around (15° E, 40.65° N), on the central meridian of zone 33.
	like := Info{Width: 40, Height: 30, CRS: WGS84, Transform: NorthUp(14.99, 40.67, 0.0002, 0.0002)} // finer than src, as GDAL smooths otherwise
	dst := filepath.Join(t.TempDir(), "dst.tif")
	if err := Warp(dst, path, like, Bilinear); err != nil {
		t.Fatal(err)
	}
	ds := open(t, dst)
	i := ds.Info()
	if i.Width != 40 || i.Height != 30 || !i.CRS.Same(WGS84) || *i.Bands[0].NoData != -1 {
		t.Fatalf("info %+v", i)
	}
	g, err := ds.ReadBand(1)
	if err != nil {
		t.Fatal(err)
	}
	for y := range 30 {
		for x := range 40 {
			lon, lat := i.Transform.Apply(float64(x)+0.5, float64(y)+0.5)
			east, north := utm33(lon, lat)
			want := (east-497000)/30 - 0.5 + 2*((4503000-north)/30-0.5)
			if v := g.At(x, y); Finite(v) && math.Abs(float64(v)-want) > 0.01 {
				t.Fatalf("(%d,%d): %v, want %v", x, y, v, want)
			}
		}
	}
	if s := Summarize(g.Data); s.Valid < 1000 {
		t.Errorf("only %d valid pixels", s.Valid)
	}
	far := like
	far.Transform = NorthUp(14.5, 40.67, 0.0005, 0.0005)
	if err := Save(path, Spec{Type: Uint16}, &Grid{Width: 2, Height: 2, Data: []float32{1, 2, 3, 4}, CRS: utm, Transform: NorthUp(497000, 4503000, 30, 30)}); err != nil {
		t.Fatal(err)
	}
	if err := Warp(dst, path, far, Nearest); err != nil {
		t.Fatal(err)
	}
	if s, err := open(t, dst).Stats(1); err != nil || s[0].Valid != 0 {
		t.Errorf("pixels outside an integer raster without nodata: %+v, %v", s, err)
	}
	if err := Warp(dst, path, Info{Width: 1, Height: 1}, Nearest); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no CRS: %v", err)
	}
	if err := Warp(dst, path+"x", like, Nearest); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// utm33 projects to UTM zone 33 north (Snyder, Map Projections, 1987, eq. 3-21, 8-9 and 8-10, to the fourth order).
func utm33(lon, lat float64) (east, north float64) {
	const k0, e2 = 0.9996, earthE2
	phi := lat * math.Pi / 180
	sin, cos, tan := math.Sin(phi), math.Cos(phi), math.Tan(phi)
	n := earthRadius / math.Sqrt(1-e2*sin*sin)
	c := e2 / (1 - e2) * cos * cos
	a := (lon - 15) * math.Pi / 180 * cos
	m := earthRadius * ((1-e2/4-3*e2*e2/64-5*e2*e2*e2/256)*phi - (3*e2/8+3*e2*e2/32+45*e2*e2*e2/1024)*math.Sin(2*phi) +
		(15*e2*e2/256+45*e2*e2*e2/1024)*math.Sin(4*phi) - 35*e2*e2*e2/3072*math.Sin(6*phi))
	east = 500000 + k0*n*(a+(1-tan*tan+c)*a*a*a/6)
	north = k0 * (m + n*tan*(a*a/2+(5-tan*tan+9*c+4*c*c)*a*a*a*a/24))
	return east, north
}
