package create

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/lora/chat"
	"terraloom/lora/checkpoint"
	"terraloom/lora/codec"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

var texts = []string{"the mean of a series", "the largest value of a series", `{"tool_sequence":["mean","max_value_and_index"]}`}

func small(t *testing.T) Config {
	c := Default()
	c.Out, c.Datasets, c.Vocabulary = filepath.Join(t.TempDir(), "model"), []string{"unused"}, 290
	c.Shape.HiddenSize, c.Shape.IntermediateSize, c.Shape.Heads, c.Shape.HeadDim = 16, 24, 2, 8
	return c
}

func TestWrite(t *testing.T) {
	c := small(t)
	made, err := c.Write(slices.Values(texts))
	check(t, err)
	m, err := checkpoint.Open(c.Out)
	check(t, err)
	defer m.Close()
	if m.Config.Family != checkpoint.Qwen35 || m.Config.DType != checkpoint.BF16 || m.Config.Parameters() != made.Parameters() || m.Config.VocabSize != 290 {
		t.Errorf("opened %+v", m.Config)
	}
	want := []checkpoint.LayerType{checkpoint.LinearAttention, checkpoint.FullAttention, checkpoint.LinearAttention, checkpoint.FullAttention}
	if !slices.Equal(m.Config.LayerTypes, want) {
		t.Errorf("layers %v, expected %v", m.Config.LayerTypes, want)
	}
	enc, err := codec.Open(m, codec.Options{})
	check(t, err)
	turn, err := enc.Turn(context.Background(), []chat.Message{chat.NewMessage("user", "the mean"), chat.NewMessage("assistant", "a series")})
	check(t, err)
	text, err := enc.Tokenizer.Decode(turn.IDs)
	check(t, err)
	if want := "<|im_start|>user\nthe mean<|im_end|>\n<|im_start|>assistant\na series<|im_end|>"; text != want {
		t.Errorf("a turn is %q, expected %q", text, want)
	}
	if !slices.Contains(m.Config.EOS, int(turn.Terminator)) {
		t.Errorf("turns end with %d, which is not among the model's %v", turn.Terminator, m.Config.EOS)
	}
	if _, err := c.Write(slices.Values(texts)); !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("a second model into the same folder: %v", err)
	}
}

func TestWriteIsDeterministic(t *testing.T) {
	a, b := small(t), small(t)
	for _, c := range []Config{a, b} {
		_, err := c.Write(slices.Values(texts))
		check(t, err)
	}
	files, err := os.ReadDir(a.Out)
	check(t, err)
	if len(files) != 5 {
		t.Errorf("%d files, expected config, weights, two of the tokenizer and the template", len(files))
	}
	for _, f := range files {
		x, err := os.ReadFile(filepath.Join(a.Out, f.Name()))
		check(t, err)
		y, err := os.ReadFile(filepath.Join(b.Out, f.Name()))
		check(t, err)
		if !bytes.Equal(x, y) {
			t.Errorf("%s differs between two models of the same configuration", f.Name())
		}
	}
}

func TestValidate(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"out": func(c *Config) { c.Out = "" }, "datasets": func(c *Config) { c.Datasets = nil }, "vocabulary": func(c *Config) { c.Vocabulary = 200 },
		"shape.hidden_size": func(c *Config) { c.Shape.HiddenSize = 0 }, "shape.partial_rotary_factor": func(c *Config) { c.Shape.PartialRotary = 2 },
		"shape.rope_theta": func(c *Config) { c.Shape.RopeTheta = -1 }, "num_key_value_heads": func(c *Config) { c.Shape.KVHeads = 3 },
	} {
		c := small(t)
		change(&c)
		if _, err := c.Write(slices.Values(texts)); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v", key, err)
		}
	}
}

// The ready-made configuration is valid, and its first line is the command that uses it.
func TestShippedConfig(t *testing.T) {
	const path = "../../configs/tiny-base-model.yaml"
	c, err := LoadConfig(path, []string{"seed=3"})
	check(t, err)
	if c.Seed != 3 || c.Vocabulary != 4096 {
		t.Errorf("read %+v", c)
	}
	text, err := os.ReadFile(path)
	check(t, err)
	if !strings.HasPrefix(string(text), "# terraloom model create --config configs/tiny-base-model.yaml\n") {
		t.Error("its first line is not the command")
	}
}
