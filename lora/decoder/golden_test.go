package decoder

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	. "github.com/gomlx/gomlx/core/graph"

	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
)

func TestMain(m *testing.M) {
	if code, done := backend.Startup(); done {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// goldenDir is model-golden of the shared folder: $TERRALOOM_SHARED, or ../shared beside the repository.
func goldenDir(t testing.TB) string {
	t.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		_, file, _, _ := runtime.Caller(0)
		root = filepath.Join(filepath.Dir(file), "..", "..", "..", "shared")
	}
	dir := filepath.Join(root, "model-golden")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no golden files at %s: set TERRALOOM_SHARED", dir)
	}
	return dir
}

// golden is a pair of NAME.safetensors and NAME.json.
type golden struct {
	file *checkpoint.Safetensors
	info struct {
		Scalars map[string]struct{ Value, Atol float64 }
		Tensors map[string]struct {
			Atol                            float64
			MaxAbsDifferenceFromBatchLogits float64 `json:"max_abs_difference_from_batch_logits"`
			RMSDifferenceFromBatchLogits    float64 `json:"rms_difference_from_batch_logits"`
		}
		Grads json.RawMessage
	}
}

func openGolden(t testing.TB, path string) *golden {
	t.Helper()
	g := &golden{}
	var err error
	if g.file, err = checkpoint.OpenSafetensors(path + ".safetensors"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.file.Close() })
	raw, err := os.ReadFile(path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &g.info); err != nil {
		t.Fatal(err)
	}
	return g
}

func floats(t testing.TB, f *checkpoint.Safetensors, name string) []float32 {
	t.Helper()
	x, err := f.Float32(name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// ints reads a tensor of small integers.
func ints(t testing.TB, f *checkpoint.Safetensors, name string) []int32 {
	t.Helper()
	x := floats(t, f, name)
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

// models are shared by the tests of the process, with their compiled programs.
var models = map[string]*Model{}

func loadModel(t testing.TB, dir string, opts Options) *Model {
	t.Helper()
	key := fmt.Sprintf("%s %+v", dir, opts)
	if m, ok := models[key]; ok {
		return m
	}
	base, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	m, err := Load(backendtest.Open(t), base.Config, base, opts)
	if err != nil {
		t.Fatal(err)
	}
	models[key] = m
	return m
}

func forward(t testing.TB, m *Model, b Batch, p *Params, tr Train) *Pass {
	t.Helper()
	ps, err := m.Forward(b, p, tr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ps.Free)
	return ps
}

// closeTo checks max |got − want| ≤ atol.
func closeTo(t testing.TB, what string, got, want []float32, atol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, expected %d", what, len(got), len(want))
	}
	if atol <= 0 {
		t.Fatalf("%s: no tolerance", what)
	}
	worst, at := 0.0, 0
	for i := range got {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= worst) {
			worst, at = d, i
		}
	}
	if !(worst <= atol) {
		t.Errorf("%s: off by %.3g at %d (%v, expected %v), allowed %.3g", what, worst, at, got[at], want[at], atol)
	} else if testing.Verbose() {
		t.Logf("%s: off by %.3g of %.3g", what, worst, atol)
	}
}

// rows cuts a [n, length] rectangle into rows of real tokens.
func rowsOf(ids, mask []int32, length int) [][]int32 {
	var rows [][]int32
	for r := range slices.Chunk(ids, length) {
		rows = append(rows, r)
	}
	for r := range rows {
		n := 0
		for _, m := range mask[r*length : (r+1)*length] {
			n += int(m)
		}
		rows[r] = rows[r][:n]
	}
	return rows
}

// families are the golden models that have forward goldens.
func families(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(goldenDir(t), "*", "golden.safetensors"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no golden models: %v", err)
	}
	var names []string
	for _, f := range found {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}

func TestForwardGoldens(t *testing.T) {
	for _, name := range families(t) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(goldenDir(t), name)
			m := loadModel(t, dir, Options{})
			g := openGolden(t, filepath.Join(dir, "golden"))
			t.Run("batch", func(t *testing.T) { forwardBatch(t, m, g) })
			t.Run("long and greedy", func(t *testing.T) { forwardLong(t, m, g) })
			t.Run("states", func(t *testing.T) { forwardStates(t, m, g) })
		})
	}
}

const goldenLen = 24 // columns of the golden batches

func goldenBatch(t testing.TB, f *checkpoint.Safetensors) (b Batch, labels Labels) {
	t.Helper()
	rows := rowsOf(ints(t, f, "input_ids"), ints(t, f, "attention_mask"), goldenLen)
	b = PadRight(rows)
	return b, goldenLabels(b, ints(t, f, "labels"), goldenLen)
}

// goldenLabels turns labels in the manner of transformers (−100: none) into ours.
func goldenLabels(b Batch, labels []int32, length int) Labels {
	mask := make([]bool, len(b.Tokens))
	for i, l := range labels {
		if i%length < b.Len {
			mask[i/length*b.Len+i%length] = l != -100
		}
	}
	return b.NextTokens(mask)
}

