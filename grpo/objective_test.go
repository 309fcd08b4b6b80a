package grpo

import (
	"math"
	"testing"

	"terraloom/lora/train/run"
	"terraloom/lora/train/traintest"
)

func near(tb testing.TB, what string, got, want, tolerance float64) {
	tb.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		tb.Errorf("%s: %v, expected %v", what, got, want)
	}
}

// GRPO-2 and GRPO-3, G1, G2: advantages inside one group.
func TestAdvantages(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		std     string
		rewards []float64
		want    []float64
		spread  bool
	}{
		{Sample, []float64{2, .5, -1, -2}, []float64{1.214285, .357143, -.5, -1.071428}, true},
		{Population, []float64{2, .5, -1, -2}, []float64{1.402135, .412393, -.577350, -1.237178}, true},
		{Sample, []float64{1, 0, 0, 1}, []float64{.86602390, -.86602390, -.86602390, .86602390}, true},
		{Sample, []float64{1.5, 1.5, 1.5, 1.5}, []float64{0, 0, 0, 0}, false},
		{Sample, []float64{.3, math.Nextafter(.3, 1), .3, .3}, nil, true}, // not equal to the last bit: an advantage, but a small one
		{Sample, []float64{1, nan, 0, nan}, []float64{.5 / (math.Sqrt(.5) + 1e-6), 0, -.5 / (math.Sqrt(.5) + 1e-6), 0}, true},
		{Sample, []float64{1, nan, nan, nan}, []float64{0, 0, 0, 0}, false},
		{Sample, []float64{nan, nan, nan, nan}, []float64{0, 0, 0, 0}, false},
	} {
		got, spread := Group{Std: c.std, Eps: 1e-6}.advantages(c.rewards)
		if spread != c.spread {
			t.Errorf("%v: spread %t", c.rewards, spread)
		}
		for i := range got {
			if c.want == nil {
				near(t, "advantage of nearly equal rewards", got[i], 0, 1e-6)
			} else {
				near(t, "advantage", got[i], c.want[i], 1e-6)
			}
		}
	}
}

// G16: every group by itself, however different the groups' rewards are.
func TestGroupsAreJudgedApart(t *testing.T) {
	answers := make([]answer, 8)
	for i, r := range []float64{100, 101, 100, 101, -1, -2, -1, -1} {
		answers[i].Reward = r
	}
	flat := Group{Size: 4, Std: Population}.judge(answers)
	for i, want := range []float64{-1, 1, -1, 1, .57735, -1.73205, .57735, .57735} {
		near(t, "advantage", answers[i].Advantage, want, 1e-5)
	}
	if flat[0] || flat[1] {
		t.Errorf("flat %v", flat)
	}
}

// GRPO-4: the clipped surrogate, and where its gradient stops.
func TestClippedSurrogate(t *testing.T) {
	o := Objective{ClipLow: .2, ClipHigh: .2}
	for _, c := range []struct {
		ratio, advantage, surrogate float64
		low, high, moves            bool
	}{
		{1.3, 1, 1.2, false, true, false}, {1.3, -1, -1.3, false, false, true}, {.5, 1, .5, false, false, true}, {.5, -1, -.8, true, false, false},
		{1, 1, 1, false, false, true}, {1.1, -2, -2.2, false, false, true}, {5, 0, 0, false, false, false},
	} {
		x := o.terms(token{logp: math.Log(c.ratio), advantage: c.advantage})
		near(t, "surrogate", -x.policy, c.surrogate, 1e-12)
		if x.low != c.low || x.high != c.high || (x.dLogP != 0) != c.moves {
			t.Errorf("%+v: %+v", c, x)
		}
	}
	// Clip-higher: only the upper bound moves.
	o.ClipHigh = .28
	near(t, "clip-higher", -o.terms(token{logp: math.Log(1.3), advantage: 1}).policy, 1.28, 1e-12)
	near(t, "clip-higher below", -o.terms(token{logp: math.Log(.5), advantage: -1}).policy, -.8, 1e-12)
}

// The derivatives are those of the terms, by central differences.
func TestTermDerivatives(t *testing.T) {
	for _, kl := range []string{K3, K2, K3Rho} {
		o := Objective{ClipLow: .2, ClipHigh: .3, Beta: .7, KL: kl, Entropy: .1}
		for _, k := range []token{{logp: -1, old: -1.1, ref: -1.4, advantage: 1.3}, {logp: -1, old: -1.1, ref: -.5, advantage: -1.3}, {logp: -2, old: -1, ref: -1.5, advantage: 2},
			{logp: -2, old: -1, ref: -1.5, advantage: -2}, {logp: -.3, old: -1, ref: -1.5, advantage: 1}} {
			const h = 1e-6
			up, down := k, k
			up.logp += h
			down.logp -= h
			near(t, kl, o.terms(k).dLogP, (o.terms(up).loss-o.terms(down).loss)/(2*h), 1e-8)
		}
	}
}

