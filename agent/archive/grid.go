package archive

import (
	"fmt"
	"math"

	"terraloom/agent/raster"
)

// metresPerDegree is the length of a degree of the equator of WGS 84.
const metresPerDegree = 6378137 * math.Pi / 180

// Grid is a part of the absolute grid of one pixel size: columns X … X+Width-1
// and rows Y … Y-Height+1. Column x covers the longitudes x·Res … (x+1)·Res, row y
// the latitudes alike, so rows count upwards; rasters begin with row Y, the
// northernmost.
type Grid struct {
	Res           float64 // degrees per pixel
	X, Y          int
	Width, Height int
}

// NewGrid returns the pixels of scaleM metres whose area overlaps the box.
func NewGrid(b Box, scaleM float64) Grid {
	res := scaleM / metresPerDegree
	// A border that lies on a pixel border but for rounding takes no further pixel.
	const slack = 1e-6
	first := func(v float64) int { return int(math.Floor(v/res + slack)) }
	last := func(v float64) int { return int(math.Ceil(v/res-slack)) - 1 }
	g := Grid{Res: res, X: first(b.West), Y: last(b.North)}
	g.Width = max(last(b.East)-g.X+1, 1)
	g.Height = max(g.Y-first(b.South)+1, 1)
	return g
}

// Transform is the grid's place in EPSG:4326.
func (g Grid) Transform() raster.GeoTransform {
	return raster.NorthUp(float64(g.X)*g.Res, float64(g.Y+1)*g.Res, g.Res, g.Res)
}

// Centre returns the coordinates of the middle of the pixel in column i, row j
// from the upper left corner.
func (g Grid) Centre(i, j int) (lon, lat float64) {
	return (float64(g.X+i) + 0.5) * g.Res, (float64(g.Y-j) + 0.5) * g.Res
}

// pixels is the size without the overflow of a product of ints.
func (b Box) pixels(scaleM float64) float64 {
	res := scaleM / metresPerDegree
	return math.Ceil((b.East-b.West)/res+1e-6) * math.Ceil((b.North-b.South)/res+1e-6)
}

func (b Box) String() string {
	return fmt.Sprintf("[%g, %g, %g, %g]", b.West, b.South, b.East, b.North)
}

// Middle returns the centre of the box.
func (b Box) Middle() (lon, lat float64) { return (b.West + b.East) / 2, (b.South + b.North) / 2 }
