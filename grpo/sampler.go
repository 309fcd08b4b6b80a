package grpo

import (
	"context"

	"terraloom/lora/decoder"
)

// sampler draws answers from the policy.
type sampler interface {
	// sample answers every request with the parameters as they are, which have had version optimiser steps. Every answer
	// carries the version that it was really drawn from.
	sample(ctx context.Context, params *decoder.Params, version int, requests []request) ([]drawn, error)
	close() error
}

// request asks for one answer.
type request struct {
	prompt      []int32
	maxTokens   int
	temperature float64 // 0: the likeliest token always
	seed        uint64
}

// drawn is an answer as a sampler gives it.
type drawn struct {
	tokens    []int32   // the end-of-turn token included
	logProbs  []float32 // of the tokens, at the request's temperature; NaN where the sampler gave none
	text      string    // without special tokens
	truncated bool      // maxTokens came before the end of turn
	version   int
}
