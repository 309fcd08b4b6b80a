package checkpoint

import (
	"math"
	"strings"

	"terraloom/data/strictjson"
)

// object is a JSON object under construction.
type object []strictjson.Member

func (o *object) add(key string, value strictjson.Value) {
	*o = append(*o, strictjson.Member{Key: key, Value: value})
}

func (o *object) text(key, value string)          { o.add(key, strictjson.Text(value)) }
func (o *object) integer(key string, value int)   { o.add(key, strictjson.Int(value)) }
func (o *object) float(key string, value float64) { o.add(key, strictjson.Float(value)) }
func (o *object) boolean(key string, value bool)  { o.add(key, strictjson.Boolean(value)) }

// id writes no token as null.
func (o *object) id(key string, id int) {
	if id < 0 {
		o.add(key, strictjson.NullValue())
		return
	}
	o.integer(key, id)
}

// JSON is config.json of a new model in the layout of transformers 5, with rope_theta, rope_scaling and torch_dtype
// beside it for readers of the layout of transformers 4. A multimodal wrapper is written as its text class.
func (c *Config) JSON() []byte {
	var o object
	for _, a := range architectures {
		if a.family == c.Family && !a.multimodal {
			o.add("architectures", strictjson.List(strictjson.Text(a.class)))
			o.text("model_type", a.modelType)
		}
	}
	for name, d := range configDTypes {
		if d == c.DType {
			o.text("dtype", name)
			o.text("torch_dtype", name)
		}
	}
	o.integer("hidden_size", c.HiddenSize)
	o.integer("intermediate_size", c.IntermediateSize)
	o.integer("num_hidden_layers", c.NumLayers)
	o.integer("num_attention_heads", c.NumHeads)
	o.integer("num_key_value_heads", c.NumKVHeads)
	o.integer("head_dim", c.HeadDim)
	o.integer("vocab_size", c.VocabSize)
	o.integer("max_position_embeddings", c.MaxPositions)
	o.float("rms_norm_eps", c.RMSNormEps)
	o.text("hidden_act", "silu")
	if c.Family != Qwen2 {
		o.boolean("attention_bias", c.OutBias)
	}
	if c.Family == Llama {
		o.boolean("mlp_bias", c.MLPBias)
	}
	c.ropeJSON(&o)
	if c.Family == Qwen35 {
		c.linearJSON(&o)
	}
	o.boolean("tie_word_embeddings", c.Tied)
	o.id("bos_token_id", c.BOS)
	o.id("pad_token_id", c.Pad)
	switch len(c.EOS) {
	case 0:
		o.id("eos_token_id", -1)
	case 1:
		o.integer("eos_token_id", c.EOS[0])
	default:
		var ids []strictjson.Value
		for _, id := range c.EOS {
			ids = append(ids, strictjson.Int(id))
		}
		o.add("eos_token_id", strictjson.List(ids...))
	}
	return printObject(strictjson.Obj(o...))
}

func (c *Config) ropeJSON(o *object) {
	var rope object
	rope.text("rope_type", c.Rope.Type)
	scaling := strictjson.NullValue()
	if c.Rope.Type == RopeLlama3 {
		rope.float("factor", c.Rope.Factor)
		rope.float("low_freq_factor", c.Rope.LowFreqFactor)
		rope.float("high_freq_factor", c.Rope.HighFreqFactor)
		rope.integer("original_max_position_embeddings", c.Rope.OriginalMaxPositions)
		scaling = strictjson.Obj(append(object{}, rope...)...)
	}
	rope.float("rope_theta", c.Rope.Theta)
	if c.Rope.Dim != c.HeadDim {
		partial := float64(c.Rope.Dim) / float64(c.HeadDim)
		for int(float64(c.HeadDim)*partial) < c.Rope.Dim { // readers truncate the product
			partial = math.Nextafter(partial, 1)
		}
		rope.float("partial_rotary_factor", partial)
	}
	o.add("rope_parameters", strictjson.Obj(rope...))
	o.float("rope_theta", c.Rope.Theta)
	o.add("rope_scaling", scaling)
}

func (c *Config) linearJSON(o *object) {
	var types []strictjson.Value
	for _, t := range c.LayerTypes {
		types = append(types, strictjson.Text(string(t)))
	}
	o.add("layer_types", strictjson.List(types...))
	o.integer("linear_num_key_heads", c.LinearAttn.KeyHeads)
	o.integer("linear_num_value_heads", c.LinearAttn.ValueHeads)
	o.integer("linear_key_head_dim", c.LinearAttn.KeyHeadDim)
	o.integer("linear_value_head_dim", c.LinearAttn.ValueHeadDim)
	o.integer("linear_conv_kernel_dim", c.LinearAttn.ConvKernel)
}

// Untie returns a config.json with every tie_word_embeddings set to false, for a model whose head has become its own;
// nothing else changes. The flag is added where it is missing.
func Untie(config []byte) ([]byte, error) {
	p, err := parseObject(configFile, config)
	if err != nil {
		return nil, err
	}
	return printObject(untie(p.value)), nil
}

func untie(v strictjson.Value) strictjson.Value {
	const flag = "tie_word_embeddings"
	var members object
	found := false
	for i := range v.Len() {
		key, value := v.Key(i), v.Index(i)
		switch {
		case key == flag:
			value, found = strictjson.Boolean(false), true
		case key == "text_config" && value.Kind() == strictjson.Object:
			value = untie(value)
		}
		members.add(key, value)
	}
	if !found {
		members.boolean(flag, false)
	}
	return strictjson.Obj(members...)
}

// printObject prints an object with one member a line, as transformers does; values inside stay on their line.
func printObject(v strictjson.Value) []byte {
	var b strings.Builder
	b.WriteString("{\n")
	for i := range v.Len() {
		b.WriteString("  ")
		b.Write(strictjson.AppendString(nil, v.Key(i)))
		b.WriteString(": ")
		b.WriteString(v.Index(i).JSON())
		if i < v.Len()-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return []byte(b.String())
}
