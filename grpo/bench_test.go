package grpo

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/tokenizer"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
	"terraloom/reward"
)

// BenchmarkToyStep is one optimiser step on the shape that TRL's trainer is timed on: a Llama of 8 layers, hidden size 256 and
// 2,048 tokens in float32; 4 prompts of 64 tokens × 4 answers of 64; rank 8 on all projections; KL with β 0.04. It reports the
// shares of generation, of training (the reference's judgement in it) and of what is neither, the optimiser included.
func BenchmarkToyStep(b *testing.B) {
	t := toyTask(b)
	b.Run("4x4x64", func(b *testing.B) { toySteps(b, t) })
}

func toySteps(b *testing.B, t *task) {
	folder, err := run.Open(filepath.Join(b.TempDir(), "run"), false)
	check(b, err)
	defer folder.Close()
	t.folder = folder
	const compiling = 1
	options := train.Default()
	options.Optimizer.LR, options.Schedule = 1e-4, train.Schedule{Kind: train.Constant, Steps: b.N + compiling}
	options.Checkpoint.Every, options.Checkpoint.Metric, options.Evaluation = 0, "", train.Evaluation{}
	loop := train.Loop{Model: t.on.Model, Params: t.on.Params, Task: t, Options: options, Batch: t.config.Batch.Prompts, Folder: folder,
		Progress: func(s train.Status) {
			if s.Done == compiling {
				b.ResetTimer()
			}
		}}
	_, err = loop.Run(context.Background())
	check(b, err)
	b.StopTimer()
	var all, generate, trained float64
	var seconds []float64
	for _, r := range records(b, folder.Dir, run.Train)[compiling:] {
		all += value(b, r, "seconds")
		seconds = append(seconds, value(b, r, "seconds"))
		generate += value(b, r, "seconds_generate")
		trained += value(b, r, "seconds_train")
		if n := value(b, r, "completion_tokens"); n != 64 {
			b.Fatalf("answers of %v tokens", n)
		}
	}
	slices.Sort(seconds)
	b.ReportMetric(seconds[len(seconds)/2], "s-median")
	b.ReportMetric(seconds[0], "s-best")
	b.ReportMetric(100*generate/all, "%generate")
	b.ReportMetric(100*trained/all, "%train")
	b.ReportMetric(100*(all-generate-trained)/all, "%other")
}

// toyTask is that run, without dataset: prompts are random, answers never end before 64 tokens.
func toyTask(b *testing.B) *task {
	const vocab, prompts, length = 2048, 64, 64
	c := checkpoint.Config{
		Family: checkpoint.Llama, Architecture: "LlamaForCausalLM", HiddenSize: 256, IntermediateSize: 688, NumLayers: 8, NumHeads: 8, NumKVHeads: 4,
		HeadDim: 32, VocabSize: vocab, MaxPositions: 2048, RMSNormEps: 1e-6, Rope: checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: 1e4, Dim: 32},
		LayerTypes: slices.Repeat([]checkpoint.LayerType{checkpoint.FullAttention}, 8), Tied: true, DType: checkpoint.F32, BOS: -1, Pad: 0,
	}
	base := toyBase(b, c)
	config := Default()
	config.Base, config.Out = base, "run"
	config.Dataset = "none"
	config.Device.Precision, config.Device.KeepActivations, config.Device.Backend = string(decoder.Float32), true, "auto"
	config.LoRA.R, config.LoRA.Alpha = 8, 16
	config.Template.Variables = nil
	config.Batch = Batch{Prompts: 4, Updates: 1, Tokens: 2048}
	config.Rollout.MaxTokens = length
	config.Data.MaxPromptTokens = length
	config.Reward.Functions = []reward.Function{{Name: "a", Kind: reward.KindExpr, Weight: 1, Program: `length % 7`}}
	config.Group.MaxFlat = 1 << 30
	opened, err := setup.Open(config.Config, 1)
	check(b, err)
	b.Cleanup(func() { opened.Close() })
	opened.Model.Config.EOS = nil // nothing ends an answer, as min_new_tokens does for TRL
	scorer, err := reward.New(config.Reward)
	check(b, err)
	reference, err := reward.NewReference(`{"a":1}`, nil)
	check(b, err)
	rows := &Rows{Terminator: vocab - 1}
	for i := range prompts {
		row := Row{ID: string(rune('A' + i)), Reference: reference}
		for j := range length {
			row.Prompt = append(row.Prompt, int32(train.Stream(1, "prompt", i, j)%(vocab-100)))
		}
		rows.Rows = append(rows.Rows, row)
	}
	t := &task{config: config, base: opened, on: place(b, opened), scorer: scorer, layout: config.layout(), cost: opened.Cost(), rows: rows, ids: rows.ids(), targets: map[string]string{}}
	l, err := newLocal(config, opened, t.on, rows.Terminator)
	check(b, err)
	b.Cleanup(func() { l.close() })
	t.sampler = l
	return t
}

// toyBase writes the model with a tokenizer whose last token is never drawn: the vocabulary of the model is larger.
func toyBase(b *testing.B, c checkpoint.Config) string {
	tok, err := tokenizer.Train(slices.Values([]string{"a"}), 258, []string{"<|im_start|>", "<|im_end|>"})
	check(b, err)
	tok, err = tok.WithRoles(tokenizer.Roles{EOS: "<|im_end|>"})
	check(b, err)
	files := b.TempDir()
	check(b, tok.Save(files))
	var sources []checkpoint.Source
	for _, spec := range c.TensorSpecs() {
		t, err := decoder.RandomWeights{Config: c, Seed: 3}.Tensor(spec.Name)
		check(b, err)
		sources = append(sources, checkpoint.FromTensor("model."+spec.Name, t))
	}
	copies := map[string]string{}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		copies[name] = filepath.Join(files, name)
	}
	template := filepath.Join(files, "chat_template.jinja")
	check(b, os.WriteFile(template, []byte(chatML), 0o644))
	copies["chat_template.jinja"] = template
	dir := filepath.Join(b.TempDir(), "toy")
	check(b, checkpoint.WriteFolder(dir, checkpoint.Folder{Config: c.JSON(), Tensors: sources, Copy: copies}))
	return dir
}
