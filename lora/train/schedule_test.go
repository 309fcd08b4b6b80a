package train

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestScheduleRates(t *testing.T) {
	near := func(name string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("%s: %v, expected %v", name, got, want)
		}
	}
	cosine := Schedule{Kind: Cosine, Warmup: 2, Steps: 10}
	// The rates of the reference run (peak 1e-3), see model-golden/sft.
	for step, want := range []float64{0, 0.5, 1, 0.9619397662556434, 0.8535533905932737, 0.691341716182545, 0.5, 0.3086582838174551, 0.14644660940672628, 0.03806023374435663} {
		near("cosine", cosine.Rate(step, 10), want)
	}
	linear := Schedule{Kind: Linear, Warmup: 0.2, Floor: 0.1, Epochs: 1}
	near("linear peak", linear.Rate(2, 10), 1)
	near("linear middle", linear.Rate(6, 10), 0.1+0.9*0.5)
	near("linear end", linear.Rate(10, 10), 0.1)
	constant := Schedule{Kind: Constant, Warmup: 1, Steps: 5}
	near("constant first", constant.Rate(0, 5), 0)
	near("constant last", constant.Rate(4, 5), 1)
	near("no warm-up", Schedule{Kind: Cosine, Steps: 3}.Rate(0, 3), 1)
	near("all warm-up", Schedule{Kind: Cosine, Warmup: 3, Steps: 3}.Rate(2, 3), 2.0/3)
}

func TestScheduleLengths(t *testing.T) {
	for _, c := range []struct {
		s                           Schedule
		perEpoch, total, warmupWant int
	}{
		{Schedule{Epochs: 2, Warmup: 0.03}, 7, 14, 1},
		{Schedule{Epochs: 0.5}, 7, 4, 0},
		{Schedule{Epochs: 1, Warmup: 0.1}, 10, 10, 1},
		{Schedule{Epochs: 1, Steps: 3, Warmup: 2}, 10, 3, 2},
		{Schedule{Epochs: 1. / 3}, 3, 1, 0},
	} {
		if got := c.s.Total(c.perEpoch); got != c.total {
			t.Errorf("%+v with %d steps an epoch: %d steps, expected %d", c.s, c.perEpoch, got, c.total)
		}
		if got := c.s.WarmupSteps(c.total); got != c.warmupWant {
			t.Errorf("%+v: warm-up of %d steps, expected %d", c.s, got, c.warmupWant)
		}
	}
}

func TestOptionsValidateReportsAllAtOnce(t *testing.T) {
	check(t, Default().Validate())
	o := Options{
		Optimizer: Optimizer{LR: math.NaN(), Beta1: 1, Beta2: -1, Eps: 0, Decay: -1, Clip: -1},
		Schedule:  Schedule{Kind: "cosin", Warmup: 1.5, Floor: 2, Epochs: 0},
		Stop:      Stop{Patience: 2, MinDelta: -1, NonFinite: -1},
	}
	err := o.Validate()
	if !errors.Is(err, ErrOptions) {
		t.Fatalf("error %v", err)
	}
	for _, key := range []string{"optimizer.lr", "optimizer.beta1", "optimizer.beta2", "optimizer.eps", "optimizer.weight_decay", "optimizer.max_grad_norm",
		"schedule.kind", "schedule.warmup", "schedule.floor", "schedule.epochs", "checkpoint.keep", "stop.patience: needs checkpoint.metric",
		"stop.patience: needs evaluation.every", "stop.min_delta", "stop.non_finite"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("no %q in\n%v", key, err)
		}
	}
}

// The clip factor is TRL's: max/(norm + 1e-6), never above 1.
func TestClipScale(t *testing.T) {
	for norm, want := range map[float64]float64{4.542986869812012: 1 / (4.542986869812012 + 1e-6), 0.5: 1, 1: 1 / 1.000001} {
		if got := (Optimizer{Clip: 1}).scale(norm); !(math.Abs(got-want) <= 1e-15) {
			t.Errorf("norm %v: factor %v, expected %v", norm, got, want)
		}
	}
	if got := (Optimizer{}).scale(1e9); got != 1 {
		t.Errorf("no clipping: factor %v", got)
	}
}

// The count agrees with the LoRA ceiling of an 8B model at 4,096 tokens: 33.5 GFLOP a token (4N + attention).
func TestCost(t *testing.T) {
	c := tiny()
	matrices := float64(2*8*8 + 2*8*4 + 3*8*12) // q and o, k and v, gate, up and down
	head := float64(64 * 8)
	n := 10.0
	lora := NewCost(&c, 100, false).Of([]int{10}, 3)
	if want := n*(4*matrices+600) + 3*4*head + 6*8*n*n; lora != want {
		t.Errorf("adapter: %v, expected %v", lora, want)
	}
	full := NewCost(&c, c.Parameters(), true).Of([]int{10, 5}, 3)
	if want := 15*6*matrices + 3*6*head + 6*8*(100+25); full != want {
		t.Errorf("all weights: %v, expected %v", full, want)
	}
	hybrid := c
	hybrid.NumLayers, hybrid.LayerTypes = 2, append(hybrid.LayerTypes, "linear_attention")
	hybrid.Family = "qwen3_5"
	hybrid.LinearAttn.KeyHeads, hybrid.LinearAttn.ValueHeads, hybrid.LinearAttn.KeyHeadDim, hybrid.LinearAttn.ValueHeadDim, hybrid.LinearAttn.ConvKernel = 1, 2, 4, 4, 4
	if got, less := NewCost(&hybrid, 100, false).Of([]int{10}, 3), lora+10*18*4*8; !(got > less) {
		t.Errorf("a layer with the delta rule costs %v, less than its recurrence %v", got-lora, less-lora)
	}
}
