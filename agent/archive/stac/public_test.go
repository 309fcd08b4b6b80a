package stac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/archive"
	"terraloom/agent/raster"
)

// Every band of a public product is an asset of its collection, by the keys that
// the APIs publish; what they lack is named here.
func TestPublicAssets(t *testing.T) {
	text, err := os.ReadFile("testdata/assets.json")
	if err != nil {
		t.Fatal(err)
	}
	var apis map[string]map[string][]string
	if err := json.Unmarshal(text, &apis); err != nil {
		t.Fatal(err)
	}
	lacks := map[string]string{"COPERNICUS/S2_SR_HARMONIZED": "QA60"} // a band that Earth Engine adds
	for id, col := range PublicCollections() {
		p, ok := archive.FindProduct(archive.Products(), id)
		if !ok {
			t.Fatalf("no product %s", id)
		}
		offered := 0
		for api, collections := range apis {
			keys := collections[col.ID]
			if keys == nil {
				continue
			}
			offered++
			item := Item{Assets: map[string]Asset{}}
			for _, k := range keys {
				item.Assets[k] = Asset{Href: "https://stac.example/" + k}
			}
			for _, b := range p.Bands {
				key, _, ok := item.Asset(col.names(&b)...)
				if ok == (lacks[id] == b.Name) {
					t.Errorf("%s: %s of %s is asset %q", api, b.Name, id, key)
				}
			}
		}
		if offered == 0 {
			t.Errorf("%s: no API has the collection %s", id, col.ID)
		}
	}
}

