package decoder

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// RMSNorm normalises x over its last axis, x·(mean(x²)+eps)^(−1/2), and scales it by w, or by 1+w in the zero-centred
// convention (Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467; Qwen3.5 stores w − 1).
// x is float32 [..., n], w float32 [n].
func RMSNorm(x, w *Node, eps float64, zeroCentred bool) *Node {
	if zeroCentred {
		w = OnePlus(w)
	}
	return Mul(rms(x, eps), lastAxis(w, x.Rank()))
}

// GatedRMSNorm is the norm after the delta rule: normalise, scale by w, then multiply by silu of the gate.
// x and gate are float32 [..., n], w float32 [n].
func GatedRMSNorm(x, w, gate *Node, eps float64) *Node {
	return Mul(Mul(rms(x, eps), lastAxis(w, x.Rank())), silu(gate))
}

func rms(x *Node, eps float64) *Node {
	// Times the reciprocal of the root: one division per row instead of one per element.
	return Mul(x, Inverse(Sqrt(AddScalar(ReduceAndKeep(Square(x), ReduceMean, -1), eps))))
}

// unit scales the last axis of x to length one; eps is added to the sum of squares, under the root.
func unit(x *Node, eps float64) *Node {
	return Mul(x, Inverse(Sqrt(AddScalar(ReduceAndKeep(Square(x), ReduceSum, -1), eps))))
}

func silu(x *Node) *Node { return Mul(x, Sigmoid(x)) }

// lastAxis gives a vector leading axes of length one, for broadcasting.
func lastAxis(w *Node, rank int) *Node {
	dims := make([]int, rank)
	for i := range dims {
		dims[i] = 1
	}
	dims[rank-1] = w.Shape().Size()
	return Reshape(w, dims...)
}
