package grpo

import (
	"context"

	"terraloom/lora/decoder"
)

// spoiled is a sampler that changes the first answer of every call.
type spoiled struct {
	sampler
	spoil func(*drawn)
}

func (s *spoiled) sample(ctx context.Context, params *decoder.Params, version int, requests []request) ([]drawn, error) {
	out, err := s.sampler.sample(ctx, params, version, requests)
	if err == nil {
		s.spoil(&out[0])
	}
	return out, err
}
