package decoder

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"terraloom/lora/checkpoint"
)

// Layer is one decoder layer inside a graph: the nodes of its tensors and what to do with them. Its methods are the
// pieces that training and generation share.
type Layer struct {
	Config *checkpoint.Config
	Type   checkpoint.LayerType
	// Weights holds the tensors of the layer by their names below "layers.N.", e.g. "self_attn.q_proj.weight": matrices
	// of projections in float32 or bfloat16, everything else in float32. See [LayerTensors].
	Weights map[string]*Node
	// Deltas are low-rank updates by module name below "layers.N.", e.g. "mlp.up_proj". May be nil.
	Deltas map[string]Delta
	// Project, if set, computes projections that read the same input together, in place of Linear for each: for graphs
	// that hold their matrices fused.
	Project func(x *Node, modules ...string) []*Node
}

// Delta is a low-rank update of one projection inside a graph.
type Delta struct {
	A, B  *Node   // float32 [r, in], [out, r]
	Scale float64 // alpha/r, or alpha/√r
	// Magnitude, float32 [out], makes it DoRA (Liu et al. 2024, https://arxiv.org/abs/2402.09353): the updated matrix's
	// rows are rescaled to these lengths. nil: plain LoRA.
	Magnitude *Node
	// Dropout is applied to the input of A; nil: none.
	Dropout func(x *Node) *Node
}

// Sequence tells a graph how the tokens of a batch lie.
type Sequence struct {
	Rows, Len int
	Cos, Sin  *Node // rotary table, float32 [1 or Rows, Len, Rope.Dim/2]: see RopeTable
	// Segments, int32 [Rows, Len], numbers the documents of each row from 0, increasing from left to right; tokens see
	// only their own document. nil: one document per row, from the first column.
	Segments *Node
}

// LayerTensors lists the tensors of a layer of the given type by their names below "layers.N.", in the order of
// computation.
func LayerTensors(c *checkpoint.Config, t checkpoint.LayerType) []checkpoint.TensorSpec {
	one := *c
	one.LayerTypes, one.NumLayers = []checkpoint.LayerType{t}, 1
	var specs []checkpoint.TensorSpec
	for _, s := range one.TensorSpecs() {
		if name, ok := strings.CutPrefix(s.Name, "layers.0."); ok {
			s.Name = name
			specs = append(specs, s)
		}
	}
	return specs
}

// Forward is the whole layer: x + mixer(norm(x)), then x + mlp(norm(x)). x is float32 [Rows·Len, H].
func (l *Layer) Forward(x *Node, s Sequence) *Node {
	y, _ := l.forward(x, s)
	return y
}

// forward also returns what backward needs to go without the products of the forward pass: the outputs of the mixer's
// projections, the mixer's result before its last projection, the residual stream between the halves, gate and up.
func (l *Layer) forward(x *Node, s Sequence) (y *Node, kept []*Node) {
	p := l.project(x)
	r := l.mix(p, s)
	middle := Add(x, l.mixerOut(r))
	gate, up := l.gateUp(middle)
	return Add(middle, l.down(gate, up)), append(p, r, middle, gate, up)
}

// backward is the derivative of Σ y·dy with respect to x and the trainable nodes, from the kept nodes of forward. Each
// half of the layer is cut at the kept nodes; a projection's derivative does not need its own output, so the only
// products computed again are those of the attention scores or the delta rule.
func (l *Layer) backward(x *Node, kept []*Node, s Sequence, dy *Node, trainable []*Node) []*Node {
	n := len(kept) - 4
	p, r, middle, gate, up := kept[:n], kept[n], kept[n+1], kept[n+2], kept[n+3]
	var sums []*Node
	stage := func(outs, douts, wrt []*Node) []*Node {
		var total *Node
		for i, o := range outs {
			term := ReduceAllSum(Mul(o, StopGradient(douts[i])))
			if total != nil {
				term = Add(total, term)
			}
			total = term
		}
		g := Gradient(total, append(append([]*Node{}, wrt...), trainable...)...)
		if sums == nil {
			sums = g[len(wrt):]
		} else {
			for i, v := range g[len(wrt):] {
				sums[i] = Add(sums[i], v)
			}
		}
		return g[:len(wrt)]
	}
	dMLP := stage([]*Node{l.down(gate, up)}, []*Node{dy}, []*Node{gate, up})
	g, u := l.gateUp(middle)
	dMiddle := Add(dy, stage([]*Node{g, u}, dMLP, []*Node{middle})[0])
	dr := stage([]*Node{l.mixerOut(r)}, []*Node{dMiddle}, []*Node{r})
	dp := stage([]*Node{l.mix(p, s)}, dr, p)
	dx := Add(dMiddle, stage(l.project(x), dp, []*Node{x})[0])
	return append([]*Node{dx}, sums...)
}

