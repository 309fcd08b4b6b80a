// Package decoder runs and differentiates the decoder-only language models that package checkpoint opens, with low-rank
// adapters or with all weights trainable, on any GoMLX engine.
//
// A model is executed layer by layer: embedding, one program per kind of layer forward and one backward, a head over the
// labelled tokens only, and the optimiser. Compile time does not grow with depth. The backward pass computes each layer
// again, or not: see [Options.Keep] and [Options.Whole]. Norms, softmax, delta rule, residual stream and loss are
// float32 always.
//
//	m, err := decoder.Load(b, base.Config, base, decoder.Options{})
//	p, err := m.Bind(adapter)                       // trainable tensors on the device
//	pass, err := m.Forward(decoder.PadRight(rows), p, decoder.Train{})
//	scores, err := pass.Backward(labels, decoder.Coefficients{LogProb: w}, grads)
//	err = p.Update(state, grads, adamW, clip)
package decoder

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"terraloom/lora/backend"
	"terraloom/lora/checkpoint"
)

// Precision is the dtype in which projections are stored and multiplied.
type Precision string

// Float32 widens 16-bit checkpoints, so results equal those of float32 arithmetic; BFloat16 halves the memory. AutoPrecision
// is what is fast: BFloat16 on CUDA and Float32 elsewhere, for CPUs without bfloat16 arithmetic emulate it.
const (
	Float32       Precision = "float32"
	BFloat16      Precision = "bfloat16"
	AutoPrecision Precision = "auto"
)

