package pixel

import (
	"math"

	"terraloom/agent/raster"
)

// Percentile is the q-th percentile, 0 ≤ q ≤ 100, of the valid values by linear
// interpolation between order statistics (type 7 of Hyndman and Fan 1996), and
// the number of valid values. Of none it is NaN.
func Percentile(data []float32, q float64) (value float64, valid int) {
	counts := histogram(data, 0, 0)
	n := 0
	for _, c := range counts {
		n += c
	}
	if n == 0 {
		return math.NaN(), 0
	}
	at := q / 100 * float64(n-1)
	k := int(at)
	lo, hi := orderStatistics(data, counts, k)
	return float64(lo) + (float64(hi)-float64(lo))*(at-float64(k)), n
}

// key maps floats to integers of the same order.
func key(v float32) uint32 { return keyOf(math.Float32bits(v)) }

func keyOf(bits uint32) uint32 { return bits ^ (uint32(int32(bits)>>31) | 1<<31) }

func unkey(k uint32) float32 {
	if k>>31 != 0 {
		return math.Float32frombits(k &^ (1 << 31))
	}
	return math.Float32frombits(^k)
}

// digits are the parts of a key, from the top.
var digits = [3]struct{ shift, bits int }{{21, 11}, {10, 11}, {0, 10}}

// orderStatistics returns the k-th and the (k+1)-th smallest valid values, from 0,
// by histograms of ever finer digits, of which the first is given: no copy.
func orderStatistics(data []float32, counts []int, k int) (lo, hi float32) {
	prefix := uint32(0)
	for i, digit := range digits {
		if i > 0 {
			counts = histogram(data, prefix, i)
		}
		d := 0
		for k >= counts[d] {
			k -= counts[d]
			d++
		}
		prefix |= uint32(d) << digit.shift
		if digit.shift == 0 && k+1 < counts[d] {
			return unkey(prefix), unkey(prefix) // the value occurs again
		}
	}
	return unkey(prefix), next(data, prefix)
}

// histogram counts digit i of the keys whose digits before it are those of prefix.
func histogram(data []float32, prefix uint32, i int) []int {
	shift, bits := digits[i].shift, digits[i].bits
	above := shift + bits // 32 for the first digit: nothing lies before it
	parts := make([][]int, raster.NumChunks(len(data)))
	raster.Chunks(len(data), func(c, lo, hi int) {
		counts := make([]int, 1<<bits)
		for _, v := range data[lo:hi] {
			b := math.Float32bits(v)
			if k := keyOf(b); uint64(k)>>above == uint64(prefix)>>above && b&exponent != exponent {
				counts[k>>shift&(1<<bits-1)]++
			}
		}
		parts[c] = counts
	})
	total := make([]int, 1<<bits)
	for _, p := range parts {
		for d, n := range p {
			total[d] += n
		}
	}
	return total
}

// next returns the smallest valid value whose key is above k, or that of k if
// there is none.
func next(data []float32, k uint32) float32 {
	parts := make([]uint32, raster.NumChunks(len(data)))
	raster.Chunks(len(data), func(c, lo, hi int) {
		best := uint32(math.MaxUint32)
		for _, v := range data[lo:hi] {
			b := math.Float32bits(v)
			if q := keyOf(b); q > k && q < best && b&exponent != exponent {
				best = q
			}
		}
		parts[c] = best
	})
	best := uint32(math.MaxUint32)
	for _, p := range parts {
		best = min(best, p)
	}
	if best == math.MaxUint32 {
		return unkey(k)
	}
	return unkey(best)
}
