package raster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// encodeRow stores float32 values as samples of the given type in host order. On failure it returns the index of the value.
func encodeRow(dst []byte, row []float32, kind DataType, nodata []byte) (int, error) {
	switch kind {
	case Uint8:
		return encodeInts[uint8](dst, row, kind, nodata)
	case Int8:
		return encodeInts[int8](dst, row, kind, nodata)
	case Uint16:
		return encodeInts[uint16](dst, row, kind, nodata)
	case Int16:
		return encodeInts[int16](dst, row, kind, nodata)
	case Uint32:
		return encodeInts[uint32](dst, row, kind, nodata)
	case Int32:
		return encodeInts[int32](dst, row, kind, nodata)
	case Uint64:
		return encodeInts[uint64](dst, row, kind, nodata)
	case Int64:
		return encodeInts[int64](dst, row, kind, nodata)
	case Float32:
		return encodeFloats[float32](dst, row, nodata)
	default:
		return encodeFloats[float64](dst, row, nodata)
	}
}

func encodeFloats[T float32 | float64](dst []byte, row []float32, nodata []byte) (int, error) {
	out := samples[T](dst[:len(row)*typeOf[T]().Size()])
	if nodata == nil {
		for i, v := range row {
			out[i] = T(v)
		}
		return 0, nil
	}
	nd := samples[T](nodata)[0]
	for i, v := range row {
		switch x := T(v); {
		case !finite(v):
			out[i] = nd
		case x == nd:
			return i, valueIsNoData(float64(v))
		default:
			out[i] = x
		}
	}
	return 0, nil
}

func encodeInts[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64](dst []byte, row []float32, kind DataType, nodata []byte) (int, error) {
	out := samples[T](dst[:len(row)*kind.Size()])
	lo, hi := kind.Range()
	end := hi // the first float64 beyond the type
	if kind.Size() < 8 {
		end = hi + 1
	}
	var nd T
	if nodata != nil {
		nd = samples[T](nodata)[0]
	}
	for i, v := range row {
		if !finite(v) {
			if nodata == nil {
				return i, fmt.Errorf("invalid pixel in a raster of %v without a nodata value (set Spec.NoData): %w", kind, ErrRange)
			}
			out[i] = nd
			continue
		}
		x := math.Round(float64(v))
		if x < lo || x >= end {
			return i, fmt.Errorf("value %g is not in the range of %v: %w", v, kind, ErrRange)
		}
		out[i] = T(x)
		if nodata != nil && out[i] == nd {
			return i, valueIsNoData(float64(v))
		}
	}
	return 0, nil
}

func valueIsNoData(v float64) error {
	return fmt.Errorf("valid value %g would be read back as nodata (choose another Spec.NoData): %w", v, ErrRange)
}

// entry is a field of the directory being written.
type entry struct {
	tag, kind uint16
	count     int
	data      []byte
}

func shortsEntry(tag uint16, v ...uint16) entry {
	e := entry{tag: tag, kind: typeShort, count: len(v)}
	for _, x := range v {
		e.data = binary.LittleEndian.AppendUint16(e.data, x)
	}
	return e
}

func longEntry(tag uint16, v uint32) entry {
	return entry{tag, typeLong, 1, binary.LittleEndian.AppendUint32(nil, v)}
}

func doublesEntry(tag uint16, v ...float64) entry {
	e := entry{tag: tag, kind: typeDouble, count: len(v)}
	for _, x := range v {
		e.data = binary.LittleEndian.AppendUint64(e.data, math.Float64bits(x))
	}
	return e
}

func textEntry(tag uint16, s string) entry {
	return entry{tag, typeASCII, len(s) + 1, append([]byte(s), 0)}
}

// offsetsEntry holds file offsets or byte counts in the width of the kind of TIFF.
func offsetsEntry(tag uint16, v []int64, big bool) entry {
	e := entry{tag: tag, kind: typeLong, count: len(v)}
	if big {
		e.kind = typeLong8
	}
	for _, x := range v {
		if big {
			e.data = binary.LittleEndian.AppendUint64(e.data, uint64(x))
		} else {
			e.data = binary.LittleEndian.AppendUint32(e.data, uint32(x))
		}
	}
	return e
}

