package tools

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"terraloom/data/strictjson"
)

// Archive gives rasters of satellite products. It must be safe for concurrent use.
type Archive interface {
	// Products are the products it has.
	Products() []ArchiveProduct
	// Fetch finds the rasters of a request, in the order band, time. It returns
	// without making them. ErrNoData says that nothing matches, ErrRequest that the
	// request cannot be honoured.
	Fetch(ctx context.Context, r ArchiveRequest) ([]ArchiveFile, error)
}

// What an archive answers where it has nothing to give.
var (
	ErrNoData  = errors.New("no data for this region and period")
	ErrRequest = errors.New("the archive cannot honour the request") // the caller can repair it
)

// ArchiveProduct describes a product.
type ArchiveProduct struct {
	ID      string // as MODIS/061/MOD11A1
	Title   string
	Aliases []string
	Bands   []ArchiveBand
}

// ArchiveBand is a band of a product.
type ArchiveBand struct {
	Name    string
	Aliases []string
}

// named reports whether a name is one of those given, in any case.
func named(name string, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, strings.TrimSpace(name)) })
}

// ArchiveRequest asks for bands of a product in a region and period.
type ArchiveRequest struct {
	Product  string // an ID of Products
	Bands    []string
	West     float64 // degrees, WGS 84
	South    float64
	East     float64
	North    float64
	From, To time.Time // first and last day, UTC
	Interval string    // composite step (day, month, year, …); "" is the product's own
	Scale    float64   // pixel size in metres; 0 is the product's own
}

// ArchiveFile is one raster of an answer.
type ArchiveFile struct {
	Band  string
	Time  time.Time
	Clock bool                                         // Time is that of an overpass, which goes into the file's name; else a day
	Write func(ctx context.Context, path string) error // makes the GeoTIFF at path
}

// archiveFuncs are the tools over an archive.
var archiveFuncs = map[string]Func{"download_product": downloadProduct}

// downloadProduct writes the rasters of a product as BASE_BAND_DATE.tif and gives
// their paths, in the order of the bands and in time order.
func downloadProduct(c *Call) (Result, error) {
	r, err := c.archiveRequest()
	if err != nil {
		return Result{}, err
	}
	files, err := c.env.archive.Fetch(c.Context, r)
	e := Evidence{Formula: fmt.Sprintf("%s, %s to %s, %g %g %g %g °", r.Product, r.From.Format(time.DateOnly), r.To.Format(time.DateOnly), r.West, r.South, r.East, r.North)}
	switch {
	case errors.Is(err, ErrNoData) || err == nil && len(files) == 0:
		return insufficient(e, "%s has nothing for this region and period; widen the period or take another product", r.Product), nil
	case errors.Is(err, ErrRequest):
		return Result{}, badInput("", err)
	case err != nil:
		return Result{}, err
	case len(files) > maxBatch:
		return Result{}, badArgument("time_range", "%d rasters match; ask for at most %d", len(files), maxBatch)
	}
	targets := make([]string, len(files))
	seen := map[string]bool{}
	for i, f := range files {
		name := c.text("base_save_name") + "_" + strings.ReplaceAll(f.Band, "/", "-") + "_" + f.Time.UTC().Format(time.DateOnly) + ".tif"
		if f.Clock {
			name = strings.TrimSuffix(name, ".tif") + f.Time.UTC().Format("_1504") + ".tif"
		}
		if targets[i], err = c.env.workspace.Target(name); err != nil {
			return Result{}, badInput("base_save_name", err)
		}
		if seen[targets[i]] {
			return Result{}, fmt.Errorf("the archive gives two rasters for %s", path.Base(targets[i]))
		}
		seen[targets[i]] = true
	}
	e.Nodes = make([]Node, len(files))
	res := Result{Artefacts: make([]Artefact, len(files))}
	err = c.each(len(files), func(i int) error {
		sum, err := c.env.workspace.Write(targets[i], func(tmp string) error { return files[i].Write(c.Context, tmp) })
		if err != nil {
			return err
		}
		res.Artefacts[i], err = c.describe(targets[i], sum)
		n := Node{Name: targets[i], Output: strictjson.Text(targets[i]), Valid: res.Artefacts[i].Bands[0].Valid,
			Total: res.Artefacts[i].Width * res.Artefacts[i].Height, Status: OK}
		if n.Valid == 0 {
			n.Status, n.Reason = Insufficient, "no valid pixel: clouds, or beyond the coverage"
		}
		e.Nodes[i] = n
		return err
	})
	if err != nil {
		return Result{}, err
	}
	for _, n := range e.Nodes {
		e.Used, e.Missing = e.Used+n.Valid, e.Missing+n.Total-n.Valid
		if n.Status != OK {
			e.warn("%s: %s", n.Name, n.Reason)
		}
	}
	res.Value, res.Evidence = texts(targets), e
	return res, nil
}

