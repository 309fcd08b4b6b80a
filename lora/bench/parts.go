package bench

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"terraloom/lora/backend"
	"terraloom/lora/checkpoint"
)

// Sizes of what [Parts] measures.
const (
	Small = "small" // tiny models of the same architecture: a rehearsal, whose speeds mean nothing
	Full  = "full"  // Qwen3.5-0.8B and 4B
)

// machine is what the first parts find and later ones compare with; zero: not found.
type machine struct {
	matmul    float64 // FLOP/s of bfloat16 products
	bandwidth float64 // bytes/s
}

// subjects are the models of each size.
func subjects(shapes string) ([]*subject, error) {
	switch shapes {
	case Small:
		return []*subject{{name: "qwen3.5-tiny", config: qwen35(64, 128, 4, 2, 2, 2, 16, 16, 320), rows: 2, length: 32, prompt: 24, answer: 12}}, nil
	case Full:
		return []*subject{
			{name: "qwen3.5-0.8b", config: qwen35(1024, 3584, 24, 8, 16, 16, 256, 128, 248320), rows: 4, length: 1024, prompt: 448, answer: 64},
			{name: "qwen3.5-4b", config: qwen35(2560, 9216, 32, 16, 16, 32, 256, 128, 248320), rows: 4, length: 1024, prompt: 448, answer: 64},
		}, nil
	}
	return nil, fmt.Errorf("shapes %q: use %s or %s", shapes, Small, Full)
}

// Parts are the checks and timings of package lora: the backend's own check, the bandwidth of the memory, the reference models
// in goldens (float32), and training and decoding of models with random bfloat16 weights. A model is on the device from its
// training to the end of its decoding, so these parts belong in this order.
func Parts(b *backend.Backend, shapes, goldens string) ([]Part, error) {
	models, err := subjects(shapes)
	if err != nil {
		return nil, err
	}
	found := &machine{}
	parts := []Part{
		{"check", 40, func(context.Context) (any, error) { return found.check(b) }},
		{"bandwidth", 15, func(context.Context) (any, error) { return found.copying(b) }},
		{"goldens", 120, func(ctx context.Context) (any, error) { return compareGoldens(ctx, b, goldens) }},
	}
	for i, s := range models {
		s.backend, s.machine = b, found
		share := 60 + 20*float64(i) // the larger model later
		parts = append(parts,
			Part{"sft " + s.name, share, func(ctx context.Context) (any, error) { return s.trainSteps(ctx) }},
			Part{"decode " + s.name, share, func(ctx context.Context) (any, error) {
				defer s.close() // room for the next model
				return s.decodeAll(ctx)
			}})
	}
	return parts, nil
}

// qwen35 is a Qwen3.5 decoder with tied embeddings: every fourth layer attends in full, the others follow the gated delta rule.
func qwen35(hidden, inter, layers, heads, keyHeads, valueHeads, headDim, linearDim, vocab int) checkpoint.Config {
	c := checkpoint.Config{Family: checkpoint.Qwen35, Architecture: "Qwen3_5ForCausalLM", HiddenSize: hidden, IntermediateSize: inter,
		NumLayers: layers, NumHeads: heads, NumKVHeads: max(heads/4, 1), HeadDim: headDim, VocabSize: vocab, MaxPositions: 262144,
		RMSNormEps: 1e-6, ZeroCentredNorm: true, QKNorm: true, OutputGate: true, Tied: true, DType: checkpoint.BF16, BOS: -1, Pad: -1,
		Rope:       checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: 1e7, Dim: headDim / 4},
		LinearAttn: checkpoint.LinearAttn{KeyHeads: keyHeads, ValueHeads: valueHeads, KeyHeadDim: linearDim, ValueHeadDim: linearDim, ConvKernel: 4}}
	for i := range layers {
		kind := checkpoint.LinearAttention
		if (i+1)%4 == 0 {
			kind = checkpoint.FullAttention
		}
		c.LayerTypes = append(c.LayerTypes, kind)
	}
	return c
}

// Checked is [backend.Check]'s report.
type Checked struct {
	Precision     string  `json:"precision"`
	GradientError float64 `json:"gradient_error"`
	Compile       float64 `json:"compile_seconds"`
	Float32       float64 `json:"float32_gflops"`
	BFloat16      float64 `json:"bfloat16_gflops"`
	NVIDIA        string  `json:"nvidia_smi,omitempty"` // name, driver, memory
}

func (m *machine) check(b *backend.Backend) (any, error) {
	r, err := backend.Check(b)
	if err != nil {
		return nil, err
	}
	m.matmul = r.BFloat16 * 1e9
	c := Checked{Precision: r.Precision, GradientError: r.GradError, Compile: r.Compile.Seconds(), Float32: r.Float32, BFloat16: r.BFloat16}
	if b.Name == backend.CUDA {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		// Without the tool the entry is empty: the engine's own description is in the report.
		out, _ := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").Output()
		c.NVIDIA = strings.TrimSpace(string(out))
		if r.Precision != "float32" {
			return c, fmt.Errorf("float32 products are computed in %s: the reference comparisons need float32", r.Precision)
		}
	}
	return c, nil
}

// Bandwidth is the device's, reading and writing counted.
type Bandwidth struct {
	Bytes int     `json:"array_bytes"`
	Rate  float64 `json:"gb_per_second"`
}

// copying times y = x + 1 over an array that no cache holds.
func (m *machine) copying(b *backend.Backend) (any, error) {
	n := 16 << 20
	if b.Name == backend.CUDA {
		n = 256 << 20
	}
	add, err := graph.NewExec(b.Engine, func(x *graph.Node) *graph.Node { return graph.AddScalar(x, 1) })
	if err != nil {
		return nil, err
	}
	defer add.Finalize()
	// Engines may return before they are done: reading one element waits.
	first, err := graph.NewExec(b.Engine, func(x *graph.Node) *graph.Node { return graph.Slice(x, graph.AxisElem(0)) })
	if err != nil {
		return nil, err
	}
	defer first.Finalize()
	x, err := tensors.FromShapeForBackend(b.Engine, 0, shapes.Make(dtypes.Float32, n))
	if err != nil {
		return nil, err
	}
	defer x.MustFinalizeAll()
	best := time.Duration(math.MaxInt64)
	for i := range 7 {
		start := time.Now()
		y, err := add.Call1(x)
		if err != nil {
			return nil, err
		}
		e, err := first.Call1(y)
		if err != nil {
			return nil, err
		}
		if _, err := tensors.CopyFlatData[float32](e); err != nil {
			return nil, err
		}
		if i > 0 { // the first call compiles
			best = min(best, time.Since(start))
		}
		y.MustFinalizeAll()
		e.MustFinalizeAll()
	}
	m.bandwidth = 2 * 4 * float64(n) / best.Seconds()
	return Bandwidth{4 * n, m.bandwidth / 1e9}, nil
}
