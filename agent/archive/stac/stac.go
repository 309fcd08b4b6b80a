// Package stac is an archive behind a STAC API (SpatioTemporal Asset Catalog API
// 1.0, Item Search): it searches the collections of a config for scenes, downloads
// the assets of the wanted bands once, and cuts the box out of them.
//
// Rasters keep the coordinate system of the scene: there is no reprojection.
// Scenes of one day that lie on one grid are joined; of scenes in different systems
// the one that covers most of the box is taken. Scale, offset, nodata and unit are
// those of the item (raster extension, or the bands of STAC 1.1), else of the file,
// else of the product table.
//
// Secrets come from environment variables and are neither stored nor printed.
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
	"strconv"
	"strings"
	"sync"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/raster"
)

// Archive is the archive of one API. It is safe for concurrent use.
type Archive struct {
	client   *Client
	cache    *archive.Cache
	products []*archive.Product
	found    map[string]Collection // by product ID
}

var _ archive.Archive = (*Archive)(nil)

// New returns an archive. Assets are kept in the cache, which must be given.
func New(cfg Config, cache *archive.Cache) (*Archive, error) {
	client, err := NewClient(cfg)
	if err != nil {
		return nil, err
	}
	if cache == nil {
		return nil, fmt.Errorf("%w: a STAC archive needs a cache for its assets", ErrConfig)
	}
	a := &Archive{client: client, cache: cache, found: map[string]Collection{}}
	for name, col := range cfg.Collections {
		p, ok := archive.FindProduct(archive.Products(), name)
		if !ok {
			return nil, fmt.Errorf("%w: collections: %q is no product of the table", ErrConfig, name)
		}
		if _, twice := a.found[p.ID]; twice {
			return nil, fmt.Errorf("%w: collections: %s is mapped twice", ErrConfig, p.ID)
		}
		for band := range col.Assets {
			if b, ok := p.Band(band); !ok || b.Name != band {
				return nil, fmt.Errorf("%w: collections: %s: assets: %q is no band; it has %s", ErrConfig, name, band, strings.Join(p.BandNames(), ", "))
			}
		}
		a.products, a.found[p.ID] = append(a.products, p), col
	}
	slices.SortFunc(a.products, func(p, q *archive.Product) int { return strings.Compare(p.ID, q.ID) })
	return a, nil
}

// Products lists the products that the config maps to a collection.
func (a *Archive) Products() []*archive.Product { return slices.Clone(a.products) }

// Find implements archive.Archive: it searches, but downloads nothing.
func (a *Archive) Find(ctx context.Context, spec archive.Spec) ([]archive.Pending, error) {
	r, err := archive.Resolve(a.products, spec)
	if err != nil {
		return nil, err
	}
	// What is made of the assets is not cached beside them: which scenes there are
	// may change.
	return archive.Plan(ctx, &source{Archive: a, req: r, col: a.found[r.Product.ID]}, nil, r)
}

// source implements archive.Source and archive.Reader for one request.
type source struct {
	*Archive
	req *archive.Request
	col Collection

	mu   sync.Mutex
	days map[time.Time][]Item
}

func (s *source) Key() string { return "" } // nothing of it is cached

// Acquisitions searches the collection.
func (s *source) Acquisitions(ctx context.Context, r *archive.Request, from, to time.Time) ([]time.Time, error) {
	items, err := s.client.Search(ctx, Search{Collection: s.col.ID, Box: r.Box, From: from, To: to, Query: s.col.Query})
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		if err := s.client.HasCollection(ctx, s.col.ID); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Product.ID, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.days = map[time.Time][]Item{}
	var days []time.Time
	for _, item := range items {
		if !strings.HasPrefix(item.ID, s.col.Prefix) {
			continue
		}
		t, _ := item.Time() // Search has checked it
		day := t.Truncate(24 * time.Hour)
		if day.Before(from) || day.After(to) {
			continue // a range that began before the period
		}
		if len(s.days[day]) == 0 {
			days = append(days, day)
		}
		s.days[day] = append(s.days[day], item)
	}
	slices.SortFunc(days, time.Time.Compare)
	for _, d := range days {
		slices.SortFunc(s.days[d], func(a, b Item) int { return strings.Compare(a.ID, b.ID) })
	}
	return days, nil
}

// Stamp implements archive.Source: granules have the time of the first item.
func (s *source) Stamp(r *archive.Request, day time.Time, _ *archive.Band) (time.Time, bool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.days[day][0].Time()
	if !r.Product.Swath {
		t = day
	}
	return t, r.Product.Swath, ok
}

