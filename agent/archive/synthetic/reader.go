package synthetic

import (
	"context"
	"math"
	"sync"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/archive/world"
	"terraloom/agent/raster"
)

// mode is how far the observation goes.
type mode uint8

const (
	observed mode = iota // what the satellite delivers
	surface              // the state of the surface
	normal               // the state of the surface without weather
)

const (
	stripPixels = 1 << 16 // worked on at once
	keptPixels  = 1 << 18 // up to which the unchanging parts of a request are kept
)

// reader renders the rasters of one request.
type reader struct {
	req    *archive.Request
	cols   []int64 // the product's own columns that the request's pixels lie in, each once
	col    []int   // of each column of the request, its index in cols
	rows   []int64
	row    []int
	res    float64 // degrees of the product's own pixels
	strips []strip
}

// strip is a range of rows.
type strip struct {
	from, to int // of reader.rows
	patch    func() *world.Patch
}

func newReader(w *world.World, r *archive.Request) (*reader, error) {
	own := archive.NewGrid(r.Box, r.Product.Resolution)
	rd := &reader{req: r, res: own.Res}
	lons, lats := make([]float64, r.Grid.Width), make([]float64, r.Grid.Height)
	for i := range lons {
		lons[i], _ = r.Grid.Centre(i, 0)
	}
	for j := range lats {
		_, lats[j] = r.Grid.Centre(0, j)
	}
	rd.cols, rd.col = rd.cells(lons)
	rd.rows, rd.row = rd.cells(lats)
	lon, lat := rd.centres(rd.cols), rd.centres(rd.rows)
	step := max(stripPixels/len(rd.cols), 1)
	keep := len(rd.cols)*len(rd.rows) <= keptPixels
	for from := 0; from < len(lat); from += step {
		s := strip{from: from, to: min(from+step, len(lat))}
		s.patch = func() *world.Patch {
			return w.Patch(world.Axes{Lon: lon, Lat: lat[s.from:s.to], Footprint: rd.res})
		}
		if keep {
			s.patch = sync.OnceValue(s.patch)
		}
		rd.strips = append(rd.strips, s)
	}
	return rd, nil
}

// cells returns the product's own cells that the positions lie in, each once and
// in order, and for each position the index of its cell.
func (rd *reader) cells(positions []float64) (cells []int64, index []int) {
	index = make([]int, len(positions))
	for i, v := range positions {
		c := int64(math.Floor(v / rd.res))
		if n := len(cells); n == 0 || cells[n-1] != c {
			cells = append(cells, c)
		}
		index[i] = len(cells) - 1
	}
	return cells, index
}

func (rd *reader) centres(cells []int64) []float64 {
	out := make([]float64, len(cells))
	for i, c := range cells {
		out[i] = (float64(c) + 0.5) * rd.res
	}
	return out
}

// Read implements archive.Reader.
func (rd *reader) Read(ctx context.Context, day time.Time, bands []*archive.Band) ([]archive.Layer, error) {
	grids, err := rd.render(ctx, day, bands, observed)
	if err != nil {
		return nil, err
	}
	layers := make([]archive.Layer, len(bands))
	for i, b := range bands {
		layers[i] = archive.Layer{Grid: grids[i], Band: *b}
	}
	return layers, nil
}

// render makes the rasters of a day: stored values if observed, else physical ones.
func (rd *reader) render(ctx context.Context, day time.Time, bands []*archive.Band, m mode) ([]*raster.Grid, error) {
	g := rd.req.Grid
	grids := make([]*raster.Grid, len(bands))
	for i := range grids {
		var err error
		if grids[i], err = raster.NewGrid(g.Width, g.Height, raster.WGS84, g.Transform()); err != nil {
			return nil, err
		}
	}
	j := 0 // row of the request
	for _, s := range rd.strips {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v := rd.view(s, day, m)
		first := j
		for i, b := range bands {
			values, err := v.measure(b)
			if err != nil {
				return nil, err
			}
			if m == observed {
				store(values, b)
			}
			for j = first; j < g.Height && rd.row[j] < s.to; j++ {
				src := values[(rd.row[j]-s.from)*len(rd.cols):]
				dst := grids[i].Row(j)
				for c, at := range rd.col {
					dst[c] = src[at]
				}
			}
		}
	}
	return grids, nil
}

// store turns physical values into stored ones; NaN stays.
func store(values []float32, b *archive.Band) {
	for i, v := range values {
		if v == v {
			values[i] = float32(b.Stored(float64(v)))
		}
	}
}

// view is a strip on one day as a product sees it.
type view struct {
	*world.Scene
	product *archive.Product
	day     time.Time
	mode    mode
	cols    []int64
	rows    []int64
}

func (rd *reader) view(s strip, day time.Time, m mode) *view {
	p := rd.req.Product
	first, span := archive.DayNumber(day), 1
	switch {
	case p.ClearOf > 0:
		first, span = first-p.ClearOf/2, p.ClearOf
	case p.Days(day) > 366: // the state of its first year
		first, span = first+182, 1
	default:
		span = p.Days(day)
	}
	v := &view{product: p, day: day, mode: m, cols: rd.cols, rows: rd.rows[s.from:s.to]}
	if m == normal {
		v.Scene = s.patch().Mean(first, span)
	} else {
		v.Scene = s.patch().Scene(first, span)
	}
	return v
}

// grain returns random numbers of zero mean and unit variance, about normally
// distributed: one per pixel, the same for a pixel, day and salt in any request.
func (v *view) grain(salt string) func(i int) float64 {
	seed := v.Salt(v.product.ID+"/"+salt, archive.DayNumber(v.day))
	width := len(v.cols)
	return func(i int) float64 { return world.Normal(seed, v.cols[i%width], v.rows[i/width]) }
}
