package generate

import (
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// unseen is added to the score of a column that a row must not see.
const unseen = -1e9

// stepNodes are the inputs of one decoding step.
type stepNodes struct {
	tokens *Node // newest token of each row, not in the cache yet, int32 [rows]
	column *Node // where its keys and values go, int32 scalar
	start  *Node // first column of each row, int32 [rows]
	cos    *Node // rotary table of positions 0 … columns−1, float32 [columns, half]
	sin    *Node
	cache  []*Node // as in [cache]
	model  modelNodes
}

// step runs the decoder over one token of every row: logits float32 [rows, V] and the new cache.
func (d *device) step(s stepNodes) (logits *Node, cache []*Node) {
	rows := s.tokens.Shape().Dimensions[0]
	x := embedTokens(s.tokens, s.model.embed)
	position := Sub(s.column, s.start)
	sequence := decoder.Sequence{Rows: rows, Len: 1, Cos: tableRows(s.cos, position), Sin: tableRows(s.sin, position)}
	var mask *Node
	for i, l := range s.model.layers {
		u := l.InputNorm(x)
		first, second := s.cache[2*i], s.cache[2*i+1]
		if l.Type == checkpoint.LinearAttention {
			mixed, state := l.DeltaNetStep(u, decoder.DeltaState{S: first, Conv: second})
			x, first, second = Add(x, mixed), state.S, state.Conv
		} else {
			q, k, v, gate := l.QKV(u, sequence)
			if mask == nil {
				mask = columnMask(s.column, s.start, first.Shape().Dimensions[1])
			}
			first, second = d.write(first, k, s.column), d.write(second, v, s.column)
			x = Add(x, l.AttentionOut(cachedAttention(q, first, second, mask), gate))
		}
		x = Add(x, mlp(l, l.MLPNorm(x)))
		cache = append(cache, first, second)
	}
	return decoder.Logits(d.config, x, s.model.norm, s.model.head), cache
}

// oneStep runs one token of every row and returns the logits, [rows, V], for the host to draw from.
func (d *device) oneStep(w *weights, l layout, c *cache, tokens, start []int32, column int) (logits []float32, err error) {
	args := &arguments{device: d}
	defer args.free()
	add(args, tokens, c.rows)
	add(args, []int32{int32(column)})
	add(args, start, c.rows)
	if args.err != nil {
		return nil, args.err
	}
	cos, sin, err := d.ropeTable(c.columns)
	if err != nil {
		return nil, err
	}
	matrices, err := w.inputs(d, l)
	if err != nil {
		return nil, err
	}
	parts := len(c.parts)
	prog, err := d.program("step "+string(l), func(in []*Node) []*Node {
		logits, cache := d.step(stepNodes{tokens: in[0], column: in[1], start: in[2], cos: in[3], sin: in[4],
			cache: in[5 : 5+parts], model: d.nodes(l, in[5+parts:])})
		return append([]*Node{logits}, cache...)
	})
	if err != nil {
		return nil, err
	}
	out, err := prog.run(slices.Concat(args.tensors, []*tensors.Tensor{cos, sin}, c.parts, matrices)...)
	if err != nil {
		return nil, err
	}
	c.free()
	c.parts = out[1:]
	return fetch[float32](out[0])
}

// tableRows takes one row of a rotary table for every row of the batch: [rows, 1, half].
func tableRows(table, position *Node) *Node {
	return InsertAxes(Gather(table, InsertAxes(position, -1)), 1)
}

// write puts the keys or values x [rows, 1, kvHeads, d] of one token into a column of the cache.
func (d *device) write(cache, x, column *Node) *Node {
	g := cache.Graph()
	dims := cache.Shape().Dimensions
	x = Reshape(x, dims[0], 1, dims[2])
	if d.updates {
		zero := Const(g, int32(0))
		return DynamicUpdateSlice(cache, x, []*Node{zero, column, zero})
	}
	here := Equal(Iota(g, shapes.Make(dtypes.Int32, 1, dims[1], 1), 1), column)
	return Where(BroadcastToDims(here, dims...), BroadcastToDims(x, dims...), cache)
}

// columnMask is added to attention scores: zero for the columns start … column of each row, [rows, 1, 1, columns].
func columnMask(column, start *Node, columns int) *Node {
	g := column.Graph()
	rows := start.Shape().Dimensions[0]
	at := Iota(g, shapes.Make(dtypes.Int32, rows, columns), 1)
	seen := LogicalAnd(GreaterOrEqual(at, InsertAxes(start, 1)), LessOrEqual(at, column))
	mask := Mul(Sub(Const(g, float32(1)), ConvertDType(seen, dtypes.Float32)), Const(g, float32(unseen)))
	return Reshape(mask, rows, 1, 1, columns)
}

// cachedAttention is softmax attention of one token per row over its columns: q [rows, 1, heads, d], k and v [rows·
// kvHeads, columns, d] → [rows, heads·d]. The heads that share a key head are the rows of one product, and nothing
// stands between the cache and the products: a reshape there would copy the cache at every token.
func cachedAttention(q, k, v, mask *Node) *Node {
	rows, heads, d := q.Shape().Dimensions[0], q.Shape().Dimensions[2], q.Shape().Dimensions[3]
	columns := k.Shape().Dimensions[1]
	kv := k.Shape().Dimensions[0] / rows
	q = Mul(q, Const(q.Graph(), float32(1/math.Sqrt(float64(d)))))
	q = Reshape(q, rows*kv, heads/kv, d)
	s := DotGeneral(q, []int{2}, []int{0}, k, []int{2}, []int{0}) // [rows·kv, group, columns]
	s = Reshape(Add(Reshape(s, rows, kv, heads/kv, columns), mask), rows*kv, heads/kv, columns)
	e := Exp(Sub(s, ReduceAndKeep(s, ReduceMax, -1)))
	o := DotGeneral(e, []int{2}, []int{0}, v, []int{1}, []int{0})
	return Reshape(Mul(o, Inverse(ReduceAndKeep(e, ReduceSum, -1))), rows, heads*d)
}

// mlp is Layer.MLP, from the common matrix of gate and up where the layer has one.
func mlp(l *decoder.Layer, u *Node) *Node {
	if l.Project == nil {
		return l.MLP(u)
	}
	p := l.Project(u, "mlp.gate_proj", "mlp.up_proj")
	return l.Project(Mul(Mul(p[0], Sigmoid(p[0])), p[1]), "mlp.down_proj")[0]
}
