package decoder

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
)

// tiny is a hybrid model that is quick to compile: one layer of each kind.
func tiny(tied bool) checkpoint.Config {
	c := hybrid(2, 32)
	c.LayerTypes = []checkpoint.LayerType{checkpoint.LinearAttention, checkpoint.FullAttention}
	c.VocabSize, c.Tied = 50, tied
	return c
}

// loadTiny is shared by the tests like loadModel.
func loadTiny(t testing.TB, tied bool, opts Options) *Model {
	t.Helper()
	key := fmt.Sprintf("tiny tied=%t %+v", tied, opts)
	if m, ok := models[key]; ok {
		return m
	}
	c := tiny(tied)
	m, err := Load(backendtest.Open(t), c, RandomWeights{Config: c, Seed: 7, Std: 0.2}, opts)
	if err != nil {
		t.Fatal(err)
	}
	models[key] = m
	return m
}

// compilesFast: on the Go engine graphs cost nothing to make; on XLA seconds, so some variants run on Go only.
func compilesFast(t testing.TB) bool { return backendtest.Open(t).Name == backend.Go }

// bindNew makes an adapter whose B is not zero, so that every gradient is alive.
func bindNew(t testing.TB, m *Model, c adapter.Config) *Params {
	t.Helper()
	c.R, c.Alpha = 3, 6
	if c.Targets == nil {
		c.Targets = []string{adapter.AllLinear}
	}
	a, err := adapter.New(&m.Config, c, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for _, b := range a.B {
		for i := range b {
			b[i] = float32(rng.NormFloat64() * 0.1)
		}
	}
	p, err := m.Bind(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Free)
	return p
}

func randomRows(seed uint64, vocab int, lengths ...int) [][]int32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	rows := make([][]int32, len(lengths))
	for r, n := range lengths {
		for range n {
			rows[r] = append(rows[r], int32(1+rng.IntN(vocab-1)))
		}
	}
	return rows
}

func hostOf(t testing.TB, v *Vectors) []float32 {
	t.Helper()
	parts, err := v.Host()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(parts...)
}

