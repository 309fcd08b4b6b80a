package decoder

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

func shapeOf(s slot) shapes.Shape { return shapes.Make(dtypes.Float32, s.shape...) }

// whole is Backward in one graph: embedding, all layers, head and their derivatives. Nothing of the forward pass that
// Score may have made is used.
func (ps *Pass) whole(l Labels, c Coefficients, sums *Vectors) (*Scores, error) {
	m := ps.model
	if err := l.check(ps.batch, m.Config.VocabSize); err != nil {
		return nil, err
	}
	if l.Reference != nil && len(l.Reference.states) == 0 {
		if err := l.Reference.forward(); err != nil {
			return nil, err
		}
	}
	chunks := m.chunks(len(l.At))
	where, err := rowIndex(l, chunks, ps.batch.Rows*ps.batch.Len)
	if err != nil {
		return nil, err
	}
	prog, err := ps.wholeProgram(chunks, l.Reference != nil, c.kinds())
	if err != nil {
		return nil, err
	}

	var temporary []value
	defer func() { free(temporary...) }()
	join := func(x []float32) []float32 {
		var out []float32
		for _, ch := range chunks {
			out = append(out, padded(x, ch)...)
		}
		return out
	}
	joinInts := func(x []int32) []int32 {
		var out []int32
		for _, ch := range chunks {
			out = append(out, padded(x, ch)...)
		}
		return out
	}
	inverse := float32(1)
	if l.Temperature > 0 {
		inverse = float32(1 / l.Temperature)
	}
	in := []value{ps.tokens}
	for _, x := range [][]int32{where, joinInts(l.At), joinInts(l.Token)} {
		v, err := put(m.devices, shared, x, len(x))
		if err != nil {
			return nil, err
		}
		in, temporary = append(in, v), append(temporary, v)
	}
	floats := [][]float32{{inverse}}
	for _, x := range c.given() {
		floats = append(floats, join(x))
	}
	for _, x := range floats {
		v, err := put(m.devices, shared, x, len(x))
		if err != nil {
			return nil, err
		}
		in, temporary = append(in, v), append(temporary, v)
	}
	if l.Reference != nil {
		in = append(in, l.Reference.last())
	}
	targets := sums.all()
	for _, t := range targets {
		in = append(in, *t)
	}
	in = append(in, ps.outerInputs()...)
	if !ps.trainsAll() {
		in = append(in, m.embed)
	}
	for i := range m.layers {
		layer, _ := ps.layerInputs(i)
		in = append(in, layer...)
	}
	out, err := prog.run(in...)
	if err != nil {
		return nil, err
	}
	for i, t := range targets {
		free(*t)
		*t = out[1+i]
	}
	defer free(out[0])
	// The graph's terms are joined; cut them as the chunks are.
	return readScores(out[:1], []chunk{{0, len(l.At), 0}}, l.Reference != nil)
}

// wholeProgram takes: tokens, where, at, token, 1/temperature, coefficients [, x_ref], sums, norm and head [,
// embedding], and the inputs of every layer. It returns the terms of the labels and the new sums.
func (ps *Pass) wholeProgram(chunks []chunk, ref bool, kinds coefficientKinds) (*program, error) {
	m, all := ps.model, ps.trainsAll()
	key := fmt.Sprintf("whole ref=%t %+v trained=%t chunks=%v", ref, kinds, all, chunkSizes(chunks))
	variants := make([]variant, len(m.layers))
	for i := range variants {
		variants[i] = ps.variant(i)
		key += "|" + variants[i].key()
	}
	return m.program(key, func() (*program, error) {
		read := ps.outerNodes()
		targets, outerInputs := len(ps.params.Vectors.all()), len(ps.outerInputs())
		var outer layout
		if all {
			outer = ps.params.recipe.outer
		}
		inPlaces := []placement{split, shared, shared, shared, shared, shared}
		for _, more := range []bool{kinds.entropy, kinds.kl} {
			if more {
				inPlaces = append(inPlaces, shared)
			}
		}
		if ref {
			inPlaces = append(inPlaces, split)
		}
		for range targets + outerInputs {
			inPlaces = append(inPlaces, shared)
		}
		if !all {
			inPlaces = append(inPlaces, shared)
		}
		counts := make([]int, len(m.layers))
		for i := range m.layers {
			in, places := ps.layerInputs(i)
			counts[i] = len(in)
			inPlaces = append(inPlaces, places...)
		}
		return m.devices.newProgram(fmt.Sprintf("whole graph of %d layers", len(m.layers)), func(in []*Node) []*Node {
			take := func(n int) []*Node {
				part := in[:n]
				in = in[n:]
				return part
			}
			first := take(5)
			tokens, where, at, token, inverse := first[0], first[1], first[2], first[3], Reshape(first[4], 1, 1)
			coef := kinds.take(func() *Node { return take(1)[0] })
			var xRef *Node
			if ref {
				xRef = take(1)[0]
			}
			sums, outerIn := take(targets), take(outerInputs)
			norm, headWeight := read(outerIn)
			var embed *Node
			if all {
				embed = outer.nodes(outerIn[0])[0]
			} else {
				embed = take(1)[0]
			}

			x0 := embedTokens(tokens, embed)
			x := x0
			var trainable []*Node
			var lengths []int
			for i, v := range variants {
				l, s, t := m.layerGraph(v, m.layers[i].names, x, take(counts[i]))
				x = s.unflat(l.Forward(flat2(x), s))
				if len(t) > 0 {
					trainable, lengths = append(trainable, t...), append(lengths, len(t))
				}
			}

			frozen := StopGradient(x)
			var tables, rows []*Node
			var dOuter *Node
			from := 0
			for _, size := range chunkSizes(chunks) {
				cut := func(n *Node) *Node { return Slice(n, AxisRange(from, from+size)) }
				index := cut(at)
				r := headRows{x: gatherRows(frozen, index), token: cut(token), inverse: inverse}
				if ref {
					r.ref = gatherRows(xRef, index)
				}
				part := coefficients{logp: cut(coef.logp)}
				if coef.entropy != nil {
					part.entropy = cut(coef.entropy)
				}
				if coef.kl != nil {
					part.kl = cut(coef.kl)
				}
				t, dRows, d := headChunk(m, r, norm, headWeight, part, outer)
				tables, rows = append(tables, t.table()), append(rows, dRows)
				if d != nil && dOuter != nil {
					d = Add(dOuter, d)
				}
				dOuter = d
				from += size
			}
			dx := StopGradient(Reshape(scatterRows(where, rows), x.Shape().Dimensions...))
			wrt := trainable
			if all {
				wrt = append([]*Node{x0}, trainable...)
			}
			g := Gradient(ReduceAllSum(Mul(x, dx)), wrt...)
			if all {
				dOuter = Add(dOuter, embedGradient(outer, g[0], tokens))
				g = g[1:]
			}
			terms := tables[0]
			if len(tables) > 1 {
				terms = Concatenate(tables, 0)
			}
			out := []*Node{terms}
			for i, n := range lengths {
				out = append(out, Add(sums[i], flatten(g[:n])))
				g = g[n:]
			}
			if all {
				out = append(out, Add(sums[len(sums)-1], dOuter))
			}
			return out
		}, inPlaces, []placement{shared})
	})
}

func chunkSizes(chunks []chunk) []int {
	out := make([]int, len(chunks))
	for i, c := range chunks {
		out[i] = c.size
	}
	return out
}
