package archive

import (
	"fmt"
	"math"

	"terraloom/agent/raster"
)

// accumulator combines layers of the same grid pixel by pixel. Invalid pixels are
// left out; a pixel without a valid one is invalid. Acquisitions that lack the band
// are left out too.
type accumulator struct {
	layer Layer // the first, whose grid the others must match
	sum   []float64
	count []int32
}

func (a *accumulator) add(l Layer) error {
	switch {
	case l.Grid == nil:
		return nil
	case a.layer.Grid == nil:
		a.layer, a.sum, a.count = l, make([]float64, len(l.Grid.Data)), make([]int32, len(l.Grid.Data))
	case l.Band.Scale != a.layer.Band.Scale || l.Band.Offset != a.layer.Band.Offset:
		return fmt.Errorf("band %s: the rasters of one interval differ: %w: scale %g and %g", l.Band.Name, raster.ErrMismatch, a.layer.Band.Scale, l.Band.Scale)
	}
	if err := a.layer.Grid.Match(l.Grid); err != nil {
		return fmt.Errorf("band %s: the rasters of one interval differ: %w", l.Band.Name, err)
	}
	a.fold(l.Grid)
	return nil
}

func (a *accumulator) fold(g *raster.Grid) {
	how := a.layer.Band.Combine
	for i, v := range g.Data {
		if !raster.Finite(v) {
			continue
		}
		x := float64(v)
		switch {
		case how == Mean || how == Sum:
			a.sum[i] += x
		case a.count[i] == 0 || how == Max && x > a.sum[i]:
			a.sum[i] = x
		}
		a.count[i]++
	}
}

// result returns the combined layer in the first one's grid.
func (a *accumulator) result() Layer {
	if a.layer.Grid == nil {
		return Layer{}
	}
	out := a.layer.Grid.Like()
	for i, n := range a.count {
		switch {
		case n == 0:
			out.Data[i] = raster.NaN()
		case a.layer.Band.Combine == Mean:
			out.Data[i] = float32(a.sum[i] / float64(n))
		default:
			out.Data[i] = float32(math.Min(a.sum[i], a.layer.Band.Valid[1]))
		}
	}
	l := a.layer
	l.Grid = out
	return l
}
