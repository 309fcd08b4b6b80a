package grpo

import (
	"context"
	"errors"
	"fmt"

	"terraloom/lora/decoder"
	"terraloom/lora/generate"
	"terraloom/lora/train/setup"
)

// local draws in this process, on weights into which the adapter is merged. A prompt is computed once for all its answers.
type local struct {
	base   *decoder.Model // on one device
	owned  bool           // base is a copy of the sampler's own
	engine *generate.Engine
	newest uint64 // version of the engine's weights that was used last
}

// policy is the engine's name of the model that is trained.
const policy = "policy"

// decodedAtOnce is how many tokens are decoded between two looks at who comes and goes.
const decodedAtOnce = 32

// newLocal makes the engine. Generation runs on one device: where training uses several, the base is loaded once more.
func newLocal(c Config, base *setup.Base, on *setup.Placed, terminator int32) (l *local, err error) {
	l = &local{base: on.Model}
	if c.Device.Count > 1 {
		l.owned = true
		l.base, err = decoder.Load(on.Backend, base.Model.Config, base.Model, decoder.Options{Precision: decoder.Precision(c.Device.Precision)})
		if err != nil {
			return nil, err
		}
	}
	l.engine, err = generate.New(on.Backend, l.base, generate.Options{Tokenizer: base.Codec.Tokenizer, StopIDs: stops(base, terminator),
		MaxRows: c.Rollout.Rows, Chunk: decodedAtOnce})
	if err != nil {
		if l.owned {
			l.base.Close()
		}
		return nil, err
	}
	return l, nil
}

// stops are the tokens that end an answer.
func stops(base *setup.Base, terminator int32) []int32 {
	ids := []int32{terminator}
	for _, id := range base.Model.Config.EOS {
		if int32(id) != terminator {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

func (l *local) close() error {
	l.engine.Close()
	if l.owned {
		l.base.Close()
	}
	return nil
}

// sample implements [sampler]. The merged weights are released again: training needs their memory.
func (l *local) sample(ctx context.Context, params *decoder.Params, version int, requests []request) (out []drawn, err error) {
	if l.owned {
		host, err := params.Adapter()
		if err != nil {
			return nil, err
		}
		if params, err = l.base.Bind(host); err != nil {
			return nil, err
		}
		defer params.Free()
	}
	merged, err := l.base.Merged(params)
	if err != nil {
		return nil, err
	}
	defer merged.Close()
	if err := l.engine.Use(policy, merged); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.engine.Use(policy, nil)) }()
	asked := make([]generate.Request, len(requests))
	for i, r := range requests {
		asked[i] = generate.Request{Model: policy, Prompt: r.prompt, MaxTokens: r.maxTokens, Sampling: generate.Sampling{Temperature: r.temperature, Seed: r.seed}}
	}
	results, err := l.engine.Generate(ctx, asked)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		if r.Version <= l.newest || r.Version != results[0].Version {
			return nil, fmt.Errorf("%w: an answer was drawn from weights %d, after those numbered %d were replaced", ErrStale, r.Version, l.newest)
		}
		out = append(out, drawn{r.IDs(), r.LogProbs(), r.Text, r.Reason == generate.Length, version})
	}
	if len(results) > 0 {
		l.newest = results[0].Version
	}
	return out, nil
}
