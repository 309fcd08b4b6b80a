package decoder

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
)

// Labels are the tokens that a pass is judged on: token Token[i] after position At[i], which counts row·Len + column.
type Labels struct {
	At, Token []int32
	// Temperature divides the logits everywhere; 0 means 1.
	Temperature float64
	// Reference is a pass of the same batch by the model that KL is taken against; nil: no KL.
	Reference *Pass
}

// NextTokens are the labels of plain language modelling: every token labelled that mask names (nil: all) and that has a
// token before it in its own document. mask is [Rows, Len] and speaks of the token itself, not of the one before it.
func (b Batch) NextTokens(mask []bool) Labels {
	var l Labels
	positions := b.Positions()
	for r := range b.Rows {
		for c := 1; c < b.Len; c++ {
			i := r*b.Len + c
			position := positions[i%len(positions)]
			if position > 0 && b.isReal(r, c) && (mask == nil || mask[i]) {
				l.At, l.Token = append(l.At, int32(i-1)), append(l.Token, b.Tokens[i])
			}
		}
	}
	return l
}

// isReal reports whether a column of a row holds a token of a document.
func (b Batch) isReal(r, c int) bool {
	if b.padLeft {
		return c >= b.Len-b.Lengths[r]
	}
	return c < b.Lengths[r]
}

func (l Labels) check(b Batch, vocab int) error {
	if len(l.At) != len(l.Token) {
		return fmt.Errorf("%w: %d positions and %d tokens", ErrLabels, len(l.At), len(l.Token))
	}
	if len(l.At) == 0 {
		return fmt.Errorf("%w: no labelled token: nothing to score", ErrLabels)
	}
	for i, at := range l.At {
		if at < 0 || int(at) >= b.Rows*b.Len {
			return fmt.Errorf("%w: label %d is at position %d of a batch of %d × %d", ErrLabels, i, at, b.Rows, b.Len)
		}
		if t := l.Token[i]; t < 0 || int(t) >= vocab {
			return fmt.Errorf("%w: label %d is token %d, the vocabulary has %d", ErrLabels, i, t, vocab)
		}
	}
	if l.Temperature < 0 {
		return fmt.Errorf("%w: temperature %v is negative", ErrLabels, l.Temperature)
	}
	return nil
}

// Scores are what the head finds for each label.
type Scores struct {
	LogProb []float32 // log-probability of the token, in nats
	Entropy []float32 // of the whole next-token distribution
	KL      []float32 // KL(p‖p_ref) over the whole vocabulary; nil without a reference
	Top     []bool    // no token was likelier
}

// Coefficients are the derivatives of the objective with respect to each label's terms; nil stands for zeros.
type Coefficients struct {
	LogProb, Entropy, KL []float32
}

// Score runs the head over the labels, a chunk at a time.
func (ps *Pass) Score(l Labels) (*Scores, error) {
	if len(ps.states) == 0 { // a whole-graph pass has not run anything yet
		if err := ps.forward(); err != nil {
			return nil, err
		}
	}
	s, _, err := ps.head(l, nil, nil)
	return s, err
}

// Logits are the next-token logits after the given positions, [len(at), V] on the host.
func (ps *Pass) Logits(at []int32) ([]float32, error) {
	m := ps.model
	if err := (Labels{At: at, Token: make([]int32, len(at))}).check(ps.batch, m.Config.VocabSize); err != nil {
		return nil, err
	}
	if len(ps.states) == 0 {
		if err := ps.forward(); err != nil {
			return nil, err
		}
	}
	name, read := "logits", ps.outerNodes()
	if ps.trainsAll() {
		name = "logits, trained"
	}
	prog, err := m.program(name, func() (*program, error) {
		return m.devices.newProgram(name, func(in []*Node) []*Node {
			norm, head := read(in[2:])
			return []*Node{Logits(&m.Config, gatherRows(in[0], in[1]), norm, head)}
		}, []placement{split, shared}, []placement{shared})
	})
	if err != nil {
		return nil, err
	}
	out := make([]float32, 0, len(at)*m.Config.VocabSize)
	for _, c := range m.chunks(len(at)) {
		rows, err := put(m.devices, shared, padded(at, c), c.size)
		if err != nil {
			return nil, err
		}
		res, err := prog.run(append([]value{ps.last(), rows}, ps.outerInputs()...)...)
		free(rows)
		if err != nil {
			return nil, err
		}
		flat, err := fetch[float32](shared, res[0])
		free(res...)
		if err != nil {
			return nil, err
		}
		out = append(out, flat[:(c.to-c.from)*m.Config.VocabSize]...)
	}
	return out, nil
}

func (ps *Pass) last() value { return ps.states[len(ps.states)-1] }

// outerInputs and outerNodes are how a program gets final norm and head: as they are, or cut from the trained vector.
func (ps *Pass) outerInputs() []value {
	if ps.trainsAll() {
		return []value{ps.params.outer}
	}
	return []value{ps.model.norm, ps.model.head}
}

func (ps *Pass) outerNodes() func(in []*Node) (norm, head *Node) {
	if !ps.trainsAll() {
		return func(in []*Node) (norm, head *Node) { return in[0], in[1] }
	}
	outer, precision := ps.params.recipe.outer, ps.model.Options.Precision
	return func(in []*Node) (norm, head *Node) {
		parts := outer.nodes(in[0]) // embedding, norm [, head]
		head = parts[0]
		if len(parts) == 3 {
			head = parts[2]
		}
		return parts[1], ConvertDType(head, precision.dtype())
	}
}

// chunk is a range of labels and the number of rows its program has.
type chunk struct{ from, to, size int }

// chunks cuts n labels into pieces whose logits fit the budget; the last is rounded up to a power of two ≥ 64.
func (m *Model) chunks(n int) []chunk {
	var out []chunk
	for from := 0; from < n; from += m.headTokens {
		to := min(from+m.headTokens, n)
		size := 64
		for size < to-from {
			size *= 2
		}
		out = append(out, chunk{from, to, min(size, m.headTokens)})
	}
	return out
}

// padded takes a chunk of x, filled up with zeros.
func padded[T element](x []T, c chunk) []T {
	out := make([]T, c.size)
	if x != nil {
		copy(out, x[c.from:c.to])
	}
	return out
}