// example are the tokens of GRPO-7: four answers of 2, 1, 3 and 2 tokens.
func example(advantages []float64, o Objective, limit int) (tokens []token) {
	logp := [][]float64{{-.1, -1.2}, {-.7}, {-.3, -2, -.05}, {-1, -.4}}
	old := [][]float64{{-.3, -1.2}, {-.4}, {-.35, -1.5, -.05}, {-1, -.8}}
	ref := [][]float64{{-.2, -1}, {-.6}, {-.3, -1.8, -.1}, {-1.1, -.5}}
	entropy := [][]float64{{.5, 1.1}, {.8}, {.6, 1.4, .2}, {1, .7}}
	w := o.weights([]int{2, 1, 3, 2}, limit)
	for i := range logp {
		for j := range logp[i] {
			tokens = append(tokens, token{logp: logp[i][j], old: old[i][j], ref: ref[i][j], entropy: entropy[i][j], advantage: advantages[i], weight: w[i], sampled: math.NaN()})
		}
	}
	return tokens
}

// GRPO-5 to GRPO-7 and model-spec's G9: the whole objective by hand, under each aggregation.
func TestObjectiveByHand(t *testing.T) {
	o := Objective{ClipLow: .2, ClipHigh: .2, Beta: .04, KL: K3, Entropy: .01, Aggregation: TokenMean}
	near(t, "k3 at d = -.2", Objective{Beta: 1, KL: K3}.terms(token{ref: -.2}).kl, .01873075, 1e-8)
	a, _ := Group{Std: Sample, Eps: 1e-6}.advantages([]float64{2, .5, -1, -2})
	s := newTally(o)
	for _, k := range example(a, o, 8) {
		s.add(k)
	}
	record := run.Record{Values: s.values(true)}
	near(t, "surrogate", traintest.Value(t, record, "policy_loss"), .14493007, 1e-7)
	near(t, "KL", traintest.Value(t, record, "kl"), .00796476, 1e-8)
	near(t, "objective", s.loss, .13737366, 1e-7)
	if n := traintest.Value(t, record, "sampler_missing"); n != 8 || s.gap() != 0 {
		t.Errorf("G8: %v tokens without a log-probability from the sampler, gap %v", n, s.gap())
	}

	b, _ := Group{Std: Sample, Eps: 1e-6}.advantages([]float64{1, 0, 0, 0})
	for _, c := range []struct {
		aggregation string
		entropy     float64
		want        float64
	}{{TokenMean, 0, -.0282378652}, {TokenMean, .01, -.0361128652}, {SequenceMean, 0, -.0376511933}, {DrGRPO, 0, -.0070594663}} {
		o := o
		o.Aggregation, o.Entropy = c.aggregation, c.entropy
		s := newTally(o)
		for _, k := range example(b, o, 8) {
			s.add(k)
		}
		near(t, "loss by "+c.aggregation, s.loss, c.want, 1e-9)
		near(t, "low", float64(s.low), 2, 0)
		near(t, "high", float64(s.high), 1, 0)
	}
	o.Entropy = 0
	grads := []float64{.00047581, -.18860664, -.00052585, .06570431, -.00110701, .06274373, .06297569, .09371467}
	for i, g := range o.coefficients(example(b, o, 8)).LogProb {
		near(t, "gradient", float64(g), grads[i], 1e-8)
	}
}

// G4: masked answers are in no numerator and in no denominator; where all are masked nothing is divided by zero.
func TestMaskedAnswersHaveNoWeight(t *testing.T) {
	for _, aggregation := range []string{TokenMean, SequenceMean, DrGRPO} {
		o := Objective{Aggregation: aggregation}
		alone, masked := o.weights([]int{2, 3}, 10), o.weights([]int{2, 0, 3, 0}, 10)
		if masked[0] != alone[0] || masked[2] != alone[1] || masked[1] != 0 {
			t.Errorf("%s: %v, without the masked %v", aggregation, masked, alone)
		}
		for _, w := range o.weights([]int{0, 0}, 10) {
			if w != 0 {
				t.Errorf("%s: weight %v of a masked answer", aggregation, w)
			}
		}
	}
	if v := newTally(Objective{}).values(true); len(v) != 1 || v[0].Number != 0 {
		t.Errorf("values of no tokens: %v", v)
	}
}

// Three estimators have the gradient that their comments name (model-spec's G12): over a distribution of three classes the
// expectation of k2's and of k3·ρ's is that of KL(p‖p_ref), of k3's that of KL(p_ref‖p).
func TestEstimatorGradients(t *testing.T) {
	theta, refTheta := []float64{.3, -.2, .5}, []float64{.1, .4, -.3}
	forward, reverse := []float64{-.03096295, -.19036271, .22132565}, []float64{.02250890, -.23246824, .20995934}
	for kl, want := range map[string][]float64{K2: forward, K3Rho: forward, K3: reverse} {
		o := Objective{Beta: 1, KL: kl}
		for i := range theta {
			sum := 0.0
			for x := range theta {
				p := softmax(theta)
				logp := math.Log(p[x])
				d := o.terms(token{logp: logp, old: logp, ref: math.Log(softmax(refTheta)[x])}).dLogP
				delta := 0.0
				if i == x {
					delta = 1
				}
				sum += p[x] * d * (delta - p[i]) // ∂log p(x)/∂θ_i
			}
			near(t, kl, sum, want[i], 1e-7)
		}
	}
}

func softmax(z []float64) (p []float64) {
	sum := 0.0
	for _, x := range z {
		sum += math.Exp(x)
	}
	for _, x := range z {
		p = append(p, math.Exp(x)/sum)
	}
	return p
}
