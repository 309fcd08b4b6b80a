package generate

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"terraloom/lora/decoder"
)

// weights are the tensors of one model that the engine generates with.
type weights struct {
	name    string
	model   *decoder.Model
	version uint64
	users   int // rows that wait or run

	stored []*tensors.Tensor // the model's own: embedding, norm, head, then layer by layer
	turned []*tensors.Tensor // the same with matrices as [in, out]; made when first needed
	copies []*tensors.Tensor // those of turned that are not the model's own
}

func newWeights(name string, m *decoder.Model, version uint64) *weights {
	embed, norm, head := m.OuterWeights()
	w := &weights{name: name, model: m, version: version, stored: []*tensors.Tensor{embed, norm, head}}
	for i := range m.Config.NumLayers {
		_, layer := m.LayerWeights(i)
		w.stored = append(w.stored, layer...)
	}
	return w
}

// layout says how matrices lie in the inputs of a program.
type layout string

const (
	storedLayout layout = "[out, in]" // as the model has them: the fastest product with one vector
	turnedLayout layout = "[in, out]" // transposed: XLA:CPU multiplies several rows with it in half the time
)

// inputs are the weights in the given layout, in the order that [device.nodes] expects.
func (w *weights) inputs(d *device, l layout) ([]*tensors.Tensor, error) {
	if l == storedLayout {
		return w.stored, nil
	}
	if w.turned != nil {
		return w.turned, nil
	}
	prog, err := d.program("transpose", func(in []*Node) []*Node { return []*Node{Transpose(in[0], 0, 1)} })
	if err != nil {
		return nil, err
	}
	turned := make([]*tensors.Tensor, len(w.stored))
	for i, t := range w.stored {
		turned[i] = t
		if i == 0 || t.Rank() != 2 { // the embedding is looked up by rows
			continue
		}
		out, err := prog.run(t)
		if err != nil {
			w.free()
			return nil, fmt.Errorf("transposing weights: %w", err)
		}
		turned[i] = out[0]
		w.copies = append(w.copies, out[0])
	}
	w.turned = turned
	return turned, nil
}

// free releases the copies. The model's own tensors belong to the model.
func (w *weights) free() {
	free(w.copies...)
	w.copies, w.turned = nil, nil
}

// modelNodes are a model's weights inside a graph.
type modelNodes struct {
	embed, norm, head *Node
	layers            []*decoder.Layer
}

// nodes gives the inputs of a program the form that the decoder's functions take.
func (d *device) nodes(l layout, in []*Node) modelNodes {
	out := modelNodes{embed: in[0], norm: in[1], head: in[2]}
	if l == turnedLayout {
		out.head = Transpose(out.head, 0, 1)
	}
	in = in[3:]
	for i := range d.config.NumLayers {
		names, _ := d.base.LayerWeights(i)
		layer := append([]*Node{}, in[:len(names)]...)
		in = in[len(names):]
		for j, w := range layer {
			if l == turnedLayout && w.Rank() == 2 {
				layer[j] = Transpose(w, 0, 1) // the compiler makes it part of the product
			}
		}
		out.layers = append(out.layers, d.base.NewLayer(i, layer))
	}
	return out
}
