package archive

import (
	"fmt"
	"math"
	"strings"

	"terraloom/agent/raster"
)

// The WGS 84 ellipsoid.
const (
	semiMajor  = 6378137.0
	flattening = 1 / 298.257223563
	// modisRadius is that of the sphere of MODIS's sinusoidal grid.
	modisRadius = 6371007.181
)

// Projection returns the map projection of a coordinate system, from degrees of
// longitude and latitude to its own coordinates. It knows longitude and latitude
// themselves, the UTM zones, Web Mercator and MODIS's sinusoidal grid; any other
// system is raster.ErrUnsupported.
func Projection(crs raster.CRS) (func(lon, lat float64) (x, y float64), error) {
	switch {
	case crs.Kind == raster.Geographic:
		return func(lon, lat float64) (x, y float64) { return lon, lat }, nil
	case crs.EPSG > 32600 && crs.EPSG <= 32660:
		return utm(crs.EPSG-32600, 0), nil
	case crs.EPSG > 32700 && crs.EPSG <= 32760:
		return utm(crs.EPSG-32700, 1e7), nil
	case crs.EPSG == 3857:
		return func(lon, lat float64) (x, y float64) {
			return semiMajor * radians(lon), semiMajor * math.Atanh(math.Sin(radians(lat)))
		}, nil
	case crs.EPSG == 0 && strings.Contains(strings.ToLower(crs.Name), "sinusoidal"):
		return func(lon, lat float64) (x, y float64) {
			return modisRadius * radians(lon) * math.Cos(radians(lat)), modisRadius * radians(lat)
		}, nil
	}
	return nil, fmt.Errorf("%w: coordinate system %v; longitude and latitude, UTM, Web Mercator and the MODIS sinusoidal grid are known", raster.ErrUnsupported, crs)
}

func radians(degrees float64) float64 { return degrees * math.Pi / 180 }

// utm is the transverse Mercator projection of a zone by Krüger's series to the
// third order in n (Karney, 2011, J. Geodesy 85, eq. 7–11 and 35), good to a
// millimetre within the zone.
func utm(zone int, falseNorthing float64) func(lon, lat float64) (x, y float64) {
	const (
		n  = flattening / (2 - flattening)
		k0 = 0.9996
		a  = semiMajor / (1 + n) * (1 + n*n/4 + n*n*n*n/64)
	)
	alpha := [...]float64{n/2 - 2*n*n/3 + 5*n*n*n/16, 13*n*n/48 - 3*n*n*n/5, 61 * n * n * n / 240}
	e := math.Sqrt(flattening * (2 - flattening))
	centre := float64(zone*6 - 183)
	return func(lon, lat float64) (x, y float64) {
		sin := math.Sin(radians(lat))
		t := math.Sinh(math.Atanh(sin) - e*math.Atanh(e*sin))
		d := radians(lon - centre)
		xi, eta := math.Atan2(t, math.Cos(d)), math.Atanh(math.Sin(d)/math.Hypot(1, t))
		x, y = eta, xi
		for j, al := range alpha {
			m := float64(2 * (j + 1))
			x += al * math.Cos(m*xi) * math.Sinh(m*eta)
			y += al * math.Sin(m*xi) * math.Cosh(m*eta)
		}
		return 500000 + k0*a*x, falseNorthing + k0*a*y
	}
}

// Bounds returns the extent of the box in a coordinate system: that of a closed
// line along its border.
func (b Box) Bounds(crs raster.CRS) (raster.Bounds, error) {
	project, err := Projection(crs)
	if err != nil {
		return raster.Bounds{}, err
	}
	out := raster.Bounds{MinX: math.Inf(1), MinY: math.Inf(1), MaxX: math.Inf(-1), MaxY: math.Inf(-1)}
	take := func(lon, lat float64) {
		x, y := project(lon, lat)
		out.MinX, out.MaxX = min(out.MinX, x), max(out.MaxX, x)
		out.MinY, out.MaxY = min(out.MinY, y), max(out.MaxY, y)
	}
	const points = 16
	for i := range points + 1 {
		f := float64(i) / points
		lon, lat := b.West+f*(b.East-b.West), b.South+f*(b.North-b.South)
		take(lon, b.South)
		take(lon, b.North)
		take(b.West, lat)
		take(b.East, lat)
	}
	return out, nil
}

// ReadBox reads the part of a band that covers the box, in the coordinate system
// of the file. With scaleM 0 the pixels are those of the file; else they have
// that many metres, lie at whole multiples of it and take the nearest of the file.
// A file without georeference is read whole. raster.ErrRange means that the file
// lies elsewhere.
func ReadBox(ds *raster.Dataset, band int, b Box, scaleM float64) (*raster.Grid, error) {
	info := ds.Info()
	if info.Transform.IsZero() {
		return ds.ReadWindow(band, raster.Window{Width: info.Width, Height: info.Height})
	}
	bounds, err := b.Bounds(info.CRS)
	if err != nil {
		return nil, err
	}
	win, err := info.Window(bounds)
	if err != nil {
		return nil, err
	}
	if win.Pixels() > 16*MaxPixels {
		return nil, &SpecError{Kind: ErrTooLarge, Field: "bbox", Got: b.String(), Want: fmt.Sprintf("it covers %v pixels of the file, and at most %d can be read: use a smaller one", win, 16*MaxPixels)}
	}
	src, err := ds.ReadWindow(band, win)
	if err != nil || scaleM == 0 {
		return src, err
	}
	res := scaleM
	if info.CRS.Kind == raster.Geographic {
		res /= metresPerDegree
	}
	const slack = 1e-6
	x0, y1 := math.Floor(bounds.MinX/res+slack), math.Ceil(bounds.MaxY/res-slack)
	like, err := raster.NewGrid(max(int(math.Ceil(bounds.MaxX/res-slack)-x0), 1), max(int(y1-math.Floor(bounds.MinY/res+slack)), 1), info.CRS,
		raster.NorthUp(x0*res, y1*res, res, res))
	if err != nil {
		return nil, err
	}
	return raster.Resample(src, like, raster.Nearest)
}
