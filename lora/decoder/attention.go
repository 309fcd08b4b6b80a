package decoder

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// masked is added to the score of a key that must not be seen: far below any score, and exp of it is zero.
const masked = -1e9

// CausalAttention is softmax attention of every token over itself and the tokens before it in the same segment, with
// scale d^(−1/2) and query head i reading key head i/(heads/kvHeads).
//
// q is float32 [B, T, heads, d], k and v [B, T, kvHeads, d], segments int32 [B, T] or nil. Returns [B, T, heads·d].
//
// Queries are taken in blocks, each against the keys up to its end, which skips most of the masked half; the heads of
// a group are folded into the rows of one product, so keys and values are never repeated; and rows are normalised
// after the product with the values.
func CausalAttention(q, k, v, segments *Node) *Node {
	g := q.Graph()
	dims := q.Shape().Dimensions
	B, T, heads, d := dims[0], dims[1], dims[2], dims[3]
	kv := k.Shape().Dimensions[2]
	group := heads / kv

	q = MulScalar(q, 1/math.Sqrt(float64(d)))
	q = TransposeAllAxes(Reshape(q, B, T, kv, group, d), 0, 2, 3, 1, 4) // [B, kv, group, T, d]
	k = Reshape(TransposeAllAxes(k, 0, 2, 1, 3), B*kv, T, d)
	v = Reshape(TransposeAllAxes(v, 0, 2, 1, 3), B*kv, T, d)

	blocks := attentionBlocks(T)
	step := T / blocks
	outs := make([]*Node, blocks)
	for i := range outs {
		from, to := i*step, (i+1)*step
		qi := Reshape(SliceAxis(q, 3, AxisRange(from, to)), B*kv, group*step, d)
		ki, vi := SliceAxis(k, 1, AxisRange(0, to)), SliceAxis(v, 1, AxisRange(0, to))
		s := DotGeneral(qi, []int{2}, []int{0}, ki, []int{2}, []int{0}) // [B·kv, group·step, to]
		s = Reshape(Add(Reshape(s, B, kv, group, step, to), attentionMask(g, segments, from, to, to)), B*kv, group*step, to)
		e := Exp(Sub(s, StopGradient(ReduceAndKeep(s, ReduceMax, -1))))
		o := DotGeneral(e, []int{2}, []int{0}, vi, []int{1}, []int{0})
		o = Mul(o, Inverse(ReduceAndKeep(e, ReduceSum, -1)))
		outs[i] = Reshape(o, B, kv, group, step, d)
	}
	o := outs[0]
	if blocks > 1 {
		o = Concatenate(outs, 3)
	}
	return Reshape(TransposeAllAxes(o, 0, 3, 1, 2, 4), B, T, heads*d)
}

// attentionBlocks is the number of query blocks: more of them skip more of the mask, but small products are slow.
func attentionBlocks(T int) int {
	if T >= 128 && T%4 == 0 {
		return 4
	}
	return 1
}

// attentionMask is what is added to the scores of queries from … to−1 against keys 0 … keys−1: a tensor that
// broadcasts over [B, kv, group, to−from, keys].
func attentionMask(g *Graph, segments *Node, from, to, keys int) *Node {
	rows := shapes.Make(dtypes.Int32, 1, 1, 1, to-from, keys)
	query := AddScalar(Iota(g, rows, 3), from)
	visible := LessOrEqual(Iota(g, rows, 4), query)
	if segments != nil {
		B := segments.Shape().Dimensions[0]
		q := Reshape(SliceAxis(segments, 1, AxisRange(from, to)), B, 1, 1, to-from, 1)
		k := Reshape(SliceAxis(segments, 1, AxisRange(0, keys)), B, 1, 1, 1, keys)
		visible = LogicalAnd(visible, Equal(q, k))
	}
	return MulScalar(OneMinus(ConvertDType(visible, dtypes.Float32)), masked)
}
