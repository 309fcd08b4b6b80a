// Package answers scores what models answer to Planner and Executor records, and takes the means that trainers and
// evaluations report: one definition of every figure.
package answers

import (
	"fmt"

	"terraloom/data/plan"
	"terraloom/reward"
)

// Roles of records.
const (
	Planner  = "planner"
	Executor = "executor"
)

// Record is what an answer is held against: the answer of a dataset's row.
type Record struct {
	Role   string
	Target string

	plan      []string
	reference *reward.Reference
}

// New reads the reference answer of a record. Errors: [plan.ErrNotPlan], [reward.ErrReference].
func New(role, target string) (r Record, err error) {
	r = Record{Role: role, Target: target}
	switch role {
	case Planner:
		r.plan, err = plan.Parse(target)
	case Executor:
		r.reference, err = reward.NewReference(target, nil)
	default:
		err = fmt.Errorf("role %q: expected %s or %s", role, Planner, Executor)
	}
	return r, err
}

// Score is what one answer is worth.
type Score struct {
	Parsed bool // a plan, or an argument object
	Exact  bool // the reference's sequence, or all of its keys and values and no other
	Reason string
	Plan   plan.Score   // of a Planner record
	Args   reward.Score // of an Executor record
}

// Score scores an answer by its text.
func (r *Record) Score(text string) Score {
	if r.Role == Executor {
		s := reward.DefaultRules().Score(r.reference, text)
		return Score{Parsed: s.Status == reward.Object, Exact: s.Exact(), Reason: s.Reason, Args: s}
	}
	tools, err := plan.Parse(text)
	s := Score{Parsed: err == nil, Plan: plan.Compare(r.plan, tools)}
	s.Exact = s.Plan.Exact
	if err != nil {
		s.Reason = err.Error()
	}
	return s
}

// Figure is a named mean.
type Figure struct {
	Name   string  `json:"name"`
	Number float64 `json:"number"`
}

// Means are the figures of a role over scores, at least one. Every figure is a mean over answers but key_accuracy and
// value_accuracy, which are shares of all reference keys (see [reward.Summarize]). An answer that cannot be read counts
// 0, or its reward.
func Means(role string, scores []Score) []Figure {
	n := float64(len(scores))
	var parsed, exact float64
	var sum plan.Score
	results := make([]reward.Result, len(scores))
	for i, s := range scores {
		if s.Parsed {
			parsed++
		}
		if s.Exact {
			exact++
		}
		sum.AnyOrder += s.Plan.AnyOrder
		sum.InOrder += s.Plan.InOrder
		sum.ExactMatch += s.Plan.ExactMatch
		sum.Efficiency += s.Plan.Efficiency
		results[i] = reward.Result{Reward: s.Args.Reward, Score: s.Args}
	}
	out := []Figure{{"parse_rate", parsed / n}, {"exact_match", exact / n}}
	if role == Planner {
		return append(out, Figure{"tools_any_order", sum.AnyOrder / n}, Figure{"tools_in_order", sum.InOrder / n},
			Figure{"tools_exact_match", sum.ExactMatch / n}, Figure{"efficiency", sum.Efficiency / n})
	}
	all := reward.Summarize(results)
	return append(out, Figure{"reward", all.Mean}, Figure{"key_accuracy", all.KeyAccuracy}, Figure{"value_accuracy", all.ValueAccuracy})
}