// relative is the L2 distance of a to b over the length of b.
func relative(a, b []float32) float64 {
	var d, s float64
	for i := range b {
		d += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
		s += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(d / s)
}

// TestPaddingG19: rows padded on the right, on the left, packed together or alone have the same logits.
func TestPaddingG19(t *testing.T) {
	for _, name := range []string{"llama", "qwen35-text"} {
		t.Run(name, func(t *testing.T) {
			m := loadModel(t, filepath.Join(goldenDir(t), name), Options{})
			rows := randomRows(5, m.Config.VocabSize, 21, 3, 30)
			logits := func(b Batch) []float32 {
				out, err := forward(t, m, b, nil, Train{}).Logits(allPositions(b))
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			right := logits(PadRight(rows))
			closeTo(t, "left", logits(PadLeft(rows)), right, 2e-4)
			closeTo(t, "packed", logits(Pack([][][]int32{rows})), right, 2e-4)
			var alone []float32
			for _, r := range rows {
				alone = append(alone, logits(PadRight([][]int32{r}))...)
			}
			closeTo(t, "alone", alone, right, 2e-4)
		})
	}
}

func TestBatches(t *testing.T) {
	for n, want := range map[int]int{0: 32, 1: 32, 32: 32, 33: 64, 65: 96, 97: 128, 129: 192, 1025: 1536} {
		if got := Bucket(n); got != want {
			t.Errorf("Bucket(%d) = %d, expected %d", n, got, want)
		}
	}
	b := Pack([][][]int32{{{5, 6, 7}, {}, {8, 9}}, {{1}}})
	if got := b.Positions(); !slices.Equal(got[:7], []int32{0, 1, 2, 0, 1, 0, 1}) {
		t.Errorf("packed positions %v", got[:7])
	}
	l := b.NextTokens(nil)
	if !slices.Equal(l.At, []int32{0, 1, 3}) || !slices.Equal(l.Token, []int32{6, 7, 9}) {
		t.Errorf("labels of packed documents: %v %v: the first token of a document is never one", l.At, l.Token)
	}
	left := PadLeft([][]int32{{5, 6}, {7, 8, 9}})
	l = left.NextTokens(nil)
	if !slices.Equal(l.At, []int32{30, 61, 62}) || !slices.Equal(l.Token, []int32{6, 8, 9}) {
		t.Errorf("labels of left-padded rows: %v %v", l.At, l.Token)
	}
	mask := make([]bool, len(left.Tokens))
	mask[63] = true
	if l := left.NextTokens(mask); !slices.Equal(l.At, []int32{62}) {
		t.Errorf("labels under a mask: %v", l.At)
	}
}

func TestRefusals(t *testing.T) {
	m := loadTiny(t, true, Options{})
	p := bindNew(t, m, adapter.Config{})
	good := PadRight(randomRows(1, 50, 5, 7))
	labels := good.NextTokens(nil)
	ps := forward(t, m, good, p, Train{Backward: true})
	kept := zeros(t, p)

	check := func(name string, err, kind error, part string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), part) || kind != nil && !errors.Is(err, kind) {
			t.Errorf("%s: error %v, expected %q", name, err, part)
		}
	}
	fails := func(b Batch) error {
		ps, err := m.Forward(b, p, Train{})
		if err == nil {
			ps.Free()
		}
		return err
	}
	bad := PadRight([][]int32{{1, 2}, {3, 50}})
	check("token", fails(bad), nil, "row 1 column 1: token id 50")
	bad = Pack([][][]int32{{{1, 2}, {3}}})
	bad.Segments[2], bad.Segments[1] = 0, 1
	check("segments", fails(bad), nil, "segment")
	bad = good
	bad.Rows = 3
	check("size", fails(bad), nil, "3 rows")
	long := PadRight([][]int32{make([]int32, m.Config.MaxPositions+1)})
	check("length", fails(long), nil, "position 8192")

	score := func(l Labels) error { _, err := ps.Score(l); return err }
	check("no labels", score(Labels{}), ErrLabels, "no labelled token")
	check("position", score(Labels{At: []int32{64}, Token: []int32{1}}), ErrLabels, "position 64")
	check("label token", score(Labels{At: []int32{0}, Token: []int32{50}}), ErrLabels, "token 50")
	check("temperature", score(Labels{At: []int32{0}, Token: []int32{1}, Temperature: -1}), ErrLabels, "temperature")
	back := func(l Labels, c Coefficients) error { _, err := ps.Backward(l, c, kept); return err }
	check("coefficients", back(labels, Coefficients{LogProb: []float32{1}}), ErrLabels, "1 coefficients")
	check("KL", back(labels, Coefficients{KL: make([]float32, len(labels.At))}), ErrLabels, "without a reference")
	twice := Labels{At: []int32{0, 0}, Token: []int32{1, 2}}
	check("twice", back(twice, Coefficients{}), ErrLabels, "two labels at position 0")
	_, err := forward(t, m, good, p, Train{}).Backward(labels, Coefficients{}, kept)
	check("not kept", err, nil, "Train.Backward")
	_, err = forward(t, m, good, nil, Train{Backward: true}).Backward(labels, Coefficients{}, kept)
	check("nothing trainable", err, nil, "without trainable")
	other := loadTiny(t, false, Options{})
	_, err = other.Forward(good, p, Train{})
	check("other model", err, nil, "another model")
	_, err = other.Merged(p)
	check("merge other", err, nil, "another model")
	_, err = p.FromHost([][]float32{{1}})
	check("host vectors", err, nil, "1 vectors")
	_, err = Load(backendtest.Open(t), m.Config, RandomWeights{Config: m.Config}, Options{Precision: "half"})
	check("precision", err, nil, `precision "half"`)
	_, err = Load(backendtest.Open(t), m.Config, RandomWeights{Config: m.Config}, Options{Devices: 99})
	check("devices", err, nil, "99 devices")
	empty, err := adapter.New(&m.Config, adapter.Config{R: 1, Alpha: 1, Targets: []string{"q_proj"}}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	empty.Modules, empty.A, empty.B = nil, nil, nil
	_, err = m.Bind(empty)
	check("no modules", err, adapter.ErrBinding, "nothing would be trained")
}

// TestTrainingL1: after a few steps every A and B has moved and the base has not, in every mode, and all give the same.
func TestTrainingL1(t *testing.T) {
	results := make(map[string][]float32)
	for name, opts := range modes {
		m := loadTiny(t, true, opts)
		a, err := adapter.New(&m.Config, adapter.Config{R: 3, Alpha: 6, Targets: []string{adapter.AllLinear}}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Bind(a)
		if err != nil {
			t.Fatal(err)
		}
		base := weightsOf(t, m)
		b := PadRight(randomRows(1, 50, 19, 31))
		labels := b.NextTokens(nil)
		state, err := p.NewMoments()
		if err != nil {
			t.Fatal(err)
		}
		var losses []float64
		for range 4 {
			sums := zeros(t, p)
			ps := forward(t, m, b, p, Train{Backward: true})
			s := backward(t, ps, labels, meanNLL(labels, len(labels.At)), sums)
			losses = append(losses, mean(s.LogProb))
			if err := p.Update(state, sums, AdamW{LR: 0.02, Beta1: .9, Beta2: .99, Eps: 1e-8}, 1); err != nil {
				t.Fatal(err)
			}
		}
		if !(losses[3] < losses[0]-0.1) {
			t.Errorf("%s: losses %v do not fall", name, losses)
		}
		after, err := p.Adapter()
		if err != nil {
			t.Fatal(err)
		}
		for i, mod := range after.Modules {
			if slices.Equal(after.A[i], a.A[i]) || slices.Equal(after.B[i], a.B[i]) {
				t.Errorf("%s: %s did not move", name, mod.Name())
			}
		}
		if after.Hash() == a.Hash() {
			t.Error("the hash did not change")
		}
		if !slices.Equal(base, weightsOf(t, m)) {
			t.Errorf("%s: the frozen base moved", name)
		}
		results[name] = hostOf(t, &p.Vectors)
	}
	for name, x := range results {
		if r := relative(x, results["recompute"]); !(r < 1e-3) { // four steps of Adam amplify rounding
			t.Errorf("%s differs by %.2g", name, r)
		}
	}
}

// weightsOf copies all frozen weights.
func weightsOf(t testing.TB, m *Model) (out []float32) {
	t.Helper()
	for _, v := range m.owned {
		x, err := fetch[float32](shared, v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x...)
	}
	return out
}

// TestDropout: off without a seed; the same seed gives the same masks in forward, in the recomputing backward and in
// one graph; another seed gives others; and the gradient is that of the masked function.
func TestDropout(t *testing.T) {
	m := loadTiny(t, true, Options{})
	c := adapter.Config{Dropout: 0.4}
	p, plain := bindNew(t, m, c), bindNew(t, m, adapter.Config{})
	b := PadRight(randomRows(1, 50, 20, 31))
	labels := b.NextTokens(nil)
	run := func(m *Model, p *Params, seed uint64) (float64, []float32) {
		sums := zeros(t, p)
		ps := forward(t, m, b, p, Train{Backward: true, Seed: seed})
		s := backward(t, ps, labels, meanNLL(labels, len(labels.At)), sums)
		return mean(s.LogProb), hostOf(t, sums)
	}
	off, _ := run(m, p, 0)
	if want, _ := run(m, plain, 9); off != want {
		t.Errorf("without a seed the loss is %v, without dropout %v", off, want)
	}
	one, grad := run(m, p, 1)
	again, gradAgain := run(m, p, 1)
	other, _ := run(m, p, 2)
	if one != again || !slices.Equal(grad, gradAgain) {
		t.Error("one seed gives two results")
	}
	if one == other || one == off {
		t.Errorf("dropout has no effect: %v, %v, %v", off, one, other)
	}
	slope(t, p, grad, func() float64 { loss, _ := run(m, p, 1); return loss })
	if !compilesFast(t) {
		return
	}
	for name, opts := range modes {
		other := loadTiny(t, true, opts)
		loss, g := run(other, bindNew(t, other, c), 1)
		if math.Abs(loss-one) > 1e-5 || relative(g, grad) > 1e-4 {
			t.Errorf("%s: loss %v, expected %v; gradients differ by %.2g", name, loss, one, relative(g, grad))
		}
	}
}

// TestScoresL9: scoring is without dropout whatever the adapter's, repeats bit by bit, and is what the backward pass
// reports: the first ratio of GRPO is 1.
func TestScoresL9(t *testing.T) {
	m := loadTiny(t, true, Options{})
	p := bindNew(t, m, adapter.Config{Dropout: 0.4})
	b := PadRight(randomRows(1, 50, 20, 31))
	labels := b.NextTokens(nil)
	score := func() *Scores {
		s, err := forward(t, m, b, p, Train{}).Score(labels)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	old := score()
	if again := score(); !slices.Equal(old.LogProb, again.LogProb) || !slices.Equal(old.Entropy, again.Entropy) {
		t.Error("scoring twice gives two results")
	}
	now := backward(t, forward(t, m, b, p, Train{Backward: true}), labels, meanNLL(labels, 1), zeros(t, p))
	for i := range now.LogProb {
		if r := math.Exp(float64(now.LogProb[i] - old.LogProb[i])); math.Abs(r-1) > 2e-6 {
			t.Errorf("ratio %v at label %d", r, i)
		}
	}
}

// slope moves the parameters along the gradient, both ways, and compares the change of the loss with its length.
func slope(t *testing.T, p *Params, grad []float32, loss func() float64) {
	t.Helper()
	host, err := p.Host()
	if err != nil {
		t.Fatal(err)
	}
	var square float64
	for _, g := range grad {
		square += float64(g) * float64(g)
	}
	step := 5e-5 / math.Sqrt(square) // small: the loss bends, and float32 still shows the change
	at := func(sign float64) float64 {
		moved := make([][]float32, len(host))
		i := 0
		for v := range host {
			moved[v] = slices.Clone(host[v])
			for j := range moved[v] {
				moved[v][j] += float32(sign * step * float64(grad[i]))
				i++
			}
		}
		v, err := p.FromHost(moved)
		if err != nil {
			t.Fatal(err)
		}
		p.Vectors.Free()
		p.Vectors = *v
		return loss()
	}
	up, down := at(1), at(-1)
	at(0)
	if got, want := (up-down)/(2*step), square; !(math.Abs(got/want-1) < 0.01) {
		t.Errorf("along the gradient the loss changes by %v, the gradient says %v", got, want)
	}
}

// TestBFloat16 compares the gradients of a bfloat16 base with those of float32.
func TestBFloat16(t *testing.T) {
	c := dense(2, 64, 4, 2, 128, 50)
	load := func(precision Precision) *Model {
		m, err := Load(backendtest.Open(t), c, RandomWeights{Config: c, Seed: 7, Std: 0.1}, Options{Precision: precision})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	wide, narrow := load(Float32), load(BFloat16)
	b := PadRight(randomRows(4, 50, 24, 17))
	labels := b.NextTokens(nil)
	run := func(m *Model) (float64, []float32) {
		p := bindNew(t, m, adapter.Config{})
		sums := zeros(t, p)
		s := backward(t, forward(t, m, b, p, Train{Backward: true}), labels, meanNLL(labels, len(labels.At)), sums)
		merged, err := m.Merged(p)
		if err != nil {
			t.Fatal(err)
		}
		defer merged.Close()
		after, err := forward(t, merged, b, nil, Train{}).Score(labels)
		if err != nil {
			t.Fatal(err)
		}
		if d := math.Abs(mean(after.LogProb) - mean(s.LogProb)); d > 0.02 {
			t.Errorf("%s: merging moves the loss by %v", m.Options.Precision, d)
		}
		return mean(s.LogProb), hostOf(t, sums)
	}
	loss, grad := run(wide)
	lossNarrow, gradNarrow := run(narrow)
	if d := math.Abs(lossNarrow - loss); d == 0 || d > 0.02 {
		t.Errorf("bfloat16 moves the loss by %v", d)
	}
	if r := relative(gradNarrow, grad); !(r > 0 && r < 3e-2) {
		t.Errorf("bfloat16 moves the gradient by %.3g", r)
	}
}

func TestNames(t *testing.T) {
	m := loadTiny(t, true, Options{})
	p := bindNew(t, m, adapter.Config{})
	if got := p.Name(0, 0); got != "layers.0.linear_attn.in_proj_qkv lora_A" {
		t.Errorf("Name(0, 0) = %q", got)
	}
	if got := p.Name(1, p.sizes()[1]-1); got != "layers.1.mlp.down_proj lora_B" {
		t.Errorf("last name of layer 1 = %q", got)
	}
	full, err := m.Full(RandomWeights{Config: m.Config})
	if err != nil {
		t.Fatal(err)
	}
	defer full.Free()
	if got := full.Name(2, 0); got != "embed_tokens.weight" {
		t.Errorf("Name(2, 0) = %q", got)
	}
}
