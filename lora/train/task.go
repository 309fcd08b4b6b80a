// Package train is the optimisation loop that supervised fine-tuning and policy optimisation share: AdamW on the
// trainable tensors of a decoder, its schedule, clipping, evaluation, checkpoints, and everything a run records.
//
// What is learned comes as a [Task], which adds the gradient of its objective to the loop's and says what it found. The
// loop knows nothing of losses. Everything random is a pure function of the run's seed and of what it is for (see
// [Stream] and [Order]), so a run that is resumed from any checkpoint goes on bit for bit as if it had not stopped.
package train

import (
	"context"
	"time"

	"terraloom/lora/decoder"
	"terraloom/lora/train/run"
)

// Step is one optimiser step to be computed.
type Step struct {
	Number int   // from 0
	Epoch  int   // from 0
	Update int   // which step it is on the same rows, from 0
	Rows   []int // indices of rows, in the order of training
}

// Task is what a run learns.
type Task interface {
	// IDs are the unique names of the rows that are trained on.
	IDs() []string
	// Gradient adds to sums the gradient of the step's whole objective with respect to the parameters; the loop divides by
	// nothing. An error ends the run.
	Gradient(ctx context.Context, s Step, sums *decoder.Vectors) (Outcome, error)
	// Evaluate measures the parameters on held-out rows; nil if there are none. done is the number of steps done.
	Evaluate(ctx context.Context, done int) ([]run.Value, error)
}

// Stateful is a Task with something of its own to keep in checkpoints, such as rollouts that are not used up.
type Stateful interface {
	State() ([]byte, error)
	Restore(state []byte) error
}

// Outcome is what a task found in a step.
type Outcome struct {
	Loss   float64 // the objective
	Tokens Tokens
	FLOPs  float64       // that the model needed, see [Cost]
	Wait   time.Duration // of the device for data
	Values []run.Value   // further metrics
}