// archiveRequest reads and checks the arguments against the archive's products.
func (c *Call) archiveRequest() (ArchiveRequest, error) {
	var r ArchiveRequest
	products := c.env.archive.Products()
	i := slices.IndexFunc(products, func(p ArchiveProduct) bool { return named(c.text("source"), append(p.Aliases, p.ID, p.Title)...) })
	if i < 0 {
		ids := make([]string, len(products))
		for k, p := range products {
			ids[k] = p.ID
		}
		return r, badArgument("source", "the archive has no product %q; it has %s: take one of these, or run with an archive that has it (a STAC archive has the products that its configuration maps to a collection)", c.text("source"), strings.Join(ids, ", "))
	}
	p := products[i]
	r.Product = p.ID
	known := make([]string, len(p.Bands))
	for k, b := range p.Bands {
		known[k] = b.Name
	}
	bands := c.Args.Get("bands")
	if bands.Len() == 0 {
		return r, badArgument("bands", "the list is empty; %s has %s", p.ID, strings.Join(known, ", "))
	}
	for k := range bands.Len() {
		name := bands.Index(k).Text()
		at := slices.IndexFunc(p.Bands, func(b ArchiveBand) bool { return named(name, append(b.Aliases, b.Name)...) })
		if at < 0 {
			return r, badArgument(fmt.Sprintf("bands/%d", k), "%s has no band %q; it has %s", p.ID, name, strings.Join(known, ", "))
		}
		if slices.Contains(r.Bands, known[at]) {
			return r, badArgument(fmt.Sprintf("bands/%d", k), "%q is asked for twice", name)
		}
		r.Bands = append(r.Bands, known[at])
	}
	box := c.Args.Get("bbox")
	if box.Len() != 4 {
		return r, badArgument("bbox", "expected [west, south, east, north], got %d numbers", box.Len())
	}
	for k, to := range []*float64{&r.West, &r.South, &r.East, &r.North} {
		*to, _ = box.Index(k).Float()
	}
	switch {
	case r.West < -180 || r.East > 180 || r.South < -90 || r.North > 90:
		return r, badArgument("bbox", "%s leaves longitude -180 … 180 or latitude -90 … 90", box.JSON())
	case r.West >= r.East:
		return r, badArgument("bbox", "west, %g, is not west of east, %g", r.West, r.East)
	case r.South >= r.North:
		return r, badArgument("bbox", "south, %g, is not south of north, %g", r.South, r.North)
	}
	period := c.Args.Get("time_range")
	if period.Len() != 2 {
		return r, badArgument("time_range", "expected first and last day, got %d items", period.Len())
	}
	for k, to := range []*time.Time{&r.From, &r.To} {
		t, err := time.Parse(time.DateOnly, strings.TrimSpace(period.Index(k).Text()))
		if err != nil {
			return r, badArgument(fmt.Sprintf("time_range/%d", k), "%q is no date; write it as 2013-01-31", period.Index(k).Text())
		}
		*to = t
	}
	if r.To.Before(r.From) {
		return r, badArgument("time_range", "the last day, %s, lies before the first, %s", period.Index(1).Text(), period.Index(0).Text())
	}
	r.Interval, r.Scale = c.text("interval"), c.float("scale_m")
	return r, nil
}

// describe reads back what a file of the workspace holds.
func (c *Call) describe(target, sum string) (Artefact, error) {
	r, err := c.env.workspace.OpenRaster(target)
	if err != nil {
		return Artefact{}, err
	}
	defer r.Close()
	stats, err := r.Stats()
	if err != nil {
		return Artefact{}, err
	}
	a := Artefact{Path: target, SHA256: sum, Format: r.Info.Format, Width: r.Info.Width, Height: r.Info.Height, Time: TimeOf(target)}
	if !r.Info.CRS.IsZero() {
		a.CRS = r.Info.CRS.String()
	}
	if b, ok := r.Info.Bounds(); ok {
		a.Region = []float64{b.MinX, b.MinY, b.MaxX, b.MaxY}
	}
	for i, b := range r.Info.Bands {
		a.Bands = append(a.Bands, ArtefactBand{b.Description, b.Unit, int(stats[i].Valid)})
	}
	return a, nil
}
