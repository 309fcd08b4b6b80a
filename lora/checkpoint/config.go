package checkpoint

import (
	"fmt"
	"math"
)

// Family is a decoder architecture.
type Family string

// The families this program computes.
const (
	Llama  Family = "llama"
	Qwen2  Family = "qwen2"
	Qwen3  Family = "qwen3"
	Qwen35 Family = "qwen3_5"
)

// LayerType is the mixer of one decoder layer.
type LayerType string

// Mixers: softmax attention over all earlier tokens, and the gated delta rule.
const (
	FullAttention   LayerType = "full_attention"
	LinearAttention LayerType = "linear_attention"
)

// RoPE types.
const (
	RopeDefault = "default"
	RopeLlama3  = "llama3"
)

// Rope describes the rotary position embedding. Pairs are (i, i+Dim/2) inside the first Dim elements of a head
// (the "half-split" layout); the rest of the head passes through.
type Rope struct {
	Type  string  // RopeDefault or RopeLlama3
	Theta float64 // base of the frequencies θ^(−2i/Dim)
	Dim   int     // rotated elements of each head: head_dim · partial_rotary_factor

	// Llama 3.1 frequency scaling, set for RopeLlama3 only.
	Factor               float64
	LowFreqFactor        float64
	HighFreqFactor       float64
	OriginalMaxPositions int
}

// LinearAttn holds the dimensions of the gated delta rule mixers; zero in families without them.
type LinearAttn struct {
	KeyHeads, ValueHeads     int
	KeyHeadDim, ValueHeadDim int
	ConvKernel               int
}

// KeyDim is the width of all queries, and of all keys.
func (l LinearAttn) KeyDim() int { return l.KeyHeads * l.KeyHeadDim }

// ValueDim is the width of all values.
func (l LinearAttn) ValueDim() int { return l.ValueHeads * l.ValueHeadDim }

// ConvDim is the number of channels of the causal convolution: queries, keys and values.
func (l LinearAttn) ConvDim() int { return 2*l.KeyDim() + l.ValueDim() }

// Config is what a decoder needs to know of a model, the same for every family.
type Config struct {
	Family       Family
	Architecture string // transformers' class name, e.g. Qwen3_5ForConditionalGeneration
	Multimodal   bool   // a wrapper class with a vision tower; the rest describes its text part

	HiddenSize       int
	IntermediateSize int
	NumLayers        int
	NumHeads         int // query heads
	NumKVHeads       int // query head h reads kv head h / (NumHeads/NumKVHeads)
	HeadDim          int
	VocabSize        int // rows of the embedding, padding rows included
	MaxPositions     int

	RMSNormEps      float64
	ZeroCentredNorm bool // the norms' scale is 1+w instead of w (not the linear mixers' gated norm, always plain)
	Rope            Rope
	QKNorm          bool // RMSNorm over each query and key head before RoPE
	QKVBias         bool // q_proj, k_proj, v_proj have biases
	OutBias         bool // o_proj has a bias
	MLPBias         bool // gate_proj, up_proj, down_proj have biases
	OutputGate      bool // q_proj holds query and gate rows interleaved per head; attention output ⊙ sigmoid(gate)

	LayerTypes []LayerType // one per layer
	LinearAttn LinearAttn

	Tied  bool  // the head is the embedding matrix
	DType DType // F32, BF16 or F16: as declared, else (after Open) as the embedding, F32 for quantised ones; may be empty

	BOS, Pad int   // −1 if there is none
	EOS      []int // ids that end a text

	// Assumed lists values that the file did not state and that were filled in, in words. Print them.
	Assumed []string
}

// QDim is the number of rows of q_proj.
func (c *Config) QDim() int {
	if c.OutputGate {
		return 2 * c.NumHeads * c.HeadDim
	}
	return c.NumHeads * c.HeadDim
}

// KVDim is the number of rows of k_proj and of v_proj.
func (c *Config) KVDim() int { return c.NumKVHeads * c.HeadDim }

// CountLayers is the number of layers of type t.
func (c *Config) CountLayers(t LayerType) int {
	n := 0
	for _, l := range c.LayerTypes {
		if l == t {
			n++
		}
	}
	return n
}

