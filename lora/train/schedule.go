package train

import (
	"fmt"
	"math"
)

// Kinds of schedules.
const (
	Cosine   = "cosine"   // half a cosine down to the floor
	Linear   = "linear"   // a straight line down to the floor
	Constant = "constant" // no decay
)

// Schedule says how long a run is and how its learning rate moves, as the schedules of transformers do: step k of the
// warm-up has the rate k/warm-up, so the very first step of a run with a warm-up has rate 0.
type Schedule struct {
	Kind   string  `yaml:"kind" json:"kind"`
	Warmup float64 `yaml:"warmup" json:"warmup"` // below 1: share of all steps, rounded up; from 1 on: steps
	Floor  float64 `yaml:"floor" json:"floor"`   // share of the peak rate that decay ends at
	Epochs float64 `yaml:"epochs" json:"epochs"` // passes over the rows
	Steps  int     `yaml:"steps" json:"steps"`   // if above 0: updates, instead of epochs
}

// DefaultSchedule is the one of SFT-5.
func DefaultSchedule() Schedule {
	return Schedule{Kind: Cosine, Warmup: 0.03, Epochs: 2}
}

func (s Schedule) validate(bad func(key, format string, args ...any)) {
	switch s.Kind {
	case Cosine, Linear, Constant:
	default:
		bad("schedule.kind", "%q: use %s, %s or %s", s.Kind, Cosine, Linear, Constant)
	}
	if !(s.Warmup >= 0) || math.IsInf(s.Warmup, 0) || s.Warmup > 1 && s.Warmup != math.Trunc(s.Warmup) {
		bad("schedule.warmup", "%v: use a share below 1, or a number of steps", s.Warmup)
	}
	if !(s.Floor >= 0 && s.Floor <= 1) {
		bad("schedule.floor", "%v: use a share from 0 to 1", s.Floor)
	}
	switch {
	case s.Steps < 0:
		bad("schedule.steps", "%d: use 0 (as many as the epochs have) or more", s.Steps)
	case s.Steps == 0 && (!(s.Epochs > 0) || math.IsInf(s.Epochs, 0)):
		bad("schedule.epochs", "%v: nothing would be trained: use more than 0, or set schedule.steps", s.Epochs)
	}
}

// Total is the number of steps of a run whose epochs have perEpoch steps each. A started epoch counts by its share,
// rounded up.
func (s Schedule) Total(perEpoch int) int {
	if s.Steps > 0 {
		return s.Steps
	}
	return int(math.Ceil(s.Epochs*float64(perEpoch) - 1e-9))
}

// WarmupSteps is the length of the warm-up in a run of total steps.
func (s Schedule) WarmupSteps(total int) int {
	if s.Warmup < 1 {
		return int(math.Ceil(s.Warmup*float64(total) - 1e-9))
	}
	return int(s.Warmup)
}

// Rate is the learning rate of a step, counted from 0, as a share of the peak rate.
func (s Schedule) Rate(step, total int) float64 {
	warmup := s.WarmupSteps(total)
	if step < warmup {
		return float64(step) / float64(warmup)
	}
	done := float64(step-warmup) / float64(max(total-warmup, 1))
	switch s.Kind {
	case Linear:
		return s.Floor + (1-s.Floor)*(1-done)
	case Constant:
		return 1
	}
	return s.Floor + (1-s.Floor)*(1+math.Cos(math.Pi*done))/2
}

// String describes the schedule of a run of total steps.
func (s Schedule) String() string {
	return fmt.Sprintf("%s, %g to %g of the peak rate", s.Kind, 1.0, s.Floor)
}
