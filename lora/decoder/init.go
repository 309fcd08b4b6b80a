package decoder

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"terraloom/lora/checkpoint"
)

// RandomWeights are the weights of a new model: matrices normal with standard deviation Std, norms the identity,
// biases 0, and for the delta rule dt_bias 1 and A_log the logarithm of a uniform number in (0.01, 16), so that decay
// rates span what published models have. Every tensor has its own random stream.
type RandomWeights struct {
	Config checkpoint.Config
	Seed   uint64
	Std    float64 // 0: 0.02
}

// Tensor makes the tensor of that name, float32.
func (r RandomWeights) Tensor(name string) (checkpoint.Tensor, error) {
	for _, s := range r.Config.TensorSpecs() {
		if s.Name == name {
			return checkpoint.Tensor{Name: name, DType: checkpoint.F32, Shape: s.Shape, Data: bytesOf(r.values(s))}, nil
		}
	}
	return checkpoint.Tensor{}, checkpoint.ErrNoTensor
}

func (r RandomWeights) values(s checkpoint.TensorSpec) []float32 {
	std := r.Std
	if std == 0 {
		std = 0.02
	}
	h := fnv.New64a()
	h.Write([]byte(s.Name))
	rng := rand.New(rand.NewPCG(r.Seed, h.Sum64()))
	norm := float64(1)
	if r.Config.ZeroCentredNorm {
		norm = 0
	}
	draw := func() float64 { return rng.NormFloat64() * std }
	switch {
	case strings.HasSuffix(s.Name, "linear_attn.norm.weight"), strings.HasSuffix(s.Name, "dt_bias"):
		draw = func() float64 { return 1 }
	case strings.HasSuffix(s.Name, "A_log"):
		draw = func() float64 { return math.Log(0.01 + 15.99*rng.Float64()) }
	case strings.HasSuffix(s.Name, "norm.weight"):
		draw = func() float64 { return norm }
	case strings.HasSuffix(s.Name, ".bias"):
		draw = func() float64 { return 0 }
	case strings.HasSuffix(s.Name, "conv1d.weight"): // PyTorch's convolution: uniform in ±1/√width
		bound := 1 / math.Sqrt(float64(s.Shape[2]))
		draw = func() float64 { return (2*rng.Float64() - 1) * bound }
	}
	out := make([]float32, elements(s.Shape))
	for i := range out {
		out[i] = float32(draw())
	}
	return out
}
