package decoder

import (
	"errors"
	"fmt"
	"math"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
)

// Params are the trainable tensors of a model on its devices: an adapter's, or all of the model's weights. They are
// kept as one flat float32 vector per layer, plus one for embedding, norm and head where those are trained.
type Params struct {
	model  *Model
	recipe recipe
	adapt  *adapter.Adapter // shape and configuration; nil: all weights
	Vectors
}

// Vectors are numbers laid out like some Params: their values, gradients or moments.
type Vectors struct {
	devices devices
	layers  []value // nil where the layer has none
	outer   value   // nil if there is none
}

// Bind puts an adapter on the model's devices.
func (m *Model) Bind(a *adapter.Adapter) (*Params, error) {
	if err := a.CheckFits(&m.Config); err != nil {
		return nil, err
	}
	if len(a.Modules) == 0 {
		return nil, fmt.Errorf("%w: it has no modules: nothing would be trained", adapter.ErrBinding)
	}
	p := &Params{model: m, recipe: loraRecipe(&m.Config, a), adapt: a}
	host := make([][]float32, len(p.recipe.layers))
	for i, mod := range a.Modules {
		flat := append(host[mod.Layer], a.A[i]...)
		flat = append(flat, a.B[i]...)
		if a.Config.DoRA {
			flat = append(flat, a.Magnitude[i]...)
		}
		host[mod.Layer] = flat
	}
	v, err := p.FromHost(host)
	if err != nil {
		return nil, err
	}
	p.Vectors = *v
	return p, nil
}

// Full puts all weights of a model on its devices as trainable float32 tensors. The frozen copies of m stay where they
// are and are not used.
func (m *Model) Full(weights Weights) (*Params, error) {
	p := &Params{model: m, recipe: fullRecipe(&m.Config)}
	read := func(l layout, prefix string) (flat []float32, err error) {
		for _, s := range l.slots {
			t, err := weights.Tensor(prefix + s.name)
			if err != nil {
				return nil, err
			}
			values, err := t.Float32()
			if err != nil {
				return nil, err
			}
			flat = append(flat, values...)
		}
		return flat, nil
	}
	var host [][]float32
	for i, l := range p.recipe.layers {
		flat, err := read(l, fmt.Sprintf("layers.%d.", i))
		if err != nil {
			return nil, err
		}
		host = append(host, flat)
	}
	outer, err := read(p.recipe.outer, "")
	if err != nil {
		return nil, err
	}
	v, err := p.FromHost(append(host, outer))
	if err != nil {
		return nil, err
	}
	p.Vectors = *v
	return p, nil
}

// Adapter copies the parameters back to the host.
func (p *Params) Adapter() (*adapter.Adapter, error) { return p.AsAdapter(&p.Vectors) }

// AsAdapter copies vectors like p's, such as gradients, to the host in the form of an adapter.
func (p *Params) AsAdapter(v *Vectors) (*adapter.Adapter, error) {
	if p.adapt == nil {
		return nil, errors.New("all weights are trained: there is no adapter")
	}
	host, err := v.Host()
	if err != nil {
		return nil, err
	}
	out := &adapter.Adapter{Config: p.adapt.Config, Base: p.adapt.Base, Modules: p.adapt.Modules}
	next := make([]int, len(host))
	for _, m := range p.adapt.Modules {
		take := func(n int) []float32 {
			at := next[m.Layer]
			next[m.Layer] += n
			return host[m.Layer][at : at+n : at+n]
		}
		out.A = append(out.A, take(p.adapt.Config.R*m.In))
		out.B = append(out.B, take(m.Out*p.adapt.Config.R))
		if p.adapt.Config.DoRA {
			out.Magnitude = append(out.Magnitude, take(m.Out))
		}
	}
	return out, nil
}

