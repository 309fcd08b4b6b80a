package generate

import (
	"fmt"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// Logits computes the logits of one sequence at every position, [len(ids)][V], in one forward pass: for comparing with
// other implementations. adapterDir may be empty; the adapter is applied beside the weights, not merged.
func Logits(b *backend.Backend, path, adapterDir string, precision decoder.Precision, ids []int32) ([][]float32, error) {
	base, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	m, err := decoder.Load(b, base.Config, base, decoder.Options{Precision: precision})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer m.Close()
	var params *decoder.Params
	if adapterDir != "" {
		a, err := adapter.Load(adapterDir, &base.Config)
		if err != nil {
			return nil, err
		}
		if params, err = m.Bind(a); err != nil {
			return nil, fmt.Errorf("%s: %w", adapterDir, err)
		}
		defer params.Free()
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: no token ids", ErrRequest)
	}
	pass, err := m.Forward(decoder.PadRight([][]int32{ids}), params, decoder.Train{})
	if err != nil {
		return nil, err
	}
	defer pass.Free()
	at := make([]int32, len(ids))
	for i := range at {
		at[i] = int32(i)
	}
	flat, err := pass.Logits(at)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(ids))
	for i := range out {
		out[i] = flat[i*base.Config.VocabSize : (i+1)*base.Config.VocabSize]
	}
	return out, nil
}
