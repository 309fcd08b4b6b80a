package decoder

import (
	"fmt"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
)

// layout says how tensors lie one after the other in a flat float32 vector.
type layout struct {
	slots []slot
	size  int
}

type slot struct {
	name  string
	shape []int
	at    int // first element
}

func (l *layout) add(name string, shape ...int) {
	l.slots = append(l.slots, slot{name, shape, l.size})
	l.size += elements(shape)
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// key tells layouts apart: equal keys mean the same slots.
func (l layout) key() string {
	var b strings.Builder
	for _, s := range l.slots {
		fmt.Fprintf(&b, "%s%v;", s.name, s.shape)
	}
	return b.String()
}

// nodes slices a flat vector into its tensors. Gradients are taken with respect to these, and joined: the derivative
// of each slice with respect to the vector itself would be padded to its full length.
func (l layout) nodes(flat *Node) []*Node {
	out := make([]*Node, len(l.slots))
	for i, s := range l.slots {
		out[i] = Reshape(Slice(flat, AxisRange(s.at, s.at+elements(s.shape))), s.shape...)
	}
	return out
}

// flatten is the inverse of nodes.
func flatten(parts []*Node) *Node {
	flat := make([]*Node, len(parts))
	for i, p := range parts {
		flat[i] = Reshape(p, p.Shape().Size())
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return Concatenate(flat, 0)
}

// Slot names of a low-rank update.
const (
	slotA, slotB, slotMagnitude = "\x00A", "\x00B", "\x00m"
)

// recipe is what a set of parameters trains. It determines the graphs.
type recipe struct {
	lora   *adapter.Config // nil: all weights
	layers []layout        // one per layer; of size 0 where nothing is trained
	outer  layout          // embedding, final norm and head, where all weights are trained
}

// loraRecipe lays out A, B and magnitude of every module, layer by layer.
func loraRecipe(c *checkpoint.Config, a *adapter.Adapter) recipe {
	r := recipe{lora: &a.Config, layers: make([]layout, c.NumLayers)}
	for _, m := range a.Modules {
		l := &r.layers[m.Layer]
		l.add(m.Path+slotA, a.Config.R, m.In)
		l.add(m.Path+slotB, m.Out, a.Config.R)
		if a.Config.DoRA {
			l.add(m.Path+slotMagnitude, m.Out)
		}
	}
	return r
}

// fullRecipe lays out every tensor of the model.
func fullRecipe(c *checkpoint.Config) recipe {
	r := recipe{layers: make([]layout, c.NumLayers)}
	for i, kind := range c.LayerTypes {
		for _, t := range LayerTensors(c, kind) {
			r.layers[i].add(t.Name, t.Shape...)
		}
	}
	for _, t := range c.TensorSpecs() {
		if !strings.HasPrefix(t.Name, "layers.") {
			r.outer.add(t.Name, t.Shape...)
		}
	}
	return r
}

// variant is a kind of layer graph.
type variant struct {
	kind    checkpoint.LayerType
	layout  layout
	lora    *adapter.Config // nil with a layout: all weights are trained
	packed  bool            // the batch has segments
	dropout bool            // adapters see a randomly thinned input
}

func (v variant) key() string {
	k := fmt.Sprintf("%s packed=%t dropout=%t ", v.kind, v.packed, v.dropout)
	if v.lora != nil {
		k += fmt.Sprintf("scale=%v p=%v dora=%t ", v.lora.Scale(), v.lora.Dropout, v.lora.DoRA)
	}
	return k + v.layout.key()
}

// full reports whether the layer's own weights are trained.
func (v variant) full() bool { return v.lora == nil && v.layout.size > 0 }

// bind gives the layer its trainable tensors, cut from the flat vector, and returns them.
func (v variant) bind(l *Layer, precision Precision, flat, rng *Node) []*Node {
	if v.layout.size == 0 {
		return nil
	}
	parts := v.layout.nodes(flat)
	if v.full() {
		for i, s := range v.layout.slots {
			w := parts[i]
			if len(s.shape) == 2 {
				w = ConvertDType(w, precision.dtype())
			}
			l.Weights[s.name] = w
		}
		return parts
	}
	l.Deltas = make(map[string]Delta)
	for i, s := range v.layout.slots {
		path, ok := strings.CutSuffix(s.name, slotA)
		if !ok {
			continue
		}
		d := Delta{A: parts[i], B: parts[i+1], Scale: v.lora.Scale()}
		if v.lora.DoRA {
			d.Magnitude = parts[i+2]
		}
		if v.dropout {
			// A stream per module: forward and backward draw in different orders.
			var state *Node
			rng, state = RNGStateSplit(rng)
			d.Dropout = func(x *Node) *Node {
				_, u := RandomUniform(state, x.Shape())
				keep := 1 - v.lora.Dropout
				return Mul(x, MulScalar(ConvertDType(LessThan(u, Scalar(u.Graph(), u.DType(), keep)), x.DType()), 1/keep))
			}
		}
		l.Deltas[path] = d
	}
	return parts
}