func (s *source) Reader(*archive.Request) (archive.Reader, error) { return s, nil }

// Read downloads the bands of a day and joins the scenes.
func (s *source) Read(ctx context.Context, day time.Time, bands []*archive.Band) ([]archive.Layer, error) {
	s.mu.Lock()
	items := s.days[day]
	s.mu.Unlock()
	layers := make([]archive.Layer, len(bands))
	for i, b := range bands {
		var parts []archive.Layer
		for _, item := range items {
			l, err := s.layer(ctx, item, b)
			if errors.Is(err, raster.ErrRange) {
				continue // the scene's footprint is wider than its raster
			}
			if err != nil {
				return nil, fmt.Errorf("item %s, band %s: %w", item.ID, b.Name, err)
			}
			parts = append(parts, l)
		}
		layers[i] = join(parts)
	}
	return layers, nil
}

// layer reads the box from one band of an item.
func (s *source) layer(ctx context.Context, item Item, b *archive.Band) (archive.Layer, error) {
	names := s.col.names(b)
	key, band, ok := item.Asset(names...)
	if !ok {
		keys := make([]string, 0, len(item.Assets))
		for k := range item.Assets {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return archive.Layer{}, fmt.Errorf("%w: looked for %s; the item has %s (map the band to one in the config)", ErrAsset, strings.Join(names, ", "), strings.Join(keys, ", "))
	}
	asset := item.Assets[key]
	path, done, err := s.asset(ctx, item, key, asset)
	if err != nil {
		return archive.Layer{}, err
	}
	defer done()
	ds, err := raster.Open(path)
	if err != nil {
		return archive.Layer{}, err
	}
	defer ds.Close()
	scale := s.req.ScaleM
	if s.req.OwnScale {
		scale = 0
	}
	g, err := archive.ReadBox(ds, band, s.req.Box, scale)
	if err != nil {
		return archive.Layer{}, err
	}
	l := archive.Layer{Grid: g, Band: describe(b, ds.Info(), band, item.raster(b, asset, band))}
	dropNoData(g, l.Band.Fill)
	rebase(&l, b)
	return l, nil
}

// rebase shifts the stored numbers of another offset to those that the product
// table states, so that one scale and offset hold for the whole record. What falls
// below the valid range, a reflectance below zero, becomes its least number.
func rebase(l *archive.Layer, table *archive.Band) {
	if l.Band.Scale != table.Scale || l.Band.Offset == table.Offset || l.Band.Type.Float() {
		return
	}
	shift := float32(math.Round((l.Band.Offset - table.Offset) / table.Scale))
	least, most := float32(l.Band.Valid[0]), float32(l.Band.Valid[1])
	for i, v := range l.Grid.Data {
		if raster.Finite(v) {
			l.Grid.Data[i] = min(max(v+shift, least), most)
		}
	}
	l.Band.Offset = table.Offset
}

// dropNoData drops the value that the item, not the file, calls no data.
func dropNoData(g *raster.Grid, fill *float64) {
	if fill == nil {
		return
	}
	f := float32(*fill)
	for i, v := range g.Data {
		if v == f {
			g.Data[i] = raster.NaN()
		}
	}
}

// describe says what the values mean: by the item, else by the file, else by the
// product table.
func describe(b *archive.Band, info raster.Info, band int, item Raster) archive.Band {
	out := *b
	out.Type = info.Type
	lo, hi := info.Type.Range()
	out.Valid = [2]float64{max(lo, out.Valid[0]), min(hi, out.Valid[1])}
	file := info.Bands[band-1]
	if file.Scale != 0 && (file.Scale != 1 || file.Offset != 0) {
		out.Scale, out.Offset = file.Scale, file.Offset
	}
	if item.Scale != nil && *item.Scale != out.Scale {
		out.Scale, out.Offset = *item.Scale, 0 // the table's own scale without an offset leaves the table's offset
	}
	if item.Offset != nil {
		out.Offset = *item.Offset
	}
	if file.NoData != nil {
		out.Fill = file.NoData
	}
	if v, ok := number(item.NoData); ok {
		out.Fill = &v
	}
	if out.Fill != nil && (*out.Fill < lo || *out.Fill > hi) {
		out.Fill = nil // it cannot stand in the file
	}
	if item.Unit != "" {
		out.Unit = item.Unit
	} else if file.Unit != "" {
		out.Unit = file.Unit
	}
	return out
}

// number reads a finite nodata value.
func number(raw json.RawMessage) (float64, bool) {
	v, err := strconv.ParseFloat(string(raw), 64)
	return v, err == nil
}

// join lays the scenes of a day over each other: those on the grid of the one that
// covers most, the first by name on top.
func join(parts []archive.Layer) archive.Layer {
	if len(parts) == 0 {
		return archive.Layer{}
	}
	best, most := 0, -1
	for i, p := range parts {
		if n := valid(p.Grid); n > most {
			best, most = i, n
		}
	}
	out := parts[best]
	for i, p := range parts {
		if i == best || p.Band.Scale != out.Band.Scale || p.Band.Offset != out.Band.Offset {
			continue
		}
		if merged, ok := merge(out.Grid, p.Grid); ok {
			out.Grid = merged
		}
	}
	return out
}

func valid(g *raster.Grid) int {
	n := 0
	for _, v := range g.Data {
		if raster.Finite(v) {
			n++
		}
	}
	return n
}

// merge returns the union of two grids, a on top. It is false if they do not have
// their pixels in common.
func merge(a, b *raster.Grid) (*raster.Grid, bool) {
	ta, tb := a.Transform, b.Transform
	if !a.CRS.Same(b.CRS) || ta.IsZero() || tb.IsZero() || ta[1] != tb[1] || ta[5] != tb[5] || ta[2] != 0 || ta[4] != 0 || tb[2] != 0 || tb[4] != 0 {
		return nil, false
	}
	x, y := (tb[0]-ta[0])/ta[1], (tb[3]-ta[3])/ta[5] // of b in pixels of a
	dx, dy := round(x), round(y)
	if abs(x-float64(dx)) > 0.01 || abs(y-float64(dy)) > 0.01 {
		return nil, false
	}
	x0, y0 := min(0, dx), min(0, dy)
	w, h := max(a.Width, dx+b.Width)-x0, max(a.Height, dy+b.Height)-y0
	if w*h > 16*archive.MaxPixels {
		return nil, false
	}
	out, err := raster.NewGrid(w, h, a.CRS, ta.At(x0, y0))
	if err != nil {
		return nil, false
	}
	for i := range out.Data {
		out.Data[i] = raster.NaN()
	}
	for _, part := range []struct {
		g      *raster.Grid
		dx, dy int
	}{{b, dx - x0, dy - y0}, {a, -x0, -y0}} {
		for j := range part.g.Height {
			row := out.Row(j + part.dy)[part.dx:]
			for i, v := range part.g.Row(j) {
				if raster.Finite(v) {
					row[i] = v
				}
			}
		}
	}
	return out, true
}

func abs(x float64) float64 { return max(x, -x) }

func round(x float64) int {
	if x < 0 {
		return -int(0.5 - x)
	}
	return int(x + 0.5)
}

// asset gives the path of an asset's file, from the cache or by download. done
// must be called when it is no longer needed.
func (s *source) asset(ctx context.Context, item Item, name string, a Asset) (path string, done func(), err error) {
	key, err := archive.CacheKey([]string{"stac", s.client.base.String(), s.col.ID, item.ID, name, a.Checksum})
	if err != nil {
		return "", nil, err
	}
	unlock, err := s.cache.Lock(key)
	if err != nil {
		return "", nil, err
	}
	release := func() { err = errors.Join(err, unlock()) }
	defer release()
	tmp, err := os.MkdirTemp("", "terraloom-stac-")
	if err != nil {
		return "", nil, err
	}
	remove := func() { os.RemoveAll(tmp) }
	path = filepath.Join(tmp, "asset.tif")
	_, ok, err := s.cache.Get(key, path, nil)
	if err == nil && !ok {
		err = s.download(ctx, key, path, a)
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return path, remove, nil
}

// download fetches an asset, puts it into the cache and at path.
func (s *source) download(ctx context.Context, key, path string, a Asset) error {
	part := s.cache.Partial(key)
	if err := s.client.Download(ctx, a, part); err != nil {
		return err
	}
	sum, err := archive.FileSHA256(part)
	if err != nil {
		return err
	}
	if err := s.cache.Put(key, part, sum, nil); err != nil {
		return err
	}
	if _, ok, err := s.cache.Get(key, path, nil); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("%w: what was just stored is gone", archive.ErrCache))
	}
	return os.Remove(part)
}
