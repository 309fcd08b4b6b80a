package decoder

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// deltaScan carries the state of the delta rule through n chunks, for N heads at once. With S the state before a chunk:
//
//	V = U − W·S;  O = Q·S + P·V;  S ← a·S + Kᵀ·V
//
// U is [n, N, C, dv], WQ is W above Q [n, N, 2C, dk], P [n, N, C, C], K [n, N, C, dk], a [n, N, 1, 1]. Returns O
// [n, N, C, dv] and the last state [N, dk, dv], through which nothing is differentiated.
//
// It is one While over the chunks, so that graphs do not grow with the text, with a While of its own for the
// derivative: differentiating slices taken chunk by chunk would add up n arrays of full length for each input.
func deltaScan(U, WQ, P, K, a *Node) (O, last *Node) {
	d := U.Shape().Dimensions
	n, N, C, dv := d[0], d[1], d[2], d[3]
	dk := K.Shape().Dimensions[3]
	if n == 1 {
		one := func(x *Node) *Node { return Squeeze(x, 0) }
		return InsertAxes(bmm(one(P), one(U)), 0), StopGradient(bmmT(one(K), one(U)))
	}
	g := U.Graph()
	zeros := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Float32, dims...)) }

	// Everything that a body reads is part of the loop's state: bodies cannot see outer nodes on XLA.
	in := []*Node{StopGradient(U), StopGradient(WQ), StopGradient(P), StopGradient(K), StopGradient(a)}
	state := append([]*Node{Const(g, int32(0)), zeros(N, dk, dv), zeros(n, N, C, dv), zeros(n, N, dk, dv)}, in...)
	out := loop(state, func(i *Node) *Node { return LessThan(i, Const(i.Graph(), int32(n))) }, func(s []*Node) []*Node {
		i, S, outs, states := s[0], s[1], s[2], s[3]
		u, wq, p, k, keep := row(s[4], i), row(s[5], i), row(s[6], i), row(s[7], i), row(s[8], i)
		seen := bmm(wq, S)
		v := Sub(u, SliceAxis(seen, 1, AxisRange(0, C)))
		o := Add(SliceAxis(seen, 1, AxisRange(C, 2*C)), bmm(p, v))
		next := Add(Mul(keep, S), bmmT(k, v))
		return append([]*Node{Add(i, Const(i.Graph(), int32(1))), next, setRow(outs, o, i), setRow(states, S, i)}, s[4:]...)
	})
	last, O = StopGradient(out[1]), StopGradient(out[2])
	states := StopGradient(out[3])

	O = withDerivative(O, []*Node{U, WQ, P, K, a}, func(dO *Node) []*Node {
		state := append([]*Node{Const(g, int32(n-1)), zeros(N, dk, dv), zeros(n, N, C, dv), zeros(n, N, 2*C, dk), zeros(n, N, C, C),
			zeros(n, N, C, dk), zeros(n, N, 1, 1), dO, states}, in...)
		out := loop(state, func(i *Node) *Node { return GreaterOrEqual(i, Const(i.Graph(), int32(0))) }, func(s []*Node) []*Node {
			i, dS := s[0], s[1]
			do, S := row(s[7], i), row(s[8], i)
			u, wq, p, k, keep := row(s[9], i), row(s[10], i), row(s[11], i), row(s[12], i), row(s[13], i)
			v := Sub(u, bmm(SliceAxis(wq, 1, AxisRange(0, C)), S))
			dV := Add(bmmT(p, do), bmm(k, dS))
			dSeen := Concatenate([]*Node{Neg(dV), do}, 1)
			// Σ S·dS as a product with ones: reductions in a loop's body do not compile on XLA once the graph has others.
			ones := BroadcastToDims(Const(i.Graph(), float32(1)), dk*dv, 1)
			dKeep := Reshape(DotGeneral(Reshape(Mul(S, dS), N, dk*dv), []int{1}, nil, ones, []int{0}, nil), N, 1, 1)
			next := Add(Mul(keep, dS), bmmT(wq, dSeen))
			return append([]*Node{Sub(i, Const(i.Graph(), int32(1))), next,
				setRow(s[2], dV, i), setRow(s[3], batchedOuter(dSeen, S), i), setRow(s[4], batchedOuter(do, v), i),
				setRow(s[5], batchedOuter(v, dS), i), setRow(s[6], dKeep, i)}, s[7:]...)
		})
		return out[2:7]
	})
	return O, last
}

// loop is a While whose first state is its counter.
func loop(state []*Node, more func(i *Node) *Node, body func(s []*Node) []*Node) []*Node {
	g := state[0].Graph()
	parameters := func(g *Graph) []*Node {
		out := make([]*Node, len(state))
		for i, s := range state {
			out[i] = Parameter(g, g.UniqueName("state"), s.Shape())
		}
		return out
	}
	return While(
		NewClosure(g, func(g *Graph) []*Node { return []*Node{more(parameters(g)[0])} }),
		NewClosure(g, func(g *Graph) []*Node { return body(parameters(g)) }),
		state...)
}

// row is x[i], and setRow x with x[i] replaced, for a scalar node i. The pure-Go engine has no dynamic slices.
func row(x, i *Node) *Node {
	dims := x.Shape().Dimensions
	if !dynamicSlices(x.Graph()) {
		return Gather(x, Reshape(i, 1))
	}
	return Reshape(DynamicSlice(x, firstAxis(i, len(dims)), append([]int{1}, dims[1:]...)), dims[1:]...)
}

func setRow(x, value, i *Node) *Node {
	dims := x.Shape().Dimensions
	value = InsertAxes(value, 0)
	if !dynamicSlices(x.Graph()) {
		index := Iota(x.Graph(), shapes.Make(dtypes.Int32, dims...), 0)
		return Where(Equal(index, i), BroadcastToDims(value, dims...), x)
	}
	return DynamicUpdateSlice(x, value, firstAxis(i, len(dims)))
}

func firstAxis(i *Node, rank int) []*Node {
	starts := []*Node{i}
	for range rank - 1 {
		starts = append(starts, Const(i.Graph(), int32(0)))
	}
	return starts
}

func dynamicSlices(g *Graph) bool {
	ops := g.Backend().Capabilities().Operations
	return ops[compute.OpTypeDynamicSlice] && ops[compute.OpTypeDynamicUpdateSlice]
}

// withDerivative gives out, which depends on no differentiated node, the derivative vjp: from d/d out to d/d inputs, in
// their order.
//
// GoMLX replaces the derivative of one node by a function of that node's own shape. So out passes through one such
// node, whose function runs first, computes all derivatives, and hands back nothing of its own; and every input is tied
// to out by a term that is zero, through another such node, whose function ignores what arrives and returns what was
// computed for it.
func withDerivative(out *Node, inputs []*Node, vjp func(v *Node) []*Node) *Node {
	var grads []*Node
	for i, x := range inputs {
		tied := IdentityWithCustomGradient(x, func(_, _ *Node) *Node { return grads[i] })
		first := make([]SliceAxisSpec, x.Rank())
		for axis := range first {
			first[axis] = AxisRange(0, 1)
		}
		zero := MulScalar(Reshape(Slice(tied, first...)), 0)
		out = Add(out, zero)
	}
	return IdentityWithCustomGradient(out, func(_, v *Node) *Node {
		grads = vjp(v)
		return v
	})
}
