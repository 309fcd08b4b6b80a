package raster

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Dataset is an open raster. It is safe for concurrent use until it is closed.
type Dataset struct {
	name   string
	file   io.Closer // nil if the caller owns the file
	info   Info
	layout layout
	src    source
	cache  *blockCache

	nodata noData
	mask   *Dataset // internal mask: 0 marks a pixel of every band as invalid
	alpha  int      // 1-based band of opacity, 0 if there is none
}

// Open opens a raster file. The format is told from the content, not from the name. A build with the tag gdal also opens the
// formats listed at [Warp], and takes "FILE#VARIABLE" for one variable of a netCDF or HDF file.
//
// Errors: those of package os; ErrFormat, ErrUnsupported, ErrTooLarge.
func Open(path string) (*Dataset, error) {
	st, err := os.Stat(path) // before opening it: opening a pipe waits for its other end
	if err != nil {
		if file, variable, ok := cutVariable(path); ok {
			return openGDAL(file, variable)
		}
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file: %w", path, ErrFormat)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 12)
	if n, _ := f.ReadAt(head, 0); withGDAL && headFormat(head[:n]) != "" {
		f.Close()
		return openGDAL(path, "")
	}
	ds, err := OpenReader(f, st.Size(), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	ds.file = f
	return ds, nil
}

// cutVariable splits FILE#VARIABLE if FILE exists.
func cutVariable(path string) (file, variable string, ok bool) {
	i := strings.LastIndexByte(path, '#')
	if i <= 0 || i == len(path)-1 {
		return "", "", false
	}
	st, err := os.Stat(path[:i])
	return path[:i], path[i+1:], err == nil && st.Mode().IsRegular()
}

// OpenReader opens a raster of size bytes that r holds. The name is for messages. r must stay readable until the Dataset is
// closed, which does not close r.
func OpenReader(r io.ReaderAt, size int64, name string) (*Dataset, error) {
	head := make([]byte, 12)
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	head = head[:n]
	var ds *Dataset
	switch {
	case isTIFF(head):
		ds, err = openTIFF(r, size)
	case isPicture(head):
		ds, err = openPicture(r, size)
	default:
		err = fmt.Errorf("%s: %w", describeHead(head), ErrFormat)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	ds.setName(name)
	return ds, nil
}

// describeHead says what the first bytes of an unknown file look like, with a hint for formats that GDAL reads.
func describeHead(head []byte) string {
	if f := headFormat(head); f != "" {
		return f + " (this build reads GeoTIFF, PNG and JPEG; convert with gdal_translate, or build with -tags gdal)"
	}
	return fmt.Sprintf("begins with %q; GeoTIFF, PNG or JPEG expected", head)
}

// headFormat names the formats that only GDAL reads, by their first bytes.
func headFormat(head []byte) string {
	switch h := string(head); {
	case strings.HasPrefix(h, "\x00\x00\x00\x0cjP  "), strings.HasPrefix(h, "\xff\x4f\xff\x51"):
		return "JPEG 2000"
	case strings.HasPrefix(h, "\x89HDF"):
		return "netCDF or HDF5"
	case strings.HasPrefix(h, "CDF\x01"), strings.HasPrefix(h, "CDF\x02"), strings.HasPrefix(h, "CDF\x05"):
		return "netCDF"
	case strings.HasPrefix(h, "\x0e\x03\x13\x01"):
		return "HDF4"
	}
	return ""
}

func newDataset(info Info, l layout, src source) *Dataset {
	info.Width, info.Height, info.Type = l.width, l.height, l.kind
	info.BlockWidth, info.BlockHeight, info.Interleaved = l.blockW, l.blockH, l.interleaved
	return &Dataset{info: info, layout: l, src: src, cache: newBlockCache(l.blockBytes(), src.decode)}
}

func (d *Dataset) setName(name string) {
	d.name = name
	if d.mask != nil {
		d.mask.name = name + " (mask)"
	}
}

// Close releases the raster.
func (d *Dataset) Close() error {
	err := d.src.Close()
	if d.file != nil {
		if e := d.file.Close(); err == nil {
			err = e
		}
	}
	return err
}

// Info describes the raster. The caller may change the result.
func (d *Dataset) Info() Info {
	i := d.info
	i.Metadata = maps.Clone(i.Metadata)
	i.Bands = slices.Clone(i.Bands)
	for k := range i.Bands {
		i.Bands[k].Metadata = maps.Clone(i.Bands[k].Metadata)
	}
	return i
}

// Windows yields windows of whole blocks that cover the raster, each of about half a million pixels: the order and size in which a
// raster of any size is read fastest in bounded memory.
func (d *Dataset) Windows() iter.Seq[Window] {
	stepX, stepY := windowStep(d.layout.width, d.layout.height, d.layout.blockW, d.layout.blockH)
	return Windows(d.layout.width, d.layout.height, stepX, stepY)
}

// ReadBand returns all of a band, counted from 1. Invalid pixels are NaN. A band of more than [MaxBytes] is ErrTooLarge: read it
// in [Dataset.Windows].
func (d *Dataset) ReadBand(band int) (*Grid, error) {
	grids, err := d.ReadBands(band)
	if err != nil {
		return nil, err
	}
	return grids[0], nil
}

// ReadBands returns the given bands, or all of them if none is given, decoding each block once.
func (d *Dataset) ReadBands(bands ...int) ([]*Grid, error) {
	bands, err := d.bands(bands)
	if err != nil {
		return nil, err
	}
	grids := make([]*Grid, len(bands))
	for i := range grids {
		if grids[i], err = NewGrid(d.layout.width, d.layout.height, d.info.CRS, d.info.Transform); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	windows := slices.Collect(d.Windows())
	err = eachOn(readers(), len(windows), func(i int) error {
		for w := range d.pieces(windows[i], len(bands)) {
			for k, band := range bands {
				if err := readValid(d, band, w, grids[k].Data[w.Y*d.layout.width+w.X:], d.layout.width); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return grids, nil
}

// readers is the number of goroutines of a pass over a raster. It is bounded, as each holds a window and its blocks.
func readers() int { return min(8, runtime.GOMAXPROCS(0)) }

// pieces yields the parts of w, a window of whole blocks, in which several bands are read one after the other: single blocks where
// the bands share them, so that a block is decoded once however small the cache is, else w itself.
func (d *Dataset) pieces(w Window, bands int) iter.Seq[Window] {
	stepX, stepY := w.Width, w.Height
	if d.layout.interleaved && bands > 1 {
		stepX, stepY = d.layout.blockW, d.layout.blockH
	}
	return func(yield func(Window) bool) {
		for p := range Windows(w.Width, w.Height, stepX, stepY) {
			p.X, p.Y = p.X+w.X, p.Y+w.Y
			if !yield(p) {
				return
			}
		}
	}
}

// bands checks band numbers; none means all.
func (d *Dataset) bands(bands []int) ([]int, error) {
	if len(bands) == 0 {
		for b := range d.layout.bands {
			bands = append(bands, b+1)
		}
		return bands, nil
	}
	for _, b := range bands {
		if b < 1 || b > d.layout.bands {
			return nil, fmt.Errorf("%s: band %d of a raster with %d (bands count from 1): %w", d.name, b, d.layout.bands, ErrRange)
		}
	}
	return bands, nil
}

// ReadWindow returns a part of a band. Invalid pixels are NaN; the grid's transform is that of the window.
func (d *Dataset) ReadWindow(band int, w Window) (*Grid, error) {
	if err := d.check(band, w); err != nil {
		return nil, err
	}
	g, err := NewGrid(w.Width, w.Height, d.info.CRS, d.info.Transform.At(w.X, w.Y))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	if err := readValid(d, band, w, g.Data, w.Width); err != nil {
		return nil, err
	}
	return g, nil
}

// ReadInto is ReadWindow into the caller's memory: dst has w.Width·w.Height values.
func (d *Dataset) ReadInto(band int, w Window, dst []float32) error {
	if err := d.checkDst(band, w, len(dst)); err != nil {
		return err
	}
	return readValid(d, band, w, dst, w.Width)
}

// ReadSamples reads stored samples without regard to nodata, masks, scale or offset, exactly: T is the type of the file or one
// that holds all its values, else ErrRange. dst has w.Width·w.Height values; [Dataset.ReadMask] tells which of them are valid.
func ReadSamples[T Sample](d *Dataset, band int, w Window, dst []T) error {
	if err := d.checkDst(band, w, len(dst)); err != nil {
		return err
	}
	if err := checkFits[T](d.layout.kind); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return d.visit(band, w, func(r region, x, y int) {
		copyAny(d.layout.kind, dst[y*w.Width+x:], w.Width, r)
	})
}

// ReadMask sets dst, of w.Width·w.Height values, to whether each pixel of the band is valid.
func (d *Dataset) ReadMask(band int, w Window, dst []bool) error {
	if err := d.checkDst(band, w, len(dst)); err != nil {
		return err
	}
	row := make([]float64, w.Width) // float64, as a large integer sample is not invalid for being rounded
	for y := range w.Height {
		if err := readValid(d, band, Window{w.X, w.Y + y, w.Width, 1}, row, w.Width); err != nil {
			return err
		}
		for x, v := range row {
			dst[y*w.Width+x] = finite(v)
		}
	}
	return nil
}

// Stats summarises the given bands, or all of them if none is given, in one pass and in bounded memory, with the samples' own
// precision. The result does not depend on the number of cores.
func (d *Dataset) Stats(bands ...int) ([]Stats, error) {
	bands, err := d.bands(bands)
	if err != nil {
		return nil, err
	}
	windows := slices.Collect(d.Windows())
	parts := make([][]Stats, len(windows))
	var narrow, wide sync.Pool // buffers of earlier windows
	err = eachOn(readers(), len(windows), func(i int) error {
		parts[i] = make([]Stats, len(bands))
		if d.layout.kind.exactIn(Float32) {
			return windowStats[float32](d, bands, windows[i], parts[i], &narrow)
		}
		return windowStats[float64](d, bands, windows[i], parts[i], &wide)
	})
	if err != nil {
		return nil, err
	}
	out := make([]Stats, len(bands))
	for _, p := range parts {
		for k := range out {
			out[k].Merge(p[k])
		}
	}
	return out, nil
}

// windowStats adds the pixels of w to out, which has an entry per band.
func windowStats[T float32 | float64](d *Dataset, bands []int, w Window, out []Stats, buffers *sync.Pool) error {
	buf, ok := buffers.Get().(*[]T)
	if !ok || len(*buf) < w.Pixels() {
		buf = new(make([]T, w.Pixels()))
	}
	defer buffers.Put(buf)
	for p := range d.pieces(w, len(bands)) {
		for k, band := range bands {
			values := (*buf)[:p.Pixels()]
			if err := readValid(d, band, p, values, p.Width); err != nil {
				return err
			}
			for len(values) > 0 {
				n := min(statBlock, len(values))
				out[k].Merge(summarizeBlock(values[:n]))
				values = values[n:]
			}
		}
	}
	return nil
}

func (d *Dataset) check(band int, w Window) error {
	if _, err := d.bands([]int{band}); err != nil {
		return err
	}
	if err := w.check(d.layout.width, d.layout.height); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

func (d *Dataset) checkDst(band int, w Window, n int) error {
	if err := d.check(band, w); err != nil {
		return err
	}
	if n != w.Pixels() {
		return fmt.Errorf("%s: buffer of %d values for a window of %d pixels: %w", d.name, n, w.Pixels(), ErrRange)
	}
	return nil
}

// readValid reads a checked window into dst, with rows of stride values, and sets invalid pixels to NaN.
func readValid[T float32 | float64](d *Dataset, band int, w Window, dst []T, stride int) error {
	err := d.visit(band, w, func(r region, x, y int) {
		copyValid(d.layout.kind, dst[y*stride+x:], stride, r, d.nodata.sample)
	})
	if err != nil {
		return err
	}
	if d.mask != nil {
		if err := blank(d.mask, 1, w, dst, stride); err != nil {
			return err
		}
	}
	if d.alpha > 0 && band != d.alpha {
		return blank(d, d.alpha, w, dst, stride)
	}
	return nil
}

// blank sets dst to NaN where the given band of m is 0.
func blank[T float32 | float64](m *Dataset, band int, w Window, dst []T, stride int) error {
	nan := T(math.NaN())
	opaque := make([]T, w.Width)
	for y := range w.Height {
		err := m.visit(band, Window{w.X, w.Y + y, w.Width, 1}, func(r region, x, _ int) {
			copyAny(m.layout.kind, opaque[x:], w.Width, r)
		})
		if err != nil {
			return err
		}
		row := dst[y*stride : y*stride+w.Width]
		for x, o := range opaque {
			if o == 0 {
				row[x] = nan
			}
		}
	}
	return nil
}

// visit calls f for every block that a checked window touches, with the part of it that the window covers and that part's
// position in the window.
func (d *Dataset) visit(band int, w Window, f func(r region, x, y int)) error {
	l := d.layout
	plane, spp := band-1, 1
	if l.interleaved {
		plane, spp = 0, l.bands
	}
	for by := w.Y / l.blockH; by*l.blockH < w.Y+w.Height; by++ {
		for bx := w.X / l.blockW; bx*l.blockW < w.X+w.Width; bx++ {
			block, err := d.cache.get(blockKey{plane, by*l.across() + bx})
			if err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
			x0, y0 := max(w.X, bx*l.blockW), max(w.Y, by*l.blockH)
			x1, y1 := min(w.X+w.Width, (bx+1)*l.blockW), min(w.Y+w.Height, (by+1)*l.blockH)
			r := region{block: block, pixel: spp, row: l.blockW * spp, cols: x1 - x0, rows: y1 - y0}
			r.first = ((y0-by*l.blockH)*l.blockW + x0 - bx*l.blockW) * spp
			if l.interleaved {
				r.first += band - 1
			}
			f(r, x0-w.X, y0-w.Y)
		}
	}
	return nil
}
