package checkpoint

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOpenGoldens opens every reference model and compares each tensor with the file it came from.
func TestOpenGoldens(t *testing.T) {
	want := map[string]struct {
		prefix     string
		tied       bool
		visual     int
		parameters int64
	}{
		"llama": {"model.", true, 0, 131520}, "llama-rope3": {"model.", false, 0, 115008}, "qwen2": {"model.", true, 0, 131904},
		"qwen3": {"model.", false, 0, 170576}, "qwen3-sharded": {"model.", false, 0, 170576}, "qwen35-text": {"model.", true, 0, 135352},
		"qwen35-text-bf16": {"model.", true, 0, 135352}, "qwen35-vl": {"model.language_model.", false, 21, 150712},
	}
	for _, dir := range goldenModels(t) {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			m := open(t, dir)
			if w, ok := want[name]; ok && (m.Prefix != w.prefix || m.Config.Tied != w.tied || m.Skipped["visual"] != w.visual || m.Config.Parameters() != w.parameters) {
				t.Errorf("prefix %q, tied %v, skipped %v, %d parameters; expected %+v", m.Prefix, m.Config.Tied, m.Skipped, m.Config.Parameters(), w)
			}
			raw := map[string]Tensor{}
			files, _ := filepath.Glob(filepath.Join(dir, "model*.safetensors"))
			for _, path := range files {
				s, err := OpenSafetensors(path)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for _, n := range s.Names() {
					raw[n], _ = s.Tensor(n)
				}
			}
			if len(raw) != len(m.Names())+m.Skipped["visual"] {
				t.Errorf("%d tensors in the file, %d read, %v skipped", len(raw), len(m.Names()), m.Skipped)
			}
			for _, n := range m.Names() {
				x, err := m.Tensor(n)
				if err != nil {
					t.Fatal(err)
				}
				stored := m.Prefix + n
				if n == headName {
					stored = n
				}
				if r := raw[stored]; x.Name != n || x.DType != r.DType || !slices.Equal(x.Shape, r.Shape) || !bytes.Equal(x.Data, r.Data) {
					t.Errorf("%s differs from the file", n)
				}
				if v, err := m.Float32(n); err != nil || len(v) != x.NumElements() {
					t.Errorf("%s: %d values, %v", n, len(v), err)
				}
			}
			if m.Quantised() {
				t.Error("said to be quantised")
			}
		})
	}
}

func TestShardsEqualSingleFile(t *testing.T) {
	one, two := open(t, golden(t, "qwen3")), open(t, golden(t, "qwen3-sharded"))
	if !slices.Equal(one.Names(), two.Names()) {
		t.Fatalf("%q\n%q", one.Names(), two.Names())
	}
	for _, n := range one.Names() {
		a, _ := one.Tensor(n)
		b, err := two.Tensor(n)
		if err != nil || !bytes.Equal(a.Data, b.Data) {
			t.Errorf("%s differs (%v)", n, err)
		}
	}
}

func TestBF16KeepsFloat32Exceptions(t *testing.T) {
	m := open(t, golden(t, "qwen35-text-bf16"))
	for name, want := range map[string]DType{"layers.0.linear_attn.A_log": F32, "layers.0.linear_attn.norm.weight": F32, "layers.0.linear_attn.dt_bias": BF16, "norm.weight": BF16} {
		if x, err := m.Tensor(name); err != nil || x.DType != want {
			t.Errorf("%s is %s (%v), expected %s", name, x.DType, err, want)
		}
	}
	if m.Config.DType != BF16 {
		t.Errorf("dtype %s", m.Config.DType)
	}
}

