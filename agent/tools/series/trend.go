package series

import (
	"math"
	"slices"
)

// Line is y = Slope x + Intercept.
type Line struct {
	Slope, Intercept float64
}

// LinearFit is the ordinary least-squares line through (x, y). It needs two
// different x. x and y must have the same length.
func LinearFit(x, y []float64) (Line, error) {
	if err := needAtLeast(2, len(x)); err != nil {
		return Line{}, err
	}
	if constant(x) {
		return Line{}, undefined("all positions x are equal")
	}
	mx, my := mean(x), mean(y)
	xy, xx := make([]float64, len(x)), make([]float64, len(x))
	for i := range x {
		dx := x[i] - mx
		xy[i], xx[i] = dx*(y[i]-my), dx*dx
	}
	slope := Sum(xy) / Sum(xx)
	return Line{slope, my - slope*mx}, nil
}

// Trend is the outcome of a Mann-Kendall test.
type Trend struct {
	S   float64 // sum of the signs of all later-minus-earlier differences
	P   float64 // two-sided p-value
	Z   float64 // normal test statistic with continuity correction
	Tau float64 // Kendall's tau-a, S / (n(n-1)/2)
}

// Significance is the level at which Trend.Direction calls a trend.
const Significance = 0.05

// Direction is "increasing", "decreasing" or "no trend" at the Significance level.
func (t Trend) Direction() string {
	switch {
	case t.P >= Significance:
		return "no trend"
	case t.Z > 0:
		return "increasing"
	}
	return "decreasing"
}

// MannKendall is the test for a monotonic trend (Mann 1945, Kendall 1975) with
// the normal approximation and the variance corrected for ties:
// Var S = (n(n-1)(2n+5) - Σ t(t-1)(2t+5)) / 18.
func MannKendall(x []float64) (Trend, error) {
	if err := needAtLeast(2, len(x)); err != nil {
		return Trend{}, err
	}
	s := 0
	for i := range x {
		for _, later := range x[i+1:] {
			if later > x[i] {
				s++
			} else if later < x[i] {
				s--
			}
		}
	}
	n := float64(len(x))
	variance := n * (n - 1) * (2*n + 5)
	sorted := slices.Sorted(slices.Values(x))
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		variance -= t * (t - 1) * (2*t + 5)
		i = j
	}
	variance /= 18
	t := Trend{S: float64(s), Tau: float64(s) / (n * (n - 1) / 2)}
	if s != 0 { // then the values differ and the variance is positive
		t.Z = (float64(s) - math.Copysign(1, float64(s))) / math.Sqrt(variance)
	}
	t.P = math.Erfc(math.Abs(t.Z) / math.Sqrt2)
	return t, nil
}

// PairwiseSlopes are the slopes (x_j - x_i)/(j - i) of all pairs i < j, ordered
// by i, then j.
func PairwiseSlopes(x []float64) []float64 {
	slopes := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			slopes = append(slopes, (x[j]-x[i])/float64(j-i))
		}
	}
	return slopes
}

// Median is the middle value, or the mean of the two middle values.
func Median(x []float64) (float64, error) {
	if err := needAtLeast(1, len(x)); err != nil {
		return 0, err
	}
	s := slices.Clone(x)
	mid := len(s) / 2
	upper := nth(s, mid)
	if len(s)%2 == 1 {
		return upper, nil
	}
	return (slices.Max(s[:mid]) + upper) / 2, nil // what lies before position mid is not above it
}

// nth returns the value that would stand at position k of s in order, and moves
// the smaller ones before it (Hoare 1961). NaN counts as the smallest.
func nth(s []float64, k int) float64 {
	lo := 0
	for i, v := range s { // NaN go first, out of the way of the comparisons
		if v != v {
			s[lo], s[i] = s[i], s[lo]
			lo++
		}
	}
	if k < lo {
		return s[k]
	}
	hi := len(s) - 1
	for lo < hi {
		pivot := max(min(s[lo], s[hi]), min(max(s[lo], s[hi]), s[(lo+hi)/2])) // the middle one of three
		i, j := lo, hi
		for i <= j {
			for s[i] < pivot {
				i++
			}
			for s[j] > pivot {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return s[k] // between the parts lie equals of the pivot
		}
	}
	return s[k]
}