// allPositions are the positions of the real tokens, row by row.
func allPositions(b Batch) []int32 {
	var at []int32
	for r, n := range b.Lengths {
		from := 0
		if b.padLeft {
			from = b.Len - n
		}
		for c := from; c < from+n; c++ {
			at = append(at, int32(r*b.Len+c))
		}
	}
	return at
}

// real keeps the real rows of a golden [rows, length, width].
func real(full []float32, b Batch, length, width int) []float32 {
	var out []float32
	for r, n := range b.Lengths {
		out = append(out, full[r*length*width:(r*length+n)*width]...)
	}
	return out
}

func mean(scores []float32) float64 {
	var sum float64
	for _, s := range scores {
		sum -= float64(s)
	}
	return sum / float64(len(scores))
}

func forwardBatch(t *testing.T, m *Model, g *golden) {
	rows := rowsOf(ints(t, g.file, "batch/input_ids"), ints(t, g.file, "batch/attention_mask"), goldenLen)
	b := PadRight(rows)
	ps := forward(t, m, b, nil, Train{Backward: true})
	H, V := m.Config.HiddenSize, m.Config.VocabSize

	for i := range m.Config.NumLayers + 1 {
		key := "batch/hidden/embed"
		if i > 0 {
			key = fmt.Sprintf("batch/hidden/layer%d", i-1)
		}
		all, err := ps.Hidden(i)
		if err != nil {
			t.Fatal(err)
		}
		closeTo(t, key, real(all, b, b.Len, H), real(floats(t, g.file, key), b, goldenLen, H), g.info.Tensors[key].Atol)
	}
	at := allPositions(b)
	logits, err := ps.Logits(at)
	if err != nil {
		t.Fatal(err)
	}
	want := real(floats(t, g.file, "batch/logits"), b, goldenLen, V)
	closeTo(t, "batch/logits", logits, want, g.info.Tensors["batch/logits"].Atol)

	labels := goldenLabels(b, ints(t, g.file, "batch/labels"), goldenLen)
	scores, err := ps.Score(labels)
	if err != nil {
		t.Fatal(err)
	}
	if n := g.info.Scalars["batch_label_tokens"].Value; float64(len(scores.LogProb)) != n {
		t.Errorf("%d label tokens, expected %v", len(scores.LogProb), n)
	}
	loss := g.info.Scalars["batch_loss"]
	if d := math.Abs(mean(scores.LogProb) - loss.Value); !(d <= loss.Atol) {
		t.Errorf("loss %v, expected %v", mean(scores.LogProb), loss.Value)
	}
	for i, at := range labels.At { // top-1 agrees with the golden logits
		r, c := int(at)/b.Len, int(at)%b.Len
		row := floats(t, g.file, "batch/logits")[(r*goldenLen+c)*V:][:V]
		if top := slices.Max(row) == row[labels.Token[i]]; top != scores.Top[i] {
			t.Errorf("label %d: top %t, expected %t", i, scores.Top[i], top)
		}
	}

	for _, temperature := range []string{"1.0", "0.7"} {
		var l Labels
		for c := range len(rows[0]) - 1 {
			l.At, l.Token = append(l.At, int32(c)), append(l.Token, rows[0][c+1])
		}
		if temperature == "0.7" {
			l.Temperature = 0.7
		}
		s, err := ps.Score(l)
		if err != nil {
			t.Fatal(err)
		}
		for key, got := range map[string][]float32{"row0/logprobs_t": s.LogProb, "row0/entropy_t": s.Entropy} {
			closeTo(t, key+temperature, got, floats(t, g.file, key+temperature), g.info.Tensors[key+temperature].Atol)
		}
	}
	if _, ok := g.info.Tensors["native_bf16/logits"]; ok {
		nativeBF16(t, g, b)
	}
}

// nativeBF16 runs the model in bfloat16 and asks for an error of the size that transformers has.
func nativeBF16(t *testing.T, g *golden, b Batch) {
	m := loadModel(t, filepath.Join(goldenDir(t), "qwen35-text-bf16"), Options{Precision: BFloat16})
	ps := forward(t, m, b, nil, Train{})
	logits, err := ps.Logits(allPositions(b))
	if err != nil {
		t.Fatal(err)
	}
	want := real(floats(t, g.file, "batch/logits"), b, goldenLen, m.Config.VocabSize)
	var square, worst float64
	for i := range want {
		d := float64(logits[i] - want[i])
		square += d * d
		worst = max(worst, math.Abs(d))
	}
	rms := math.Sqrt(square / float64(len(want)))
	guide := g.info.Tensors["native_bf16/logits"]
	if !(rms > 0 && rms <= 1.5*guide.RMSDifferenceFromBatchLogits && worst <= 2*guide.MaxAbsDifferenceFromBatchLogits) {
		t.Errorf("bfloat16 moves logits by %.3g rms, %.3g at most; transformers: %.3g, %.3g", rms, worst,
			guide.RMSDifferenceFromBatchLogits, guide.MaxAbsDifferenceFromBatchLogits)
	}
	t.Logf("bfloat16: rms %.3g (transformers %.3g), max %.3g (%.3g)", rms, guide.RMSDifferenceFromBatchLogits, worst, guide.MaxAbsDifferenceFromBatchLogits)
}

