package archive

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"terraloom/agent/raster"
)

// Source is what Plan needs to know of an archive.
type Source interface {
	// Key tells what a raster depends on besides the request; it is part of the
	// cache's keys.
	Key() string
	// Acquisitions returns the times of acquisition from a day to another, in
	// order: UTC midnights where the clock time is not known.
	Acquisitions(ctx context.Context, r *Request, from, to time.Time) ([]time.Time, error)
	// Stamp returns the time of a band of an acquisition and whether it has a clock
	// time. It is not ok if the acquisition lacks the band.
	Stamp(r *Request, at time.Time, b *Band) (t time.Time, clock, ok bool)
	// Reader prepares for reading the rasters of a request.
	Reader(r *Request) (Reader, error)
}

// Reader gives the rasters of one request. It is safe for concurrent use.
type Reader interface {
	// Read returns one layer of an acquisition for each of the bands. A layer
	// without a grid says that the acquisition lacks the band.
	Read(ctx context.Context, at time.Time, bands []*Band) ([]Layer, error)
}

// Layer is one raster before it is written.
type Layer struct {
	Grid *raster.Grid // stored values, NaN where invalid; nil for none
	// Band describes the values. It may differ from the product table where the
	// data themselves say otherwise.
	Band Band
}

// Pending is a raster that can be made.
type Pending struct {
	Product string
	Band    string
	Date    time.Time // as in File
	Clock   bool
	Days    int
	Name    string // of the file: <name>_<band>_<2006-01-02[_1504]>.tif

	plan *plan
	band *Band
	win  *window
}

// Write makes the raster at a path, replacing a file that is there.
func (p Pending) Write(ctx context.Context, path string) (File, error) {
	files, err := p.plan.make(ctx, []Pending{p}, func(Pending) string { return path })
	if err != nil {
		return File{}, err
	}
	return files[0], nil
}

