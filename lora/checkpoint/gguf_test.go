package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func saved(tb testing.TB, b *builder) string {
	path := filepath.Join(tb.TempDir(), "model.gguf")
	write(tb, path, b.bytes())
	return path
}

// TestGGUFEqualsFolder: a reference model and its GGUF form are the same config and the same tensors, whatever the
// order of the table, of the data, and the alignment.
func TestGGUFEqualsFolder(t *testing.T) {
	for _, name := range []string{"llama", "qwen2", "qwen3"} {
		for _, order := range []string{"as listed", "data reversed", "both reversed, aligned to 64", "version 2"} {
			t.Run(name+" "+order, func(t *testing.T) {
				b, want := asGGUF(t, name)
				switch order {
				case "data reversed":
					for i := range b.tensors {
						b.place = append(b.place, len(b.tensors)-1-i)
					}
				case "both reversed, aligned to 64":
					slices.Reverse(b.tensors)
					slices.Reverse(b.keys)
					b.align = 64
					b.set("general.alignment", uint32(64))
				case "version 2":
					b.version = 2
				}
				m := open(t, saved(t, b))
				if !reflect.DeepEqual(m.Config, want.Config) {
					t.Errorf("config\n%+v\nexpected\n%+v", m.Config, want.Config)
				}
				if !slices.Equal(m.Names(), want.Names()) || m.Prefix != want.Prefix {
					t.Fatalf("names %q", m.Names())
				}
				for _, n := range want.Names() {
					a, _ := want.Tensor(n)
					x, err := m.Tensor(n)
					if err != nil || !slices.Equal(a.Shape, x.Shape) || !bytes.Equal(a.Data, x.Data) {
						t.Errorf("%s differs (%v)", n, err)
					}
				}
				v := m.Vocab
				if v == nil || v.Model != "gpt2" || v.Pre != "smollm" || !slices.Equal(v.Tokens, []string{"a", "b", "ab", "é"}) ||
					!slices.Equal(v.Merges, []string{"a b"}) || !slices.Equal(v.TokenTypes, []int32{1, 1, 1, 3}) ||
					v.BOS != 1 || v.EOS != 2 || v.PAD != 0 || v.UNK != -1 || v.AddBOS {
					t.Errorf("vocabulary %+v", v)
				}
				if m.ChatTemplate != "{{ messages }}" {
					t.Errorf("template %q", m.ChatTemplate)
				}
			})
		}
	}
}

// TestGGUFPermutationOfQuantisedRows: rows of blocks are put back in order as float rows are.
func TestGGUFPermutationOfQuantisedRows(t *testing.T) {
	b, _ := asGGUF(t, "llama")
	rows := make([]byte, 64*2*34) // 64 rows of 64 elements: 2 blocks of Q8_0
	for i := range 64 * 2 {
		binary.LittleEndian.PutUint16(rows[34*i:], 0x3c00)
		for j := range 32 {
			rows[34*i+2+j] = byte(i / 2) // the row's number
		}
	}
	for i := range b.tensors {
		if b.tensors[i].name == "blk.0.attn_q.weight" {
			b.tensors[i].kind, b.tensors[i].data = 8, permute(rows, 4, 16)
		}
	}
	m := open(t, saved(t, b))
	got, err := m.Float32("layers.0.self_attn.q_proj.weight")
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != float32(i/64) {
			t.Fatalf("row %d holds row %v", i/64, v)
		}
	}
	if x, _ := m.Tensor("layers.0.self_attn.q_proj.weight"); !bytes.Equal(x.Data, rows) || x.DType != Q8_0 {
		t.Error("blocks are not as before the permutation")
	}
	if !m.Quantised() {
		t.Error("not said to be quantised")
	}
}