// architecture ties the class names and model types of config.json to families.
type architecture struct {
	class      string
	modelType  string
	family     Family
	multimodal bool
}

var architectures = []architecture{
	{"LlamaForCausalLM", "llama", Llama, false},
	{"Qwen2ForCausalLM", "qwen2", Qwen2, false},
	{"Qwen3ForCausalLM", "qwen3", Qwen3, false},
	{"Qwen3_5ForCausalLM", "qwen3_5_text", Qwen35, false},
	{"Qwen3_5ForConditionalGeneration", "qwen3_5", Qwen35, true},
}

// familyDefaults are the values that transformers' config classes fill in when config.json leaves them out.
type familyDefaults struct {
	headDim      int // 0: hidden_size / num_attention_heads
	maxPositions int
	partial      float64
}

var defaults = map[Family]familyDefaults{
	Llama:  {0, 2048, 1},
	Qwen2:  {0, 32768, 1},
	Qwen3:  {128, 32768, 1},
	Qwen35: {256, 32768, 0.25},
}

// Largest dimensions accepted, far above any published model; they keep every product of two or three of them inside 63 bits.
const (
	maxDim    = 1 << 20
	maxVocab  = 1 << 24
	maxLayers = 4096
)

// ParseConfig reads config.json of Llama, Qwen2/2.5, Qwen3 and Qwen3.5 (text class or multimodal wrapper, of which the
// text part is used), in the layouts of transformers 4 (rope_theta, rope_scaling, torch_dtype) and 5 (rope_parameters,
// dtype). All problems are reported at once: wrong JSON, repeated keys and wrong types as [ErrFormat], anything the
// decoder does not compute (architecture, RoPE type, activation, sliding windows, quantised weights …) as
// [ErrUnsupported].
func ParseConfig(raw []byte) (Config, error) {
	p, err := parseObject(configFile, raw)
	if err != nil {
		return Config{}, err
	}
	return parseConfig(p)
}

// parseConfig is ParseConfig of a parsed file.
func parseConfig(p *fields) (Config, error) {
	arch, err := findArchitecture(p)
	if err != nil {
		return Config{}, err
	}
	text := p
	var nested *fields
	if arch.family == Qwen35 {
		nested = p.object("text_config")
	}
	if arch.multimodal && nested == nil {
		p.fail(ErrFormat, "text_config", "missing, expected the object that describes the text part of %s", arch.class)
		return Config{}, p.err()
	}
	if nested != nil {
		text = nested
	}
	c := Config{Family: arch.family, Architecture: arch.class, Multimodal: arch.multimodal}
	c.readShape(text)
	c.readAttention(text)
	c.readRope(text)
	c.readLayers(text)
	c.readTokens(text, p)
	c.refuseUnknownMaths(text, p)

	// Without an lm_head in the file, the wrapper class obeys the outer flag, the text class the inner one.
	outer, hasOuter := p.boolean("tie_word_embeddings")
	inner, hasInner := text.boolean("tie_word_embeddings")
	switch {
	case hasOuter && (arch.multimodal || !hasInner):
		c.Tied = outer
	case hasInner:
		c.Tied = inner
	default:
		c.assume("tie_word_embeddings is missing: false")
	}
	c.DType = declaredDType(text)
	if c.DType == "" {
		c.DType = declaredDType(p)
	}

	if err := p.err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c *Config) assume(format string, args ...any) {
	c.Assumed = append(c.Assumed, fmt.Sprintf(format, args...))
}

func findArchitecture(p *fields) (architecture, error) {
	modelType := p.text("model_type")
	classes := p.texts("architectures")
	if err := p.err(); err != nil {
		return architecture{}, err
	}
	if modelType == "" && len(classes) == 0 {
		return architecture{}, fmt.Errorf("%s: neither architectures nor model_type is there: is this a decoder's config? %w", p.name, ErrFormat)
	}
	if len(classes) > 1 {
		return architecture{}, fmt.Errorf("%s: architectures lists %d classes %q, expected one: %w", p.name, len(classes), classes, ErrUnsupported)
	}
	var known []string
	for _, a := range architectures {
		known = append(known, a.class)
		if len(classes) == 1 && classes[0] != a.class || len(classes) == 0 && modelType != a.modelType {
			continue
		}
		// transformers also writes the text class with the wrapper's config around it.
		if modelType != "" && modelType != a.modelType && (a.family != Qwen35 || modelType != "qwen3_5") {
			return architecture{}, fmt.Errorf("%s: model_type %q does not go with architecture %q (expected %q): %w",
				p.name, modelType, a.class, a.modelType, ErrUnsupported)
		}
		return a, nil
	}
	name := modelType
	if len(classes) == 1 {
		name = classes[0]
	}
	return architecture{}, fmt.Errorf("%s: unknown architecture %q; this program knows %q: %w", p.name, name, known, ErrUnsupported)
}

