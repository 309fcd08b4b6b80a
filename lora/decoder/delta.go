package decoder

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

const (
	deltaChunk = 64   // tokens of one chunk of the delta rule
	deltaEps   = 1e-6 // added to the sum of squares of queries and keys
)

// CausalConv is the depthwise causal convolution before the delta rule, y_t = Σ_j w_j·x_{t−k+1+j}, with zeros before
// the first token of a segment. x is float32 [B, T, C], w float32 [C, 1, k], segments int32 [B, T] or nil.
// It is k shifted products: GoMLX's grouped convolution has no gradient.
func CausalConv(x, w, segments *Node) *Node {
	B, T := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	C, k := w.Shape().Dimensions[0], w.Shape().Dimensions[2]
	padded := Concatenate([]*Node{Zeros(x.Graph(), shapes.Make(dtypes.Float32, B, k-1, C)), x}, 1)
	var y *Node
	for j := range k {
		term := Mul(SliceAxis(padded, 1, AxisRange(j, j+T)), Reshape(SliceAxis(w, 2, AxisElem(j)), 1, 1, C))
		if back := k - 1 - j; segments != nil && back > 0 {
			// The token `back` columns earlier counts if it is of the same segment.
			same := shiftedEqual(segments, back)
			term = Mul(term, Reshape(ConvertDType(same, dtypes.Float32), B, T, 1))
		}
		if y == nil {
			y = term
		} else {
			y = Add(y, term)
		}
	}
	return y
}

// shiftedEqual compares every entry of s [B, T] with the one n columns before it; false where there is none.
func shiftedEqual(s *Node, n int) *Node {
	B, T := s.Shape().Dimensions[0], s.Shape().Dimensions[1]
	n = min(n, T)
	none := AddScalar(Zeros(s.Graph(), shapes.Make(dtypes.Int32, B, n)), -1) // segments count from 0
	before := none
	if n < T {
		before = Concatenate([]*Node{none, SliceAxis(s, 1, AxisRange(0, T-n))}, 1)
	}
	return Equal(s, before)
}

// DeltaRule is the gated delta rule (Yang et al. 2024, https://arxiv.org/abs/2412.06464) in its chunked form. Per
// value head, with normalised keys k̂ and normalised queries q̂ scaled by dk^(−1/2), the recurrence is
//
//	S ← e^{g_t}·S;  S ← S + k̂_t·(β_t·(v_t − Sᵀk̂_t))ᵀ;  o_t = Sᵀq̂_t
//
// starting from S = 0 at the first token of every segment.
//
// q and k are float32 [B, T, Hk, dk], v [B, T, Hv, dv], g and beta [B, T, Hv], segments int32 [B, T] or nil. Value
// head h uses key head h/(Hv/Hk). Returns the output [B, T, Hv, dv] and the state after the last token [B, Hv, dk, dv],
// through which nothing is differentiated.
func DeltaRule(q, k, v, g, beta, segments *Node) (out, state *Node) {
	gr := q.Graph()
	B, T, Hk, dk := q.Shape().Dimensions[0], q.Shape().Dimensions[1], q.Shape().Dimensions[2], q.Shape().Dimensions[3]
	Hv, dv := v.Shape().Dimensions[2], v.Shape().Dimensions[3]
	R := Hv / Hk
	C := chunkFor(T)
	n := (T + C - 1) / C

	q = MulScalar(unit(q, deltaEps), 1/math.Sqrt(float64(dk)))
	k = unit(k, deltaEps)

	// Chunk-major: [n, B, Hk, R, C, ·] with R = 1 for queries and keys. Added tokens have β = 0 and g = 0: no effect.
	chunked := func(x *Node, heads, group, d int) *Node {
		x = Reshape(padAxis1(x, n*C), B, n, C, heads, group, d)
		return TransposeAllAxes(x, 1, 0, 3, 4, 2, 5)
	}
	q, k = chunked(q, Hk, 1, dk), chunked(k, Hk, 1, dk)
	v, g, beta = chunked(v, Hk, R, dv), chunked(g, Hk, R, 1), chunked(beta, Hk, R, 1)
	m := chunkMasks(gr, segments, B, n, C)

	// G_i = Σ_{m≤i} g_m. A masked sum, not a product with a triangle of ones: TF32 would round it.
	row := shapes.Make(dtypes.Int32, 1, 1, 1, 1, C, C)
	lower := ConvertDType(LessOrEqual(Iota(gr, row, 5), Iota(gr, row, 4)), dtypes.Float32)
	gT := TransposeAllAxes(g, 0, 1, 2, 3, 5, 4)               // [n, B, Hk, R, 1, C]
	G := ReduceAndKeep(Mul(gT, lower), ReduceSum, -1)         // [n, B, Hk, R, C, 1]
	GT := TransposeAllAxes(G, 0, 1, 2, 3, 5, 4)               // [n, B, Hk, R, 1, C]
	last := SliceAxis(G, 4, AxisElem(C-1))                    // [n, B, Hk, R, 1, 1]
	decay := Mul(Exp(Mul(Sub(G, GT), m.within)), m.within)    // D_ij; the exponent is masked first: it could overflow
	in := Mul(Exp(G), m.carry)                                // how much of the incoming state token i sees
	toEnd := Mul(Exp(Mul(Sub(last, G), m.tail)), m.tail)      // how much of token i is left at the end of the chunk
	through := Reshape(Mul(Exp(last), m.keep), n, B*Hv, 1, 1) // how much of the incoming state is left there
	kk, qk := batchedOuter(k, k), batchedOuter(q, k)          // [n, B, Hk, 1, C, C]
	strict := ConvertDType(LessThan(Iota(gr, row, 5), Iota(gr, row, 4)), dtypes.Float32)
	A := Mul(Mul(Mul(kk, decay), beta), strict) // [n, B, Hk, R, C, C]
	inverse := Reshape(invertUnitLower(Reshape(A, n*B*Hv, C, C)), n, B*Hv, C, C)
	U := bmm(inverse, Reshape(Mul(v, beta), n, B*Hv, C, dv)) // new values, before the incoming state is known
	W := bmm(inverse, Reshape(Mul(k, Mul(beta, in)), n, B*Hv, C, dk))
	WQ := Concatenate([]*Node{W, Reshape(Mul(q, in), n, B*Hv, C, dk)}, 2)
	P := Reshape(Mul(qk, decay), n, B*Hv, C, C)
	K := Reshape(Mul(k, toEnd), n, B*Hv, C, dk)

	O, S := deltaScan(U, WQ, P, K, through)
	out = TransposeAllAxes(Reshape(O, n, B, Hv, C, dv), 1, 0, 3, 2, 4)
	return SliceAxis(Reshape(out, B, n*C, Hv, dv), 1, AxisRange(0, T)), Reshape(S, B, Hv, dk, dv)
}