// project norms x and applies the projections before the mixer.
func (l *Layer) project(x *Node) []*Node {
	u := l.InputNorm(x)
	if l.Type == checkpoint.LinearAttention {
		return l.linears(u, deltaProjections...)
	}
	return l.linears(u, attentionProjections...)
}

// The projections that read the normed input, in the order of computation.
var (
	attentionProjections = []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}
	deltaProjections     = []string{"linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.in_proj_b", "linear_attn.in_proj_a"}
	mlpProjections       = []string{"mlp.gate_proj", "mlp.up_proj"}
)

// linears computes projections of the same input.
func (l *Layer) linears(x *Node, modules ...string) []*Node {
	if l.Project != nil {
		return l.Project(x, modules...)
	}
	out := make([]*Node, len(modules))
	for i, name := range modules {
		out[i] = l.Linear(name, x)
	}
	return out
}

// mix is the mixer between its projections.
func (l *Layer) mix(p []*Node, s Sequence) *Node {
	if l.Type == checkpoint.LinearAttention {
		r, _ := l.deltaMix(p, s)
		return r
	}
	q, k, v, gate := l.splitQKV(p, s)
	return l.gated(CausalAttention(q, k, v, s.Segments), gate)
}

func (l *Layer) mixerOut(r *Node) *Node {
	if l.Type == checkpoint.LinearAttention {
		return l.linears(r, "linear_attn.out_proj")[0]
	}
	return l.linears(r, "self_attn.o_proj")[0]
}

func (l *Layer) gateUp(x *Node) (gate, up *Node) {
	p := l.linears(l.MLPNorm(x), mlpProjections...)
	return p[0], p[1]
}

func (l *Layer) down(gate, up *Node) *Node { return l.linears(Mul(silu(gate), up), "mlp.down_proj")[0] }

// InputNorm and MLPNorm are the norms before the mixer and before the MLP. x is float32 [N, H].
func (l *Layer) InputNorm(x *Node) *Node { return l.norm(x, "input_layernorm.weight") }

// MLPNorm is the norm before the MLP.
func (l *Layer) MLPNorm(x *Node) *Node { return l.norm(x, "post_attention_layernorm.weight") }

func (l *Layer) norm(x *Node, weight string) *Node {
	return RMSNorm(x, l.weight(weight), l.Config.RMSNormEps, l.Config.ZeroCentredNorm)
}

// MLP is down(silu(gate(u)) ⊙ up(u)) (Shazeer 2020, https://arxiv.org/abs/2002.05202). u is float32 [N, H].
func (l *Layer) MLP(u *Node) *Node {
	return l.down(l.Linear("mlp.gate_proj", u), l.Linear("mlp.up_proj", u))
}

// QKV projects the normed input u [Rows·Len, H] to queries [Rows, Len, heads, d], keys and values [Rows, Len, kvHeads,
// d] and, for models that have one, the output gate [Rows·Len, heads·d] (nil otherwise). Queries and keys are normed
// where the model does so, and rotated: they are ready for attention and for a cache.
func (l *Layer) QKV(u *Node, s Sequence) (q, k, v, gate *Node) {
	return l.splitQKV(l.linears(u, attentionProjections...), s)
}

func (l *Layer) splitQKV(p []*Node, s Sequence) (q, k, v, gate *Node) {
	c := l.Config
	q = p[0]
	k = Reshape(p[1], s.Rows, s.Len, c.NumKVHeads, c.HeadDim)
	v = Reshape(p[2], s.Rows, s.Len, c.NumKVHeads, c.HeadDim)
	if c.OutputGate { // each head's rows are its query rows, then its gate rows
		both := Reshape(q, s.Rows*s.Len, c.NumHeads, 2, c.HeadDim)
		q = SliceAxis(both, 2, AxisElem(0))
		gate = Reshape(SliceAxis(both, 2, AxisElem(1)), s.Rows*s.Len, c.NumHeads*c.HeadDim)
	}
	q = Reshape(q, s.Rows, s.Len, c.NumHeads, c.HeadDim)
	if c.QKNorm {
		q, k = l.norm(q, "self_attn.q_norm.weight"), l.norm(k, "self_attn.k_norm.weight")
	}
	return Rotate(q, s.Cos, s.Sin), Rotate(k, s.Cos, s.Sin), v, gate
}

// AttentionOut gates the attention's result ctx (any shape of Rows·Len·heads·d elements) and projects it to [N, H].
func (l *Layer) AttentionOut(ctx, gate *Node) *Node { return l.mixerOut(l.gated(ctx, gate)) }

func (l *Layer) gated(ctx, gate *Node) *Node {
	width := l.Config.NumHeads * l.Config.HeadDim
	ctx = Reshape(ctx, ctx.Shape().Size()/width, width)
	if gate != nil {
		ctx = Mul(ctx, Sigmoid(gate))
	}
	return ctx
}

