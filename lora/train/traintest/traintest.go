// Package traintest is what the tests of trainers share: a small base, models that stay on the device, the reference models,
// and comparisons.
package traintest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/tokenizer"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
)

// ChatML is the chat template of Base.
const ChatML = `{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}`

// bases is a folder of models that the tests share.
var bases struct{ dir string }

// Main is TestMain of a trainer: it gives the process its settings and the tests a folder of models to share.
func Main(m *testing.M) {
	if code, done := backend.Startup(); done {
		os.Exit(code)
	}
	dir, err := os.MkdirTemp("", "train-test-")
	if err != nil {
		panic(err)
	}
	bases.dir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// Check ends the test at an error.
func Check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Golden is a folder of the reference models, or skips the test.
func Golden(tb testing.TB, parts ...string) string {
	tb.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(append([]string{root, "model-golden"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("reference models are not here (set TERRALOOM_SHARED): %v", err)
	}
	return path
}

// OpenModel opens a model folder until the test ends.
func OpenModel(tb testing.TB, path string) *checkpoint.Model {
	tb.Helper()
	m, err := checkpoint.Open(path)
	Check(tb, err)
	tb.Cleanup(func() { m.Close() })
	return m
}

// Base is a model folder with random weights, large enough to be moved by an adapter, whose tokenizer is trained on texts.
// All tests of the process share it. finalNorm is added to the final norm's weights: a tied head of larger scale can become
// certain, which drawing answers needs and taking the likeliest does not.
func Base(tb testing.TB, family checkpoint.Family, texts []string, finalNorm float32) string {
	tb.Helper()
	dir := filepath.Join(bases.dir, string(family))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	tok, err := tokenizer.Train(slices.Values(texts), 340, []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"})
	Check(tb, err)
	tok, err = tok.WithRoles(tokenizer.Roles{EOS: "<|im_end|>", PAD: "<|im_end|>"}) // T8: padding is the end of turn
	Check(tb, err)
	files := tb.TempDir()
	Check(tb, tok.Save(files))
	Check(tb, os.WriteFile(filepath.Join(files, "chat_template.jinja"), []byte(ChatML), 0o644))

	c := checkpoint.Config{
		Family: checkpoint.Llama, Architecture: "LlamaForCausalLM", HiddenSize: 48, IntermediateSize: 96, NumLayers: 2, NumHeads: 3, NumKVHeads: 1,
		HeadDim: 16, VocabSize: 340, MaxPositions: 256, RMSNormEps: 1e-6, Rope: checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: 1e4, Dim: 16},
		LayerTypes: []checkpoint.LayerType{checkpoint.FullAttention, checkpoint.FullAttention}, Tied: true, DType: checkpoint.F32, BOS: -1, Pad: 2, EOS: []int{2},
	}
	if family == checkpoint.Qwen35 {
		c.Family, c.Architecture = family, "Qwen3_5ForCausalLM"
		c.ZeroCentredNorm, c.QKNorm, c.OutputGate = true, true, true
		c.LayerTypes[0] = checkpoint.LinearAttention
		c.Rope.Dim = 4
		c.LinearAttn = checkpoint.LinearAttn{KeyHeads: 2, ValueHeads: 4, KeyHeadDim: 8, ValueHeadDim: 8, ConvKernel: 4}
	}
	weights := decoder.RandomWeights{Config: c, Seed: 3, Std: 0.15}
	var sources []checkpoint.Source
	for _, spec := range c.TensorSpecs() {
		t, err := weights.Tensor(spec.Name)
		Check(tb, err)
		if spec.Name == "norm.weight" && finalNorm != 0 {
			values, err := t.Float32()
			Check(tb, err)
			for i := range values {
				values[i] += finalNorm
			}
			sources = append(sources, checkpoint.FromFloat32("model."+spec.Name, checkpoint.F32, spec.Shape, values))
			continue
		}
		sources = append(sources, checkpoint.FromTensor("model."+spec.Name, t))
	}
	copies := map[string]string{}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} {
		copies[name] = filepath.Join(files, name)
	}
	Check(tb, checkpoint.WriteFolder(dir, checkpoint.Folder{Config: c.JSON(), Tensors: sources, Copy: copies}))
	return dir
}

// placed keeps one model of every base and setting on the device: compiled programs belong to models, and compiling is
// what takes time here.
var placed = map[string]*decoder.Model{}

// Place puts a base and its parameters on the test's backend.
func Place(tb testing.TB, b *setup.Base) *setup.Placed {
	tb.Helper()
	key := fmt.Sprintf("%s %+v", b.Model.Path, b.Config.Device)
	on := &setup.Placed{Backend: backendtest.Open(tb), Model: placed[key]}
	var err error
	switch {
	case on.Model == nil:
		on, err = b.Load(on.Backend)
		Check(tb, err)
		placed[key] = on.Model
	case b.Start == nil:
		on.Params, err = on.Model.Full(b.Model)
	default:
		on.Params, err = on.Model.Bind(b.Start)
	}
	Check(tb, err)
	tb.Cleanup(on.Params.Free)
	return on
}

// Records are the metrics of one kind that a run folder holds.
func Records(tb testing.TB, dir, kind string) []run.Record {
	tb.Helper()
	all, err := run.Records(dir)
	Check(tb, err)
	return slices.DeleteFunc(all, func(r run.Record) bool { return r.Kind != kind })
}

// Value is a number of a record; the test ends where it has none of that name.
func Value(tb testing.TB, r run.Record, name string) float64 {
	tb.Helper()
	x, ok := r.Get(name)
	if !ok {
		tb.Fatalf("step %d has no %s", r.Step, name)
	}
	return x
}

// AdapterHash is the hash of an adapter folder for a base.
func AdapterHash(tb testing.TB, base, path string) string {
	tb.Helper()
	a, err := adapter.Load(path, &OpenModel(tb, base).Config)
	Check(tb, err)
	return a.Hash()
}