func (c *Config) readShape(p *fields) {
	c.HiddenSize = p.required("hidden_size", maxDim)
	c.IntermediateSize = p.required("intermediate_size", maxDim)
	c.NumLayers = p.required("num_hidden_layers", maxLayers)
	c.VocabSize = p.required("vocab_size", maxVocab)
	c.MaxPositions = p.optional("max_position_embeddings", math.MaxInt32, 1, func() int {
		d := defaults[c.Family].maxPositions
		c.assume("max_position_embeddings is missing: %d", d)
		return d
	})
	c.RMSNormEps = p.number("rms_norm_eps", func() float64 {
		c.assume("rms_norm_eps is missing: 1e-06")
		return 1e-6
	})
	if !(c.RMSNormEps > 0 && c.RMSNormEps <= 1) {
		p.fail(ErrFormat, "rms_norm_eps", "%v is not in (0, 1]", c.RMSNormEps)
	}
	c.ZeroCentredNorm = c.Family == Qwen35
}

func (c *Config) readAttention(p *fields) {
	c.NumHeads = p.required("num_attention_heads", maxDim)
	c.NumKVHeads = p.optional("num_key_value_heads", maxDim, 1, func() int {
		if c.NumHeads > 0 {
			c.assume("num_key_value_heads is missing: %d, one per query head", c.NumHeads)
		}
		return c.NumHeads
	})
	c.HeadDim = p.optional("head_dim", maxDim, 1, func() int {
		if d := defaults[c.Family].headDim; d > 0 {
			c.assume("head_dim is missing: %d", d)
			return d
		}
		if c.NumHeads > 0 && c.HiddenSize%c.NumHeads != 0 {
			p.fail(ErrFormat, "num_attention_heads", "%d does not divide hidden_size %d, and head_dim is missing", c.NumHeads, c.HiddenSize)
		}
		return c.HiddenSize / max(c.NumHeads, 1)
	})
	if c.NumHeads > 0 && c.NumKVHeads > 0 && c.NumHeads%c.NumKVHeads != 0 {
		p.fail(ErrFormat, "num_key_value_heads", "%d does not divide num_attention_heads %d", c.NumKVHeads, c.NumHeads)
	}
	if int64(c.NumHeads)*int64(c.HeadDim) > maxDim {
		p.fail(ErrFormat, "head_dim", "%d heads of %d are more than this program accepts", c.NumHeads, c.HeadDim)
	}
	c.QKNorm = c.Family == Qwen3 || c.Family == Qwen35
	c.OutputGate = c.Family == Qwen35
	bias := p.flag("attention_bias")
	c.QKVBias = bias || c.Family == Qwen2 // Qwen2's class has no such key: always q, k, v, never o
	c.OutBias = bias && c.Family != Qwen2
	c.MLPBias = c.Family == Llama && p.flag("mlp_bias")
}

func (c *Config) readLayers(p *fields) {
	if c.Family == Qwen35 {
		c.readLinear(p)
	}
	types := p.texts("layer_types")
	if types == nil {
		interval := p.optional("full_attention_interval", maxLayers, 1, func() int { return 4 })
		for i := range c.NumLayers {
			t := FullAttention
			if c.Family == Qwen35 && (i+1)%interval != 0 {
				t = LinearAttention
			}
			c.LayerTypes = append(c.LayerTypes, t)
		}
		return
	}
	if len(types) != c.NumLayers {
		p.fail(ErrFormat, "layer_types", "%d entries for num_hidden_layers %d", len(types), c.NumLayers)
	}
	for i, s := range types {
		t := LayerType(s)
		if t != FullAttention && (t != LinearAttention || c.Family != Qwen35) {
			p.fail(ErrUnsupported, "layer_types", "entry %d is %q, which %s does not have here", i, s, c.Architecture)
			return
		}
		c.LayerTypes = append(c.LayerTypes, t)
	}
}

