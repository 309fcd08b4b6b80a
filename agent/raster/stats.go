package raster

import "math"

// Stats summarises pixels. Invalid pixels count in Total only. The zero Stats is the summary of no pixels.
type Stats struct {
	Total    int64   // pixels seen
	Valid    int64   // of these, finite
	Sum      float64 // of the valid pixels, in float64
	Min, Max float64 // of the valid pixels; 0 if there are none

	m2 float64 // sum of squared deviations from the mean
}

// Mean returns the mean of the valid pixels, NaN if there are none.
func (s Stats) Mean() float64 { return s.Sum / float64(s.Valid) }

// Std returns the standard deviation of the valid pixels with the divisor Valid-ddof: ddof 0 gives the population's, ddof 1 the
// sample's. It is NaN if the divisor is not positive.
func (s Stats) Std(ddof int) float64 {
	n := float64(s.Valid) - float64(ddof)
	if n <= 0 {
		return math.NaN()
	}
	return math.Sqrt(s.m2 / n)
}

// Merge adds the pixels of o to s by the pairwise update of Chan, Golub and LeVeque (1983).
func (s *Stats) Merge(o Stats) {
	total := s.Total + o.Total
	switch {
	case o.Valid == 0:
	case s.Valid == 0:
		*s = o
	default:
		a, b := float64(s.Valid), float64(o.Valid)
		d := o.Mean() - s.Mean()
		s.m2 += o.m2 + d*d*a*b/(a+b)
		s.Sum += o.Sum
		s.Valid += o.Valid
		s.Min, s.Max = min(s.Min, o.Min), max(s.Max, o.Max)
	}
	s.Total = total
}

// Summarize returns the summary of data. The result does not depend on the number of cores.
func Summarize(data []float32) Stats { return summarize(data) }

func summarize[T float32 | float64](data []T) Stats {
	parts := make([]Stats, NumChunks(len(data)))
	Chunks(len(data), func(c, lo, hi int) {
		for lo < hi {
			end := min(hi, lo+statBlock)
			parts[c].Merge(summarizeBlock(data[lo:end]))
			lo = end
		}
	})
	var s Stats
	for _, p := range parts {
		s.Merge(p)
	}
	return s
}

// Sum returns the sum and the number of the valid values of data. It is several times as fast as [Summarize].
func Sum(data []float32) (sum float64, valid int) {
	type part struct {
		sum   float64
		valid int
	}
	parts := make([]part, NumChunks(len(data)))
	Chunks(len(data), func(c, lo, hi int) {
		var p part
		clean := true // whether the last block was; invalid pixels come in swarms
		for lo < hi {
			end := min(hi, lo+statBlock)
			s, n := sumBlock(data[lo:end], clean)
			p.sum += s
			p.valid += n
			clean = n == end-lo
			lo = end
		}
		parts[c] = p
	})
	for _, p := range parts {
		sum += p.sum
		valid += p.valid
	}
	return sum, valid
}

// Mean returns the mean and the number of the valid values of data; the mean of none is NaN.
func Mean(data []float32) (mean float64, valid int) {
	sum, valid := Sum(data)
	return sum / float64(valid), valid
}

// statBlock is the number of values whose sum is first taken without looking at each: 16 KiB of float32, which the passes of
// summarizeBlock find in the first-level cache.
const statBlock = 4096

// sumBlock returns the sum and number of the finite values of b. A float64 sum of finite float32 values is finite, so where the
// block is expected to be clean one test of the sum replaces a test of every value.
func sumBlock(b []float32, clean bool) (float64, int) {
	if clean {
		if s := sumAll(b); finite(s) {
			return s, len(b)
		}
	}
	sum, n := 0.0, 0
	for _, v := range b {
		if finite(v) {
			sum += float64(v)
			n++
		}
	}
	return sum, n
}

// compact stores the finite values of b in buf and returns them.
func compact[T float32 | float64](buf *[statBlock]T, b []T) []T {
	n := 0
	for _, v := range b {
		buf[n&(statBlock-1)] = v // the mask spares the bounds check; n < len(b) ≤ statBlock
		if finite(v) {
			n++
		}
	}
	return buf[:n]
}

// sumAll sums b in eight chains, as one would wait for each addition.
func sumAll[T float32 | float64](b []T) float64 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float64
	for len(b) >= 8 {
		c := b[:8:8]
		s0 += float64(c[0])
		s1 += float64(c[1])
		s2 += float64(c[2])
		s3 += float64(c[3])
		s4 += float64(c[4])
		s5 += float64(c[5])
		s6 += float64(c[6])
		s7 += float64(c[7])
		b = b[8:]
	}
	for _, v := range b {
		s0 += float64(v)
	}
	return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
}

// summarizeBlock returns the summary of b, at most statBlock values, with squared deviations taken from the block's own mean.
func summarizeBlock[T float32 | float64](b []T) Stats {
	s := Stats{Total: int64(len(b))}
	sum := sumAll(b)
	if !finite(sum) {
		var buf [statBlock]T
		b = compact(&buf, b)
		sum = sumAll(b)
	}
	if len(b) == 0 {
		return s
	}
	s.Valid, s.Sum = int64(len(b)), sum
	mean := sum / float64(len(b))
	lo, hi := b[0], b[0]
	for _, v := range b {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	s.Min, s.Max = float64(lo), float64(hi)
	var q0, q1, q2, q3 float64
	for len(b) >= 4 {
		c := b[:4:4]
		d0, d1, d2, d3 := float64(c[0])-mean, float64(c[1])-mean, float64(c[2])-mean, float64(c[3])-mean
		q0 += d0 * d0
		q1 += d1 * d1
		q2 += d2 * d2
		q3 += d3 * d3
		b = b[4:]
	}
	for _, v := range b {
		d := float64(v) - mean
		q0 += d * d
	}
	s.m2 = (q0 + q1) + (q2 + q3)
	return s
}
