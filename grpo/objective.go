package grpo

import (
	"math"

	"terraloom/lora/decoder"
)

// token is what the objective needs to know about one token of an answer. Log-probabilities are at the temperature of
// drawing, in nats.
type token struct {
	logp, old, ref float64 // under the policy, the policy that drew the answer, and the reference (unless KL is exact)
	entropy        float64 // of the policy's whole distribution
	kl             float64 // KL(p‖p_ref) over the vocabulary, if KL is exact
	advantage      float64
	weight         float64 // in the mean, see weights
	sampled        float64 // log-probability that the sampler gave; NaN: none
}

// terms are the parts of one token's loss, without its weight.
type terms struct {
	ratio  float64 // ρ
	policy float64 // −min(ρA, clip(ρ)A)
	kl     float64
	loss   float64 // policy + β·kl − η·H
	// The clipped branch was taken: ρ < 1−ε with A < 0, or ρ > 1+ε with A > 0. Such a token has no policy gradient.
	low, high bool
	dLogP     float64 // derivative of loss with respect to logp
}

// terms computes Eq. 10 for one token:
//
//	ρ = exp(log p − log p_old)
//	loss = −min(ρ·A, clip(ρ, 1−ε_low, 1+ε_high)·A) + β·KL(p‖p_ref) − η·H(p)
//
// The derivative with respect to the entropy is −η, with respect to an exact KL β; see the constants for the estimators.
func (o Objective) terms(t token) (s terms) {
	s.ratio = math.Exp(t.logp - t.old)
	a := t.advantage
	s.low = s.ratio < 1-o.ClipLow && a < 0
	s.high = s.ratio > 1+o.ClipHigh && a > 0
	clipped := min(max(s.ratio, 1-o.ClipLow), 1+o.ClipHigh)
	s.policy = -min(s.ratio*a, clipped*a)
	if !s.low && !s.high {
		s.dLogP = -s.ratio * a
	}
	if o.Beta > 0 {
		var d float64
		s.kl, d = o.divergence(t, s.ratio)
		s.dLogP += o.Beta * d
	}
	s.loss = s.policy + o.Beta*s.kl - o.Entropy*t.entropy
	return s
}

// divergence is the KL term of a token and its derivative with respect to logp; an exact KL's goes through the head instead.
func (o Objective) divergence(t token, ratio float64) (value, derivative float64) {
	d := t.ref - t.logp
	switch o.KL {
	case K2:
		return d * d / 2, -d
	case K3:
		return math.Exp(d) - d - 1, 1 - math.Exp(d)
	case K3Rho:
		k3 := math.Exp(d) - d - 1
		return ratio * k3, ratio * (1 - math.Exp(d) + k3)
	}
	return t.kl, 0
}

// weights says what each token of every answer counts in the mean, by the answers' numbers of tokens; 0 tokens: the answer is
// masked. Answers that are masked count in no denominator. All are 0 if everything is masked.
func (o Objective) weights(tokens []int, limit int) []float64 {
	answers, total := 0, 0
	for _, n := range tokens {
		if n > 0 {
			answers++
			total += n
		}
	}
	w := make([]float64, len(tokens))
	for i, n := range tokens {
		switch {
		case n == 0:
		case o.Aggregation == SequenceMean:
			w[i] = 1 / (float64(answers) * float64(n))
		case o.Aggregation == DrGRPO:
			w[i] = 1 / (float64(answers) * float64(limit))
		default:
			w[i] = 1 / float64(total)
		}
	}
	return w
}

// needsReference reports whether the reference's log-probabilities of drawn tokens are needed.
func (o Objective) needsReference() bool { return o.Beta > 0 && o.KL != Exact }

// exact reports whether the reference's whole distributions are needed.
func (o Objective) exact() bool { return o.Beta > 0 && o.KL == Exact }

// coefficients are the loss's derivatives with respect to each token's terms.
func (o Objective) coefficients(tokens []token) decoder.Coefficients {
	c := decoder.Coefficients{LogProb: make([]float32, len(tokens))}
	if o.Entropy > 0 {
		c.Entropy = make([]float32, len(tokens))
	}
	if o.exact() {
		c.KL = make([]float32, len(tokens))
	}
	for i, k := range tokens {
		c.LogProb[i] = float32(k.weight * o.terms(k).dLogP)
		if c.Entropy != nil {
			c.Entropy[i] = float32(-k.weight * o.Entropy)
		}
		if c.KL != nil {
			c.KL[i] = float32(k.weight * o.Beta)
		}
	}
	return c
}
