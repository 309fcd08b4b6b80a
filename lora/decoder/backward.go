package decoder

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Backward adds to sums the derivatives, with respect to the pass's parameters, of
//
//	Σ c.LogProb·log p(token) + c.Entropy·H + c.KL·KL(p‖p_ref)
//
// and returns the labels' scores. The pass must have been made with
// Train.Backward; it can be scored, and differentiated again with other labels and coefficients, until it is freed.
func (ps *Pass) Backward(l Labels, c Coefficients, sums *Vectors) (*Scores, error) {
	if ps.params == nil {
		return nil, fmt.Errorf("backward pass without trainable parameters")
	}
	if !ps.train.Backward {
		return nil, fmt.Errorf("backward pass of a forward pass that kept nothing: set Train.Backward")
	}
	for _, x := range [][]float32{c.LogProb, c.Entropy, c.KL} {
		if x != nil && len(x) != len(l.At) {
			return nil, fmt.Errorf("%w: %d coefficients for %d labels", ErrLabels, len(x), len(l.At))
		}
	}
	if c.KL != nil && l.Reference == nil {
		return nil, fmt.Errorf("%w: KL coefficients without a reference pass", ErrLabels)
	}
	if ps.model.Options.Whole {
		return ps.whole(l, c, sums)
	}
	scores, dx, err := ps.head(l, &c, sums)
	if err != nil {
		return nil, err
	}
	if err := ps.layersBackward(dx, sums); err != nil {
		return nil, err
	}
	return scores, nil
}

// layersBackward goes down from dx, the derivative with respect to the residual stream after the last layer, which it
// frees.
func (ps *Pass) layersBackward(dx value, sums *Vectors) error {
	for i := len(ps.model.layers) - 1; i >= 0; i-- {
		prog, err := ps.backwardProgram(i)
		if err != nil {
			free(dx)
			return err
		}
		in, _ := ps.layerInputs(i)
		trained := ps.variant(i).layout.size > 0
		args := []value{dx, ps.states[i]}
		if ps.keeps() {
			args = append(args, ps.kept[i]...)
		}
		if trained {
			args = append(args, sums.layers[i])
		}
		out, err := prog.run(append(args, in...)...)
		free(dx)
		if err != nil {
			return err
		}
		dx = out[0]
		if trained {
			free(sums.layers[i])
			sums.layers[i] = out[1]
		}
	}
	defer free(dx)
	if !ps.trainsAll() {
		return nil
	}
	m, outer := ps.model, ps.params.recipe.outer
	prog, err := m.program("embed backward", func() (*program, error) {
		return m.devices.newProgram("embed backward", func(in []*Node) []*Node {
			return []*Node{Add(in[2], embedGradient(outer, in[0], in[1]))}
		}, []placement{split, split, shared}, []placement{shared})
	})
	if err != nil {
		return err
	}
	out, err := prog.run(dx, ps.tokens, sums.outer)
	if err != nil {
		return err
	}
	free(sums.outer)
	sums.outer = out[0]
	return nil
}

// embedGradient sums the rows of dx [B, T, H] by token into a vector laid out like outer.
func embedGradient(outer layout, dx, tokens *Node) *Node {
	dims := dx.Shape().Dimensions
	table := outer.slots[0]
	n := dims[0] * dims[1]
	parts := make([]*Node, len(outer.slots))
	for i, s := range outer.slots {
		parts[i] = Zeros(dx.Graph(), shapeOf(s))
	}
	parts[0] = ScatterSum(parts[0], Reshape(tokens, n, 1), Reshape(dx, n, table.shape[1]), false, false)
	return flatten(parts)
}

