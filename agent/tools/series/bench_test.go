package series

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var sink float64

// BenchmarkTheilSen sets the median slope beside the two loops and the sort that
// one would write.
func BenchmarkTheilSen(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, 1000)
	for i := range x {
		x[i] = 280 + 0.01*float64(i) + rng.NormFloat64()
	}
	b.Run("plain loop", func(b *testing.B) {
		for b.Loop() {
			var slopes []float64
			for i := range x {
				for j := i + 1; j < len(x); j++ {
					slopes = append(slopes, (x[j]-x[i])/float64(j-i))
				}
			}
			slices.Sort(slopes)
			sink = slopes[len(slopes)/2]
		}
	})
	b.Run("tool", func(b *testing.B) {
		for b.Loop() {
			var err error
			if sink, err = Median(PairwiseSlopes(x)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestMedianAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for n := 1; n < 200; n++ {
		x := make([]float64, n)
		for i := range x {
			if x[i] = float64(rng.IntN(7)); n%3 == 0 {
				x[i] = rng.NormFloat64()
			}
		}
		s := slices.Sorted(slices.Values(x))
		want := s[n/2]
		if n%2 == 0 {
			want = (s[n/2-1] + s[n/2]) / 2
		}
		before := slices.Clone(x)
		if got, err := Median(x); err != nil || got != want || !slices.Equal(x, before) {
			t.Fatalf("n %d: %g, %v, want %g; the argument changed: %v", n, got, err, want, !slices.Equal(x, before))
		}
	}
	if m, err := Median([]float64{math.NaN(), 1, 2, math.Inf(1), math.Inf(1)}); err != nil || m != 2 {
		t.Errorf("with NaN, the smallest: %g, %v", m, err)
	}
}
