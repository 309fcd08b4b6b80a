package eval

import (
	"context"
	"math"
	"slices"
	"strings"

	"terraloom/agent/llm"
	"terraloom/agent/rsure"
	"terraloom/data/strictjson"
)

// Calibrate makes the samples of a reliability prior from recorded runs (RSure-
// Agent §4.3): every call of a tool that the question's reference calls too, valid
// if its observation matches that of the reference. Questions whose type neither
// the keyword rules nor the model, which may be nil, can tell are left out. tasks
// are the ids of the questions used.
func Calibrate(ctx context.Context, m llm.Model, model string, runs []*Run, benchmark []Question) (samples []rsure.Sample, tasks []string, err error) {
	for i := range benchmark {
		q := &benchmark[i]
		if !slices.ContainsFunc(runs, func(r *Run) bool { return r.Predictions[q.ID] != nil }) {
			continue
		}
		task, err := rsure.Classify(ctx, m, model, q.Query)
		if err != nil {
			return nil, nil, err
		}
		if task == rsure.Unknown {
			continue
		}
		used := false
		for _, r := range runs {
			p := r.Predictions[q.ID]
			if p == nil {
				continue
			}
			for _, c := range p.Calls {
				known, valid := false, false
				for _, ref := range q.Calls {
					if ref.Name == c.Name {
						known, valid = true, valid || SameObservation(ref.Output, c.Output)
					}
				}
				if known && !c.Output.IsAbsent() {
					samples, used = append(samples, rsure.Sample{Task: task, Config: rsure.ConfigOf(rsure.Action{Tool: c.Name, Args: c.Input}), Valid: valid}), true
				}
			}
		}
		if used {
			tasks = append(tasks, q.ID)
		}
	}
	return samples, tasks, nil
}

// tolerance is the relative error below which an observed number matches that of
// the reference: that of answers.
const tolerance = 0.15

// SameObservation compares an observation with a reference: numbers by relative
// error, texts as they are, lists and objects item by item.
func SameObservation(want, got strictjson.Value) bool {
	if want.IsAbsent() || got.IsAbsent() {
		return false
	}
	a, okA := want.Float()
	b, okB := got.Float()
	switch {
	case okA && okB:
		return a == b || math.Abs(a-b) < tolerance*math.Abs(a)
	case want.Kind() != got.Kind() || want.Len() != got.Len():
		return false
	case want.Kind() == strictjson.String:
		return strings.TrimSpace(want.Text()) == strings.TrimSpace(got.Text())
	case want.Len() == 0:
		return want.Equal(got)
	}
	for i := range want.Len() {
		other := got.Index(i)
		if want.Kind() == strictjson.Object {
			other = got.Get(want.Key(i))
		}
		if !SameObservation(want.Index(i), other) {
			return false
		}
	}
	return true
}
