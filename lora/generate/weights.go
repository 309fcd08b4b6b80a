package generate

import (
	"fmt"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// weights are the tensors of one model that the engine generates with.
type weights struct {
	name    string
	model   *decoder.Model
	version uint64
	users   int // rows that wait or run

	stored []*tensors.Tensor // the model's own: embedding, norm, head, then layer by layer
	fused  []*tensors.Tensor // the same in the fused layout; made when first needed
	copies []*tensors.Tensor // those of fused that are not the model's own
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
	// storedLayout is the model's own, one matrix [out, in] for each projection: the fastest with a single row.
	storedLayout layout = "stored"
	// fusedLayout has one matrix [in, sum of outs] for projections that read the same input: XLA:CPU multiplies several
	// rows by it in half the time, and has half as many programs to start.
	fusedLayout layout = "fused"
)

// groups are the projections that read the same input, by module name below "layers.N.".
var groups = [][]string{
	{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
	{"linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.in_proj_b", "linear_attn.in_proj_a"},
	{"self_attn.o_proj"}, {"linear_attn.out_proj"},
	{"mlp.gate_proj", "mlp.up_proj"}, {"mlp.down_proj"},
}

// layerParts splits the tensor names of a layer: those that stay as they are, and the groups that it has.
func layerParts(names []string) (kept []string, fused [][]string) {
	have := map[string]bool{}
	for _, n := range names {
		have[n] = true
	}
	grouped := map[string]bool{}
	for _, g := range groups {
		if have[g[0]+".weight"] {
			fused = append(fused, g)
			for _, module := range g {
				grouped[module+".weight"] = true
			}
		}
	}
	for _, n := range names {
		if !grouped[n] {
			kept = append(kept, n)
		}
	}
	return kept, fused
}

// inputs are the weights in the given layout, in the order that [device.nodes] expects.
func (w *weights) inputs(d *device, l layout) (_ []*tensors.Tensor, err error) {
	if l == storedLayout || w.fused != nil {
		if l == storedLayout {
			return w.stored, nil
		}
		return w.fused, nil
	}
	defer func() {
		if err != nil {
			w.free()
			err = fmt.Errorf("fusing weights: %w", err)
		}
	}()
	fuse, err := d.program("fuse", func(in []*Node) []*Node {
		if len(in) == 1 {
			return []*Node{Transpose(in[0], 0, 1)}
		}
		return []*Node{Transpose(Concatenate(in, 0), 0, 1)}
	})
	if err != nil {
		return nil, err
	}
	add := func(parts ...*tensors.Tensor) error {
		out, err := fuse.run(parts...)
		if err != nil {
			return err
		}
		w.fused, w.copies = append(w.fused, out[0]), append(w.copies, out[0])
		return nil
	}
	embed, norm, head := w.model.OuterWeights() // the embedding is looked up by rows
	w.fused = []*tensors.Tensor{embed, norm}
	if err := add(head); err != nil {
		return nil, err
	}
	for i := range d.config.NumLayers {
		names, layer := w.model.LayerWeights(i)
		byName := make(map[string]*tensors.Tensor, len(names))
		for j, name := range names {
			byName[name] = layer[j]
		}
		kept, fused := layerParts(names)
		for _, name := range kept {
			w.fused = append(w.fused, byName[name])
		}
		for _, group := range fused {
			parts := make([]*tensors.Tensor, len(group))
			for j, module := range group {
				parts[j] = byName[module+".weight"]
			}
			if err := add(parts...); err != nil {
				return nil, err
			}
		}
	}
	return w.fused, nil
}

// free releases the copies. The model's own tensors belong to the model.
func (w *weights) free() {
	free(w.copies...)
	w.copies, w.fused = nil, nil
}

// modelNodes are a model's weights inside a graph.
type modelNodes struct {
	embed, norm, head *Node
	layers            []*decoder.Layer
}

// nodes gives the inputs of a program the form that the decoder's functions take.
func (d *device) nodes(l layout, in []*Node) modelNodes {
	out := modelNodes{embed: in[0], norm: in[1], head: in[2]}
	if l == fusedLayout {
		out.head = Transpose(out.head, 0, 1) // the compiler makes it part of the product
	}
	in = in[3:]
	take := func(n int) []*Node {
		taken := in[:n]
		in = in[n:]
		return taken
	}
	for i, kind := range d.config.LayerTypes {
		names, _ := d.base.LayerWeights(i)
		if l == storedLayout {
			out.layers = append(out.layers, d.base.NewLayer(i, take(len(names))))
			continue
		}
		kept, fused := layerParts(names)
		layer := &decoder.Layer{Config: d.config, Type: kind, Weights: map[string]*Node{}}
		for j, n := range take(len(kept)) {
			layer.Weights[kept[j]] = n
		}
		matrices := map[string]*Node{}
		for j, n := range take(len(fused)) {
			matrices[fused[j][0]] = n
		}
		layer.Project = func(x *Node, modules ...string) []*Node {
			return projectFused(d.config, layer, x, matrices[modules[0]], modules)
		}
		out.layers = append(out.layers, layer)
	}
	return out
}

// projectFused computes projections of x [rows, in] from their common matrix [in, sum of outs].
func projectFused(c *checkpoint.Config, l *decoder.Layer, x, matrix *Node, modules []string) []*Node {
	y := decoder.Product(x, Transpose(matrix, 0, 1))
	out := make([]*Node, len(modules))
	from := 0
	for i, module := range modules {
		width := y.Shape().Dimensions[1] - from
		if len(modules) > 1 {
			width = outWidth(c, l.Type, module)
		}
		out[i] = SliceAxis(y, 1, AxisRange(from, from+width))
		from += width
		if bias, ok := l.Weights[module+".bias"]; ok {
			out[i] = Add(out[i], Reshape(bias, 1, width))
		}
	}
	return out
}

// outWidth is the number of rows of a projection's matrix.
func outWidth(c *checkpoint.Config, kind checkpoint.LayerType, module string) int {
	for _, t := range decoder.LayerTensors(c, kind) {
		if name, ok := strings.CutSuffix(t.Name, ".weight"); ok && name == module {
			return t.Shape[0]
		}
	}
	panic(fmt.Errorf("generate: no projection %s in a layer of %s", module, kind)) // becomes an error in program.run
}
