package train

import (
	"errors"
	"fmt"
	"math"

	"terraloom/lora/decoder"
)

// Sentinel errors.
var (
	// ErrOptions: settings that cannot be used.
	ErrOptions = errors.New("training options")
	// ErrNothingToTrain: no rows, no labelled token or no trainable parameter.
	ErrNothingToTrain = errors.New("nothing to train")
	// ErrNonFinite: losses or gradients were not finite in too many steps in a row.
	ErrNonFinite = errors.New("loss or gradient is not finite")
	// ErrUnchanged: training left every parameter as it was.
	ErrUnchanged = errors.New("training changed nothing")
	// ErrComplete: the run that should be resumed has done all its steps.
	ErrComplete = errors.New("the run is complete")
	// ErrResume: a checkpoint does not go with this run.
	ErrResume = errors.New("cannot resume")
	// ErrNoCheckpoint: there is no checkpoint that is whole.
	ErrNoCheckpoint = errors.New("no checkpoint")
	// ErrCorrupt: a checkpoint whose files are not those of its manifest.
	ErrCorrupt = errors.New("checkpoint is damaged")
)

// Options of a run that do not depend on what is learned. The YAML keys are part of the trainers' configurations.
type Options struct {
	Seed       uint64      `yaml:"seed"` // of all randomness
	Optimizer  Optimizer   `yaml:"optimizer"`
	Schedule   Schedule    `yaml:"schedule"`
	Evaluation Evaluation  `yaml:"evaluation"`
	Checkpoint Checkpoints `yaml:"checkpoint"`
	Stop       Stop        `yaml:"stop"`
}

// Optimizer is AdamW with clipping by the global norm. Decay acts on every trainable tensor.
type Optimizer struct {
	LR    float64 `yaml:"lr"` // peak rate
	Beta1 float64 `yaml:"beta1"`
	Beta2 float64 `yaml:"beta2"`
	Eps   float64 `yaml:"eps"`
	Decay float64 `yaml:"weight_decay"`
	// Clip is the largest norm of the gradient over all trainable tensors; 0: none. Larger gradients are multiplied by
	// Clip/(norm + 1e-6), as PyTorch's clip_grad_norm_ does.
	Clip float64 `yaml:"max_grad_norm"`
}

// Evaluation says when held-out rows are measured: after every so many steps, and always at the end.
type Evaluation struct {
	Every   int  `yaml:"every"`    // steps; 0: at the end only
	AtStart bool `yaml:"at_start"` // also before the first step
}

// Checkpoints says when the run's state is saved. It is also saved after the last step, when a signal ends the run, and
// when an evaluation is the best so far.
type Checkpoints struct {
	Every int `yaml:"every"` // steps; 0: no further ones
	Keep  int `yaml:"keep"`  // the newest that stay, beside the best one
	// Metric is the measurement that decides which checkpoint is the best and becomes the result; empty: the last one
	// does. With a leading "-" larger numbers are worse: -loss.
	Metric string `yaml:"metric"`
}

// Stop says when a run ends before its last step.
type Stop struct {
	Patience int     `yaml:"patience"`  // evaluations in a row without a better metric; 0: never
	MinDelta float64 `yaml:"min_delta"` // how much better counts
	// NonFinite steps in a row are skipped; one more ends the run.
	NonFinite int `yaml:"non_finite"`
}

// Default is what SFT-5 sets, with intervals for runs of some hundred steps.
func Default() Options {
	return Options{
		Seed:       1,
		Optimizer:  Optimizer{LR: 1e-4, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Clip: 1},
		Schedule:   DefaultSchedule(),
		Evaluation: Evaluation{Every: 50, AtStart: true},
		Checkpoint: Checkpoints{Every: 50, Keep: 2, Metric: "-loss"},
		Stop:       Stop{NonFinite: 3},
	}
}

// Validate reports every bad setting by its key; errors wrap [ErrOptions].
func (o Options) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrOptions, key, fmt.Sprintf(format, args...)))
	}
	a := o.Optimizer
	if !(a.LR > 0) || math.IsInf(a.LR, 0) {
		bad("optimizer.lr", "%v: use a number above 0", a.LR)
	}
	for _, b := range []struct {
		key   string
		value float64
	}{{"optimizer.beta1", a.Beta1}, {"optimizer.beta2", a.Beta2}} {
		if !(b.value >= 0 && b.value < 1) {
			bad(b.key, "%v: use a number from 0 to below 1", b.value)
		}
	}
	if !(a.Eps > 0) {
		bad("optimizer.eps", "%v: use a number above 0", a.Eps)
	}
	if !(a.Decay >= 0) || a.Decay*a.LR >= 1 {
		bad("optimizer.weight_decay", "%v: use 0 or more, and less than 1/lr", a.Decay)
	}
	if !(a.Clip >= 0) {
		bad("optimizer.max_grad_norm", "%v: use a number above 0, or 0 for no clipping", a.Clip)
	}
	o.Schedule.validate(bad)
	for _, n := range []struct {
		key          string
		value, least int
	}{
		{"evaluation.every", o.Evaluation.Every, 0}, {"checkpoint.every", o.Checkpoint.Every, 0}, {"checkpoint.keep", o.Checkpoint.Keep, 1},
		{"stop.patience", o.Stop.Patience, 0}, {"stop.non_finite", o.Stop.NonFinite, 0},
	} {
		if n.value < n.least {
			bad(n.key, "%d: use %d or more", n.value, n.least)
		}
	}
	if o.Stop.Patience > 0 && o.Checkpoint.Metric == "" {
		bad("stop.patience", "needs checkpoint.metric, which says what better is")
	}
	if o.Stop.Patience > 0 && o.Evaluation.Every == 0 {
		bad("stop.patience", "needs evaluation.every, which says when it is measured")
	}
	if !(o.Stop.MinDelta >= 0) {
		bad("stop.min_delta", "%v: use 0 or more", o.Stop.MinDelta)
	}
	return errors.Join(errs...)
}

// step is the setting of one update.
func (o Optimizer) step(rate float64) decoder.AdamW {
	return decoder.AdamW{LR: o.LR * rate, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, Decay: o.Decay}
}

// clipMargin keeps the division finite, as in PyTorch.
const clipMargin = 1e-6

// scale is the factor that brings a gradient of this norm to the largest one allowed.
func (o Optimizer) scale(norm float64) float64 {
	if o.Clip == 0 {
		return 1
	}
	return math.Min(1, o.Clip/(norm+clipMargin))
}
