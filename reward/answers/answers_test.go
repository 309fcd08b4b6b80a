package answers

import (
	"errors"
	"math"
	"testing"

	"terraloom/data/plan"
	"terraloom/reward"
)

func record(t *testing.T, role, target string) Record {
	t.Helper()
	r, err := New(role, target)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func compare(t *testing.T, got []Figure, want map[string]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d figures %v, expected %d", len(got), got, len(want))
	}
	for _, f := range got {
		if w, ok := want[f.Name]; !ok || math.Abs(f.Number-w) > 1e-12 {
			t.Errorf("%s is %v, expected %v", f.Name, f.Number, w)
		}
	}
}

// By hand: the first answer is right; the second has two of the three tools, of which the first alone is in its place
// and "c" keeps the order no more; the third is no plan.
func TestPlannerMeans(t *testing.T) {
	r := record(t, Planner, `{"tool_sequence":["a","b","c"]}`)
	var scores []Score
	for _, text := range []string{`{"tool_sequence": ["a","b","c"]}`, `{"tool_sequence":["a","c"]}`, `a, b, c`} {
		scores = append(scores, r.Score(text))
	}
	if !scores[0].Exact || scores[1].Exact || scores[2].Reason == "" {
		t.Errorf("scores %+v", scores)
	}
	compare(t, Means(Planner, scores), map[string]float64{
		"parse_rate": 2. / 3, "exact_match": 1. / 3, "tools_any_order": (1 + 2./3) / 3, "tools_in_order": (1 + 1./3) / 3,
		"tools_exact_match": (1 + 1./3) / 3, "efficiency": (1 + 2./3) / 3,
	})
}

// By hand, Eq. 13 with two keys: right 2; one wrong value (2−0+1)/2; one key missing (1−1+1)/2 with one key of two;
// unreadable −2; a list −1.
func TestExecutorMeans(t *testing.T) {
	r := record(t, Executor, `{"a":1,"b":"x"}`)
	var scores []Score
	for _, text := range []string{`{"b":"x","a":1}`, `{"a":2,"b":"x"}`, `{"a":1}`, `{"a":`, `[1]`} {
		scores = append(scores, r.Score(text))
	}
	compare(t, Means(Executor, scores), map[string]float64{
		"parse_rate": 3. / 5, "exact_match": 1. / 5, "reward": (2 + 1.5 + 0.5 - 2 - 1) / 5,
		"key_accuracy": 5. / 10, "value_accuracy": 4. / 10,
	})
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Planner, `{"tools":[]}`); !errors.Is(err, plan.ErrNotPlan) {
		t.Errorf("a text that is no plan: %v", err)
	}
	if _, err := New(Executor, `[]`); !errors.Is(err, reward.ErrReference) {
		t.Errorf("a reference that is no object: %v", err)
	}
	if _, err := New("critic", `{}`); err == nil {
		t.Error("an unknown role is taken")
	}
}