// variant is a copy of a reference model with changed tensors (nil removes one) and config.
func variant(t *testing.T, name string, config change, tensors map[string]*Source) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, configFile), edit(t, read(t, golden(t, name, configFile)), config))
	s, err := OpenSafetensors(golden(t, name, weightsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var sources []Source
	for _, n := range s.Names() {
		if _, changed := tensors[n]; !changed {
			x, _ := s.Tensor(n)
			sources = append(sources, FromTensor(n, x))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(tensors)) {
		if source := tensors[n]; source != nil {
			source.Name = n
			sources = append(sources, *source)
		}
	}
	if err := WriteSafetensors(filepath.Join(dir, weightsFile), nil, sources); err != nil {
		t.Fatal(err)
	}
	return dir
}

func zeros(dtype DType, shape ...int) *Source {
	n, _ := numElements(shape)
	size, _ := dtype.size(n)
	s := FromTensor("", Tensor{DType: dtype, Shape: shape, Data: make([]byte, size)})
	return &s
}

func TestOpenNamesTheTensor(t *testing.T) {
	for _, c := range []struct {
		name, model string
		config      change
		tensors     map[string]*Source
		says        string
	}{
		{"missing", "llama", nil, map[string]*Source{"model.layers.1.mlp.up_proj.weight": nil}, "model.layers.1.mlp.up_proj.weight[128 64] is missing"},
		{"missing in the wrapper", "qwen35-vl", nil, map[string]*Source{"model.language_model.layers.0.linear_attn.A_log": nil}, "model.language_model.layers.0.linear_attn.A_log[4] is missing"},
		{"misshaped", "llama", nil, map[string]*Source{"model.norm.weight": zeros(F32, 63)}, "model.norm.weight has shape [63], expected [64]"},
		{"transposed", "llama", nil, map[string]*Source{"model.layers.0.mlp.up_proj.weight": zeros(F32, 64, 128)}, "has shape [64 128], expected [128 64]"},
		{"foreign tensor", "llama", nil, map[string]*Source{"model.layers.0.self_attn.q_proj.bias": zeros(F32, 64)}, "model.layers.0.self_attn.q_proj.bias does not belong"},
		{"layer too many", "llama", change{"num_hidden_layers": 2}, nil, "model.layers.2.input_layernorm.weight does not belong"},
		{"layer too few", "llama", change{"num_hidden_layers": 4}, nil, "model.layers.3.input_layernorm.weight[64] is missing"},
		{"no prefix", "llama", nil, map[string]*Source{"stray": zeros(F32, 1)}, "stray does not belong"},
		{"without and with prefix", "llama", nil, map[string]*Source{"norm.weight": zeros(F32, 64)}, "norm.weight does not belong"},
		{"integers", "llama", nil, map[string]*Source{"model.norm.weight": zeros(I32, 64)}, "model.norm.weight holds I32"},
		{"no head", "llama-rope3", nil, map[string]*Source{"lm_head.weight": nil}, "lm_head.weight[320 64] is missing"},
		{"no head, flag assumed", "llama", change{"tie_word_embeddings": nil}, nil, "tie_word_embeddings is missing: false"},
		{"no embedding", "llama", nil, map[string]*Source{"model.embed_tokens.weight": nil}, "model.embed_tokens.weight[320 64] is missing"},
		{"another family's weights", "qwen3", change{"model_type": "llama", "architectures": []string{"LlamaForCausalLM"}}, nil, "q_norm.weight does not belong"},
		{"ungated", "qwen35-text", nil, map[string]*Source{"model.layers.3.self_attn.q_proj.weight": zeros(F32, 128, 48)}, "q_proj.weight has shape [128 48], expected [256 48]"},
		{"conv1d as MLX keeps it", "qwen35-text", nil, map[string]*Source{"model.layers.0.linear_attn.conv1d.weight": zeros(F32, 128, 4, 1)}, "conv1d.weight has shape [128 4 1], expected [128 1 4]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := variant(t, c.model, c.config, c.tensors)
			_, err := Open(dir)
			wantError(t, err, ErrTensors, c.says, dir)
		})
	}
	_, err := Open(variant(t, "llama", change{"num_hidden_layers": 50}, nil))
	wantError(t, err, ErrTensors, "more")
	if len(err.Error()) > 2000 {
		t.Errorf("%d characters of error", len(err.Error()))
	}
}

// TestSkippedByName: vision and multi-token prediction tensors are counted, whatever they hold.
func TestSkippedByName(t *testing.T) {
	m := open(t, variant(t, "qwen35-vl", nil, map[string]*Source{
		"mtp.fc.weight": zeros(F32, 3), "model.mtp.norm.weight": zeros(F32, 3), "visual.blocks.9.x": zeros(U8, 1), "model.visual.blocks.0.attn.proj.bias": nil,
	}))
	if m.Skipped["mtp"] != 2 || m.Skipped["visual"] != 21 {
		t.Errorf("skipped %v", m.Skipped)
	}
	m = open(t, variant(t, "llama", nil, map[string]*Source{"model.layers.0.self_attn.rotary_emb.inv_freq": zeros(F32, 8)}))
	if m.Skipped["rotary_emb.inv_freq"] != 1 {
		t.Errorf("skipped %v", m.Skipped)
	}
}

// TestHeadWinsOverTieFlag: an lm_head that differs from the embedding is used, an equal one is the tied head.
func TestHeadWinsOverTieFlag(t *testing.T) {
	embed, err := open(t, golden(t, "llama")).Float32(embedName)
	if err != nil {
		t.Fatal(err)
	}
	same := FromFloat32("", F32, []int{320, 64}, embed)
	other := slices.Clone(embed)
	other[len(other)-1]++
	differs := FromFloat32("", F32, []int{320, 64}, other)
	rounded := FromFloat32("", BF16, []int{320, 64}, embed)

	for _, c := range []struct {
		name string
		head *Source
		flag bool
		tied bool
	}{
		{"equal", &same, true, true}, {"differs", &differs, true, false}, {"rounded to bfloat16", &rounded, true, false},
		{"equal but said to be its own", &same, false, false},
	} {
		m := open(t, variant(t, "llama", change{"tie_word_embeddings": c.flag}, map[string]*Source{"lm_head.weight": c.head}))
		if m.Config.Tied != c.tied || slices.Contains(m.Names(), headName) == c.tied || c.flag != c.tied && len(m.Notes) == 0 {
			t.Errorf("%s: tied %v, notes %q, names %q", c.name, m.Config.Tied, m.Notes, m.Names())
		}
		if _, err := m.Tensor(headName); c.tied != errors.Is(err, ErrNoTensor) {
			t.Errorf("%s: asking for the head: %v", c.name, err)
		}
	}
	_, err = Open(variant(t, "llama", nil, map[string]*Source{"lm_head.weight": zeros(F32, 3, 64)}))
	wantError(t, err, ErrTensors, "lm_head.weight has shape [3 64]")
}

func TestFolderFiles(t *testing.T) {
	dir := variant(t, "llama", nil, nil)
	write(t, filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id":[2,7]}`))
	write(t, filepath.Join(dir, "tokenizer_config.json"), []byte(`{"chat_template":"from config"}`))
	m := open(t, dir)
	if !slices.Equal(m.Config.EOS, []int{2, 7}) || len(m.Notes) != 1 || m.ChatTemplate != "from config" {
		t.Errorf("ends %v, notes %q, template %q", m.Config.EOS, m.Notes, m.ChatTemplate)
	}
	write(t, filepath.Join(dir, "tokenizer_config.json"), []byte(`{"chat_template":[{"name":"tool_use","template":"a"},{"name":"default","template":"named"}]}`))
	if m := open(t, dir); m.ChatTemplate != "named" {
		t.Errorf("template %q", m.ChatTemplate)
	}
	write(t, filepath.Join(dir, "chat_template.jinja"), []byte("from file\n"))
	write(t, filepath.Join(dir, "tokenizer.json"), []byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1}},"added_tokens":[{"id":1,"content":"b"},{"id":2,"content":"c"}]}`))
	m = open(t, dir)
	if m.ChatTemplate != "from file\n" || m.TokenizerFiles["tokenizer.json"] != filepath.Join(dir, "tokenizer.json") || len(m.TokenizerFiles) != 3 {
		t.Errorf("template %q, files %v", m.ChatTemplate, m.TokenizerFiles)
	}
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	if info.Tokenizer != "BPE (tokenizer.json), 3 tokens" || !info.ChatTemplate || info.Parameters != 131520 || info.Stored[F32] != 29 || info.StoredBytes != 4*131520 {
		t.Errorf("%+v", info)
	}
	if text := info.String(); !strings.Contains(text, "LlamaForCausalLM") || !strings.Contains(text, "131520") || !strings.Contains(text, "end-of-text ids [2 7]") {
		t.Errorf("%s", text)
	}

	for name, content := range map[string]string{
		"generation_config.json": `{"eos_token_id":999}`, "tokenizer_config.json": `{"chat_template":[{"name":"x","template":"y"}]}`,
	} {
		dir := variant(t, "llama", nil, nil)
		write(t, filepath.Join(dir, name), []byte(content))
		_, err := Open(dir)
		wantError(t, err, ErrFormat, name)
	}
}

func TestOpenWrongPlaces(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "none"))
	wantError(t, err, os.ErrNotExist, "none")
	_, err = Open(dir)
	wantError(t, err, os.ErrNotExist, configFile)
	write(t, filepath.Join(dir, "adapter_config.json"), []byte("{}"))
	_, err = Open(dir)
	wantError(t, err, os.ErrNotExist, "is an adapter")
	write(t, filepath.Join(dir, configFile), read(t, golden(t, "llama", configFile)))
	_, err = Open(dir)
	wantError(t, err, os.ErrNotExist, weightsFile)
	write(t, filepath.Join(dir, "pytorch_model.bin"), nil)
	_, err = Open(dir)
	wantError(t, err, os.ErrNotExist, "convert them to safetensors")
	_, err = Open(filepath.Join(dir, configFile))
	wantError(t, err, ErrFormat, "neither a folder")
	write(t, filepath.Join(dir, weightsFile), []byte("xx"))
	_, err = Open(dir)
	wantError(t, err, ErrFormat, weightsFile)
}

func TestHostileIndex(t *testing.T) {
	sound := string(read(t, golden(t, "qwen3-sharded", indexFile)))
	const last = "model-00002-of-00002.safetensors"
	for name, c := range map[string]struct {
		index string
		kind  error
		says  string
	}{
		"outside the folder": {`{"weight_map":{"a":"../x.safetensors"}}`, ErrFormat, `"../x.safetensors"`},
		"absolute":           {`{"weight_map":{"a":"/x.safetensors"}}`, ErrFormat, `"/x.safetensors"`},
		"backslash":          {`{"weight_map":{"a":"..\\x.safetensors"}}`, ErrFormat, "x.safetensors"},
		"not a shard":        {`{"weight_map":{"a":"config.json"}}`, ErrFormat, `"config.json"`},
		"empty":              {`{"weight_map":{}}`, ErrFormat, "missing or empty"},
		"no map":             {`{}`, ErrFormat, "missing or empty"},
		"number":             {`{"weight_map":{"a":1}}`, ErrFormat, "expected"},
		"repeated":           {`{"weight_map":{"a":"x.safetensors","a":"x.safetensors"}}`, ErrFormat, indexFile},
		"missing shard":      {`{"weight_map":{"a":"x.safetensors"}}`, os.ErrNotExist, "x.safetensors"},
		"absent tensor":      {strings.Replace(sound, `"weight_map": {`, `"weight_map": {"ghost.weight": "`+last+`",`, 1), ErrTensors, `"ghost.weight"`},
		"wrong shard":        {strings.Replace(sound, `"lm_head.weight": "model-00001-of-`, `"lm_head.weight": "model-00002-of-`, 1), ErrTensors, `"lm_head.weight"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(golden(t, "qwen3-sharded"))); err != nil {
				t.Fatal(err)
			}
			os.Remove(filepath.Join(dir, indexFile))
			write(t, filepath.Join(dir, indexFile), []byte(c.index))
			_, err := Open(dir)
			wantError(t, err, c.kind, c.says)
		})
	}
	t.Run("tensor in two shards", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(golden(t, "qwen3-sharded"))); err != nil {
			t.Fatal(err)
		}
		os.Remove(filepath.Join(dir, last))
		write(t, filepath.Join(dir, last), read(t, filepath.Join(dir, "model-00001-of-00002.safetensors")))
		_, err := Open(dir)
		wantError(t, err, ErrFormat, "is in another shard too")
	})
}

