package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"terraloom/lora/tokenizer"
)

// ggufFamilies are the values of general.architecture that are read.
var ggufFamilies = map[string]Family{"llama": Llama, "qwen2": Qwen2, "qwen3": Qwen3}

func openGGUF(path string) (*Model, error) {
	g, err := OpenGGUF(path)
	if err != nil {
		return nil, err
	}
	m, err := g.model()
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.files = []string{path}
	m.close = g.Close
	return m, nil
}

// model reads config, vocabulary and template from the metadata and gives the tensors their canonical names.
func (g *GGUF) model() (*Model, error) {
	meta := &ggufMeta{values: g.values}
	c := meta.config(g)
	if len(meta.errs) > 0 {
		return nil, errors.Join(meta.errs...)
	}
	vocab := meta.vocab(c.VocabSize)
	id := func(name string) int { return meta.id("tokenizer.ggml."+name+"_token_id", c.VocabSize) }
	c.BOS, c.Pad = id("bos"), id("padding")
	for _, end := range []int{id("eos"), id("eot")} {
		if end >= 0 && !slices.Contains(c.EOS, end) {
			c.EOS = append(c.EOS, end)
		}
	}
	template, _ := meta.text("tokenizer.chat_template", true)
	if len(meta.errs) > 0 {
		return nil, errors.Join(meta.errs...)
	}
	m := &Model{Config: c, Prefix: "model.", Skipped: map[string]int{}, ChatTemplate: template, Vocab: vocab,
		tensors: map[string]located{}, TokenizerFiles: map[string]string{}}
	for name, t := range g.tensors {
		if name == ropeFreqs {
			continue // became Config.Rope
		}
		canonical := canonicalGGUF(name)
		if canonical == "" {
			m.strays = append(m.strays, name)
			continue
		}
		m.tensors[canonical] = located{Tensor: t, fix: g.unpermute(&c, canonical, t)}
	}
	return m, nil
}

const ropeFreqs = "rope_freqs.weight"

var (
	ggufLayer = regexp.MustCompile(`^blk\.(0|[1-9][0-9]{0,8})\.([a-z_]+)\.(weight|bias)$`)
	ggufNames = map[string]string{"token_embd.weight": embedName, "output_norm.weight": "norm.weight", "output.weight": headName}
	ggufParts = map[string]string{
		"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
		"attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
		"ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
	}
)

// canonicalGGUF translates a tensor name, or returns "".
func canonicalGGUF(name string) string {
	if canonical, ok := ggufNames[name]; ok {
		return canonical
	}
	parts := ggufLayer.FindStringSubmatch(name)
	if parts == nil || ggufParts[parts[2]] == "" {
		return ""
	}
	return "layers." + parts[1] + "." + ggufParts[parts[2]] + "." + parts[3]
}

var queryOrKey = regexp.MustCompile(`\.self_attn\.(q|k)_proj\.(weight|bias)$`)

// unpermute undoes what llama.cpp does to the query and key rows of the llama architecture: it interleaves the two
// halves of each head, so that RoPE pairs are neighbours. Row (head, half, i) of the published layout is row
// (head, i, half) of the file. Rows are whole blocks, so this works on quantised bytes.
func (g *GGUF) unpermute(c *Config, canonical string, t Tensor) func([]byte) []byte {
	which := queryOrKey.FindStringSubmatch(canonical)
	if c.Family != Llama || which == nil {
		return nil
	}
	heads := c.NumHeads
	if which[1] == "k" {
		heads = c.NumKVHeads
	}
	rows := heads * c.HeadDim
	if len(t.Shape) == 0 || t.Shape[0] != rows || t.DType.Quantised() && len(t.Shape) < 2 {
		return nil // bind refuses the shape
	}
	row, half := len(t.Data)/rows, c.HeadDim/2
	return func(data []byte) []byte {
		out := make([]byte, len(data))
		for head := range heads {
			base := head * c.HeadDim
			for i := range half {
				for h := range 2 {
					from, to := base+2*i+h, base+h*half+i
					copy(out[to*row:(to+1)*row], data[from*row:])
				}
			}
		}
		return out
	}
}

// ggufMeta reads metadata values and gathers everything that is wrong with them.
type ggufMeta struct {
	values map[string]ggufValue
	errs   []error
}

func (m *ggufMeta) fail(kind error, key, format string, args ...any) {
	m.errs = append(m.errs, fmt.Errorf("gguf: %s: %s: %w", key, fmt.Sprintf(format, args...), kind))
}

