package sft

import (
	"context"
	"fmt"
	"time"

	"terraloom/lora/codec"
	"terraloom/lora/decoder"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
)

// task is supervised fine-tuning as the training loop sees it.
type task struct {
	config     Config
	base       *setup.Base
	on         *setup.Placed
	enc        *codec.Codec
	folder     *run.Folder
	layout     train.Layout
	cost       train.Cost
	rows       *Rows
	validation *Rows // nil: nothing is measured
	ids        []string
	writer     *writer // lets the model answer; nil until it is needed
}

// IDs implements [train.Task].
func (t *task) IDs() []string { return t.ids }

// Gradient implements [train.Task]. The objective is Eq. 10's, as a mean over the tokens of the step:
//
//	L = −1/N · Σ_rows Σ_l log p(w_l | x, w_<l)
//
// over the N answer tokens of all rows of the step (end-of-turn tokens included), however many rectangles they are
// computed in. So a step means the same whatever the batch is cut into.
func (t *task) Gradient(ctx context.Context, s train.Step, sums *decoder.Vectors) (train.Outcome, error) {
	began := time.Now()
	samples := make([]train.Sample, len(s.Rows))
	lengths := make([]int, len(s.Rows))
	n := 0
	for i, r := range s.Rows {
		samples[i] = t.rows.Rows[r].Sample
		lengths[i] = len(samples[i].Tokens)
		n += samples[i].Labels()
	}
	plan, err := t.layout.Plan(lengths)
	if err != nil {
		return train.Outcome{}, err
	}
	out := train.Outcome{FLOPs: t.cost.Of(lengths, n), Wait: time.Since(began)}
	var found scores
	for m, micro := range plan {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		began := time.Now()
		b := micro.Batch(samples)
		weight := make([]float32, len(b.Labels.At))
		for i := range weight {
			weight[i] = -1 / float32(n)
		}
		out.Wait += time.Since(began)
		pass, err := t.on.Model.Forward(b.Batch, t.on.Params, decoder.Train{Backward: true, Seed: train.Stream(t.config.Seed, "dropout", s.Number, m)})
		if err != nil {
			return out, err
		}
		got, err := pass.Backward(b.Labels, decoder.Coefficients{LogProb: weight}, sums)
		pass.Free()
		if err != nil {
			return out, err
		}
		found.add(got)
		out.Tokens.Add(b.Count)
	}
	out.Loss = found.loss()
	out.Values = append(found.values(), run.Value{Name: "sequence_loss", Number: found.nll / float64(len(s.Rows))}, run.Value{Name: "rectangles", Number: float64(len(plan))})
	return out, nil
}

// scores sums what the head found for labelled tokens.
type scores struct {
	n, right     int
	nll, entropy float64
}

func (s *scores) add(got *decoder.Scores) {
	for i, p := range got.LogProb {
		s.n++
		s.nll -= float64(p)
		s.entropy += float64(got.Entropy[i])
		if got.Top[i] {
			s.right++
		}
	}
}

func (s *scores) loss() float64 { return s.nll / float64(s.n) }

func (s *scores) values() []run.Value {
	return []run.Value{{Name: "token_accuracy", Number: float64(s.right) / float64(s.n)}, {Name: "entropy", Number: s.entropy / float64(s.n)}}
}

// Evaluate implements [train.Task]: loss and token accuracy over the validation rows, and what the model writes.
func (t *task) Evaluate(ctx context.Context, done int) ([]run.Value, error) {
	if t.validation == nil {
		return nil, nil
	}
	var samples []train.Sample
	var lengths []int
	for _, r := range t.validation.Rows {
		samples, lengths = append(samples, r.Sample), append(lengths, len(r.Tokens))
	}
	plan, err := t.layout.Plan(lengths)
	if err != nil {
		return nil, err
	}
	var found scores
	for _, micro := range plan {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := micro.Batch(samples)
		pass, err := t.on.Model.Forward(b.Batch, t.on.Params, decoder.Train{})
		if err != nil {
			return nil, err
		}
		got, err := pass.Score(b.Labels)
		pass.Free()
		if err != nil {
			return nil, err
		}
		found.add(got)
	}
	values := append([]run.Value{{Name: "loss", Number: found.loss()}}, found.values()...)
	if t.config.Generation.Rows == 0 {
		return values, nil
	}
	answers, err := t.answers(ctx, done)
	if err != nil {
		return nil, fmt.Errorf("answering validation prompts: %w", err)
	}
	return append(values, answers...), nil
}