// TestHash: the same bytes give the same hash, and a changed weight, config or shard another one.
func TestHash(t *testing.T) {
	hash := func(dir string) string {
		m := open(t, dir)
		first, err := m.Hash()
		if err != nil || len(first) != 64 {
			t.Fatalf("%q, %v", first, err)
		}
		if second, _ := m.Hash(); second != first {
			t.Errorf("%s then %s", first, second)
		}
		return first
	}
	base := hash(golden(t, "llama"))
	copied := t.TempDir()
	for _, name := range []string{configFile, weightsFile} {
		write(t, filepath.Join(copied, name), read(t, golden(t, "llama", name)))
	}
	if got := hash(copied); got != base {
		t.Errorf("a copy has %s, the original %s", got, base)
	}
	seen := map[string]string{base: "llama"}
	for name, dir := range map[string]string{
		"weight": variant(t, "llama", nil, map[string]*Source{"model.norm.weight": zeros(F32, 64)}),
		"config": variant(t, "llama", change{"rope_parameters.rope_theta": 5.0}, nil),
		"single": golden(t, "qwen3"), "shards": golden(t, "qwen3-sharded"),
	} {
		if h := hash(dir); seen[h] != "" {
			t.Errorf("%s and %s have one hash", name, seen[h])
		} else {
			seen[h] = name
		}
	}
}

