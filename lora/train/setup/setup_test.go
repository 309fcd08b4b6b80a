package setup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/lora/checkpoint"
	"terraloom/lora/codec"
	"terraloom/lora/decoder"
	"terraloom/lora/tokenizer"
)

const template = `{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}`

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// base writes a model folder; without a template if it is empty.
func base(t *testing.T, template string, vocab int) string {
	t.Helper()
	tok, err := tokenizer.Train(slices.Values([]string{"system user assistant"}), 270, []string{"<|im_start|>", "<|im_end|>"})
	check(t, err)
	tok, err = tok.WithRoles(tokenizer.Roles{EOS: "<|im_end|>"})
	check(t, err)
	files := t.TempDir()
	check(t, tok.Save(files))
	copies := map[string]string{}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		copies[name] = filepath.Join(files, name)
	}
	if template != "" {
		copies["chat_template.jinja"] = filepath.Join(files, "chat_template.jinja")
		check(t, os.WriteFile(copies["chat_template.jinja"], []byte(template), 0o644))
	}
	c := checkpoint.Config{
		Family: checkpoint.Llama, Architecture: "LlamaForCausalLM", HiddenSize: 8, IntermediateSize: 12, NumLayers: 1, NumHeads: 2, NumKVHeads: 1,
		HeadDim: 4, VocabSize: vocab, MaxPositions: 128, RMSNormEps: 1e-6, Rope: checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: 1e4, Dim: 4},
		LayerTypes: []checkpoint.LayerType{checkpoint.FullAttention}, Tied: true, DType: checkpoint.F32, BOS: -1, Pad: -1, EOS: []int{1},
	}
	var tensors []checkpoint.Source
	for _, spec := range c.TensorSpecs() {
		tensor, err := decoder.RandomWeights{Config: c, Seed: 1}.Tensor(spec.Name)
		check(t, err)
		tensors = append(tensors, checkpoint.FromTensor("model."+spec.Name, tensor))
	}
	dir := filepath.Join(t.TempDir(), "base")
	check(t, checkpoint.WriteFolder(dir, checkpoint.Folder{Config: c.JSON(), Tensors: tensors, Copy: copies}))
	return dir
}

func config(base string) Config {
	c := Default()
	c.Base = base
	return c
}

func open(t *testing.T, c Config) *Base {
	t.Helper()
	check(t, c.Validate())
	b, err := Open(c, 1)
	check(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func TestOpen(t *testing.T) {
	c := config(base(t, template, 272))
	c.LoRA.R = 32
	c.LoRA.Targets = []string{"up_proj"}
	b := open(t, c)
	if n, all := b.Trained(); n != 32*(8+12) || all {
		t.Errorf("%d parameters, all %t", n, all)
	}
	// L11: the rank is above what a vLLM server takes that was started without a limit.
	if notices := strings.Join(b.Notices, "\n"); !strings.Contains(notices, "--max-lora-rank 32") {
		t.Errorf("notices %q", notices)
	}
	text := b.Describe()
	for _, want := range []string{"LlamaForCausalLM", "rank 32", "not covered", "q_proj:1", "leaves alone: [0]"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	id, err := b.Identity()
	check(t, err)
	if len(id.Base) != 64 || len(id.Tokenizer) != 64 || id.Template != b.Codec.Template.Hash() {
		t.Errorf("identity %+v", id)
	}
	full := config(c.Base)
	full.Method = Full
	if n, all := open(t, full).Trained(); !all || n != b.Model.Config.Parameters() {
		t.Errorf("%d parameters, all %t", n, all)
	}
}

// More devices need less each, bfloat16 less than float32, and all weights more than an adapter.
func TestMemoryOrder(t *testing.T) {
	c := config(base(t, template, 272))
	c.Device.Precision = "bfloat16"
	memory := func(change func(*Config)) int64 {
		c := c
		change(&c)
		return open(t, c).Memory(8, 64)
	}
	plain := memory(func(*Config) {})
	for name, less := range map[string]bool{
		"four devices":   memory(func(c *Config) { c.Device.Count = 4 }) < plain,
		"a split base":   memory(func(c *Config) { c.Device.Count, c.Device.ShardBase = 4, true }) < memory(func(c *Config) { c.Device.Count = 4 }),
		"not float32":    memory(func(c *Config) { c.Device.Precision = "float32" }) > plain,
		"not all":        memory(func(c *Config) { c.Method = Full }) > plain,
		"a smaller rank": memory(func(c *Config) { c.LoRA.R = 1 }) < plain,
	} {
		if !less {
			t.Errorf("%s does not need less", name)
		}
	}
}

func TestOpenRefusals(t *testing.T) {
	good := base(t, template, 272)
	for name, c := range map[string]struct {
		change func(*Config)
		want   error
		names  string
	}{
		"no template":          {func(c *Config) { c.Base = base(t, "", 272) }, codec.ErrNoTemplate, "ships none"},
		"absent template file": {func(c *Config) { c.Template.File = "absent.jinja" }, ErrConfig, "template.file"},
		"another tokenizer":    {func(c *Config) { c.Base = base(t, template, 200) }, ErrConfig, "270 tokens, the model 200"},
		"absent base":          {func(c *Config) { c.Base = filepath.Join(good, "x") }, nil, "base:"},
	} {
		t.Run(name, func(t *testing.T) {
			config := config(good)
			c.change(&config)
			_, err := Open(config, 1)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v, expected %v naming %q", err, c.want, c.names)
			}
		})
	}
}
