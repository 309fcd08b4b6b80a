package sft

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
	"terraloom/lora/create"
	"terraloom/lora/provenance"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
	"terraloom/lora/train/traintest"
)

// SFT-6: a tiny model learns eight Planner records by heart; asked greedily it writes each answer exactly. SFT-7: what is
// then measured is all 1.
func TestOverfitsEightRows(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 8, "validation": 8}, nil))
	c.Batch.Rows, c.Batch.Tokens = 8, 512
	c.Schedule.Steps, c.LoRA.R, c.LoRA.Alpha = 120, 16, 32
	c.Generation = Generation{Rows: 8, MaxTokens: 64}
	res := mustRun(t, c, "never")
	validation := traintest.Records(t, c.Out, run.Validation)
	last := validation[len(validation)-1]
	for name, want := range map[string]float64{"exact_match": 1, "parse_rate": 1, "tools_any_order": 1, "tools_in_order": 1, "tools_exact_match": 1, "efficiency": 1, "truncated": 0, "token_accuracy": 1} {
		if got := traintest.Value(t, last, name); got != want {
			t.Errorf("%s is %v, expected %v", name, got, want)
		}
	}
	samples, err := os.ReadFile(filepath.Join(c.Out, run.SamplesFile))
	check(t, err)
	for line := range strings.Lines(string(samples)) {
		var a answer
		check(t, json.Unmarshal([]byte(line), &a))
		if a.Answer != a.Expected || !a.Exact {
			t.Errorf("%s: wrote %s, expected %s", a.ID, a.Answer, a.Expected)
		}
	}
	for _, name := range []string{run.ConfigFile, run.MetricsFile, run.ReportFile, run.AdapterDir + "/adapter_model.safetensors"} {
		if _, err := os.Stat(filepath.Join(c.Out, name)); err != nil {
			t.Errorf("run folder: %v", err)
		}
	}

	// LORA-1 and L1: the base is as it was, every B moved, and the adapter says what it was made with.
	base := traintest.OpenModel(t, c.Base)
	a, err := adapter.Load(res.Path, &base.Config)
	check(t, err)
	for i, m := range a.Modules {
		moved := false
		for _, x := range a.B[i] {
			moved = moved || x != 0
		}
		if !moved {
			t.Errorf("%s: B did not move", m.Name())
		}
	}
	record, err := provenance.Read(res.Path)
	check(t, err)
	hash, err := base.Hash()
	check(t, err)
	if record.Base != hash || record.Hash != a.Hash() || record.Role != Planner || record.Step != 120 || record.Dataset == "" || len(record.Config) < 40 {
		t.Errorf("record %+v", record)
	}
}

// C4 with the real model: dropout, packing, several rectangles a step, a hybrid base. Stopped in any step and resumed, the
// run ends with the very same adapter.
func TestResumeIsBitEqual(t *testing.T) {
	for _, family := range []checkpoint.Family{checkpoint.Llama, checkpoint.Qwen35} {
		t.Run(string(family), func(t *testing.T) {
			c := tinyConfig(t, tinyBase(t, family), tinyDataset(t, map[string]int{"train": 7, "validation": 2}, nil))
			c.LoRA.Dropout = 0.2
			c.Batch.Tokens = 128
			straight := mustRun(t, c, "never")
			want := traintest.AdapterHash(t, c.Base, straight.Path)
			stops := []int{1, 2, 3, 5} // the third is the end of the first epoch
			if family == checkpoint.Qwen35 {
				stops = stops[2:3]
			}
			for _, stop := range stops {
				c.Out = filepath.Join(t.TempDir(), "run")
				ctx, cancel := context.WithCancel(context.Background())
				_, err := runOn(t, ctx, c, "never", func(s train.Status) {
					if s.Done == stop {
						cancel()
					}
				})
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("stopped after step %d: %v", stop, err)
				}
				if got := traintest.AdapterHash(t, c.Base, mustRun(t, c, "auto").Path); got != want {
					t.Errorf("stopped after step %d: another adapter", stop)
				}
			}
		})
	}
}

