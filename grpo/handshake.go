package grpo

import (
	"context"
	"fmt"
	"math"
	"slices"

	"terraloom/lora/adapter"
	"terraloom/lora/decoder"
	"terraloom/lora/train"
)

// What the handshake asks for.
const (
	probePrompts = 4
	probeTokens  = 32
)

// handshake makes sure, before the first step, that a server draws from the weights it is handed: from a probe adapter that
// changes every answer. A server that binds none of an adapter's modules, or other weights, answers as if nothing were wrong,
// and a new adapter changes nothing by which that could be noticed.
func (t *task) handshake(ctx context.Context, s *server) error {
	c := t.config
	if err := s.limit(ctx, c.Data.MaxPromptTokens+c.Rollout.MaxTokens); err != nil {
		return err
	}
	probe, err := t.on.Model.Bind(probeOf(t.base.Start))
	if err != nil {
		return err
	}
	defer probe.Free()
	start, err := t.on.Model.Bind(t.base.Start)
	if err != nil {
		return err
	}
	defer start.Free()
	var requests []request
	for i := range min(probePrompts, len(t.rows.Rows)) {
		requests = append(requests, request{t.rows.Rows[i].Prompt, min(probeTokens, c.Rollout.MaxTokens), c.Rollout.Temperature, train.Stream(c.Seed, "probe", i)})
	}
	drawn, err := s.sample(ctx, probe, 0, requests)
	if err != nil {
		return err
	}
	answers := make([]answer, len(drawn))
	for i, d := range drawn {
		answers[i] = answer{Prompt: requests[i].prompt, Tokens: d.tokens, Sampled: d.logProbs}
	}
	with, err := t.difference(ctx, probe, answers)
	if err != nil {
		return err
	}
	without, err := t.difference(ctx, start, answers)
	if err != nil {
		return err
	}
	switch {
	case math.IsNaN(with):
		return fmt.Errorf("%w: the server gives no log-probabilities", ErrSampler)
	case with > without/2:
		return fmt.Errorf("%w: the server's log-probabilities are %.3g nats per token off from those of the adapter it was handed, and %.3g from those without: it does not apply the adapter (does its model class bind these module names?)", ErrSampler, with, without)
	case with > c.Rollout.MaxGap:
		return fmt.Errorf("%w: the server's log-probabilities are %.3g nats per token off from training's, rollout.max_gap allows %g: same base and precision? at a temperature other than 1 start it with --logprobs-mode processed_logprobs", ErrSampler, with, c.Rollout.MaxGap)
	}
	return nil
}

// probeOf is the adapter with each element of B moved by a fiftieth, up or down.
func probeOf(a *adapter.Adapter) *adapter.Adapter {
	probe := *a
	probe.B = make([][]float32, len(a.B))
	for i := range a.B {
		probe.B[i] = slices.Clone(a.B[i])
		for j := range probe.B[i] {
			probe.B[i][j] += 0.02 * (1 - 2*float32(train.Stream(0, "probe", i, j)&1))
		}
	}
	return &probe
}

// difference is the mean distance between the sampler's log-probabilities and those under params; NaN without any.
func (t *task) difference(ctx context.Context, params *decoder.Params, answers []answer) (float64, error) {
	var samples []train.Sample
	for i := range answers {
		samples = append(samples, answers[i].sample())
	}
	logProbs, err := t.logProbs(ctx, params, samples)
	if err != nil {
		return 0, err
	}
	sum, n := 0.0, 0
	for i, a := range answers {
		for j, p := range a.Sampled {
			if p == p { // not NaN
				sum += math.Abs(float64(p - logProbs[i][j]))
				n++
			}
		}
	}
	return sum / float64(n), nil
}
