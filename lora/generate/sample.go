package generate

import (
	"cmp"
	"math"
	"slices"

	"terraloom/lora/generate/grammar"
)

// drawHost draws a token on the host: everything that [drawGraph] does, and what needs to look at the whole
// distribution. logits are of all vocabulary rows; only ids below live, and of the mask if there is one, can be drawn.
func drawHost(logits []float32, live int, r *row, mask grammar.Mask, uniform float64) Token {
	s := r.request.Sampling
	inverse := 1.0
	if s.Temperature > 0 {
		inverse = 1 / s.Temperature
	}
	norm := logSumExp(logits, inverse)
	logp := func(id int32) float32 { return float32(float64(logits[id])*inverse - norm) }

	score := func(id int32) float64 { // what is drawn by, up to a constant factor
		z := float64(logits[id])
		if s.penalises() && r.seen[id] {
			if z > 0 {
				z /= s.RepetitionPenalty
			} else {
				z *= s.RepetitionPenalty
			}
		}
		return z * inverse
	}
	best, bestScore := int32(-1), math.Inf(-1)
	can := func(id int32) bool { return mask == nil || mask.Has(id) }
	for id := range int32(live) {
		if can(id) {
			if z := score(id); best < 0 || z > bestScore {
				best, bestScore = id, z
			}
		}
	}
	t := Token{ID: best}
	if s.Temperature > 0 {
		c := make([]candidate, 0, 1024)
		floor := candidateFloor(s, live)
		var rest float64 // weight of those below the floor
		for id := range int32(live) {
			if !can(id) {
				continue
			}
			if w := math.Exp(score(id) - bestScore); w >= floor {
				c = append(c, candidate{id, w})
			} else {
				rest += w
			}
		}
		c = truncate(c, rest, s)
		t.ID, t.Sampled = pickCandidate(c, uniform)
	}
	t.LogProb = logp(t.ID)
	if s.Temperature == 0 {
		t.Sampled = t.LogProb
	}
	if n := r.request.Alternatives; n > 0 {
		for _, id := range likeliest(logits[:live], n) {
			t.Alternatives = append(t.Alternatives, Alternative{id, logp(id)})
		}
	}
	return t
}

func logSumExp(logits []float32, inverse float64) float64 {
	top := float64(slices.Max(logits)) * inverse
	var sum float64
	for _, z := range logits {
		sum += math.Exp(float64(z)*inverse - top)
	}
	return top + math.Log(sum)
}

// candidate is a token with its weight relative to the likeliest.
type candidate struct {
	id     int32
	weight float64
}

// candidateFloor is a weight below which a token is cut off for certain: by min-p, or because all tokens below it
// together are too little for the nucleus to need one of them.
func candidateFloor(s Sampling, live int) float64 {
	if s.nucleus() && s.TopK == 0 {
		return max(s.MinP, (1-s.TopP)/float64(live)/2)
	}
	return s.MinP
}

// truncate keeps what Sampling describes, in the order of ids. rest is the weight of tokens that were left out before
// and count in the nucleus's total.
func truncate(c []candidate, rest float64, s Sampling) []candidate {
	if s.TopK > 0 || s.nucleus() {
		switch n := s.TopK; {
		case n == 0 || n >= len(c):
			slices.SortFunc(c, byWeight)
		case n <= 256:
			c = largest(c, n)
		default:
			slices.SortFunc(c, byWeight)
			c = c[:n]
		}
		if s.nucleus() {
			total := rest
			for _, x := range c {
				total += x.weight
			}
			var sum float64
			for i, x := range c {
				if sum += x.weight; sum >= s.TopP*total {
					c = c[:i+1]
					break
				}
			}
		}
		slices.SortFunc(c, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
	}
	if s.MinP > 0 { // relative to the likeliest, whose weight is 1
		c = slices.DeleteFunc(c, func(x candidate) bool { return x.weight < s.MinP })
	}
	return c
}

// byWeight puts the likeliest first, lower ids before higher ones of equals.
func byWeight(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.id, b.id))
}

// largest returns the n likeliest candidates in the order of byWeight; n is less than their number. Few of many are
// found without sorting all.
func largest(c []candidate, n int) []candidate {
	out := slices.Clone(c[:n])
	slices.SortFunc(out, byWeight)
	for _, x := range c[n:] {
		if byWeight(x, out[n-1]) < 0 {
			at, _ := slices.BinarySearchFunc(out, x, byWeight)
			copy(out[at+1:], out[at:n-1])
			out[at] = x
		}
	}
	return out
}

// pickCandidate inverts the cumulative distribution over the candidates.
func pickCandidate(c []candidate, uniform float64) (id int32, logp float32) {
	var total float64
	for _, x := range c {
		total += x.weight
	}
	target, sum := uniform*total, 0.0
	chosen := c[len(c)-1]
	for _, x := range c {
		if sum += x.weight; sum > target {
			chosen = x
			break
		}
	}
	return chosen.id, float32(math.Log(chosen.weight / total))
}

// likeliest returns the ids of the n largest logits, the largest first, lower ids before higher ones of equals.
func likeliest(logits []float32, n int) []int32 {
	out := make([]int32, 0, n+1)
	for id, z := range logits {
		if len(out) == n && z <= logits[out[n-1]] {
			continue
		}
		at, _ := slices.BinarySearchFunc(out, z, func(have int32, z float32) int {
			if logits[have] >= z {
				return -1
			}
			return 1
		})
		out = slices.Insert(out, at, int32(id))
		out = out[:min(len(out), n)]
	}
	return out
}
