package archive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"terraloom/agent/raster"
)

// counted is an archive of flat rasters: the day of the month, and no data on
// every fifth day.
type counted struct {
	cache *Cache
	reads atomic.Int64
	lacks string // band that is missing on even days
	fail  error
	odd   bool // of another size on the second day
}

func (c *counted) Products() []*Product { return Products() }

func (c *counted) Find(ctx context.Context, s Spec) ([]Pending, error) {
	r, err := Resolve(Products(), s)
	if err != nil {
		return nil, err
	}
	return Plan(ctx, c, c.cache, r)
}

func (c *counted) Key() string { return "counted" }

func (c *counted) Acquisitions(_ context.Context, r *Request, from, to time.Time) ([]time.Time, error) {
	return r.Product.Dates(0, from, to), nil
}

func (c *counted) Stamp(_ *Request, at time.Time, b *Band) (time.Time, bool, bool) {
	return at, false, b.Name != c.lacks || at.Day()%2 == 1
}

func (c *counted) Reader(r *Request) (Reader, error) { return countedReader{c, r}, nil }

type countedReader struct {
	*counted
	req *Request
}

func (c countedReader) Read(_ context.Context, at time.Time, bands []*Band) ([]Layer, error) {
	c.reads.Add(1)
	if c.fail != nil {
		return nil, c.fail
	}
	layers := make([]Layer, len(bands))
	for i, b := range bands {
		if _, _, ok := c.Stamp(c.req, at, b); !ok {
			continue
		}
		w := c.req.Grid.Width
		if c.odd && at.Day() == 2 {
			w++
		}
		g, err := raster.NewGrid(w, c.req.Grid.Height, raster.WGS84, c.req.Grid.Transform())
		if err != nil {
			return nil, err
		}
		for k := range g.Data {
			g.Data[k] = float32(7500 + at.Day())
			if at.Day()%5 == 0 {
				g.Data[k] = raster.NaN()
			}
		}
		layers[i] = Layer{Grid: g, Band: *b}
	}
	return layers, nil
}

func smallSpec() Spec {
	s := good()
	s.Box = Box{10, 10, 10.05, 10.03}
	s.Bands = []string{"LST_Day_1km", "LST_Night_1km"}
	s.End = on("2020-01-10")
	return s
}

