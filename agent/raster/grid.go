package raster

import (
	"fmt"
	"math"
)

// Grid is one band, or a window of one, in memory: Width·Height float32 values in row order. Values that are not finite are
// invalid.
type Grid struct {
	Width, Height int
	Data          []float32
	CRS           CRS
	Transform     GeoTransform
}

// NewGrid returns a grid of zeros. It is ErrTooLarge beyond [MaxBytes] and ErrRange if a side is not positive.
func NewGrid(width, height int, crs CRS, t GeoTransform) (*Grid, error) {
	if width <= 0 || height <= 0 {
		return nil, fmt.Errorf("grid of %d×%d pixels: %w", width, height, ErrRange)
	}
	if width > MaxBytes/4/height {
		return nil, fmt.Errorf("grid of %d×%d pixels needs more than %d MiB; work in windows: %w", width, height, MaxBytes>>20, ErrTooLarge)
	}
	return &Grid{Width: width, Height: height, Data: make([]float32, width*height), CRS: crs, Transform: t}, nil
}

// Like returns a new grid of zeros with g's size and place.
func (g *Grid) Like() *Grid {
	return &Grid{Width: g.Width, Height: g.Height, Data: make([]float32, len(g.Data)), CRS: g.CRS, Transform: g.Transform}
}

// At returns the value at column x and row y.
func (g *Grid) At(x, y int) float32 { return g.Data[y*g.Width+x] }

// Set stores v at column x and row y.
func (g *Grid) Set(x, y int, v float32) { g.Data[y*g.Width+x] = v }

// Row returns row y; it shares memory with g.
func (g *Grid) Row(y int) []float32 { return g.Data[y*g.Width : (y+1)*g.Width] }

// Match returns ErrMismatch, saying what differs, unless pixel (x, y) of g and of h lie at the same place: equal sizes, equal
// coordinate systems and corners that agree within a hundredth of a pixel. A grid without a coordinate system or without a
// transform matches any in that respect, as the file makes no claim.
func (g *Grid) Match(h *Grid) error {
	if g.Width != h.Width || g.Height != h.Height {
		return fmt.Errorf("%d×%d and %d×%d pixels (resample one to the other): %w", g.Width, g.Height, h.Width, h.Height, ErrMismatch)
	}
	if !g.CRS.IsZero() && !h.CRS.IsZero() && !g.CRS.Same(h.CRS) {
		return fmt.Errorf("coordinate systems %v and %v (reproject one): %w", g.CRS, h.CRS, ErrMismatch)
	}
	if g.Transform.IsZero() || h.Transform.IsZero() {
		return nil
	}
	inv, ok := g.Transform.Invert()
	if !ok {
		return fmt.Errorf("geotransform %v has no inverse: %w", g.Transform, ErrMismatch)
	}
	for _, c := range [3][2]float64{{0, 0}, {float64(g.Width), 0}, {0, float64(g.Height)}} {
		x, y := h.Transform.Apply(c[0], c[1])
		col, row := inv.Apply(x, y)
		if d := math.Hypot(col-c[0], row-c[1]); !(d <= 0.01) {
			return fmt.Errorf("same size but not the same place: a corner is %.3g pixels away (resample one to the other): %w", d, ErrMismatch)
		}
	}
	return nil
}

// finite reports whether v is neither NaN nor infinite.
func finite[T float32 | float64](v T) bool { return v-v == 0 }

// Finite reports whether v is a valid pixel value: neither NaN nor infinite.
func Finite(v float32) bool { return finite(v) }

// NaN is the value of an invalid pixel.
func NaN() float32 { return float32(math.NaN()) }
