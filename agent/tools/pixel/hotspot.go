package pixel

import (
	"fmt"
	"math"

	"terraloom/agent/raster"
)

// GiStar is the local statistic of Getis and Ord (Ord and Getis 1995, eq. 14) of
// every valid pixel,
//
//	(Σ w·x - x̄ Σ w) / (s √((n Σ w² - (Σ w)²)/(n-1)))
//
// with x̄ and s, with divisor n, of all n valid pixels, and the sums over the valid
// pixels under the weights, whose middle lies on the pixel: the border and missing
// data make a neighbourhood smaller, not lower. weights has odd sides, in row
// order. Equal values everywhere, or one pixel, are ErrTooFew.
func GiStar(dst *raster.Grid, g *raster.Grid, weights []float64, cols, rows int) error {
	s := raster.Summarize(g.Data)
	sd := s.Std(0)
	if s.Valid < 2 || !(sd > 0) {
		return fmt.Errorf("%d valid pixels with the standard deviation %g: %w", s.Valid, sd, ErrTooFew)
	}
	n, mean := float64(s.Valid), s.Mean()
	rowsOf(g, func(y int) {
		out := dst.Row(y)
		for x := range out {
			out[x] = nan
			if !raster.Finite(g.At(x, y)) {
				continue
			}
			sum, w1, w2 := 0.0, 0.0, 0.0
			for j := range rows {
				yy := y + j - rows/2
				if yy < 0 || yy >= g.Height {
					continue
				}
				line, w := g.Row(yy), weights[j*cols:(j+1)*cols]
				for i, wi := range w {
					xx := x + i - cols/2
					if xx < 0 || xx >= g.Width || !raster.Finite(line[xx]) {
						continue
					}
					sum += wi * float64(line[xx])
					w1 += wi
					w2 += wi * wi
				}
			}
			out[x] = float32((sum - mean*w1) / (sd * math.Sqrt((n*w2-w1*w1)/(n-1))))
		}
	})
	return nil
}

// rowsOf calls f with every row of g, on all cores.
func rowsOf(g *raster.Grid, f func(y int)) {
	// Chunks cuts ranges of pixels; its pieces are cut into rows here, so that a
	// small raster still stays on one core.
	raster.Chunks(g.Width*g.Height, func(_, lo, hi int) {
		for y := (lo + g.Width - 1) / g.Width; y*g.Width < hi; y++ {
			f(y)
		}
	})
}

// Sides are votes for the sides of an image.
type Sides struct{ North, South, East, West int }

// Direction counts, of the pixels that f accepts, those on each side of the
// middle of the image: two votes for the side that lies nearer to the pixel's
// direction, one for each of two at equal angles, none for the middle itself.
func Direction(g *raster.Grid, f func(v float32) bool) (s Sides, pixels int) {
	for y := range g.Height {
		up := g.Height - 1 - 2*y // twice the distance above the middle
		for x, v := range g.Row(y) {
			if !raster.Finite(v) || !f(v) {
				continue
			}
			pixels++
			right := 2*x - (g.Width - 1)
			vertical, horizontal := 0, 0
			switch a, b := abs(up), abs(right); {
			case a > b:
				vertical = 2
			case b > a:
				horizontal = 2
			case a > 0:
				vertical, horizontal = 1, 1
			}
			if up > 0 {
				s.North += vertical
			} else {
				s.South += vertical
			}
			if right > 0 {
				s.East += horizontal
			} else {
				s.West += horizontal
			}
		}
	}
	return s, pixels
}

func abs(n int) int { return max(n, -n) }
