package checkpoint

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// edit is a config.json made from another: values replace or add keys, nil removes one; a dotted key goes into an object.
func edit(tb testing.TB, raw []byte, changes map[string]any) []byte {
	tb.Helper()
	var c map[string]any
	if err := json.Unmarshal(raw, &c); err != nil {
		tb.Fatal(err)
	}
	for key, value := range changes {
		at := c
		for {
			head, rest, nested := strings.Cut(key, ".")
			if !nested {
				break
			}
			at, key = at[head].(map[string]any), rest
		}
		if value == nil {
			delete(at, key)
		} else {
			at[key] = value
		}
	}
	out, err := json.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

type change = map[string]any

// qwen35 is the text part of a Qwen3.5 config; sizes come from the published tables.
func qwen35(hidden, inter, layers, heads, kv, keyHeads, valueHeads int, tied bool) []byte {
	raw, _ := json.Marshal(change{"architectures": []string{"Qwen3_5ForCausalLM"}, "model_type": "qwen3_5_text", "hidden_size": hidden,
		"intermediate_size": inter, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": 256,
		"vocab_size": 248320, "rms_norm_eps": 1e-6, "max_position_embeddings": 262144, "linear_num_key_heads": keyHeads,
		"linear_num_value_heads": valueHeads, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
		"tie_word_embeddings": tied, "dtype": "bfloat16", "eos_token_id": 248044, "rope_parameters": change{"rope_type": "default", "rope_theta": 1e7}})
	return raw
}

func dense(class, kind string, hidden, inter, layers, heads, kv, headDim, vocab int, theta float64, tied bool) []byte {
	c := change{"architectures": []string{class}, "model_type": kind, "hidden_size": hidden, "intermediate_size": inter,
		"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "vocab_size": vocab, "rms_norm_eps": 1e-6,
		"max_position_embeddings": 8192, "rope_theta": theta, "tie_word_embeddings": tied, "torch_dtype": "bfloat16"}
	if headDim > 0 {
		c["head_dim"] = headDim
	}
	raw, _ := json.Marshal(c)
	return raw
}

// TestPublishedSizes: parameter, tensor and adapter counts of published models.
func TestPublishedSizes(t *testing.T) {
	for _, c := range []struct {
		name       string
		config     []byte
		parameters int64
		tensors    int
		lora16     int64
	}{
		{"Qwen3.5-0.8B", qwen35(1024, 3584, 24, 8, 2, 16, 16, true), 752_393_024, 320, 10_822_656},
		{"Qwen3.5-2B", qwen35(2048, 6144, 24, 8, 2, 16, 16, true), 1_881_825_088, 320, 16_819_200},
		{"Qwen3.5-4B", qwen35(2560, 9216, 32, 16, 4, 16, 32, true), 4_205_751_296, 426, 32_464_896},
		{"Qwen3.5-9B", qwen35(4096, 12288, 32, 16, 4, 16, 32, false), 8_953_803_264, 427, 43_278_336},
		{"Qwen3.5-27B", qwen35(5120, 17408, 64, 24, 4, 16, 48, false), 26_895_998_464, 851, 116_727_808},
		{"SmolLM2-135M", dense("LlamaForCausalLM", "llama", 576, 1536, 30, 9, 3, 0, 49152, 1e5, true), 134_515_008, 272, 4_884_480},
		{"Qwen2.5-0.5B", dense("Qwen2ForCausalLM", "qwen2", 896, 4864, 24, 14, 2, 0, 151936, 1e6, true), 494_032_768, 290, 8_798_208},
		{"Qwen3-0.6B", dense("Qwen3ForCausalLM", "qwen3", 1024, 3072, 28, 16, 8, 128, 151936, 1e6, true), 596_049_920, 310, 10_092_544},
		{"Qwen3-8B", dense("Qwen3ForCausalLM", "qwen3", 4096, 12288, 36, 32, 8, 128, 151936, 1e6, false), 8_190_735_360, 399, 43_646_976},
	} {
		cfg, err := ParseConfig(c.config)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if n := cfg.Parameters(); n != c.parameters {
			t.Errorf("%s: %d parameters, expected %d", c.name, n, c.parameters)
		}
		if n := len(cfg.TensorSpecs()); n != c.tensors {
			t.Errorf("%s: %d tensors, expected %d", c.name, n, c.tensors)
		}
		if n := cfg.LoRAParameters(16); n != c.lora16 {
			t.Errorf("%s: %d adapter parameters, expected %d", c.name, n, c.lora16)
		}
		if run, train := cfg.RunMemory(Workload{1, 4096, 0}), cfg.TrainMemory(Workload{4, 1024, 16}); run <= 2*c.parameters || train <= run {
			t.Errorf("%s: %d bytes to run, %d to train, for %d of weights", c.name, run, train, 2*c.parameters)
		}
	}
}

// TestBothTransformersLayouts: what transformers 4 and 5 write for one model is one Config.
func TestBothTransformersLayouts(t *testing.T) {
	found := 0
	for _, dir := range goldenModels(t) {
		old := filepath.Join(dir, "config-v4.json")
		if _, err := os.Stat(old); err != nil {
			continue
		}
		found++
		v5, err := ParseConfig(read(t, filepath.Join(dir, configFile)))
		if err != nil {
			t.Fatal(err)
		}
		v4, err := ParseConfig(read(t, old))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(v4, v5) {
			t.Errorf("%s:\n%+v\n%+v", dir, v4, v5)
		}
		if len(v5.Assumed) > 0 {
			t.Errorf("%s: assumed %q", dir, v5.Assumed)
		}
	}
	if found < 4 {
		t.Errorf("%d models with both layouts", found)
	}
}

// TestConfigJSONReadsBack: the config written for a new model is the config that was meant.
func TestConfigJSONReadsBack(t *testing.T) {
	for _, dir := range goldenModels(t) {
		want, err := ParseConfig(read(t, filepath.Join(dir, configFile)))
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(dir) == "llama" {
			want.EOS, want.Pad = []int{2, 5}, -1
		}
		if want.Multimodal { // written as its text class
			want.Multimodal, want.Architecture = false, "Qwen3_5ForCausalLM"
		}
		got, err := ParseConfig(want.JSON())
		if err != nil {
			t.Fatalf("%s: %v\n%s", dir, err, want.JSON())
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v\n%+v\n%s", dir, got, want, want.JSON())
		}
	}
}

func TestConfigAssumptions(t *testing.T) {
	llama := dense("LlamaForCausalLM", "llama", 64, 128, 2, 4, 2, 0, 100, 1e5, true)
	hybrid := qwen35(64, 128, 5, 4, 2, 2, 4, true)
	for _, c := range []struct {
		name    string
		raw     []byte
		changes change
		check   func(c Config) bool
		assumed string // "" if nothing
	}{
		{"no rope_theta", llama, change{"rope_theta": nil}, func(c Config) bool { return c.Rope.Theta == 10000 }, "rope_theta is missing: 10000"},
		{"null scaling", llama, change{"rope_scaling": json.RawMessage("null")}, func(c Config) bool { return c.Rope.Type == RopeDefault }, ""},
		{"theta in both places", llama, change{"rope_parameters": change{"rope_theta": 7.0}}, func(c Config) bool { return c.Rope.Theta == 7 }, ""},
		{"scaling wins", llama, change{"rope_parameters": change{"rope_type": "default", "rope_theta": 7.0}, "rope_scaling": change{"rope_type": "llama3",
			"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
			func(c Config) bool { return c.Rope.Type == RopeLlama3 && c.Rope.Theta == 1e5 }, ""},
		{"empty scaling", llama, change{"rope_parameters": change{"rope_theta": 7.0}, "rope_scaling": change{}}, func(c Config) bool { return c.Rope.Theta == 7 }, ""},
		{"no eps", llama, change{"rms_norm_eps": nil}, func(c Config) bool { return c.RMSNormEps == 1e-6 }, "rms_norm_eps"},
		{"no kv heads", llama, change{"num_key_value_heads": nil}, func(c Config) bool { return c.NumKVHeads == 4 }, "num_key_value_heads"},
		{"no tie flag", llama, change{"tie_word_embeddings": nil}, func(c Config) bool { return !c.Tied }, "tie_word_embeddings"},
		{"no length", llama, change{"max_position_embeddings": nil}, func(c Config) bool { return c.MaxPositions == 2048 }, "max_position_embeddings"},
		{"no class", llama, change{"architectures": nil}, func(c Config) bool { return c.Architecture == "LlamaForCausalLM" }, ""},
		{"no model_type", llama, change{"model_type": nil}, func(c Config) bool { return c.Family == Llama }, ""},
		{"no dtype", llama, change{"torch_dtype": nil}, func(c Config) bool { return c.DType == "" }, ""},
		{"biases", llama, change{"attention_bias": true, "mlp_bias": true}, func(c Config) bool { return c.QKVBias && c.OutBias && c.MLPBias }, ""},
		{"list of ends", llama, change{"eos_token_id": []int{2, 3, 2}}, func(c Config) bool { return slices.Equal(c.EOS, []int{2, 3}) }, ""},
		{"no ids", llama, change{"pad_token_id": -1}, func(c Config) bool { return c.BOS == -1 && c.Pad == -1 && c.EOS == nil }, ""},
		{"swish", llama, change{"hidden_act": "swish"}, func(c Config) bool { return true }, ""},
		{"sliding window off", llama, change{"sliding_window": 4096, "use_sliding_window": false}, func(c Config) bool { return true }, ""},
		{"every fourth layer", hybrid, nil, func(c Config) bool {
			return c.CountLayers(FullAttention) == 1 && c.LayerTypes[3] == FullAttention && c.Rope.Dim == 64 && c.ZeroCentredNorm && c.OutputGate
		}, ""},
		{"another interval", hybrid, change{"full_attention_interval": 2}, func(c Config) bool { return c.CountLayers(FullAttention) == 2 }, ""},
		{"gate flag", hybrid, change{"attn_output_gate": false}, func(c Config) bool { return c.OutputGate }, "attn_output_gate is false: ignored"},
		{"partial beside", hybrid, change{"partial_rotary_factor": 0.5}, func(c Config) bool { return c.Rope.Dim == 128 }, ""},
		{"no linear heads", hybrid, change{"linear_num_value_heads": nil}, func(c Config) bool { return c.LinearAttn.ValueHeads == 32 }, "linear_num_value_heads"},
		{"no experts", hybrid, change{"num_experts": 0}, func(c Config) bool { return true }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := ParseConfig(edit(t, c.raw, c.changes))
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(cfg) {
				t.Errorf("%+v", cfg)
			}
			if got := strings.Join(cfg.Assumed, "; "); c.assumed == "" && got != "" || !strings.Contains(got, c.assumed) {
				t.Errorf("assumed %q, expected %q", got, c.assumed)
			}
		})
	}
}

// TestTieFlags: the wrapper class obeys the outer flag, the text class the inner one.
func TestTieFlags(t *testing.T) {
	var inner any
	if err := json.Unmarshal(qwen35(64, 128, 4, 4, 2, 2, 4, true), &inner); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		class        string
		outer, inner any
		want         bool
	}{
		{"Qwen3_5ForConditionalGeneration", true, false, true}, {"Qwen3_5ForConditionalGeneration", false, true, false},
		{"Qwen3_5ForConditionalGeneration", nil, true, true}, {"Qwen3_5ForCausalLM", true, false, false}, {"Qwen3_5ForCausalLM", true, nil, true},
	} {
		raw, _ := json.Marshal(change{"architectures": []string{c.class}, "model_type": "qwen3_5", "text_config": inner})
		cfg, err := ParseConfig(edit(t, raw, change{"tie_word_embeddings": c.outer, "text_config.tie_word_embeddings": c.inner}))
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Tied != c.want || cfg.Multimodal != (c.class == "Qwen3_5ForConditionalGeneration") {
			t.Errorf("%s, outer %v, inner %v: tied %v", c.class, c.outer, c.inner, cfg.Tied)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	llama := dense("LlamaForCausalLM", "llama", 64, 128, 2, 4, 2, 0, 100, 1e5, true)
	hybrid := qwen35(64, 128, 4, 4, 2, 2, 4, true)
	llama3 := change{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
	without := func(key string) change {
		c := maps.Clone(llama3)
		delete(c, key)
		return change{"rope_scaling": c}
	}
	for _, c := range []struct {
		raw     []byte
		changes change
		kind    error
		says    string
	}{
		{llama, change{"architectures": []string{"GPT2LMHeadModel"}}, ErrUnsupported, `unknown architecture "GPT2LMHeadModel"`},
		{llama, change{"architectures": []string{"Qwen3_5MoeForCausalLM"}}, ErrUnsupported, `"Qwen3_5MoeForCausalLM"`},
		{llama, change{"architectures": nil, "model_type": "mistral"}, ErrUnsupported, `unknown architecture "mistral"`},
		{llama, change{"model_type": "mistral"}, ErrUnsupported, `model_type "mistral"`},
		{llama, change{"architectures": []string{"LlamaForCausalLM", "X"}}, ErrUnsupported, "2 classes"},
		{llama, change{"architectures": nil, "model_type": nil}, ErrFormat, "neither architectures nor model_type"},
		{llama, change{"architectures": []any{"LlamaForCausalLM", 1}}, ErrFormat, "architectures: entry 1 is 1"},
		{llama, change{"rope_scaling": change{"rope_type": "yarn", "factor": 4.0}}, ErrUnsupported, `RoPE type "yarn"`},
		{llama, change{"rope_scaling": change{"type": "dynamic", "factor": 4.0}}, ErrUnsupported, `RoPE type "dynamic"`},
		{llama, change{"rope_parameters": change{"full_attention": change{"rope_type": "default"}}}, ErrUnsupported, "full_attention"},
		{llama, change{"rope_interleaved": true}, ErrUnsupported, "rope_interleaved"},
		{llama, change{"partial_rotary_factor": 0.5}, ErrUnsupported, "partial_rotary_factor"},
		{llama, without("factor"), ErrFormat, "rope_scaling: factor: missing"},
		{llama, without("low_freq_factor"), ErrFormat, "low_freq_factor: missing"},
		{llama, without("original_max_position_embeddings"), ErrFormat, "original_max_position_embeddings: missing"},
		{llama, change{"rope_theta": 0.0}, ErrFormat, "rope_theta"},
		{llama, change{"rope_theta": "1e5"}, ErrFormat, `rope_theta: "1e5", expected a number`},
		{llama, change{"hidden_act": "gelu"}, ErrUnsupported, `activation "gelu"`},
		{llama, change{"use_sliding_window": true}, ErrUnsupported, "use_sliding_window"},
		{llama, change{"layer_types": []string{"full_attention", "sliding_attention"}}, ErrUnsupported, `"sliding_attention"`},
		{llama, change{"layer_types": []string{"full_attention", "linear_attention"}}, ErrUnsupported, `"linear_attention"`},
		{llama, change{"layer_types": []string{"full_attention"}}, ErrFormat, "1 entries for num_hidden_layers 2"},
		{llama, change{"quantization_config": change{"quant_method": "fp8"}}, ErrUnsupported, `"fp8"`},
		{llama, change{"torch_dtype": "int8"}, ErrUnsupported, `"int8"`},
		{llama, change{"hidden_size": nil}, ErrFormat, "hidden_size: missing"},
		{llama, change{"hidden_size": 0}, ErrFormat, "hidden_size: 0, expected 1 to"},
		{llama, change{"hidden_size": 1e15}, ErrFormat, "hidden_size"},
		{llama, change{"hidden_size": 64.5}, ErrFormat, "hidden_size: 64.5, expected an integer"},
		{llama, change{"num_hidden_layers": 1000000}, ErrFormat, "num_hidden_layers"},
		{llama, change{"num_attention_heads": 5}, ErrFormat, "5 does not divide hidden_size 64"},
		{llama, change{"num_key_value_heads": 3}, ErrFormat, "3 does not divide num_attention_heads 4"},
		{llama, change{"head_dim": 15}, ErrFormat, "15 rotated elements"},
		{llama, change{"rms_norm_eps": -1.0}, ErrFormat, "rms_norm_eps"},
		{llama, change{"eos_token_id": 100}, ErrFormat, "100 is outside the vocabulary of 100"},
		{llama, change{"eos_token_id": "2"}, ErrFormat, "eos_token_id"},
		{llama, change{"bos_token_id": []int{1, 2}}, ErrFormat, "expected one id"},
		{hybrid, change{"num_experts": 8}, ErrUnsupported, "num_experts"},
		{hybrid, change{"output_gate_type": "tanh"}, ErrUnsupported, `"tanh"`},
		{hybrid, change{"linear_num_value_heads": 3}, ErrFormat, "2 does not divide linear_num_value_heads 3"},
		{hybrid, change{"rope_parameters": llama3}, ErrUnsupported, `RoPE type "llama3"`},
		{hybrid, change{"layer_types": []string{"linear_attention", "linear_attention", "linear_attention", "mamba"}}, ErrUnsupported, `"mamba"`},
		{hybrid, change{"model_type": "qwen3_5", "architectures": nil}, ErrFormat, "text_config: missing"},
		{hybrid, change{"text_config": 3}, ErrFormat, "text_config: 3, expected"},
	} {
		_, err := ParseConfig(edit(t, c.raw, c.changes))
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "config.json: ") {
			t.Errorf("%v: error %v, expected %v that says %q", c.changes, err, c.kind, c.says)
		}
	}
}

// TestConfigRefusesWhatJSONAllows: repeated keys and other things that Go's decoder would let pass.
func TestConfigRefusesWhatJSONAllows(t *testing.T) {
	for raw, says := range map[string]string{
		"{\n \"hidden_size\": 1,\n \"hidden_size\": 2}":                  "config.json:3:",
		"{\"rope_parameters\": {\n\"rope_theta\": 1,\"rope_theta\": 2}}": "rope_theta",
		`{"model_type": "llama"} {}`:                                     "config.json:1:",
		`{"rope_theta": NaN}`:                                            "config.json:1:",
		"{\"a\": \"\xff\"}":                                              "config.json:1:",
		`[]`:                                                             "expected a JSON object",
		``:                                                               "config.json:1:",
		strings.Repeat("[", 100000):                                      "config.json:1:",
	} {
		_, err := ParseConfig([]byte(raw))
		wantError(t, err, ErrFormat, says)
	}
	// Everything that is wrong is said at once.
	_, err := ParseConfig([]byte(`{"model_type":"llama","hidden_act":"gelu","rope_theta":"x"}`))
	for _, says := range []string{"hidden_size: missing", "vocab_size: missing", `"gelu"`, "rope_theta"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v does not say %q", err, says)
		}
	}
}

func TestUntie(t *testing.T) {
	raw := []byte(`{"model_type":"qwen3_5","tie_word_embeddings":true,"rope_theta":1e6,"text_config":{"x":1.0,"tie_word_embeddings":true}}`)
	got, err := Untie(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"model_type\": \"qwen3_5\",\n  \"tie_word_embeddings\": false,\n  \"rope_theta\": 1e6,\n" +
		"  \"text_config\": {\"x\":1.0,\"tie_word_embeddings\":false}\n}\n"
	if string(got) != want {
		t.Errorf("%s", got)
	}
	if got, err := Untie([]byte(`{}`)); err != nil || string(got) != "{\n  \"tie_word_embeddings\": false\n}\n" {
		t.Errorf("%s, %v", got, err)
	}
	_, err = Untie([]byte(`[]`))
	wantError(t, err, ErrFormat)
}

// FuzzConfig: no panic; an accepted config has sane dimensions and survives being written.
func FuzzConfig(f *testing.F) {
	f.Add(dense("LlamaForCausalLM", "llama", 64, 128, 2, 4, 2, 0, 100, 1e5, true))
	f.Add(dense("Qwen2ForCausalLM", "qwen2", 64, 128, 2, 4, 2, 0, 100, 1e6, false))
	f.Add(dense("Qwen3ForCausalLM", "qwen3", 64, 128, 2, 4, 2, 24, 100, 1e6, true))
	f.Add(qwen35(64, 128, 4, 4, 2, 2, 4, true))
	f.Add([]byte(`{"architectures":["Qwen3_5ForConditionalGeneration"],"text_config":` + string(qwen35(64, 128, 4, 4, 2, 2, 4, true)) + `}`))
	f.Add([]byte(`{"model_type":"llama","hidden_size":1,"hidden_size":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseConfig(raw)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		if c.HeadDim < 1 || c.NumHeads%c.NumKVHeads != 0 || len(c.LayerTypes) != c.NumLayers || c.Rope.Dim%2 != 0 || c.Rope.Dim < 2 {
			t.Fatalf("%+v", c)
		}
		if c.Parameters() <= 0 || c.TrainMemory(Workload{4, 1024, 16}) <= 0 {
			t.Fatalf("%d parameters in %+v", c.Parameters(), c)
		}
		again, err := ParseConfig(c.JSON())
		if err != nil {
			t.Fatalf("%v in %s", err, c.JSON())
		}
		if again.Multimodal = c.Multimodal; again.Parameters() != c.Parameters() || !reflect.DeepEqual(again.Rope, c.Rope) {
			t.Fatalf("%+v became %+v", c, again)
		}
	})
}
