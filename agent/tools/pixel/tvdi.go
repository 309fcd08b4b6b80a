package pixel

import (
	"errors"
	"fmt"
	"math"

	"terraloom/agent/raster"
)

// ErrTooFew means that too few valid pixels, or too little spread among them,
// allow no estimate.
var ErrTooFew = errors.New("too few data")

// TVDI constants: intervals of NDVI, and the pixels below which two edges cannot
// be told from noise.
const (
	tvdiBins      = 100
	tvdiMinPixels = 100
)

// Edge is a line of temperature over NDVI.
type Edge struct{ Slope, Intercept float64 }

// At is the temperature of the edge at an NDVI.
func (e Edge) At(ndvi float64) float64 { return e.Intercept + e.Slope*ndvi }

// TVDI is the temperature-vegetation dryness index (Sandholt et al. 2002): 0 at
// the wet edge, 1 at the dry edge, cut to that range.
//
// NDVI between its extremes is cut into 100 equal intervals; the lowest and the
// highest temperature of each non-empty interval, placed at its middle, give the
// edges by least squares. Valid are pixels with 0 ≤ NDVI ≤ 1 and a positive
// temperature. Where the edges cross there is no index. Fewer than 100 valid
// pixels, or fewer than two intervals, are ErrTooFew.
func TVDI(dst, ndvi, lst []float32) (dry, wet Edge, err error) {
	valid, lo, hi := vegetated(ndvi, lst)
	if valid < tvdiMinPixels {
		return dry, wet, fmt.Errorf("%d pixels have an NDVI of 0 to 1 and a positive temperature, %d are needed: %w", valid, tvdiMinPixels, ErrTooFew)
	}
	least, most := extremes(ndvi, lst, lo, hi)
	var middle, low, high []float64
	width := (hi - lo) / tvdiBins
	for b := range least {
		if least[b] <= most[b] {
			middle = append(middle, lo+(float64(b)+0.5)*width)
			low, high = append(low, float64(least[b])), append(high, float64(most[b]))
		}
	}
	if len(middle) < 2 {
		return dry, wet, fmt.Errorf("all NDVI values lie in one interval, so no edge can be drawn: %w", ErrTooFew)
	}
	dry, wet = fit(middle, high), fit(middle, low)
	raster.Chunks(len(dst), func(_, from, to int) {
		d, x, y := dst[from:to], ndvi[from:to], lst[from:to]
		x, y = x[:len(d)], y[:len(d)]
		for i := range d {
			n, t := float64(x[i]), float64(y[i])
			bottom, top := wet.At(n), dry.At(n)
			if !vegetation(x[i], y[i]) || !(top > bottom) {
				d[i] = nan
				continue
			}
			v := (t - bottom) / (top - bottom)
			if v < 0 {
				v = 0
			}
			if v > 1 {
				v = 1
			}
			d[i] = float32(v)
		}
	})
	return dry, wet, nil
}

func vegetation(ndvi, t float32) bool { return ndvi >= 0 && ndvi <= 1 && t > 0 && t <= math.MaxFloat32 }

// vegetated counts the valid pixels and finds the extremes of their NDVI.
func vegetated(ndvi, lst []float32) (valid int, lo, hi float64) {
	type part struct {
		n      int
		lo, hi float32
	}
	parts := make([]part, raster.NumChunks(len(ndvi)))
	raster.Chunks(len(ndvi), func(c, from, to int) {
		p := part{lo: 2, hi: -1}
		x, y := ndvi[from:to], lst[from:to]
		y = y[:len(x)]
		for i, v := range x {
			if vegetation(v, y[i]) {
				p.n++
				if v < p.lo {
					p.lo = v
				}
				if v > p.hi {
					p.hi = v
				}
			}
		}
		parts[c] = p
	})
	all := part{lo: 2, hi: -1}
	for _, p := range parts {
		all.n += p.n
		all.lo, all.hi = min(all.lo, p.lo), max(all.hi, p.hi)
	}
	return all.n, float64(all.lo), float64(all.hi)
}

// extremes returns the lowest and highest temperature of each interval; of an
// empty one the lowest is above the highest.
func extremes(ndvi, lst []float32, lo, hi float64) (least, most [tvdiBins]float32) {
	type part struct{ least, most [tvdiBins]float32 }
	empty := part{}
	for b := range empty.least {
		empty.least[b], empty.most[b] = math.MaxFloat32, -math.MaxFloat32
	}
	parts := make([]part, raster.NumChunks(len(ndvi)))
	scale := tvdiBins / (hi - lo)
	if hi == lo {
		scale = 0
	}
	raster.Chunks(len(ndvi), func(c, from, to int) {
		p := &parts[c]
		*p = empty
		x, y := ndvi[from:to], lst[from:to]
		y = y[:len(x)]
		for i, n := range x {
			t := y[i]
			if !vegetation(n, t) {
				continue
			}
			b := min(int((float64(n)-lo)*scale), tvdiBins-1) // the maximum belongs to the last interval
			if t < p.least[b] {
				p.least[b] = t
			}
			if t > p.most[b] {
				p.most[b] = t
			}
		}
	})
	all := empty
	for _, p := range parts {
		for b := range p.least {
			all.least[b], all.most[b] = min(all.least[b], p.least[b]), max(all.most[b], p.most[b])
		}
	}
	return all.least, all.most
}

// fit is the least-squares line.
func fit(x, y []float64) Edge {
	mx, my := 0.0, 0.0
	for i := range x {
		mx += x[i] / float64(len(x))
		my += y[i] / float64(len(x))
	}
	sxx, sxy := 0.0, 0.0
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	slope := sxy / sxx
	return Edge{slope, my - slope*mx}
}
