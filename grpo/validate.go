package grpo

import (
	"context"
	"fmt"

	"terraloom/lora/train/run"
	"terraloom/reward"
)

// Evaluate implements [train.Task]: the model answers the validation prompts greedily, and what it wrote is scored. The
// figures are means over prompts.
func (t *task) Evaluate(ctx context.Context, done int) ([]run.Value, error) {
	if t.validation == nil {
		return nil, nil
	}
	requests := make([]request, len(t.validation.Rows))
	for i, r := range t.validation.Rows {
		requests[i] = request{prompt: r.Prompt, maxTokens: t.config.Rollout.MaxTokens}
	}
	drawn, err := t.sampler.sample(ctx, t.on.Params, done, requests)
	if err != nil {
		return nil, fmt.Errorf("answering validation prompts: %w", err)
	}
	items := make([]reward.Item, len(drawn))
	for i, d := range drawn {
		items[i] = reward.Item{Completion: d.text, Reference: t.validation.Rows[i].Reference}
	}
	results := t.scorer.Score(ctx, items)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tokens, truncated := 0, 0
	for i, d := range drawn {
		if d.version != done {
			return nil, fmt.Errorf("%w: validation was answered by the weights of step %d, the policy is at step %d", ErrStale, d.version, done)
		}
		tokens += len(d.tokens)
		if d.truncated {
			truncated++
		}
		row := &t.validation.Rows[i]
		l := line{Step: done, Kind: "validation", ID: row.ID, Answer: d.text, Expected: row.Target, Tokens: len(d.tokens), Truncated: d.truncated, Version: done}
		if err := t.folder.Line(run.SamplesFile, l.scored(results[i])); err != nil {
			return nil, err
		}
	}
	sum, n := reward.Summarize(results), float64(len(results))
	return []run.Value{
		{Name: "reward", Number: sum.Mean}, {Name: "key_accuracy", Number: sum.KeyAccuracy}, {Name: "value_accuracy", Number: sum.ValueAccuracy},
		{Name: "exact_match", Number: float64(sum.Exact) / n}, {Name: "parse_failures", Number: float64(sum.ParseFailures) / n},
		{Name: "answer_tokens", Number: float64(tokens) / n}, {Name: "truncated", Number: float64(truncated) / n},
	}, nil
}
