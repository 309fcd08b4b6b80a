package series

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// testdata/reference.json was written by statsmodels 0.14.2 and ruptures 1.1.9
// on random step, wave and noise series rounded to three decimals, the robust
// STL ones with four periods or more (see TestRobustSTLIsStable for fewer):
//
//	stl            STL(x, period=period, robust=robust).fit()
//	acf            acf(x, nlags=min(n//3, 40), adjusted=False | True)
//	change_points  Pelt(model=model, jump=jump).fit(x).predict(pen=penalty), and
//	               price = sum_of_costs(ends) + penalty·len(ends)
type reference struct {
	STL []struct {
		X                      []float64
		Period                 int
		Robust                 bool
		Trend, Seasonal, Resid []float64
	}
	ACF []struct {
		X, Biased, Unbiased []float64
	}
	ChangePoints []struct {
		X       []float64
		Model   Cost
		Jump    int
		Penalty float64
		Ends    []int
		Price   float64
	} `json:"change_points"`
}

func loadReference(t *testing.T) (r reference) {
	t.Helper()
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func furthest(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	d := 0.0
	for i := range a {
		d = max(d, math.Abs(a[i]-b[i]))
	}
	return d
}

func TestSTLEqualsStatsmodels(t *testing.T) {
	for i, c := range loadReference(t).STL {
		d, err := STL(c.X, c.Period, c.Robust)
		if err != nil {
			t.Fatal(err)
		}
		if e := max(furthest(d.Trend, c.Trend), furthest(d.Seasonal, c.Seasonal), furthest(d.Residual, c.Resid)); e > 1e-11 {
			t.Errorf("case %d (period %d, robust %v): off by %g", i, c.Period, c.Robust, e)
		}
	}
}

// With two or three periods most robust residuals are rounding noise. The
// decomposition must not hang on it: a change of the data by 1e-13 changes the
// result by as little. (statsmodels 0.14.2 changes by 13.7 on the first case.)
func TestRobustSTLIsStable(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, tc := range []struct{ n, period int }{{24, 12}, {15, 2}, {22, 7}, {13, 4}} {
		x, y := make([]float64, tc.n), make([]float64, tc.n)
		for i := range x {
			x[i] = 10 + math.Sin(2*math.Pi*float64(i)/float64(tc.period)) + r.NormFloat64()
			if i == tc.n/3 {
				x[i] += 15
			}
			y[i] = x[i] * (1 + 1e-13*r.NormFloat64())
		}
		a, errA := STL(x, tc.period, true)
		b, errB := STL(y, tc.period, true)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if e := max(furthest(a.Trend, b.Trend), furthest(a.Seasonal, b.Seasonal)); e > 1e-9 {
			t.Errorf("n %d, period %d: moves by %g", tc.n, tc.period, e)
		}
	}
}

func TestAutocorrelationEqualsStatsmodels(t *testing.T) {
	for i, c := range loadReference(t).ACF {
		got, err := Autocorrelation(c.X, len(c.Unbiased)-1)
		if err != nil {
			t.Fatal(err)
		}
		biased := biasedACF(c.X)
		if e := max(furthest(got, c.Unbiased), furthest(biased[:len(c.Biased)], c.Biased)); e > 1e-12 {
			t.Errorf("case %d: off by %g", i, e)
		}
	}
}

// ChangePoints is never dearer than ruptures' PELT, whose pruning at a minimum
// segment length can miss the optimum, and otherwise has the same ends.
func TestChangePointsAgainstRuptures(t *testing.T) {
	same, cheaper := 0, 0
	for i, c := range loadReference(t).ChangePoints {
		ends, err := ChangePoints(c.X, c.Model, c.Penalty, c.Jump)
		if err != nil {
			t.Fatal(err)
		}
		price := priceOf(c.X, ends, c.Model, c.Penalty)
		if slices.Equal(ends, c.Ends) {
			same++
			if math.Abs(price-c.Price) > 1e-9*max(1, c.Price) {
				t.Errorf("case %d: price %v, ruptures %v", i, price, c.Price)
			}
			continue
		}
		if price > c.Price+1e-9 {
			t.Errorf("case %d (%s, jump %d): ends %v at %v, ruptures %v at %v", i, c.Model, c.Jump, ends, price, c.Ends, c.Price)
		}
		cheaper++
	}
	t.Logf("%d the same, %d cheaper or equally cheap", same, cheaper)
	if cheaper > same/10 {
		t.Errorf("%d of %d differ from ruptures", cheaper, same+cheaper)
	}
}

func priceOf(x []float64, ends []int, cost Cost, penalty float64) float64 {
	price, start := 0.0, 0
	for _, end := range ends {
		s := newSegment(x, cost)
		s.reset(start)
		for range end - start {
			s.push()
		}
		price += s.cost() + penalty
		start = end
	}
	return price
}
