package checkpoint

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// builder makes GGUF files for tests. Metadata keeps its order; data lies in the order of place (default: as listed).
type builder struct {
	version uint32
	keys    []string
	values  map[string]any
	tensors []builderTensor
	place   []int
	align   int
}

type builderTensor struct {
	name   string
	kind   uint32
	shape  []int // row-major
	data   []byte
	offset *uint64 // instead of the right one
}

func (b *builder) set(key string, value any) {
	if _, there := b.values[key]; !there {
		b.keys = append(b.keys, key)
	}
	b.values[key] = value
}

func (b *builder) drop(key string) {
	delete(b.values, key)
	b.keys = slices.DeleteFunc(b.keys, func(k string) bool { return k == key })
}

func ggufText(out []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(out, uint64(len(s))), s...)
}

func ggufEncode(out []byte, value any) (uint32, []byte) {
	le := binary.LittleEndian
	switch v := value.(type) {
	case uint8:
		return ggufU8, append(out, v)
	case int8:
		return ggufI8, append(out, byte(v))
	case uint16:
		return ggufU16, le.AppendUint16(out, v)
	case int16:
		return ggufI16, le.AppendUint16(out, uint16(v))
	case uint32:
		return ggufU32, le.AppendUint32(out, v)
	case int32:
		return ggufI32, le.AppendUint32(out, uint32(v))
	case uint64:
		return ggufU64, le.AppendUint64(out, v)
	case int64:
		return ggufI64, le.AppendUint64(out, uint64(v))
	case float32:
		return ggufF32, le.AppendUint32(out, math.Float32bits(v))
	case float64:
		return ggufF64, le.AppendUint64(out, math.Float64bits(v))
	case bool:
		if v {
			return ggufBool, append(out, 1)
		}
		return ggufBool, append(out, 0)
	case string:
		return ggufString, ggufText(out, v)
	case []byte: // a raw value, its type first
		return le.Uint32(v), append(out, v[4:]...)
	default: // a slice
		r := reflect.ValueOf(value)
		kind, elements := uint32(ggufU32), []byte(nil)
		for i := range r.Len() {
			kind, elements = ggufEncode(elements, r.Index(i).Interface())
		}
		out = le.AppendUint32(out, kind)
		return ggufArray, append(le.AppendUint64(out, uint64(r.Len())), elements...)
	}
}

func (b *builder) bytes() []byte {
	le := binary.LittleEndian
	out := le.AppendUint32([]byte(ggufMagic), b.version)
	out = le.AppendUint64(out, uint64(len(b.tensors)))
	out = le.AppendUint64(out, uint64(len(b.keys)))
	for _, key := range b.keys {
		kind, value := ggufEncode(nil, b.values[key])
		out = append(le.AppendUint32(ggufText(out, key), kind), value...)
	}
	place := b.place
	for i := len(place); i < len(b.tensors); i++ {
		place = append(place, i)
	}
	var data []byte
	offsets := make([]uint64, len(b.tensors))
	for _, i := range place {
		data = append(data, make([]byte, (b.align-len(data)%b.align)%b.align)...)
		offsets[i] = uint64(len(data))
		data = append(data, b.tensors[i].data...)
	}
	for i, t := range b.tensors {
		out = le.AppendUint32(ggufText(out, t.name), uint32(len(t.shape)))
		for d := range t.shape {
			out = le.AppendUint64(out, uint64(t.shape[len(t.shape)-1-d]))
		}
		if t.offset != nil {
			offsets[i] = *t.offset
		}
		out = le.AppendUint64(le.AppendUint32(out, t.kind), offsets[i])
	}
	out = append(out, make([]byte, (b.align-len(out)%b.align)%b.align)...)
	return append(out, data...)
}

// permute is what llama.cpp's converter does to query and key rows: [head, half, i] becomes [head, i, half].
func permute(data []byte, heads, headDim int) []byte {
	row := len(data) / (heads * headDim)
	out := make([]byte, 0, len(data))
	for h := range heads {
		for i := range headDim / 2 {
			for half := range 2 {
				at := (h*headDim + half*headDim/2 + i) * row
				out = append(out, data[at:at+row]...)
			}
		}
	}
	return out
}

// asGGUF converts a reference model the way llama.cpp does, float32 throughout.
func asGGUF(tb testing.TB, name string) (*builder, *Model) {
	m := open(tb, golden(tb, name))
	c := m.Config
	arch := string(c.Family)
	b := &builder{version: 3, values: map[string]any{}, align: 32}
	b.set("general.architecture", arch)
	b.set(arch+".block_count", uint32(c.NumLayers))
	b.set(arch+".context_length", uint32(c.MaxPositions))
	b.set(arch+".embedding_length", uint32(c.HiddenSize))
	b.set(arch+".feed_forward_length", uint32(c.IntermediateSize))
	b.set(arch+".attention.head_count", uint32(c.NumHeads))
	b.set(arch+".attention.head_count_kv", uint32(c.NumKVHeads))
	b.set(arch+".attention.key_length", uint32(c.HeadDim))
	b.set(arch+".attention.layer_norm_rms_epsilon", float32(c.RMSNormEps))
	b.set(arch+".rope.freq_base", float32(c.Rope.Theta))
	b.set("tokenizer.ggml.model", "gpt2")
	b.set("tokenizer.ggml.pre", "smollm")
	b.set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "é"})
	b.set("tokenizer.ggml.token_type", []int32{1, 1, 1, 3})
	b.set("tokenizer.ggml.merges", []string{"a b"})
	b.set("tokenizer.ggml.bos_token_id", uint32(c.BOS))
	b.set("tokenizer.ggml.eos_token_id", uint32(c.EOS[0]))
	b.set("tokenizer.ggml.padding_token_id", uint32(c.Pad))
	b.set("tokenizer.chat_template", "{{ messages }}")
	parts := map[string]string{}
	for short, long := range ggufParts {
		parts[long] = short
	}
	for _, n := range m.Names() {
		t, err := m.Tensor(n)
		if err != nil {
			tb.Fatal(err)
		}
		stored := ""
		for short, long := range ggufNames {
			if long == n {
				stored = short
			}
		}
		if rest, ok := strings.CutPrefix(n, "layers."); ok {
			layer, rest, _ := strings.Cut(rest, ".")
			dot := strings.LastIndexByte(rest, '.')
			stored = "blk." + layer + "." + parts[rest[:dot]] + rest[dot:]
		}
		data := t.Data
		if c.Family == Llama && strings.Contains(n, "q_proj") {
			data = permute(data, c.NumHeads, c.HeadDim)
		} else if c.Family == Llama && strings.Contains(n, "k_proj") {
			data = permute(data, c.NumKVHeads, c.HeadDim)
		}
		b.tensors = append(b.tensors, builderTensor{name: stored, shape: t.Shape, data: data})
	}
	return b, m
}