// A whole model is trained too, and its result opens as a base.
func TestFullTraining(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 4, "validation": 2}, nil))
	c.Method, c.Optimizer.LR = setup.Full, 1e-3
	c.Batch.Rows, c.Schedule.Steps = 4, 4
	c.Evaluation.Every = 2
	res := mustRun(t, c, "never")
	losses := traintest.Records(t, c.Out, run.Validation)
	if first, last := traintest.Value(t, losses[0], "loss"), traintest.Value(t, losses[1], "loss"); !(last < first) {
		t.Errorf("loss %v after %v", last, first)
	}
	trained := traintest.OpenModel(t, res.Path)
	before, after := traintest.OpenModel(t, c.Base), trained
	a, err := before.Float32("layers.1.mlp.up_proj.weight")
	check(t, err)
	b, err := after.Float32("layers.1.mlp.up_proj.weight")
	check(t, err)
	if a[0] == b[0] {
		t.Error("the weights are as before")
	}
	// What is written is what was measured.
	again := c
	again.Base, again.Out, again.Schedule, again.Evaluation = res.Path, filepath.Join(t.TempDir(), "again"), train.Schedule{Kind: train.Constant, Steps: 1}, train.Evaluation{AtStart: true}
	mustRun(t, again, "never")
	if got, want := traintest.Value(t, traintest.Records(t, again.Out, run.Validation)[0], "loss"), traintest.Value(t, losses[len(losses)-1], "loss"); math.Abs(got-want) > 1e-6 {
		t.Errorf("the written model has the loss %v, the trained one %v", got, want)
	}
}

// A new base in bfloat16 learns prompts and answers of both roles, and stays a bfloat16 model.
func TestTrainsANewBase(t *testing.T) {
	dataset := tinyDataset(t, map[string]int{"train": 4, "validation": 2}, nil)
	texts, err := data.TrainingTexts([]string{dataset})
	check(t, err)
	made := create.Default()
	made.Out, made.Datasets, made.Vocabulary = filepath.Join(t.TempDir(), "new"), []string{dataset}, 300
	made.Shape.HiddenSize, made.Shape.IntermediateSize, made.Shape.Layers, made.Shape.Heads, made.Shape.HeadDim = 16, 24, 2, 2, 8
	_, err = made.Write(slices.Values(texts))
	check(t, err)
	c := tinyConfig(t, made.Out, dataset)
	c.Method, c.Role, c.Data.CompletionOnlyLoss, c.Optimizer.LR = setup.Full, Both, false, 1e-2
	c.Batch.Rows, c.Schedule.Steps, c.Generation.Rows = 7, 6, 0
	c.Evaluation = train.Evaluation{AtStart: true}
	res := mustRun(t, c, "never")
	losses := traintest.Records(t, c.Out, run.Validation)
	if first, last := traintest.Value(t, losses[0], "loss"), traintest.Value(t, losses[len(losses)-1], "loss"); !(last < first-0.1) {
		t.Errorf("loss %v after %v", last, first)
	}
	m := traintest.OpenModel(t, res.Path)
	norm, err := m.Tensor("norm.weight")
	check(t, err)
	if m.Config.DType != checkpoint.BF16 || norm.DType != checkpoint.BF16 {
		t.Errorf("written as %s, the norm as %s: expected the base's bfloat16", m.Config.DType, norm.DType)
	}
}

// L10 and T12: an adapter goes on from where it was, but not under another template or on another base.
func TestStartFromAdapter(t *testing.T) {
	base, dataset := tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 4, "validation": 2}, nil)
	c := tinyConfig(t, base, dataset)
	c.Schedule.Steps = 2
	first := mustRun(t, c, "never")
	last := traintest.Value(t, traintest.Records(t, c.Out, run.Validation)[0], "loss")

	c.Adapter, c.Out = first.Path, filepath.Join(t.TempDir(), "second")
	c.Evaluation.AtStart = true
	second := mustRun(t, c, "never")
	if got := traintest.Value(t, traintest.Records(t, c.Out, run.Validation)[0], "loss"); math.Abs(got-last) > 1e-6 {
		t.Errorf("starts at the loss %v, the first run ended at %v", got, last)
	}
	record, err := provenance.Read(second.Path)
	check(t, err)
	if record.Parent != traintest.AdapterHash(t, base, first.Path) {
		t.Errorf("parent %q", record.Parent)
	}

	other := filepath.Join(t.TempDir(), "template.jinja")
	check(t, os.WriteFile(other, []byte(strings.ReplaceAll(traintest.ChatML, `\n`, ` \n`)), 0o644))
	c.Template.File = other
	if _, err := Prepare(context.Background(), c, nil); !errors.Is(err, provenance.ErrMismatch) || !strings.Contains(err.Error(), "chat template") {
		t.Errorf("another template: %v", err)
	}
	c.Template.File, c.Base = "", tinyBase(t, checkpoint.Qwen35)
	if _, err := Prepare(context.Background(), c, nil); err == nil {
		t.Error("an adapter of another architecture is taken")
	}
}
