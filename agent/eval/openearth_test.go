package eval

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestEVAL18CategoryF1(t *testing.T) {
	samples := []Sample{{Reference: []string{"OCR", "Terminate"}, Predicted: []string{"OCR", "OCR", "unheard_of"}}}
	c := CountCategory(Perception, samples)
	if c != (Counts{1, 2, 1}) || math.Abs(c.F1()-.666658) > 5e-7 {
		t.Errorf("%+v gives %.6f", c, c.F1())
	}
	if f := (Counts{}).F1(); f != 0 {
		t.Errorf("of nothing: %v", f)
	}
	// Overlaps are of each sample, not of the sums.
	crossed := []Sample{{Reference: []string{"Plot"}, Predicted: []string{"Solver"}}, {Reference: []string{"Solver"}, Predicted: []string{"Plot"}}}
	if c := CountCategory(Logic, crossed); c != (Counts{2, 2, 0}) {
		t.Errorf("%+v", c)
	}
	n := 0
	for _, tools := range categoryTools {
		n += len(tools)
	}
	if n != 23 {
		t.Errorf("%d tools in categories", n)
	}
}

func TestEVAL19Orders(t *testing.T) {
	reference := []string{"a", "b", "a", "Terminate"}
	for predicted, want := range map[string]Order{
		"b a a": {true, false, true}, "a b": {false, false, true}, "x a b a": {true, true, true}, "": {}, "b b b": {},
	} {
		if got := CompareOrder(reference, strings.Fields(predicted)); got != want {
			t.Errorf("%q: %+v, expected %+v", predicted, got, want)
		}
	}
}

func TestEVAL20AnswersAndEndings(t *testing.T) {
	yes, no := true, false
	s := ScoreOpenEarth([]Sample{
		{Reference: []string{"OCR", "DrawBox", "Terminate"}, Predicted: []string{"DrawBox"}},        // right
		{Reference: []string{"DrawBox"}, Predicted: []string{"DrawBox"}, LastCode: 1, Judged: &yes}, // the call failed
		{Reference: []string{"DrawBox"}, Predicted: []string{"Plot"}},                               // another tool
		{Reference: []string{"DrawBox"}},                                                            // nothing predicted
		{Reference: []string{"OCR", "Terminate"}, Predicted: []string{"OCR"}, Judged: &yes},         // judged
		{Reference: []string{"Calculator"}, Predicted: []string{"Solver"}, Judged: &no},             // judged
		{Reference: []string{"Calculator"}, Predicted: []string{"Calculator"}},                      // no verdict
	})
	if s.Generated != .25 || s.Drawn != 4 || s.Answers != .5 || s.Judged != 2 || s.Unjudged != 1 {
		t.Errorf("%+v", s)
	}
	if s.AnyOrder != 3./7 || s.Unique != 3./7 || s.SameOrder != 3./7 {
		t.Errorf("%+v", s)
	}
}

func TestEVAL21PropagationRates(t *testing.T) {
	tasks := make([]Labels, 10)
	for i := range tasks {
		tasks[i] = Labels{Dependent: i < 8, Erroneous: i < 4, Propagated: i < 3}
	}
	r, err := Propagation(tasks)
	if err != nil || *r.Dep != .8 || *r.Err != .5 || *r.Prop != .75 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := Propagation(tasks[5:8]); err != nil || r.Prop != nil || *r.Err != 0 {
		t.Errorf("without errors: %+v, %v", r, err)
	}
	if r, err := Propagation(nil); err != nil || r.Dep != nil || r.Err != nil || r.Prop != nil {
		t.Errorf("of nothing: %+v, %v", r, err)
	}
	for _, l := range []Labels{{Erroneous: true}, {Dependent: true, Propagated: true}} {
		if _, err := Propagation([]Labels{l}); err == nil {
			t.Errorf("%+v was taken", l)
		}
	}
}

func TestEVAL22Funnel(t *testing.T) {
	tasks := make([]Verified, 248)
	for i := range tasks {
		tasks[i] = Verified{Failed: i < 179, Requested: i < 177, Accepted: i < 175, Correct: i < 104 || i >= 200}
		if i < 6 {
			tasks[i].Rejected = 1
		}
	}
	f := NewFunnel(tasks)
	var got []string
	for _, s := range []Stage{f.Failed, f.Requested, f.Accepted, f.Correct} {
		p, ok := s.Percent()
		got = append(got, fmt.Sprintf("%.1f %v", p, ok))
	}
	if strings.Join(got, ", ") != "72.2 true, 98.9 true, 98.9 true, 59.4 true" || f.Rejected != 6 {
		t.Errorf("%v, %+v", got, f)
	}
	if _, ok := NewFunnel(nil).Failed.Percent(); ok {
		t.Error("a share of nothing")
	}
}

func TestEVAL23Cost(t *testing.T) {
	c := SumCost([]Spent{{ModelCalls: 5, Tokens: 1000, Seconds: 2}})
	if c != (Cost{1, 5, 1000, 2, 2}) {
		t.Errorf("%+v", c)
	}
	c = SumCost([]Spent{{4, 10, 9}, {6, 30, 1}, {5, 20, 2}, {5, 20, 4}})
	if c != (Cost{4, 5, 20, 4, 3}) {
		t.Errorf("%+v", c)
	}
	if SumCost(nil) != (Cost{}) {
		t.Error("of nothing")
	}
}

func TestEVAL24Choice420(t *testing.T) {
	var tasks []ChoiceTask
	types := append([]string{"Visual Grounding", "Referring Expression Segmentation"}, append(PerceptionTypes[:14:14], ReasoningTypes...)...)
	for _, name := range types { // the 23 types
		for i := range 30 {
			tasks = append(tasks, ChoiceTask{ID: fmt.Sprintf("%s-%02d", name, i), Type: name})
		}
	}
	got, err := Choice420(tasks, 3)
	if err != nil || len(got) != 420 {
		t.Fatalf("%d tasks, %v", len(got), err)
	}
	n, seen := map[string]int{}, map[string]bool{}
	for i, c := range got {
		n[c.Type]++
		seen[c.ID] = true
		if perception := i < 280; perception != strings.Contains(strings.Join(PerceptionTypes, "|"), c.Type) {
			t.Errorf("%d is %s", i, c.Type)
		}
	}
	if len(n) != 21 || len(seen) != 420 || n["Visual Grounding"] != 0 {
		t.Errorf("%v", n)
	}
	for i, j := 0, len(tasks)-1; i < j; i, j = i+1, j-1 {
		tasks[i], tasks[j] = tasks[j], tasks[i]
	}
	again, _ := Choice420(tasks, 3)
	other, _ := Choice420(tasks, 4)
	if fmt.Sprint(again) != fmt.Sprint(got) || fmt.Sprint(other) == fmt.Sprint(got) {
		t.Error("the draw depends on the order, or not on the seed")
	}
	if _, err := Choice420(tasks[:100], 3); err == nil || !strings.Contains(err.Error(), "Image Caption has 0 of 20") {
		t.Errorf("%v", err)
	}
}