func (m *ggufMeta) config(g *GGUF) Config {
	name, _ := m.text("general.architecture", false)
	family, ok := ggufFamilies[name]
	if !ok {
		m.fail(ErrUnsupported, "general.architecture", "unknown architecture %q; this program reads llama, qwen2 and qwen3 from GGUF", name)
		return Config{}
	}
	c := Config{Family: family}
	for _, a := range architectures {
		if a.family == family {
			c.Architecture = a.class
		}
	}
	key := func(s string) string { return name + "." + s }
	c.HiddenSize = m.integer(key("embedding_length"), maxDim, 1, nil)
	c.IntermediateSize = m.integer(key("feed_forward_length"), maxDim, 1, nil)
	c.NumLayers = m.integer(key("block_count"), maxLayers, 1, nil)
	c.NumHeads = m.integer(key("attention.head_count"), maxDim, 1, nil)
	c.NumKVHeads = m.integer(key("attention.head_count_kv"), maxDim, 1, func() int { return c.NumHeads })
	c.MaxPositions = m.integer(key("context_length"), math.MaxInt32, 1, nil)
	c.HeadDim = m.integer(key("attention.key_length"), maxDim, 1, func() int {
		if c.HiddenSize%max(c.NumHeads, 1) != 0 {
			m.fail(ErrFormat, key("attention.head_count"), "%d does not divide embedding_length %d", c.NumHeads, c.HiddenSize)
		}
		return c.HiddenSize / max(c.NumHeads, 1)
	})
	if v := m.integer(key("attention.value_length"), maxDim, 1, func() int { return c.HeadDim }); v != c.HeadDim {
		m.fail(ErrUnsupported, key("attention.value_length"), "%d differs from the key length %d", v, c.HeadDim)
	}
	if c.NumKVHeads > 0 && c.NumHeads%c.NumKVHeads != 0 || int64(c.NumHeads)*int64(c.HeadDim) > maxDim || c.HeadDim%2 != 0 {
		m.fail(ErrFormat, key("attention.head_count"), "%d query heads and %d kv heads of %d", c.NumHeads, c.NumKVHeads, c.HeadDim)
	}
	if n := m.integer(key("expert_count"), math.MaxInt32, 0, func() int { return 0 }); n > 0 {
		m.fail(ErrUnsupported, key("expert_count"), "mixture-of-experts layers are not computed here")
	}
	c.RMSNormEps = m.float(key("attention.layer_norm_rms_epsilon"), nil)
	if !(c.RMSNormEps > 0 && c.RMSNormEps <= 1) {
		m.fail(ErrFormat, key("attention.layer_norm_rms_epsilon"), "%v is not in (0, 1]", c.RMSNormEps)
	}
	m.rope(g, &c, key)

	embed := g.tensors["token_embd.weight"]
	if len(embed.Shape) == 2 && embed.Shape[0] <= maxVocab {
		c.VocabSize = embed.Shape[0]
	} else {
		m.fail(ErrTensors, "token_embd.weight", "missing, or its shape %v is not [vocabulary, %d]", embed.Shape, c.HiddenSize)
	}
	_, head := g.tensors["output.weight"]
	_, bias := g.tensors["blk.0.attn_q.bias"]
	c.Tied = !head
	c.QKNorm = family == Qwen3
	c.QKVBias = family == Qwen2 || bias
	_, c.OutBias = g.tensors["blk.0.attn_output.bias"]
	_, c.MLPBias = g.tensors["blk.0.ffn_gate.bias"]
	for range c.NumLayers {
		c.LayerTypes = append(c.LayerTypes, FullAttention)
	}
	return c
}

// rope reads the base, and recognises Llama 3.1 scaling, which GGUF stores as one divisor per frequency.
func (m *ggufMeta) rope(g *GGUF, c *Config, key func(string) string) {
	r := &c.Rope
	r.Type, r.Dim = RopeDefault, c.HeadDim
	r.Theta = m.float(key("rope.freq_base"), func() float64 {
		c.Assumed = append(c.Assumed, key("rope.freq_base")+" is missing: 10000")
		return 10000
	})
	if !(r.Theta > 1) {
		m.fail(ErrFormat, key("rope.freq_base"), "%v is not above 1", r.Theta)
	}
	if d := m.integer(key("rope.dimension_count"), maxDim, 1, func() int { return c.HeadDim }); d != c.HeadDim {
		m.fail(ErrUnsupported, key("rope.dimension_count"), "%d of %d elements are rotated; %s rotates whole heads", d, c.HeadDim, c.Family)
	}
	if kind, ok := m.text(key("rope.scaling.type"), true); ok && kind != "" && kind != "none" {
		m.fail(ErrUnsupported, key("rope.scaling.type"), "RoPE type %q is not computed here", kind)
	}
	divisors, ok := g.tensors[ropeFreqs]
	if !ok || len(m.errs) > 0 {
		return
	}
	f, err := divisors.Float32()
	if err != nil || len(f) != c.HeadDim/2 || len(f) == 0 {
		m.fail(ErrTensors, ropeFreqs, "shape %v, expected [%d]", divisors.Shape, c.HeadDim/2)
		return
	}
	// The parameters themselves are not stored. All Llama 3.x models use these; the check below proves it.
	*r = Rope{Type: RopeLlama3, Theta: r.Theta, Dim: r.Dim, Factor: float64(f[len(f)-1]), LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}
	for i, got := range f {
		if want := r.llama3Divisor(i); math.Abs(float64(got)-want) > 1e-4*want {
			m.fail(ErrUnsupported, ropeFreqs, "divisor %d is %v; Llama 3.1 scaling by %v would have %v", i, got, r.Factor, want)
			return
		}
	}
}