// DeltaStep is one token of the recurrence of [DeltaRule]: S [B, Hv, dk, dv], q and k [B, Hk, dk], v [B, Hv, dv], g and
// beta [B, Hv], all float32. Returns the output [B, Hv, dv] and the new state.
func DeltaStep(S, q, k, v, g, beta *Node) (out, state *Node) {
	B, Hk, dk := q.Shape().Dimensions[0], q.Shape().Dimensions[1], q.Shape().Dimensions[2]
	Hv, dv := v.Shape().Dimensions[1], v.Shape().Dimensions[2]
	repeat := func(x *Node) *Node { // [B, Hv, dk, 1]
		x = BroadcastToDims(Reshape(x, B, Hk, 1, dk), B, Hk, Hv/Hk, dk)
		return Reshape(x, B, Hv, dk, 1)
	}
	q = repeat(MulScalar(unit(q, deltaEps), 1/math.Sqrt(float64(dk))))
	k = repeat(unit(k, deltaEps))
	S = Mul(S, Reshape(Exp(g), B, Hv, 1, 1))
	// Sums over dk as products.
	read := func(x *Node) *Node {
		y := bmmT(Reshape(S, B*Hv, dk, dv), Reshape(x, B*Hv, dk, 1)) // Sᵀx
		return Reshape(y, B, Hv, 1, dv)
	}
	e := Mul(Sub(Reshape(v, B, Hv, 1, dv), read(k)), Reshape(beta, B, Hv, 1, 1))
	S = Add(S, Mul(k, e))
	return Reshape(read(q), B, Hv, dv), S
}

// chunkFor is the chunk length for T tokens: a power of two.
func chunkFor(T int) int {
	C := 8
	for C < deltaChunk && C < T {
		C *= 2
	}
	return C
}

func padAxis1(x *Node, length int) *Node {
	dims := append([]int{}, x.Shape().Dimensions...)
	if dims[1] == length {
		return x
	}
	dims[1] = length - dims[1]
	return Concatenate([]*Node{x, Zeros(x.Graph(), shapes.Make(x.DType(), dims...))}, 1)
}

// masks say, as 0 or 1 in float32, which tokens of a chunk and which state belong together.
type masks struct {
	within *Node // token i sees token j ≤ i of its chunk   [n, B, 1, 1, C, C]
	carry  *Node // token i sees the incoming state         [n, B, 1, 1, C, 1]
	tail   *Node // token i is in the segment that goes on  [n, B, 1, 1, C, 1]
	keep   *Node // the incoming state goes on              [n, B, 1, 1, 1, 1]
}

