// Package synthetic is an archive without imagery: it observes the model world of
// package world as the satellites of the product table would.
//
// A raster is a pure function of the world's seed, product, band, day and the
// pixel's cell in the absolute grid of the product's own resolution. Rasters of
// another pixel size take the nearest of these pixels. So two downloads that
// overlap in space and time agree pixel for pixel.
//
// Between the surface and the stored number stand, where the real instrument has
// them: the atmosphere (path radiance in the visible, water vapour in the near
// infrared and in the thermal window), clouds and their shadows, the time of the
// overpass, detector noise, fill values and rounding. Truth gives the surface
// without any of it, Normal also without weather.
package synthetic

import (
	"context"
	"fmt"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/archive/world"
	"terraloom/agent/raster"
	"terraloom/slots/gazetteer"
)

// version is part of the cache keys. It changes with every change of the rasters.
const version = "1"

// Archive is the synthetic archive of one world. It is safe for concurrent use.
type Archive struct {
	seed  uint64
	world *world.World
	cache *archive.Cache
}

var _ archive.Archive = (*Archive)(nil)

// New returns the archive of the world of a seed. A cache is optional: most
// rasters are made faster than they are read back, long composites are not.
func New(seed uint64, cache *archive.Cache) *Archive {
	return &Archive{seed: seed, world: world.New(seed), cache: cache}
}

// Products lists the product table.
func (a *Archive) Products() []*archive.Product { return archive.Products() }

// Find implements archive.Archive.
func (a *Archive) Find(ctx context.Context, spec archive.Spec) ([]archive.Pending, error) {
	r, err := archive.Resolve(archive.Products(), spec)
	if err != nil {
		return nil, err
	}
	return archive.Plan(ctx, source{a}, a.cache, r)
}

// Trends returns the trends planted at a place of the gazetteer; see
// world.World.TrendsOf for where they hold.
func (a *Archive) Trends(p gazetteer.Place) world.Trends { return a.world.TrendsOf(p) }

// TrendsAt returns the trends planted at a position.
func (a *Archive) TrendsAt(lon, lat float64) world.Trends {
	return a.world.Patch(world.Axes{Lon: []float64{lon}, Lat: []float64{lat}, Footprint: 0.01}).Trends(0)
}

// State is what a band would show without an instrument.
type State struct {
	Band string
	Date time.Time
	Grid *raster.Grid // physical values, NaN where the quantity has no meaning
}

// Truth returns the state of the world behind the rasters of a spec, in the same order: without clouds, atmosphere, noise and rounding.
func (a *Archive) Truth(ctx context.Context, spec archive.Spec) ([]State, error) {
	return a.states(ctx, spec, surface)
}

// Normal is Truth without weather and the differences between years: the seasons
// and the planted trends only.
func (a *Archive) Normal(ctx context.Context, spec archive.Spec) ([]State, error) {
	return a.states(ctx, spec, normal)
}

func (a *Archive) states(ctx context.Context, spec archive.Spec, m mode) ([]State, error) {
	r, err := archive.Resolve(archive.Products(), spec)
	if err != nil {
		return nil, err
	}
	if !r.Step.IsZero() {
		return nil, &archive.SpecError{Field: "interval", Got: fmt.Sprintf("%q", spec.Interval), Want: "the state of the world is asked for in the product's own steps"}
	}
	rd, err := newReader(a.world, r)
	if err != nil {
		return nil, err
	}
	lon, _ := r.Box.Middle()
	days := r.Product.Dates(lon, r.Start, r.End)
	out := make([]State, len(days)*len(r.Bands))
	for d, day := range days {
		grids, err := rd.render(ctx, day, r.Bands, m)
		if err != nil {
			return nil, err
		}
		for b, g := range grids {
			out[b*len(days)+d] = State{Band: r.Bands[b].Name, Date: day, Grid: g}
		}
	}
	return out, nil
}

// source implements archive.Source.
type source struct{ *Archive }

func (s source) Key() string { return fmt.Sprintf("synthetic %s %d", version, s.seed) }

func (s source) Acquisitions(_ context.Context, r *archive.Request, from, to time.Time) ([]time.Time, error) {
	lon, _ := r.Box.Middle()
	return r.Product.Dates(lon, from, to), nil
}

// Stamp implements archive.Source: granules have the time of the overpass.
func (s source) Stamp(r *archive.Request, at time.Time, b *archive.Band) (time.Time, bool, bool) {
	if !r.Product.Swath {
		return at, false, true
	}
	lon, _ := r.Box.Middle()
	return r.Product.PassTime(lon, at, b.Night), true, true
}

func (s source) Reader(r *archive.Request) (archive.Reader, error) {
	return newReader(s.world, r)
}