// llama3Divisor is what Llama 3.1 divides frequency i by: 1 above high_freq_factor turns in the original length, Factor
// below low_freq_factor, and in between a blend linear in the number of turns.
func (r *Rope) llama3Divisor(i int) float64 {
	frequency := math.Pow(r.Theta, -2*float64(i)/float64(r.Dim))
	turns := float64(r.OriginalMaxPositions) * frequency / (2 * math.Pi)
	blend := min(max((turns-r.LowFreqFactor)/(r.HighFreqFactor-r.LowFreqFactor), 0), 1)
	return 1 / ((1-blend)/r.Factor + blend)
}

// vocab reads tokenizer.ggml.*; nil if the file has no tokenizer.
func (m *ggufMeta) vocab(size int) *tokenizer.GGUFVocab {
	const prefix = "tokenizer.ggml."
	model, ok := m.text(prefix+"model", true)
	if !ok {
		return nil
	}
	v := &tokenizer.GGUFVocab{Model: model}
	v.Pre, _ = m.text(prefix+"pre", true)
	if value, there := m.values[prefix+"tokens"]; !there {
		m.fail(ErrFormat, prefix+"tokens", "missing")
	} else if v.Tokens, ok = value.texts(); !ok || len(v.Tokens) > size {
		m.fail(ErrFormat, prefix+"tokens", "expected a list of at most %d strings, one per embedding", size)
	}
	if value, there := m.values[prefix+"merges"]; there {
		if v.Merges, ok = value.texts(); !ok {
			m.fail(ErrFormat, prefix+"merges", "expected a list of strings")
		}
	}
	if value, there := m.values[prefix+"token_type"]; there {
		types, ok := value.integers()
		if !ok || len(types) != len(v.Tokens) {
			m.fail(ErrFormat, prefix+"token_type", "expected a list of %d integers, one per token", len(v.Tokens))
		}
		for _, t := range types {
			v.TokenTypes = append(v.TokenTypes, int32(t))
		}
	}
	v.BOS, v.EOS = int32(m.id(prefix+"bos_token_id", size)), int32(m.id(prefix+"eos_token_id", size))
	v.PAD, v.UNK = int32(m.id(prefix+"padding_token_id", size)), int32(m.id(prefix+"unknown_token_id", size))
	v.AddBOS, v.AddEOS = m.flag(prefix+"add_bos_token"), m.flag(prefix+"add_eos_token")
	return v
}

func (m *ggufMeta) text(key string, optional bool) (string, bool) {
	v, ok := m.values[key]
	if !ok {
		if !optional {
			m.fail(ErrFormat, key, "missing")
		}
		return "", false
	}
	s, ok := v.text()
	if !ok {
		m.fail(ErrFormat, key, "not a string of valid UTF-8")
	}
	return s, ok
}

// integer is in [least, limit], or what missing returns; without missing, absence is an error. Where the file lists one
// value per layer, all must agree.
func (m *ggufMeta) integer(key string, limit, least int, missing func() int) int {
	v, ok := m.values[key]
	if !ok {
		if missing != nil {
			return missing()
		}
		m.fail(ErrFormat, key, "missing, expected an integer")
		return 1
	}
	n, ok := v.integer()
	if list, isList := v.integers(); isList && len(list) > 0 {
		n, ok = list[0], true
		for _, other := range list {
			if other != n {
				m.fail(ErrUnsupported, key, "differs between layers")
				return 1
			}
		}
	}
	if !ok || n < int64(least) || n > int64(limit) {
		m.fail(ErrFormat, key, "expected an integer from %d to %d", least, limit)
		return 1
	}
	return int(n)
}

func (m *ggufMeta) float(key string, missing func() float64) float64 {
	v, ok := m.values[key]
	if !ok {
		if missing != nil {
			return missing()
		}
		m.fail(ErrFormat, key, "missing, expected a number")
		return 0
	}
	f, ok := v.float()
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		m.fail(ErrFormat, key, "expected a finite number")
	}
	return f
}

func (m *ggufMeta) flag(key string) bool {
	v, there := m.values[key]
	if !there {
		return false
	}
	b, ok := v.boolean()
	if !ok {
		m.fail(ErrFormat, key, "expected a boolean")
	}
	return b
}

// id is a token id inside the vocabulary, −1 (tokenizer.NoToken) when absent.
func (m *ggufMeta) id(key string, vocab int) int {
	v, there := m.values[key]
	if !there {
		return -1
	}
	n, ok := v.integer()
	if !ok || n < 0 || n >= int64(max(vocab, 1)) {
		m.fail(ErrFormat, key, "expected a token id below %d", vocab)
		return -1
	}
	return int(n)
}

func shortestDecimal(f float32) float64 {
	d, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	return d
}
