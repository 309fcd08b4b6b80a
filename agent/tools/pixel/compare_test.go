package pixel

import (
	"math"
	"math/rand/v2"
	"testing"

	"terraloom/agent/raster"
)

// The counts by vectors and without are those of a plain comparison, for every
// comparison, threshold and length, over all kinds of values.
func TestCountOp(t *testing.T) {
	inf := float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, inf, -inf, nan, 300, 299.99997}
	rng := rand.New(rand.NewPCG(1, 2))
	data := make([]float32, 1000)
	for i := range data {
		if data[i] = float32(rng.NormFloat64()); i%3 == 0 {
			data[i] = special[rng.IntN(len(special))]
		}
	}
	for _, op := range []Op{Above, Below, Equal, AtLeast, AtMost} {
		for _, threshold := range special {
			for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 1000} {
				part := data[1:][:min(n, 999)]
				matching, valid := 0, 0
				for _, v := range part {
					if raster.Finite(v) {
						valid++
						if threshold == threshold && op.Test(v, threshold) {
							matching++
						}
					}
				}
				if m, v := CountOp(part, op, threshold); m != matching || v != valid {
					t.Errorf("%v %v, %d values: %d of %d, want %d of %d", op, threshold, len(part), m, v, matching, valid)
				}
				lo, hi := op.interval(threshold)
				if m, v := count(part, lo, hi); m != matching || v != valid {
					t.Errorf("without vectors: %v %v, %d values: %d of %d, want %d of %d", op, threshold, len(part), m, v, matching, valid)
				}
			}
		}
	}
}
