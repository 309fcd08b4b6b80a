package raster

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// TIFF tags (TIFF 6.0 §8; OGC GeoTIFF 1.1 §7.1; GDAL's registered tags).
const (
	tagNewSubfileType  = 254
	tagImageWidth      = 256
	tagImageLength     = 257
	tagBitsPerSample   = 258
	tagCompression     = 259
	tagPhotometric     = 262
	tagFillOrder       = 266
	tagStripOffsets    = 273
	tagSamplesPerPixel = 277
	tagRowsPerStrip    = 278
	tagStripByteCounts = 279
	tagPlanarConfig    = 284
	tagPredictor       = 317
	tagTileWidth       = 322
	tagTileLength      = 323
	tagTileOffsets     = 324
	tagTileByteCounts  = 325
	tagExtraSamples    = 338
	tagSampleFormat    = 339
	tagPixelScale      = 33550
	tagTiepoint        = 33922
	tagTransformation  = 34264
	tagGeoKeyDirectory = 34735
	tagGeoDoubleParams = 34736
	tagGeoASCIIParams  = 34737
	tagGDALMetadata    = 42112
	tagGDALNoData      = 42113
)

// TIFF field types, and the bytes of one value of each.
const (
	typeByte   = 1
	typeASCII  = 2
	typeShort  = 3
	typeLong   = 4
	typeDouble = 12
	typeLong8  = 16
)

var fieldSizes = [19]uint64{1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}

// Bounds on what a file may make the reader hold: far above real files, far below trouble.
const (
	maxDirectories = 64      // images of a file that are looked at: full size, mask, and their overviews
	maxEntries     = 1 << 16 // entries of one directory
	maxBlocks      = 1 << 22 // strips or tiles of one image
	maxText        = 4 << 20 // bytes of one text field
)

// tiffFile is an open TIFF.
type tiffFile struct {
	r     io.ReaderAt
	size  int64
	order binary.ByteOrder
	big   bool // BigTIFF: 8-byte offsets and counts
}

// field is one entry of a directory; its values lie at offset in the file.
type field struct {
	kind   uint16
	count  uint64
	offset int64
}

// directory is one image file directory.
type directory struct {
	f      *tiffFile
	fields map[uint16]field
}

// isTIFF reports whether head, the first 4 bytes of a file, announce TIFF or BigTIFF.
func isTIFF(head []byte) bool {
	return len(head) >= 4 && (string(head[:4]) == "II\x2a\x00" || string(head[:4]) == "MM\x00\x2a" ||
		string(head[:4]) == "II\x2b\x00" || string(head[:4]) == "MM\x00\x2b")
}

// readDirectories returns the chain of directories of a TIFF, at most maxDirectories of them.
func readDirectories(r io.ReaderAt, size int64) ([]*directory, error) {
	f := &tiffFile{r: r, size: size, order: binary.LittleEndian}
	head := make([]byte, 16)
	if n, err := r.ReadAt(head, 0); n < 8 {
		return nil, fmt.Errorf("TIFF header: %w", readError(err))
	}
	if head[0] == 'M' {
		f.order = binary.BigEndian
	}
	next := uint64(f.order.Uint32(head[4:]))
	if f.order.Uint16(head[2:]) == 43 {
		if f.big = true; f.order.Uint16(head[4:]) != 8 {
			return nil, fmt.Errorf("BigTIFF with %d-byte offsets, 8 expected: %w", f.order.Uint16(head[4:]), ErrFormat)
		}
		next = f.order.Uint64(head[8:])
	}
	var dirs []*directory
	seen := map[uint64]bool{}
	for next != 0 && len(dirs) < maxDirectories {
		if seen[next] {
			return nil, fmt.Errorf("TIFF directories form a ring at offset %d: %w", next, ErrFormat)
		}
		seen[next] = true
		d, after, err := f.readDirectory(next)
		if err != nil {
			return nil, fmt.Errorf("TIFF directory %d: %w", len(dirs)+1, err)
		}
		dirs = append(dirs, d)
		next = after
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("TIFF without an image: %w", ErrFormat)
	}
	return dirs, nil
}

