package adapter_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/wheel"
)

func TestMain(m *testing.M) {
	if code, done := backend.Startup(); done {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// logits runs the golden batch (24 columns, right-padded) through a model folder and returns the real rows.
func logits(t testing.TB, base *checkpoint.Model, a *adapter.Adapter, ids, mask []float32) []float32 {
	t.Helper()
	m, err := decoder.Load(backendtest.Open(t), base.Config, base, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var p *decoder.Params
	if a != nil {
		if p, err = m.Bind(a); err != nil {
			t.Fatal(err)
		}
		defer p.Free()
	}
	const length = 24
	var rows [][]int32
	var at []int32
	for r := range len(ids) / length {
		var row []int32
		for c := range length {
			if mask[r*length+c] == 1 {
				row = append(row, int32(ids[r*length+c]))
			}
		}
		rows = append(rows, row)
	}
	b := decoder.PadRight(rows)
	for r, row := range rows {
		for c := range row {
			at = append(at, int32(r*b.Len+c))
		}
	}
	pass, err := m.Forward(b, p, decoder.Train{})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Free()
	out, err := pass.Logits(at)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func farthest(a, b []float32) (worst float64) {
	for i := range b {
		worst = max(worst, math.Abs(float64(a[i])-float64(b[i])))
	}
	return worst
}

// TestMergeL5: the merged folder, opened again, computes what base and adapter compute, which is what PEFT's merge
// computes, and its weights are not the base's. Scales of rank-stabilised adapters (L4) and DoRA included.
func TestMergeL5(t *testing.T) {
	each(t, func(t *testing.T, base *checkpoint.Model, dir string) {
		a := load(t, dir, &base.Config)
		out := filepath.Join(t.TempDir(), "merged")
		report, err := adapter.Merge(out, base, a, map[string]string{"base": "x"})
		if err != nil {
			t.Fatal(err)
		}
		if report.Modules != len(a.Modules) || report.Vanished > 1e-3 || report.Rounding > 1e-7 || len(report.Notes) != 0 {
			t.Errorf("report %+v", report)
		}
		merged := open(t, out)
		if merged.Config.Tied != base.Config.Tied || merged.Prefix != base.Prefix || merged.Config.Architecture != base.Config.Architecture {
			t.Errorf("merged into %s, tied %t, prefix %q", merged.Config.Architecture, merged.Config.Tied, merged.Prefix)
		}
		if fmt.Sprint(merged.Skipped) != fmt.Sprint(base.Skipped) {
			t.Errorf("tensors beside the text model: %v, the base has %v", merged.Skipped, base.Skipped)
		}
		if _, err := os.Stat(filepath.Join(out, "terraloom.json")); err != nil {
			t.Error(err)
		}
		g, err := checkpoint.OpenSafetensors(filepath.Join(dir, "golden.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		read := func(name string) []float32 {
			x, err := g.Float32(name)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		ids, mask := read("input_ids"), read("attention_mask")
		var want []float32
		V := base.Config.VocabSize
		for i, row := range slices.Collect(slices.Chunk(read("merged_logits"), V)) {
			if mask[i] == 1 {
				want = append(want, row...)
			}
		}
		got := logits(t, merged, nil, ids, mask)
		if d := farthest(got, want); !(d <= 4e-4) {
			t.Errorf("merged logits are off by %.3g", d)
		}
		if d := farthest(got, logits(t, base, a, ids, mask)); !(d <= 4e-4) {
			t.Errorf("merged and adapted logits differ by %.3g", d)
		}
		if d := farthest(got, logits(t, base, nil, ids, mask)); d < 1 {
			t.Errorf("merging moved the logits by %.3g only", d)
		}
	})
}

// TestMergeHalf merges into a bfloat16 base: its dtypes stay, and what rounding does is reported.
func TestMergeHalf(t *testing.T) {
	base := open(t, golden(t, "qwen35-text-bf16"))
	a := load(t, golden(t, "qwen35-text", "peft", "lora"), &base.Config)
	for i := range a.B { // so small an update that bfloat16 swallows most of it
		for j := range a.B[i] {
			a.B[i][j] *= 1e-3
		}
	}
	out := filepath.Join(t.TempDir(), "merged")
	report, err := adapter.Merge(out, base, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !(report.Vanished > 0.3 && report.Vanished < 1) || !(report.Rounding > 1e-4 && report.Rounding < 1.0/256) {
		t.Errorf("report %+v", report)
	}
	merged := open(t, out)
	for _, name := range base.Names() {
		x, err := base.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		y, err := merged.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if x.DType != y.DType {
			t.Errorf("%s is %s, the base has %s", name, y.DType, x.DType)
		}
	}
}

// TestMergeHeadL6: a base whose file holds a head of its own although the configuration says tied keeps that head, and
// the merged configuration says so.
func TestMergeHeadL6(t *testing.T) {
	tied := open(t, golden(t, "llama"))
	config, err := os.ReadFile(golden(t, "llama", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	f := checkpoint.Folder{Config: config}
	for _, name := range tied.Names() {
		x, err := tied.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Tensors = append(f.Tensors, checkpoint.FromTensor(tied.FileName(name), x))
		if name == "embed_tokens.weight" {
			values, err := x.Float32()
			if err != nil {
				t.Fatal(err)
			}
			slices.Reverse(values)
			f.Tensors = append(f.Tensors, checkpoint.FromFloat32("lm_head.weight", checkpoint.F32, x.Shape, values))
		}
	}
	dir := filepath.Join(t.TempDir(), "base")
	if err := checkpoint.WriteFolder(dir, f); err != nil {
		t.Fatal(err)
	}
	base := open(t, dir)
	if base.Config.Tied {
		t.Fatal("the file's own head did not win")
	}
	out := filepath.Join(t.TempDir(), "merged")
	a := load(t, golden(t, "llama", "peft", "lora"), &base.Config)
	report, err := adapter.Merge(out, base, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Notes) == 0 {
		t.Error("no note about the head")
	}
	raw, err := os.ReadFile(filepath.Join(out, "config.json"))
	if err != nil || !strings.Contains(string(raw), `"tie_word_embeddings": false`) {
		t.Errorf("merged config.json does not untie the head: %v", err)
	}
	merged := open(t, out)
	x, err := base.Float32("lm_head.weight")
	if err != nil {
		t.Fatal(err)
	}
	y, err := merged.Float32("lm_head.weight")
	if err != nil {
		t.Fatal(err)
	}
	if merged.Config.Tied || !slices.Equal(x, y) {
		t.Error("the head changed")
	}
}

func TestMergeRefusals(t *testing.T) {
	base := open(t, golden(t, "llama"))
	a := load(t, golden(t, "llama", "peft", "lora"), &base.Config)
	_, err := adapter.Merge(t.TempDir(), base, a, nil)
	wantError(t, err, checkpoint.ErrExists)
	other := open(t, golden(t, "qwen35-text"))
	_, err = adapter.Merge(filepath.Join(t.TempDir(), "m"), other, a, nil)
	wantError(t, err, adapter.ErrBinding, "self_attn.q_proj")
	a.Modules = nil
	_, err = adapter.Merge(filepath.Join(t.TempDir(), "m"), base, a, nil)
	wantError(t, err, adapter.ErrBinding, "no modules")
}

// TestMergeQuantisedL7 merges into a real quantised model, where one was pulled: the note says whose rounding stays.
func TestMergeQuantisedL7(t *testing.T) {
	if testing.Short() {
		t.Skip("writes half a gigabyte")
	}
	base, err := checkpoint.Open("smollm2-135m")
	if err != nil {
		t.Skipf("%v: run `terraloom model pull smollm2-135m`", err)
	}
	defer base.Close()
	if !base.Quantised() {
		t.Skip("the pulled model is not quantised")
	}
	a, err := adapter.New(&base.Config, adapter.Config{R: 2, Alpha: 2, Targets: []string{"v_proj"}}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range a.B {
		for i := range b {
			b[i] = 0.01
		}
	}
	out := filepath.Join(t.TempDir(), "merged")
	report, err := adapter.Merge(out, base, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(report.Notes, func(s string) bool { return strings.Contains(s, "quantised") }) {
		t.Errorf("notes %q", report.Notes)
	}
	merged := open(t, out)
	if merged.Quantised() || len(merged.TokenizerFiles) == 0 || merged.ChatTemplate != base.ChatTemplate {
		t.Errorf("quantised %t, tokenizer files %v", merged.Quantised(), merged.TokenizerFiles)
	}
}

// pythonCheck loads what we saved with PEFT and compares logits with the goldens.
const pythonCheck = `
import sys, json, torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from peft import PeftModel
base, adapter, golden = sys.argv[1:]
m = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager"), adapter).eval()
g = load_file(golden)
with torch.no_grad():
    y = m(input_ids=g["input_ids"], attention_mask=g["attention_mask"], use_cache=False).logits
print((y * g["attention_mask"].unsqueeze(-1) - g["logits"]).abs().max().item())
`

// TestPEFTLoads: PEFT computes the golden logits from adapters that this package has read and written again. It needs a
// Python with torch, transformers and peft.
func TestPEFTLoads(t *testing.T) {
	python, err := wheel.Python()
	if err != nil {
		t.Skip(err)
	}
	if err := exec.Command(python, "-c", "import torch, transformers, peft").Run(); err != nil {
		t.Skipf("%s lacks torch, transformers or peft (TERRALOOM_PYTHON names another Python): %v", python, err)
	}
	each(t, func(t *testing.T, base *checkpoint.Model, dir string) {
		if name := t.Name(); !strings.HasSuffix(name, "/llama/dora") && !strings.HasSuffix(name, "/qwen35-text/lora") {
			t.Skip("two are enough: starting torch takes seconds")
		}
		out := filepath.Join(t.TempDir(), "adapter")
		if err := load(t, dir, &base.Config).Save(out, adapter.SaveOptions{Prefix: adapter.PrefixOf(base)}); err != nil {
			t.Fatal(err)
		}
		said, err := exec.Command(python, "-c", pythonCheck, base.Path, out, filepath.Join(dir, "golden.safetensors")).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		lines := strings.Fields(string(said))
		var d float64
		if _, err := fmt.Sscan(lines[len(lines)-1], &d); err != nil || !(d <= 1e-4) {
			t.Errorf("PEFT computes other logits from our adapter: %s", said)
		}
	})
}