func TestWriteFolder(t *testing.T) {
	m := open(t, golden(t, "qwen35-vl"))
	var tensors []Source
	for _, n := range m.Names() {
		x, _ := m.Tensor(n)
		name := "model." + n
		if n == headName {
			name = n
		}
		tensors = append(tensors, FromTensor(name, x))
	}
	dir := filepath.Join(t.TempDir(), "out", "model")
	note := filepath.Join(t.TempDir(), "note")
	write(t, note, []byte("hello"))
	folder := Folder{Config: m.Config.JSON(), Tensors: tensors, Copy: map[string]string{"tokenizer.json": note}}
	if err := WriteFolder(dir, folder); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	if again.Config.Multimodal || again.Prefix != "model." || string(read(t, filepath.Join(dir, "tokenizer.json"))) != "hello" {
		t.Errorf("prefix %q, %+v", again.Prefix, again.Config)
	}
	for _, n := range m.Names() {
		a, _ := m.Tensor(n)
		if b, err := again.Tensor(n); err != nil || !bytes.Equal(a.Data, b.Data) {
			t.Errorf("%s differs (%v)", n, err)
		}
	}
	wantError(t, WriteFolder(dir, folder), ErrExists, dir)

	// A model that would not load is not left behind.
	parent := t.TempDir()
	err := WriteFolder(filepath.Join(parent, "bad"), Folder{Config: m.Config.JSON(), Tensors: tensors[1:]})
	wantError(t, err, ErrTensors, "embed_tokens.weight")
	if err := WriteFolder(filepath.Join(parent, "bad"), Folder{Config: m.Config.JSON(), Tensors: tensors, Copy: map[string]string{"../x": note}}); err == nil {
		t.Error("a file was copied out of the folder")
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
	// A tied model that gains its own head: the edited flag and the rows go together.
	llama := open(t, golden(t, "llama"))
	config, err := Untie(read(t, golden(t, "llama", configFile)))
	if err != nil {
		t.Fatal(err)
	}
	tensors = nil
	for _, n := range llama.Names() {
		x, _ := llama.Tensor(n)
		tensors = append(tensors, FromTensor("model."+n, x))
	}
	head := zeros(F32, 320, 64)
	head.Name = headName
	dir = filepath.Join(t.TempDir(), "untied")
	if err := WriteFolder(dir, Folder{Config: config, Tensors: append(tensors, *head)}); err != nil {
		t.Fatal(err)
	}
	if m := open(t, dir); m.Config.Tied || len(m.Notes) != 0 {
		t.Errorf("tied %v, notes %q", m.Config.Tied, m.Notes)
	}
}

func TestCloseEndsTheModel(t *testing.T) {
	m, err := Open(golden(t, "llama"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Tensor(embedName); !errors.Is(err, ErrNoTensor) {
		t.Errorf("after Close: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
