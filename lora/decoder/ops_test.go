package decoder

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	. "github.com/gomlx/gomlx/core/graph"

	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
)

// eval runs a graph function over float32 or int32 inputs and returns its outputs, flattened.
func eval(t testing.TB, build func(in []*Node) []*Node, in ...*tensors.Tensor) [][]float32 {
	t.Helper()
	exec, err := NewExec(backendtest.Open(t).Engine, build)
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	out, err := exec.Call(in)
	if err != nil {
		t.Fatal(err)
	}
	var flat [][]float32
	for _, o := range out {
		x, err := tensors.CopyFlatData[float32](o)
		if err != nil {
			t.Fatal(err)
		}
		flat = append(flat, x)
	}
	return flat
}

func tensor(dims []int, values ...float32) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

// TestNorms has values computed in double precision, as have the other tests named by formula.
func TestNorms(t *testing.T) {
	out := eval(t, func(in []*Node) []*Node {
		return []*Node{RMSNorm(in[0], in[1], 1e-6, true), RMSNorm(in[0], in[1], 1e-6, false), GatedRMSNorm(in[0], in[2], in[3], 1e-6)}
	}, tensor([]int{1, 4}, 1, 2, 3, 4), tensor([]int{4}, .1, -.2, 0, .5), tensor([]int{4}, 1, .5, 2, 1), tensor([]int{1, 4}, .5, -1, 2, 0))
	closeTo(t, "zero-centred", out[0], []float32{0.40166318, 0.58423736, 1.09544504, 2.19089008}, 1e-6)
	closeTo(t, "plain", out[1], []float32{0.03651483, -0.14605934, 0, 0.73029669}, 1e-6)
	closeTo(t, "gated", out[2], []float32{0.11364500, -0.09820352, 3.85945917, 0}, 2e-6)
}

func TestRope(t *testing.T) {
	rotate := func(r checkpoint.Rope, position int32, x []float32) []float32 {
		cos, sin := RopeTable(r, []int32{position})
		h := r.Dim / 2
		return eval(t, func(in []*Node) []*Node { return []*Node{Rotate(in[0], in[1], in[2])} },
			tensor([]int{1, 1, 1, len(x)}, x...), tensor([]int{1, 1, h}, cos...), tensor([]int{1, 1, h}, sin...))[0]
	}
	closeTo(t, "partial", rotate(checkpoint.Rope{Theta: 1e4, Dim: 4}, 3, []float32{1, 2, 3, 4, 5, 6, 7, 8}),
		[]float32{-1.41335252, 1.87911807, -2.82885748, 4.05819114, 5, 6, 7, 8}, 2e-6)
	closeTo(t, "whole head", rotate(checkpoint.Rope{Theta: 1e6, Dim: 4}, 2, []float32{1, 2, 3, 4}),
		[]float32{-3.14403912, 1.99199601, -0.33914308, 4.00399200}, 2e-6)
	v := make([]float32, 256)
	for j := range v {
		v[j] = float32(j%7-3) / 4
	}
	out := rotate(checkpoint.Rope{Theta: 1e7, Dim: 64}, 5, v)
	for i, want := range map[int]float32{0: 0.02698443, 1: 0.43648663, 31: 0.00000062, 32: 0.79010875, 33: -0.55630875, 63: -0.75, 64: -0.5, 255: 0} {
		closeTo(t, fmt.Sprintf("element %d", i), out[i:i+1], []float32{want}, 1e-6)
	}
	w := InverseFrequencies(checkpoint.Rope{Theta: 1e7, Dim: 64})
	for i, want := range map[int]float64{0: 1, 1: 0.6042963902, 2: 0.3651741273, 16: 3.16227766e-4, 31: 1.6548171e-7} {
		if math.Abs(w[i]/want-1) > 1e-8 {
			t.Errorf("frequency %d: %v, expected %v", i, w[i], want)
		}
	}
	cos, sin := RopeTable(checkpoint.Rope{Theta: 1e7, Dim: 64}, []int32{1000})
	closeTo(t, "position 1000", []float32{cos[1], sin[1]}, []float32{0.4441233465, 0.8959656539}, 1e-7)
}