func (p Precision) dtype() dtypes.DType {
	if p == BFloat16 {
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

// Options of [Load].
type Options struct {
	Precision Precision // empty: Float32
	// Devices > 1 splits batches over the first devices of the backend; parameters live on each of them.
	Devices int
	// ShardBase splits the frozen matrices over the devices too, instead of keeping all of them on each.
	ShardBase bool
	// Keep holds the outputs of all projections between forward and backward pass, about ten numbers for each one of the
	// residual stream; without it the backward pass computes each layer again: a third more work, least memory.
	Keep bool
	// Whole trains in one graph instead of layer by layer: nothing is computed twice, all activations are kept, and
	// compile time grows with depth.
	Whole bool
}

// Weights gives base tensors by canonical name: a [checkpoint.Model], or [RandomWeights].
type Weights interface {
	Tensor(name string) (checkpoint.Tensor, error)
}

// Model is a base model on the devices. Its weights never change. It is safe for concurrent use.
type Model struct {
	Config  checkpoint.Config
	Options Options

	devices           devices
	layers            []layer
	embed, norm, head value // head is embed when tied
	owned             []value
	headTokens        int
	mu                *sync.Mutex
	programs          map[string]*program
}

// layer is one layer's weights in the order of names.
type layer struct {
	kind    checkpoint.LayerType
	names   []string
	weights []value
	places  []placement
}

// headLogits is how many logits the head computes at once: 128 MB of float32 on a CPU.
const headLogits = 32 << 20

// Load copies the weights of a model with this configuration to the backend's devices.
func Load(b *backend.Backend, config checkpoint.Config, weights Weights, opts Options) (*Model, error) {
	switch opts.Precision {
	case "":
		opts.Precision = Float32
	case AutoPrecision:
		opts.Precision = Float32
		if b.Name == backend.CUDA {
			opts.Precision = BFloat16
		}
	case Float32, BFloat16:
	default:
		return nil, fmt.Errorf("precision %q: use %s, %s or %s", opts.Precision, AutoPrecision, Float32, BFloat16)
	}
	d, err := newDevices(b.Engine, opts.Devices)
	if err != nil {
		return nil, err
	}
	m := &Model{Config: config, Options: opts, devices: d, mu: &sync.Mutex{}, programs: map[string]*program{}}
	budget := headLogits
	if b.Name == backend.CUDA {
		budget *= 8
	}
	for m.headTokens = 1024; m.headTokens > 64 && m.headTokens*config.VocabSize > budget; m.headTokens /= 2 {
	}
	if err := m.load(weights); err != nil {
		m.Close()
		return nil, fmt.Errorf("loading the base model: %w", err)
	}
	return m, nil
}

func (m *Model) load(weights Weights) (err error) {
	take := func(name string) (value, placement, error) {
		v, p, err := m.loadTensor(weights, name)
		if err != nil {
			return nil, p, fmt.Errorf("%s: %w", name, err)
		}
		m.owned = append(m.owned, v)
		return v, p, nil
	}
	if m.embed, _, err = take("embed_tokens.weight"); err != nil {
		return err
	}
	for i, kind := range m.Config.LayerTypes {
		l := layer{kind: kind}
		for _, t := range LayerTensors(&m.Config, kind) {
			v, p, err := take(fmt.Sprintf("layers.%d.%s", i, t.Name))
			if err != nil {
				return err
			}
			l.names, l.weights, l.places = append(l.names, t.Name), append(l.weights, v), append(l.places, p)
		}
		m.layers = append(m.layers, l)
	}
	if m.norm, _, err = take("norm.weight"); err != nil {
		return err
	}
	m.head = m.embed
	if !m.Config.Tied {
		m.head, _, err = take("lm_head.weight")
	}
	return err
}

// loadTensor puts a matrix in the model's precision and anything else in float32 on the devices.
func (m *Model) loadTensor(weights Weights, name string) (value, placement, error) {
	t, err := weights.Tensor(name)
	if err != nil {
		return nil, shared, err
	}
	dtype, stored := dtypes.Float32, checkpoint.F32
	if len(t.Shape) == 2 && m.Options.Precision == BFloat16 {
		dtype, stored = dtypes.BFloat16, checkpoint.BF16
	}
	data := t.Data
	if t.DType != stored {
		values, err := t.Float32()
		if err != nil {
			return nil, shared, err
		}
		if stored == checkpoint.F32 {
			data = bytesOf(values)
		} else {
			var b bytes.Buffer
			b.Grow(2 * len(values))
			if err := checkpoint.FromFloat32(name, stored, t.Shape, values).Write(&b); err != nil {
				return nil, shared, err
			}
			data = b.Bytes()
		}
	}
	place := shared
	if m.Options.ShardBase && len(t.Shape) == 2 && name != "embed_tokens.weight" && name != "lm_head.weight" && m.devices.fits(t.Shape[0]) {
		place = split
	}
	v, err := m.devices.putBytes(place, shapes.Make(dtype, t.Shape...), data)
	return v, place, err
}

// Close releases the weights' memory on the devices. Models made by [Model.Merged] share weights: close them first.
func (m *Model) Close() {
	free(m.owned...)
	m.owned = nil
}

// program returns the program called key, made by make at the first use. Programs are shared by all models that came
// from one Load.
func (m *Model) program(key string, make func() (*program, error)) (*program, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.programs[key]; ok {
		return p, nil
	}
	p, err := make()
	if err != nil {
		return nil, err
	}
	m.programs[key] = p
	return p, nil
}

// LayerWeights are the names (see [LayerTensors]) and device tensors of layer i, for graphs of other packages: pass the
// tensors as inputs and build a [Layer] from the nodes. The model must have one device. The tensors belong to the model.
func (m *Model) LayerWeights(i int) (names []string, weights []*tensors.Tensor) {
	for _, v := range m.layers[i].weights {
		weights = append(weights, v[0])
	}
	return slices.Clone(m.layers[i].names), weights
}

// OuterWeights are the embedding [V, H], the final norm [H] and the head [V, H] (the embedding itself when tied).
func (m *Model) OuterWeights() (embed, norm, head *tensors.Tensor) {
	return m.embed[0], m.norm[0], m.head[0]
}

// NewLayer builds a Layer of kind i from the nodes of LayerWeights(i), in that order.
func (m *Model) NewLayer(i int, weights []*graph.Node) *Layer {
	return newLayer(&m.Config, m.layers[i].kind, m.layers[i].names, weights)
}

func newLayer(c *checkpoint.Config, kind checkpoint.LayerType, names []string, weights []*graph.Node) *Layer {
	l := &Layer{Config: c, Type: kind, Weights: make(map[string]*graph.Node, len(names))}
	for i, name := range names {
		l.Weights[name] = weights[i]
	}
	return l
}

// ErrLabels: positions or tokens that a batch does not have.
var ErrLabels = errors.New("labels do not fit the batch")