// head runs the head over the labels, a chunk at a time. With coefficients it also returns the derivative with respect
// to the residual stream after the last layer and, where final norm and head are trained, adds theirs to sums.
func (ps *Pass) head(l Labels, c *Coefficients, sums *Vectors) (scores *Scores, dx value, err error) {
	m := ps.model
	if err := l.check(ps.batch, m.Config.VocabSize); err != nil {
		return nil, nil, err
	}
	if l.Reference != nil && len(l.Reference.states) == 0 {
		if err := l.Reference.forward(); err != nil {
			return nil, nil, err
		}
	}
	prog, err := ps.headProgram(l.Reference != nil, c)
	if err != nil {
		return nil, nil, err
	}
	var temporary, results []value
	defer func() {
		free(temporary...)
		free(results...)
	}()
	ints := func(x []int32, ch chunk) (value, error) {
		v, err := put(m.devices, shared, padded(x, ch), ch.size)
		temporary = append(temporary, v)
		return v, err
	}
	floats := func(x []float32, ch chunk) (value, error) {
		v, err := put(m.devices, shared, padded(x, ch), ch.size)
		temporary = append(temporary, v)
		return v, err
	}
	inverse := float32(1)
	if l.Temperature > 0 {
		inverse = float32(1 / l.Temperature)
	}
	scalar, err := put(m.devices, shared, []float32{inverse}, 1)
	if err != nil {
		return nil, nil, err
	}
	temporary = append(temporary, scalar)

	chunks := m.chunks(len(l.At))
	var rows []value
	for _, ch := range chunks {
		in := []value{ps.last()}
		if l.Reference != nil {
			in = append(in, l.Reference.last())
		}
		for _, x := range [][]int32{l.At, l.Token} {
			v, err := ints(x, ch)
			if err != nil {
				return nil, nil, err
			}
			in = append(in, v)
		}
		in = append(in, scalar)
		if c != nil {
			for _, x := range c.given() {
				v, err := floats(x, ch)
				if err != nil {
					return nil, nil, err
				}
				in = append(in, v)
			}
			if ps.trainsAll() {
				in = append(in, sums.outer)
			}
		}
		out, err := prog.run(append(in, ps.outerInputs()...)...)
		if err != nil {
			return nil, nil, err
		}
		results = append(results, out[0])
		if c != nil {
			rows = append(rows, out[1])
			temporary = append(temporary, out[1])
			if ps.trainsAll() {
				free(sums.outer)
				sums.outer = out[2]
			}
		}
	}
	if scores, err = readScores(results, chunks, l.Reference != nil); err != nil || c == nil {
		return scores, nil, err
	}
	dx, err = ps.scatter(rows, l, chunks)
	return scores, dx, err
}

// readScores copies the terms of all chunks, [C, 3 or 4] each, to the host.
func readScores(results []value, chunks []chunk, kl bool) (*Scores, error) {
	s := &Scores{}
	width := 3
	if kl {
		width = 4
	}
	for i, r := range results {
		flat, err := fetch[float32](shared, r)
		if err != nil {
			return nil, err
		}
		for j := range chunks[i].to - chunks[i].from {
			row := flat[j*width : (j+1)*width]
			s.LogProb, s.Entropy, s.Top = append(s.LogProb, row[0]), append(s.Entropy, row[1]), append(s.Top, row[2] > 0.5)
			if kl {
				s.KL = append(s.KL, row[3])
			}
		}
	}
	return s, nil
}

// headProgram is the head over one chunk. Inputs: x [, x_ref], at, token, 1/temperature [, coefficients [, sums]], norm
// and head. Outputs: terms [C, 3 or 4] [, derivative of the rows [, sums]].
func (ps *Pass) headProgram(ref bool, c *Coefficients) (*program, error) {
	m, all, back := ps.model, ps.trainsAll(), c != nil
	var kinds coefficientKinds
	if back {
		kinds = c.kinds()
	}
	key := fmt.Sprintf("head ref=%t back=%t %+v trained=%t", ref, back, kinds, all)
	return m.program(key, func() (*program, error) {
		read := ps.outerNodes()
		var outer layout
		if all {
			outer = ps.params.recipe.outer
		}
		places := []placement{split, shared}
		if ref {
			places = []placement{split, split, shared}
		}
		return m.devices.newProgram("head", func(in []*Node) []*Node {
			next := func() *Node {
				n := in[0]
				in = in[1:]
				return n
			}
			x := next()
			var xRef *Node
			if ref {
				xRef = next()
			}
			at := next()
			r := headRows{x: gatherRows(x, at), token: next(), inverse: Reshape(next(), 1, 1)}
			if ref {
				r.ref = gatherRows(xRef, at)
			}
			var coef coefficients
			var sums *Node
			if back {
				coef = kinds.take(next)
				if all {
					sums = next()
				}
			}
			norm, head := read(in)
			if !back {
				t, _ := headForward(&m.Config, r, norm, head)
				return []*Node{t.table()}
			}
			t, dRows, dOuter := headChunk(m, r, norm, head, coef, outer)
			out := []*Node{t.table(), dRows}
			if all {
				out = append(out, Add(sums, dOuter))
			}
			return out
		}, places, []placement{shared})
	})
}

