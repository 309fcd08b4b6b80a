package tools

import (
	"bytes"
	"maps"
	"math"
	"testing"

	"terraloom/data/strictjson"
)

// closeTo reports whether two observations are the same up to the relative
// tolerance tol on every number.
func closeTo(a, b strictjson.Value, tol float64) bool {
	if a.Kind() != b.Kind() || a.Len() != b.Len() {
		return false
	}
	switch a.Kind() {
	case strictjson.Number:
		x, _ := a.Float()
		y, _ := b.Float()
		return math.Abs(x-y) <= tol*max(math.Abs(x), math.Abs(y))
	case strictjson.Object:
		for i := range a.Len() {
			if !closeTo(a.Index(i), b.Get(a.Key(i)), tol) {
				return false
			}
		}
		return true
	case strictjson.Array:
		for i := range a.Len() {
			if !closeTo(a.Index(i), b.Index(i), tol) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// Every recorded execution of the public kit is reproduced within 1e-9 relative:
// under EarthAgent all of them, under Correct all but those of the kit's faults.
func TestGoldenTriples(t *testing.T) {
	data := sharedFile(t, "earth-bench/tool_golden.jsonl")
	correct, public := mustNew(t, Correct), mustNew(t, EarthAgent)
	n, spelt := 0, 0
	needPublic := map[string]int{}
	err := strictjson.Lines(bytes.NewReader(data), "tool_golden.jsonl", func(line int, v strictjson.Value) error {
		n++
		name, input := v.Get("tool").Text(), v.Get("input")
		want := mustParse(t, v.Get("output").Text())
		got, err := public.Call(name, input)
		if err != nil || !closeTo(got, want, 1e-9) && !sameLine(name, input, got, want) {
			t.Errorf("line %d: %s %.200s\ngot  %s, %v\nwant %s", line, name, input.JSON(), got.JSON(), err, want.JSON())
		}
		if got.JSON() == v.Get("output").Text() {
			spelt++
		}
		if got, err := correct.Call(name, input); err != nil || !closeTo(got, want, 1e-9) && !sameLine(name, input, got, want) {
			needPublic[name]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d triples; %d have the very digits; need compat=earth-agent: %v", n, spelt, needPublic)
	want := map[string]int{"calculate_bbox_area": 25, "get_list_object_via_indexes": 16, "skewness": 1}
	if n != 978 || !maps.Equal(needPublic, want) {
		t.Errorf("%d triples, want 978; those that need compat are %v, want %v", n, needPublic, want)
	}
}

// sameLine compares lines by their values over the data, for an intercept that
// is exactly 0 where the kit's solver left 6e-15.
func sameLine(name string, input, got, want strictjson.Value) bool {
	if name != "compute_linear_trend" || got.Len() != 2 {
		return false
	}
	largest := 0.0
	for i := range input.Get("y").Len() {
		y, _ := input.Get("y").Index(i).Float()
		largest = max(largest, math.Abs(y))
	}
	for i := range 2 {
		g, _ := got.Index(i).Float()
		w, _ := want.Index(i).Float()
		if math.Abs(g-w) > 1e-14*largest {
			return false
		}
	}
	return true
}