// Fetch makes the rasters of a spec in the folder dir, which must exist, on all
// cores, and describes them in the order of Find. Files of the same names are
// replaced. After an error the files made so far stay.
func Fetch(ctx context.Context, a Archive, spec Spec, dir string) ([]File, error) {
	pending, err := a.Find(ctx, spec)
	if err != nil {
		return nil, err
	}
	// Bands of one time are made together: they share most of the work.
	byWindow := map[*window][]int{}
	var order []*window
	for i, p := range pending {
		if byWindow[p.win] == nil {
			order = append(order, p.win)
		}
		byWindow[p.win] = append(byWindow[p.win], i)
	}
	files := make([]File, len(pending))
	err = parallel(ctx, len(order), func(ctx context.Context, w int) error {
		index := byWindow[order[w]]
		group := make([]Pending, len(index))
		for k, i := range index {
			group[k] = pending[i]
		}
		done, err := group[0].plan.make(ctx, group, func(p Pending) string { return filepath.Join(dir, p.Name) })
		for k, f := range done {
			files[index[k]] = f
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return files, nil
}

// plan is what the pending rasters of one request share.
type plan struct {
	src    Source
	cache  *Cache
	req    *Request
	reader func() (Reader, error)
}

// Plan lists the rasters of a request. With a cache, they are taken from it and
// put into it when they are made.
func Plan(ctx context.Context, src Source, cache *Cache, r *Request) ([]Pending, error) {
	from, to := r.span()
	times, err := src.Acquisitions(ctx, r, from, to)
	if err != nil {
		return nil, err
	}
	windows := r.windows(times)
	if n := len(windows) * len(r.Bands); n > MaxFiles {
		return nil, &SpecError{Kind: ErrTooLarge, Field: "time_range", Got: fmt.Sprintf("%s with %d rasters", r.period(), n),
			Want: fmt.Sprintf("at most %d are allowed: use a shorter period, a longer interval or fewer bands", MaxFiles)}
	}
	p := &plan{src: src, cache: cache, req: r, reader: sync.OnceValues(func() (Reader, error) { return src.Reader(r) })}
	var out []Pending
	for _, b := range r.Bands {
		for i := range windows {
			w := &windows[i]
			t, clock, ok := p.stamp(w, b)
			if !ok {
				continue
			}
			out = append(out, Pending{Product: r.Product.ID, Band: b.Name, Date: t, Clock: clock, Days: w.span,
				Name: FileName(r.Name, b.Name, t, clock), plan: p, band: b, win: w})
		}
	}
	if len(out) == 0 {
		return nil, r.noData(ctx, src)
	}
	return out, nil
}

// stamp is the time of a band of a window: that of the overpass of a single
// acquisition, else the first day.
func (p *plan) stamp(w *window, b *Band) (t time.Time, clock, ok bool) {
	for _, at := range w.times {
		t, clock, has := p.src.Stamp(p.req, at, b)
		switch {
		case !has:
		case p.req.Step.IsZero():
			return t, clock, true
		default:
			ok = true
		}
	}
	return w.first, false, ok
}

// fileFacts are the parts of a File that the cache keeps.
type fileFacts struct {
	Unit          string
	Scale, Offset float64
	Fill          *float64
	Type          raster.DataType
	EPSG          int
	CRSKind       raster.CRSKind
	CRSName       string
	Transform     raster.GeoTransform
	Width, Height int
	Valid         int
}

// noData explains an empty period by the acquisitions around it.
func (r *Request) noData(ctx context.Context, src Source) error {
	e := &SpecError{Kind: ErrNoData, Field: "time_range", Got: r.period(), Want: "no raster of " + r.Product.ID + " begins in it"}
	if !r.Step.IsZero() {
		e.Want = fmt.Sprintf("no interval of %v begins in it; the next begins on %s", r.Step, r.Step.firstFrom(r.Start).Format(time.DateOnly))
		if first := r.Step.firstFrom(r.Start); !first.After(r.End) {
			e.Want = "no acquisition lies in its intervals"
		}
		return e
	}
	days, err := src.Acquisitions(ctx, r, r.Start.AddDate(0, 0, -400), r.End.AddDate(0, 0, 400))
	if err != nil {
		return e // it is true without the hint
	}
	var before, after time.Time
	for _, d := range days {
		if d.Before(r.Start) {
			before = d
		} else if after.IsZero() {
			after = d
		}
	}
	if !before.IsZero() {
		e.Want += "; the last before it is of " + before.Format(time.DateOnly)
	}
	if !after.IsZero() {
		e.Want += "; the first after it is of " + after.Format(time.DateOnly)
	}
	return e
}

// parallel runs f for 0 … n-1 on all cores and returns the error of the lowest
// index that failed; the others are cancelled.
func parallel(ctx context.Context, n int, f func(context.Context, int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	var next int
	var mu sync.Mutex
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			for i := take(); i < n; i = take() {
				if errs[i] = ctx.Err(); errs[i] == nil {
					errs[i] = f(ctx, i)
				}
				if errs[i] != nil {
					cancel()
					return
				}
			}
		})
	}
	wg.Wait()
	cancelled := error(nil)
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if cancelled == nil {
			cancelled = err
		}
	}
	return cancelled
}

