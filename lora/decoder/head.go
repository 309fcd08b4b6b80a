package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"terraloom/lora/checkpoint"
)

// Logits are the final norm and the head over rows of the residual stream: x float32 [N, H], norm [H], head [V, H] →
// float32 [N, V].
func Logits(c *checkpoint.Config, x, norm, head *Node) *Node {
	return wideProduct(RMSNorm(x, norm, c.RMSNormEps, c.ZeroCentredNorm), head)
}

// wideProduct is x·wᵀ with a float32 result that is never rounded to the dtype of w: for the head, whose derivative is
// written out below and needs no narrow products of GoMLX's making.
func wideProduct(x, w *Node) *Node { return wideDot(x, w, 1) }

// wideDot contracts x [N, a] with the given axis of w.
func wideDot(x, w *Node, axis int) *Node {
	if w.DType() == x.DType() {
		return DotGeneral(x, []int{1}, nil, w, []int{axis}, nil)
	}
	x = ConvertDType(x, w.DType())
	if !narrowProducts(x.Graph()) {
		return DotGeneral(ConvertDType(x, dtypes.Float32), []int{1}, nil, ConvertDType(w, dtypes.Float32), []int{axis}, nil)
	}
	return Dot(x, w).WithAccumulatorDType(dtypes.Float32).WithOutputDType(dtypes.Float32).General([]int{1}, nil, []int{axis}, nil)
}

// headRows are the inputs of the head for C labelled tokens.
type headRows struct {
	x       *Node // residual stream of the rows, float32 [C, H]
	token   *Node // label, int32 [C]
	inverse *Node // 1/temperature, float32 scalar
	ref     *Node // residual stream of the reference model, or nil
}

// headTerms are what the head computes of each row, [C] each.
type headTerms struct {
	logp, entropy *Node
	top           *Node // 1 if no token is likelier than the label
	kl            *Node // KL(p‖p_ref), if there is a reference

	// Over the vocabulary, [C, V]: logits less their maximum, exp of them, 1 at the label, and log p − log p_ref.
	z, e, onehot, ratio *Node
	sum, logSum         *Node // Σe and its logarithm, [C, 1]
}

// headForward computes log-probability of the label, entropy and KL of softmax(logits/temperature).
func headForward(c *checkpoint.Config, r headRows, norm, head *Node) (t headTerms, u *Node) {
	u = RMSNorm(r.x, norm, c.RMSNormEps, c.ZeroCentredNorm)
	t.z, t.e, t.sum, t.logSum = softmaxParts(Mul(wideProduct(u, head), r.inverse))
	g := t.z.Graph()
	t.onehot = ConvertDType(Equal(Iota(g, shapes.Make(dtypes.Int32, t.z.Shape().Dimensions...), 1), InsertAxes(r.token, 1)), dtypes.Float32)
	label := ReduceSum(Mul(t.onehot, t.z), 1)
	logSum := Squeeze(t.logSum, 1)
	t.logp = Sub(label, logSum)
	t.top = ConvertDType(GreaterOrEqual(label, ScalarZero(g, dtypes.Float32)), dtypes.Float32)
	t.entropy = Sub(logSum, Div(ReduceSum(Mul(t.e, t.z), 1), Squeeze(t.sum, 1)))
	if r.ref != nil {
		zRef, _, _, logSumRef := softmaxParts(Mul(Logits(c, r.ref, norm, head), r.inverse))
		t.ratio = Sub(Sub(t.z, t.logSum), Sub(zRef, logSumRef))
		t.kl = Div(ReduceSum(Mul(t.e, t.ratio), 1), Squeeze(t.sum, 1))
	}
	return t, u
}

func softmaxParts(z *Node) (shifted, e, sum, logSum *Node) {
	shifted = Sub(z, ReduceAndKeep(z, ReduceMax, 1))
	e = Exp(shifted)
	sum = ReduceAndKeep(e, ReduceSum, 1)
	return shifted, e, sum, Log(sum)
}

// headBackward returns the derivative of Σ dlogp·logp + dentropy·H + dkl·KL with respect to the rows of the residual
// stream, and, through the result, to whatever else `wrt` names. With z the scaled logits, p their softmax:
//
//	∂logp/∂z = onehot − p;  ∂H/∂z = −p·(log p + H);  ∂KL/∂z = p·(log p − log p_ref − KL)
//
// A nil coefficient is zero. The logits are not kept: this runs beside headForward, chunk by chunk.
func headBackward(r headRows, t headTerms, u, head *Node, c coefficients, wrt ...*Node) (grads []*Node, dz *Node) {
	column := func(x *Node) *Node { return InsertAxes(x, 1) }
	onP := Neg(column(c.logp)) // what multiplies p
	if c.entropy != nil {
		onP = Sub(onP, Mul(column(c.entropy), Add(Sub(t.z, t.logSum), column(t.entropy))))
	}
	if c.kl != nil {
		onP = Add(onP, Mul(column(c.kl), Sub(t.ratio, column(t.kl))))
	}
	dz = Add(Mul(column(c.logp), t.onehot), Mul(onP, Mul(t.e, Inverse(t.sum))))
	dz = StopGradient(Mul(dz, r.inverse))
	du := StopGradient(wideDot(dz, head, 0))
	return Gradient(ReduceAllSum(Mul(u, du)), wrt...), dz
}

// coefficients of the labels' terms, [C] each; entropy and kl may be nil.
type coefficients struct{ logp, entropy, kl *Node }

// gatherRows picks rows of x [B, T, H] by index into B·T.
func gatherRows(x, at *Node) *Node {
	dims := x.Shape().Dimensions
	return Gather(Reshape(x, dims[0]*dims[1], dims[2]), InsertAxes(at, 1))
}

// scatterRows is the derivative of gatherRows, without a scatter: position i of the result [B·T, H] is row where[i] of
// the chunks joined, or zero where that index is the number of rows.
func scatterRows(where *Node, chunks []*Node) *Node {
	H := chunks[0].Shape().Dimensions[1]
	zero := Zeros(where.Graph(), shapes.Make(dtypes.Float32, 1, H))
	return Gather(Concatenate(append(append([]*Node{}, chunks...), zero), 0), InsertAxes(where, 1))
}

// embedTokens looks tokens up: int32 [B, T], embed [V, H] → float32 [B, T, H].
func embedTokens(tokens, embed *Node) *Node {
	return ConvertDType(Gather(embed, InsertAxes(tokens, -1)), dtypes.Float32)
}