// TestGGUFLlama3Rope: the divisors that GGUF stores are recognised as Llama 3.1 scaling, and nothing else is.
func TestGGUFLlama3Rope(t *testing.T) {
	b, _ := asGGUF(t, "llama")
	want := Rope{Type: RopeLlama3, Theta: 1e5, Dim: 16, Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}
	divisors := make([]float32, 8)
	for i := range divisors {
		// Straight from the published rule: wavelengths below 8192/4 keep their frequency, above 8192/1 lose a factor.
		wavelength := 2 * math.Pi / math.Pow(1e5, -2*float64(i)/16)
		switch {
		case wavelength < 8192.0/4:
			divisors[i] = 1
		case wavelength > 8192:
			divisors[i] = 32
		default:
			smooth := (8192/wavelength - 1) / (4 - 1)
			divisors[i] = float32(1 / ((1-smooth)/32 + smooth))
		}
	}
	data := func() (raw []byte) {
		for _, d := range divisors {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(d))
		}
		return raw
	}
	b.tensors = append(b.tensors, builderTensor{name: ropeFreqs, shape: []int{8}, data: data()})
	if m := open(t, saved(t, b)); m.Config.Rope != want {
		t.Errorf("%+v, expected %+v", m.Config.Rope, want)
	}
	divisors[4] *= 1.01
	b.tensors[len(b.tensors)-1].data = data()
	_, err := Open(saved(t, b))
	wantError(t, err, ErrUnsupported, ropeFreqs, "divisor 4")
	b.tensors[len(b.tensors)-1].shape = []int{2, 4}
	b.tensors[len(b.tensors)-1].data = data()[:16]
	b.tensors[len(b.tensors)-1].shape = []int{4}
	_, err = Open(saved(t, b))
	wantError(t, err, ErrTensors, ropeFreqs, "expected [8]")
}

func TestGGUFRefusesModels(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *builder)
		kind error
		says string
	}{
		{"architecture", func(b *builder) { b.set("general.architecture", "qwen35") }, ErrUnsupported, `unknown architecture "qwen35"`},
		{"no architecture", func(b *builder) { b.drop("general.architecture") }, ErrFormat, "general.architecture: missing"},
		{"architecture is a number", func(b *builder) { b.set("general.architecture", uint32(3)) }, ErrFormat, "not a string"},
		{"rope type", func(b *builder) { b.set("llama.rope.scaling.type", "yarn") }, ErrUnsupported, `"yarn"`},
		{"partial rope", func(b *builder) { b.set("llama.rope.dimension_count", uint32(8)) }, ErrUnsupported, "8 of 16"},
		{"experts", func(b *builder) { b.set("llama.expert_count", uint32(8)) }, ErrUnsupported, "expert_count"},
		{"value length", func(b *builder) { b.set("llama.attention.value_length", uint32(8)) }, ErrUnsupported, "value_length"},
		{"heads differ", func(b *builder) { b.set("llama.attention.head_count_kv", []uint32{2, 2, 4}) }, ErrUnsupported, "differs between layers"},
		{"no heads", func(b *builder) { b.drop("llama.attention.head_count") }, ErrFormat, "attention.head_count: missing"},
		{"no layers", func(b *builder) { b.set("llama.block_count", uint32(0)) }, ErrFormat, "llama.block_count"},
		{"many layers", func(b *builder) { b.set("llama.block_count", uint64(1<<63)) }, ErrFormat, "llama.block_count"},
		{"no epsilon", func(b *builder) { b.drop("llama.attention.layer_norm_rms_epsilon") }, ErrFormat, "epsilon: missing"},
		{"epsilon NaN", func(b *builder) { b.set("llama.attention.layer_norm_rms_epsilon", float32(math.NaN())) }, ErrFormat, "epsilon"},
		{"base 0", func(b *builder) { b.set("llama.rope.freq_base", float32(0)) }, ErrFormat, "freq_base"},
		{"tokens and embeddings", func(b *builder) { b.set("tokenizer.ggml.tokens", make([]string, 321)) }, ErrFormat, "at most 320"},
		{"no tokens", func(b *builder) { b.drop("tokenizer.ggml.tokens") }, ErrFormat, "tokenizer.ggml.tokens: missing"},
		{"tokens are numbers", func(b *builder) { b.set("tokenizer.ggml.tokens", []uint32{1}) }, ErrFormat, "tokenizer.ggml.tokens"},
		{"types", func(b *builder) { b.set("tokenizer.ggml.token_type", []int32{1}) }, ErrFormat, "a list of 4 integers"},
		{"merges", func(b *builder) { b.set("tokenizer.ggml.merges", true) }, ErrFormat, "merges"},
		{"id outside", func(b *builder) { b.set("tokenizer.ggml.eos_token_id", uint32(320)) }, ErrFormat, "below 320"},
		{"flag", func(b *builder) { b.set("tokenizer.ggml.add_bos_token", uint32(1)) }, ErrFormat, "add_bos_token"},
		{"no embedding", func(b *builder) { b.tensors = b.tensors[1:] }, ErrTensors, "token_embd.weight"},
		{"missing tensor", func(b *builder) { b.tensors = b.tensors[:len(b.tensors)-1] }, ErrTensors, "norm.weight[64] is missing"},
		{"foreign tensor", func(b *builder) { b.tensors[5].name = "blk.0.ssm_a" }, ErrTensors, "blk.0.ssm_a does not belong"},
		{"foreign bias", func(b *builder) {
			b.tensors = append(b.tensors, builderTensor{name: "blk.1.attn_q.bias", shape: []int{64}, data: make([]byte, 256)})
		}, ErrTensors, "blk.1.attn_q.bias does not belong"},
		{"query rows", func(b *builder) { b.set("llama.attention.head_count", uint32(2)) }, ErrTensors, "expected [32 64]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := asGGUF(t, "llama")
			c.do(b)
			path := saved(t, b)
			_, err := Open(path)
			wantError(t, err, c.kind, c.says, path)
		})
	}
}

