package decoder

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Merged is the frozen model that computes what m computes with p: low-rank updates added to the weights they change,
// or the trained weights themselves. Weights that p leaves alone are shared with m, and so are compiled programs, so
// merging again after an update compiles nothing. Close it before m.
func (m *Model) Merged(p *Params) (*Model, error) {
	if p.model.mu != m.mu {
		return nil, fmt.Errorf("the parameters belong to another model")
	}
	out := &Model{Config: m.Config, Options: m.Options, devices: m.devices, embed: m.embed, norm: m.norm, head: m.head,
		headTokens: m.headTokens, mu: m.mu, programs: m.programs}
	for i, l := range m.layers {
		lay := p.recipe.layers[i]
		merged := layer{l.kind, l.names, append([]value{}, l.weights...), l.places}
		if lay.size > 0 {
			if err := out.mergeLayer(&merged, p, i); err != nil {
				out.Close()
				return nil, fmt.Errorf("merging layer %d: %w", i, err)
			}
		}
		out.layers = append(out.layers, merged)
	}
	if p.recipe.outer.size > 0 {
		if err := out.mergeOuter(p); err != nil {
			out.Close()
			return nil, fmt.Errorf("merging embedding and head: %w", err)
		}
	}
	return out, nil
}

// mergeLayer replaces the weights of l that p changes.
func (m *Model) mergeLayer(l *layer, p *Params, i int) error {
	v := variant{kind: l.kind, layout: p.recipe.layers[i], lora: p.recipe.lora}
	changed := make(map[string]bool)
	for _, s := range v.layout.slots {
		changed[weightOf(s.name)] = true
	}
	places := []placement{shared}
	var outPlaces []placement
	for j, name := range l.names {
		places = append(places, l.places[j])
		if changed[name] {
			outPlaces = append(outPlaces, l.places[j])
		}
	}
	key, names, config, precision := "merge "+v.key(), l.names, &m.Config, m.Options.Precision
	prog, err := m.program(key, func() (*program, error) {
		return m.devices.newProgram("merge of a "+string(v.kind)+" layer", func(in []*Node) []*Node {
			dtype := make([]dtypes.DType, len(names))
			for j := range names {
				dtype[j] = in[1+j].DType()
			}
			l := newLayer(config, v.kind, names, in[1:])
			v.bind(l, precision, in[0], nil)
			var out []*Node
			for j, name := range names {
				if !changed[name] {
					continue
				}
				w := l.Weights[name]
				if d, ok := l.Deltas[name[:len(name)-len(".weight")]]; ok {
					w = d.Merge(w)
				}
				out = append(out, ConvertDType(w, dtype[j]))
			}
			return out
		}, places, outPlaces)
	})
	if err != nil {
		return err
	}
	out, err := prog.run(append([]value{p.layers[i]}, l.weights...)...)
	if err != nil {
		return err
	}
	m.owned = append(m.owned, out...)
	for j, name := range l.names {
		if changed[name] {
			l.weights[j], out = out[0], out[1:]
		}
	}
	return nil
}

// weightOf is the weight that a slot's tensor belongs to.
func weightOf(slot string) string {
	for i := range slot {
		if slot[i] == 0 {
			return slot[:i] + ".weight"
		}
	}
	return slot
}

func (m *Model) mergeOuter(p *Params) error {
	outer, precision := p.recipe.outer, m.Options.Precision
	prog, err := m.program("merge outer", func() (*program, error) {
		return m.devices.newProgram("merge outer", func(in []*Node) []*Node {
			parts := outer.nodes(in[0])
			for i, s := range outer.slots {
				if len(s.shape) == 2 {
					parts[i] = ConvertDType(parts[i], precision.dtype())
				}
			}
			return parts
		}, []placement{shared}, []placement{shared})
	})
	if err != nil {
		return err
	}
	out, err := prog.run(p.outer)
	if err != nil {
		return err
	}
	m.owned = append(m.owned, out...)
	m.embed, m.norm = out[0], out[1]
	m.head = out[len(out)-1]
	if len(out) == 2 {
		m.head = m.embed
	}
	return nil
}