// DeltaInputs projects the normed input u [N, H] to what the convolution reads, m [N, convDim], to the gate z
// [N, valueDim], and to the decay g ≤ 0 and the write strength beta, both [N, valueHeads].
func (l *Layer) DeltaInputs(u *Node) (m, z, g, beta *Node) {
	p := l.linears(u, deltaProjections...)
	g, beta = l.deltaGates(p[2], p[3])
	return p[0], p[1], g, beta
}

func (l *Layer) deltaGates(b, a *Node) (g, beta *Node) {
	a = Add(a, lastAxis(l.weight("linear_attn.dt_bias"), 2))
	return Neg(Mul(lastAxis(Exp(l.weight("linear_attn.A_log")), 2), softplus(a))), Sigmoid(b)
}

// DeltaSplit turns the convolution's result y [..., convDim] into queries and keys [..., keyHeads, dk] and values
// [..., valueHeads, dv], after the activation.
func (l *Layer) DeltaSplit(y *Node) (q, k, v *Node) {
	a := l.Config.LinearAttn
	y = silu(y)
	lead := y.Shape().Dimensions[:y.Rank()-1]
	part := func(from, heads, dim int) *Node {
		x := SliceAxis(y, -1, AxisRange(from, from+heads*dim))
		return Reshape(x, append(append([]int{}, lead...), heads, dim)...)
	}
	return part(0, a.KeyHeads, a.KeyHeadDim), part(a.KeyDim(), a.KeyHeads, a.KeyHeadDim),
		part(2*a.KeyDim(), a.ValueHeads, a.ValueHeadDim)
}

// DeltaOut norms and gates the delta rule's output o [N·valueHeads·dv elements] with z [N, valueDim] and projects it
// to [N, H].
func (l *Layer) DeltaOut(o, z *Node) *Node { return l.mixerOut(l.deltaGated(o, z)) }

func (l *Layer) deltaGated(o, z *Node) *Node {
	a := l.Config.LinearAttn
	N := z.Shape().Dimensions[0]
	heads := []int{N, a.ValueHeads, a.ValueHeadDim}
	r := GatedRMSNorm(Reshape(o, heads...), l.weight("linear_attn.norm.weight"), Reshape(z, heads...), l.Config.RMSNormEps)
	return Reshape(r, N, a.ValueDim())
}

// DeltaState is what a gated delta rule mixer carries from token to token.
type DeltaState struct {
	S    *Node // float32 [Rows, valueHeads, dk, dv]
	Conv *Node // the last ConvKernel−1 inputs of the convolution, oldest first, float32 [Rows, ConvKernel−1, convDim]
}

// DeltaNet is the gated delta rule mixer over whole sequences: u is the normed input [Rows·Len, H], the result [Rows·
// Len, H]. The state is the one after the last column of every row: rows that go on decoding must end there.
func (l *Layer) DeltaNet(u *Node, s Sequence) (*Node, DeltaState) {
	r, state := l.deltaMix(l.linears(u, deltaProjections...), s)
	return l.mixerOut(r), state
}

// deltaMix is the mixer between its projections: convolution, delta rule, gated norm.
func (l *Layer) deltaMix(p []*Node, s Sequence) (*Node, DeltaState) {
	a := l.Config.LinearAttn
	z := p[1]
	g, beta := l.deltaGates(p[2], p[3])
	m := Reshape(p[0], s.Rows, s.Len, a.ConvDim())
	q, k, v := l.DeltaSplit(CausalConv(m, l.weight("linear_attn.conv1d.weight"), s.Segments))
	g, beta = Reshape(g, s.Rows, s.Len, a.ValueHeads), Reshape(beta, s.Rows, s.Len, a.ValueHeads)
	o, S := DeltaRule(q, k, v, g, beta, s.Segments)

	// Inputs of earlier segments, and those before the first token, count as zeros.
	keep := a.ConvKernel - 1
	window := m
	if s.Segments != nil {
		end := SliceAxis(s.Segments, 1, AxisRange(s.Len-1, s.Len))
		same := ConvertDType(Equal(s.Segments, end), dtypes.Float32)
		window = Mul(m, Reshape(same, s.Rows, s.Len, 1))
	}
	if s.Len < keep {
		none := Zeros(m.Graph(), shapes.Make(dtypes.Float32, s.Rows, keep-s.Len, a.ConvDim()))
		window = Concatenate([]*Node{none, window}, 1)
	}
	window = SliceAxis(window, 1, AxisRangeToEnd(max(s.Len, keep)-keep))
	return l.deltaGated(o, z), DeltaState{S, window}
}

