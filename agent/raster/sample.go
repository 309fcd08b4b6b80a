package raster

import (
	"fmt"
	"math"
)

// typeOf returns the DataType of T.
func typeOf[T Sample]() DataType {
	var zero T
	switch any(zero).(type) {
	case uint8:
		return Uint8
	case int8:
		return Int8
	case uint16:
		return Uint16
	case int16:
		return Int16
	case uint32:
		return Uint32
	case int32:
		return Int32
	case uint64:
		return Uint64
	case int64:
		return Int64
	case float32:
		return Float32
	default:
		return Float64
	}
}

// appendSample appends v in host order.
func appendSample[T Sample](b []byte, v T) []byte {
	n := typeOf[T]().Size()
	cell := newBlock(n)
	samples[T](cell)[0] = v
	return append(b, cell...)
}

// sampleOf returns v as one sample of the given type in host order, or nil if the type has no such value. Float32 takes the
// nearest value, as a nodata value written in decimal means the sample that it rounds to.
func sampleOf(v float64, kind DataType) []byte {
	switch kind {
	case Float32:
		return appendSample(nil, float32(v))
	case Float64:
		return appendSample(nil, v)
	}
	lo, hi := kind.Range()
	if v != math.Trunc(v) || v < lo || v > hi { // also true for NaN
		return nil
	}
	switch kind {
	case Uint8:
		return appendSample(nil, uint8(v))
	case Int8:
		return appendSample(nil, int8(v))
	case Uint16:
		return appendSample(nil, uint16(v))
	case Int16:
		return appendSample(nil, int16(v))
	case Uint32:
		return appendSample(nil, uint32(v))
	case Int32:
		return appendSample(nil, int32(v))
	case Uint64:
		if v >= hi { // 2⁶⁴ as a float64 is one more than fits
			return nil
		}
		return appendSample(nil, uint64(v))
	case Int64:
		if v >= hi {
			return nil
		}
		return appendSample(nil, int64(v))
	}
	return nil
}

// region is the part of a decoded block that a window covers: rows × cols pixels whose samples begin at first and lie pixel
// samples apart in a row and row samples apart between rows.
type region struct {
	block      []byte
	first      int
	pixel, row int
	cols, rows int
}

// copyRegion converts a region of samples of S to T, into dst with rows of stride values.
func copyRegion[T, S Sample](dst []T, stride int, r region) {
	src := samples[S](r.block)
	for y := range r.rows {
		in, out := src[r.first+y*r.row:], dst[y*stride:y*stride+r.cols]
		if r.pixel == 1 {
			in = in[:len(out)]
			for x, v := range in {
				out[x] = T(v)
			}
			continue
		}
		for x := range out {
			out[x] = T(in[x*r.pixel])
		}
	}
}

// copyMasked is copyRegion to floats with NaN for samples equal to nodata. NaN samples stay NaN whatever nodata is.
func copyMasked[T float32 | float64, S Sample](dst []T, stride int, r region, nodata S) {
	src, nan := samples[S](r.block), T(math.NaN())
	for y := range r.rows {
		in, out := src[r.first+y*r.row:], dst[y*stride:y*stride+r.cols]
		if r.pixel == 1 {
			in = in[:len(out)]
			for x, v := range in {
				w := T(v)
				if v == nodata {
					w = nan
				}
				out[x] = w
			}
			continue
		}
		for x := range out {
			v := in[x*r.pixel]
			out[x] = T(v)
			if v == nodata {
				out[x] = nan
			}
		}
	}
}

// copyAny converts a region of samples of the given type to T.
func copyAny[T Sample](kind DataType, dst []T, stride int, r region) {
	switch kind {
	case Uint8:
		copyRegion[T, uint8](dst, stride, r)
	case Int8:
		copyRegion[T, int8](dst, stride, r)
	case Uint16:
		copyRegion[T, uint16](dst, stride, r)
	case Int16:
		copyRegion[T, int16](dst, stride, r)
	case Uint32:
		copyRegion[T, uint32](dst, stride, r)
	case Int32:
		copyRegion[T, int32](dst, stride, r)
	case Uint64:
		copyRegion[T, uint64](dst, stride, r)
	case Int64:
		copyRegion[T, int64](dst, stride, r)
	case Float32:
		copyRegion[T, float32](dst, stride, r)
	case Float64:
		copyRegion[T, float64](dst, stride, r)
	}
}

// copyValid converts a region to floats with NaN for the nodata sample, which is nil if there is none.
func copyValid[T float32 | float64](kind DataType, dst []T, stride int, r region, nodata []byte) {
	if len(nodata) != kind.Size() {
		copyAny(kind, dst, stride, r)
		return
	}
	switch kind {
	case Uint8:
		copyMasked(dst, stride, r, samples[uint8](nodata)[0])
	case Int8:
		copyMasked(dst, stride, r, samples[int8](nodata)[0])
	case Uint16:
		copyMasked(dst, stride, r, samples[uint16](nodata)[0])
	case Int16:
		copyMasked(dst, stride, r, samples[int16](nodata)[0])
	case Uint32:
		copyMasked(dst, stride, r, samples[uint32](nodata)[0])
	case Int32:
		copyMasked(dst, stride, r, samples[int32](nodata)[0])
	case Uint64:
		copyMasked(dst, stride, r, samples[uint64](nodata)[0])
	case Int64:
		copyMasked(dst, stride, r, samples[int64](nodata)[0])
	case Float32:
		copyMasked(dst, stride, r, samples[float32](nodata)[0])
	case Float64:
		copyMasked(dst, stride, r, samples[float64](nodata)[0])
	}
}

// checkFits returns an error unless every value of kind is a value of T.
func checkFits[T Sample](kind DataType) error {
	if t := typeOf[T](); !kind.exactIn(t) {
		return fmt.Errorf("samples are %v, which %v cannot hold exactly: %w", kind, t, ErrRange)
	}
	return nil
}
