package raster

import (
	"fmt"
	"math"
)

// GeoTransform maps pixel coordinates to coordinates of the CRS, in GDAL's order:
//
//	x = t[0] + col·t[1] + row·t[2]
//	y = t[3] + col·t[4] + row·t[5]
//
// (col, row) = (0, 0) is the outer corner of the first pixel. The zero GeoTransform means "not georeferenced".
type GeoTransform [6]float64

// NorthUp returns the transform of a north-up raster whose upper left corner is (x, y), with pixels of the given positive size.
func NorthUp(x, y, pixelWidth, pixelHeight float64) GeoTransform {
	return GeoTransform{x, pixelWidth, 0, y, 0, -pixelHeight}
}

// IsZero reports whether t is the zero transform.
func (t GeoTransform) IsZero() bool { return t == GeoTransform{} }

// AxisAligned reports whether rows and columns run along the axes of the CRS.
func (t GeoTransform) AxisAligned() bool { return t[2] == 0 && t[4] == 0 }

// Apply returns the coordinates of the pixel position (col, row).
func (t GeoTransform) Apply(col, row float64) (x, y float64) {
	return t[0] + col*t[1] + row*t[2], t[3] + col*t[4] + row*t[5]
}

// Invert returns the transform from coordinates to pixel positions; ok is false if t has no inverse.
func (t GeoTransform) Invert() (inv GeoTransform, ok bool) {
	det := t[1]*t[5] - t[2]*t[4]
	if det == 0 || math.IsNaN(det) || math.IsInf(det, 0) {
		return GeoTransform{}, false
	}
	inv[1], inv[2] = t[5]/det, -t[2]/det
	inv[4], inv[5] = -t[4]/det, t[1]/det
	inv[0] = -(inv[1]*t[0] + inv[2]*t[3])
	inv[3] = -(inv[4]*t[0] + inv[5]*t[3])
	for _, v := range inv {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return GeoTransform{}, false
		}
	}
	return inv, true
}

// At returns the transform of the part of the raster that begins at pixel (col, row). The zero transform stays zero.
func (t GeoTransform) At(col, row int) GeoTransform {
	if t.IsZero() {
		return t
	}
	t[0], t[3] = t.Apply(float64(col), float64(row))
	return t
}

// Bounds is an extent in coordinates of a CRS.
type Bounds struct{ MinX, MinY, MaxX, MaxY float64 }