// small is a GGUF file of two tensors.
func small() *builder {
	b := &builder{version: 3, values: map[string]any{}, align: 32}
	b.set("a", uint32(1))
	b.set("list", []string{"x", "yz"})
	b.tensors = []builderTensor{{name: "first", shape: []int{2, 3}, data: make([]byte, 24)}, {name: "second", kind: 8, shape: []int{64}, data: make([]byte, 68)}}
	return b
}

func at(n uint64) *uint64 { return &n }

// hostileGGUF are damaged files, with what the error must say.
func hostileGGUF() map[string]struct {
	raw  []byte
	kind error
	says string
} {
	type refusal = struct {
		raw  []byte
		kind error
		says string
	}
	out := map[string]refusal{}
	add := func(name string, kind error, says string, do func(b *builder)) {
		b := small()
		do(b)
		out[name] = refusal{b.bytes(), kind, says}
	}
	raw := func(kind uint32, value ...byte) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, kind), value...)
	}
	array := func(kind uint32, n uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(raw(ggufArray), kind), n)
	}
	sound := small().bytes()
	out["empty"] = refusal{nil, ErrFormat, "does not begin"}
	out["magic only"] = refusal{[]byte("GGUF"), ErrUnsupported, "version 0"}
	out["magic"] = refusal{[]byte("GGML....."), ErrFormat, "does not begin"}
	out["counts"] = refusal{binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(bytes.Clone(sound[:8]), 1<<60), 1<<60), ErrFormat, "wanted"}
	out["truncated data"] = refusal{sound[:len(sound)-1], ErrFormat, "truncated"}
	out["no data"] = refusal{sound[:len(sound)-110], ErrFormat, "data part of 0"}
	add("version 1", ErrUnsupported, "version 1", func(b *builder) { b.version = 1 })
	add("big-endian", ErrUnsupported, "big-endian", func(b *builder) { b.version = 3 << 24 })
	add("repeated key", ErrFormat, `"a" is there twice`, func(b *builder) { b.keys = append(b.keys, "a") })
	add("repeated tensor", ErrFormat, `"first" is there twice`, func(b *builder) { b.tensors[1].name = "first" })
	add("key not UTF-8", ErrFormat, "UTF-8", func(b *builder) { b.set("\xff", true) })
	add("long key", ErrFormat, "at most 65536", func(b *builder) { b.set(strings.Repeat("k", maxGGUFKey+1), true) })
	add("value type", ErrFormat, "unknown type 13", func(b *builder) { b.set("x", raw(13)) })
	add("value type 2^32-1", ErrFormat, "unknown type", func(b *builder) { b.set("x", raw(math.MaxUint32)) })
	add("element type", ErrFormat, "unknown element type 99", func(b *builder) { b.set("x", array(99, 1)) })
	add("nested array", ErrFormat, "arrays of arrays", func(b *builder) { b.set("x", array(ggufArray, 1)) })
	add("array length", ErrFormat, "wanted", func(b *builder) { b.set("x", array(ggufU64, 1<<59)) })
	add("array overflow", ErrFormat, "elements", func(b *builder) { b.set("x", array(ggufU64, 1<<61)) })
	add("string array", ErrFormat, "wanted", func(b *builder) { b.set("x", array(ggufString, 1<<60)) })
	add("string length", ErrFormat, "wanted", func(b *builder) {
		b.set("x", raw(ggufString, 255, 255, 255, 255, 255, 255, 255, 255))
	})
	add("alignment 0", ErrFormat, "general.alignment", func(b *builder) { b.set("general.alignment", uint32(0)) })
	add("alignment 24", ErrFormat, "general.alignment", func(b *builder) { b.set("general.alignment", uint32(24)) })
	add("alignment huge", ErrFormat, "general.alignment", func(b *builder) { b.set("general.alignment", uint64(1<<40)) })
	add("alignment text", ErrFormat, "general.alignment", func(b *builder) { b.set("general.alignment", "32") })
	add("five dimensions", ErrFormat, "5 dimensions", func(b *builder) { b.tensors[0].shape = []int{1, 1, 1, 2, 3} })
	add("negative dimension", ErrFormat, "dimension", func(b *builder) { b.tensors[0].shape = []int{-1} })
	add("product overflows", ErrFormat, "too large", func(b *builder) { b.tensors[0].shape = []int{1 << 40, 1 << 40} })
	add("half a block", ErrFormat, "whole blocks of 32", func(b *builder) { b.tensors[1].shape = []int{4, 16} })
	add("type not read", ErrUnsupported, "IQ4_NL", func(b *builder) { b.tensors[1].kind = 20 })
	add("type unknown", ErrUnsupported, "unknown number 77", func(b *builder) { b.tensors[1].kind = 77 })
	add("offset unaligned", ErrFormat, "not a multiple of 32", func(b *builder) { b.tensors[1].offset = at(33) })
	add("overlap", ErrFormat, "overlaps", func(b *builder) { b.tensors[1].offset = at(0) })
	add("outside", ErrFormat, "truncated", func(b *builder) { b.tensors[1].offset = at(1 << 20) })
	add("offset overflow", ErrFormat, "truncated", func(b *builder) { b.tensors[1].offset = at(math.MaxUint64 - 31) })
	add("long name", ErrFormat, "at most 1024", func(b *builder) { b.tensors[0].name = strings.Repeat("n", 1025) })
	return out
}

