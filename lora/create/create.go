// Package create makes new base models: random weights of the Qwen3.5 architecture, a byte-level BPE tokenizer learned
// from given texts, and the ChatML template of the Qwen family, as a folder that trainers and servers open like any other.
package create

import (
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/tokenizer"
	"terraloom/lora/train/settings"
)

// ErrConfig: settings that cannot be used.
var ErrConfig = errors.New("bad configuration")

// Config describes a new model.
type Config struct {
	Out        string   `yaml:"out"`        // model folder
	Datasets   []string `yaml:"datasets"`   // dataset folders whose messages the tokenizer learns from
	Vocabulary int      `yaml:"vocabulary"` // tokens, control tokens and bytes included
	Seed       uint64   `yaml:"seed"`       // of the weights
	Shape      Shape    `yaml:"shape"`
}

// Shape is the size of a Qwen3.5 decoder; the keys are those of config.json.
type Shape struct {
	HiddenSize            int     `yaml:"hidden_size"`
	IntermediateSize      int     `yaml:"intermediate_size"`
	Layers                int     `yaml:"num_hidden_layers"`
	FullAttentionInterval int     `yaml:"full_attention_interval"` // every so many layers one attends in full, the others by the gated delta rule
	Heads                 int     `yaml:"num_attention_heads"`
	KVHeads               int     `yaml:"num_key_value_heads"`
	HeadDim               int     `yaml:"head_dim"`
	PartialRotary         float64 `yaml:"partial_rotary_factor"`
	RopeTheta             float64 `yaml:"rope_theta"`
	LinearKeyHeads        int     `yaml:"linear_num_key_heads"`
	LinearValueHeads      int     `yaml:"linear_num_value_heads"`
	LinearKeyHeadDim      int     `yaml:"linear_key_head_dim"`
	LinearValueHeadDim    int     `yaml:"linear_value_head_dim"`
	ConvKernel            int     `yaml:"linear_conv_kernel_dim"`
	MaxPositions          int     `yaml:"max_position_embeddings"`
}

// Default is a model of 1.9 million parameters.
func Default() Config {
	return Config{
		Vocabulary: 4096, Seed: 1,
		Shape: Shape{
			HiddenSize: 160, IntermediateSize: 448, Layers: 4, FullAttentionInterval: 2, Heads: 4, KVHeads: 2, HeadDim: 32,
			PartialRotary: 0.5, RopeTheta: 10000, LinearKeyHeads: 2, LinearValueHeads: 2, LinearKeyHeadDim: 32, LinearValueHeadDim: 64, ConvKernel: 4,
			MaxPositions: 8192,
		},
	}
}

// LoadConfig reads a configuration over the defaults: the file at path, then the sets ("key=value").
func LoadConfig(path string, sets []string) (Config, error) {
	c := Default()
	if _, err := settings.Load(path, sets, &c); err != nil {
		return c, err
	}
	return c, c.Validate()
}

// Validate reports every bad setting by its key.
func (c Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrConfig, key, fmt.Sprintf(format, args...)))
	}
	if c.Out == "" {
		bad("out", "missing: name the folder of the model")
	}
	if len(c.Datasets) == 0 {
		bad("datasets", "missing: name the dataset folders that the tokenizer learns from")
	}
	if least := 256 + len(Controls); c.Vocabulary < least {
		bad("vocabulary", "%d: use %d or more, for the bytes and the control tokens", c.Vocabulary, least)
	}
	s := c.Shape
	for _, n := range []struct {
		key   string
		value int
	}{
		{"hidden_size", s.HiddenSize}, {"intermediate_size", s.IntermediateSize}, {"num_hidden_layers", s.Layers},
		{"full_attention_interval", s.FullAttentionInterval}, {"num_attention_heads", s.Heads}, {"num_key_value_heads", s.KVHeads},
		{"head_dim", s.HeadDim}, {"linear_num_key_heads", s.LinearKeyHeads}, {"linear_num_value_heads", s.LinearValueHeads},
		{"linear_key_head_dim", s.LinearKeyHeadDim}, {"linear_value_head_dim", s.LinearValueHeadDim},
		{"linear_conv_kernel_dim", s.ConvKernel}, {"max_position_embeddings", s.MaxPositions},
	} {
		if n.value < 1 {
			bad("shape."+n.key, "%d: use 1 or more", n.value)
		}
	}
	if !(s.PartialRotary > 0 && s.PartialRotary <= 1) {
		bad("shape.partial_rotary_factor", "%v: use a share above 0, at most 1", s.PartialRotary)
	}
	if !(s.RopeTheta > 0) {
		bad("shape.rope_theta", "%v: use a number above 0", s.RopeTheta)
	}
	return errors.Join(errs...)
}

