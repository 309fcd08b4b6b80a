package grpo

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"terraloom/lora/decoder"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
	"terraloom/reward"
)

// task is policy optimisation as the training loop sees it.
type task struct {
	config     Config
	base       *setup.Base
	on         *setup.Placed
	reference  *decoder.Params // nil: the base alone
	sampler    sampler
	shared     bool // the sampler is not the task's to close
	scorer     *reward.Scorer
	folder     *run.Folder
	layout     train.Layout
	cost       train.Cost
	rows       *Rows
	validation *Rows // nil: nothing is measured
	ids        []string
	targets    map[string]string // the reference answer of every row, by id

	pending *rollouts // drawn, and not used up
	flat    int       // rounds in a row without any spread
	spent   clock     // in the step that is computed
}

// IDs implements [train.Task].
func (t *task) IDs() []string { return t.ids }

// clock says where the time of a step goes.
type clock struct{ generate, train time.Duration }

// Gradient implements [train.Task]. The first step on a set of rows draws their answers, scores them and lets the reference
// judge them; that step and the following ones, batch.updates together, train on them. The objective is Eq. 10's,
//
//	L = Σ_tokens w·[ −min(ρA, clip(ρ, 1−ε, 1+ε)·A) + β·KL(p‖p_ref) − η·H(p) ],  ρ = p(token)/p_old(token)
//
// with the weights w of objective.aggregation, which are over all answers of the step however many rectangles they are
// computed in. p_old is what training itself computes in the first update, where ρ therefore is exactly 1. Dropout is off.
func (t *task) Gradient(ctx context.Context, s train.Step, sums *decoder.Vectors) (out train.Outcome, err error) {
	began := time.Now()
	t.spent = clock{}
	var values []run.Value
	if s.Update == 0 {
		flat := t.flat
		defer func() {
			if err != nil { // a step that is not done leaves no trace: it will be done again
				t.flat, t.pending = flat, nil
			}
		}()
		if values, err = t.begin(ctx, s); err != nil {
			return out, err
		}
	}
	if t.pending == nil || t.pending.Version != s.Number-s.Update {
		return out, fmt.Errorf("%w: this is update %d on answers of step %d, which are not there: start a new run", ErrStale, s.Update, s.Number-s.Update)
	}
	trained := time.Now()
	if out, err = t.update(ctx, s.Update == 0, sums); err != nil {
		return out, err
	}
	t.spent.train += time.Since(trained)
	if s.Update == t.config.Batch.Updates-1 {
		t.pending = nil
	}
	all, g, tr := time.Since(began).Seconds(), t.spent.generate.Seconds(), t.spent.train.Seconds()
	out.Values = append(append(values, out.Values...),
		run.Value{Name: "seconds_generate", Number: g}, run.Value{Name: "seconds_train", Number: tr},
		run.Value{Name: "share_generate", Number: g / all}, run.Value{Name: "share_train", Number: tr / all},
		run.Value{Name: "share_other", Number: (all - g - tr) / all})
	return out, nil
}

// begin draws a step's answers and judges them.
func (t *task) begin(ctx context.Context, s train.Step) ([]run.Value, error) {
	pending, values, err := t.draw(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("drawing answers: %w", err)
	}
	tokens := 0
	for _, a := range pending.Answers {
		tokens += len(a.Tokens)
	}
	values = append(values, run.Value{Name: "generated_per_second", Number: float64(tokens) / t.spent.generate.Seconds()})
	if t.pending = pending; pending.Flat*t.config.Group.Size < len(pending.Answers) {
		t.flat = 0
	} else if t.flat++; t.flat > t.config.Group.MaxFlat {
		return nil, fmt.Errorf("%w in %d rounds in a row (%d answers each): there is nothing to learn from: start from an adapter of a short Executor SFT (adapter: FOLDER), raise rollout.temperature or group.size, or look at the answers in %s",
			ErrNoSpread, t.flat, len(pending.Answers), run.SamplesFile)
	} else {
		slog.Warn("no group has answers of different reward", "step", s.Number+1, "in a row", t.flat, "allowed", t.config.Group.MaxFlat)
	}
	if !t.config.Objective.needsReference() {
		return values, nil
	}
	began := time.Now()
	if err := t.judgeByReference(ctx); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	t.spent.train += time.Since(began)
	return values, nil
}

// live are the answers that count in the objective, as documents with their lengths, and the tokens of each answer, 0 of
// masked ones.
func (t *task) live() (which []int, samples []train.Sample, lengths, tokens []int) {
	tokens = make([]int, len(t.pending.Answers))
	for i := range t.pending.Answers {
		a := &t.pending.Answers[i]
		if t.config.Rollout.MaskTruncated && a.Truncated {
			continue
		}
		s := a.sample()
		which, samples, lengths = append(which, i), append(samples, s), append(lengths, len(s.Tokens))
		tokens[i] = len(a.Tokens)
	}
	return which, samples, lengths, tokens
}

// judgeByReference computes the reference's log-probabilities of all answers.
func (t *task) judgeByReference(ctx context.Context) error {
	which, samples, _, _ := t.live()
	found, err := t.logProbs(ctx, t.reference, samples)
	if err != nil {
		return err
	}
	for i, at := range which {
		t.pending.Answers[at].Ref = found[i]
	}
	return nil
}

