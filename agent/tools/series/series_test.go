package series

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-14*max(1, math.Abs(a), math.Abs(b)) }

func TestMoments(t *testing.T) {
	x := []float64{0, 0, 0, 4} // mean 1, m2 3, m3 6, m4 21
	for _, tc := range []struct {
		name string
		got  func() (float64, error)
		want float64
	}{
		{"mean", func() (float64, error) { return Mean(x) }, 1},
		{"population deviation", func() (float64, error) { return Deviation(x, 0) }, math.Sqrt(3)},
		{"sample deviation", func() (float64, error) { return Deviation(x, 1) }, 2},
		{"variation", func() (float64, error) { return Variation(x, 1) }, 2},
		{"g1", func() (float64, error) { return Skewness(x, false) }, 6 / math.Pow(3, 1.5)},
		{"G1", func() (float64, error) { return Skewness(x, true) }, 2},
		{"g2", func() (float64, error) { return ExcessKurtosis(x, false) }, 21.0/9 - 3},
		{"G2", func() (float64, error) { return ExcessKurtosis(x, true) }, 4},
		{"median", func() (float64, error) { return Median([]float64{5, 1, 3, 4}) }, 3.5},
		{"odd median", func() (float64, error) { return Median([]float64{5, 1, 3}) }, 3},
	} {
		if got, err := tc.got(); err != nil || !near(got, tc.want) {
			t.Errorf("%s = %v, %v, want %v", tc.name, got, err, tc.want)
		}
	}
}

func TestUndefined(t *testing.T) {
	flat := []float64{2, 2, 2, 2}
	for name, f := range map[string]func() error{
		"mean of nothing":        func() error { _, err := Mean(nil); return err },
		"median of nothing":      func() error { _, err := Median(nil); return err },
		"deviation of one":       func() error { _, err := Deviation([]float64{1}, 1); return err },
		"variation about zero":   func() error { _, err := Variation([]float64{-1, 1}, 1); return err },
		"skewness of a constant": func() error { _, err := Skewness(flat, false); return err },
		// The mean of three 0.1 is not 0.1 in binary, so the deviation is not 0.
		"kurtosis of an inexact constant": func() error { _, err := ExcessKurtosis([]float64{0.1, 0.1, 0.1}, false); return err },
		"G1 of two":                       func() error { _, err := Skewness([]float64{1, 2}, true); return err },
		"G2 of three":                     func() error { _, err := ExcessKurtosis([]float64{1, 2, 4}, true); return err },
		"extreme of nothing":              func() error { _, err := Extreme(nil, true); return err },
		"line at one position":            func() error { _, err := LinearFit([]float64{3, 3}, []float64{1, 2}); return err },
		"trend of one":                    func() error { _, err := MannKendall([]float64{1}); return err },
		"ACF of a constant":               func() error { _, err := Autocorrelation(flat, 1); return err },
		"ACF beyond the series":           func() error { _, err := Autocorrelation([]float64{1, 2}, 2); return err },
		"STL of one period":               func() error { _, err := STL([]float64{1, 2, 3}, 2, true); return err },
		"STL of period 1":                 func() error { _, err := STL([]float64{1, 2, 3}, 1, true); return err },
		"change points of nothing":        func() error { _, err := ChangePoints(nil, L2, 1, 1); return err },
	} {
		if err := f(); !errors.Is(err, ErrUndefined) {
			t.Errorf("%s: got %v, want ErrUndefined", name, err)
		}
	}
}

// Sum is exact where a plain loop loses digits, at every block length.
func TestSumIsPairwise(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 127, 128, 129, 1000, 100000} {
		x := make([]float64, n)
		for i := range x {
			x[i] = 0.1
		}
		if got, want := Sum(x), 0.1*float64(n); math.Abs(got-want) > 1e-15*float64(n)*0.1*16 {
			t.Errorf("sum of %d times 0.1 = %v", n, got)
		}
	}
	x := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	if got := Sum(x); got != 66 {
		t.Errorf("sum of 1 … 11 = %v", got)
	}
}

func TestExtremeTakesTheFirst(t *testing.T) {
	x := []float64{1, 5, -2, 5, -2}
	hi, _ := Extreme(x, false)
	lo, _ := Extreme(x, true)
	if hi != 1 || lo != 2 {
		t.Errorf("extremes at %d and %d, want 1 and 2", hi, lo)
	}
}

// Ties: 1 1 2 has S = 2 and Var = (3·2·11 - 2·1·9)/18 = 48/18.
func TestMannKendallTies(t *testing.T) {
	got, err := MannKendall([]float64{1, 1, 2})
	if err != nil || got.S != 2 || !near(got.Z, 1/math.Sqrt(48.0/18)) || !near(got.Tau, 2.0/3) {
		t.Errorf("got %+v, %v", got, err)
	}
	down, _ := MannKendall([]float64{9, 8, 7, 6, 5, 4})
	if down.Direction() != "decreasing" || down.Tau != -1 {
		t.Errorf("falling series: %+v %s", down, down.Direction())
	}
	long := make([]float64, 200) // p underflows 1 - Φ but not erfc
	for i := range long {
		long[i] = float64(i)
	}
	if up, _ := MannKendall(long); up.Direction() != "increasing" || up.P == 0 {
		t.Errorf("long rising series: %+v", up)
	}
}

