package grpo

import (
	"math"
)

// advantages are Eq. 14's inside one group:
//
//	A_i = (r_i − mean(r)) / (std(r) + eps)
//
// A reward that is NaN is missing: it counts in neither mean nor deviation, and its answer's advantage is 0. So is everybody's
// in a group with fewer than two rewards, or whose rewards are all equal. spread says whether some advantage is not 0.
func (g Group) advantages(rewards []float64) (a []float64, spread bool) {
	a = make([]float64, len(rewards))
	mean, std, n := moments(rewards, g.Std)
	if n < 2 || std == 0 {
		return a, false
	}
	for i, r := range rewards {
		if !math.IsNaN(r) {
			a[i] = (r - mean) / (std + g.Eps)
		}
	}
	return a, true
}

// moments are the mean and the deviation of the numbers that are there, n of them. Equal ones have the deviation 0 exactly.
func moments(values []float64, kind string) (mean, std float64, n int) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			mean += v
			low, high = min(low, v), max(high, v)
			n++
		}
	}
	if n == 0 {
		return math.NaN(), math.NaN(), 0
	}
	mean /= float64(n)
	if low == high {
		return low, 0, n
	}
	sum := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += (v - mean) * (v - mean)
		}
	}
	if kind == Population {
		return mean, math.Sqrt(sum / float64(n)), n
	}
	return mean, math.Sqrt(sum / float64(n-1)), n
}

// judge gives every answer its advantage inside its group; answers of one group stand together. It returns which groups have
// no spread.
func (g Group) judge(answers []answer) (flat []bool) {
	for from := 0; from < len(answers); from += g.Size {
		group := answers[from : from+g.Size]
		rewards := make([]float64, g.Size)
		for i := range group {
			rewards[i] = group[i].Reward
		}
		a, spread := g.advantages(rewards)
		for i := range group {
			group[i].Advantage = a[i]
		}
		flat = append(flat, !spread)
	}
	return flat
}
