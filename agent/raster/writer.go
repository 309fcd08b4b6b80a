package raster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Spec says what raster to create.
type Spec struct {
	Width, Height int
	Type          DataType // Float32 if not stated
	NoData        *float64 // written for invalid pixels; nil: NaN in a float raster, an error in an integer one
	Bands         []BandSpec
	CRS           CRS
	Transform     GeoTransform
	Metadata      map[string]string
}

// BandSpec describes a band to create.
type BandSpec struct {
	Description string
	Unit        string
	Scale       float64 // 1 if 0
	Offset      float64
	Metadata    map[string]string
}

func (b BandSpec) scale() float64 {
	if b.Scale == 0 {
		return 1
	}
	return b.Scale
}

// blockSide is the width and height of the tiles that are written, as GDAL's.
const blockSide = 256

// Writer writes a GeoTIFF of deflated tiles, one plane per band. It is not safe for concurrent use.
type Writer struct {
	spec         Spec
	tileW, tileH int
	predictor    int
	nodata       []byte // one sample in little-endian order; nil if there is none
	path, temp   string
	file         *os.File
	at           int64 // end of what is written
	offsets      []int64
	counts       []int64
	failed       error // the first failure; nothing is written after it
	done         bool
}

// Create begins a raster that appears at path, replacing a file that is there, when Close has written it whole; until then, or
// if Abort is called, path is as it was. The disk is not waited for: a raster is a product that can be made again, and one cut
// short by a power failure is refused by [Open]. The bytes written depend on the spec and the samples only.
func Create(path string, spec Spec) (*Writer, error) {
	w, err := newWriter(path, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: exists and is not a regular file: %w", path, ErrRange)
	}
	for range 100 {
		w.temp = filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%08x.tmp", filepath.Base(path), rand.Uint32()))
		w.file, err = os.OpenFile(w.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, os.ErrExist) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// newWriter checks the spec and plans the file.
func newWriter(path string, spec Spec) (*Writer, error) {
	if spec.Type == 0 {
		spec.Type = Float32
	}
	if len(spec.Bands) == 0 {
		spec.Bands = make([]BandSpec, 1)
	}
	switch {
	case spec.Type.Size() == 0:
		return nil, fmt.Errorf("sample type %v: %w", spec.Type, ErrUnsupported)
	case spec.Width <= 0 || spec.Height <= 0 || spec.Width > 1<<31-1 || spec.Height > 1<<31-1:
		return nil, fmt.Errorf("raster of %d×%d pixels: %w", spec.Width, spec.Height, ErrRange)
	case len(spec.Bands) > 1<<16-1:
		return nil, fmt.Errorf("%d bands: %w", len(spec.Bands), ErrRange)
	}
	if _, ok := spec.Transform.Invert(); !ok && !spec.Transform.IsZero() {
		return nil, fmt.Errorf("geotransform %v has no inverse: %w", spec.Transform, ErrRange)
	}
	if _, _, _, err := encodeKeys(spec.CRS); err != nil {
		return nil, err
	}
	w := &Writer{spec: spec, path: path, predictor: predictHorizontal}
	if spec.Type.Float() {
		w.predictor = predictFloat
	}
	// Small rasters take one tile no larger than needed; sides are multiples of 16 as TIFF demands.
	w.tileW, w.tileH = min(blockSide, (spec.Width+15)&^15), min(blockSide, (spec.Height+15)&^15)
	tiles := w.across() * w.down()
	if tiles > maxBlocks || tiles*len(spec.Bands) > maxBlocks {
		return nil, fmt.Errorf("%d bands of %d×%d pixels are more than %d tiles: %w", len(spec.Bands), spec.Width, spec.Height, maxBlocks, ErrTooLarge)
	}
	w.offsets, w.counts = make([]int64, tiles*len(spec.Bands)), make([]int64, tiles*len(spec.Bands))
	w.at = 16 // room for the header of either kind of TIFF, which the final size decides
	if spec.NoData != nil {
		if w.nodata = sampleOf(*spec.NoData, spec.Type); w.nodata == nil {
			return nil, fmt.Errorf("nodata value %g is not a value of %v: %w", *spec.NoData, spec.Type, ErrRange)
		}
	}
	return w, nil
}

func (w *Writer) across() int { return (w.spec.Width + w.tileW - 1) / w.tileW }
func (w *Writer) down() int   { return (w.spec.Height + w.tileH - 1) / w.tileH }

// Windows yields windows of whole tiles that cover the raster, each of about half a million pixels: what [Writer.WriteWindow] takes.
func (w *Writer) Windows() iter.Seq[Window] {
	stepX, stepY := windowStep(w.spec.Width, w.spec.Height, w.tileW, w.tileH)
	return Windows(w.spec.Width, w.spec.Height, stepX, stepY)
}

// WriteBand writes all of a band, counted from 1, from Width·Height values; see [Writer.WriteWindow].
func (w *Writer) WriteBand(band int, data []float32) error {
	return w.WriteWindow(band, Window{0, 0, w.spec.Width, w.spec.Height}, data)
}

// WriteWindow writes a part of a band from win.Width·win.Height values. The window consists of whole tiles: it begins at
// multiples of the tile size and ends at one or at the raster's border, as those of [Writer.Windows]; every tile is written once.
//
// Invalid values (NaN, ±Inf) become the nodata value. Values are rounded to the nearest of an integer type, halves away from
// zero. It is ErrRange if a value does not fit the type, if a valid value would be read back as nodata, or if an integer raster
// without a nodata value gets an invalid one.
func (w *Writer) WriteWindow(band int, win Window, data []float32) error {
	return w.write(band, win, len(data), func(tile []byte, x, y, cols, rows int) error {
		for r := range rows {
			row := data[(y+r)*win.Width+x:][:cols]
			if c, err := encodeRow(tile[r*w.tileW*w.spec.Type.Size():], row, w.spec.Type, w.nodata); err != nil {
				return fmt.Errorf("band %d, column %d, row %d: %w", band, win.X+x+c, win.Y+y+r, err)
			}
		}
		return nil
	})
}

// WriteSamples writes a part of a band as [Writer.WriteWindow] does, but takes stored samples of the raster's own type as they
// are: no value is invalid or out of range.
func WriteSamples[T Sample](w *Writer, band int, win Window, data []T) error {
	if t := typeOf[T](); t != w.spec.Type {
		return fmt.Errorf("%s: samples of %v for a raster of %v: %w", w.path, t, w.spec.Type, ErrRange)
	}
	return w.write(band, win, len(data), func(tile []byte, x, y, cols, rows int) error {
		out := samples[T](tile)
		for r := range rows {
			copy(out[r*w.tileW:], data[(y+r)*win.Width+x:][:cols])
		}
		return nil
	})
}

// write cuts a window into tiles, has fill put each tile's samples, in host order, from the given part of the window, and
// appends the compressed tiles in order.
func (w *Writer) write(band int, win Window, n int, fill func(tile []byte, x, y, cols, rows int) error) error {
	if w.done {
		return fmt.Errorf("%s: write after Close or Abort: %w", w.path, os.ErrClosed)
	}
	if w.failed != nil {
		return w.failed
	}
	tiles, err := w.tilesOf(band, win, n)
	if err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	// A batch of tiles is compressed on all cores and then written in order, so that memory is bounded and the file reproducible.
	const batch = 64
	packed := make([][]byte, min(batch, len(tiles)))
	for len(tiles) > 0 && err == nil {
		k := min(batch, len(tiles))
		err = each(k, func(i int) error {
			t := w.window(tiles[i])
			raw := newBlock(w.tileW * w.tileH * w.spec.Type.Size())
			err := fill(raw, t.X-win.X, t.Y-win.Y, t.Width, t.Height)
			if err == nil {
				packed[i], err = w.pack(raw)
			}
			return err
		})
		for i := 0; i < k && err == nil; i++ {
			at := (band-1)*w.across()*w.down() + tiles[i]
			w.offsets[at], w.counts[at] = w.at, int64(len(packed[i]))
			err = w.append(packed[i])
		}
		tiles = tiles[k:]
	}
	if err != nil {
		w.failed = fmt.Errorf("%s: %w", w.path, err)
	}
	return w.failed
}

// tilesOf returns the indices of the tiles of a window, or ErrRange.
func (w *Writer) tilesOf(band int, win Window, n int) ([]int, error) {
	if band < 1 || band > len(w.spec.Bands) {
		return nil, fmt.Errorf("band %d of a raster with %d (bands count from 1): %w", band, len(w.spec.Bands), ErrRange)
	}
	if err := win.check(w.spec.Width, w.spec.Height); err != nil {
		return nil, err
	}
	if n != win.Pixels() {
		return nil, fmt.Errorf("%d values for a window of %d pixels: %w", n, win.Pixels(), ErrRange)
	}
	whole := func(begin, length, size, end int) bool {
		return begin%size == 0 && ((begin+length)%size == 0 || begin+length == end)
	}
	if !whole(win.X, win.Width, w.tileW, w.spec.Width) || !whole(win.Y, win.Height, w.tileH, w.spec.Height) {
		return nil, fmt.Errorf("window %v does not consist of whole tiles of %d×%d pixels (use Writer.Windows): %w", win, w.tileW, w.tileH, ErrRange)
	}
	var tiles []int
	for y := win.Y; y < win.Y+win.Height; y += w.tileH {
		for x := win.X; x < win.X+win.Width; x += w.tileW {
			i := y/w.tileH*w.across() + x/w.tileW
			if w.counts[(band-1)*w.across()*w.down()+i] != 0 {
				return nil, fmt.Errorf("window %v of band %d was written before: %w", w.window(i), band, ErrRange)
			}
			tiles = append(tiles, i)
		}
	}
	return tiles, nil
}

// window returns the part of the raster that a tile covers.
func (w *Writer) window(tile int) Window {
	x, y := tile%w.across()*w.tileW, tile/w.across()*w.tileH
	return Window{x, y, min(w.tileW, w.spec.Width-x), min(w.tileH, w.spec.Height-y)}
}

// pack predicts and compresses a tile of samples in host order.
func (w *Writer) pack(raw []byte) ([]byte, error) {
	size := w.spec.Type.Size()
	rowBytes := w.tileW * size
	if w.predictor == predictFloat {
		if hostOrder != binary.LittleEndian {
			swapBytes(raw, size)
		}
		out := make([]byte, len(raw))
		for i := 0; i < len(raw); i += rowBytes {
			predictFloatRow(out[i:i+rowBytes], raw[i:i+rowBytes], size)
		}
		return deflate(out)
	}
	switch size {
	case 1:
		differences(raw, w.tileW)
	case 2:
		differences(samples[uint16](raw), w.tileW)
	case 4:
		differences(samples[uint32](raw), w.tileW)
	case 8:
		differences(samples[uint64](raw), w.tileW)
	}
	if hostOrder != binary.LittleEndian {
		swapBytes(raw, size)
	}
	return deflate(raw)
}

// append writes b at the end of the file.
func (w *Writer) append(b []byte) error {
	_, err := w.file.WriteAt(b, w.at)
	w.at += int64(len(b))
	return err
}

// Close completes the raster and puts it in place. It is ErrRange if a tile was never written. After a failure the file at path
// is as it was before Create.
func (w *Writer) Close() error {
	if w.done {
		return nil
	}
	defer w.Abort()
	if w.failed != nil {
		return w.failed
	}
	missing := 0
	for _, n := range w.counts {
		if n == 0 {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%s: %d of %d tiles were never written: %w", w.path, missing, len(w.counts), ErrRange)
	}
	if err := w.finish(); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if err := w.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(w.temp, w.path); err != nil {
		return err
	}
	w.done = true
	return nil
}

// Abort drops the raster unless Close has put it in place; it is meant to be deferred.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.file.Close() // may be closed already; the file is dropped in any case
	os.Remove(w.temp)
}

// Save writes grids as the bands of a raster. Size, coordinate system and transform come from the first grid, which the others
// must match; spec gives the rest, its Bands in the grids' order if there are any.
func Save(path string, spec Spec, grids ...*Grid) error {
	if len(grids) == 0 {
		return fmt.Errorf("%s: no bands to save: %w", path, ErrRange)
	}
	if len(spec.Bands) == 0 {
		spec.Bands = make([]BandSpec, len(grids))
	}
	if len(spec.Bands) != len(grids) {
		return fmt.Errorf("%s: %d band descriptions for %d grids: %w", path, len(spec.Bands), len(grids), ErrRange)
	}
	g := grids[0]
	for i, h := range grids[1:] {
		if err := g.Match(h); err != nil {
			return fmt.Errorf("%s: bands 1 and %d: %w", path, i+2, err)
		}
	}
	spec.Width, spec.Height, spec.CRS, spec.Transform = g.Width, g.Height, g.CRS, g.Transform
	w, err := Create(path, spec)
	if err != nil {
		return err
	}
	defer w.Abort()
	for i, g := range grids {
		if err := w.WriteBand(i+1, g.Data); err != nil {
			return err
		}
	}
	return w.Close()
}

var _ io.Closer = (*Writer)(nil)