// forwardLong runs the long row and the golden greedy continuations as rows of one batch. Each next token must be the
// golden one: no margin is below 0.02.
func forwardLong(t *testing.T, m *Model, g *golden) {
	long := ints(t, g.file, "long/input_ids")
	rows := [][]int32{long}
	var prompts []int
	var tokens [][]int32
	for j := 0; slices.Contains(g.file.Names(), fmt.Sprintf("greedy%d/prompt", j)); j++ {
		key := fmt.Sprintf("greedy%d/", j)
		prompt, next := ints(t, g.file, key+"prompt"), ints(t, g.file, key+"tokens")
		rows = append(rows, append(slices.Clone(prompt), next[:len(next)-1]...))
		prompts, tokens = append(prompts, len(prompt)), append(tokens, next)
	}
	if len(tokens) == 0 {
		t.Fatal("no greedy goldens")
	}
	b := PadRight(rows)
	ps := forward(t, m, b, nil, Train{})
	V := m.Config.VocabSize
	logits := func(row, from, to int) []float32 {
		var at []int32
		for c := from; c < to; c++ {
			at = append(at, int32(row*b.Len+c))
		}
		out, err := ps.Logits(at)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	closeTo(t, "long/logits_last8", logits(0, len(long)-8, len(long)), floats(t, g.file, "long/logits_last8"),
		g.info.Tensors["long/logits_last8"].Atol)
	labels := b.NextTokens(nil)
	labels.At, labels.Token = labels.At[:len(long)-1], labels.Token[:len(long)-1]
	scores, err := ps.Score(labels)
	if err != nil {
		t.Fatal(err)
	}
	loss := g.info.Scalars["long_loss"]
	if d := math.Abs(mean(scores.LogProb) - loss.Value); !(d <= loss.Atol) {
		t.Errorf("long loss %v, expected %v", mean(scores.LogProb), loss.Value)
	}
	for j, want := range tokens {
		out := logits(1+j, prompts[j]-1, prompts[j]-1+len(want))
		var top []float32
		for i := range want {
			row := out[i*V : (i+1)*V]
			best := slices.Max(row)
			top = append(top, best)
			if got := int32(slices.Index(row, best)); got != want[i] {
				t.Errorf("greedy%d token %d: %d, expected %d", j, i, got, want[i])
			}
		}
		key := fmt.Sprintf("greedy%d/top1_logit", j)
		closeTo(t, key, top, floats(t, g.file, key), g.info.Tensors[key].Atol)
	}
}

// forwardStates runs each linear-attention layer on its own, on the residual stream before it, and compares what it
// would carry on to the next token.
func forwardStates(t *testing.T, m *Model, g *golden) {
	long := ints(t, g.file, "long/input_ids")
	b := PadLeft([][]int32{long}) // the last column is the last token
	var ps *Pass
	for i, kind := range m.Config.LayerTypes {
		if kind != checkpoint.LinearAttention {
			continue
		}
		if ps == nil {
			ps = forward(t, m, b, nil, Train{Backward: true})
		}
		x, err := ps.Hidden(i)
		if err != nil {
			t.Fatal(err)
		}
		_, weights := m.LayerWeights(i)
		exec, err := NewExec(m.devices.engine, func(in []*Node) []*Node {
			l := m.NewLayer(i, in[2:])
			_, state := l.DeltaNet(l.InputNorm(flat2(in[0])), Sequence{Rows: 1, Len: b.Len, Segments: in[1]})
			return []*Node{state.S, TransposeAllAxes(state.Conv, 0, 2, 1)}
		})
		if err != nil {
			t.Fatal(err)
		}
		in := append([]*tensors.Tensor{tensor([]int{1, b.Len, m.Config.HiddenSize}, x...),
			tensors.FromFlatDataAndDimensions(b.Segments, 1, b.Len)}, weights...)
		out, err := exec.Call(in)
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("long/recurrent_state/layer%d", i)
		closeTo(t, key, tensors.MustCopyFlatData[float32](out[0]), floats(t, g.file, key), g.info.Tensors[key].Atol)
		// transformers keeps one column more than decoding needs, the oldest.
		key = fmt.Sprintf("long/conv_state/layer%d", i)
		width := m.Config.LinearAttn.ConvKernel
		var want []float32
		for channel := range slices.Chunk(floats(t, g.file, key), width) {
			want = append(want, channel[1:]...)
		}
		closeTo(t, key, tensors.MustCopyFlatData[float32](out[1]), want, g.info.Tensors[key].Atol)
		exec.Finalize()
	}
	if ps == nil && m.Config.CountLayers(checkpoint.LinearAttention) > 0 {
		t.Fatal("nothing compared")
	}
}