// Tensors copies all weights back to the host, by canonical name, ready to be written. Only for [Model.Full].
func (p *Params) Tensors() ([]checkpoint.Source, error) {
	if p.adapt != nil {
		return nil, errors.New("an adapter is trained: the base's weights have not changed")
	}
	host, err := p.Host()
	if err != nil {
		return nil, err
	}
	var out []checkpoint.Source
	add := func(l layout, prefix string, flat []float32) {
		for _, s := range l.slots {
			values := flat[s.at : s.at+elements(s.shape)]
			out = append(out, checkpoint.FromFloat32(prefix+s.name, checkpoint.F32, s.shape, values))
		}
	}
	for i, l := range p.recipe.layers {
		add(l, fmt.Sprintf("layers.%d.", i), host[i])
	}
	add(p.recipe.outer, "", host[len(host)-1])
	return out, nil
}

// Name says what one element of the host vectors belongs to, e.g. "layers.3.mlp.up_proj lora_B": for messages about
// single numbers. vector and element are indices into what Host returns.
func (p *Params) Name(vector, element int) string {
	l, prefix := p.recipe.outer, ""
	if vector < len(p.recipe.layers) {
		l, prefix = p.recipe.layers[vector], fmt.Sprintf("layers.%d.", vector)
	}
	for _, s := range l.slots {
		if element < s.at+elements(s.shape) {
			path, part, _ := strings.Cut(s.name, "\x00")
			return strings.TrimSpace(prefix + path + " " + map[string]string{"A": "lora_A", "B": "lora_B", "m": "lora_magnitude_vector"}[part])
		}
	}
	return fmt.Sprintf("element %d of vector %d", element, vector)
}

// TrainsAll reports whether these are all weights of the model rather than an adapter.
func (p *Params) TrainsAll() bool { return p.adapt == nil }

// Count is the number of trainable numbers.
func (p *Params) Count() int64 {
	n := int64(p.recipe.outer.size)
	for _, l := range p.recipe.layers {
		n += int64(l.size)
	}
	return n
}

// sizes are the lengths of the host vectors: one per layer, then the outer one if there is one.
func (p *Params) sizes() []int {
	var out []int
	for _, l := range p.recipe.layers {
		out = append(out, l.size)
	}
	if p.recipe.outer.size > 0 {
		out = append(out, p.recipe.outer.size)
	}
	return out
}

// Zeros are vectors like p's, all zero.
func (p *Params) Zeros() (*Vectors, error) {
	var host [][]float32
	for _, n := range p.sizes() {
		host = append(host, make([]float32, n))
	}
	return p.FromHost(host)
}

// FromHost copies vectors like p's to its devices: the inverse of [Vectors.Host].
func (p *Params) FromHost(host [][]float32) (*Vectors, error) {
	sizes := p.sizes()
	if len(host) != len(sizes) {
		return nil, fmt.Errorf("%d vectors, the parameters have %d", len(host), len(sizes))
	}
	v := &Vectors{devices: p.model.devices, layers: make([]value, len(p.recipe.layers))}
	for i, flat := range host {
		if len(flat) != sizes[i] {
			v.Free()
			return nil, fmt.Errorf("vector %d has %d numbers, the parameters have %d", i, len(flat), sizes[i])
		}
		if len(flat) == 0 {
			continue
		}
		t, err := put(v.devices, shared, flat, len(flat))
		if err != nil {
			v.Free()
			return nil, err
		}
		if i < len(v.layers) {
			v.layers[i] = t
		} else {
			v.outer = t
		}
	}
	return v, nil
}

// Host copies the vectors to the host: one per layer (empty where nothing is trained), then the outer one if there is
// one.
func (v *Vectors) Host() ([][]float32, error) {
	out := make([][]float32, 0, len(v.layers)+1)
	for _, t := range v.layers {
		if t == nil {
			out = append(out, nil)
			continue
		}
		flat, err := fetch[float32](shared, t)
		if err != nil {
			return nil, err
		}
		out = append(out, flat)
	}
	if v.outer != nil {
		flat, err := fetch[float32](shared, v.outer)
		if err != nil {
			return nil, err
		}
		out = append(out, flat)
	}
	return out, nil
}

// Free releases the vectors' memory on the devices.
func (v *Vectors) Free() {
	free(v.layers...)
	free(v.outer)
	v.layers, v.outer = nil, nil
}

