package eval

import "math"

// Peer results were summed in Python, and their last bits depend on how.

// Sum adds from left to right, as a loop of += does.
func Sum(values []float64) float64 {
	s := 0.0
	for _, v := range values {
		s += v
	}
	return s
}

// CompensatedSum adds with Neumaier's compensation, as Python's built-in sum of
// floats does since 3.12.
func CompensatedSum(values []float64) float64 {
	s, c := 0.0, 0.0
	for _, v := range values {
		t := s + v
		if math.Abs(s) >= math.Abs(v) {
			c += (s - t) + v
		} else {
			c += (v - t) + s
		}
		s = t
	}
	if c != 0 && !math.IsInf(c, 0) && !math.IsNaN(c) {
		s += c
	}
	return s
}

// mean is the sum over the count; 0 of nothing.
func mean(values []float64, sum func([]float64) float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return sum(values) / float64(len(values))
}

// Share is one category's figure with the number of its samples.
type Share struct {
	Value   float64
	Samples int
}

// WeightedMean averages categories by their numbers of samples
// (Earth-Agent-Pro Table III); 0 without samples.
func WeightedMean(shares []Share) float64 {
	sum, n := 0.0, 0
	for _, s := range shares {
		sum += s.Value * float64(s.Samples)
		n += s.Samples
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
