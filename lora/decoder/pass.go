package decoder

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
)

// Train makes a forward pass one of training. The zero value is a pass that is only scored.
type Train struct {
	// Backward holds the input of every layer on the devices, which [Pass.Backward] needs.
	Backward bool
	// Seed starts the random stream of the adapter's dropout in this pass; 0 switches dropout off.
	Seed uint64
}

// Pass is a forward pass of one batch. Free it when done.
type Pass struct {
	model  *Model
	params *Params
	batch  Batch
	train  Train

	tokens, cos, sin, segments value // segments is nil for plain batches
	rngs                       []value
	states                     []value   // residual stream before each layer and after the last; nil if not kept
	kept                       [][]value // per layer, see Layer.forward; nil unless Options.Keep
}

// Forward runs the decoder up to the last layer, with p (nil: the frozen base). The head runs in [Pass.Score],
// [Pass.Backward] and [Pass.Logits].
func (m *Model) Forward(b Batch, p *Params, t Train) (*Pass, error) {
	ps, err := m.begin(b, p, t)
	if err != nil {
		return nil, err
	}
	if m.Options.Whole && t.Backward {
		return ps, nil // everything happens in Backward, in one graph
	}
	if err := ps.forward(); err != nil {
		ps.Free()
		return nil, err
	}
	return ps, nil
}

// begin checks the batch and puts it on the devices.
func (m *Model) begin(b Batch, p *Params, t Train) (*Pass, error) {
	if err := b.check(m.Config.VocabSize, m.Config.MaxPositions, m.devices.n); err != nil {
		return nil, err
	}
	if p != nil && p.model.mu != m.mu {
		return nil, fmt.Errorf("the parameters belong to another model")
	}
	ps := &Pass{model: m, params: p, batch: b, train: t}
	if err := ps.upload(); err != nil {
		ps.Free()
		return nil, err
	}
	return ps, nil
}

