package raster

import (
	"fmt"
	"math"
)

// WGS 84: equatorial radius in metres and first eccentricity squared.
const (
	earthRadius = 6378137.0
	earthE2     = 0.00669437999014
)

// PixelAreas returns the area on the ground, in square metres, of a pixel of each row of g.
//
// In a geographic system it is the area of the cell on the WGS 84 ellipsoid, bounded by two meridians and two parallels (Snyder,
// Map Projections, 1987, eq. 3-12): it shrinks towards the poles. Web Mercator (EPSG:3857) is treated the same way, as its scale
// grows with latitude. In every other projected system it is the area in the projection plane.
//
// It returns ErrMismatch if g is not georeferenced and ErrUnsupported for a rotated geographic grid or an unknown unit.
func (g *Grid) PixelAreas() ([]float64, error) { return pixelAreas(g.CRS, g.Transform, g.Height) }

// PixelAreas returns the area on the ground, in square metres, of a pixel of each row; see [Grid.PixelAreas].
func (i Info) PixelAreas() ([]float64, error) { return pixelAreas(i.CRS, i.Transform, i.Height) }

func pixelAreas(crs CRS, t GeoTransform, height int) ([]float64, error) {
	if t.IsZero() || crs.Kind == UnknownCRS {
		return nil, fmt.Errorf("pixel area needs a geotransform and a coordinate system: %w", ErrMismatch)
	}
	areas := make([]float64, height)
	mercator := crs.EPSG == 3857
	if crs.Kind == Projected && !mercator {
		unit, err := crs.metresPerUnit()
		if err != nil {
			return nil, err
		}
		a := math.Abs(t[1]*t[5]-t[2]*t[4]) * unit * unit
		for i := range areas {
			areas[i] = a
		}
		return areas, nil
	}
	if !t.AxisAligned() {
		return nil, fmt.Errorf("pixel area of a rotated %v grid: %w", crs, ErrUnsupported)
	}
	width := math.Abs(t[1]) * math.Pi / 180
	if mercator {
		width = math.Abs(t[1]) / earthRadius
	}
	latitude := func(row int) float64 { // of the upper edge of a row, in radians
		_, y := t.Apply(0, float64(row))
		if mercator {
			return math.Atan(math.Sinh(y / earthRadius))
		}
		// An edge of a global grid may pass the pole by rounding.
		return max(-90, min(90, y)) * math.Pi / 180
	}
	upper := authalicQ(latitude(0))
	for row := range areas {
		lower := authalicQ(latitude(row + 1))
		areas[row] = earthRadius * earthRadius * width * math.Abs(upper-lower) / 2
		upper = lower
	}
	return areas, nil
}

// authalicQ is Snyder's q: the area of a strip one radian wide between the equator and latitude phi is a²·q/2.
func authalicQ(phi float64) float64 {
	e := math.Sqrt(earthE2)
	s := math.Sin(phi)
	return (1 - earthE2) * (s/(1-earthE2*s*s) + math.Atanh(e*s)/e)
}
