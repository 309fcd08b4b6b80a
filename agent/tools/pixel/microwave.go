package pixel

import "math"

// Linear turns backscatter in dB into power, 10^(x/10).
func Linear(db float64) float64 { return math.Pow(10, db/10) }

// WeightedSum is Σ weights[k]·(in[2k]-in[2k+1]) + offset, cut to 0 … 1: the
// linear retrievals from differences of brightness temperatures.
func WeightedSum(dst []float32, pairs [][]float32, weights []float64, offset float64) {
	MapN(dst, pairs, func(v []float64) float64 {
		s := offset
		for k, w := range weights {
			s += w * (v[2*k] - v[2*k+1])
		}
		return unit(s)
	})
}

// unit cuts a number to 0 … 1 and leaves NaN.
func unit(v float64) float64 {
	if !finite(v) {
		return float64(nan)
	}
	return min(max(v, 0), 1)
}

// Mixing is the share of a cover whose pure signal is full, in a signal mixed
// with one that is none.
func Mixing(signal, none, full float64) float64 { return (signal - none) / (full - none) }

// SeaIce is the mean of the shares that the polarisation differences at 19 and at
// 37 GHz give, cut to 0 … 1.
func SeaIce(dst, v19, h19, v37, h37 []float32, water19, ice19, water37, ice37 float64) {
	MapN(dst, [][]float32{v19, h19, v37, h37}, func(t []float64) float64 {
		for _, k := range t {
			if !(k > 0) {
				return float64(nan)
			}
		}
		return unit((Mixing(t[0]-t[1], water19, ice19) + Mixing(t[2]-t[3], water37, ice37)) / 2)
	})
}

// PolarizationRatio is (V-H)/(V+H).
func PolarizationRatio(v, h float64) float64 { return (v - h) / (v + h) }
