package train

import (
	"time"

	"terraloom/lora/train/run"
)

// meter measures throughput.
type meter struct {
	peak   float64 // FLOPs per second
	recent []time.Duration
	steps  int
}

// window is how many steps the remaining time is judged by. The first step compiles and is left out once there are others.
const window = 20

// step is what one step says about speed.
func (m *meter) step(o Outcome, took time.Duration) []run.Value {
	m.recent = append(m.recent, took)
	if m.steps++; m.steps == 2 || len(m.recent) > window {
		m.recent = m.recent[1:]
	}
	s := took.Seconds()
	values := []run.Value{
		{Name: "tokens", Number: float64(o.Tokens.All)}, {Name: "tokens_real", Number: float64(o.Tokens.Real)},
		{Name: "tokens_labelled", Number: float64(o.Tokens.Labelled)},
		{Name: "tokens_per_second", Number: float64(o.Tokens.All) / s}, {Name: "tokens_real_per_second", Number: float64(o.Tokens.Real) / s},
		{Name: "tokens_labelled_per_second", Number: float64(o.Tokens.Labelled) / s},
		{Name: "wait_share", Number: o.Wait.Seconds() / s},
		{Name: "tflops_per_second", Number: o.FLOPs / s / 1e12}, {Name: "seconds", Number: s},
	}
	if m.peak > 0 {
		values = append(values, run.Value{Name: "mfu", Number: o.FLOPs / s / m.peak})
	}
	return values
}

// left estimates the time that steps take.
func (m *meter) left(steps int) time.Duration {
	if len(m.recent) == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range m.recent {
		sum += d
	}
	return sum / time.Duration(len(m.recent)) * time.Duration(steps)
}
