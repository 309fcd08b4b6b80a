package sft

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
	"terraloom/lora/train/traintest"
)

func readJSON(tb testing.TB, path string, into any) {
	tb.Helper()
	text, err := os.ReadFile(path)
	check(tb, err)
	check(tb, json.Unmarshal(text, into))
}

func safetensors(tb testing.TB, path string) *checkpoint.Safetensors {
	tb.Helper()
	f, err := checkpoint.OpenSafetensors(path)
	check(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f
}

func integers(tb testing.TB, f *checkpoint.Safetensors, name string) []int32 {
	tb.Helper()
	x, err := f.Float32(name)
	check(tb, err)
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

// goldenTask is task on the golden rows, which come in the order of the reference run instead of the loop's.
type goldenTask struct {
	*task
	perStep int
	losses  []float64
}

func (g *goldenTask) Gradient(ctx context.Context, s train.Step, sums *decoder.Vectors) (train.Outcome, error) {
	for i := range s.Rows {
		s.Rows[i] = s.Number*g.perStep + i
	}
	out, err := g.task.Gradient(ctx, s, sums)
	g.losses = append(g.losses, out.Loss)
	return out, err
}

// newGoldenTask places a reference model with an adapter and the rows of a table of ids [.., length] with labels.
func newGoldenTask(tb testing.TB, model, adapterDir string, ids, labels, mask []int32, length int) *task {
	tb.Helper()
	base := &setup.Base{Config: setup.Config{Device: setup.Device{Count: 1, Precision: float32Precision}}, Model: traintest.OpenModel(tb, traintest.Golden(tb, model))}
	var err error
	base.Start, err = adapter.Load(adapterDir, &base.Model.Config)
	check(tb, err)
	rows := &Rows{}
	for from := 0; from < len(ids); from += length {
		row := Row{ID: fmt.Sprintf("row-%d", from/length)}
		for i := from; i < from+length; i++ {
			if mask == nil || mask[i] == 1 {
				row.Tokens, row.Label = append(row.Tokens, ids[i]), append(row.Label, labels[i] >= 0)
			}
		}
		rows.Rows = append(rows.Rows, row)
	}
	return &task{base: base, on: traintest.Place(tb, base), layout: train.Layout{Tokens: 128}, cost: base.Cost(), rows: rows, ids: rows.ids()}
}

// TestGoldenTrace follows the reference run of ten steps (PyTorch, PEFT and TRL) through the whole loop: losses, gradient
// norms, learning rates and the final adapter.
func TestGoldenTrace(t *testing.T) {
	for _, model := range []string{"llama", "qwen35-text"} {
		t.Run(model, func(t *testing.T) {
			dir := traintest.Golden(t, "sft", model)
			var info struct {
				Steps []struct {
					Loss         float64
					GradNorm     float64 `json:"grad_norm"`
					LearningRate float64 `json:"learning_rate"`
					LabelTokens  int     `json:"label_tokens"`
				}
				Errors     map[string]json.RawMessage
				Tolerances map[string]any
			}
			readJSON(t, filepath.Join(dir, "trace.json"), &info)
			f := safetensors(t, filepath.Join(dir, "trace.safetensors"))
			const perStep, length = 4, 20
			g := &goldenTask{perStep: perStep, task: newGoldenTask(t, model, filepath.Join(dir, "initial_adapter"),
				integers(t, f, "input_ids"), integers(t, f, "labels"), integers(t, f, "attention_mask"), length)}
			options := train.Default()
			options.Optimizer.LR, options.Optimizer.Decay = 1e-3, 0.01
			options.Schedule = train.Schedule{Kind: train.Cosine, Warmup: 2, Steps: len(info.Steps)}
			folder, err := run.Open(t.TempDir(), false)
			check(t, err)
			defer folder.Close()
			loop := train.Loop{Model: g.on.Model, Params: g.on.Params, Task: g, Options: options, Batch: perStep, Folder: folder}
			summary, err := loop.Run(context.Background())
			check(t, err)

			records, err := run.Records(folder.Dir)
			check(t, err)
			records = slices.DeleteFunc(records, func(r run.Record) bool { return r.Kind != run.Train })
			for s, want := range info.Steps {
				get := func(name string) float64 {
					x, ok := records[s].Get(name)
					if !ok {
						t.Fatalf("step %d has no %s", s, name)
					}
					return x
				}
				if d := math.Abs(get("loss") - want.Loss); !(d <= info.Tolerances["loss_atol"].(float64)) {
					t.Errorf("step %d: loss %v, expected %v", s, get("loss"), want.Loss)
				}
				if d := math.Abs(get("grad_norm")/want.GradNorm - 1); !(d <= info.Tolerances["grad_norm_rtol"].(float64)) {
					t.Errorf("step %d: gradient norm %v, expected %v", s, get("grad_norm"), want.GradNorm)
				}
				if d := math.Abs(get("learning_rate") - want.LearningRate); !(d <= 1e-12) {
					t.Errorf("step %d: learning rate %v, expected %v", s, get("learning_rate"), want.LearningRate)
				}
				if n := int(get("tokens_labelled")); n != want.LabelTokens {
					t.Errorf("step %d: %d labelled tokens, expected %d", s, n, want.LabelTokens)
				}
			}
			var tol traintest.Tolerance
			check(t, json.Unmarshal(info.Errors["adapter_step9"], &tol))
			tol.RelativeL2 *= 10
			final := safetensors(t, filepath.Join(dir, "final_adapter", "adapter_model.safetensors"))
			got, err := g.on.Params.Adapter()
			check(t, err)
			traintest.CompareAdapter(t, "final adapter", got, final, "", tol, 5)
			saved, err := train.Load(summary.Result, &g.base.Model.Config)
			check(t, err)
			defer saved.Close()
			if saved.Adapter.Hash() != got.Hash() {
				t.Error("the checkpoint holds other numbers than the device")
			}
		})
	}
}

// TestGoldenPacking is F3: two documents packed into one row have the loss and gradients that the reference has for the
// two alone.
func TestGoldenPacking(t *testing.T) {
	for _, model := range []string{"llama", "qwen35-text"} {
		t.Run(model, func(t *testing.T) {
			dir := traintest.Golden(t, "sft", model)
			var info struct {
				Scalars map[string]struct{ Value float64 }
				Grads   traintest.Tolerance
			}
			readJSON(t, filepath.Join(dir, "packing.json"), &info)
			f := safetensors(t, filepath.Join(dir, "packing.safetensors"))
			ids, labels, segments := integers(t, f, "input_ids"), integers(t, f, "labels"), integers(t, f, "segment_ids")
			task := newGoldenTask(t, model, filepath.Join(dir, "final_adapter"), ids, labels, nil, len(ids))
			whole := task.rows.Rows[0]
			cut := slices.Index(segments, 1)
			task.rows.Rows = []Row{
				{ID: "a", Sample: train.Sample{Tokens: whole.Tokens[:cut], Label: whole.Label[:cut]}},
				{ID: "b", Sample: train.Sample{Tokens: whole.Tokens[cut:], Label: whole.Label[cut:]}},
			}
			for _, packed := range []bool{true, false} {
				if task.layout.Row = 0; packed {
					task.layout.Row = len(ids)
				}
				sums, err := task.on.Params.Zeros()
				check(t, err)
				out, err := task.Gradient(context.Background(), train.Step{Rows: []int{0, 1}}, sums)
				check(t, err)
				if n := info.Scalars["label_tokens"].Value; float64(out.Tokens.Labelled) != n {
					t.Errorf("packed %t: %d labelled tokens, expected %v", packed, out.Tokens.Labelled, n)
				}
				if want := info.Scalars["loss"].Value; !(math.Abs(out.Loss-want) <= 3e-5) {
					t.Errorf("packed %t: loss %v, expected %v", packed, out.Loss, want)
				}
				grads, err := task.on.Params.AsAdapter(sums)
				check(t, err)
				traintest.CompareAdapter(t, fmt.Sprintf("gradient, packed %t", packed), grads, f, "grad/", info.Grads, 0)
				sums.Free()
			}
		})
	}
}