func TestCausalConv(t *testing.T) {
	build := func(in []*Node) []*Node {
		var segments *Node
		if len(in) > 2 {
			segments = ConvertDType(in[2], dtypes.Int32)
		}
		return []*Node{silu(CausalConv(in[0], in[1], segments))}
	}
	x, w := tensor([]int{1, 5, 1}, 1, 2, -1, .5, 3), tensor([]int{1, 1, 4}, .1, -.2, .3, .4)
	closeTo(t, "one document", eval(t, build, x, w)[0], []float32{0.23947506, 0.82528612, 0, -0.16052494, 1.49091740}, 1e-6)

	// The second document must give what it gives alone.
	x, w = tensor([]int{1, 5, 1}, 1, 2, -1, .5, 3), tensor([]int{1, 1, 4}, .1, -.2, .3, .4)
	packed := eval(t, build, x, w, tensor([]int{1, 5}, 0, 0, 1, 1, 1))[0]
	alone := eval(t, build, tensor([]int{1, 3, 1}, -1, .5, 3), tensor([]int{1, 1, 4}, .1, -.2, .3, .4))[0]
	closeTo(t, "second document", packed[2:], alone, 1e-7)
	closeTo(t, "first document", packed[:2], []float32{0.23947506, 0.82528612}, 1e-6)
}

func TestDeltaGates(t *testing.T) {
	out := eval(t, func(in []*Node) []*Node {
		l := &Layer{Config: &checkpoint.Config{}, Weights: map[string]*Node{
			"linear_attn.in_proj_qkv.weight": in[0], "linear_attn.in_proj_z.weight": in[0],
			"linear_attn.in_proj_b.weight": in[1], "linear_attn.in_proj_a.weight": in[2],
			"linear_attn.A_log": in[3], "linear_attn.dt_bias": in[4]}}
		_, _, g, beta := l.DeltaInputs(in[5])
		return []*Node{g, beta}
	}, tensor([]int{1, 1}, 1), tensor([]int{1, 1}, .3), tensor([]int{1, 1}, -1), tensor([]int{1}, float32(math.Log(2))), tensor([]int{1}, .5), tensor([]int{1, 1}, 1))
	closeTo(t, "g", out[0], []float32{-0.94815397}, 1e-6)
	closeTo(t, "beta", out[1], []float32{0.57444252}, 1e-6)
}

// deltaCase is a sequence of four tokens with one head, dk = 2 and dv = 3.
var deltaCase = struct{ q, k, v, g, beta []float32 }{
	q:    []float32{1, 0, .6, .8, -1, 2, .5, -.5},
	k:    []float32{0, 1, 1, 1, 2, -1, .3, .4},
	v:    []float32{1, 2, 3, -1, .5, 0, .25, -2, 1, 4, 0, -1},
	g:    []float32{-.1, -.5, -.05, -1},
	beta: []float32{.5, .9, .3, .7},
}

func deltaInputs() []*tensors.Tensor {
	c := deltaCase
	return []*tensors.Tensor{tensor([]int{1, 4, 1, 2}, c.q...), tensor([]int{1, 4, 1, 2}, c.k...), tensor([]int{1, 4, 1, 3}, c.v...),
		tensor([]int{1, 4, 1}, c.g...), tensor([]int{1, 4, 1}, c.beta...)}
}

var (
	deltaOut   = []float32{0, 0, 0, -0.59354453, 0.38790976, 0.10936499, -0.17015009, 0.67740039, 0.15924724, -0.30024386, -0.22551145, 0.03234187}
	deltaState = []float32{1.59690984, -0.22404152, -0.44483413, 2.19739816, 0.22698182, -0.50951793}
)

func TestDeltaRule(t *testing.T) {
	out := eval(t, func(in []*Node) []*Node {
		o, s := DeltaRule(in[0], in[1], in[2], in[3], in[4], nil)
		return append([]*Node{o, s}, Gradient(ReduceAllSum(o), in...)...)
	}, deltaInputs()...)
	closeTo(t, "output", out[0], deltaOut, 1e-6)
	closeTo(t, "state", out[1], deltaState, 1e-6)
	for i, want := range [][]float32{
		{0, 2.121318, -.746228, .559671, -.165636, -.082818, 1.421446, 1.421448},
		{1.719235, .000001, .887768, -.887769, .013021, .026042, 2.335958, -1.751971},
		{.108415, .108415, .108415, .868782, .868782, .868782, -.094289, -.094289, -.094289, -.07, -.07, -.07},
		{0, 0.650487, 0.312366, -0.283414},
		{1.300975, -1.724671, -0.159584, -0.303761},
	} {
		closeTo(t, "gradient of "+[]string{"q", "k", "v", "g", "beta"}[i], out[2+i], want, 5e-6)
	}
}