// all are pointers to the vectors that exist.
func (v *Vectors) all() []*value {
	var out []*value
	for i := range v.layers {
		if v.layers[i] != nil {
			out = append(out, &v.layers[i])
		}
	}
	if v.outer != nil {
		out = append(out, &v.outer)
	}
	return out
}

// Norm is the Euclidean norm over all vectors.
func (p *Params) Norm(v *Vectors) (float64, error) {
	prog, err := p.model.program("sum of squares", func() (*program, error) {
		return p.model.devices.newProgram("sum of squares", func(in []*Node) []*Node {
			return []*Node{ReduceAllSum(Square(in[0]))}
		}, []placement{shared}, []placement{shared})
	})
	if err != nil {
		return 0, err
	}
	var sums []value
	defer func() { free(sums...) }()
	for _, t := range v.all() {
		out, err := prog.run(*t)
		if err != nil {
			return 0, err
		}
		sums = append(sums, out[0])
	}
	var total float64
	for _, s := range sums {
		x, err := fetch[float32](shared, s)
		if err != nil {
			return 0, err
		}
		total += float64(x[0])
	}
	return math.Sqrt(total), nil
}

// AdamW is one step's setting of the optimiser (Loshchilov & Hutter 2017, https://arxiv.org/abs/1711.05101), as
// PyTorch computes it: p ← p·(1 − lr·decay); p ← p − lr·m̂/(√v̂ + eps).
type AdamW struct {
	LR, Beta1, Beta2, Eps, Decay float64
}

// Moments are the optimiser's state.
type Moments struct {
	Step int // updates done
	M, V *Vectors
}

// NewMoments starts an optimiser for p.
func (p *Params) NewMoments() (*Moments, error) {
	m, err := p.Zeros()
	if err != nil {
		return nil, err
	}
	v, err := p.Zeros()
	if err != nil {
		m.Free()
		return nil, err
	}
	return &Moments{M: m, V: v}, nil
}

// Update does one step of AdamW with the gradients times scale (clipping, averaging). The gradients stay as they are.
func (p *Params) Update(s *Moments, grads *Vectors, o AdamW, scale float64) error {
	prog, err := p.model.program("adamw", func() (*program, error) {
		return p.model.devices.newProgram("adamw", adamW, []placement{shared}, []placement{shared})
	})
	if err != nil {
		return err
	}
	step := float64(s.Step + 1)
	hyper, err := put(p.model.devices, shared, []float32{
		float32(scale), float32(o.Beta1), float32(o.Beta2), float32(o.Eps),
		float32(1 - o.LR*o.Decay),
		float32(o.LR / (1 - math.Pow(o.Beta1, step))),
		float32(1 / math.Sqrt(1-math.Pow(o.Beta2, step))),
		float32(1 - o.Beta1), float32(1 - o.Beta2),
	}, 9)
	if err != nil {
		return err
	}
	defer free(hyper)
	w, m, v, g := p.all(), s.M.all(), s.V.all(), grads.all()
	for i := range w {
		out, err := prog.run(*w[i], *m[i], *v[i], *g[i], hyper)
		if err != nil {
			return err
		}
		free(*w[i], *m[i], *v[i])
		*w[i], *m[i], *v[i] = out[0], out[1], out[2]
	}
	s.Step++
	return nil
}

func adamW(in []*Node) []*Node {
	p, m, v, g := in[0], in[1], in[2], in[3]
	h := make([]*Node, 9)
	for i := range h {
		h[i] = Slice(in[4], AxisElem(i))
	}
	scale, beta1, beta2, eps, keep, rate, root, rest1, rest2 := h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8]
	g = Mul(g, scale)
	m = Add(Mul(m, beta1), Mul(g, rest1))
	v = Add(Mul(v, beta2), Mul(Square(g), rest2))
	p = Sub(Mul(p, keep), Div(Mul(m, rate), Add(Mul(Sqrt(v), root), eps)))
	return []*Node{p, m, v}
}
