package generate

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// chunkInput is what the host says of a batch before a chunk of tokens. Slices have one entry per row of the cache.
type chunkInput struct {
	tokens  []int32
	column  int
	start   []int32
	left    []int32   // tokens that the row may still produce; 0: the row is not used
	stops   []int32   // [rows, stopIDs] ids that end a row; −1 fills
	inverse []float32 // 1/temperature; 0: greedy
	uniform []float32 // [steps, rows] random numbers in [0, 1)
	steps   int       // tokens to produce at most
}

// stopIDs is how many ids can end a row on the device.
const stopIDs = 8

// chunkState are the places in the state of the loop.
const (
	stStep    = iota // int32: tokens produced
	stSteps          // int32
	stActive         // float32: rows that are not finished
	stColumn         // int32
	stTokens         // int32 [rows]
	stStart          // int32 [rows]
	stLeft           // int32 [rows]
	stStops          // int32 [rows, stopIDs]
	stInverse        // float32 [rows]
	stUniform        // float32 [chunk, rows]
	stOut            // int32 [chunk, rows]
	stLogP           // float32 [chunk, rows]
	stCos            // float32 [columns, half]
	stSin
	stCache // then the cache, then the weights
)

// chunk produces up to in.steps tokens of every row in one call: a loop on the device that ends early when all rows
// have ended. It returns the tokens and their log-probabilities, [steps made, rows], and updates the cache.
//
// On XLA a loop's body cannot read anything outside its state, so the weights are part of it; they are not copied.
func (d *device) chunk(w *weights, l layout, c *cache, in chunkInput, length int) (tokens []int32, logps []float32, steps int, err error) {
	rows := c.rows
	uniform := make([]float32, length*rows)
	copy(uniform, in.uniform)
	args := &arguments{device: d}
	defer args.free()
	add(args, []int32{0})
	add(args, []int32{int32(in.steps)})
	add(args, []float32{1})
	add(args, []int32{int32(in.column)})
	add(args, in.tokens, rows)
	add(args, in.start, rows)
	add(args, in.left, rows)
	add(args, in.stops, rows, stopIDs)
	add(args, in.inverse, rows)
	add(args, uniform, length, rows)
	add(args, make([]int32, length*rows), length, rows)
	add(args, make([]float32, length*rows), length, rows)
	if args.err != nil {
		return nil, nil, 0, args.err
	}
	cos, sin, err := d.ropeTable(c.columns)
	if err != nil {
		return nil, nil, 0, err
	}
	matrices, err := w.inputs(d, l)
	if err != nil {
		return nil, nil, 0, err
	}
	parts := len(c.parts)
	prog, err := d.program("chunk "+string(l), func(in []*Node) []*Node { return d.chunkGraph(l, parts, in) })
	if err != nil {
		return nil, nil, 0, err
	}
	out, err := prog.run(slices.Concat(args.tensors, []*tensors.Tensor{cos, sin}, c.parts, matrices)...)
	if err != nil {
		return nil, nil, 0, err
	}
	c.free()
	c.parts = out[3:]
	made, err := fetch[int32](out[0])
	if err != nil {
		return nil, nil, 0, err
	}
	if tokens, err = fetch[int32](out[1]); err != nil {
		return nil, nil, 0, err
	}
	if logps, err = fetch[float32](out[2]); err != nil {
		return nil, nil, 0, err
	}
	steps = int(made[0])
	return tokens[:steps*rows], logps[:steps*rows], steps, nil
}

func (d *device) chunkGraph(l layout, parts int, in []*Node) []*Node {
	g := in[0].Graph()
	given := make([]shapes.Shape, len(in))
	for i, n := range in {
		given[i] = n.Shape()
	}
	// The loop's functions have parameters of their own.
	parameters := func(g *Graph) []*Node {
		out := make([]*Node, len(given))
		for i, s := range given {
			out[i] = Parameter(g, fmt.Sprintf("state%d", i), s)
		}
		return out
	}
	cond := NewClosure(g, func(g *Graph) []*Node {
		s := parameters(g)
		return []*Node{LogicalAnd(LessThan(s[stStep], s[stSteps]), GreaterThan(s[stActive], Const(g, float32(0))))}
	})
	body := NewClosure(g, func(g *Graph) []*Node {
		s := parameters(g)
		next := append([]*Node{}, s...)
		logits, cache := d.step(stepNodes{tokens: s[stTokens], column: s[stColumn], start: s[stStart], cos: s[stCos], sin: s[stSin],
			cache: s[stCache : stCache+parts], model: d.nodes(l, s[stCache+parts:])})
		copy(next[stCache:], cache)

		rows := s[stTokens].Shape().Dimensions[0]
		zero, one := Const(g, int32(0)), Const(g, int32(1))
		at := []*Node{s[stStep], zero}
		uniform := Reshape(DynamicSlice(s[stUniform], at, []int{1, rows}), rows)
		token, logp := drawGraph(logits, s[stInverse], uniform, d.live)
		next[stOut] = DynamicUpdateSlice(s[stOut], Reshape(token, 1, rows), at)
		next[stLogP] = DynamicUpdateSlice(s[stLogP], Reshape(logp, 1, rows), at)
		next[stTokens], next[stColumn], next[stStep] = token, Add(s[stColumn], one), Add(s[stStep], one)

		ended := ReduceMax(ConvertDType(Equal(InsertAxes(token, 1), s[stStops]), dtypes.Int32), 1)
		left := Mul(Max(Sub(s[stLeft], one), zero), Sub(one, ended))
		next[stLeft] = left
		next[stActive] = ReduceAllSum(ConvertDType(GreaterThan(left, zero), dtypes.Float32))
		return next
	})
	out := While(cond, body, in...)
	return append([]*Node{out[stStep], out[stOut], out[stLogP]}, out[stCache:stCache+parts]...)
}