// logProbs are the log-probabilities of the samples' labelled tokens under some parameters.
func (t *task) logProbs(ctx context.Context, params *decoder.Params, samples []train.Sample) ([][]float32, error) {
	lengths := make([]int, len(samples))
	for i, s := range samples {
		lengths[i] = len(s.Tokens)
	}
	plan, err := t.layout.Plan(lengths)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(samples))
	for _, micro := range plan {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := micro.Batch(samples)
		b.Labels.Temperature = t.config.Rollout.Temperature
		pass, err := t.on.Model.Forward(b.Batch, params, decoder.Train{})
		if err != nil {
			return nil, err
		}
		got, err := pass.Score(b.Labels)
		pass.Free()
		if err != nil {
			return nil, err
		}
		for i, s := range b.Owner {
			out[s] = append(out[s], got.LogProb[i])
		}
	}
	return out, nil
}

// update adds the gradient of one step on the pending answers. In the first update on them the policy is the one that drew
// them: its log-probabilities become the old ones.
func (t *task) update(ctx context.Context, first bool, sums *decoder.Vectors) (out train.Outcome, err error) {
	which, samples, lengths, tokens := t.live()
	plan, err := t.layout.Plan(lengths)
	if err != nil {
		return out, err
	}
	weights := t.config.Objective.weights(tokens, t.config.Rollout.MaxTokens)
	found := newTally(t.config.Objective)
	for _, micro := range plan {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		b := micro.Batch(samples)
		owners := make([]int, len(b.Owner))
		for i, s := range b.Owner {
			owners[i] = which[s]
		}
		tokens, err := t.rectangle(b, owners, weights, first, sums)
		if err != nil {
			return out, err
		}
		for _, k := range tokens {
			found.add(k)
		}
		out.Tokens.Add(b.Count)
	}
	if gap := found.gap(); first && gap > t.config.Rollout.MaxGap {
		return out, fmt.Errorf("%w: log-probabilities of the drawn tokens differ by %.4g nats on average, rollout.max_gap allows %g: does the sampler use this base, adapter and temperature?",
			ErrSampler, gap, t.config.Rollout.MaxGap)
	}
	out.Loss, out.Values = found.loss, found.values(first)
	out.FLOPs = t.cost.Of(lengths, out.Tokens.Labelled)
	if t.config.Objective.needsReference() && first || t.config.Objective.exact() {
		out.FLOPs *= 1.5 // the reference's forward pass
	}
	return out, nil
}

// rectangle computes one batch and returns its tokens as they are under the policy. owners are the answers of its labels, whose
// tokens come in order.
func (t *task) rectangle(b train.Batch, owners []int, weights []float64, first bool, sums *decoder.Vectors) ([]token, error) {
	o := t.config.Objective
	b.Labels.Temperature = t.config.Rollout.Temperature
	pass, err := t.on.Model.Forward(b.Batch, t.on.Params, decoder.Train{Backward: true})
	if err != nil {
		return nil, err
	}
	defer pass.Free()

	tokens := t.tokens(owners, weights)
	if !first || o.needsReference() {
		got, err := pass.Score(b.Labels)
		if err != nil {
			return nil, err
		}
		t.fill(tokens, owners, got, first)
	} // else ρ is 1 and no coefficient depends on a probability
	if o.exact() {
		reference, err := t.on.Model.Forward(b.Batch, t.reference, decoder.Train{})
		if err != nil {
			return nil, err
		}
		defer reference.Free()
		b.Labels.Reference = reference
	}
	got, err := pass.Backward(b.Labels, o.coefficients(tokens), sums)
	if err != nil {
		return nil, err
	}
	if first {
		for i, owner := range owners {
			t.pending.Answers[owner].Old = append(t.pending.Answers[owner].Old, got.LogProb[i])
		}
	}
	t.fill(tokens, owners, got, first)
	return tokens, nil
}

// tokens are the labels of a rectangle with what is known of them before the policy has seen them.
func (t *task) tokens(owners []int, weights []float64) []token {
	next := map[int]int{}
	out := make([]token, len(owners))
	for i, owner := range owners {
		a, at := &t.pending.Answers[owner], next[owner]
		next[owner]++
		out[i] = token{advantage: a.Advantage, weight: weights[owner], sampled: float64(a.Sampled[at])}
		if a.Ref != nil {
			out[i].ref = float64(a.Ref[at])
		}
	}
	return out
}

// fill adds what the policy finds.
func (t *task) fill(tokens []token, owners []int, got *decoder.Scores, first bool) {
	next := map[int]int{}
	for i, owner := range owners {
		at := next[owner]
		next[owner]++
		k := &tokens[i]
		k.logp, k.entropy = float64(got.LogProb[i]), float64(got.Entropy[i])
		if k.old = k.logp; !first {
			k.old = float64(t.pending.Answers[owner].Old[at])
		}
		if got.KL != nil {
			k.kl = float64(got.KL[i])
		}
	}
}
