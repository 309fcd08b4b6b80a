package reward

import (
	"errors"
	"math"
	"testing"
)

// batch makes results of one function named f.
func batch(values ...float64) []Result {
	results := make([]Result, len(values))
	for i, v := range values {
		results[i] = Result{Reward: v, Parts: []Part{{Name: "f", Value: v}}}
	}
	return results
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 || math.IsNaN(a) && math.IsNaN(b) }

// R6: a function that varies from prompt to prompt, but not inside a group.
func TestR6SpreadOverBatchAndInGroups(t *testing.T) {
	for _, c := range []struct {
		name                string
		values              []float64
		mean, batch, group  float64
		valid, flat, groups int
	}{
		{"only between groups", []float64{0, 0, 10, 10}, 5, 10 / math.Sqrt(3), 0, 4, 2, 2},
		{"only inside groups", []float64{0, 10, 0, 10}, 5, 10 / math.Sqrt(3), 10 / math.Sqrt2, 4, 0, 2},
		{"G1 all equal", []float64{1.5, 1.5, 1.5, 1.5}, 1.5, 0, 0, 4, 2, 2},
		{"G1 equal, inexact sums", []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 0.1, 0, 0, 6, 3, 3},
		{"G2 one left in each group", []float64{1, math.NaN(), math.NaN(), 3}, 2, math.Sqrt2, math.NaN(), 2, 0, 0},
		{"G2 one left in one group", []float64{1, math.NaN(), 2, 4}, 7. / 3, math.Sqrt(7. / 3), math.Sqrt2, 3, 0, 1},
		{"nothing", []float64{math.NaN(), math.NaN()}, math.NaN(), math.NaN(), math.NaN(), 0, 0, 0},
	} {
		spreads, err := Spreads(batch(c.values...), 2)
		if err != nil || len(spreads) != 2 || spreads[0].Name != TotalName || spreads[1].Name != "f" {
			t.Fatalf("%+v, %v", spreads, err)
		}
		for _, s := range spreads {
			if !near(s.Mean, c.mean) || !near(s.Batch, c.batch) || !near(s.Group, c.group) || s.Valid != c.valid || s.Flat != c.flat || s.Groups != c.groups {
				t.Errorf("%s: %+v", c.name, s)
			}
		}
	}
	failed := batch(1, 2)
	failed[1].Reward, failed[1].Parts[0] = math.NaN(), Part{Name: "f", Value: math.NaN(), Err: errors.New("no answer")}
	if s, _ := Spreads(failed, 2); s[0].Failed != 1 || s[1].Failed != 1 || s[1].Valid != 1 {
		t.Errorf("%+v", s)
	}
	if _, err := Spreads(batch(1, 2, 3), 2); err == nil {
		t.Error("3 results in groups of 2 are accepted")
	}
	if _, err := Spreads(batch(1), 0); err == nil {
		t.Error("groups of 0 are accepted")
	}
	if s, err := Spreads(nil, 4); s != nil || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSummarize(t *testing.T) {
	ref := reference(t, `{"a":1,"b":2}`)
	var results []Result
	for _, completion := range []string{`{"a":1,"b":2}`, `{"a":1,"b":3}`, `{"a":1,"b":2,"c":3}`, `[]`, `x`} {
		s := DefaultRules().Score(ref, completion)
		results = append(results, Result{Reward: s.Reward, Score: s})
	}
	results[1].Reward = math.NaN()
	got := Summarize(results)
	want := Summary{Items: 5, Valid: 4, Mean: (2 + 1.5 - 1 - 2) / 4, ParseFailures: 1, NotObjects: 1, Exact: 1, KeyAccuracy: 0.6, ValueAccuracy: 0.5}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s := Summarize(nil); s.Items != 0 || !math.IsNaN(s.Mean) || !math.IsNaN(s.KeyAccuracy) {
		t.Errorf("%+v", s)
	}
}
