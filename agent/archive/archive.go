// Package archive delivers rasters of satellite products: for a product, bands,
// a box, a period and a pixel size it writes one GeoTIFF per band and date.
//
// This package holds what every archive has in common: the product table
// (products.yaml), the acquisition spec and its checks, the grid that all rasters
// lie on, the calendar of acquisitions and composites, the file names, and a
// cache by content. The archives themselves are in the packages below it:
//
//	synthetic  a deterministic world, offline; the default
//	stac       a STAC API
//	folder     files on disk, found by their names
//
// # Grid
//
// Rasters are in EPSG:4326 on an absolute grid: with a pixel of s metres a
// degree has 111,319.49/s pixels and pixel borders lie at whole multiples of the
// pixel from 0° E 0° N. The pixels of a box are those whose area overlaps it, so
// two overlapping boxes have their common pixels in common exactly.
//
// # Time
//
// A composite is named by its first day and belongs to a period if that day does.
// Intervals of days restart on 1 January, as MODIS composites do; months and years
// follow the calendar. So a composite of a given name always has the same days,
// whatever period it was asked for in.
package archive

import (
	"context"
	"time"

	"terraloom/agent/raster"
)

// Archive delivers products. It is safe for concurrent use.
type Archive interface {
	// Products lists what the archive has, by ID.
	Products() []*Product
	// Find says which rasters a spec asks for, band by band in the order of the
	// spec and in order of time, without making them.
	//
	// Errors: a *SpecError, or several joined, for a spec that cannot be
	// honoured; it wraps ErrNoData if the period has no raster; else what failed.
	Find(ctx context.Context, spec Spec) ([]Pending, error)
}

// Spec says what to acquire.
type Spec struct {
	Product string   // ID or alias of a product, in any case: "MODIS/061/MOD11A1", "MOD11A1"
	Bands   []string // names or aliases; all of the product's if empty
	Box     Box
	// Start and End are the first and the last day; clock and zone are ignored.
	Start, End time.Time
	// Interval is the composite step: "day", "8 days", "month", "year", …
	// Empty means the product's own cadence.
	Interval string
	// ScaleM is the pixel size in metres; 0 means the product's own. Rasters of
	// another size take the nearest of the product's own pixels.
	ScaleM float64
	Name   string // start of the file names: <Name>_<band>_<date>.tif
}

// Box is an area in degrees, WGS 84. It does not cross the antimeridian.
type Box struct{ West, South, East, North float64 }

// File describes a delivered raster. Stored values v mean v·Scale + Offset Unit.
type File struct {
	Path    string
	Product string
	Band    string
	// Date is the day of the acquisition or the first day of the composite, with
	// the UTC time of the overpass if Clock is set.
	Date  time.Time
	Clock bool
	Days  int // days that the raster sums up; 1 for an acquisition
	Unit  string
	Scale float64
	// Offset is added after scaling.
	Offset        float64
	Fill          *float64 // stored value of invalid pixels, if there may be any
	Type          raster.DataType
	CRS           raster.CRS
	Transform     raster.GeoTransform
	Width, Height int
	Valid         int    // pixels that are not fill
	SHA256        string // of the file, hexadecimal
	Cached        bool   // it came from the cache
}
