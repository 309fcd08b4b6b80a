package raster

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
)

// layout says how the samples of a raster lie in its blocks.
type layout struct {
	width, height int
	bands         int
	kind          DataType
	blockW        int
	blockH        int
	interleaved   bool // a block holds all bands of its pixels; otherwise those of one band
	shortLast     bool // blocks at the lower border end with the raster (strips); tiles are always whole
}

func (l layout) across() int { return (l.width + l.blockW - 1) / l.blockW }
func (l layout) down() int   { return (l.height + l.blockH - 1) / l.blockH }

// samplesPerPixel is the number of samples of a pixel within a block.
func (l layout) samplesPerPixel() int {
	if l.interleaved {
		return l.bands
	}
	return 1
}

// rows returns the rows that the block holds.
func (l layout) rows(index int) int {
	if l.shortLast {
		return min(l.blockH, l.height-index/l.across()*l.blockH)
	}
	return l.blockH
}

// blockBytes returns the decoded bytes of a whole block.
func (l layout) blockBytes() int { return l.blockW * l.blockH * l.samplesPerPixel() * l.kind.Size() }

// source gives the decoded blocks of an open raster, in host byte order. decode is safe for concurrent use.
type source interface {
	decode(key blockKey) ([]byte, error)
	Close() error
}

// tiffImage is one image of a TIFF.
type tiffImage struct {
	layout
	dir         *directory
	compression uint64
	predictor   uint64
	bits        int // per sample in the file: 1 or those of kind
	offsets     []uint64
	counts      []uint64
	perPlane    int    // stored strips or tiles of a plane
	stripRows   int    // > 0: an uncompressed image in strips of so many rows; blocks are any blockH rows of it
	fill        []byte // one sample in host order: the value of blocks that are not stored
	alpha       int    // 1-based band of opacity, 0 if there is none
}

func (t *tiffImage) Close() error { return nil }

// newTIFFImage reads the description of an image. It allocates no more than the file is large.
func newTIFFImage(d *directory) (*tiffImage, error) {
	t := &tiffImage{dir: d}
	var errs []error
	get := func(tag uint16, missing uint64) uint64 {
		v, err := d.uint(tag, missing)
		errs = append(errs, err)
		return v
	}
	width, height := get(tagImageWidth, 0), get(tagImageLength, 0)
	bands, planar := get(tagSamplesPerPixel, 1), get(tagPlanarConfig, 1)
	bits, format := get(tagBitsPerSample, 1), get(tagSampleFormat, 1)
	fillOrder, photometric := get(tagFillOrder, 1), get(tagPhotometric, 1)
	t.compression, t.predictor = get(tagCompression, compNone), get(tagPredictor, predictNone)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	switch {
	case width == 0 || height == 0 || width > math.MaxInt32 || height > math.MaxInt32:
		return nil, fmt.Errorf("image of %d×%d pixels: %w", width, height, ErrFormat)
	case bands == 0 || bands > math.MaxUint16:
		return nil, fmt.Errorf("%d samples per pixel: %w", bands, ErrFormat)
	case planar != 1 && planar != 2:
		return nil, fmt.Errorf("planar configuration %d: %w", planar, ErrFormat)
	case maxRatio[t.compression] == 0:
		return nil, fmt.Errorf("compression %s (supported: none, lzw, deflate, zstd; rewrite with gdal_translate -co COMPRESS=DEFLATE): %w",
			compressionName(t.compression), ErrUnsupported)
	case photometric == 6: // its chroma samples are fewer than its pixels
		return nil, fmt.Errorf("YCbCr samples: %w", ErrUnsupported)
	case fillOrder != 1:
		return nil, fmt.Errorf("fill order %d: %w", fillOrder, ErrUnsupported)
	}
	t.width, t.height, t.bands = int(width), int(height), int(bands)
	t.interleaved = planar == 1 && bands > 1
	if err := t.sampleType(bits, format); err != nil {
		return nil, err
	}
	switch {
	case t.compression == compNone:
		t.predictor = predictNone // TIFF 6.0 defines predictors for compressed data only
	case t.predictor < predictNone || t.predictor > predictFloat:
		return nil, fmt.Errorf("predictor %d: %w", t.predictor, ErrUnsupported)
	case t.predictor == predictFloat && !t.kind.Float(), t.predictor != predictNone && t.bits == 1:
		return nil, fmt.Errorf("predictor %d on %d-bit %v samples: %w", t.predictor, t.bits, t.kind, ErrFormat)
	}
	if err := t.blocks(); err != nil {
		return nil, err
	}
	return t, t.extraSamples()
}

