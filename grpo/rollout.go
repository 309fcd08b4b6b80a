package grpo

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"math"
	"time"

	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/reward"
)

// answer is one drawn answer with all that training needs of it. Fields are exported for checkpoints.
type answer struct {
	Row       string // id
	Prompt    []int32
	Tokens    []int32
	Sampled   []float32 // log-probabilities that the sampler gave; NaN: none
	Truncated bool
	Text      string
	Reward    float64 // NaN: a reward function failed
	Advantage float64

	Old []float32 // log-probabilities under the policy that drew it, as training computes them; nil before the first update
	Ref []float32 // under the reference; nil unless the estimator needs them
}

// sample is prompt and answer as one document, of which the answer is labelled.
func (a *answer) sample() train.Sample {
	s := train.Sample{Tokens: append(append(make([]int32, 0, len(a.Prompt)+len(a.Tokens)), a.Prompt...), a.Tokens...)}
	s.Label = make([]bool, len(s.Tokens))
	for i := len(a.Prompt); i < len(s.Tokens); i++ {
		s.Label[i] = true
	}
	return s
}

// rollouts are the answers of one step's prompts: groups one after another.
type rollouts struct {
	Version int // optimiser steps that the weights had had
	Answers []answer
	Flat    int // groups without spread
}

// saved is the task's part of a checkpoint.
type saved struct {
	Format  string
	Flat    int       // rounds of answers in a row without any spread
	Pending *rollouts // that are not used up; nil: none
}

const savedFormat = "terraloom-rollouts/1"

// State implements [train.Stateful].
func (t *task) State() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(saved{savedFormat, t.flat, t.pending})
	return b.Bytes(), err
}

// Restore implements [train.Stateful].
func (t *task) Restore(state []byte) error {
	var s saved
	if err := gob.NewDecoder(bytes.NewReader(state)).Decode(&s); err != nil {
		return fmt.Errorf("pending rollouts: %w", err)
	}
	if s.Format != savedFormat {
		return fmt.Errorf("pending rollouts: format %q, expected %q", s.Format, savedFormat)
	}
	t.flat, t.pending = s.Flat, s.Pending
	return nil
}

// draw draws and scores a group of answers for every row, once more where a group has no spread and that is asked for.
func (t *task) draw(ctx context.Context, step train.Step) (*rollouts, []run.Value, error) {
	size := t.config.Group.Size
	r := &rollouts{Version: step.Number, Answers: make([]answer, len(step.Rows)*size)}
	results := make([]reward.Result, len(r.Answers))
	groups := make([]int, len(step.Rows))
	for i := range groups {
		groups[i] = i
	}
	again := 0
	for try := 0; ; try++ {
		if err := t.drawGroups(ctx, step, groups, try, r, results); err != nil {
			return nil, nil, err
		}
		groups = groups[:0]
		for i, flat := range t.config.Group.judge(r.Answers) {
			if flat {
				groups = append(groups, i)
			}
		}
		if r.Flat = len(groups); r.Flat == 0 || try == t.config.Group.Resample {
			break
		}
		again += len(groups)
	}
	values, err := t.rolloutValues(r, results)
	if err != nil {
		return nil, nil, err
	}
	values = append(values, run.Value{Name: "resampled_groups", Number: float64(again)})
	return r, values, t.writeRollouts(step.Number, r, results)
}

// drawGroups draws the answers of some of a step's groups.
func (t *task) drawGroups(ctx context.Context, step train.Step, groups []int, try int, r *rollouts, results []reward.Result) error {
	size := t.config.Group.Size
	var requests []request
	for _, g := range groups {
		for i := range size {
			// Every answer has a random stream of its own, which depends on nothing but step, row and place.
			seed := train.Stream(t.config.Seed, "rollout", step.Number, step.Rows[g], i, try)
			requests = append(requests, request{t.rows.Rows[step.Rows[g]].Prompt, t.config.Rollout.MaxTokens, t.config.Rollout.Temperature, seed})
		}
	}
	began := time.Now()
	drawn, err := t.sampler.sample(ctx, t.on.Params, step.Number, requests)
	t.spent.generate += time.Since(began)
	if err != nil {
		return err
	}
	items := make([]reward.Item, len(drawn))
	for i, d := range drawn {
		items[i] = reward.Item{Completion: d.text, Reference: t.rows.Rows[step.Rows[groups[i/size]]].Reference}
	}
	scored := t.scorer.Score(ctx, items)
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, d := range drawn {
		row := &t.rows.Rows[step.Rows[groups[i/size]]]
		if d.version != step.Number {
			return fmt.Errorf("%w: an answer to %s was drawn from the weights of step %d, the policy is at step %d", ErrStale, row.ID, d.version, step.Number)
		}
		if len(d.tokens) == 0 || len(d.logProbs) != len(d.tokens) {
			return fmt.Errorf("%w: an answer to %s has %d tokens and %d log-probabilities", ErrSampler, row.ID, len(d.tokens), len(d.logProbs))
		}
		at := groups[i/size]*size + i%size
		results[at] = scored[i]
		r.Answers[at] = answer{Row: row.ID, Prompt: row.Prompt, Tokens: d.tokens, Sampled: d.logProbs, Truncated: d.truncated, Text: d.text, Reward: scored[i].Reward}
	}
	return nil
}