func TestGGUFRefusesHostileFiles(t *testing.T) {
	if _, err := ParseGGUF(small().bytes()); err != nil {
		t.Fatal(err)
	}
	for name, c := range hostileGGUF() {
		t.Run(name, func(t *testing.T) {
			_, err := ParseGGUF(c.raw)
			wantError(t, err, c.kind, c.says)
		})
	}
	// Every prefix of a sound file is an error, not a crash.
	b, _ := asGGUF(t, "llama")
	whole := b.bytes()
	for n := 0; n < len(whole); n += 1 + n/50 {
		if _, err := ParseGGUF(whole[:n]); err == nil {
			t.Fatalf("the first %d bytes of %d were accepted", n, len(whole))
		}
	}
}

func TestGGUFValues(t *testing.T) {
	b := small()
	for key, value := range map[string]any{"u8": uint8(200), "i8": int8(-2), "u16": uint16(60000), "i16": int16(-3), "u32": uint32(4e9),
		"i32": int32(-4), "u64": uint64(1 << 40), "i64": int64(-5), "f32": float32(1e-5), "f64": 1.5, "yes": true, "text": "é",
		"many": []int16{1, -1}, "none": []uint32{}} {
		b.set(key, value)
	}
	g, err := ParseGGUF(b.bytes())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"u8": 200, "i8": -2, "u16": 60000, "i16": -3, "u32": 4e9, "i32": -4, "u64": 1 << 40, "i64": -5} {
		if n, ok := g.values[key].integer(); !ok || n != want {
			t.Errorf("%s is %d", key, n)
		}
		if f, ok := g.values[key].float(); !ok || f != float64(want) {
			t.Errorf("%s as a float is %v", key, f)
		}
	}
	if f, ok := g.values["f32"].float(); !ok || f != 1e-5 {
		t.Errorf("float32(1e-5) is %v", f)
	}
	if f, ok := g.values["f64"].float(); !ok || f != 1.5 {
		t.Errorf("f64 is %v", f)
	}
	if v, ok := g.values["yes"].boolean(); !ok || !v {
		t.Error("yes is not true")
	}
	if s, ok := g.values["text"].text(); !ok || s != "é" {
		t.Errorf("text is %q", s)
	}
	if list, ok := g.values["many"].integers(); !ok || !slices.Equal(list, []int64{1, -1}) {
		t.Errorf("many is %v", list)
	}
	if list, ok := g.values["none"].integers(); !ok || len(list) != 0 {
		t.Errorf("none is %v", list)
	}
	if list, ok := g.values["list"].texts(); !ok || !slices.Equal(list, []string{"x", "yz"}) {
		t.Errorf("list is %q", list)
	}
	if _, ok := g.values["text"].integer(); ok {
		t.Error("a string is an integer")
	}
	if _, err := g.Tensor("third"); !errors.Is(err, ErrNoTensor) {
		t.Errorf("absent tensor: %v", err)
	}
}