// sampleType sets the sample type; all bands must share it.
func (t *tiffImage) sampleType(bits, format uint64) error {
	for _, tag := range [2]uint16{tagBitsPerSample, tagSampleFormat} {
		all, err := t.dir.uints(tag, math.MaxUint16)
		if err != nil {
			return err
		}
		for _, v := range all {
			if v != all[0] {
				return fmt.Errorf("bands of different sample types (tag %d: %v): %w", tag, all[:min(len(all), 8)], ErrUnsupported)
			}
		}
	}
	types := map[[2]uint64]DataType{
		{1, 1}: Uint8, {8, 1}: Uint8, {16, 1}: Uint16, {32, 1}: Uint32, {64, 1}: Uint64,
		{8, 2}: Int8, {16, 2}: Int16, {32, 2}: Int32, {64, 2}: Int64,
		{32, 3}: Float32, {64, 3}: Float64,
	}
	if format == 4 { // "undefined": readers treat it as unsigned
		format = 1
	}
	kind, ok := types[[2]uint64{bits, format}]
	if !ok {
		return fmt.Errorf("%d-bit samples of format %d (supported: 8 to 64-bit integers, 32 and 64-bit floats): %w", bits, format, ErrUnsupported)
	}
	if bits == 1 && t.bands > 1 {
		return fmt.Errorf("1-bit samples in %d bands: %w", t.bands, ErrUnsupported)
	}
	t.kind, t.bits = kind, int(bits)
	return nil
}

// blocks sets the block layout and reads where the blocks lie.
func (t *tiffImage) blocks() error {
	d := t.dir
	offsetTag, countTag := uint16(tagStripOffsets), uint16(tagStripByteCounts)
	_, tiled := d.fields[tagTileWidth]
	blockW, blockH := uint64(t.width), uint64(0)
	var err error
	if tiled {
		offsetTag, countTag = tagTileOffsets, tagTileByteCounts
		if blockW, err = d.uint(tagTileWidth, 0); err != nil {
			return err
		}
		if blockH, err = d.uint(tagTileLength, 0); err != nil {
			return err
		}
	} else {
		if blockH, err = d.uint(tagRowsPerStrip, math.MaxUint32); err != nil {
			return err
		}
		blockH = min(blockH, uint64(t.height))
	}
	if blockW == 0 || blockH == 0 || blockW > math.MaxInt32 || blockH > math.MaxInt32 {
		return fmt.Errorf("blocks of %d×%d pixels: %w", blockW, blockH, ErrFormat)
	}
	t.blockW, t.blockH, t.shortLast = int(blockW), int(blockH), !tiled

	t.perPlane = t.across() * t.down() // each factor is below 2³¹
	planes := t.bands / t.samplesPerPixel()
	if t.perPlane > maxBlocks || t.perPlane*planes > maxBlocks {
		return fmt.Errorf("more than %d strips or tiles: %w", maxBlocks, ErrUnsupported)
	}
	n := uint64(t.perPlane * planes)
	if t.offsets, err = d.uints(offsetTag, maxBlocks); err != nil {
		return err
	}
	if t.counts, err = d.uints(countTag, maxBlocks); err != nil {
		return err
	}
	if uint64(len(t.offsets)) < n || uint64(len(t.counts)) < n {
		return fmt.Errorf("%d blocks needed, %d offsets and %d byte counts present: %w", n, len(t.offsets), len(t.counts), ErrFormat)
	}
	pixelBytes := uint64(t.samplesPerPixel() * t.kind.Size())
	rowBytes := blockW * pixelBytes // below 2³¹·2¹⁶·2³
	if t.compression == compNone && !tiled && t.bits != 1 {
		// Rows of uncompressed strips can be read on their own: about a megabyte at a time, however large or small the strips are.
		t.stripRows = t.blockH
		t.blockH = min(t.height, max(1, int(1<<20/rowBytes)))
	}
	if uint64(t.blockH) > maxBlockBytes/rowBytes {
		return fmt.Errorf("blocks of %d×%d pixels with %d bytes each decode to more than %d MiB (rewrite with gdal_translate -co TILED=YES): %w",
			t.blockW, t.blockH, pixelBytes, maxBlockBytes>>20, ErrTooLarge)
	}
	return nil
}

