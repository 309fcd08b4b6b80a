// Package series holds the statistics of number series that Earth-observation
// work needs: moments, trends, autocorrelation, decomposition, change points.
//
// Inputs are finite float64 values in time order. A statistic that the values
// do not define (too few of them, no spread, a zero mean) is an error that wraps
// ErrUndefined, never NaN.
package series

import (
	"errors"
	"fmt"
	"math"
)

// ErrUndefined marks a statistic that these values do not define.
var ErrUndefined = errors.New("undefined")

func undefined(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUndefined, fmt.Sprintf(format, args...))
}

func needAtLeast(n, got int) error {
	if got < n {
		return undefined("needs at least %d values, got %d", n, got)
	}
	return nil
}

// Sum adds x by NumPy's pairwise scheme: eight running sums within blocks of up
// to 128 values, halves above. The rounding error grows with log n, and the last
// digits are those that the public tool kit prints.
func Sum(x []float64) float64 {
	n := len(x)
	if n < 8 {
		s := 0.0
		for _, v := range x {
			s += v
		}
		return s
	}
	if n > 128 {
		half := n / 2
		half -= half % 8
		return Sum(x[:half]) + Sum(x[half:])
	}
	var r [8]float64
	copy(r[:], x)
	i := 8
	for ; i+8 <= n; i += 8 {
		for j := range r {
			r[j] += x[i+j]
		}
	}
	s := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for ; i < n; i++ {
		s += x[i]
	}
	return s
}

// Mean is the arithmetic mean.
func Mean(x []float64) (float64, error) {
	if err := needAtLeast(1, len(x)); err != nil {
		return 0, err
	}
	return mean(x), nil
}

func mean(x []float64) float64 { return Sum(x) / float64(len(x)) }

// Deviation is the standard deviation with the divisor n-ddof.
func Deviation(x []float64, ddof int) (float64, error) {
	if err := needAtLeast(ddof+1, len(x)); err != nil {
		return 0, err
	}
	return math.Sqrt(sumOfPowers(x, 2) / float64(len(x)-ddof)), nil
}

// sumOfPowers is the sum of (x-mean)^power for power 2, 3 or 4.
func sumOfPowers(x []float64, power int) float64 {
	m := mean(x)
	terms := make([]float64, len(x))
	for i, v := range x {
		d := v - m
		terms[i] = d * d
		for range power - 2 {
			terms[i] *= d
		}
	}
	return Sum(terms)
}

// Variation is the coefficient of variation: Deviation divided by the mean. Its
// sign is that of the mean.
func Variation(x []float64, ddof int) (float64, error) {
	s, err := Deviation(x, ddof)
	if err != nil {
		return 0, err
	}
	m := mean(x)
	if m == 0 {
		return 0, undefined("the mean is 0")
	}
	return s / m, nil
}

// Moment is the standardised central moment m_k / m_2^(k/2) of order k = 3
// (skewness g1) or 4 (kurtosis, 3 for a normal distribution), over the population.
func Moment(x []float64, k int) (float64, error) {
	if err := needAtLeast(2, len(x)); err != nil {
		return 0, err
	}
	s, _ := Deviation(x, 0)
	if s == 0 || constant(x) {
		return 0, undefined("all values are equal")
	}
	return sumOfPowers(x, k) / float64(len(x)) / math.Pow(s, float64(k)), nil
}

func constant(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return false
		}
	}
	return true
}

// Skewness is g1, or with adjusted the sample form G1 = g1 √(n(n-1))/(n-2)
// (Joanes & Gill 1998), which needs three values.
func Skewness(x []float64, adjusted bool) (float64, error) {
	g1, err := Moment(x, 3)
	if err != nil || !adjusted {
		return g1, err
	}
	if err := needAtLeast(3, len(x)); err != nil {
		return 0, err
	}
	n := float64(len(x))
	return g1 * math.Sqrt(n*(n-1)) / (n - 2), nil
}

// ExcessKurtosis is g2 = m4/m2² - 3, or with adjusted the sample form
// G2 = (n-1)/((n-2)(n-3)) ((n+1) g2 + 6) (Joanes & Gill 1998), which needs four values.
func ExcessKurtosis(x []float64, adjusted bool) (float64, error) {
	b2, err := Moment(x, 4)
	if err != nil {
		return 0, err
	}
	g2 := b2 - 3
	if !adjusted {
		return g2, nil
	}
	if err := needAtLeast(4, len(x)); err != nil {
		return 0, err
	}
	n := float64(len(x))
	return (n - 1) / ((n - 2) * (n - 3)) * ((n+1)*g2 + 6), nil
}

// Extreme returns the index of the largest value, or with smallest of the
// smallest; the first of equals.
func Extreme(x []float64, smallest bool) (int, error) {
	if err := needAtLeast(1, len(x)); err != nil {
		return 0, err
	}
	best := 0
	for i, v := range x {
		if smallest && v < x[best] || !smallest && v > x[best] {
			best = i
		}
	}
	return best, nil
}
