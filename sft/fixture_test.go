package sft

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/prompt"
	"terraloom/data/strictjson"
	"terraloom/lora/checkpoint"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
	"terraloom/lora/train/traintest"
)

var tools = []string{"get_filelist", "mean", "difference", "compute_tvdi", "threshold", "calculate_area", "SM3Det", "SAM2"}

// plans are the answers of eight questions.
func plans(i int) []string {
	n := 1 + i%4
	var out []string
	for k := range n {
		out = append(out, tools[(i*3+k*5)%len(tools)])
	}
	return out
}

func question(i int) string {
	places := []string{"Leon", "Paris", "Cairo", "Lima", "Oslo", "Quito", "Accra", "Hanoi"}
	return fmt.Sprintf("What changed near %s in %d?", places[i%len(places)], 2001+i)
}

// tinyBase is a model folder with random weights, large enough to be moved by an adapter. All tests share it.
func tinyBase(tb testing.TB, family checkpoint.Family) string {
	tb.Helper()
	texts := []string{"system\nYou plan.", strings.Join(tools, `","`), `{"tool_sequence":["get_filelist","mean"]}`}
	for i := range 8 {
		texts = append(texts, question(i), prompt.PlannerCompletion(plans(i)))
	}
	return traintest.Base(tb, family, texts, 0)
}

// tinyDataset writes a dataset of rows by split. The rows of all splits ask the same eight questions, so that what was
// learned by heart can be measured.
func tinyDataset(tb testing.TB, rows map[string]int, edit func(split string, i int, p *data.PlannerRow)) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "dataset")
	w, err := data.CreateDataset(dir, data.WriterOptions{})
	check(tb, err)
	defer w.Abort()
	for _, split := range slices.Sorted(maps.Keys(rows)) {
		for i := range rows[split] {
			id := fmt.Sprintf("%s-%d", split, i)
			t := &data.Trajectory{ID: id, SeedID: id, Source: "test", Domain: "spectrum", Query: question(i)}
			names := plans(i)
			var executor []data.ExecutorRow
			for k, name := range names {
				arguments := strictjson.Obj(strictjson.Member{Key: "year", Value: strictjson.Int(2001 + i)}, strictjson.Member{Key: "k", Value: strictjson.Int(k)})
				t.Steps = append(t.Steps, data.Step{Tool: name, Arguments: arguments})
				executor = append(executor, data.ExecutorRow{
					Prompt:     []data.Message{{Role: "system", Content: "You plan."}, {Role: "user", Content: question(i) + " " + name}},
					Completion: []data.Message{{Role: "assistant", Content: arguments.JSON()}}, Reference: arguments.JSON(), Tool: name, Node: k,
					TrajectoryID: id, SeedID: id, Domain: "spectrum", Source: "test",
				})
			}
			p := data.PlannerRow{
				Prompt:       []data.Message{{Role: "system", Content: "You plan."}, {Role: "user", Content: question(i)}},
				Completion:   []data.Message{{Role: "assistant", Content: prompt.PlannerCompletion(names)}},
				TrajectoryID: id, SeedID: id, Domain: "spectrum", Source: "test",
			}
			if edit != nil {
				edit(split, i, &p)
			}
			check(tb, w.Add(split, t, p, executor))
		}
	}
	check(tb, w.Finish(&data.Manifest{}))
	return dir
}

// tinyConfig is a run of a few quick steps.
func tinyConfig(tb testing.TB, base, dataset string) Config {
	c := Default()
	c.Base, c.Dataset, c.Out = base, dataset, filepath.Join(tb.TempDir(), "run")
	c.Device.Precision = float32Precision
	c.Device.Backend = os.Getenv("TERRALOOM_BACKEND")
	if c.Device.Backend == "" {
		c.Device.Backend = "auto"
	}
	c.LoRA.R, c.LoRA.Alpha = 4, 8
	c.Template.Variables = nil
	c.Data.MaxTokens, c.Batch.Rows, c.Batch.Tokens = 128, 3, 256
	c.Schedule.Epochs, c.Optimizer.LR = 2, 1e-2
	c.Evaluation.Every, c.Evaluation.AtStart = 0, false
	c.Checkpoint.Every = 0
	c.Generation.Rows = 0
	return c
}

func prepare(tb testing.TB, c Config) *Prepared {
	tb.Helper()
	p, err := Prepare(context.Background(), c, nil)
	check(tb, err)
	tb.Cleanup(func() { p.Close() })
	return p
}

// runOn is Run on a model that earlier runs of the test have used.
func runOn(tb testing.TB, ctx context.Context, c Config, resume string, progress func(train.Status)) (*setup.Result, error) {
	tb.Helper()
	p := prepare(tb, c)
	folder, err := run.Open(c.Out, resume != "never")
	check(tb, err)
	defer folder.Close()
	from, err := train.Resumable(c.Out, resume)
	check(tb, err)
	check(tb, setup.WriteConfig(folder, "sft", &p.Config, p.Origins, from != ""))
	return p.train(ctx, traintest.Place(tb, p.Base), folder, from, progress)
}

// mustRun is runOn for runs that must work.
func mustRun(tb testing.TB, c Config, resume string) *setup.Result {
	tb.Helper()
	res, err := runOn(tb, context.Background(), c, resume, nil)
	check(tb, err)
	return res
}
