// Package pixel holds the arithmetic of the raster tools, on slices of pixels and
// without files.
//
// A pixel that is not finite is invalid: it makes every result that needs it
// invalid, so NaN in, NaN out. Formulas are computed in float64 and rounded once.
// A destination may be one of the inputs. All cores work; the result does not
// depend on their number.
package pixel

import (
	"math"

	"terraloom/agent/raster"
)

var nan = float32(math.NaN())

func finite(v float64) bool { return v-v == 0 }

// Map2 sets dst[i] = f(a[i], b[i]).
func Map2(dst, a, b []float32, f func(a, b float64) float64) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		d, x, y := dst[lo:hi], a[lo:hi], b[lo:hi]
		for i := range d {
			d[i] = float32(f(float64(x[i]), float64(y[i])))
		}
	})
}

// Map sets dst[i] = f(a[i]).
func Map(dst, a []float32, f func(v float64) float64) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		d, x := dst[lo:hi], a[lo:hi]
		for i := range d {
			d[i] = float32(f(float64(x[i])))
		}
	})
}

// MapN sets dst[i] = f(in[0][i], in[1][i], …).
func MapN(dst []float32, in [][]float32, f func(v []float64) float64) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		v := make([]float64, len(in))
		for i := lo; i < hi; i++ {
			for k := range in {
				v[k] = float64(in[k][i])
			}
			dst[i] = float32(f(v))
		}
	})
}

// Count returns how many values of data satisfy f, and how many are valid. f sees
// valid values only.
func Count(data []float32, f func(v float32) bool) (matching, valid int) {
	parts := make([][2]int, raster.NumChunks(len(data)))
	raster.Chunks(len(data), func(c, lo, hi int) {
		m, n := 0, 0
		for _, v := range data[lo:hi] {
			if raster.Finite(v) {
				n++
				if f(v) {
					m++
				}
			}
		}
		parts[c] = [2]int{m, n}
	})
	for _, p := range parts {
		matching += p[0]
		valid += p[1]
	}
	return matching, valid
}

// Valid returns the number of finite values of data.
func Valid(data []float32) int {
	_, n := Count(data, func(float32) bool { return false })
	return n
}
