package grpo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"terraloom/lora/backend"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/tokenizer"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
	"terraloom/reward"
)

// Toy is a step on random float32 weights, without a dataset: prompts are random, and no answer ends before its last token.
type Toy struct {
	Layers       int `json:"layers"` // of a Llama with 2,048 tokens
	Hidden       int `json:"hidden"`
	Prompts      int `json:"prompts"`
	PromptTokens int `json:"prompt_tokens"`
	Samples      int `json:"samples"` // answers of a prompt
	Answer       int `json:"answer_tokens"`
}

// TRLToy is the shape that TRL's trainer is timed on.
var TRLToy = Toy{Layers: 8, Hidden: 256, Prompts: 4, PromptTokens: 64, Samples: 4, Answer: 64}

// ToyStep is what one step took.
type ToyStep struct {
	Seconds   float64 `json:"seconds"`
	Generate  float64 `json:"generate_seconds"`
	Train     float64 `json:"train_seconds"` // the reference's judgement in it
	Generated float64 `json:"generated_tokens_per_second"`
	Loss      float64 `json:"loss"`
	KL        float64 `json:"kl"`
}

// ToyTimes are a first step, which compiles, and later ones.
type ToyTimes struct {
	Toy   Toy       `json:"shape"`
	First ToyStep   `json:"first_step"`
	Steps []ToyStep `json:"steps"`
	Other float64   `json:"other_share"` // of the later steps' time: neither generation nor training
}

const toyVocab = 2048