func TestDominantPeriod(t *testing.T) {
	wave := make([]float64, 60)
	for i := range wave {
		wave[i] = math.Sin(2*math.Pi*float64(i)/12) + 0.01*float64(i)
	}
	if got := DominantPeriod(wave, 0.3); got != 12 {
		t.Errorf("period of a wave of 12: %d", got)
	}
	ramp := make([]float64, 60)
	for i := range ramp {
		ramp[i] = float64(i)
	}
	if got := DominantPeriod(ramp, 0.3); got != 0 {
		t.Errorf("a ramp has period %d", got)
	}
	if got := StrongestLag(ramp, 0.3); got != 2 {
		t.Errorf("strongest lag of a ramp: %d, want 2", got)
	}
	for _, x := range [][]float64{{1, 2, 1, 2, 1}, {3, 3, 3, 3, 3, 3, 3, 3}} {
		if got := DominantPeriod(x, 0.3); got != 0 {
			t.Errorf("%v has period %d", x, got)
		}
	}
}

// The incremental segment costs equal their definitions.
func TestSegmentCosts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x := make([]float64, 40)
	for i := range x {
		x[i] = math.Round(r.NormFloat64()*10) / 2
	}
	for _, cost := range []Cost{L1, L2} {
		s := newSegment(x, cost)
		for _, start := range []int{0, 7, 31} {
			s.reset(start)
			for end := start + 1; end <= len(x); end++ {
				s.push()
				part := x[start:end]
				center, _ := Median(part)
				if cost == L2 {
					center, _ = Mean(part)
				}
				want := 0.0
				for _, v := range part {
					if cost == L1 {
						want += math.Abs(v - center)
					} else {
						want += (v - center) * (v - center)
					}
				}
				if got := s.cost(); math.Abs(got-want) > 1e-9 {
					t.Fatalf("%s cost of x[%d:%d] = %v, want %v", cost, start, end, got, want)
				}
			}
		}
	}
}

// The pruned search finds the cheapest of all segmentations.
func TestChangePointsAreOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for round := range 60 {
		cost := []Cost{L1, L2, RBF}[round%3]
		x := make([]float64, 2+r.IntN(9))
		for i := range x {
			x[i] = float64(r.IntN(6))
		}
		penalty := 0.1 + 2*r.Float64()
		ends, err := ChangePoints(x, cost, penalty, 1)
		if err != nil {
			t.Fatal(err)
		}
		cheapest := math.Inf(1)
		for mask := range 1 << (len(x) - 1) { // bit i: an end after value i
			var candidate []int
			start, short := 0, false
			for i := range len(x) {
				if i == len(x)-1 || mask>>i&1 == 1 {
					short = short || i+1-start < minSegment
					candidate, start = append(candidate, i+1), i+1
				}
			}
			if !short {
				cheapest = min(cheapest, priceOf(x, candidate, cost, penalty))
			}
		}
		if got := priceOf(x, ends, cost, penalty); math.Abs(got-cheapest) > 1e-9 {
			t.Errorf("%s %v penalty %v: ends %v cost %v, the cheapest %v", cost, x, penalty, ends, got, cheapest)
		}
	}
}

func TestChangePointsByHand(t *testing.T) {
	steps := []float64{1, 1, 1, 10, 10, 10, 2, 2, 2}
	for _, tc := range []struct {
		x       []float64
		penalty float64
		jump    int
		want    []int
	}{
		{steps, 5, 1, []int{3, 6, 9}},
		{steps, 5, 5, []int{9}}, // 146 + 5 against 97.2 + 48 + 10 with a break at 5
		{steps, 1000, 1, []int{9}},
		{[]float64{4}, 1, 1, []int{1}},
		{[]float64{4, 90}, 1, 1, []int{2}},
		{[]float64{4, 90, 90}, 1, 1, []int{3}}, // no segment shorter than two
	} {
		if got, err := ChangePoints(tc.x, L2, tc.penalty, tc.jump); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("ChangePoints(%v, penalty %v, jump %d) = %v, %v, want %v", tc.x, tc.penalty, tc.jump, got, err, tc.want)
		}
	}
}

func BenchmarkChangePointsL2(b *testing.B) { benchmarkChangePoints(b, L2) }
func BenchmarkChangePointsL1(b *testing.B) { benchmarkChangePoints(b, L1) }

func benchmarkChangePoints(b *testing.B, cost Cost) {
	r := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, 1000)
	for i := range x {
		x[i] = r.NormFloat64() + float64(i/250)
	}
	for b.Loop() {
		if _, err := ChangePoints(x, cost, 10, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSTL(b *testing.B) {
	x := make([]float64, 240)
	for i := range x {
		x[i] = math.Sin(float64(i)) + float64(i)/100
	}
	for b.Loop() {
		if _, err := STL(x, 12, true); err != nil {
			b.Fatal(err)
		}
	}
}
