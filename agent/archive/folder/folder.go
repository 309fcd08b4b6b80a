// Package folder is an archive of rasters on disk. It finds them by their names
// (see Name): a folder is a product, the variables of its file names are the bands,
// and what the numbers mean is taken from the files' own tags.
package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/raster"
)

// ErrEmpty: the folder has no raster whose name can be read.
var ErrEmpty = errors.New("no rasters")

// Archive is an archive of files. It is safe for concurrent use; files that appear
// after Open are not seen.
type Archive struct {
	root     string
	cache    *archive.Cache
	products []*archive.Product
	files    map[string][]file // by product ID, in order of time
}

// file is one raster on disk.
type file struct {
	path    string
	name    Name
	size    int64
	changed time.Time
}

var _ archive.Archive = (*Archive)(nil)

// Open looks through a folder and the folders in it. Links are not followed. It
// returns ErrEmpty if no file name can be read, and an error if a raster cannot.
// A cache is optional.
func Open(root string, cache *archive.Cache) (*Archive, error) {
	a := &Archive{root: root, cache: cache, files: map[string][]file{}}
	skipped := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		n, ok := ParseName(d.Name())
		if !ok {
			skipped++
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		id := filepath.ToSlash(rel)
		if id == "." {
			id = filepath.Base(root)
		}
		a.files[id] = append(a.files[id], file{path, n, info.Size(), info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("folder archive: %w", err)
	}
	if len(a.files) == 0 {
		return nil, fmt.Errorf("folder archive: %s: %w: of its %d files none has a name such as Place_2020-01-31_LST.tif", root, ErrEmpty, skipped)
	}
	for id, files := range a.files {
		slices.SortFunc(files, func(f, g file) int {
			if c := f.name.Date.Compare(g.name.Date); c != 0 {
				return c
			}
			return strings.Compare(f.path, g.path)
		})
		p, err := describe(id, files)
		if err != nil {
			return nil, err
		}
		a.products = append(a.products, p)
	}
	slices.SortFunc(a.products, func(p, q *archive.Product) int { return strings.Compare(p.ID, q.ID) })
	return a, nil
}

// describe makes a product of the files of a folder. The first file of each
// variable stands for the others.
func describe(id string, files []file) (*archive.Product, error) {
	p := &archive.Product{ID: id, Title: "files of the folder " + id, Platform: "files", Sensor: "files", Share: 1, Cadence: archive.Step{N: 1, Unit: archive.Day},
		Start: day(files[0].name.Date), End: day(files[len(files)-1].name.Date)}
	for _, f := range files {
		if f.name.Precise == ToMinute {
			p.Swath = true
		}
		if slices.ContainsFunc(p.Bands, func(b archive.Band) bool { return b.Name == f.name.Variable }) {
			continue
		}
		b, res, err := readBand(f)
		if err != nil {
			return nil, err
		}
		p.Bands = append(p.Bands, b)
		if p.Resolution == 0 || res < p.Resolution {
			p.Resolution = res
		}
	}
	return p, nil
}

func day(t time.Time) time.Time { return t.Truncate(24 * time.Hour) }

// readBand describes a file: its band and the pixel size in metres, 1 if the file
// does not say.
func readBand(f file) (archive.Band, float64, error) {
	ds, err := raster.Open(f.path)
	if err != nil {
		return archive.Band{}, 0, fmt.Errorf("folder archive: %w", err)
	}
	defer ds.Close()
	info := ds.Info()
	b := bandOf(info, f.name.Variable)
	res := 1.0
	if !info.Transform.IsZero() {
		res = math.Hypot(info.Transform[1], info.Transform[4])
		if info.CRS.Kind == raster.Geographic {
			res *= 6378137 * math.Pi / 180
		}
	}
	return b, res, nil
}

// bandOf describes the first band of a file by its tags.
func bandOf(info raster.Info, name string) archive.Band {
	t := info.Bands[0]
	lo, hi := info.Type.Range()
	b := archive.Band{Name: name, Title: name, Type: info.Type, Fill: t.NoData, Scale: t.Scale, Offset: t.Offset, Unit: t.Unit,
		Valid: [2]float64{lo, hi}, Combine: archive.Mean, Measures: archive.Quantity(t.Metadata["MEASURES"])}
	if t.Description != "" {
		b.Title = t.Description
	}
	if b.Unit == "" {
		b.Unit = "1"
	}
	if b.Scale == 0 {
		b.Scale = 1
	}
	if b.Measures == archive.Quality || strings.HasPrefix(strings.ToUpper(name), "QA") {
		b.Combine = archive.First
	}
	return b
}

// Products lists the folders.
func (a *Archive) Products() []*archive.Product { return slices.Clone(a.products) }

// Find implements archive.Archive. The rasters are the parts of the files that
// cover the box; files without georeference are taken whole.
func (a *Archive) Find(ctx context.Context, spec archive.Spec) ([]archive.Pending, error) {
	r, err := archive.Resolve(a.products, spec)
	if err != nil {
		return nil, err
	}
	return archive.Plan(ctx, &source{Archive: a, req: r, here: map[string][]file{}}, a.cache, r)
}

// source implements archive.Source and archive.Reader for one request.
type source struct {
	*Archive
	req  *archive.Request
	here map[string][]file // the files that cover the box, by band and in order of time
}

// Key changes whenever one of the product's files does.
func (s *source) Key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "folder %s", s.root)
	for _, f := range s.files[s.req.Product.ID] {
		fmt.Fprintf(&b, "\n%s %d %d", f.path, f.size, f.changed.UnixNano())
	}
	return b.String()
}