// extraSamples finds the alpha band.
func (t *tiffImage) extraSamples() error {
	extra, err := t.dir.uints(tagExtraSamples, math.MaxUint16)
	if err != nil {
		return err
	}
	if len(extra) > t.bands {
		return fmt.Errorf("%d extra samples in %d bands: %w", len(extra), t.bands, ErrFormat)
	}
	for i, v := range extra {
		if v == 1 || v == 2 { // associated or unassociated alpha
			t.alpha = t.bands - len(extra) + i + 1
		}
	}
	return nil
}

// decode reads and decodes one block.
func (t *tiffImage) decode(key blockKey) ([]byte, error) {
	rowBytes := t.blockW * t.samplesPerPixel() * t.kind.Size()
	need := t.rows(key.index) * rowBytes
	if at := key.plane*t.perPlane + key.index; t.stripRows == 0 && !t.sparse(at) {
		// Memory is set aside only for what the file can hold.
		if most := t.counts[at]*uint64(maxRatio[t.compression]) + 4096; uint64(t.packed(need)) > most {
			return nil, fmt.Errorf("strip or tile %d: %d bytes of %s cannot hold %d: %w", at, t.counts[at], compressionName(t.compression), need, ErrFormat)
		}
	}
	out := newBlock(need)
	if t.stripRows == 0 {
		if err := t.decodeStored(key.plane, key.index, 0, out); err != nil {
			return nil, err
		}
		return out, nil
	}
	y := key.index * t.blockH
	for b := out; len(b) > 0; {
		strip, first := y/t.stripRows, y%t.stripRows
		n := min(t.stripRows-first, len(b)/rowBytes)
		if err := t.decodeStored(key.plane, strip, first*rowBytes, b[:n*rowBytes]); err != nil {
			return nil, err
		}
		b, y = b[n*rowBytes:], y+n
	}
	return out, nil
}

// decodeStored fills out with the samples of a stored strip or tile, from its byte skip on; skip is 0 unless it is uncompressed.
func (t *tiffImage) decodeStored(plane, index, skip int, out []byte) error {
	at := plane*t.perPlane + index
	var err error
	if t.sparse(at) {
		for i := 0; len(t.fill) > 0 && i < len(out); i += len(t.fill) {
			copy(out[i:], t.fill)
		}
	} else {
		err = t.decodeAt(t.offsets[at], t.counts[at], uint64(skip), out)
	}
	if err != nil {
		return fmt.Errorf("strip or tile %d: %w", at, err)
	}
	return nil
}

// sparse reports whether a block is left out of the file, as it holds no data.
func (t *tiffImage) sparse(at int) bool { return t.offsets[at] == 0 && t.counts[at] == 0 }

// packed returns the decoded bytes of a block in the file, given those in memory: 1-bit samples take a byte each in memory.
func (t *tiffImage) packed(n int) int {
	if t.bits == 1 {
		return n / t.blockW * ((t.blockW + 7) / 8)
	}
	return n
}

func (t *tiffImage) decodeAt(offset, count, skip uint64, out []byte) error {
	f, size := t.dir.f, t.kind.Size()
	body := out // the block as stored
	if t.bits == 1 {
		body = make([]byte, t.packed(len(out)))
	}
	if offset > uint64(f.size) || count > uint64(f.size)-offset {
		return fmt.Errorf("bytes %d to %d of a file of %d: %w", offset, offset+count, f.size, ErrFormat)
	}
	if t.compression == compNone {
		if count < skip+uint64(len(body)) {
			return fmt.Errorf("holds %d bytes, %d expected: %w", count, skip+uint64(len(body)), ErrFormat)
		}
		if n, err := f.r.ReadAt(body, int64(offset+skip)); n < len(body) {
			return readError(err)
		}
	} else {
		count = min(count, 2*uint64(len(body))+1<<16) // no scheme makes blocks larger than this
		src := scratch.Get().(*[]byte)
		defer scratch.Put(src)
		if uint64(cap(*src)) < count {
			*src = make([]byte, count)
		}
		*src = (*src)[:count]
		if n, err := f.r.ReadAt(*src, int64(offset)); n < len(*src) {
			return readError(err)
		}
		if err := decompress(t.compression, body, *src); err != nil {
			return err
		}
	}
	if t.bits == 1 {
		unpackBits(out, body, t.blockW)
		return nil
	}
	unpredict(t.predictor, out, t.blockW*t.samplesPerPixel()*size, size, t.samplesPerPixel(), f.order)
	return nil
}

