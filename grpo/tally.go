package grpo

import (
	"math"

	"terraloom/lora/train/run"
)

// tally sums what an update finds in its tokens.
type tally struct {
	objective                  Objective
	n, low, high               int
	loss                       float64 // with the tokens' weights
	policy, kl, entropy, ratio float64 // sums
	largest                    float64 // ratio
	gaps                       float64
	compared, missing          int // tokens with and without a log-probability from the sampler
}

func newTally(o Objective) *tally { return &tally{objective: o} }

// add takes one token.
func (s *tally) add(t token) {
	x := s.objective.terms(t)
	s.n++
	s.loss += t.weight * x.loss
	s.policy += x.policy
	s.kl += x.kl
	s.entropy += t.entropy
	s.ratio += x.ratio
	s.largest = max(s.largest, x.ratio)
	if x.low {
		s.low++
	}
	if x.high {
		s.high++
	}
	if math.IsNaN(t.sampled) {
		s.missing++
		return
	}
	s.compared++
	s.gaps += math.Abs(t.old - t.sampled)
}

// gap is the mean difference between the sampler's log-probabilities and training's.
func (s *tally) gap() float64 {
	if s.compared == 0 {
		return 0
	}
	return s.gaps / float64(s.compared)
}

// values are means over tokens, whatever the aggregation of the loss is. Without any token there are none.
func (s *tally) values(first bool) []run.Value {
	if s.n == 0 {
		return []run.Value{{Name: "trained_tokens", Number: 0}}
	}
	n := float64(s.n)
	out := []run.Value{
		{Name: "policy_loss", Number: s.policy / n}, {Name: "kl", Number: s.kl / n}, {Name: "entropy", Number: s.entropy / n},
		{Name: "clip_low", Number: float64(s.low) / n}, {Name: "clip_high", Number: float64(s.high) / n},
		{Name: "ratio", Number: s.ratio / n}, {Name: "ratio_max", Number: s.largest}, {Name: "trained_tokens", Number: n},
	}
	if first {
		out = append(out, run.Value{Name: "sampler_gap", Number: s.gap()}, run.Value{Name: "sampler_missing", Number: float64(s.missing)})
	}
	return out
}
