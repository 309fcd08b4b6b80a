package checkpoint

import "fmt"

// Canonical names that are spoken of alone.
const (
	embedName = "embed_tokens.weight"
	headName  = "lm_head.weight"
)

// TensorSpec names a tensor and says what it holds.
type TensorSpec struct {
	Name  string
	DType DType
	Shape []int
}

// TensorSpecs lists the tensors of the architecture in the order of computation, under canonical names and with the
// shapes of the safetensors layout: row-major, projections as [out, in]. lm_head.weight is absent when tied. The dtype
// is the config's, except for A_log and the linear mixers' norm, which published files keep in float32 (others are
// accepted on reading).
func (c *Config) TensorSpecs() []TensorSpec {
	var specs []TensorSpec
	add := func(name string, shape ...int) {
		specs = append(specs, TensorSpec{name, c.DType, shape})
	}
	addFloat := func(name string, shape ...int) {
		specs = append(specs, TensorSpec{name, F32, shape})
	}
	hidden, inter := c.HiddenSize, c.IntermediateSize
	add(embedName, c.VocabSize, hidden)
	for i, kind := range c.LayerTypes {
		layer := fmt.Sprintf("layers.%d.", i)
		linear := func(name string, bias bool, out, in int) {
			add(layer+name+".weight", out, in)
			if bias {
				add(layer+name+".bias", out)
			}
		}
		add(layer+"input_layernorm.weight", hidden)
		if kind == FullAttention {
			linear("self_attn.q_proj", c.QKVBias, c.QDim(), hidden)
			linear("self_attn.k_proj", c.QKVBias, c.KVDim(), hidden)
			linear("self_attn.v_proj", c.QKVBias, c.KVDim(), hidden)
			if c.QKNorm {
				add(layer+"self_attn.q_norm.weight", c.HeadDim)
				add(layer+"self_attn.k_norm.weight", c.HeadDim)
			}
			linear("self_attn.o_proj", c.OutBias, hidden, c.NumHeads*c.HeadDim)
		} else {
			l := c.LinearAttn
			linear("linear_attn.in_proj_qkv", false, l.ConvDim(), hidden)
			linear("linear_attn.in_proj_z", false, l.ValueDim(), hidden)
			linear("linear_attn.in_proj_b", false, l.ValueHeads, hidden)
			linear("linear_attn.in_proj_a", false, l.ValueHeads, hidden)
			add(layer+"linear_attn.conv1d.weight", l.ConvDim(), 1, l.ConvKernel)
			add(layer+"linear_attn.dt_bias", l.ValueHeads)
			addFloat(layer+"linear_attn.A_log", l.ValueHeads)
			addFloat(layer+"linear_attn.norm.weight", l.ValueHeadDim)
			linear("linear_attn.out_proj", false, hidden, l.ValueDim())
		}
		add(layer+"post_attention_layernorm.weight", hidden)
		linear("mlp.gate_proj", c.MLPBias, inter, hidden)
		linear("mlp.up_proj", c.MLPBias, inter, hidden)
		linear("mlp.down_proj", c.MLPBias, hidden, inter)
	}
	add("norm.weight", hidden)
	if !c.Tied {
		add(headName, c.VocabSize, hidden)
	}
	return specs
}

// Parameters counts the elements of all tensors of the architecture; a tied head counts once.
func (c *Config) Parameters() int64 {
	var total int64
	for _, s := range c.TensorSpecs() {
		n, _ := numElements(s.Shape)
		total += n
	}
	return total
}
