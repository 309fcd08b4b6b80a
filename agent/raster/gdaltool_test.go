package raster

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// gdalinfo runs GDAL's gdalinfo, or skips the test where it is not installed.
func gdalinfo(t *testing.T, args ...string) string {
	t.Helper()
	tool, err := exec.LookPath("gdalinfo")
	if err != nil {
		t.Skip("gdalinfo is not installed (Debian and Ubuntu: package gdal-bin)")
	}
	out, err := exec.Command(tool, args...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "ERROR") || strings.Contains(string(out), "Warning") {
		t.Fatalf("gdalinfo %v: %v\n%s", args, err, out)
	}
	return string(out)
}

var checksums = regexp.MustCompile(`Checksum=(\d+)`)

// GDAL reads the same samples from a file of this package as from the raw samples themselves.
func TestGDALChecksum(t *testing.T) {
	// The types for which GDAL has a raw format to compare with; for the others the reader, which is checked against GDAL, vouches.
	envi := map[DataType]int{Uint8: 1, Int16: 2, Int32: 3, Float32: 4, Float64: 5, Uint16: 12, Uint32: 13}
	check := func(kind DataType, width, height, bands int) {
		dir := t.TempDir()
		rng := rand.New(rand.NewPCG(7, uint64(kind)))
		w, err := Create(filepath.Join(dir, "a.tif"), Spec{
			Width: width, Height: height, Type: kind, Bands: make([]BandSpec, bands), CRS: WGS84, Transform: NorthUp(0, 0, 0.1, 0.1),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		var raw []byte
		for b := range bands {
			data := make([]float32, width*height)
			for i := range data {
				data[i] = float32(math.Round(math.Abs(rng.NormFloat64()) * 50))
				if kind.Float() {
					data[i] += 0.25
				}
				raw = appendLittle(raw, kind, data[i])
			}
			if err := w.WriteBand(b+1, data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		header := fmt.Sprintf("ENVI\nsamples = %d\nlines = %d\nbands = %d\ndata type = %d\ninterleave = bsq\nbyte order = 0\n", width, height, bands, envi[kind])
		for name, content := range map[string][]byte{"raw.bin": raw, "raw.hdr": []byte(header)} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := checksums.FindAllString(gdalinfo(t, "-checksum", filepath.Join(dir, "a.tif")), -1)
		want := checksums.FindAllString(gdalinfo(t, "-checksum", filepath.Join(dir, "raw.bin")), -1)
		if len(got) != bands || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%v %d×%d: %v, want %v", kind, width, height, got, want)
		}
	}
	for kind := range envi {
		check(kind, 301, 270, 2)
	}
	check(Uint8, 40, 30, 3)
	check(Float32, 5, 3, 1)
}

// appendLittle appends v as a little-endian sample.
func appendLittle(b []byte, kind DataType, v float32) []byte {
	le := binary.LittleEndian
	switch kind {
	case Float32:
		return le.AppendUint32(b, math.Float32bits(v))
	case Float64:
		return le.AppendUint64(b, math.Float64bits(float64(v)))
	}
	return append(b, le.AppendUint64(nil, uint64(v))[:kind.Size()]...)
}

// GDAL finds coordinate system, transform, nodata, scale, offset, names and metadata where it expects them.
func TestGDALMetadata(t *testing.T) {
	tests := []struct {
		crs  CRS
		want []string
	}{
		{WGS84, []string{`ID["EPSG",4326]`}},
		{CRS{EPSG: 32733, Kind: Projected, Unit: 1}, []string{`ID["EPSG",32733]`, `LENGTHUNIT["metre",1]`}},
		{CRS{EPSG: 2225, Kind: Projected, Unit: 1200.0 / 3937}, []string{`ID["EPSG",2225]`, `US survey foot`}},
	}
	for _, tt := range tests {
		g, err := NewGrid(20, 10, tt.crs, NorthUp(100, 50, 0.5, 0.25))
		if err != nil {
			t.Fatal(err)
		}
		g.Data[3] = NaN()
		path := filepath.Join(t.TempDir(), "a.tif")
		err = Save(path, Spec{NoData: new(-9999.0), Metadata: map[string]string{"DATE": "a & <b>"},
			Bands: []BandSpec{{Description: "LST & co", Scale: 0.02, Offset: -273.15, Unit: "K", Metadata: map[string]string{"wavelength": "10.8"}}}}, g)
		if err != nil {
			t.Fatal(err)
		}
		out := gdalinfo(t, "-stats", path)
		for _, part := range append(tt.want, "Size is 20, 10", "Origin = (100.0", "Pixel Size = (0.5", "-0.25", "DATE=a & <b>", "Description = LST & co",
			"NoData Value=-9999", "Unit Type: K", "Offset: -273.15,   Scale:0.02", "wavelength=10.8", "STATISTICS_VALID_PERCENT=99.5", "COMPRESSION=DEFLATE") {
			if !strings.Contains(out, part) {
				t.Errorf("%v: no %q in\n%s", tt.crs, part, out)
			}
		}
	}
	// A system without a code and a rotated transform come through a copy.
	for name, parts := range map[string][]string{"sinusoidal.tif": {`METHOD["Sinusoidal"]`, "6371007"}, "rotated.tif": {`ID["EPSG",32633]`, "GeoTransform ="}} {
		g, err := open(t, "testdata/"+name).ReadBand(1)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := Save(path, Spec{Type: Uint8}, g); err != nil {
			t.Fatal(err)
		}
		out := gdalinfo(t, path)
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s: no %q in\n%s", name, part, out)
			}
		}
	}
}
