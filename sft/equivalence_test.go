package sft

import (
	"context"
	"fmt"
	"math"
	"testing"

	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/traintest"
)

// gradient is one step's loss and gradient on all rows of a task.
func gradient(tb testing.TB, t *task) (train.Outcome, []float32) {
	tb.Helper()
	sums, err := t.on.Params.Zeros()
	check(tb, err)
	defer sums.Free()
	var rows []int
	for i := range t.rows.Rows {
		rows = append(rows, i)
	}
	out, err := t.Gradient(context.Background(), train.Step{Rows: rows}, sums)
	check(tb, err)
	host, err := sums.Host()
	check(tb, err)
	var flat []float32
	for _, v := range host {
		flat = append(flat, v...)
	}
	return out, flat
}

// distance is the L2 distance of a to b over the length of b.
func distance(a, b []float32) float64 {
	var d, s float64
	for i := range b {
		d += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
		s += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(d / s)
}

// liveTask is a task on a tiny base whose adapter has a B that is not zero, so that every gradient is alive.
func liveTask(tb testing.TB, c Config) *task {
	tb.Helper()
	p := prepare(tb, c)
	for _, b := range p.Base.Start.B {
		for i := range b {
			b[i] = float32(i%7-3) / 20
		}
	}
	return p.task(traintest.Place(tb, p.Base), nil)
}

// F1 and F5: however a step is cut into rectangles, packed or not, it has the same loss and the same gradient, because
// both are sums over the tokens of the whole step.
func TestLayoutDoesNotChangeTheStep(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 8, "validation": 2}, nil))
	task := liveTask(t, c)
	task.layout = train.Layout{Tokens: 8 * 96}
	want, wantGradient := gradient(t, task)
	if got := len(rectangles(t, task)); got != 1 {
		t.Fatalf("%d rectangles, expected all rows in one", got)
	}
	for _, l := range []train.Layout{{Tokens: 96}, {Tokens: 3 * 96}, {Tokens: 512, Row: 256}} {
		task.layout = l
		got, g := gradient(t, task)
		name := fmt.Sprintf("%+v, %d rectangles", l, len(rectangles(t, task)))
		if d := math.Abs(got.Loss - want.Loss); !(d <= 1e-6*want.Loss) {
			t.Errorf("%s: loss %v, expected %v", name, got.Loss, want.Loss)
		}
		if d := distance(g, wantGradient); !(d <= 3e-6) {
			t.Errorf("%s: gradient off by %.2g", name, d)
		}
		if got.Tokens.Labelled != want.Tokens.Labelled || got.Tokens.Real != want.Tokens.Real {
			t.Errorf("%s: tokens %+v, expected %+v", name, got.Tokens, want.Tokens)
		}
	}
	// The mean of the rectangles' means, which others take, is something else for these rows: the test above can fail.
	task.layout = train.Layout{Tokens: 96}
	var means float64
	samples := task.rows.Rows
	for i := range samples {
		task.rows = &Rows{Rows: samples[i : i+1]}
		one, _ := gradient(t, task)
		means += one.Loss / float64(len(samples))
	}
	if math.Abs(means-want.Loss) < 1e-3*want.Loss {
		t.Errorf("mean of means %v, mean over tokens %v: the rows are too much alike to tell", means, want.Loss)
	}
}

func rectangles(tb testing.TB, t *task) []train.Micro {
	tb.Helper()
	plan, err := t.layout.Plan(t.rows.lengths())
	check(tb, err)
	return plan
}

// SFT-1: three tokens with the negative log-likelihoods 1, 1, 1 in one row and one of 5 in another have the loss 2, not the
// mean 3 of the rows. SFT-2: labels on prompt positions would change the loss, so the mask is what keeps them out.
func TestLossIsAMeanOverTokens(t *testing.T) {
	var s scores
	s.add(&decoder.Scores{LogProb: []float32{-1, -1, -1}, Entropy: []float32{1, 1, 1}, Top: []bool{true, false, true}})
	s.add(&decoder.Scores{LogProb: []float32{-5}, Entropy: []float32{3}, Top: []bool{false}})
	if s.loss() != 2 {
		t.Errorf("loss %v, expected 2", s.loss())
	}
	if v := s.values(); v[0] != (run.Value{Name: "token_accuracy", Number: 0.5}) || v[1] != (run.Value{Name: "entropy", Number: 1.5}) {
		t.Errorf("values %v", v)
	}

	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 2, "validation": 1}, nil))
	task := liveTask(t, c)
	masked, _ := gradient(t, task)
	if n := task.rows.Rows[0].Labels() + task.rows.Rows[1].Labels(); masked.Tokens.Labelled != n {
		t.Errorf("%d labelled tokens, expected %d", masked.Tokens.Labelled, n)
	}
	for _, r := range task.rows.Rows {
		for i := range r.Prompt {
			if r.Label[i] {
				t.Fatalf("prompt token %d of %s is labelled", i, r.ID)
			}
			r.Label[i] = true
		}
	}
	if all, _ := gradient(t, task); math.Abs(all.Loss-masked.Loss) < 1e-3 {
		t.Errorf("loss %v with and %v without prompt tokens: too much alike to tell", all.Loss, masked.Loss)
	}
}

// L1: kept activations give the gradient that layers computed again give.
func TestKeptActivationsGiveTheSameGradient(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 2, "validation": 1}, nil))
	_, want := gradient(t, liveTask(t, c))
	c.Device.KeepActivations = true
	if _, g := gradient(t, liveTask(t, c)); !(distance(g, want) <= 3e-6) {
		t.Errorf("gradient off by %.2g", distance(g, want))
	}
}

// Two and four devices that share each batch train as one does: losses to 1e-5.
func TestDevicesShareABatch(t *testing.T) {
	if backendtest.Open(t).Name == backend.Go {
		t.Skip("the Go backend has one device")
	}
	engine, err := backend.Open(backend.CPU, backend.Options{Devices: 4})
	if err != nil {
		t.Skipf("virtual devices need the XLA:CPU plugin: %v", err)
	}
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 3, "validation": 2}, nil))
	c.Schedule = train.Schedule{Kind: train.Constant, Steps: 2}
	losses := func(devices int, shard bool) (out []float64) {
		c := c
		c.Out, c.Device.Count, c.Device.ShardBase = t.TempDir()+"/run", devices, shard
		if devices == 2 { // answers come from one device, whatever training uses
			c.Generation = Generation{Rows: 1, MaxTokens: 4}
			defer func() {
				last := traintest.Records(t, c.Out, run.Validation)
				if n := traintest.Value(t, last[len(last)-1], "answer_tokens"); n < 1 || n > 4 {
					t.Errorf("%v tokens of an answer", n)
				}
			}()
		}
		_, err := prepare(t, c).Run(context.Background(), engine, "never", nil)
		check(t, err)
		for _, r := range append(traintest.Records(t, c.Out, run.Train), traintest.Records(t, c.Out, run.Validation)...) {
			out = append(out, traintest.Value(t, r, "loss"))
		}
		return out
	}
	want := losses(1, false)
	for _, devices := range []int{2, 4} {
		for i, got := range losses(devices, devices == 4) {
			if !(math.Abs(got-want[i]) <= 1e-5*math.Max(1, want[i])) {
				t.Errorf("%d devices: loss %d is %v, on one device %v", devices, i, got, want[i])
			}
		}
	}
}
