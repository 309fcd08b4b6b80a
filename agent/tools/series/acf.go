package series

// autocovariance returns Σ (x_i - m)(x_{i+k} - m) for the lags k = 0 … lags,
// which must be below len(x).
func autocovariance(x []float64, lags int) []float64 {
	m := mean(x)
	c := make([]float64, lags+1)
	terms := make([]float64, len(x))
	for k := range c {
		for i := range len(x) - k {
			terms[i] = (x[i] - m) * (x[i+k] - m)
		}
		c[k] = Sum(terms[:len(x)-k])
	}
	return c
}

// Autocorrelation at the lags 0 … lags. Each lag's covariance has the divisor
// n - k, which makes it unbiased; far lags may therefore exceed 1. There is no
// lag beyond n - 1.
func Autocorrelation(x []float64, lags int) ([]float64, error) {
	if err := needAtLeast(lags+1, len(x)); err != nil {
		return nil, err
	}
	if constant(x) {
		return nil, undefined("all values are equal")
	}
	c := autocovariance(x, lags)
	variance := c[0] / float64(len(x))
	acf := make([]float64, len(c))
	acf[0] = 1
	for k := 1; k < len(c); k++ {
		acf[k] = c[k] / float64(len(x)-k) / variance
	}
	return acf, nil
}

// maxPeriod bounds the periods that DominantPeriod looks at, beside a third of the series.
const maxPeriod = 40

// DominantPeriod is the lag of the highest peak of the autocorrelation (divisor
// n at every lag) above minACF, among the lags 2 … min(n/3, 40); 0 if there is
// none. A peak is higher than the lag before it and not lower than the lag after.
func DominantPeriod(x []float64, minACF float64) int {
	acf := biasedACF(x)
	best := 0
	for k := 2; k < len(acf)-1; k++ {
		if acf[k] > acf[k-1] && acf[k] >= acf[k+1] && acf[k] > minACF && (best == 0 || acf[k] > acf[best]) {
			best = k
		}
	}
	return best
}

// StrongestLag is DominantPeriod without the demand for a peak: the lag of the
// largest autocorrelation, which for a smooth trend is always 2.
func StrongestLag(x []float64, minACF float64) int {
	acf := biasedACF(x)
	best := 0
	for k := 2; k < len(acf)-1; k++ {
		if acf[k] > max(minACF, 0) && (best == 0 || acf[k] > acf[best]) {
			best = k
		}
	}
	return best
}

// biasedACF has the lags 0 … min(n/3, 40) and one more; it is nil where no
// period can be looked for.
func biasedACF(x []float64) []float64 {
	lags := min(len(x)/3, maxPeriod)
	if lags < 2 || constant(x) {
		return nil
	}
	acf := autocovariance(x, lags+1)
	for k := len(acf) - 1; k >= 0; k-- {
		acf[k] /= acf[0]
	}
	return acf
}