// Control tokens of the model, with the ids 0, 1 and 2.
const (
	endOfText = "<|endoftext|>"
	turnStart = "<|im_start|>"
	turnEnd   = "<|im_end|>"
)

// Controls lists the control tokens in the order of their ids.
var Controls = []string{endOfText, turnStart, turnEnd}

//go:embed chatml.jinja
var chatML []byte

// Write makes the model folder, which must not exist yet. The tokenizer learns from texts; the same configuration and
// texts give the same bytes. Weights are stored in bfloat16.
func (c Config) Write(texts iter.Seq[string]) (*checkpoint.Config, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	tok, err := tokenizer.Train(texts, c.Vocabulary, Controls)
	if err != nil {
		return nil, err
	}
	if tok, err = tok.WithRoles(tokenizer.Roles{EOS: turnEnd, PAD: endOfText}); err != nil {
		return nil, err
	}
	config, err := c.model()
	if err != nil {
		return nil, err
	}
	files, err := os.MkdirTemp("", "terraloom-create-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(files)
	if err := tok.Save(files); err != nil {
		return nil, err
	}
	const templateFile = "chat_template.jinja"
	if err := os.WriteFile(filepath.Join(files, templateFile), chatML, 0o644); err != nil {
		return nil, err
	}
	folder := checkpoint.Folder{Config: config.JSON(), Copy: map[string]string{}}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", templateFile} {
		folder.Copy[name] = filepath.Join(files, name)
	}
	random := decoder.RandomWeights{Config: config, Seed: c.Seed}
	for _, spec := range config.TensorSpecs() {
		t, err := random.Tensor(spec.Name)
		if err != nil {
			return nil, err
		}
		values, err := t.Float32()
		if err != nil {
			return nil, err
		}
		folder.Tensors = append(folder.Tensors, checkpoint.FromFloat32("model."+spec.Name, config.DType, t.Shape, values))
	}
	return &config, checkpoint.WriteFolder(c.Out, folder)
}

// model is the decoder's configuration, read back from its own config.json so that it is one that opens.
func (c Config) model() (checkpoint.Config, error) {
	s := c.Shape
	m := checkpoint.Config{
		Family: checkpoint.Qwen35, HiddenSize: s.HiddenSize, IntermediateSize: s.IntermediateSize, NumLayers: s.Layers, NumHeads: s.Heads,
		NumKVHeads: s.KVHeads, HeadDim: s.HeadDim, VocabSize: c.Vocabulary, MaxPositions: s.MaxPositions, RMSNormEps: 1e-6,
		Rope: checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: s.RopeTheta, Dim: int(float64(s.HeadDim)*s.PartialRotary) / 2 * 2},
		LinearAttn: checkpoint.LinearAttn{
			KeyHeads: s.LinearKeyHeads, ValueHeads: s.LinearValueHeads, KeyHeadDim: s.LinearKeyHeadDim, ValueHeadDim: s.LinearValueHeadDim, ConvKernel: s.ConvKernel},
		Tied: true, DType: checkpoint.BF16, BOS: -1, Pad: slices.Index(Controls, endOfText), EOS: []int{slices.Index(Controls, turnEnd)},
	}
	for i := range s.Layers {
		t := checkpoint.LinearAttention
		if (i+1)%s.FullAttentionInterval == 0 {
			t = checkpoint.FullAttention
		}
		m.LayerTypes = append(m.LayerTypes, t)
	}
	parsed, err := checkpoint.ParseConfig(m.JSON())
	if err != nil {
		return m, fmt.Errorf("%w: shape: %w", ErrConfig, err)
	}
	return parsed, nil
}