func TestDeltaStep(t *testing.T) {
	out := eval(t, func(in []*Node) []*Node {
		S := in[5]
		var outs []*Node
		for i := range 4 {
			at := func(n *Node) *Node { return Squeeze(SliceAxis(n, 1, AxisElem(i)), 1) }
			var o *Node
			o, S = DeltaStep(S, at(in[0]), at(in[1]), at(in[2]), at(in[3]), at(in[4]))
			outs = append(outs, o)
		}
		return []*Node{Stack(outs, 1), S}
	}, append(deltaInputs(), tensor([]int{1, 1, 2, 3}, make([]float32, 6)...))...)
	closeTo(t, "output", out[0], deltaOut, 1e-6)
	closeTo(t, "state", out[1], deltaState, 1e-6)

	out = eval(t, func(in []*Node) []*Node {
		S := in[5]
		var o *Node
		for i := range 4 {
			at := func(n *Node) *Node { return Squeeze(SliceAxis(n, 1, AxisElem(i)), 1) }
			o, S = DeltaStep(S, at(in[0]), at(in[1]), at(in[2]), at(in[3]), at(in[4]))
		}
		return []*Node{o, S}
	}, append(deltaInputs(), tensor([]int{1, 1, 2, 3}, .1, .2, -.3, .4, -.5, .6))...)
	closeTo(t, "last output from a given state", out[0], []float32{-0.30705265, -0.19479303, -0.00862006}, 1e-6)
	closeTo(t, "state from a given state", out[1], []float32{1.59053747, -0.19159492, -0.48828965, 2.20464339, 0.19799154, -0.47104951}, 1e-6)
}

// TestDeltaChunks runs long sequences with several heads and documents: chunks, decays and resets against the
// step-by-step recurrence, forward and gradient.
func TestDeltaChunks(t *testing.T) {
	const B, T, Hk, Hv, dk, dv = 2, 150, 2, 4, 8, 6
	noise := func(seed, n int, scale float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Sin(float64(i*i%977)+float64(seed)) * scale)
		}
		return x
	}
	g, beta := noise(4, B*T*Hv, 1), noise(5, B*T*Hv, .5)
	for i := range g {
		g[i] = -g[i] * g[i] / 4
		beta[i] += .5
	}
	segments := make([]float32, B*T)
	for i := range segments {
		row, column := i/T, i%T
		switch {
		case row == 0 && column >= 64+31, row == 1 && column >= 7: // inside a chunk, and early
			segments[i] = 1
		}
		if row == 1 && column >= 128 { // at a chunk's start
			segments[i] = 2
		}
	}
	in := []*tensors.Tensor{tensor([]int{B, T, Hk, dk}, noise(1, B*T*Hk*dk, 1)...), tensor([]int{B, T, Hk, dk}, noise(2, B*T*Hk*dk, 1)...),
		tensor([]int{B, T, Hv, dv}, noise(3, B*T*Hv*dv, 1)...), tensor([]int{B, T, Hv}, g...), tensor([]int{B, T, Hv}, beta...),
		tensor([]int{B, T}, segments...)}
	weigh := func(o *Node) *Node { // an arbitrary smooth function of the output
		return ReduceAllSum(Mul(o, Sin(ConvertDType(IotaFull(o.Graph(), o.Shape()), dtypes.Float32))))
	}
	for _, packed := range []bool{false, true} {
		chunked := eval(t, func(in []*Node) []*Node {
			var seg *Node
			if packed {
				seg = ConvertDType(in[5], dtypes.Int32)
			}
			o, s := DeltaRule(in[0], in[1], in[2], in[3], in[4], seg)
			return append([]*Node{o, s}, Gradient(weigh(o), in[:5]...)...)
		}, in...)
		stepped := naiveDelta(in, segments, packed, B, T, Hk, Hv, dk, dv)
		closeTo(t, fmt.Sprintf("output packed=%t", packed), chunked[0], stepped.out, 5e-6)
		closeTo(t, fmt.Sprintf("state packed=%t", packed), chunked[1], stepped.state, 5e-6)
		// Central differences of the float64 recurrence at a few places of every input.
		for i := range 5 {
			n := in[i].Size()
			for _, at := range []int{0, n / 7, n / 3, n/2 + 1, n - 2} {
				want := stepped.derivative(i, at)
				if d := math.Abs(float64(chunked[2+i][at]) - want); !(d <= 2e-4*math.Max(1, math.Abs(want))) {
					t.Errorf("packed=%t gradient %d at %d: %v, expected %v", packed, i, at, chunked[2+i][at], want)
				}
			}
		}
	}
}

