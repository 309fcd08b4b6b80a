package train

import (
	"context"
	"math"
	"os"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/train/run"
)

func TestMain(m *testing.M) {
	if code, done := backend.Startup(); done {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// tiny is a model of one layer, which the tests here never run: they train its adapter on a task without a model.
func tiny() checkpoint.Config {
	return checkpoint.Config{
		Family: checkpoint.Llama, Architecture: "LlamaForCausalLM", HiddenSize: 8, IntermediateSize: 12, NumLayers: 1, NumHeads: 2, NumKVHeads: 1,
		HeadDim: 4, VocabSize: 64, MaxPositions: 128, RMSNormEps: 1e-6, Rope: checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: 1e4, Dim: 4},
		LayerTypes: []checkpoint.LayerType{checkpoint.FullAttention}, Tied: true, DType: checkpoint.F32, BOS: -1, Pad: -1, EOS: []int{0},
	}
}

func tinyAdapter(tb testing.TB) *adapter.Adapter {
	tb.Helper()
	c := tiny()
	a, err := adapter.New(&c, adapter.Config{R: 2, Alpha: 4, Targets: []string{"q_proj", "down_proj"}}, 1, nil)
	check(tb, err)
	return a
}

func tinyModel(tb testing.TB) (*decoder.Model, *decoder.Params) {
	tb.Helper()
	c := tiny()
	m, err := decoder.Load(backendtest.Open(tb), c, decoder.RandomWeights{Config: c, Seed: 1}, decoder.Options{})
	check(tb, err)
	p, err := m.Bind(tinyAdapter(tb))
	check(tb, err)
	tb.Cleanup(func() {
		p.Free()
		m.Close()
	})
	return m, p
}

// pull is a task whose objective is half the mean squared distance of the parameters to a number that each row names: it
// needs no forward pass, and its result depends on every step's rows.
type pull struct {
	params *decoder.Params
	ids    []string
	goals  []float32

	steps []Step
	// spoil makes a step's loss or gradient not finite.
	spoil func(Step) (loss, gradient bool)
	// measure are the values of Evaluate; nil: the distance to the mean goal.
	measure  func(done int) []run.Value
	measured []int
	// stop is called after every gradient.
	stop func(Step)
}

func newPull(p *decoder.Params, rows int) *pull {
	t := &pull{params: p}
	for i := range rows {
		t.ids = append(t.ids, string(rune('a'+i)))
		t.goals = append(t.goals, float32(i)/4-1)
	}
	return t
}

func (t *pull) IDs() []string { return t.ids }

func (t *pull) Gradient(ctx context.Context, s Step, sums *decoder.Vectors) (Outcome, error) {
	t.steps = append(t.steps, s)
	host, err := t.params.Host()
	if err != nil {
		return Outcome{}, err
	}
	goal := float32(0)
	for _, r := range s.Rows {
		goal += t.goals[r] / float32(len(s.Rows))
	}
	loss := 0.0
	for i := range host {
		for j := range host[i] {
			d := host[i][j] - goal
			loss += float64(d*d) / 2
			host[i][j] = d
		}
	}
	if t.spoil != nil {
		bad, gradient := t.spoil(s)
		if bad {
			loss = math.NaN()
		}
		if gradient {
			host[0][0] = float32(math.Inf(1))
		}
	}
	v, err := t.params.FromHost(host)
	if err != nil {
		return Outcome{}, err
	}
	sums.Free()
	*sums = *v
	if t.stop != nil {
		t.stop(s)
	}
	return Outcome{Loss: loss, Tokens: Tokens{All: 10 * len(s.Rows), Real: 8 * len(s.Rows), Labelled: len(s.Rows)}, FLOPs: 1e6}, ctx.Err()
}

func (t *pull) Evaluate(_ context.Context, done int) ([]run.Value, error) {
	t.measured = append(t.measured, done)
	if t.measure != nil {
		return t.measure(done), nil
	}
	host, err := t.params.Host()
	if err != nil {
		return nil, err
	}
	return []run.Value{{Name: "loss", Number: float64(host[0][0]) * float64(host[0][0])}}, nil
}

// quick are options for tests: 3 epochs, a checkpoint at the end and wherever the run is stopped.
func quick() Options {
	o := Default()
	o.Optimizer.LR = 0.05
	o.Schedule.Epochs = 3
	o.Evaluation = Evaluation{Every: 2}
	o.Checkpoint = Checkpoints{Keep: 100}
	return o
}