// Time does one step that compiles and n more. Prompts, answers and updates are those of a run by `terraloom grpo` with rank 8
// on all projections and KL with β 0.04; the reward is an answer's length in characters modulo 7. The files of the run go into
// a temporary folder.
func (y Toy) Time(ctx context.Context, engine *backend.Backend, n int) (times ToyTimes, err error) {
	times.Toy = y
	dir, err := os.MkdirTemp("", "terraloom-grpo-")
	if err != nil {
		return times, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	base := filepath.Join(dir, "base")
	if err := y.writeBase(base); err != nil {
		return times, err
	}
	config := y.config(base)
	opened, err := setup.Open(config.Config, 1)
	if err != nil {
		return times, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	on, err := opened.Load(engine)
	if err != nil {
		return times, err
	}
	defer on.Close()
	t, err := y.task(config, opened, on)
	if err != nil {
		return times, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if t.folder, err = run.Open(filepath.Join(dir, "run"), false); err != nil {
		return times, err
	}
	defer func() { err = errors.Join(err, t.folder.Close()) }()
	options := train.Default()
	options.Optimizer.LR, options.Schedule = 1e-4, train.Schedule{Kind: train.Constant, Steps: n + 1}
	options.Checkpoint.Every, options.Checkpoint.Metric, options.Evaluation = 0, "", train.Evaluation{}
	loop := train.Loop{Model: on.Model, Params: on.Params, Task: t, Options: options, Batch: y.Prompts, Folder: t.folder}
	if _, err := loop.Run(ctx); err != nil {
		return times, err
	}
	return times, times.read(t.folder.Dir, float64(y.Answer))
}

// read takes the steps from the metrics of the run.
func (times *ToyTimes) read(dir string, answer float64) error {
	records, err := run.Records(dir)
	if err != nil {
		return err
	}
	var all, other float64
	for _, r := range records {
		if r.Kind != run.Train {
			continue
		}
		var s ToyStep
		var length float64
		for name, to := range map[string]*float64{"seconds": &s.Seconds, "seconds_generate": &s.Generate, "seconds_train": &s.Train,
			"generated_per_second": &s.Generated, "loss": &s.Loss, "kl": &s.KL, "completion_tokens": &length} {
			x, ok := r.Get(name)
			if !ok {
				return fmt.Errorf("%s: step %d has no %s", dir, r.Step, name)
			}
			*to = x
		}
		if length != answer {
			return fmt.Errorf("%s: step %d: answers of %v tokens, expected %v", dir, r.Step, length, answer)
		}
		if r.Step == 1 {
			times.First = s
			continue
		}
		times.Steps = append(times.Steps, s)
		all += s.Seconds
		other += s.Seconds - s.Generate - s.Train
	}
	if all > 0 {
		times.Other = other / all
	}
	return nil
}

func (y Toy) config(base string) Config {
	c := Default()
	c.Base, c.Out, c.Dataset = base, "run", "none"
	c.Device.Precision, c.Device.KeepActivations = string(decoder.Float32), true
	c.LoRA.R, c.LoRA.Alpha = 8, 16
	c.Template.Variables = nil
	c.Batch = Batch{Prompts: y.Prompts, Updates: 1, Tokens: y.Prompts * y.Samples * decoder.Bucket(y.PromptTokens+y.Answer)}
	c.Group.Size, c.Group.MaxFlat = y.Samples, 1<<30
	c.Rollout.MaxTokens, c.Data.MaxPromptTokens = y.Answer, y.PromptTokens
	c.Reward.Functions = []reward.Function{{Name: "a", Kind: reward.KindExpr, Weight: 1, Program: `length % 7`}}
	return c
}

func (y Toy) task(config Config, opened *setup.Base, on *setup.Placed) (*task, error) {
	opened.Model.Config.EOS = nil // nothing ends an answer, as min_new_tokens does for TRL
	scorer, err := reward.New(config.Reward)
	if err != nil {
		return nil, err
	}
	reference, err := reward.NewReference(`{"a":1}`, nil)
	if err != nil {
		return nil, err
	}
	rows := &Rows{Terminator: toyVocab - 1}
	for i := range y.Prompts {
		row := Row{ID: string(rune('A' + i)), Reference: reference}
		for j := range y.PromptTokens {
			row.Prompt = append(row.Prompt, int32(train.Stream(1, "prompt", i, j)%(toyVocab-100)))
		}
		rows.Rows = append(rows.Rows, row)
	}
	t := &task{config: config, base: opened, on: on, scorer: scorer, layout: config.layout(), cost: opened.Cost(), rows: rows, ids: rows.ids(), targets: map[string]string{}}
	l, err := newLocal(config, opened, on, rows.Terminator)
	if err != nil {
		return nil, err
	}
	t.sampler = l
	return t, nil
}

// writeBase writes the model with a tokenizer whose last token is never drawn: the vocabulary of the model is larger.
func (y Toy) writeBase(dir string) error {
	heads := y.Hidden / 32
	c := checkpoint.Config{
		Family: checkpoint.Llama, Architecture: "LlamaForCausalLM", HiddenSize: y.Hidden, IntermediateSize: y.Hidden * 43 / 16, NumLayers: y.Layers,
		NumHeads: heads, NumKVHeads: heads / 2, HeadDim: 32, VocabSize: toyVocab, MaxPositions: 2048, RMSNormEps: 1e-6,
		Rope:       checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: 1e4, Dim: 32},
		LayerTypes: slices.Repeat([]checkpoint.LayerType{checkpoint.FullAttention}, y.Layers), Tied: true, DType: checkpoint.F32, BOS: -1, Pad: 0,
	}
	tok, err := tokenizer.Train(slices.Values([]string{"a"}), 258, []string{"<|im_start|>", "<|im_end|>"})
	if err != nil {
		return err
	}
	if tok, err = tok.WithRoles(tokenizer.Roles{EOS: "<|im_end|>"}); err != nil {
		return err
	}
	files := dir + "-tokenizer"
	if err := os.Mkdir(files, 0o755); err != nil {
		return err
	}
	if err := tok.Save(files); err != nil {
		return err
	}
	copies := map[string]string{}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} {
		copies[name] = filepath.Join(files, name)
	}
	if err := os.WriteFile(copies["chat_template.jinja"], []byte(toyTemplate), 0o644); err != nil {
		return err
	}
	weights := decoder.RandomWeights{Config: c, Seed: 3}
	var sources []checkpoint.Source
	for _, spec := range c.TensorSpecs() {
		t, err := weights.Tensor(spec.Name)
		if err != nil {
			return err
		}
		sources = append(sources, checkpoint.FromTensor("model."+spec.Name, t))
	}
	return checkpoint.WriteFolder(dir, checkpoint.Folder{Config: c.JSON(), Tensors: sources, Copy: copies})
}

// toyTemplate is ChatML: a base must have a template, though the toy's prompts are not rendered.
const toyTemplate = `{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}`