type naive struct {
	in                   [5][]float64
	segments             []float32
	packed               bool
	B, T, Hk, Hv, dk, dv int
	out, state           []float32
}

func naiveDelta(in []*tensors.Tensor, segments []float32, packed bool, B, T, Hk, Hv, dk, dv int) *naive {
	n := &naive{segments: segments, packed: packed, B: B, T: T, Hk: Hk, Hv: Hv, dk: dk, dv: dv}
	for i := range n.in {
		for _, v := range tensors.MustCopyFlatData[float32](in[i]) {
			n.in[i] = append(n.in[i], float64(v))
		}
	}
	o, s := n.run()
	for _, v := range o {
		n.out = append(n.out, float32(v))
	}
	for _, v := range s {
		n.state = append(n.state, float32(v))
	}
	return n
}

func (n *naive) run() (out, state []float64) {
	out = make([]float64, n.B*n.T*n.Hv*n.dv)
	state = make([]float64, n.B*n.Hv*n.dk*n.dv)
	normed := func(x []float64, scale float64) []float64 {
		sum := 1e-6
		for _, v := range x {
			sum += v * v
		}
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = v / math.Sqrt(sum) * scale
		}
		return y
	}
	for b := range n.B {
		for h := range n.Hv {
			S := state[(b*n.Hv+h)*n.dk*n.dv:][:n.dk*n.dv]
			for t := range n.T {
				i := b*n.T + t
				if n.packed && t > 0 && n.segments[i] != n.segments[i-1] {
					clear(S)
				}
				kh := (i*n.Hk + h/(n.Hv/n.Hk)) * n.dk
				q, k := normed(n.in[0][kh:kh+n.dk], 1/math.Sqrt(float64(n.dk))), normed(n.in[1][kh:kh+n.dk], 1)
				v := n.in[2][(i*n.Hv+h)*n.dv:][:n.dv]
				decay, beta := math.Exp(n.in[3][i*n.Hv+h]), n.in[4][i*n.Hv+h]
				for j := range S {
					S[j] *= decay
				}
				for c := range n.dv {
					e := v[c]
					for r := range n.dk {
						e -= S[r*n.dv+c] * k[r]
					}
					for r := range n.dk {
						S[r*n.dv+c] += k[r] * e * beta
					}
					for r := range n.dk {
						out[(i*n.Hv+h)*n.dv+c] += S[r*n.dv+c] * q[r]
					}
				}
			}
		}
	}
	return out, state
}

// derivative of Σ out·sin(index).
func (n *naive) derivative(input, at int) float64 {
	value := func() (sum float64) {
		out, _ := n.run()
		for i, v := range out {
			sum += v * math.Sin(float64(i))
		}
		return sum
	}
	const h = 1e-5
	x := n.in[input]
	old := x[at]
	defer func() { x[at] = old }()
	x[at] = old + h
	up := value()
	x[at] = old - h
	return (up - value()) / (2 * h)
}

// TestStableInverse is the case in which expanding the inverse into powers loses everything: equal unit keys, no decay,
// full strength. The inverse is 1 on the diagonal, −1 below it, 0 elsewhere.
func TestStableInverse(t *testing.T) {
	const C = 64
	A := make([]float32, C*C)
	for i := range C {
		for j := range i {
			A[i*C+j] = 1
		}
	}
	out := eval(t, func(in []*Node) []*Node { return []*Node{invertUnitLower(in[0])} }, tensor([]int{1, C, C}, A...))[0]
	want := make([]float32, C*C)
	for i := range C {
		want[i*C+i] = 1
		if i > 0 {
			want[i*C+i-1] = -1
		}
	}
	closeTo(t, "inverse", out, want, 1e-6)
}

func TestCausalAttention(t *testing.T) {
	const d = 2
	out := eval(t, func(in []*Node) []*Node {
		l := &Layer{Config: &checkpoint.Config{NumHeads: 1, HeadDim: d}, Weights: map[string]*Node{"self_attn.o_proj.weight": in[4]}}
		ctx := CausalAttention(in[0], in[1], in[2], nil)
		return []*Node{ctx, l.AttentionOut(ctx, in[3])}
	}, tensor([]int{1, 2, 1, d}, 1, 0, 0, 2), tensor([]int{1, 2, 1, d}, 1, 1, -1, .5), tensor([]int{1, 2, 1, d}, 1, 2, 3, -1),
		tensor([]int{2, d}, 0, 1, -1, 2), tensor([]int{d, d}, 1, 0, 0, 1))
	closeTo(t, "context", out[0], []float32{1, 2, 1.66047690, 1.00928465}, 1e-6)
	closeTo(t, "gated", out[1], []float32{0.5, 1.46211716, 0.44657102, 0.88897497}, 1e-6)
}