// public is the archive of the public collections on the test's server.
func (s *server) public(t *testing.T) *Archive {
	t.Helper()
	cache, err := archive.OpenCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.config()
	cfg.Collections = PublicCollections()
	a, err := New(cfg, cache)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// put serves a raster of constant bands, in the grid's coordinate system.
func (s *server) put(t *testing.T, name string, like *raster.Grid, kind raster.DataType, values ...float32) {
	t.Helper()
	var bands []*raster.Grid
	for _, v := range values {
		g, err := raster.NewGrid(like.Width, like.Height, like.CRS, like.Transform)
		if err != nil {
			t.Fatal(err)
		}
		for i := range g.Data {
			g.Data[i] = v
		}
		bands = append(bands, g)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := raster.Save(path, raster.Spec{Type: kind}, bands...); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.files[name], err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
}

func fetchOne(t *testing.T, a *Archive, s archive.Spec) (archive.File, *raster.Grid) {
	t.Helper()
	files, err := archive.Fetch(context.Background(), a, s, t.TempDir())
	if err != nil || len(files) != 1 {
		t.Fatalf("%s %v: %d files, %v", s.Product, s.Bands, len(files), err)
	}
	return files[0], read(t, files[0].Path)
}

// Terra and Aqua share a collection, whose files are in the sinusoidal grid under
// no name of it. An emissivity keeps the offset that the catalogue leaves out.
func TestModis(t *testing.T) {
	ds, err := raster.Open("../../raster/testdata/sinusoidal.tif")
	if err != nil {
		t.Fatal(err)
	}
	crs := ds.Info().CRS
	ds.Close()
	const pixel = 926.625433
	project, err := archive.Projection(crs)
	if err != nil {
		t.Fatal(err)
	}
	x, y := project(8.8, 50.7)
	grid, err := raster.NewGrid(120, 60, crs, raster.NorthUp(math.Floor(x/pixel)*pixel, math.Ceil(y/pixel)*pixel, pixel, pixel))
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	s.put(t, "terra.tif", grid, raster.Uint16, 15000)
	s.put(t, "aqua.tif", grid, raster.Uint16, 15500)
	s.put(t, "emis.tif", grid, raster.Uint8, 245)
	a := s.public(t)
	want := archive.Spec{Bands: []string{"LST_Day_1km"}, Box: archive.Box{West: 9, South: 50.4, East: 9.4, North: 50.6}, Start: on("2021-07-04"), End: on("2021-07-04"), Name: "x"}
	for product, stored := range map[string]float32{"MOD11A1": 15000, "MYD11A1": 15500} {
		want.Product = product
		f, g := fetchOne(t, a, want)
		if g.Data[0] != stored || f.Scale != 0.02 || f.Offset != 0 || g.Width < 25 || g.Height < 20 {
			t.Errorf("%s: %g·%g+%g, %d × %d", product, g.Data[0], f.Scale, f.Offset, g.Width, g.Height)
		}
	}
	want.Product, want.Bands = "MOD11A1", []string{"Emis_31"}
	if f, g := fetchOne(t, a, want); math.Abs(float64(g.Data[0])*f.Scale+f.Offset-0.98) > 1e-9 {
		t.Errorf("emissivity %g·%g+%g, want 0.98", g.Data[0], f.Scale, f.Offset)
	}
}

// Reflectances of every processing baseline, and of both APIs, come out in the
// numbers of the harmonized record.
func TestSentinel2Offset(t *testing.T) {
	s := newServer(t)
	s.scene("s2_old.tif", 499980, 5600010, 2000)
	s.scene("s2_new.tif", 499980, 5600010, 950) // dark: reflectances about 0
	s.scene("scl.tif", 499980, 5600010, 4)
	a := s.public(t)
	for year, stored := range map[int][2]float32{ // in columns 2 and 60
		2021: {2002, 2060}, // baseline 2, no offset
		2022: {1, 10},      // baseline 4, which states none but has it
		2023: {2002, 2060}, // one is stated that the file no longer has
		2024: {1, 10},      // one is stated and the file has it
	} {
		want := spec("B5")
		want.Product, want.Start, want.End = "Sentinel-2", on(fmt.Sprintf("%d-07-01", year)), on(fmt.Sprintf("%d-07-31", year))
		f, g := fetchOne(t, a, want)
		left := int(math.Round((g.Transform[0] - 499980) / 30))
		if got := [2]float32{g.At(2-left, 0), g.At(60-left, 0)}; got != stored || f.Scale != 0.0001 || f.Offset != 0 {
			t.Errorf("%d: %g ·%g+%g; want %g", year, got, f.Scale, f.Offset, stored)
		}
		want.Bands = []string{"SCL"}
		if _, g := fetchOne(t, a, want); g.Data[0] < 4 || g.Data[0] > 103 {
			t.Errorf("%d: scene class %g is shifted", year, g.Data[0])
		}
	}
}

// A band may be one of several in an asset.
func TestAsterBands(t *testing.T) {
	utm, err := raster.EPSG(32632)
	if err != nil {
		t.Fatal(err)
	}
	grid, err := raster.NewGrid(60, 60, utm, raster.NorthUp(499950, 5600010, 90, 90))
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	s.put(t, "tir.tif", grid, raster.Uint16, 1010, 1011, 1012, 1013, 1014)
	want := spec("B12")
	want.Product, want.Start, want.End = "ASTER", on("2004-07-01"), on("2004-07-31")
	if f, g := fetchOne(t, s.public(t), want); g.Data[0] != 1012 || f.Scale != 0.00659 {
		t.Errorf("%g·%g", g.Data[0], f.Scale)
	}
}

// What an API cannot give is said with what to do, not as a period without data.
func TestNotOnTheAPI(t *testing.T) {
	s := newServer(t)
	a := s.public(t)
	want := spec("sur_refl_b01")
	want.Product = "MOD09Q1"
	if _, err := archive.Fetch(context.Background(), a, want, t.TempDir()); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), `no collection "modis-09Q1-061"; map the product`) {
		t.Errorf("a collection that the API lacks: %v", err)
	}
	c, err := NewClient(s.config())
	if err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(t.TempDir(), "part")
	if err := c.Download(context.Background(), Asset{Href: "s3://usgs-landsat/red.tif?key=private"}, part); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "s3://usgs-landsat, not") {
		t.Errorf("a bucket: %v", err)
	}
	for _, status := range []int{401, 403, 409} {
		s.faults["/files/one_red.tif"] = &fault{status: status, times: 1}
		if err := c.Download(context.Background(), Asset{Href: s.URL + "/files/one_red.tif"}, part); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "sign_env") {
			t.Errorf("status %d: %v", status, err)
		}
	}
	if products := a.Products(); slices.ContainsFunc(products, func(p *archive.Product) bool { return strings.Contains(p.ID, "VIIRS") }) {
		t.Error("night lights are offered")
	}
}