// Acquisitions lists the times of the files that have one of the bands and lie
// in the box. Of several files of one band and time the first by name is taken.
func (s *source) Acquisitions(_ context.Context, r *archive.Request, from, to time.Time) ([]time.Time, error) {
	var times []time.Time
	clear(s.here)
	for _, f := range s.files[r.Product.ID] {
		d, v := day(f.name.Date), f.name.Variable
		if d.Before(from) || d.After(to) || !slices.ContainsFunc(r.Bands, func(b *archive.Band) bool { return b.Name == v }) {
			continue
		}
		if n := len(s.here[v]); n > 0 && s.here[v][n-1].name.Date.Equal(f.name.Date) {
			continue
		}
		covers, err := overlaps(f.path, r.Box)
		if err != nil {
			return nil, err
		}
		if !covers {
			continue
		}
		s.here[v] = append(s.here[v], f)
		if n := len(times); n == 0 || !times[n-1].Equal(f.name.Date) {
			times = append(times, f.name.Date)
		}
	}
	return times, nil
}

// overlaps tells whether a file has pixels in the box; one without georeference
// may.
func overlaps(path string, box archive.Box) (bool, error) {
	ds, err := raster.Open(path)
	if err != nil {
		return false, fmt.Errorf("folder archive: %w", err)
	}
	defer ds.Close()
	info := ds.Info()
	if info.Transform.IsZero() {
		return true, nil
	}
	bounds, err := box.Bounds(info.CRS)
	if err != nil {
		return false, fmt.Errorf("folder archive: %s: %w", path, err)
	}
	_, err = info.Window(bounds)
	if errors.Is(err, raster.ErrRange) {
		return false, nil
	}
	return err == nil, err
}

// find returns the file of a band and time.
func (s *source) find(at time.Time, b *archive.Band) (file, bool) {
	for _, f := range s.here[b.Name] {
		if f.name.Date.Equal(at) {
			return f, true
		}
	}
	return file{}, false
}

// Stamp implements archive.Source.
func (s *source) Stamp(_ *archive.Request, at time.Time, b *archive.Band) (time.Time, bool, bool) {
	f, ok := s.find(at, b)
	return at, f.name.Precise == ToMinute, ok
}

func (s *source) Reader(*archive.Request) (archive.Reader, error) { return s, nil }

// Read implements archive.Reader.
func (s *source) Read(_ context.Context, at time.Time, bands []*archive.Band) ([]archive.Layer, error) {
	layers := make([]archive.Layer, len(bands))
	scale := s.req.ScaleM
	if s.req.OwnScale {
		scale = 0
	}
	for i, b := range bands {
		f, ok := s.find(at, b)
		if !ok {
			continue
		}
		var err error
		if layers[i], err = read(f, s.req.Box, scale); err != nil {
			return nil, fmt.Errorf("folder archive: %w", err)
		}
	}
	return layers, nil
}

func read(f file, box archive.Box, scaleM float64) (archive.Layer, error) {
	ds, err := raster.Open(f.path)
	if err != nil {
		return archive.Layer{}, err
	}
	defer ds.Close()
	g, err := archive.ReadBox(ds, 1, box, scaleM)
	if err != nil {
		return archive.Layer{}, fmt.Errorf("%s: %w", f.path, err)
	}
	return archive.Layer{Grid: g, Band: bandOf(ds.Info(), f.name.Variable)}, nil
}
