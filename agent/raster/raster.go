// Package raster reads and writes georeferenced rasters in pure Go.
//
// It reads GeoTIFF (TIFF 6.0, BigTIFF, the OGC GeoTIFF 1.1 keys and GDAL's metadata tags), PNG and JPEG, and writes tiled,
// deflated GeoTIFF. A build with the tag gdal also opens JPEG 2000, netCDF and HDF through GDAL and can reproject ([Warp]).
//
//	ds, err := raster.Open("lst.tif")
//	defer ds.Close()
//	lst, err := ds.ReadBand(1)                      // float32, NaN where there is no data
//	mean := raster.Summarize(lst.Data).Mean()
//	err = raster.Save("kelvin.tif", raster.Spec{NoData: new(-9999.0)}, lst)
//
// # Valid pixels
//
// A pixel is valid when its value is finite and nothing in the file says otherwise: the nodata value, an internal mask and an
// alpha band are all honoured, and a pixel must pass every one that is present. Invalid pixels are NaN in memory (a stored
// infinity stays one, and is as invalid), are left out by every kernel in this package, and are written as the nodata value.
//
// # Values
//
// [Dataset.ReadBand] and [Dataset.ReadWindow] return stored values; scale and offset are reported in [BandInfo] and never applied
// behind the caller's back. Values wider than float32 are rounded there; [ReadSamples] gives them exactly.
//
// # One file
//
// A raster is one file: sidecars (.aux.xml, .msk, .ovr, world files) are neither read nor written. Of a TIFF with several
// images the first is read; overviews are counted in [Info] and otherwise ignored.
package raster

import (
	"errors"
	"fmt"
	"math"
)

// Errors that callers branch on. Every error of this package wraps at most one of them.
var (
	// ErrFormat: the file is not a raster of a known format, or it is damaged.
	ErrFormat = errors.New("not a readable raster")
	// ErrUnsupported: the file is valid but uses a feature that this package does not read.
	ErrUnsupported = errors.New("unsupported raster feature")
	// ErrTooLarge: honouring the request would need more memory than [MaxBytes].
	ErrTooLarge = errors.New("raster too large for one read")
	// ErrRange: a band, window or value is outside what the raster can hold.
	ErrRange = errors.New("out of range")
	// ErrMismatch: two rasters differ in size, coordinate system or position.
	ErrMismatch = errors.New("rasters do not match")
	// ErrNoGDAL: the function needs a build with the tag gdal.
	ErrNoGDAL = errors.New("built without GDAL")
)

// MaxBytes bounds a single allocation made on behalf of a file: one grid, one decoded picture. Larger rasters are read in windows.
const MaxBytes = 1 << 30

// DataType is the type of the samples stored in a file.
type DataType uint8

// The sample types. The zero DataType means "not stated".
const (
	Uint8 DataType = iota + 1
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Uint64
	Int64
	Float32
	Float64
)

var typeNames = [...]string{"unknown", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"}
var typeSizes = [...]int{0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8}

// String returns the type's name as Go spells it.
func (t DataType) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("DataType(%d)", uint8(t))
}

// Size returns the bytes of one sample.
func (t DataType) Size() int {
	if int(t) < len(typeSizes) {
		return typeSizes[t]
	}
	return 0
}

// Float reports whether t is a floating-point type.
func (t DataType) Float() bool { return t == Float32 || t == Float64 }

// Range returns the smallest and largest finite value of t, rounded to float64.
func (t DataType) Range() (lo, hi float64) {
	switch t {
	case Uint8:
		return 0, math.MaxUint8
	case Int8:
		return math.MinInt8, math.MaxInt8
	case Uint16:
		return 0, math.MaxUint16
	case Int16:
		return math.MinInt16, math.MaxInt16
	case Uint32:
		return 0, math.MaxUint32
	case Int32:
		return math.MinInt32, math.MaxInt32
	case Uint64:
		return 0, math.MaxUint64
	case Int64:
		return math.MinInt64, math.MaxInt64
	case Float32:
		return -math.MaxFloat32, math.MaxFloat32
	case Float64:
		return -math.MaxFloat64, math.MaxFloat64
	}
	return math.NaN(), math.NaN()
}

// exactIn reports whether every value of t is also a value of u.
func (t DataType) exactIn(u DataType) bool {
	if t == u {
		return true
	}
	unsigned := func(d DataType) bool { return d == Uint8 || d == Uint16 || d == Uint32 || d == Uint64 }
	switch {
	case t.Float():
		return u == Float64
	case u == Float32:
		return t.Size() <= 2
	case u == Float64:
		return t.Size() <= 4
	case unsigned(t):
		return t.Size() < u.Size()
	default:
		return !unsigned(u) && t.Size() < u.Size()
	}
}

// Info describes a raster.
type Info struct {
	Format        string // "GTiff", "PNG", "JPEG", or a GDAL driver name
	Width, Height int    // pixels
	Type          DataType
	Bands         []BandInfo
	CRS           CRS          // zero if the file states none
	Transform     GeoTransform // zero if the file is not georeferenced
	PointSampled  bool         // GeoTIFF's RasterPixelIsPoint; Transform is already that of the pixel corners
	BlockWidth    int          // pixels that are decoded together
	BlockHeight   int
	Compression   string // "none", "lzw", "deflate", "zstd", …
	Interleaved   bool   // samples of all bands lie together (pixel interleaving)
	Overviews     int    // reduced-resolution copies in the file
	HasMask       bool   // an internal mask or an alpha band is present
	Metadata      map[string]string
}

// BandInfo describes one band.
type BandInfo struct {
	NoData      *float64 // the value that means "no data", or nil
	Scale       float64  // physical value = stored value · Scale + Offset; 1 if the file states none
	Offset      float64
	Description string // the band's name
	Unit        string
	Alpha       bool // this band holds opacity: 0 marks a pixel of the other bands as invalid
	Metadata    map[string]string
}

// Bounds returns the extent in coordinates of the CRS, or ok = false if the raster is not georeferenced.
func (i Info) Bounds() (b Bounds, ok bool) {
	if i.Transform.IsZero() {
		return Bounds{}, false
	}
	return i.Transform.Bounds(i.Width, i.Height), true
}