// DeltaNetStep is the mixer for one token per row: u is the normed input [Rows, H].
func (l *Layer) DeltaNetStep(u *Node, state DeltaState) (*Node, DeltaState) {
	a := l.Config.LinearAttn
	rows := u.Shape().Dimensions[0]
	m, z, g, beta := l.DeltaInputs(u)
	window := Concatenate([]*Node{state.Conv, Reshape(m, rows, 1, a.ConvDim())}, 1)
	w := l.weight("linear_attn.conv1d.weight") // [convDim, 1, k]
	var y *Node
	for j := range a.ConvKernel {
		column := Reshape(SliceAxis(window, 1, AxisElem(j)), rows, a.ConvDim())
		term := Mul(column, Reshape(SliceAxis(w, 2, AxisElem(j)), 1, a.ConvDim()))
		if y == nil {
			y = term
		} else {
			y = Add(y, term)
		}
	}
	q, k, v := l.DeltaSplit(y)
	o, S := DeltaStep(state.S, q, k, v, g, beta)
	return l.DeltaOut(o, z), DeltaState{S, SliceAxis(window, 1, AxisRangeToEnd(1))}
}

// Linear is a projection of the layer with its bias and low-rank update: x float32 [N, in] → float32 [N, out].
func (l *Layer) Linear(module string, x *Node) *Node {
	w := l.weight(module + ".weight")
	y := Product(x, w)
	if d, ok := l.Deltas[module]; ok {
		y = d.apply(x, w, y)
	}
	if bias, ok := l.Weights[module+".bias"]; ok {
		y = Add(y, lastAxis(bias, 2))
	}
	return y
}

// apply adds the update to y = x·wᵀ.
func (d Delta) apply(x, w, y *Node) *Node {
	if d.Dropout != nil {
		x = d.Dropout(x)
	}
	update := Product(MulScalar(Product(x, d.A), d.Scale), d.B)
	if d.Magnitude == nil {
		return Add(y, update)
	}
	stretch := lastAxis(Div(d.Magnitude, d.rowNorms(w)), 2)
	if d.Dropout == nil {
		return Mul(Add(y, update), stretch)
	}
	// In PEFT the whole change, not only the low-rank part, reads the dropped input.
	return Add(y, Add(Mul(update, stretch), Mul(Product(x, w), MinusOne(stretch))))
}

// rowNorms are the lengths of the rows of W + s·B·A. The derivative takes them as constants, as DoRA does.
func (d Delta) rowNorms(w *Node) *Node {
	return StopGradient(Sqrt(ReduceSum(Square(d.merged(w)), -1)))
}

// merged is W + s·B·A in float32.
func (d Delta) merged(w *Node) *Node {
	update := DotGeneral(d.B, []int{1}, nil, d.A, []int{0}, nil)
	return Add(ConvertDType(w, dtypes.Float32), MulScalar(update, d.Scale))
}

// Merge is the matrix that computes the same as w with the update, in the dtype of w.
func (d Delta) Merge(w *Node) *Node {
	m := d.merged(w)
	if d.Magnitude != nil {
		norms := ReduceAndKeep(Square(m), ReduceSum, -1)
		m = Mul(m, Div(InsertAxes(d.Magnitude, 1), Sqrt(norms)))
	}
	return ConvertDType(m, w.DType())
}

func (l *Layer) weight(name string) *Node {
	w, ok := l.Weights[name]
	if !ok {
		panic(fmt.Errorf("decoder: no node for %s", name)) // graph building panics; its caller makes it an error
	}
	return w
}

// Product is x·wᵀ: x float32 [N, in], w [out, in] in float32 or bfloat16, the result float32 [N, out]. With a bfloat16
// w, x and the result are rounded to bfloat16, which keeps the products of the backward pass in bfloat16 too.
func Product(x, w *Node) *Node {
	if w.DType() == x.DType() {
		return DotGeneral(x, []int{1}, nil, w, []int{1}, nil)
	}
	x = ConvertDType(x, w.DType())
	if !narrowProducts(x.Graph()) {
		y := DotGeneral(ConvertDType(x, dtypes.Float32), []int{1}, nil, ConvertDType(w, dtypes.Float32), []int{1}, nil)
		return ConvertDType(ConvertDType(y, w.DType()), dtypes.Float32)
	}
	return ConvertDType(DotGeneral(x, []int{1}, nil, w, []int{1}, nil), dtypes.Float32)
}

// narrowProducts reports whether the engine multiplies bfloat16 matrices at speed: the pure-Go one does not.
func narrowProducts(g *Graph) bool { return g.Backend().Name() != "go" }

// softplus is log(1+eˣ) without overflow.
func softplus(x *Node) *Node {
	return Add(MaxScalar(x, 0), Log1p(Exp(Neg(Abs(x)))))
}