// Bounds returns the extent of a width × height raster.
func (t GeoTransform) Bounds(width, height int) Bounds {
	b := Bounds{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, c := range [4][2]int{{0, 0}, {width, 0}, {0, height}, {width, height}} {
		x, y := t.Apply(float64(c[0]), float64(c[1]))
		b = Bounds{min(b.MinX, x), min(b.MinY, y), max(b.MaxX, x), max(b.MaxY, y)}
	}
	return b
}

// snap is the fraction of a pixel below which a position counts as lying on a pixel border. It absorbs the rounding of
// coordinates, so that grids that are aligned on paper are aligned here.
const snap = 1e-6

// Window returns the smallest window of the raster that covers b, clipped to the raster. It returns ErrRange if b does not
// overlap the raster and ErrMismatch if the raster is not georeferenced.
func (i Info) Window(b Bounds) (Window, error) {
	inv, ok := i.Transform.Invert()
	if !ok {
		return Window{}, fmt.Errorf("bounds need a georeferenced raster: %w", ErrMismatch)
	}
	c0, r0, c1, r1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, p := range [4][2]float64{{b.MinX, b.MinY}, {b.MaxX, b.MinY}, {b.MinX, b.MaxY}, {b.MaxX, b.MaxY}} {
		c, r := inv.Apply(p[0], p[1])
		c0, r0, c1, r1 = min(c0, c), min(r0, r), max(c1, c), max(r1, r)
	}
	c0, r0 = max(0, math.Floor(c0+snap)), max(0, math.Floor(r0+snap))
	c1, r1 = min(float64(i.Width), math.Ceil(c1-snap)), min(float64(i.Height), math.Ceil(r1-snap))
	if !(c0 < c1 && r0 < r1) { // also true for NaN
		return Window{}, fmt.Errorf("bounds [%g, %g, %g, %g] do not overlap the raster, which covers %v: %w",
			b.MinX, b.MinY, b.MaxX, b.MaxY, i.Transform.Bounds(i.Width, i.Height), ErrRange)
	}
	return Window{int(c0), int(r0), int(c1 - c0), int(r1 - r0)}, nil
}

// CRSKind tells angular from linear coordinates.
type CRSKind uint8

// The kinds of coordinate system.
const (
	UnknownCRS CRSKind = iota
	Geographic         // coordinates are longitude and latitude in degrees
	Projected          // coordinates are lengths
)

// String returns the kind's name.
func (k CRSKind) String() string {
	switch k {
	case Geographic:
		return "geographic"
	case Projected:
		return "projected"
	}
	return "unknown"
}

// CRS is a coordinate reference system. The zero CRS means "not stated".
type CRS struct {
	EPSG int // 0 if the system has no code, as MODIS's sinusoidal grid
	Kind CRSKind
	Name string  // the file's own name for it, may be empty; "MODIS sinusoidal" for that grid
	Unit float64 // metres per unit of a projected system; 0 if the file does not say

	// The GeoTIFF keys of a system without a code, kept as read so that a copy stays in the same system. Strings keep CRS comparable.
	directory, doubles, ascii string
}

// WGS84 is longitude and latitude on the WGS 84 ellipsoid.
var WGS84 = CRS{EPSG: 4326, Kind: Geographic}

// IsZero reports whether no coordinate system is stated.
func (c CRS) IsZero() bool { return c.EPSG == 0 && c.Kind == UnknownCRS && c.directory == "" }

// Same reports whether c and d are the same system: the same code, or without one the same definition.
func (c CRS) Same(d CRS) bool {
	if c.EPSG != 0 || d.EPSG != 0 {
		return c.EPSG == d.EPSG
	}
	return c.Kind == d.Kind && c.directory == d.directory && c.doubles == d.doubles && c.ascii == d.ascii
}

// String returns the code, or the name of a system without one.
func (c CRS) String() string {
	switch {
	case c.EPSG != 0:
		return fmt.Sprintf("EPSG:%d", c.EPSG)
	case c.IsZero():
		return "none"
	case c.Name != "":
		return fmt.Sprintf("%s (%v, no EPSG code)", c.Name, c.Kind)
	}
	return fmt.Sprintf("%v, no EPSG code", c.Kind)
}

// EPSG returns the system with the given code if its kind is known here: the common geographic systems, the UTM zones and the
// usual continental, polar and world projections, all in metres. For another code state the kind: CRS{EPSG: code, Kind: Projected}.
func EPSG(code int) (CRS, error) {
	switch code {
	case 4326, 4258, 4267, 4269, 4283, 4490, 4555, 4612, 4617, 4674, 6318, 6668, 7844, 9057:
		return CRS{EPSG: code, Kind: Geographic}, nil
	}
	if metric(code) {
		return CRS{EPSG: code, Kind: Projected, Unit: 1}, nil
	}
	return CRS{}, fmt.Errorf("EPSG:%d: kind of coordinate system not known here; give CRS{EPSG, Kind} instead: %w", code, ErrUnsupported)
}

// metric reports whether code is a projected system known to be in metres.
func metric(code int) bool {
	in := func(lo, hi int) bool { return lo <= code && code <= hi }
	switch {
	case in(32601, 32660), in(32701, 32760), // WGS 84 / UTM
		in(25828, 25838), // ETRS89 / UTM
		in(26901, 26923), // NAD83 / UTM
		in(28348, 28358), // GDA94 / MGA
		in(7846, 7859),   // GDA2020 / MGA
		in(31978, 31985), // SIRGAS 2000 / UTM
		in(4502, 4554):   // CGCS2000 / Gauss-Kruger
		return true
	}
	switch code {
	case 3857, 3395, 4087, 6933, 8857, 3035, 3034, 5070, 3577, 2154, 27700, 3031, 3413, 3995, 3976, 6931, 6932:
		return true
	}
	return false
}

// metresPerUnit returns the length of one unit of a projected system.
func (c CRS) metresPerUnit() (float64, error) {
	switch {
	case c.Unit > 0:
		return c.Unit, nil
	case metric(c.EPSG):
		return 1, nil
	}
	return 0, fmt.Errorf("%v: the length of its unit is not known; set CRS.Unit: %w", c, ErrUnsupported)
}
