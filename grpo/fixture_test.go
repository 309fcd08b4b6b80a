package grpo

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"terraloom/data"
	"terraloom/data/prompt"
	"terraloom/data/strictjson"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/provenance"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
	"terraloom/lora/train/traintest"
)

// node is the question and the arguments of the i-th Executor record.
func node(i int) (question string, arguments strictjson.Value) {
	places := []string{"Leon", "Paris", "Cairo", "Lima", "Oslo", "Quito", "Accra", "Hanoi"}
	place := places[i%len(places)]
	return fmt.Sprintf("Mean of %s in %d?", place, 2001+i), strictjson.Obj(
		strictjson.Member{Key: "place", Value: strictjson.Text(place)}, strictjson.Member{Key: "year", Value: strictjson.Int(2001 + i)})
}

// tinyBase is a model folder with random weights, large enough to be moved by an adapter. All tests share it.
func tinyBase(tb testing.TB, family checkpoint.Family) string {
	tb.Helper()
	texts := []string{"system\nYou give arguments.", "user", "assistant"}
	for i := range 8 {
		question, arguments := node(i)
		texts = append(texts, question, arguments.JSON())
	}
	return traintest.Base(tb, family, texts, 1)
}

// tinyDataset writes a dataset of Executor records by split. The records of all splits ask the same eight questions, so that
// what was learned by heart can be measured.
func tinyDataset(tb testing.TB, rows map[string]int, edit func(split string, i int, r *data.ExecutorRow)) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "dataset")
	w, err := data.CreateDataset(dir, data.WriterOptions{})
	check(tb, err)
	defer w.Abort()
	for _, split := range slices.Sorted(maps.Keys(rows)) {
		for i := range rows[split] {
			id := fmt.Sprintf("%s-%d", split, i)
			question, arguments := node(i)
			t := &data.Trajectory{ID: id, SeedID: id, Source: "test", Domain: "spectrum", Query: question, Steps: []data.Step{{Tool: "mean", Arguments: arguments}}}
			r := data.ExecutorRow{
				Prompt:     []data.Message{{Role: "system", Content: "You give arguments."}, {Role: "user", Content: question}},
				Completion: []data.Message{{Role: "assistant", Content: arguments.JSON()}}, Reference: arguments.JSON(), Tool: "mean",
				TrajectoryID: id, SeedID: id, Domain: "spectrum", Source: "test",
			}
			if edit != nil {
				edit(split, i, &r)
			}
			p := data.PlannerRow{
				Prompt:       []data.Message{{Role: "system", Content: "You plan."}, {Role: "user", Content: question}},
				Completion:   []data.Message{{Role: "assistant", Content: prompt.PlannerCompletion([]string{"mean"})}},
				TrajectoryID: id, SeedID: id, Domain: "spectrum", Source: "test",
			}
			check(tb, w.Add(split, t, p, []data.ExecutorRow{r}))
		}
	}
	check(tb, w.Finish(&data.Manifest{}))
	return dir
}

// tinyConfig is a run of a few quick steps.
func tinyConfig(tb testing.TB, base, dataset string) Config {
	c := Default()
	c.Base, c.Dataset, c.Out = base, dataset, filepath.Join(tb.TempDir(), "run")
	c.Device.Precision = string(decoder.Float32)
	c.Device.Backend = os.Getenv("TERRALOOM_BACKEND")
	if c.Device.Backend == "" {
		c.Device.Backend = "auto"
	}
	c.LoRA.R, c.LoRA.Alpha = 16, 32
	c.Template.Variables = nil
	c.Data.MaxPromptTokens, c.Rollout.MaxTokens = 64, 32
	c.Batch = Batch{Prompts: 2, Updates: 1, Tokens: 768, Packing: false}
	c.Schedule = train.Schedule{Kind: train.Constant, Steps: 3}
	c.Optimizer.LR = 1e-2
	c.Evaluation.Every, c.Evaluation.AtStart = 0, false
	c.Checkpoint.Every = 0
	c.Data.Validation, c.Data.ValidationRows = "", 0
	return c
}

// warm is an adapter of a few steps of fine-tuning on the rows of a configuration, so that answers are rewarded differently.
func warm(tb testing.TB, c Config, steps int) string {
	tb.Helper()
	c.Adapter = ""
	p := prepare(tb, c)
	folder, err := run.Open(filepath.Join(tb.TempDir(), "warm"), false)
	check(tb, err)
	defer folder.Close()
	options := train.Default()
	options.Optimizer.LR, options.Schedule = 1e-2, train.Schedule{Kind: train.Constant, Steps: steps}
	on := traintest.Place(tb, p.Base)
	loop := &train.Loop{Model: on.Model, Params: on.Params, Task: &imitation{p: p, params: on.Params, model: on.Model}, Options: options, Batch: len(p.Train.Rows), Folder: folder}
	summary, err := loop.Run(context.Background())
	check(tb, err)
	id, err := p.Base.Identity()
	check(tb, err)
	path, err := p.Base.WriteResult(folder, summary.Result, provenance.New(provenance.Record{Method: "sft", Role: "executor", Identity: id}))
	check(tb, err)
	return path
}

// imitation is fine-tuning on the records' own answers.
type imitation struct {
	p      *Prepared
	model  *decoder.Model
	params *decoder.Params
}

func (t *imitation) IDs() []string { return t.p.Train.ids() }

func (t *imitation) Evaluate(context.Context, int) ([]run.Value, error) { return nil, nil }

func (t *imitation) Gradient(_ context.Context, s train.Step, sums *decoder.Vectors) (out train.Outcome, err error) {
	var samples []train.Sample
	var lengths []int
	for _, r := range s.Rows {
		row := t.p.Train.Rows[r]
		a := answer{Prompt: row.Prompt, Tokens: append(t.p.Base.Codec.Tokenizer.EncodeOrdinary(row.Target), t.p.Train.Terminator)}
		samples = append(samples, a.sample())
		lengths = append(lengths, len(samples[len(samples)-1].Tokens))
	}
	plan, err := t.p.Config.layout().Plan(lengths)
	if err != nil {
		return out, err
	}
	n := 0
	for _, s := range samples {
		n += s.Labels()
	}
	for _, m := range plan {
		b := m.Batch(samples)
		weights := make([]float32, len(b.Labels.At))
		for i := range weights {
			weights[i] = -1 / float32(n)
		}
		pass, err := t.model.Forward(b.Batch, t.params, decoder.Train{Backward: true})
		if err != nil {
			return out, err
		}
		got, err := pass.Backward(b.Labels, decoder.Coefficients{LogProb: weights}, sums)
		pass.Free()
		if err != nil {
			return out, err
		}
		for _, l := range got.LogProb {
			out.Loss -= float64(l) / float64(n)
		}
		out.Tokens.Add(b.Count)
	}
	return out, nil
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
	check(tb, setup.WriteConfig(folder, "grpo", &p.Config, p.Origins, from != ""))
	return p.train(ctx, share(tb, p), folder, from, progress)
}

// mustRun is runOn for runs that must work.
func mustRun(tb testing.TB, c Config, resume string) *setup.Result {
	tb.Helper()
	res, err := runOn(tb, context.Background(), c, resume, nil)
	check(tb, err)
	return res
}
