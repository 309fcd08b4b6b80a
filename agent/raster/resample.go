package raster

import (
	"fmt"
	"math"
)

// Method is a resampling method.
type Method uint8

// The resampling methods.
const (
	Nearest  Method = iota // the source pixel under the target pixel's centre; for classes, flags and masks
	Bilinear               // the four source pixels around it, weighted by distance; for continuous fields
)

// String returns the method's name.
func (m Method) String() string {
	switch m {
	case Nearest:
		return "nearest"
	case Bilinear:
		return "bilinear"
	}
	return fmt.Sprintf("Method(%d)", uint8(m))
}

// Resample returns src on the grid of like, whose data are not read. Both must be in the same coordinate system (else
// ErrMismatch); if neither is georeferenced, like covers the same picture with another number of pixels.
//
// A target pixel is valid exactly where the source pixel under its centre exists and is valid, so no method moves the border of
// the data; bilinear weights are spread over the valid ones of the four neighbours.
func Resample(src, like *Grid, m Method) (*Grid, error) {
	if m > Bilinear {
		return nil, fmt.Errorf("resample: unknown method %v: %w", m, ErrUnsupported)
	}
	t, err := pixelMap(src, like)
	if err != nil {
		return nil, err
	}
	out := like.Like()
	rows := max(1, ChunkPixels/like.Width)
	err = each((like.Height+rows-1)/rows, func(c int) error {
		for y := c * rows; y < min(like.Height, (c+1)*rows); y++ {
			if m == Nearest {
				nearestRow(src, t, y, out.Row(y))
			} else {
				bilinearRow(src, t, y, out.Row(y))
			}
		}
		return nil
	})
	return out, err
}

// pixelMap returns the transform from pixel positions of like to pixel positions of src.
func pixelMap(src, like *Grid) (GeoTransform, error) {
	switch {
	case src.Transform.IsZero() && like.Transform.IsZero():
		sx, sy := float64(src.Width)/float64(like.Width), float64(src.Height)/float64(like.Height)
		return GeoTransform{0, sx, 0, 0, 0, sy}, nil
	case src.Transform.IsZero() || like.Transform.IsZero():
		return GeoTransform{}, fmt.Errorf("resample: only one of the rasters is georeferenced: %w", ErrMismatch)
	case !src.CRS.IsZero() && !like.CRS.IsZero() && !src.CRS.Same(like.CRS):
		return GeoTransform{}, fmt.Errorf("resample: coordinate systems %v and %v (reproject one first): %w", src.CRS, like.CRS, ErrMismatch)
	}
	inv, ok := src.Transform.Invert()
	if !ok {
		return GeoTransform{}, fmt.Errorf("resample: geotransform %v has no inverse: %w", src.Transform, ErrMismatch)
	}
	// The composition inv ∘ like, formed from differences of the origins so that large coordinates cancel before they are scaled.
	a, b := inv, like.Transform
	dx, dy := b[0]-src.Transform[0], b[3]-src.Transform[3]
	return GeoTransform{
		a[1]*dx + a[2]*dy, a[1]*b[1] + a[2]*b[4], a[1]*b[2] + a[2]*b[5],
		a[4]*dx + a[5]*dy, a[4]*b[1] + a[5]*b[4], a[4]*b[2] + a[5]*b[5],
	}, nil
}

func nearestRow(src *Grid, t GeoTransform, y int, out []float32) {
	nan := NaN()
	w, h := float64(src.Width), float64(src.Height)
	u0, v0 := t.Apply(0.5, float64(y)+0.5)
	u0, v0 = u0+snap, v0+snap
	for x := range out {
		u, v := u0+float64(x)*t[1], v0+float64(x)*t[4]
		if u >= 0 && u < w && v >= 0 && v < h {
			out[x] = src.Data[int(v)*src.Width+int(u)]
		} else {
			out[x] = nan
		}
	}
}

func bilinearRow(src *Grid, t GeoTransform, y int, out []float32) {
	nan := NaN()
	w, h := float64(src.Width), float64(src.Height)
	u0, v0 := t.Apply(0.5, float64(y)+0.5)
	for x := range out {
		u, v := u0+float64(x)*t[1], v0+float64(x)*t[4]
		if !(u+snap >= 0 && u+snap < w && v+snap >= 0 && v+snap < h) {
			out[x] = nan
			continue
		}
		if !finite(src.Data[int(v+snap)*src.Width+int(u+snap)]) {
			out[x] = nan
			continue
		}
		// The four pixel centres around (u, v); at the border the outermost pixel continues outwards.
		cu, cv := math.Floor(u-0.5), math.Floor(v-0.5)
		fx, fy := u-0.5-cu, v-0.5-cv
		x0, x1 := max(0, int(cu)), min(src.Width-1, int(cu)+1)
		y0, y1 := max(0, int(cv)), min(src.Height-1, int(cv)+1)
		r0, r1 := src.Data[y0*src.Width:], src.Data[y1*src.Width:]
		a, b, c, d := float64(r0[x0]), float64(r0[x1]), float64(r1[x0]), float64(r1[x1])
		top, bottom := a+(b-a)*fx, c+(d-c)*fx
		if s := top + (bottom-top)*fy; finite(s) {
			out[x] = float32(s)
			continue
		}
		var sum, weight float64
		for i, p := range [4]float64{a, b, c, d} {
			wx, wy := 1-fx, 1-fy
			if i&1 == 1 {
				wx = fx
			}
			if i&2 == 2 {
				wy = fy
			}
			if finite(p) {
				sum += p * wx * wy
				weight += wx * wy
			}
		}
		out[x] = float32(sum / weight)
	}
}