func chunkMasks(g *Graph, segments *Node, B, n, C int) masks {
	row := shapes.Make(dtypes.Int32, 1, 1, 1, 1, C, C)
	causal := LessOrEqual(Iota(g, row, 5), Iota(g, row, 4))
	f := func(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }
	if segments == nil {
		one := Ones(g, shapes.Make(dtypes.Float32, 1, 1, 1, 1, 1, 1))
		return masks{f(causal), one, one, one}
	}
	if T := segments.Shape().Dimensions[1]; T < n*C { // added tokens go on with the last segment
		end := SliceAxis(segments, 1, AxisRange(T-1, T))
		segments = Concatenate([]*Node{segments, BroadcastToDims(end, B, n*C-T)}, 1)
	}
	s := TransposeAllAxes(Reshape(segments, B, n, C), 1, 0, 2) // [n, B, C]
	end := SliceAxis(s, 2, AxisRange(C-1, C))                  // [n, B, 1]
	before := SliceAxis(s, 2, AxisRange(0, 1))                 // the first chunk's incoming state is zero anyway
	if n > 1 {
		before = Concatenate([]*Node{SliceAxis(before, 0, AxisRange(0, 1)), SliceAxis(end, 0, AxisRange(0, n-1))}, 0)
	}
	column := Reshape(s, n, B, 1, 1, C, 1)
	end, before = Reshape(end, n, B, 1, 1, 1, 1), Reshape(before, n, B, 1, 1, 1, 1)
	return masks{
		within: f(LogicalAnd(Equal(column, Reshape(s, n, B, 1, 1, 1, C)), causal)),
		carry:  f(Equal(column, before)),
		tail:   f(Equal(column, end)),
		keep:   f(Equal(end, before)),
	}
}

// invertUnitLower returns (I+A)^(−1) for strictly lower triangular A [N, C, C], C a power of two ≥ 8.
//
// Diagonal blocks of 8 are inverted by the product (I−A)(I+A²)(I+A⁴), exact there because A⁸ = 0, and merged in pairs
// by −𝒯₂₂·A₂₁·𝒯₁₁. The product over the whole matrix is exact too, but with many nearly equal keys its terms grow to
// 1e9 and cancel. The derivative is dA = −𝒯ᵀ·d𝒯·𝒯ᵀ, below the diagonal.
func invertUnitLower(A *Node) *Node {
	dims := A.Shape().Dimensions
	N, C := dims[0], dims[1]
	frozen := StopGradient(A)
	const base = 8
	D := diagonalBlocks(frozen, base) // [N, C/8, 8, 8]
	power := Neg(D)
	inv := Add(power, Reshape(ConvertDType(Diagonal(A.Graph(), base), dtypes.Float32), 1, 1, base, base))
	for s := 2; s < base; s *= 2 {
		power = bmm(power, power)
		inv = Add(inv, bmm(inv, power))
	}
	for s := base; s < C; s *= 2 {
		nb := C / (2 * s)
		A21 := Slice(diagonalBlocks(frozen, 2*s), AxisRange(), AxisRange(), AxisRange(s, 2*s), AxisRange(0, s))
		pair := Reshape(inv, N, nb, 2, s, s)
		T11 := Squeeze(SliceAxis(pair, 2, AxisElem(0)), 2)
		T22 := Squeeze(SliceAxis(pair, 2, AxisElem(1)), 2)
		T21 := Neg(bmm(T22, bmm(A21, T11)))
		top := Concatenate([]*Node{T11, ZerosLike(T11)}, -1)
		inv = Concatenate([]*Node{top, Concatenate([]*Node{T21, T22}, -1)}, 2)
	}
	inv = StopGradient(Reshape(inv, N, C, C))
	// The value is inv and the derivative with respect to A the identity, until the function below replaces it.
	linked := Add(inv, Sub(A, StopGradient(A)))
	return IdentityWithCustomGradient(linked, func(_, v *Node) *Node {
		d := bmmT(inv, DotGeneral(v, []int{2}, []int{0}, inv, []int{2}, []int{0}))
		row := shapes.Make(dtypes.Int32, 1, C, C)
		strict := ConvertDType(LessThan(Iota(A.Graph(), row, 2), Iota(A.Graph(), row, 1)), dtypes.Float32)
		return Neg(Mul(d, strict))
	})
}

// diagonalBlocks takes the s×s blocks on the diagonal of x [N, C, C]: [N, C/s, s, s].
func diagonalBlocks(x *Node, s int) *Node {
	N, C := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	if s == C {
		return Reshape(x, N, 1, C, C)
	}
	nb := C / s
	pick := ConvertDType(Diagonal(x.Graph(), nb), dtypes.Float32)
	return ReduceSum(Mul(Reshape(x, N, nb, s, nb, s), Reshape(pick, 1, nb, 1, nb, 1)), 3)
}

// bmm multiplies the last two axes of a [..., i, j] and b [..., j, k], batched over the others.
func bmm(a, b *Node) *Node {
	r := a.Rank()
	batch := leadingAxes(r - 2)
	return DotGeneral(a, []int{r - 1}, batch, b, []int{r - 2}, batch)
}

// bmmT is aᵀ·b over the last two axes: a [..., j, i], b [..., j, k].
func bmmT(a, b *Node) *Node {
	r := a.Rank()
	batch := leadingAxes(r - 2)
	return DotGeneral(a, []int{r - 2}, batch, b, []int{r - 2}, batch)
}

// batchedOuter is a·bᵀ over the last two axes: a [..., i, d], b [..., j, d].
func batchedOuter(a, b *Node) *Node {
	r := a.Rank()
	batch := leadingAxes(r - 2)
	return DotGeneral(a, []int{r - 1}, batch, b, []int{r - 1}, batch)
}

func leadingAxes(n int) []int {
	axes := make([]int, n)
	for i := range axes {
		axes[i] = i
	}
	return axes
}
