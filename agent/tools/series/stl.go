package series

import (
	"math"
	"slices"
)

// Decomposition is x = Trend + Seasonal + Residual.
type Decomposition struct {
	Trend, Seasonal, Residual []float64
}

// STL is the seasonal-trend decomposition by loess of Cleveland, Cleveland,
// McRae & Terpenning (1990, Journal of Official Statistics 6:3-73) with its
// usual settings: seasonal span 7, trend span the next odd number from
// 1.5 period/(1 - 1.5/7), low-pass span the next odd number above the period,
// local lines everywhere; two inner and fifteen robustness iterations if robust,
// else five and none. It needs two whole periods.
func STL(x []float64, period int, robust bool) (Decomposition, error) {
	if period < 2 {
		return Decomposition{}, undefined("a period has at least 2 values, got %d", period)
	}
	if err := needAtLeast(2*period, len(x)); err != nil {
		return Decomposition{}, err
	}
	s := newSTL(x, period)
	inner, outer := 5, 0
	if robust {
		inner, outer = 2, 15
	}
	for pass := 0; ; pass++ {
		for range inner {
			s.improve()
		}
		if pass == outer {
			break
		}
		s.reweight()
	}
	d := Decomposition{Trend: s.trend, Seasonal: s.seasonal, Residual: make([]float64, len(x))}
	for i, v := range x {
		d.Residual[i] = v - s.trend[i] - s.seasonal[i]
	}
	return d, nil
}

const stlSeasonalSpan = 7

type stl struct {
	x                      []float64
	period                 int
	trendSpan, lowPassSpan int
	trend, seasonal        []float64
	weights                []float64 // robustness weights, nil in the first pass

	detrended, extended, low, rest []float64
}

func newSTL(x []float64, period int) *stl {
	n := len(x)
	return &stl{
		x: x, period: period,
		trendSpan:   nextOdd(int(math.Ceil(1.5 * float64(period) / (1 - 1.5/stlSeasonalSpan)))),
		lowPassSpan: nextOdd(period + 1),
		trend:       make([]float64, n), seasonal: make([]float64, n),
		detrended: make([]float64, n), extended: make([]float64, n+2*period), low: make([]float64, n), rest: make([]float64, n),
	}
}

func nextOdd(n int) int { return n | 1 }

// improve is one pass of the inner loop: seasonal from the detrended series,
// then trend from the deseasonalised one.
func (s *stl) improve() {
	for i, v := range s.x {
		s.detrended[i] = v - s.trend[i]
	}
	s.smoothCycles()
	filtered := movingAverage(movingAverage(movingAverage(s.extended, s.period), s.period), 3)
	loess(filtered, s.lowPassSpan, nil, s.low)
	for i := range s.x {
		s.seasonal[i] = s.extended[s.period+i] - s.low[i]
		s.rest[i] = s.x[i] - s.seasonal[i]
	}
	loess(s.rest, s.trendSpan, s.weights, s.trend)
}

// smoothCycles smooths each cycle-subseries (all Januaries, …) and extends it by
// one value at either end, so that extended has one period more on both sides.
func (s *stl) smoothCycles() {
	n := len(s.x)
	for j := range s.period {
		k := (n-j-1)/s.period + 1
		sub := make([]float64, k)
		var w []float64
		if s.weights != nil {
			w = make([]float64, k)
		}
		for i := range k {
			sub[i] = s.detrended[i*s.period+j]
			if w != nil {
				w[i] = s.weights[i*s.period+j]
			}
		}
		smooth := make([]float64, k+2)
		loess(sub, stlSeasonalSpan, w, smooth[1:k+1])
		var ok bool
		if smooth[0], ok = localLine(sub, stlSeasonalSpan, -1, 0, min(stlSeasonalSpan, k)-1, w); !ok {
			smooth[0] = smooth[1]
		}
		if smooth[k+1], ok = localLine(sub, stlSeasonalSpan, float64(k), max(0, k-stlSeasonalSpan), k-1, w); !ok {
			smooth[k+1] = smooth[k]
		}
		for i, v := range smooth {
			s.extended[i*s.period+j] = v
		}
	}
}

// noiseFloor is the residual, relative to the data, below which a fit is exact
// and its residuals are rounding noise.
const noiseFloor = 1e-9

// reweight sets the robustness weights to the bisquare of the residuals over six
// times their median, or over the noise floor where that is larger: with two or
// three periods the fit can pass through most points, and weights made from
// rounding noise would be arbitrary.
func (s *stl) reweight() {
	n := len(s.x)
	if s.weights == nil {
		s.weights = make([]float64, n)
	}
	r := make([]float64, n)
	largest := 0.0
	for i, v := range s.x {
		r[i] = math.Abs(v - s.trend[i] - s.seasonal[i])
		largest = max(largest, math.Abs(v))
	}
	sorted := slices.Sorted(slices.Values(r))
	scale := max(3*(sorted[n/2]+sorted[n-n/2-1]), noiseFloor*largest)
	for i, v := range r {
		switch {
		case v <= 0.001*scale:
			s.weights[i] = 1
		case v <= 0.999*scale:
			u := v / scale
			s.weights[i] = (1 - u*u) * (1 - u*u)
		default:
			s.weights[i] = 0
		}
	}
}

func movingAverage(x []float64, span int) []float64 {
	out := make([]float64, len(x)-span+1)
	sum := 0.0
	for i, v := range x {
		sum += v
		if i >= span {
			sum -= x[i-span]
		}
		if i >= span-1 {
			out[i-span+1] = sum / float64(span)
		}
	}
	return out
}

// loess smooths x with local lines over span neighbours into out; weights may be nil.
func loess(x []float64, span int, weights, out []float64) {
	n := len(x)
	if n < 2 {
		out[0] = x[0]
		return
	}
	left, right := 0, min(span, n)-1
	for i := range n {
		if span < n && i >= (span+1)/2 && right < n-1 {
			left++
			right++
		}
		v, ok := localLine(x, span, float64(i), left, right, weights)
		if !ok {
			v = x[i]
		}
		out[i] = v
	}
}

// localLine evaluates at position at the line fitted to x[left:right+1] with
// tricube weights; ok is false if all weights vanish.
func localLine(x []float64, span int, at float64, left, right int, weights []float64) (value float64, ok bool) {
	n := len(x)
	h := max(at-float64(left), float64(right)-at)
	if span > n {
		h += float64((span - n) / 2)
	}
	w := make([]float64, right-left+1)
	sum := 0.0
	for j := range w {
		r := math.Abs(float64(left+j) - at)
		switch {
		case r > 0.999*h:
			continue
		case r <= 0.001*h:
			w[j] = 1
		default:
			u := r / h
			c := 1 - u*u*u
			w[j] = c * c * c
		}
		if weights != nil {
			w[j] *= weights[left+j]
		}
		sum += w[j]
	}
	if sum <= 0 {
		return 0, false
	}
	center := 0.0
	for j := range w {
		w[j] /= sum
		center += w[j] * float64(left+j)
	}
	spread := 0.0
	for j := range w {
		d := float64(left+j) - center
		spread += w[j] * d * d
	}
	slope := 0.0
	if h > 0 && math.Sqrt(spread) > 0.001*float64(n-1) {
		slope = (at - center) / spread
	}
	for j := range w {
		value += w[j] * (1 + slope*(float64(left+j)-center)) * x[left+j]
	}
	return value, true
}