// scratch keeps buffers for compressed blocks.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// unpackBits spreads rows of packed bits, the most significant first, to a byte per sample.
func unpackBits(dst, src []byte, width int) {
	stride := (width + 7) / 8
	for len(dst) >= width && len(src) >= stride {
		for x := range width {
			dst[x] = src[x/8] >> (7 - x%8) & 1
		}
		dst, src = dst[width:], src[stride:]
	}
}

// openTIFF reads the description of a TIFF and returns it as a Dataset without a name.
func openTIFF(r io.ReaderAt, size int64) (*Dataset, error) {
	dirs, err := readDirectories(r, size)
	if err != nil {
		return nil, err
	}
	img, err := newTIFFImage(dirs[0])
	if err != nil {
		return nil, err
	}
	info := Info{Format: "GTiff", Compression: compressionName(img.compression), HasMask: img.alpha > 0}
	info.Bands = make([]BandInfo, img.bands)
	for i := range info.Bands {
		info.Bands[i] = BandInfo{Scale: 1, Alpha: i+1 == img.alpha}
	}
	if info.CRS, info.PointSampled, err = readCRS(dirs[0]); err != nil {
		return nil, err
	}
	if info.Transform, err = readTransform(dirs[0], info.PointSampled); err != nil {
		return nil, err
	}
	text, err := dirs[0].text(tagGDALMetadata)
	if err != nil {
		return nil, err
	}
	if text != "" {
		if err := parseMetadata(text, &info); err != nil {
			return nil, err
		}
	}
	text, err = dirs[0].text(tagGDALNoData)
	if err != nil {
		return nil, err
	}
	nodata, err := parseNoData(strings.TrimSpace(text), img.kind)
	if err != nil {
		return nil, err
	}
	img.fill = nodata.sample
	if nodata.stated {
		for i := range info.Bands {
			info.Bands[i].NoData = new(nodata.value)
		}
	}
	ds := newDataset(info, img.layout, img)
	ds.nodata = nodata
	ds.alpha = img.alpha
	for _, d := range dirs[1:] {
		kind, err := d.uint(tagNewSubfileType, 0)
		if err != nil {
			return nil, err
		}
		switch {
		case kind == 4 && ds.mask == nil:
			mask, err := newTIFFImage(d)
			if err != nil {
				return nil, fmt.Errorf("mask: %w", err)
			}
			if mask.width != img.width || mask.height != img.height || mask.bands != 1 || mask.kind != Uint8 {
				return nil, fmt.Errorf("mask of %d×%d pixels in %d bands of %v on a raster of %d×%d: %w",
					mask.width, mask.height, mask.bands, mask.kind, img.width, img.height, ErrUnsupported)
			}
			ds.mask = newDataset(Info{}, mask.layout, mask)
			ds.info.HasMask = true
		case kind&1 == 1 && kind&4 == 0:
			ds.info.Overviews++
		}
	}
	return ds, nil
}

// noData is the nodata value of a file, in the form in which samples are compared.
type noData struct {
	stated bool
	value  float64
	sample []byte // the value as one sample in host order; nil if the type cannot hold it
}

// parseNoData reads the GDAL_NODATA tag. A value that the type cannot hold, such as -9999 of uint8, marks no pixel.
func parseNoData(text string, kind DataType) (noData, error) {
	if text == "" {
		return noData{}, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return noData{}, fmt.Errorf("nodata value %q is not a number: %w", text, ErrFormat)
	}
	n := noData{stated: true, value: v}
	switch kind { // 64-bit integers beyond 2⁵³ are not float64 values
	case Int64:
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			n.sample = appendSample(nil, i)
			return n, nil
		}
	case Uint64:
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			n.sample = appendSample(nil, u)
			return n, nil
		}
	}
	n.sample = sampleOf(v, kind)
	return n, nil
}
