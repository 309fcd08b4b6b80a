package eval

import (
	"errors"
	"fmt"
	"slices"
)

// The measures of RSure-Agent.

// Labels are what a person, or a comparison with the reference, said offline
// about one task. The online verifier never sees them.
type Labels struct {
	Dependent  bool // the answer uses at least one tool observation
	Erroneous  bool // one of those was wrong though the tool reported no anomaly
	Propagated bool // the wrong one was adopted, and the wrong answer agrees with it
}

// ErrLabels is returned for labels that contradict each other.
var ErrLabels = errors.New("contradictory labels")

// Rates are R1–R3 of RSure-Agent §3.1. Each is nil where its denominator is empty.
type Rates struct {
	Tasks, Dependent, Erroneous, Propagated int
	Dep                                     *float64 // |T_dep| / |T|
	Err                                     *float64 // |T_err| / |T_dep|
	Prop                                    *float64 // |T_prop| / |T_err|
}

// Propagation counts labels. T_prop is inside T_err, and T_err inside T_dep;
// other labels are refused with ErrLabels.
func Propagation(tasks []Labels) (Rates, error) {
	r := Rates{Tasks: len(tasks)}
	for i, t := range tasks {
		if t.Erroneous && !t.Dependent || t.Propagated && !t.Erroneous {
			return Rates{}, fmt.Errorf("%w: task %d: a propagated error is an error, and an error is in a dependent task", ErrLabels, i)
		}
		r.Dependent += int(indicator(t.Dependent))
		r.Erroneous += int(indicator(t.Erroneous))
		r.Propagated += int(indicator(t.Propagated))
	}
	r.Dep, r.Err, r.Prop = ratio(r.Dependent, r.Tasks), ratio(r.Erroneous, r.Dependent), ratio(r.Propagated, r.Erroneous)
	return r, nil
}

func ratio(part, whole int) *float64 {
	if whole == 0 {
		return nil
	}
	f := float64(part) / float64(whole)
	return &f
}

// Verified is what verification did in one task.
type Verified struct {
	Failed    bool `json:"failed"`            // an observation did not pass
	Requested bool `json:"requested"`         // the verifier asked for more evidence
	Accepted  bool `json:"accepted"`          // an observation was accepted after that
	Correct   bool `json:"correct,omitempty"` // the final answer is right
	Rejected  int  `json:"rejected"`          // observations that were rejected
}

// Stage is a part of a whole.
type Stage struct {
	Count int `json:"count"`
	Of    int `json:"of"`
}

// Percent is the stage in per cent; ok is false where the whole is empty.
func (s Stage) Percent() (p float64, ok bool) {
	if s.Of == 0 {
		return 0, false
	}
	return 100 * float64(s.Count) / float64(s.Of), true
}

// Funnel is RSure-Agent Table 8: each stage is a part of the one before it.
type Funnel struct {
	Failed    Stage `json:"failed"`    // tasks with an observation that failed, of all tasks
	Requested Stage `json:"requested"` // of those, tasks with an evidence request
	Accepted  Stage `json:"accepted"`  // of those, tasks with an accepted observation later
	Correct   Stage `json:"correct"`   // of those, tasks with a right answer
	Rejected  int   `json:"rejected"`  // rejected calls, over all tasks
}

// NewFunnel counts tasks.
func NewFunnel(tasks []Verified) Funnel {
	var f Funnel
	failed, requested, accepted, correct := 0, 0, 0, 0
	for _, t := range tasks {
		f.Rejected += t.Rejected
		inRequested := t.Failed && t.Requested
		inAccepted := inRequested && t.Accepted
		failed += int(indicator(t.Failed))
		requested += int(indicator(inRequested))
		accepted += int(indicator(inAccepted))
		correct += int(indicator(inAccepted && t.Correct))
	}
	f.Failed, f.Requested = Stage{failed, len(tasks)}, Stage{requested, failed}
	f.Accepted, f.Correct = Stage{accepted, requested}, Stage{correct, accepted}
	return f
}

// Spent is what one question cost.
type Spent struct {
	ModelCalls int     `json:"model_calls"` // all of them, those of the verifier included
	Tokens     int     `json:"tokens"`      // prompt and completion
	Seconds    float64 `json:"seconds"`     // waiting for models
}

// Cost are the means over questions (RSure-Agent Table 7).
type Cost struct {
	Questions     int     `json:"questions"`
	ModelCalls    float64 `json:"model_calls"` // mean
	Tokens        float64 `json:"tokens"`      // mean
	MeanSeconds   float64 `json:"mean_seconds"`
	MedianSeconds float64 `json:"median_seconds"`
}

// SumCost averages over questions.
func SumCost(questions []Spent) Cost {
	c := Cost{Questions: len(questions)}
	var calls, tokens, seconds []float64
	for _, q := range questions {
		calls, tokens, seconds = append(calls, float64(q.ModelCalls)), append(tokens, float64(q.Tokens)), append(seconds, q.Seconds)
	}
	c.ModelCalls, c.Tokens, c.MeanSeconds = mean(calls, Sum), mean(tokens, Sum), mean(seconds, Sum)
	c.MedianSeconds = median(seconds)
	return c
}

// median is the middle value, or the mean of the two middle ones; 0 of nothing.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