// rolloutValues describe the answers of a round.
func (t *task) rolloutValues(r *rollouts, results []reward.Result) ([]run.Value, error) {
	spreads, err := reward.Spreads(results, t.config.Group.Size)
	if err != nil {
		return nil, err
	}
	var values []run.Value
	add := func(name string, x float64) { values = append(values, run.Value{Name: name, Number: x}) }
	failed := 0
	for _, s := range spreads {
		// The spread over the batch beside that inside groups: a function that varies only between prompts trains nothing.
		name := "reward"
		if s.Name != reward.TotalName {
			name = "reward_" + s.Name
		} else {
			failed = s.Failed
		}
		add(name, s.Mean)
		add(name+"_std", s.Group)
		add(name+"_batch_std", s.Batch)
	}
	sum := reward.Summarize(results)
	n := float64(len(results))
	add("reward_failures", float64(failed))
	add("zero_spread", float64(r.Flat)/float64(len(r.Answers)/t.config.Group.Size))
	add("parse_failures", float64(sum.ParseFailures)/n)
	add("exact_match", float64(sum.Exact)/n)
	add("key_accuracy", sum.KeyAccuracy)
	tokens, shortest, longest, truncated := 0, math.MaxInt, 0, 0
	for _, a := range r.Answers {
		tokens += len(a.Tokens)
		shortest, longest = min(shortest, len(a.Tokens)), max(longest, len(a.Tokens))
		if a.Truncated {
			truncated++
		}
	}
	add("completion_tokens", float64(tokens)/n)
	add("completion_tokens_min", float64(shortest))
	add("completion_tokens_max", float64(longest))
	add("truncated", float64(truncated)/n)
	return values, nil
}

// line is a line of [run.SamplesFile].
type line struct {
	Step      int                `json:"step"`
	Kind      string             `json:"kind"` // rollout or validation
	ID        string             `json:"id"`
	Sample    int                `json:"sample"` // inside its group
	Answer    string             `json:"answer"`
	Expected  string             `json:"expected"`
	Reward    *float64           `json:"reward"` // null: a function failed
	Advantage *float64           `json:"advantage,omitempty"`
	Parts     map[string]float64 `json:"parts,omitempty"`
	Exact     bool               `json:"exact"`
	Reason    string             `json:"reason"`
	Error     string             `json:"error,omitempty"`
	Tokens    int                `json:"tokens"`
	Truncated bool               `json:"truncated"` // rollout.max_tokens came before the end of turn
	Version   int                `json:"version"`   // of the weights: optimiser steps they had had
}

// scored fills what a line says about the score.
func (l line) scored(r reward.Result) line {
	l.Exact, l.Reason = r.Score.Exact(), r.Score.Reason
	if r.Valid() {
		l.Reward = &r.Reward
	}
	l.Parts = map[string]float64{}
	for _, p := range r.Parts {
		if !math.IsNaN(p.Value) {
			l.Parts[p.Name] = p.Value
		}
	}
	if err := r.Err(); err != nil {
		l.Error = err.Error()
	}
	return l
}

func (t *task) writeRollouts(step int, r *rollouts, results []reward.Result) error {
	for i := range r.Answers {
		a := &r.Answers[i]
		l := line{Step: step + 1, Kind: "rollout", ID: a.Row, Sample: i % t.config.Group.Size, Answer: a.Text, Expected: t.targets[a.Row],
			Advantage: &a.Advantage, Tokens: len(a.Tokens), Truncated: a.Truncated, Version: r.Version}
		if err := t.folder.Line(run.SamplesFile, l.scored(results[i])); err != nil {
			return err
		}
	}
	return nil
}