// TestDelta has W·x, the update at scale alpha/r and alpha/√r, and DoRA with the base's row lengths.
func TestDelta(t *testing.T) {
	x, W := tensor([]int{1, 3}, 1, -2, .5), []float32{.1, .2, .3, -.4, .5, .6}
	A, B := tensor([]int{2, 3}, 1, 0, -1, .5, .5, 0), tensor([]int{2, 2}, .2, -.1, .3, .4)
	norms := []float32{float32(math.Sqrt(.14)), float32(math.Sqrt(.77))}
	out := eval(t, func(in []*Node) []*Node {
		x, W, A, B := in[0], in[1], in[2], in[3]
		y := Product(x, W)
		lora, rs, dora := Delta{A: A, B: B, Scale: 8}, Delta{A: A, B: B, Scale: 16 / math.Sqrt(2)}, Delta{A: A, B: B, Scale: 2, Magnitude: in[4]}
		return []*Node{y, lora.apply(x, W, y), rs.apply(x, W, y), dora.apply(x, W, y),
			Product(x, lora.Merge(W)), Product(x, dora.Merge(W))}
	}, x, tensor([]int{2, 3}, W...), A, B, tensor([]int{2}, norms...))
	for i, want := range [][]float32{{-.15, -1.1}, {1.05, -1.5}, {1.54705627, -1.66568542}, {0.13228757, -0.97349489}, {1.05, -1.5}, {0.13228757, -0.97349489}} {
		closeTo(t, []string{"base", "LoRA", "rsLoRA", "DoRA", "merged LoRA", "merged DoRA"}[i], out[i], want, 1e-6)
	}
}

// TestHeadTerms has log-probabilities and entropy at two temperatures and the derivative of KL.
func TestHeadTerms(t *testing.T) {
	for temperature, want := range map[float64][]float32{1: {-1.44018970, 0.94753696}, .7: {-1.69924526, 0.70202798}} {
		out := eval(t, func(in []*Node) []*Node {
			c := &checkpoint.Config{RMSNormEps: 1e-12}
			r := headRows{x: in[0], token: ConvertDType(in[1], dtypes.Int32), inverse: Scalar(in[0].Graph(), dtypes.Float32, 1/temperature)}
			r.inverse = Reshape(r.inverse, 1, 1)
			terms, _ := headForward(c, r, in[2], in[3])
			return []*Node{terms.logp, terms.entropy, terms.top}
			// A residual stream of [1] normalises to [1]: the head's column is the logits.
		}, tensor([]int{1, 1}, 3), tensor([]int{1}, 1), tensor([]int{1}, 1), tensor([]int{4, 1}, 2, 1, 0, -1))
		closeTo(t, fmt.Sprintf("T=%v", temperature), []float32{out[0][0], out[1][0], out[2][0]}, append(want, 0)[:3], 2e-6)
	}
	out := eval(t, func(in []*Node) []*Node {
		c := &checkpoint.Config{RMSNormEps: 1e-12}
		g := in[0].Graph()
		r := headRows{x: in[0], ref: in[1], token: Zeros(g, in[4].Shape()), inverse: Reshape(Scalar(g, dtypes.Float32, 1.0), 1, 1)}
		r.token = ConvertDType(r.token, dtypes.Int32)
		terms, u := headForward(c, r, in[2], in[3])
		zero, one := Zeros(g, in[4].Shape()), Ones(g, in[4].Shape())
		_, dz := headBackward(r, terms, u, in[3], coefficients{logp: zero, kl: one}, r.x)
		return []*Node{dz}
		// Two directions of the stream pick the policy's and the reference's logits.
	}, tensor([]int{1, 2}, 1, 0), tensor([]int{1, 2}, 0, 1), tensor([]int{2}, float32(math.Sqrt(.5)), float32(math.Sqrt(.5))),
		tensor([]int{3, 2}, .3, .1, -.2, .4, .5, -.3), tensor([]int{1}, 0))
	closeTo(t, "derivative of KL(p‖p_ref)", out[0], []float32{-0.03096295, -0.19036271, 0.22132565}, 1e-6)
}
