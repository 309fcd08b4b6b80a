package pixel

import (
	"math"

	"terraloom/agent/raster"
)

// Percentile is the q-th percentile, 0 ≤ q ≤ 100, of the valid values by linear
// interpolation between order statistics (type 7 of Hyndman and Fan 1996), and
// the number of valid values. Of none it is NaN.
func Percentile(data []float32, q float64) (value float64, valid int) {
	n := Valid(data)
	if n == 0 {
		return math.NaN(), 0
	}
	at := q / 100 * float64(n-1)
	k := int(at)
	lo, hi := orderStatistics(data, k)
	if k+1 >= n {
		hi = lo
	}
	return float64(lo) + (float64(hi)-float64(lo))*(at-float64(k)), n
}

// key maps finite floats to integers of the same order.
func key(v float32) uint32 {
	b := math.Float32bits(v + 0) // + 0 makes -0 the equal of 0
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

func unkey(k uint32) float32 {
	if k>>31 != 0 {
		return math.Float32frombits(k &^ (1 << 31))
	}
	return math.Float32frombits(^k)
}

// orderStatistics returns the k-th and the (k+1)-th smallest valid values, from 0,
// by histograms of ever finer digits: three passes over the data, no copy.
func orderStatistics(data []float32, k int) (lo, hi float32) {
	prefix, mask := uint32(0), uint32(0)
	rank := k
	for _, digit := range []struct{ shift, bits int }{{21, 11}, {10, 11}, {0, 10}} {
		counts := histogram(data, prefix, mask, digit.shift, digit.bits)
		d := 0
		for rank >= counts[d] {
			rank -= counts[d]
			d++
		}
		prefix |= uint32(d) << digit.shift
		mask |= (1<<digit.bits - 1) << digit.shift
		if digit.shift == 0 && rank+1 < counts[d] {
			return unkey(prefix), unkey(prefix) // the value occurs again
		}
	}
	return unkey(prefix), next(data, prefix)
}

// histogram counts the digits of the keys that begin with prefix.
func histogram(data []float32, prefix, mask uint32, shift, bits int) []int {
	parts := make([][]int, raster.NumChunks(len(data)))
	raster.Chunks(len(data), func(c, lo, hi int) {
		counts := make([]int, 1<<bits)
		for _, v := range data[lo:hi] {
			if raster.Finite(v) {
				if k := key(v); k&mask == prefix {
					counts[k>>shift&(1<<bits-1)]++
				}
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
			if raster.Finite(v) {
				if q := key(v); q > k && q < best {
					best = q
				}
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
