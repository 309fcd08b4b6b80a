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

// interval is the range of finite values that pass, both ends included; empty if
// lo > hi.
func (o Op) interval(t float32) (lo, hi float32) {
	const most = math.MaxFloat32
	inf := float32(math.Inf(1))
	if t != t || o == Equal && !raster.Finite(t) {
		return 1, 0
	}
	lo, hi = -most, most
	switch o {
	case Above:
		lo = math.Nextafter32(t, inf)
	case Below:
		hi = math.Nextafter32(t, -inf)
	case Equal:
		lo, hi = t, t
	case AtLeast:
		lo = t
	case AtMost:
		hi = t
	}
	if lo > most || hi < -most {
		return 1, 0
	}
	return max(lo, -most), min(hi, most)
}

// CountOp returns how many valid values of data pass a comparison, and how many
// are valid. It does not branch on the values, whatever their order.
func CountOp(data []float32, o Op, t float32) (matching, valid int) {
	from, to := o.interval(t)
	parts := make([][2]int, raster.NumChunks(len(data)))
	raster.Chunks(len(data), func(c, lo, hi int) {
		m, v, n := countVector(data[lo:hi], from, to)
		rest, more := count(data[lo+n:hi], from, to)
		parts[c] = [2]int{m + rest, v + more}
	})
	for _, p := range parts {
		matching += p[0]
		valid += p[1]
	}
	return matching, valid
}

// count counts the values from lo to hi and the finite ones.
func count(data []float32, lo, hi float32) (matching, valid int) {
	// -0 and 0 are equal numbers with keys of their own, one after the other.
	first, last := key(lo), key(hi)
	if lo == 0 {
		first = key(float32(math.Copysign(0, -1)))
	}
	if hi == 0 {
		last = key(0)
	}
	width := uint64(last-first) + 1
	if lo > hi {
		width = 0
	}
	var m, n uint64
	for _, v := range data {
		b := math.Float32bits(v)
		// The top bit of a difference of smaller numbers says which is smaller.
		m += (uint64(keyOf(b)-first) - width) >> 63
		n += uint64(b&exponent-exponent) >> 31
	}
	return int(m), int(n)
}

// exponent are the bits of a float32 that are all set in infinities and NaN.
const exponent = uint32(0x7f800000)
