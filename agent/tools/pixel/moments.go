package pixel

import (
	"math"

	"terraloom/agent/raster"
)

// Moments are the central moments of the valid pixels, with the divisor N.
type Moments struct {
	N                int
	Mean, M2, M3, M4 float64
}

// CentralMoments returns the moments of data, by two passes.
func CentralMoments(data []float32) Moments {
	mean, n := raster.Mean(data)
	m := Moments{N: n, Mean: mean}
	if n == 0 {
		return m
	}
	parts := make([][3]float64, raster.NumChunks(len(data)))
	raster.Chunks(len(data), func(c, lo, hi int) {
		var p [3]float64
		for _, v := range data[lo:hi] {
			if raster.Finite(v) {
				d := float64(v) - mean
				d2 := d * d
				p[0] += d2
				p[1] += d2 * d
				p[2] += d2 * d2
			}
		}
		parts[c] = p
	})
	for _, p := range parts {
		m.M2 += p[0] / float64(n)
		m.M3 += p[1] / float64(n)
		m.M4 += p[2] / float64(n)
	}
	return m
}

// Skewness is the sample-adjusted G1 (Joanes and Gill 1998), NaN for fewer than
// three or only equal pixels.
func (m Moments) Skewness() float64 {
	n := float64(m.N)
	if m.N < 3 || m.M2 == 0 {
		return math.NaN()
	}
	return math.Sqrt(n*(n-1)) / (n - 2) * m.M3 / math.Pow(m.M2, 1.5)
}

// Kurtosis is m4/m2², 3 for a normal distribution, NaN for only equal pixels.
func (m Moments) Kurtosis() float64 {
	if m.N == 0 || m.M2 == 0 {
		return math.NaN()
	}
	return m.M4 / (m.M2 * m.M2)
}

// Stretch maps the valid pixels linearly from their range to 0 … 255 and cuts off
// the fraction, as a conversion to bytes does; equal pixels become 0.
func Stretch(dst, a []float32) {
	s := raster.Summarize(a)
	scale := 0.0
	if s.Max > s.Min {
		scale = 255 / (s.Max - s.Min)
	}
	Map(dst, a, func(v float64) float64 {
		if !finite(v) {
			return float64(nan)
		}
		return math.Floor((v - s.Min) * scale)
	})
}