func TestFetchWritesWhatItSays(t *testing.T) {
	a := &counted{}
	dir := t.TempDir()
	files, err := Fetch(context.Background(), a, smallSpec(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 20 || a.reads.Load() != 10 {
		t.Errorf("%d files by %d reads", len(files), a.reads.Load())
	}
	for i, f := range files {
		day := 1 + i%10
		band := []string{"LST_Day_1km", "LST_Night_1km"}[i/10]
		want := fmt.Sprintf("Leon_%s_2020-01-%02d.tif", band, day)
		if filepath.Base(f.Path) != want || f.Band != band || f.Date != on(fmt.Sprintf("2020-01-%02d", day)) || f.Days != 1 || f.Scale != 0.02 || f.Unit != "K" {
			t.Errorf("file %d is %+v, want %s", i, f, want)
		}
		ds, err := raster.Open(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		info := ds.Info()
		g, err := ds.ReadBand(1)
		if err != nil {
			t.Fatal(err)
		}
		ds.Close()
		b := info.Bands[0]
		if info.Type != f.Type || info.Width != f.Width || info.Height != f.Height || info.Transform != f.Transform || !info.CRS.Same(f.CRS) ||
			b.Scale != f.Scale || b.Unit != f.Unit || b.NoData == nil || *b.NoData != *f.Fill || b.Description != f.Band ||
			info.Metadata["PRODUCT"] != f.Product || info.Metadata["DATE"] != f.Date.Format(time.DateOnly) || b.Metadata["MEASURES"] != string(SurfaceTemperature) {
			t.Errorf("%s holds %+v with %+v, described is %+v", f.Path, info, b, f)
		}
		wantValid := f.Width * f.Height
		if day%5 == 0 {
			wantValid = 0
		}
		if f.Valid != wantValid || g.Data[0] == g.Data[0] != (wantValid > 0) {
			t.Errorf("%s: %d valid pixels, want %d", f.Path, f.Valid, wantValid)
		}
		if sum, err := FileSHA256(f.Path); err != nil || sum != f.SHA256 {
			t.Errorf("%s has the hash %s, described is %s, %v", f.Path, sum, f.SHA256, err)
		}
	}
}

// The mean over a month leaves the invalid days out.
func TestFetchComposite(t *testing.T) {
	s := smallSpec()
	s.Interval, s.End = "month", on("2020-02-10")
	files, err := Fetch(context.Background(), &counted{}, s, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 4 || files[0].Days != 31 || files[1].Days != 29 {
		t.Fatalf("%+v", files)
	}
	sum, n := 0.0, 0.0
	for d := 1; d <= 31; d++ {
		if d%5 != 0 {
			sum, n = sum+float64(7500+d), n+1
		}
	}
	ds, err := raster.Open(files[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	g, err := ds.ReadBand(1)
	if err != nil {
		t.Fatal(err)
	}
	if want := math.Round(sum / n); float64(g.Data[0]) != want {
		t.Errorf("the mean is %g, want %g", g.Data[0], want)
	}
}

func TestFetchWithMissingBands(t *testing.T) {
	a := &counted{lacks: "LST_Night_1km"}
	files, err := Fetch(context.Background(), a, smallSpec(), t.TempDir())
	if err != nil || len(files) != 15 {
		t.Errorf("%d files, %v, want 10 of one band and 5 of the other", len(files), err)
	}
	s := smallSpec()
	s.Bands, s.Start, s.End = []string{"LST_Night_1km"}, on("2020-01-02"), on("2020-01-02")
	if _, err := Fetch(context.Background(), a, s, t.TempDir()); !errors.Is(err, ErrNoData) {
		t.Errorf("a band that is missing gives %v", err)
	}
	s.Interval, s.Start, s.End = "month", on("2020-01-01"), on("2020-01-01")
	if files, err := Fetch(context.Background(), a, s, t.TempDir()); err != nil || len(files) != 1 {
		t.Errorf("a composite of the days that have it gives %v, %v", files, err)
	}
}

func TestFetchErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Fetch(context.Background(), &counted{fail: broken}, smallSpec(), t.TempDir()); !errors.Is(err, broken) {
		t.Errorf("a failing source gives %v", err)
	}
	s := smallSpec()
	s.Interval = "month"
	if _, err := Fetch(context.Background(), &counted{odd: true}, s, t.TempDir()); !errors.Is(err, raster.ErrMismatch) {
		t.Errorf("rasters of two sizes in one month give %v", err)
	}
	s = smallSpec()
	s.Bands, s.Start, s.End = nil, on("2001-01-01"), on("2020-12-31")
	if _, err := Fetch(context.Background(), &counted{}, s, t.TempDir()); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "time_range") {
		t.Errorf("58,000 rasters give %v", err)
	}
	s = smallSpec()
	s.Interval, s.Start, s.End = "year", on("2020-01-10"), on("2020-01-20")
	if _, err := Fetch(context.Background(), &counted{}, s, t.TempDir()); !errors.Is(err, ErrNoData) || !strings.Contains(err.Error(), "the next begins on 2021-01-01") {
		t.Errorf("a period without a year's beginning gives %v", err)
	}
}

// What a cache has is not made again, and is the same; a damaged entry is.
func TestFetchWithCache(t *testing.T) {
	c, root := newCache(t)
	a := &counted{cache: c}
	first, err := Fetch(context.Background(), a, smallSpec(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	made := a.reads.Load()
	dir := t.TempDir()
	second, err := Fetch(context.Background(), a, smallSpec(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if a.reads.Load() != made {
		t.Errorf("%d reads for cached rasters", a.reads.Load()-made)
	}
	for i, f := range second {
		want := first[i]
		if !f.Cached || want.Cached {
			t.Errorf("file %d: cached %v and %v", i, want.Cached, f.Cached)
		}
		want.Path, want.Cached = f.Path, true
		if *f.Fill != *want.Fill || !f.CRS.Same(want.CRS) {
			t.Errorf("file %d: %+v from the cache, made was %+v", i, f, want)
		}
		f.Fill, want.Fill, f.CRS, want.CRS = nil, nil, raster.CRS{}, raster.CRS{}
		if f != want {
			t.Errorf("file %d: %+v from the cache, made was %+v", i, f, want)
		}
	}
	objects, err := filepath.Glob(filepath.Join(root, "objects", "*", "*"))
	if err != nil || len(objects) == 0 {
		t.Fatalf("%v, %v", objects, err)
	}
	if err := os.WriteFile(objects[0], []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	third, err := Fetch(context.Background(), a, smallSpec(), dir)
	if err != nil || a.reads.Load() == made {
		t.Errorf("a damaged entry is used: %v", err)
	}
	if !slices.EqualFunc(first, third, func(f, g File) bool { return f.SHA256 == g.SHA256 }) {
		t.Error("what is made again differs")
	}
}

// Find makes nothing; Write makes one raster under a name of the caller's.
func TestFindAndWrite(t *testing.T) {
	a := &counted{}
	pending, err := a.Find(context.Background(), smallSpec())
	if err != nil || len(pending) != 20 || a.reads.Load() != 0 {
		t.Fatalf("%d pending by %d reads, %v", len(pending), a.reads.Load(), err)
	}
	path := filepath.Join(t.TempDir(), "other.tif")
	f, err := pending[13].Write(context.Background(), path)
	if err != nil || f.Path != path || f.Band != "LST_Night_1km" || f.Date != on("2020-01-04") || a.reads.Load() != 1 {
		t.Errorf("%+v by %d reads, %v", f, a.reads.Load(), err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
