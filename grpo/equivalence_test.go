package grpo

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/traintest"
)

// pendingTask is a task with drawn answers on which another policy than theirs is trained: every part of the objective is
// alive.
func pendingTask(tb testing.TB, c Config) *task {
	tb.Helper()
	p := prepare(tb, c)
	t := &task{config: c, base: p.Base, on: traintest.Place(tb, p.Base), layout: c.layout(), cost: p.Base.Cost(), rows: p.Train, ids: p.Train.ids(), pending: &rollouts{}}
	for i, row := range p.Train.Rows {
		for k := range c.Group.Size {
			tokens := p.Base.Codec.Tokenizer.EncodeOrdinary(row.Target)
			tokens = append(tokens[:len(tokens)-k], p.Train.Terminator)
			a := answer{Row: row.ID, Prompt: row.Prompt, Tokens: tokens, Reward: float64((i + k) % 3)}
			for j := range tokens {
				a.Old = append(a.Old, -2-float32((i+j+k)%5)/3)
			}
			a.Sampled = a.Old
			t.pending.Answers = append(t.pending.Answers, a)
		}
	}
	c.Group.judge(t.pending.Answers)
	if c.Objective.needsReference() {
		check(tb, t.judgeByReference(context.Background()))
	}
	return t
}

func gradient(tb testing.TB, t *task) (train.Outcome, []float32) {
	tb.Helper()
	sums, err := t.on.Params.Zeros()
	check(tb, err)
	defer sums.Free()
	out, err := t.update(context.Background(), false, sums)
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

// F1, G3: however the answers of a step are cut into rectangles, packed or not, the step has the same loss and the same
// gradient, under every aggregation and with every estimator.
func TestLayoutDoesNotChangeTheStep(t *testing.T) {
	c := warmConfig(t, checkpoint.Llama)
	for i, aggregation := range []string{TokenMean, SequenceMean, DrGRPO} {
		c.Objective.Aggregation, c.Objective.KL = aggregation, []string{K3, Exact, K3Rho}[i]
		task := pendingTask(t, c)
		task.layout = train.Layout{Tokens: 16 * 64}
		want, wantGradient := gradient(t, task)
		for _, l := range []train.Layout{{Tokens: 64}, {Tokens: 512, Row: 128}} {
			task.layout = l
			got, g := gradient(t, task)
			name := fmt.Sprintf("%s, %+v", aggregation, l)
			if d := math.Abs(got.Loss - want.Loss); !(d <= 1e-5*math.Max(1, math.Abs(want.Loss))) {
				t.Errorf("%s: loss %v, expected %v", name, got.Loss, want.Loss)
			}
			if d := distance(g, wantGradient); !(d <= 1e-5) {
				t.Errorf("%s: gradient off by %.2g", name, d)
			}
			if got.Tokens.Labelled != want.Tokens.Labelled {
				t.Errorf("%s: %d labelled tokens, expected %d", name, got.Tokens.Labelled, want.Tokens.Labelled)
			}
		}
	}
}

// Two and four devices that share each batch train as one does: losses to 1e-5. Answers come from one device, whatever
// training uses.
func TestDevicesShareABatch(t *testing.T) {
	if backendtest.Open(t).Name == backend.Go {
		t.Skip("the Go backend has one device")
	}
	engine, err := backend.Open(backend.CPU, backend.Options{Devices: 4})
	if err != nil {
		t.Skipf("virtual devices need the XLA:CPU plugin: %v", err)
	}
	c := warmConfig(t, checkpoint.Llama)
	c.Batch.Updates, c.Schedule.Steps, c.Optimizer.LR = 2, 2, 1e-3
	losses := func(devices int, shard bool) (out []float64) {
		c := c
		c.Out, c.Device.Count, c.Device.ShardBase = filepath.Join(t.TempDir(), "run"), devices, shard
		_, err := prepare(t, c).Run(context.Background(), engine, "never", nil)
		check(t, err)
		for _, r := range traintest.Records(t, c.Out, run.Train) {
			out = append(out, traintest.Value(t, r, "loss"))
		}
		return out
	}
	want := losses(1, false)
	for _, devices := range []int{2, 4} {
		for i, got := range losses(devices, devices == 4) {
			if !(math.Abs(got-want[i]) <= 1e-5*math.Max(1, math.Abs(want[i]))) {
				t.Errorf("%d devices: loss %d is %v, on one device %v", devices, i, got, want[i])
			}
		}
	}
}

// Every estimator and both references train, from an adapter.
func TestObjectivesTrain(t *testing.T) {
	c := warmConfig(t, checkpoint.Llama)
	c.Schedule.Steps, c.Batch.Updates = 2, 2
	for _, o := range []Objective{
		{ClipLow: .2, ClipHigh: .28, Beta: .1, KL: Exact, Reference: Start, Entropy: .01, Aggregation: TokenMean},
		{ClipLow: .2, ClipHigh: .2, Beta: .1, KL: K2, Reference: Bare, Aggregation: SequenceMean},
		{ClipLow: .2, ClipHigh: .2, KL: K3, Reference: Start, Aggregation: DrGRPO},
	} {
		c.Out, c.Objective = filepath.Join(t.TempDir(), "run"), o
		mustRun(t, c, "never")
		steps := traintest.Records(t, c.Out, run.Train)
		kl := traintest.Value(t, steps[0], "kl")
		switch {
		case o.Beta == 0 && kl != 0, o.Reference == Start && math.Abs(kl) > 1e-6, o.Reference == Bare && kl < 0.1:
			t.Errorf("%+v: KL %v in the first step", o, kl)
		case o.Beta > 0 && (traintest.Value(t, steps[1], "kl") > kl) != (o.Reference == Start): // away from the start, and back towards the base
			t.Errorf("%+v: KL %v after an update, %v before", o, traintest.Value(t, steps[1], "kl"), kl)
		}
		if traintest.Value(t, steps[1], "ratio_max") == 1 {
			t.Errorf("%+v: the second update is on-policy", o)
		}
	}
}