// readDirectory reads the directory at off and returns it and the offset of the next one.
func (f *tiffFile) readDirectory(off uint64) (*directory, uint64, error) {
	countSize, entrySize, inline := 2, 12, uint64(4)
	if f.big {
		countSize, entrySize, inline = 8, 20, 8
	}
	head, err := f.bytes(off, uint64(countSize))
	if err != nil {
		return nil, 0, err
	}
	var n uint64
	if f.big {
		n = f.order.Uint64(head)
	} else {
		n = uint64(f.order.Uint16(head))
	}
	if n == 0 || n > maxEntries {
		return nil, 0, fmt.Errorf("%d entries: %w", n, ErrFormat)
	}
	body, err := f.bytes(off+uint64(countSize), n*uint64(entrySize)+inline)
	if err != nil {
		return nil, 0, err
	}
	d := &directory{f: f, fields: make(map[uint16]field, n)}
	for i := range int(n) {
		e := body[i*entrySize:]
		fd := field{kind: f.order.Uint16(e[2:])}
		valueAt := off + uint64(countSize) + uint64(i*entrySize) + 8
		fd.count = uint64(f.order.Uint32(e[4:]))
		if f.big {
			fd.count = f.order.Uint64(e[4:])
			valueAt += 4
		}
		if int(fd.kind) >= len(fieldSizes) || fieldSizes[fd.kind] == 0 {
			continue // TIFF 6.0 §2: readers skip fields of a type they do not know
		}
		size := fieldSizes[fd.kind]
		tag := f.order.Uint16(e)
		if fd.count > uint64(f.size)/size {
			return nil, 0, fmt.Errorf("tag %d claims %d values, more than the file holds: %w", tag, fd.count, ErrFormat)
		}
		if fd.count*size > inline {
			valueAt = f.offset(e[entrySize-int(inline):])
		}
		if valueAt > uint64(f.size) || fd.count*size > uint64(f.size)-valueAt {
			return nil, 0, fmt.Errorf("tag %d lies beyond the end of the file: %w", tag, ErrFormat)
		}
		fd.offset = int64(valueAt)
		d.fields[tag] = fd
	}
	return d, f.offset(body[int(n)*entrySize:]), nil
}

// offset reads a file offset, 4 or 8 bytes long by the kind of file.
func (f *tiffFile) offset(b []byte) uint64 {
	if f.big {
		return f.order.Uint64(b)
	}
	return uint64(f.order.Uint32(b))
}

// bytes reads n bytes at off; n must have been bounded by the caller or by the size of the file.
func (f *tiffFile) bytes(off, n uint64) ([]byte, error) {
	if off > uint64(f.size) || n > uint64(f.size)-off {
		return nil, fmt.Errorf("bytes %d to %d of a file of %d: %w", off, off+n, f.size, ErrFormat)
	}
	b := make([]byte, n)
	if m, err := f.r.ReadAt(b, int64(off)); m < len(b) {
		return nil, readError(err)
	}
	return b, nil
}

// readError turns the end of a file into ErrFormat and leaves other read errors as they are.
func readError(err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("file is cut short: %w", ErrFormat)
	}
	return err
}

// raw returns the bytes of a field, or nil if it is absent. More than most values is ErrFormat.
func (d *directory) raw(tag uint16, most uint64) (field, []byte, error) {
	fd, ok := d.fields[tag]
	if !ok {
		return field{}, nil, nil
	}
	if fd.count > most {
		return fd, nil, fmt.Errorf("tag %d has %d values, at most %d expected: %w", tag, fd.count, most, ErrFormat)
	}
	b, err := d.f.bytes(uint64(fd.offset), fd.count*fieldSizes[fd.kind])
	return fd, b, err
}

// uints returns the values of an unsigned integer field, nil if it is absent.
func (d *directory) uints(tag uint16, most uint64) ([]uint64, error) {
	fd, b, err := d.raw(tag, most)
	if err != nil || b == nil {
		return nil, err
	}
	out := make([]uint64, fd.count)
	for i := range out {
		switch fd.kind {
		case typeByte:
			out[i] = uint64(b[i])
		case typeShort:
			out[i] = uint64(d.f.order.Uint16(b[2*i:]))
		case typeLong, 13:
			out[i] = uint64(d.f.order.Uint32(b[4*i:]))
		case typeLong8, 18:
			out[i] = d.f.order.Uint64(b[8*i:])
		default:
			return nil, fmt.Errorf("tag %d has field type %d, an unsigned integer expected: %w", tag, fd.kind, ErrFormat)
		}
	}
	return out, nil
}

// uint returns the first value of an integer field, or missing if it is absent.
func (d *directory) uint(tag uint16, missing uint64) (uint64, error) {
	v, err := d.uints(tag, 1<<16)
	if err != nil {
		return 0, err
	}
	if len(v) == 0 {
		return missing, nil
	}
	return v[0], nil
}

// doubles returns the values of a floating-point field, nil if it is absent.
func (d *directory) doubles(tag uint16) ([]float64, error) {
	fd, b, err := d.raw(tag, 1<<16)
	if err != nil || b == nil {
		return nil, err
	}
	if fd.kind != typeDouble {
		return nil, fmt.Errorf("tag %d has field type %d, double expected: %w", tag, fd.kind, ErrFormat)
	}
	out := make([]float64, fd.count)
	for i := range out {
		out[i] = math.Float64frombits(d.f.order.Uint64(b[8*i:]))
	}
	return out, nil
}

// text returns a text field up to its first NUL, "" if it is absent.
func (d *directory) text(tag uint16) (string, error) {
	fd, b, err := d.raw(tag, maxText)
	if err != nil {
		return "", err
	}
	if b != nil && fd.kind != typeASCII && fd.kind != typeByte {
		return "", fmt.Errorf("tag %d has field type %d, text expected: %w", tag, fd.kind, ErrFormat)
	}
	s, _, _ := strings.Cut(string(b), "\x00")
	return s, nil
}