// TestRealGGUF reads the pulled SmolLM2-135M-Instruct and compares every dequantised tensor, rows of query and key put
// back, with the hash of what ggml's Python package and numpy make of the file.
func TestRealGGUF(t *testing.T) {
	path, err := find("smollm2-135m")
	if err != nil {
		t.Skipf("the model is not here: %v", err)
	}
	m := open(t, path)
	want := Config{Family: Llama, Architecture: "LlamaForCausalLM", HiddenSize: 576, IntermediateSize: 1536, NumLayers: 30, NumHeads: 9, NumKVHeads: 3,
		HeadDim: 64, VocabSize: 49152, MaxPositions: 8192, RMSNormEps: 1e-5, Rope: Rope{Type: RopeDefault, Theta: 1e5, Dim: 64}, Tied: true,
		DType: F32, BOS: 1, Pad: 2, EOS: []int{2}}
	got := m.Config
	got.LayerTypes = nil
	if !reflect.DeepEqual(got, want) || m.Config.CountLayers(FullAttention) != 30 {
		t.Errorf("%+v", m.Config)
	}
	if m.Vocab == nil || m.Vocab.Model != "gpt2" || m.Vocab.Pre != "smollm" || len(m.Vocab.Tokens) != 49152 || len(m.Vocab.Merges) != 48900 {
		t.Error("vocabulary")
	}
	if !strings.Contains(m.ChatTemplate, "<|im_start|>") || !m.Quantised() {
		t.Errorf("template %q, quantised %v", m.ChatTemplate, m.Quantised())
	}
	h := sha256.New()
	for _, n := range slices.Sorted(slices.Values(m.Names())) {
		values, err := m.Float32(n)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(h, n)
		if err := writeFloats(h, F32, values); err != nil {
			t.Fatal(err)
		}
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != "2c0fa1311b476b0166e0a91a2d14ddd0002ae5e6be4632b288297d0112b42e35" {
		t.Errorf("weights hash to %s", sum)
	}
	if hash, err := m.Hash(); err != nil || hash != packages["smollm2-135m"].sha256 {
		t.Errorf("file hashes to %s, %v", hash, err)
	}
}

// FuzzGGUF: no panic; what is accepted can be decoded, and opening it as a model gives a model or an error.
func FuzzGGUF(f *testing.F) {
	f.Add(small().bytes())
	hostile := hostileGGUF()
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		if raw := hostile[name].raw; len(raw) < 4096 {
			f.Add(raw)
		}
	}
	b := small() // a complete model of one tiny layer
	b.tensors = nil
	b.set("general.architecture", "llama")
	for _, key := range []string{"block_count", "context_length", "attention.head_count"} {
		b.set("llama."+key, uint32(1))
	}
	b.set("llama.embedding_length", uint32(2))
	b.set("llama.feed_forward_length", uint32(2))
	b.set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	b.set("tokenizer.ggml.model", "gpt2")
	b.set("tokenizer.ggml.tokens", []string{"a"})
	for name, shape := range map[string][]int{"token_embd": {1, 2}, "output_norm": {2}, "blk.0.attn_norm": {2}, "blk.0.ffn_norm": {2}, "blk.0.attn_q": {2, 2},
		"blk.0.attn_k": {2, 2}, "blk.0.attn_v": {2, 2}, "blk.0.attn_output": {2, 2}, "blk.0.ffn_gate": {2, 2}, "blk.0.ffn_up": {2, 2}, "blk.0.ffn_down": {2, 2}} {
		n, _ := numElements(shape)
		b.tensors = append(b.tensors, builderTensor{name: name + ".weight", shape: shape, data: make([]byte, 4*n)})
	}
	slices.SortFunc(b.tensors, func(x, y builderTensor) int { return strings.Compare(x.name, y.name) })
	f.Add(b.bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		g, err := ParseGGUF(raw)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		for _, n := range g.Names() {
			x, err := g.Tensor(n)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := x.Float32(); err != nil {
				t.Fatal(err)
			}
		}
		m, err := g.model()
		if err == nil {
			err = m.bind()
		}
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrTensors) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		for _, n := range m.Names() {
			if _, err := m.Float32(n); err != nil {
				t.Fatal(err)
			}
		}
	})
}
