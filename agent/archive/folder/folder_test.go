package folder

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/raster"
)

// save writes a raster of 20 × 10 pixels of a tenth of a degree from 10° E 50° N
// whose values are the pixel numbers plus a base.
func save(t *testing.T, path string, base float32) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	g, err := raster.NewGrid(20, 10, raster.WGS84, raster.NorthUp(10, 50, 0.1, 0.1))
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Data {
		g.Data[i] = base + float32(i)
	}
	g.Data[0] = raster.NaN()
	fill := 0.0
	spec := raster.Spec{Type: raster.Uint16, NoData: &fill, Bands: []raster.BandSpec{{Unit: "K", Scale: 0.02}}}
	if err := raster.Save(path, spec, g); err != nil {
		t.Fatal(err)
	}
}

func on(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

func open(t *testing.T) *Archive {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mine")
	for _, f := range []struct {
		name string
		base float32
	}{
		{"thermal/Dune_2020-01-01_LST.tif", 1000}, {"thermal/Dune_2020-01-17_LST.tif", 2000}, {"thermal/Dune_2020-02-02_LST.tif", 3000},
		{"thermal/Dune_2020-01-17_NDVI.tif", 4000}, {"Dune_2020_01_01_0550_BT_31_Day.tif", 5000}, {"Dune_2020_01_01_1740_BT_31_Night.tif", 6000},
	} {
		save(t, filepath.Join(dir, filepath.FromSlash(f.name)), f.base)
	}
	if err := os.WriteFile(filepath.Join(dir, "readme.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestProducts(t *testing.T) {
	ps := open(t).Products()
	if len(ps) != 2 || ps[0].ID != "mine" || ps[1].ID != "thermal" {
		t.Fatalf("%+v", ps)
	}
	p := ps[1]
	if p.Start != on("2020-01-01") || p.End != on("2020-02-02") || len(p.Bands) != 2 || math.Abs(p.Resolution-11132) > 1 || p.Swath || !ps[0].Swath {
		t.Errorf("%+v", p)
	}
	b, ok := p.Band("LST")
	if !ok || b.Scale != 0.02 || b.Unit != "K" || b.Type != raster.Uint16 || b.Fill == nil || *b.Fill != 0 {
		t.Errorf("%+v", b)
	}
}

func TestFetch(t *testing.T) {
	a := open(t)
	s := archive.Spec{Product: "thermal", Bands: []string{"LST", "NDVI"}, Box: archive.Box{West: 10.5, South: 49.3, East: 11.2, North: 49.8},
		Start: on("2020-01-01"), End: on("2020-01-31"), Name: "out"}
	files, err := archive.Fetch(context.Background(), a, s, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 || filepath.Base(files[2].Path) != "out_NDVI_2020-01-17.tif" {
		t.Fatalf("%+v", files)
	}
	f := files[1]
	if f.Width != 7 || f.Height != 5 || f.Scale != 0.02 || f.Unit != "K" || f.Valid != 35 || f.Date != on("2020-01-17") {
		t.Errorf("%+v", f)
	}
	ds, err := raster.Open(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	g, err := ds.ReadBand(1)
	if err != nil {
		t.Fatal(err)
	}
	if g.Data[0] != 2000+2*20+5 { // row 2, column 5
		t.Errorf("the first pixel is %g", g.Data[0])
	}

	s.Interval, s.Bands = "month", []string{"LST"}
	if files, err = archive.Fetch(context.Background(), a, s, t.TempDir()); err != nil || len(files) != 1 {
		t.Fatalf("%+v, %v", files, err)
	}
	if g, err := read1(files[0].Path); err != nil || g.Data[0] != 1500+2*20+5 {
		t.Errorf("the month has %g, %v", g.Data[0], err)
	}

	s.Interval, s.ScaleM = "", 2*11131.949
	if files, err = archive.Fetch(context.Background(), a, s, t.TempDir()); err != nil || files[0].Width > 5 || files[0].Width < 4 {
		t.Errorf("coarser pixels give %+v, %v", files, err)
	}
}

func read1(path string) (*raster.Grid, error) {
	ds, err := raster.Open(path)
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	return ds.ReadBand(1)
}

// Overpasses of one day keep their times apart.
func TestClockTimes(t *testing.T) {
	a := open(t)
	s := archive.Spec{Product: "mine", Box: archive.Box{West: 10, South: 49, East: 12, North: 50}, Start: on("2020-01-01"), End: on("2020-01-01"), Name: "out"}
	files, err := archive.Fetch(context.Background(), a, s, t.TempDir())
	if err != nil || len(files) != 2 {
		t.Fatalf("%+v, %v", files, err)
	}
	if filepath.Base(files[0].Path) != "out_BT_31_Day_2020-01-01_0550.tif" || filepath.Base(files[1].Path) != "out_BT_31_Night_2020-01-01_1740.tif" {
		t.Errorf("%+v", files)
	}
}

func TestErrors(t *testing.T) {
	a := open(t)
	good := archive.Spec{Product: "thermal", Bands: []string{"LST"}, Box: archive.Box{West: 10, South: 49, East: 11, North: 50}, Start: on("2020-01-01"), End: on("2020-02-02"), Name: "out"}
	for name, tt := range map[string]struct {
		change func(*archive.Spec)
		want   error
	}{
		"elsewhere":      {func(s *archive.Spec) { s.Box = archive.Box{West: 100, South: 0, East: 101, North: 1} }, archive.ErrNoData},
		"between":        {func(s *archive.Spec) { s.Start, s.End = on("2020-01-02"), on("2020-01-05") }, archive.ErrNoData},
		"band":           {func(s *archive.Spec) { s.Bands = []string{"EVI"} }, archive.ErrUnknownBand},
		"product":        {func(s *archive.Spec) { s.Product = "optical" }, archive.ErrUnknownProduct},
		"out of records": {func(s *archive.Spec) { s.End = on("2024-01-01") }, archive.ErrSpec},
	} {
		s := good
		tt.change(&s)
		if _, err := archive.Fetch(context.Background(), a, s, t.TempDir()); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if _, err := Open(t.TempDir(), nil); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty folder gives %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Dune_2020-01-01_LST.tif"), []byte("no raster"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); !errors.Is(err, raster.ErrFormat) {
		t.Errorf("a file that is no raster gives %v", err)
	}
}

// A file that changes is not taken from the cache.
func TestCacheSeesChanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	path := filepath.Join(dir, "Dune_2020-01-01_LST.tif")
	cache, err := archive.OpenCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := archive.Spec{Product: "mine", Box: archive.Box{West: 10, South: 49, East: 12, North: 50}, Start: on("2020-01-01"), End: on("2020-01-01"), Name: "out"}
	var sums []string
	for i, base := range []float32{1000, 1000, 2000} {
		if i != 1 {
			save(t, path, base)
		}
		a, err := Open(dir, cache)
		if err != nil {
			t.Fatal(err)
		}
		files, err := archive.Fetch(context.Background(), a, s, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if files[0].Cached != (i == 1) {
			t.Errorf("fetch %d: cached is %v", i, files[0].Cached)
		}
		sums = append(sums, files[0].SHA256)
	}
	if sums[0] != sums[1] || sums[0] == sums[2] {
		t.Errorf("%v", sums)
	}
}