func (ps *Pass) upload() (err error) {
	m, b := ps.model, ps.batch
	if ps.tokens, err = put(m.devices, split, b.Tokens, b.Rows, b.Len); err != nil {
		return err
	}
	positions := b.Positions()
	cos, sin := RopeTable(m.Config.Rope, positions)
	rows := len(positions) / b.Len
	if ps.cos, err = put(m.devices, ps.tablePlace(), cos, rows, b.Len, m.Config.Rope.Dim/2); err != nil {
		return err
	}
	if ps.sin, err = put(m.devices, ps.tablePlace(), sin, rows, b.Len, m.Config.Rope.Dim/2); err != nil {
		return err
	}
	if b.Segments != nil {
		if ps.segments, err = put(m.devices, split, b.Segments, b.Rows, b.Len); err != nil {
			return err
		}
	}
	if ps.dropout() {
		ps.rngs = make([]value, len(m.layers))
		for i := range ps.rngs {
			// splitmix64's constant keeps the streams of layers and of neighbouring seeds apart.
			state, err := RNGStateFromSeed(int64(ps.train.Seed*0x9e3779b97f4a7c15 + uint64(i)))
			if err != nil {
				return err
			}
			words, err := fetch[uint64](shared, value{state})
			if err != nil {
				return err
			}
			if ps.rngs[i], err = put(m.devices, shared, words, len(words)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (ps *Pass) tablePlace() placement { return placement(ps.batch.Segments != nil) }

func (ps *Pass) dropout() bool {
	return ps.params != nil && ps.params.recipe.lora != nil && ps.params.recipe.lora.Dropout > 0 && ps.train.Seed != 0
}

// variant is the kind of graph that layer i runs in this pass.
func (ps *Pass) variant(i int) variant {
	v := variant{kind: ps.model.layers[i].kind, packed: ps.segments != nil}
	if ps.params != nil {
		v.layout = ps.params.recipe.layers[i]
		if v.layout.size > 0 {
			v.lora, v.dropout = ps.params.recipe.lora, ps.dropout()
		}
	}
	return v
}

// layerInputs are the inputs of layer i's programs after the residual stream, with their placements.
func (ps *Pass) layerInputs(i int) (in []value, places []placement) {
	add := func(v value, p placement) {
		in, places = append(in, v), append(places, p)
	}
	v := ps.variant(i)
	add(ps.cos, ps.tablePlace())
	add(ps.sin, ps.tablePlace())
	if v.packed {
		add(ps.segments, split)
	}
	if v.dropout {
		add(ps.rngs[i], shared)
	}
	if v.layout.size > 0 {
		add(ps.params.layers[i], shared)
	}
	if !v.full() {
		l := ps.model.layers[i]
		in, places = append(in, l.weights...), append(places, l.places...)
	}
	return in, places
}

// layerGraph builds layer and sequence from the nodes of layerInputs, for a residual stream like x [B, T, H].
func (m *Model) layerGraph(v variant, names []string, x *Node, in []*Node) (l *Layer, s Sequence, trainable []*Node) {
	dims := x.Shape().Dimensions
	s = Sequence{Rows: dims[0], Len: dims[1], Cos: in[0], Sin: in[1]}
	in = in[2:]
	next := func() *Node {
		n := in[0]
		in = in[1:]
		return n
	}
	var rng, flat *Node
	if v.packed {
		s.Segments = next()
	}
	if v.dropout {
		rng = next()
	}
	if v.layout.size > 0 {
		flat = next()
	}
	if v.full() {
		names = nil
	}
	l = newLayer(&m.Config, v.kind, names, in)
	return l, s, v.bind(l, m.Options.Precision, flat, rng)
}

// Nodes travel between programs as [B, T, width], so that they can be split over devices by rows; inside a layer they
// are [B·T, width].
func flat2(x *Node) *Node {
	d := x.Shape().Dimensions
	return Reshape(x, d[0]*d[1], d[2])
}

func (s Sequence) unflat(x *Node) *Node {
	return Reshape(x, s.Rows, s.Len, x.Shape().Dimensions[1])
}

// forward runs embedding and layers.
func (ps *Pass) forward() error {
	m := ps.model
	embed, err := ps.embedProgram()
	if err != nil {
		return err
	}
	out, err := embed.run(ps.tokens, ps.embedding())
	if err != nil {
		return err
	}
	ps.states = append(ps.states, out[0])
	for i := range m.layers {
		prog, err := ps.layerProgram(i)
		if err != nil {
			return err
		}
		in, _ := ps.layerInputs(i)
		x := ps.states[len(ps.states)-1]
		out, err := prog.run(append([]value{x}, in...)...)
		if err != nil {
			return err
		}
		if !ps.train.Backward {
			free(x)
			ps.states = ps.states[:0]
		}
		ps.states = append(ps.states, out[0])
		if len(out) > 1 {
			ps.kept = append(ps.kept, out[1:])
		}
	}
	return nil
}

// keeps reports whether the layer programs hand over their intermediate results.
func (ps *Pass) keeps() bool {
	return ps.model.Options.Keep && !ps.model.Options.Whole && ps.train.Backward
}

// embedding is what the embedding program reads its table from.
func (ps *Pass) embedding() value {
	if ps.trainsAll() {
		return ps.params.outer
	}
	return ps.model.embed
}

func (ps *Pass) trainsAll() bool { return ps.params != nil && ps.params.recipe.lora == nil }

func (ps *Pass) embedProgram() (*program, error) {
	m := ps.model
	if ps.trainsAll() {
		outer := ps.params.recipe.outer
		return m.program("embed, trained", func() (*program, error) {
			return m.devices.newProgram("embed, trained", func(in []*Node) []*Node {
				return []*Node{embedTokens(in[0], outer.nodes(in[1])[0])}
			}, []placement{split, shared}, []placement{split})
		})
	}
	return m.program("embed", func() (*program, error) {
		return m.devices.newProgram("embed", func(in []*Node) []*Node {
			return []*Node{embedTokens(in[0], in[1])}
		}, []placement{split, shared}, []placement{split})
	})
}

func (ps *Pass) layerProgram(i int) (*program, error) {
	m, v := ps.model, ps.variant(i)
	keep := ps.keeps()
	key := fmt.Sprintf("layer forward keep=%t %s", keep, v.key())
	return m.program(key, func() (*program, error) {
		_, places := ps.layerInputs(i)
		names := m.layers[i].names
		return m.devices.newProgram("forward of a "+string(v.kind)+" layer", func(in []*Node) []*Node {
			l, s, _ := m.layerGraph(v, names, in[0], in[1:])
			y, kept := l.forward(flat2(in[0]), s)
			out := []*Node{s.unflat(y)}
			if keep {
				for _, k := range kept {
					out = append(out, s.unflat(k))
				}
			}
			return out
		}, append([]placement{split}, places...), []placement{split})
	})
}

// backwardProgram is layer i's derivative: dy, x [, kept nodes] [, sums], inputs → dx [, sums + gradient].
func (ps *Pass) backwardProgram(i int) (*program, error) {
	m, v := ps.model, ps.variant(i)
	trained, kept := v.layout.size > 0, 0
	if ps.keeps() {
		kept = len(ps.kept[i])
	}
	key := fmt.Sprintf("layer backward keep=%d %s", kept, v.key())
	return m.program(key, func() (*program, error) {
		inPlaces, outPlaces := []placement{split, split}, []placement{split}
		for range kept {
			inPlaces = append(inPlaces, split)
		}
		if trained {
			inPlaces, outPlaces = append(inPlaces, shared), append(outPlaces, shared)
		}
		_, places := ps.layerInputs(i)
		names := m.layers[i].names
		return m.devices.newProgram("backward of a "+string(v.kind)+" layer", func(in []*Node) []*Node {
			dy, x, stored := flat2(in[0]), in[1], in[2:2+kept]
			in = in[2+kept:]
			var sums *Node
			if trained {
				sums, in = in[0], in[1:]
			}
			l, s, trainable := m.layerGraph(v, names, x, in)
			x = flat2(x)
			var g []*Node
			if kept > 0 {
				flat := make([]*Node, kept)
				for j, k := range stored {
					flat[j] = flat2(k)
				}
				g = l.backward(x, flat, s, dy, trainable)
			} else {
				g = Gradient(ReduceAllSum(Mul(l.Forward(x, s), dy)), append([]*Node{x}, trainable...)...)
			}
			out := []*Node{s.unflat(g[0])}
			if trained {
				out = append(out, Add(sums, flatten(g[1:])))
			}
			return out
		}, append(inPlaces, places...), outPlaces)
	})
}

// Hidden copies the residual stream before layer i to the host, [Rows·Len·H]; i = number of layers: after the last.
func (ps *Pass) Hidden(i int) ([]float32, error) {
	if len(ps.states) == 1 && i == len(ps.model.layers) {
		return fetch[float32](split, ps.states[0])
	}
	if i >= len(ps.states) {
		return nil, fmt.Errorf("the residual stream before layer %d was not kept", i)
	}
	return fetch[float32](split, ps.states[i])
}

// Free releases what the pass holds on the devices.
func (ps *Pass) Free() {
	free(ps.tokens, ps.cos, ps.sin, ps.segments)
	free(ps.rngs...)
	free(ps.states...)
	for _, k := range ps.kept {
		free(k...)
	}
	ps.tokens, ps.cos, ps.sin, ps.segments, ps.rngs, ps.states, ps.kept = nil, nil, nil, nil, nil, nil, nil
}