// coefficientKinds says which of the terms beside log-probability have coefficients.
type coefficientKinds struct{ entropy, kl bool }

func (c Coefficients) kinds() coefficientKinds {
	return coefficientKinds{c.Entropy != nil, c.KL != nil}
}

// given are the coefficients that a program takes: those of log-probability always.
func (c Coefficients) given() [][]float32 {
	out := [][]float32{c.LogProb}
	if c.Entropy != nil {
		out = append(out, c.Entropy)
	}
	if c.KL != nil {
		out = append(out, c.KL)
	}
	return out
}

func (k coefficientKinds) take(next func() *Node) (c coefficients) {
	c.logp = next()
	if k.entropy {
		c.entropy = next()
	}
	if k.kl {
		c.kl = next()
	}
	return c
}

// table joins the terms column by column: log-probability, entropy, top [, KL].
func (t headTerms) table() *Node {
	columns := []*Node{t.logp, t.entropy, t.top}
	if t.kl != nil {
		columns = append(columns, t.kl)
	}
	return Stack(columns, 1)
}

// headChunk is forward and backward of the head over one chunk: the terms, the derivative with respect to the rows of
// the residual stream, and, with a layout of trained outer tensors, the derivative with respect to those.
func headChunk(m *Model, r headRows, norm, head *Node, c coefficients, outer layout) (t headTerms, dRows, dOuter *Node) {
	t, u := headForward(&m.Config, r, norm, head)
	if outer.size == 0 {
		g, _ := headBackward(r, t, u, head, c, r.x)
		return t, g[0], nil
	}
	g, dz := headBackward(r, t, u, head, c, r.x, norm)
	dHead := DotGeneral(dz, []int{0}, nil, ConvertDType(u, dtypes.Float32), []int{0}, nil)
	parts := []*Node{nil, g[1], dHead} // embedding, norm, head
	if len(outer.slots) == 3 {
		parts[0] = Zeros(dz.Graph(), shapeOf(outer.slots[0]))
	} else {
		parts = []*Node{dHead, g[1]}
	}
	return t, g[0], flatten(parts)
}

// scatter joins the rows' derivatives into one of the shape of the residual stream.
func (ps *Pass) scatter(rows []value, l Labels, chunks []chunk) (value, error) {
	m, b := ps.model, ps.batch
	where, err := rowIndex(l, chunks, b.Rows*b.Len)
	if err != nil {
		return nil, err
	}
	index, err := put(m.devices, shared, where, len(where))
	if err != nil {
		return nil, err
	}
	defer free(index)
	key := fmt.Sprintf("scatter rows=%d", b.Rows)
	prog, err := m.program(key, func() (*program, error) {
		return m.devices.newProgram("scatter", func(in []*Node) []*Node {
			dx := scatterRows(in[0], in[1:])
			n, H := dx.Shape().Dimensions[0], dx.Shape().Dimensions[1]
			return []*Node{Reshape(dx, b.Rows, n/b.Rows, H)}
		}, []placement{shared}, []placement{split})
	})
	if err != nil {
		return nil, err
	}
	out, err := prog.run(append([]value{index}, rows...)...)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// rowIndex says for each position which row of the joined chunks is its derivative; the number of rows: none.
func rowIndex(l Labels, chunks []chunk, positions int) ([]int32, error) {
	total := 0
	for _, ch := range chunks {
		total += ch.size
	}
	where := make([]int32, positions)
	for i := range where {
		where[i] = int32(total)
	}
	start := 0
	for _, ch := range chunks {
		for i := ch.from; i < ch.to; i++ {
			if where[l.At[i]] != int32(total) {
				return nil, fmt.Errorf("%w: two labels at position %d", ErrLabels, l.At[i])
			}
			where[l.At[i]] = int32(start + i - ch.from)
		}
		start += ch.size
	}
	return where, nil
}