func (c *Config) readLinear(p *fields) {
	read := func(key string, fallback int) int {
		return p.optional(key, maxDim>>5, 1, func() int {
			c.assume("%s is missing: %d", key, fallback)
			return fallback
		})
	}
	l := &c.LinearAttn
	l.KeyHeads = read("linear_num_key_heads", 16)
	l.ValueHeads = read("linear_num_value_heads", 32)
	l.KeyHeadDim = read("linear_key_head_dim", 128)
	l.ValueHeadDim = read("linear_value_head_dim", 128)
	l.ConvKernel = read("linear_conv_kernel_dim", 4)
	if l.KeyHeads > 0 && l.ValueHeads%l.KeyHeads != 0 {
		p.fail(ErrFormat, "linear_num_key_heads", "%d does not divide linear_num_value_heads %d", l.KeyHeads, l.ValueHeads)
	}
	if int64(l.KeyHeads)*int64(l.KeyHeadDim) > maxDim || int64(l.ValueHeads)*int64(l.ValueHeadDim) > maxDim {
		p.fail(ErrFormat, "linear_key_head_dim", "linear attention is wider than this program accepts")
	}
}

// readTokens reads the special ids from the text part, or from the wrapper when the text part has none.
func (c *Config) readTokens(text, outer *fields) {
	first := func(key string) []int {
		if ids := text.ids(key, c.VocabSize); ids != nil {
			return ids
		}
		return outer.ids(key, c.VocabSize)
	}
	single := func(key string) int {
		switch ids := first(key); len(ids) {
		case 0:
			return -1
		case 1:
			return ids[0]
		default:
			text.fail(ErrFormat, key, "%v, expected one id", ids)
			return -1
		}
	}
	c.BOS, c.Pad, c.EOS = single("bos_token_id"), single("pad_token_id"), first("eos_token_id")
}

// refuseUnknownMaths names every setting under which the model would compute something else than the decoder does.
func (c *Config) refuseUnknownMaths(p, outer *fields) {
	if act := p.text("hidden_act"); act != "" && act != "silu" && act != "swish" {
		p.fail(ErrUnsupported, "hidden_act", "activation %q; this program knows silu", act)
	}
	if p.flag("use_sliding_window") {
		p.fail(ErrUnsupported, "use_sliding_window", "sliding-window attention is not computed here")
	}
	if p.flag("rope_interleaved") {
		p.fail(ErrUnsupported, "rope_interleaved", "interleaved RoPE pairs are not computed here")
	}
	if n := p.optional("num_experts", math.MaxInt32, 0, nil); n > 0 {
		p.fail(ErrUnsupported, "num_experts", "mixture-of-experts layers are not computed here")
	}
	if gate := p.text("output_gate_type"); gate != "" && gate != "swish" && gate != "silu" {
		p.fail(ErrUnsupported, "output_gate_type", "%q; this program knows swish", gate)
	}
	// transformers ignores attn_output_gate: Qwen3.5 always gates. The shape of q_proj, checked on opening, decides.
	if gate, there := p.boolean("attn_output_gate"); there && !gate && c.OutputGate {
		c.assume("attn_output_gate is false: ignored, as transformers does; %s always gates", c.Architecture)
	}
	for _, f := range []*fields{outer, p} {
		if q := f.object("quantization_config"); q != nil {
			f.fail(ErrUnsupported, "quantization_config", "weights quantised by %q; use the checkpoint in its original precision, or a GGUF file",
				q.text("quant_method"))
			break
		}
	}
}

// configDTypes are the names of config.json.
var configDTypes = map[string]DType{"float32": F32, "bfloat16": BF16, "float16": F16}

func declaredDType(p *fields) DType {
	for _, key := range []string{"dtype", "torch_dtype"} {
		name := p.text(key)
		if name == "" {
			continue
		}
		d, ok := configDTypes[name]
		if !ok {
			p.fail(ErrUnsupported, key, "%q; this program knows float32, bfloat16, float16", name)
		}
		return d
	}
	return ""
}
