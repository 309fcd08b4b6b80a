package adapter_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
)

// golden is a path below model-golden of the shared folder ($TERRALOOM_SHARED, or ../shared beside the repository).
func golden(t testing.TB, path ...string) string {
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
	return filepath.Join(append([]string{dir}, path...)...)
}

func open(t testing.TB, path string) *checkpoint.Model {
	t.Helper()
	m, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func load(t testing.TB, dir string, base *checkpoint.Config) *adapter.Adapter {
	t.Helper()
	a, err := adapter.Load(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wantError checks kind and text.
func wantError(t testing.TB, err, kind error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, expected %v with %q", kind, parts)
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("error %q is not %v", err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

// hybrid is the configuration of a small Qwen3.5: three linear-attention layers and one full.
func hybrid() *checkpoint.Config {
	c := &checkpoint.Config{Family: checkpoint.Qwen35, Architecture: "Qwen3_5ForCausalLM", HiddenSize: 8, IntermediateSize: 12, NumLayers: 4,
		NumHeads: 2, NumKVHeads: 1, HeadDim: 4, VocabSize: 10, QKNorm: true, OutputGate: true,
		LayerTypes: []checkpoint.LayerType{checkpoint.LinearAttention, checkpoint.LinearAttention, checkpoint.LinearAttention, checkpoint.FullAttention},
		LinearAttn: checkpoint.LinearAttn{KeyHeads: 1, ValueHeads: 2, KeyHeadDim: 4, ValueHeadDim: 4, ConvKernel: 4}}
	return c
}

func TestConfig(t *testing.T) {
	good := adapter.Config{R: 4, Alpha: 8, Targets: []string{"q_proj"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	err := adapter.Config{R: 0, Alpha: -1, Dropout: 1, Targets: nil}.Validate()
	wantError(t, err, adapter.ErrConfig, "r is 0", "alpha is -1", "dropout is 1", "no targets")
	wantError(t, adapter.Config{R: 1, Alpha: math.Inf(1), Targets: []string{adapter.AllLinear, "q_proj"}}.Validate(), adapter.ErrConfig, "alpha", "stands alone")
	if s := good.Scale(); s != 2 {
		t.Errorf("scale %v, expected 2", s)
	}
	good.RSLoRA = true
	if s := good.Scale(); s != 4 {
		t.Errorf("rank-stabilised scale %v, expected 8/√4", s)
	}
}

// TestCoverageL2: linear-attention blocks are covered, or listed as skipped with counts; no match is an error.
func TestCoverageL2(t *testing.T) {
	base := hybrid()
	all, err := adapter.Config{R: 2, Alpha: 2, Targets: []string{adapter.AllLinear}}.Cover(base)
	if err != nil {
		t.Fatal(err)
	}
	if all.Modules != 3*8+7 || len(all.Skipped) != 0 || len(all.BareMixers) != 0 {
		t.Errorf("all-linear: %+v", all)
	}
	var want int64
	for _, m := range adapter.Linears(base) {
		if strings.Contains(m.Path, "conv") || strings.Contains(m.Path, "norm") || m.Leaf == "lm_head" {
			t.Errorf("%s is no target", m.Name())
		}
		want += int64(2 * (m.In + m.Out))
	}
	if all.Parameters != want {
		t.Errorf("%d parameters, expected %d", all.Parameters, want)
	}
	some, err := adapter.Config{R: 2, Alpha: 2, Targets: []string{"q_proj", "v_proj"}, DoRA: true}.Cover(base)
	if err != nil {
		t.Fatal(err)
	}
	if some.Modules != 2 || some.Skipped["in_proj_qkv"] != 3 || some.Skipped["k_proj"] != 1 || some.Skipped["up_proj"] != 4 || !slices.Equal(some.BareMixers, []int{0, 1, 2}) {
		t.Errorf("q and v: %+v", some)
	}
	_, err = adapter.Config{Targets: []string{"q_proj", "c_attn"}}.Modules(base)
	wantError(t, err, adapter.ErrConfig, `"c_attn" names no module of Qwen3_5ForCausalLM`, "in_proj_qkv", adapter.AllLinear)
	_, err = adapter.Config{Targets: []string{"lm_head"}}.Modules(base)
	wantError(t, err, adapter.ErrConfig, "lm_head", "frozen")
}

func TestServerL11(t *testing.T) {
	c := adapter.Config{R: 20, Alpha: 1}
	_, err := c.CheckVLLM(16)
	wantError(t, err, adapter.ErrServer, "rank 20", "limit 16", "--max-lora-rank 32")
	warning, err := c.CheckVLLM(256)
	if err != nil || !strings.Contains(warning, "32 is enough") {
		t.Errorf("warning %q, %v", warning, err)
	}
	if warning, err := c.CheckVLLM(32); warning != "" || err != nil {
		t.Errorf("warning %q, %v", warning, err)
	}
	c.R = 600
	_, err = c.CheckVLLM(512)
	wantError(t, err, adapter.ErrServer, "largest, 512")
	_, err = adapter.Config{R: 8, DoRA: true}.CheckVLLM(16)
	wantError(t, err, adapter.ErrServer, "DoRA", "merge")
}

// ones gives every base tensor the value 1.
type ones struct{ c *checkpoint.Config }

func (o ones) Float32(name string) ([]float32, error) {
	for _, s := range o.c.TensorSpecs() {
		if s.Name == name {
			n := 1
			for _, d := range s.Shape {
				n *= d
			}
			return slices.Repeat([]float32{1}, n), nil
		}
	}
	return nil, checkpoint.ErrNoTensor
}

func TestNew(t *testing.T) {
	base := hybrid()
	c := adapter.Config{R: 3, Alpha: 6, Targets: []string{adapter.AllLinear}}
	a, err := adapter.New(base, c, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range a.Modules {
		bound := 1 / math.Sqrt(float64(m.In))
		var largest, sum float64
		for _, v := range a.A[i] {
			largest = max(largest, math.Abs(float64(v)))
			sum += float64(v)
		}
		if largest > bound || largest < bound/2 || math.Abs(sum) > bound*float64(len(a.A[i]))/2 {
			t.Errorf("%s: A within ±%v, mean %v; expected uniform in ±%v", m.Name(), largest, sum/float64(len(a.A[i])), bound)
		}
		if slices.ContainsFunc(a.B[i], func(v float32) bool { return v != 0 }) {
			t.Errorf("%s: B is not zero", m.Name())
		}
	}
	again, _ := adapter.New(base, c, 5, nil)
	other, _ := adapter.New(base, c, 6, nil)
	if a.Hash() != again.Hash() || a.Hash() == other.Hash() {
		t.Error("the seed does not decide the tensors")
	}
	c.Targets = []string{"up_proj"}
	part, err := adapter.New(base, c, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range a.Modules {
		if m.Name() == part.Modules[0].Name() && !slices.Equal(a.A[i], part.A[0]) {
			t.Error("a module's A depends on the other targets")
		}
	}
	if a.Parameters() <= part.Parameters() || part.Parameters() != 4*3*(8+12) {
		t.Errorf("%d parameters of up_proj alone", part.Parameters())
	}

	c.DoRA = true
	_, err = adapter.New(base, c, 5, nil)
	wantError(t, err, adapter.ErrConfig, "DoRA needs the base's weights")
	dora, err := adapter.New(base, c, 5, ones{base})
	if err != nil {
		t.Fatal(err)
	}
	if want := float32(math.Sqrt(8)); dora.Magnitude[0][0] != want || len(dora.Magnitude[0]) != 12 {
		t.Errorf("magnitude %v, expected %v", dora.Magnitude[0], want)
	}
	_, err = adapter.New(base, adapter.Config{R: 1, Alpha: 1, Targets: []string{"nothing"}}, 1, nil)
	wantError(t, err, adapter.ErrConfig, "nothing")
}

// each calls f for every golden adapter.
func each(t *testing.T, f func(t *testing.T, base *checkpoint.Model, dir string)) {
	found, err := filepath.Glob(golden(t, "*", "peft", "*", "adapter_config.json"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no golden adapters: %v", err)
	}
	for _, path := range found {
		dir := filepath.Dir(path)
		model := filepath.Dir(filepath.Dir(dir))
		t.Run(filepath.Base(model)+"/"+filepath.Base(dir), func(t *testing.T) { f(t, open(t, model), dir) })
	}
}

// TestRoundTrip loads what PEFT wrote and writes it again: the same tensors under the same keys, and every key of our
// configuration with PEFT's value.
func TestRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, base *checkpoint.Model, dir string) {
		a := load(t, dir, &base.Config)
		out := filepath.Join(t.TempDir(), "deep", "adapter")
		if err := a.Save(out, adapter.SaveOptions{Prefix: adapter.PrefixOf(base), Provenance: map[string]any{"note": "<&>"}}); err != nil {
			t.Fatal(err)
		}
		same(t, filepath.Join(out, "adapter_model.safetensors"), filepath.Join(dir, "adapter_model.safetensors"))
		var ours, theirs map[string]any
		for path, into := range map[string]*map[string]any{out: &ours, dir: &theirs} {
			raw, err := os.ReadFile(filepath.Join(path, "adapter_config.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, into); err != nil {
				t.Fatal(err)
			}
		}
		for key, v := range ours {
			x, _ := json.Marshal(v)
			y, _ := json.Marshal(theirs[key])
			if string(x) != string(y) {
				t.Errorf("%s is %s, PEFT writes %s", key, x, y)
			}
		}
		if note, err := os.ReadFile(filepath.Join(out, "terraloom.json")); err != nil || string(note) != "{\n  \"note\": \"<&>\"\n}\n" {
			t.Errorf("terraloom.json: %q, %v", note, err)
		}
		if again := load(t, out, &base.Config); again.Hash() != a.Hash() {
			t.Error("another hash after saving and loading")
		}
		wantError(t, a.Save(out, adapter.SaveOptions{}), adapter.ErrExists, out)
		left, err := os.ReadDir(filepath.Dir(out))
		if err != nil || len(left) != 1 {
			t.Errorf("temporary folders stay: %v, %v", left, err)
		}
	})
}

// same compares two safetensors files tensor by tensor.
func same(t testing.TB, a, b string) {
	t.Helper()
	x, err := checkpoint.OpenSafetensors(a)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := checkpoint.OpenSafetensors(b)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	names, want := x.Names(), y.Names()
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Fatalf("keys %v, expected %v", names, want)
	}
	for _, name := range names {
		p, err := x.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		q, err := y.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.DType != checkpoint.F32 || !slices.Equal(p.Shape, q.Shape) || !slices.Equal(p.Data, q.Data) {
			t.Errorf("%s differs", name)
		}
	}
}

// rewrite copies an adapter folder with other keys, dtype, or settings.
func rewrite(t testing.TB, dir string, key func(string) []string, dtype checkpoint.DType, settings map[string]any) string {
	t.Helper()
	out := t.TempDir()
	s, err := checkpoint.OpenSafetensors(filepath.Join(dir, "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var sources []checkpoint.Source
	for _, name := range s.Names() {
		for _, k := range key(name) {
			x, err := s.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			values, err := x.Float32()
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, checkpoint.FromFloat32(k, dtype, x.Shape, values))
		}
	}
	if err := checkpoint.WriteSafetensors(filepath.Join(out, "adapter_model.safetensors"), nil, sources); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "adapter_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	for k, v := range settings {
		config[k] = v
	}
	if raw, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "adapter_config.json"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	return out
}

func keep(name string) []string { return []string{name} }

// TestBindingL3: names off by a prefix are accepted where the modules are the same, and anything that does not bind
// completely is refused with the keys.
func TestBindingL3(t *testing.T) {
	vl, text := open(t, golden(t, "qwen35-vl")), open(t, golden(t, "qwen35-text"))
	swap := func(from, to string) func(string) []string {
		return func(name string) []string { return []string{strings.Replace(name, from, to, 1)} }
	}
	vlDir, textDir := golden(t, "qwen35-vl", "peft", "lora"), golden(t, "qwen35-text", "peft", "lora")
	a := load(t, vlDir, &vl.Config)
	if b := load(t, rewrite(t, vlDir, swap(adapter.MultimodalPrefix, adapter.TextPrefix), checkpoint.F32, nil), &vl.Config); b.Hash() != a.Hash() {
		t.Error("keys of the text class on a multimodal base give another adapter")
	}
	if b := load(t, rewrite(t, textDir, swap(adapter.TextPrefix, adapter.MultimodalPrefix), checkpoint.F32, nil), &text.Config); len(b.Modules) != 31 {
		t.Errorf("keys of the wrapper on a text base bind %d modules, expected 31", len(b.Modules))
	}
	if adapter.PrefixOf(vl) != adapter.MultimodalPrefix || adapter.PrefixOf(text) != adapter.TextPrefix {
		t.Errorf("prefixes %q and %q", adapter.PrefixOf(vl), adapter.PrefixOf(text))
	}

	fails := func(name string, kind error, dir string, base *checkpoint.Config, parts ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			_, err := adapter.Load(dir, base)
			wantError(t, err, kind, append(parts, dir)...)
		})
	}
	fails("no module", adapter.ErrBinding, rewrite(t, textDir, swap(adapter.TextPrefix, "model."), checkpoint.F32, nil), &text.Config,
		"none of its 62 tensors", "model.layers.0", "right base")
	llama := open(t, golden(t, "llama"))
	fails("another base", adapter.ErrBinding, golden(t, "qwen3", "peft", "lora"), &llama.Config, "shape")
	fails("misspelt", adapter.ErrBinding, rewrite(t, textDir, swap("layers.3.self_attn.q_proj", "layers.3.self_attn.query"), checkpoint.F32, nil), &text.Config,
		"2 of 62 tensors bind to nothing", "layers.3.self_attn.query.lora_A.weight")
	fails("head", adapter.ErrBinding, rewrite(t, textDir, swap("layers.3.self_attn.q_proj", "lm_head"), checkpoint.F32, nil), &text.Config, "lm_head.lora_A.weight")
	drop := func(part string) func(string) []string {
		return func(name string) []string {
			if strings.Contains(name, part) {
				return nil
			}
			return []string{name}
		}
	}
	fails("a module missing", adapter.ErrBinding, rewrite(t, textDir, drop("layers.1.mlp.up_proj"), checkpoint.F32, nil), &text.Config,
		"2 tensors", "layers.1.mlp.up_proj.lora_A.weight", "layers.1.mlp.up_proj.lora_B.weight")
	fails("half a module", adapter.ErrBinding, rewrite(t, textDir, drop("layers.1.mlp.up_proj.lora_B"), checkpoint.F32, map[string]any{"target_modules": []string{"q_proj"}}),
		&text.Config, "layers.1.mlp.up_proj.lora_B.weight")
	twice := func(name string) []string {
		return []string{name, strings.Replace(name, adapter.TextPrefix, adapter.MultimodalPrefix, 1)}
	}
	fails("two prefixes", adapter.ErrBinding, rewrite(t, textDir, twice, checkpoint.F32, nil), &text.Config, "same tensor under two prefixes")
	fails("rank", adapter.ErrBinding, rewrite(t, textDir, keep, checkpoint.F32, map[string]any{"r": 8}), &text.Config, "shape [4 48], expected [8 48]")
	fails("magnitudes", adapter.ErrBinding, rewrite(t, textDir, keep, checkpoint.F32, map[string]any{"use_dora": true}), &text.Config, "lora_magnitude_vector")
	fails("magnitudes without DoRA", adapter.ErrBinding, rewrite(t, golden(t, "llama", "peft", "dora"), keep, checkpoint.F32, map[string]any{"use_dora": false}), &llama.Config,
		"21 of 63 tensors bind to nothing", "lora_magnitude_vector")
	fails("no folder", adapter.ErrFormat, filepath.Join(textDir, "none"), &text.Config, "adapter_config.json")

	// A regular expression or all-linear in target_modules: the keys say which modules there are.
	for _, target := range []string{adapter.AllLinear, ".*_proj$"} {
		if b := load(t, rewrite(t, textDir, keep, checkpoint.F32, map[string]any{"target_modules": target}), &text.Config); len(b.Modules) != 31 {
			t.Errorf("target_modules %q: %d modules", target, len(b.Modules))
		}
	}
}

// TestWidenedL8: adapters stored in 16 bits become float32.
func TestWidenedL8(t *testing.T) {
	base := open(t, golden(t, "llama"))
	dir := golden(t, "llama", "peft", "lora")
	full, half := load(t, dir, &base.Config), load(t, rewrite(t, dir, keep, checkpoint.BF16, nil), &base.Config)
	for i := range full.A {
		for j, v := range full.A[i] {
			if d := math.Abs(float64(half.A[i][j] - v)); d > math.Abs(float64(v))/256 {
				t.Fatalf("%s: A[%d] is %v, expected %v", full.Modules[i].Name(), j, half.A[i][j], v)
			}
		}
	}
	if full.Hash() == half.Hash() {
		t.Error("rounding did not show in the hash")
	}
}

func TestSettingsRefused(t *testing.T) {
	base := open(t, golden(t, "llama"))
	dir := golden(t, "llama", "peft", "lora")
	for key, v := range map[string]any{"peft_type": "IA3", "bias": "all", "fan_in_fan_out": true, "lora_bias": true, "modules_to_save": []string{"lm_head"},
		"rank_pattern": map[string]int{"q_proj": 2}, "alpha_pattern": map[string]int{"q_proj": 2}, "layers_to_transform": []int{1},
		"layer_replication": [][]int{{0, 1}}, "exclude_modules": []string{"x"}, "use_qalora": true, "trainable_token_indices": []int{1}} {
		_, err := adapter.Load(rewrite(t, dir, keep, checkpoint.F32, map[string]any{key: v}), &base.Config)
		wantError(t, err, adapter.ErrConfig, key)
	}
	for key, v := range map[string]any{"r": 4.5, "lora_alpha": "8", "use_dora": "no", "target_modules": 3} {
		_, err := adapter.Load(rewrite(t, dir, keep, checkpoint.F32, map[string]any{key: v}), &base.Config)
		wantError(t, err, adapter.ErrFormat, key)
	}
	_, err := adapter.Load(rewrite(t, dir, keep, checkpoint.F32, map[string]any{"r": 0, "bias": "all"}), &base.Config)
	wantError(t, err, adapter.ErrConfig, "bias") // other problems are listed with it
	out := rewrite(t, dir, keep, checkpoint.F32, nil)
	if err := os.WriteFile(filepath.Join(out, "adapter_config.json"), []byte(`{"r":4,"r":8}`), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = adapter.Load(out, &base.Config)
	wantError(t, err, adapter.ErrFormat, "adapter_config.json")
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"peft_type":"LORA","r":4,"lora_alpha":8,"target_modules":["q_proj"]}`))
	f.Add([]byte(`{"peft_type":"LORA","r":1e400,"target_modules":"all-linear"}`))
	f.Add([]byte(`[]`))
	base := hybrid()
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), raw, 0o644); err != nil {
			t.Fatal(err)
		}
		if a, err := adapter.Load(dir, base); err == nil {
			t.Errorf("an adapter without tensors was loaded: %+v", a.Config)
		}
	})
}
