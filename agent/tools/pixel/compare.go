package pixel

import (
	"math"

	"terraloom/agent/raster"
)

// Op compares a pixel with a threshold.
type Op uint8

// The comparisons.
const (
	Above   Op = iota // >
	Below             // <
	Equal             // =
	AtLeast           // ≥
	AtMost            // ≤
)

// OpOf is the comparison of a mode as the tools name them.
func OpOf(mode string) Op {
	return map[string]Op{"above": Above, "below": Below, "equal": Equal, "above_equal": AtLeast, "below_equal": AtMost}[mode]
}

func (o Op) String() string { return [...]string{">", "<", "=", "≥", "≤"}[o] }

// Test compares one valid value.
func (o Op) Test(v, t float32) bool {
	switch o {
	case Above:
		return v > t
	case Below:
		return v < t
	case Equal:
		return v == t
	case AtLeast:
		return v >= t
	}
	return v <= t
}

// interval is the set of finite values that pass, as lo ≤ v ≤ hi; empty if lo > hi.
func (o Op) interval(t float32) (lo, hi float32) {
	const most = math.MaxFloat32
	inf := float32(math.Inf(1))
	switch {
	case t != t:
		return 1, 0
	case o == Above:
		return max(math.Nextafter32(t, inf), -most), most
	case o == Below:
		return -most, min(math.Nextafter32(t, -inf), most)
	case o == Equal:
		return t, t
	case o == AtLeast:
		return max(t, -most), most
	}
	return -most, min(t, most)
}

// CountOp returns how many valid values of data pass a comparison, and how many
// are valid. It does not branch on the values, whatever their order.
func CountOp(data []float32, o Op, t float32) (matching, valid int) {
	from, to := o.interval(t)
	parts := make([][2]int, raster.NumChunks(len(data)))
	raster.Chunks(len(data), func(c, lo, hi int) {
		m, n := 0, 0
		for _, v := range data[lo:hi] {
			m += bit(v >= from) & bit(v <= to)
			n += bit(v-v == 0)
		}
		parts[c] = [2]int{m, n}
	})
	for _, p := range parts {
		matching += p[0]
		valid += p[1]
	}
	return matching, valid
}

// bit is 1 for true; the compiler makes it one instruction.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