// make makes the rasters of one window.
func (p *plan) make(ctx context.Context, group []Pending, path func(Pending) string) ([]File, error) {
	files := make([]File, len(group))
	keys := make([]string, len(group))
	var bands []*Band
	var at []int
	for i, g := range group {
		files[i] = File{Path: path(g), Product: g.Product, Band: g.Band, Date: g.Date, Clock: g.Clock, Days: g.Days}
		if p.cache != nil {
			var err error
			if keys[i], err = p.key(g); err != nil {
				return nil, err
			}
			var facts fileFacts
			sum, ok, err := p.cache.Get(keys[i], files[i].Path, &facts)
			if err != nil {
				return nil, err
			}
			if ok {
				facts.describe(&files[i])
				files[i].SHA256, files[i].Cached = sum, true
				continue
			}
		}
		bands, at = append(bands, g.band), append(at, i)
	}
	if len(bands) == 0 {
		return files, nil
	}
	layers, err := p.read(ctx, group[0].win, bands)
	if err != nil {
		return nil, err
	}
	for k, l := range layers {
		f := &files[at[k]]
		if l.Grid == nil {
			return nil, fmt.Errorf("%w: %s %s of %s has no pixel in the bbox", ErrNoData, f.Product, f.Band, f.Date.Format(time.DateOnly))
		}
		if err := p.write(l, f); err != nil {
			return nil, fmt.Errorf("%s %s of %s: %w", f.Product, f.Band, f.Date.Format(time.DateOnly), err)
		}
		if p.cache != nil {
			if err := p.cache.Put(keys[at[k]], f.Path, f.SHA256, factsOf(f)); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// read returns the layers of a window, combined over its acquisitions.
func (p *plan) read(ctx context.Context, w *window, bands []*Band) ([]Layer, error) {
	reader, err := p.reader()
	if err != nil {
		return nil, err
	}
	first, err := reader.Read(ctx, w.times[0], bands)
	if err != nil || p.req.Step.IsZero() {
		return first, err
	}
	accs := make([]accumulator, len(first))
	for k, at := range w.times {
		layers := first
		if k > 0 {
			if layers, err = reader.Read(ctx, at, bands); err != nil {
				return nil, err
			}
		}
		for i, l := range layers {
			if err := accs[i].add(l); err != nil {
				return nil, err
			}
		}
	}
	for i := range accs {
		first[i] = accs[i].result()
	}
	return first, nil
}

// write saves a layer and completes the description of the file.
func (p *plan) write(l Layer, f *File) error {
	f.Unit, f.Scale, f.Offset, f.Fill, f.Type = l.Band.Unit, l.Band.Scale, l.Band.Offset, l.Band.Fill, l.Band.Type
	f.CRS, f.Transform, f.Width, f.Height = l.Grid.CRS, l.Grid.Transform, l.Grid.Width, l.Grid.Height
	f.Valid = 0
	for _, v := range l.Grid.Data {
		if raster.Finite(v) {
			f.Valid++
		}
	}
	product := p.req.Product
	meta := map[string]string{"PRODUCT": product.ID, "TITLE": product.Title, "PLATFORM": product.Platform, "SENSOR": product.Sensor,
		"DATE": f.Date.Format(time.DateOnly), "DAYS": strconv.Itoa(f.Days)}
	if f.Clock {
		meta["TIME_UTC"] = f.Date.Format("15:04")
	}
	spec := raster.Spec{Type: f.Type, NoData: f.Fill, Metadata: meta,
		Bands: []raster.BandSpec{{Description: f.Band, Unit: f.Unit, Scale: f.Scale, Offset: f.Offset, Metadata: bandMetadata(&l.Band)}}}
	err := raster.Save(f.Path, spec, l.Grid)
	if err == nil {
		f.SHA256, err = FileSHA256(f.Path)
	}
	return err
}

// bandMetadata is what a tool must know of a band besides scale and offset.
func bandMetadata(b *Band) map[string]string {
	m := map[string]string{"MEASURES": string(b.Measures)}
	for key, v := range map[string]float64{"WAVELENGTH_UM": b.Wavelength, "K1": b.K1, "K2": b.K2} {
		if v != 0 {
			m[key] = strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return m
}

// FileName is the name of a delivered raster: <name>_<band>_<2006-01-02>.tif, with
// _<1504> before the suffix if the clock time is known.
func FileName(name, band string, t time.Time, clock bool) string {
	layout := time.DateOnly
	if clock {
		layout += "_1504"
	}
	return name + "_" + band + "_" + t.Format(layout) + ".tif"
}

// key names a raster in the cache.
func (p *plan) key(g Pending) (string, error) {
	return CacheKey(struct {
		Version, Source, Product, Band, Date, Step string
		Box                                        Box
		Grid                                       Grid
	}{"1", p.src.Key(), g.Product, g.Band, g.Date.Format(time.RFC3339), p.req.Step.String(), p.req.Box, p.req.Grid})
}

func factsOf(f *File) fileFacts {
	return fileFacts{f.Unit, f.Scale, f.Offset, f.Fill, f.Type, f.CRS.EPSG, f.CRS.Kind, f.CRS.Name, f.Transform, f.Width, f.Height, f.Valid}
}

func (l *fileFacts) describe(f *File) {
	var err error
	if f.CRS, err = raster.EPSG(l.EPSG); err != nil || l.EPSG == 0 {
		f.CRS = raster.CRS{EPSG: l.EPSG, Kind: l.CRSKind, Name: l.CRSName}
	}
	f.Unit, f.Scale, f.Offset, f.Fill, f.Type = l.Unit, l.Scale, l.Offset, l.Fill, l.Type
	f.Transform, f.Width, f.Height, f.Valid = l.Transform, l.Width, l.Height, l.Valid
}