// repeat returns n times v.
func repeat(v uint16, n int) []uint16 {
	out := make([]uint16, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// finish writes the directory and the header: classic TIFF if all offsets fit 32 bits, else BigTIFF.
func (w *Writer) finish() error {
	big := false
	directory, body, err := w.directory(big)
	if err != nil {
		return err
	}
	if w.at+int64(len(directory)+len(body)) > math.MaxUint32 {
		big = true
		if directory, body, err = w.directory(big); err != nil {
			return err
		}
	}
	head := make([]byte, 16)
	le := binary.LittleEndian
	at := w.at + w.at&1
	if big {
		copy(head, "II\x2b\x00\x08\x00\x00\x00")
		le.PutUint64(head[8:], uint64(at))
	} else {
		copy(head, "II\x2a\x00")
		le.PutUint32(head[4:], uint32(at))
	}
	if _, err := w.file.WriteAt(append(directory, body...), at); err != nil {
		return err
	}
	_, err = w.file.WriteAt(head, 0)
	return err
}

// directory returns the directory that begins at the (even) end of the file, and the values that follow it.
func (w *Writer) directory(big bool) (head, body []byte, err error) {
	entries, err := w.entries(big)
	if err != nil {
		return nil, nil, err
	}
	le := binary.LittleEndian
	size, inline := 2+12*len(entries)+4, 4
	if big {
		size, inline = 8+20*len(entries)+8, 8
	}
	bodyAt := w.at + w.at&1 + int64(size)
	number := func(b []byte, v uint64) []byte {
		if big {
			return le.AppendUint64(b, v)
		}
		return le.AppendUint32(b, uint32(v))
	}
	if big {
		head = le.AppendUint64(head, uint64(len(entries)))
	} else {
		head = le.AppendUint16(head, uint16(len(entries)))
	}
	for _, e := range entries {
		head = le.AppendUint16(head, e.tag)
		head = le.AppendUint16(head, e.kind)
		head = number(head, uint64(e.count))
		if len(e.data) <= inline {
			head = append(head, e.data...)
			head = append(head, make([]byte, inline-len(e.data))...)
			continue
		}
		head = number(head, uint64(bodyAt)+uint64(len(body)))
		body = append(body, e.data...)
		if len(body)&1 == 1 { // values begin at even offsets
			body = append(body, 0)
		}
	}
	return number(head, 0), body, nil
}

// entries returns the fields in ascending order of their tags.
func (w *Writer) entries(big bool) ([]entry, error) {
	s := w.spec
	bands := len(s.Bands)
	format := uint16(1)
	switch s.Type {
	case Int8, Int16, Int32, Int64:
		format = 2
	case Float32, Float64:
		format = 3
	}
	photometric, planar, extra := uint16(1), uint16(2), bands-1
	if bands == 3 && s.Type == Uint8 { // viewers show it as a colour picture
		photometric, extra = 2, 0
	}
	if bands == 1 {
		planar = 1
	}
	metadata, err := formatMetadata(s)
	if err != nil {
		return nil, err
	}
	shorts, doubles, ascii, err := encodeKeys(s.CRS)
	if err != nil {
		return nil, err
	}
	out := []entry{
		longEntry(tagImageWidth, uint32(s.Width)),
		longEntry(tagImageLength, uint32(s.Height)),
		shortsEntry(tagBitsPerSample, repeat(uint16(8*s.Type.Size()), bands)...),
		shortsEntry(tagCompression, compDeflate),
		shortsEntry(tagPhotometric, photometric),
		shortsEntry(tagSamplesPerPixel, uint16(bands)),
		shortsEntry(tagPlanarConfig, planar),
		shortsEntry(tagPredictor, uint16(w.predictor)),
		longEntry(tagTileWidth, uint32(w.tileW)),
		longEntry(tagTileLength, uint32(w.tileH)),
		offsetsEntry(tagTileOffsets, w.offsets, big),
		offsetsEntry(tagTileByteCounts, w.counts, big),
	}
	if extra > 0 {
		out = append(out, shortsEntry(tagExtraSamples, repeat(0, extra)...))
	}
	out = append(out, shortsEntry(tagSampleFormat, repeat(format, bands)...))
	switch t := s.Transform; {
	case t.IsZero():
	case t.AxisAligned() && t[1] > 0 && t[5] < 0:
		out = append(out, doublesEntry(tagPixelScale, t[1], -t[5], 0), doublesEntry(tagTiepoint, 0, 0, 0, t[0], t[3], 0))
	default:
		out = append(out, doublesEntry(tagTransformation, t[1], t[2], 0, t[0], t[4], t[5], 0, t[3], 0, 0, 0, 0, 0, 0, 0, 1))
	}
	if len(shorts) > 0 {
		out = append(out, shortsEntry(tagGeoKeyDirectory, shorts...))
	}
	if len(doubles) > 0 {
		out = append(out, doublesEntry(tagGeoDoubleParams, doubles...))
	}
	if ascii != "" {
		out = append(out, textEntry(tagGeoASCIIParams, ascii))
	}
	if metadata != "" {
		out = append(out, textEntry(tagGDALMetadata, metadata))
	}
	if s.NoData != nil {
		out = append(out, textEntry(tagGDALNoData, formatNoData(*s.NoData)))
	}
	for i := 1; i < len(out); i++ {
		if out[i].tag <= out[i-1].tag {
			return nil, errors.New("directory entries out of order")
		}
	}
	return out, nil
}

// formatNoData writes a nodata value so that it reads back the same.
func formatNoData(v float64) string {
	if math.IsNaN(v) {
		return "nan"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
