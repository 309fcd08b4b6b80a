package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	got, err := Parse(" {\"tool_sequence\":[\"a\",\"b\",\"a\"]}\n")
	if err != nil || !slices.Equal(got, []string{"a", "b", "a"}) {
		t.Fatalf("%v, %v", got, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"SFT-3 two members":   {`{"tool_sequence":["a"],"why":"x"}`, `"why"`},
		"other member":        {`{"tools":["a"]}`, "tool_sequence"},
		"bare list":           {`["a"]`, "a list of 1"},
		"empty list":          {`{"tool_sequence":[]}`, "at least one"},
		"number":              {`{"tool_sequence":["a",3]}`, "tool_sequence[1]"},
		"blank name":          {`{"tool_sequence":[" "]}`, "tool_sequence[0]"},
		"text around":         {`Plan: {"tool_sequence":["a"]}`, ""},
		"second object":       {`{"tool_sequence":["a"]}{"tool_sequence":["a"]}`, ""},
		"repeated member":     {`{"tool_sequence":["a"],"tool_sequence":["b"]}`, "tool_sequence"},
		"cut":                 {`{"tool_sequence":["a"`, ""},
		"empty":               {"", ""},
		"null instead of one": {"null", "null"},
	} {
		if _, err := Parse(c.text); !errors.Is(err, ErrNotPlan) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected it to name %q", name, err, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	e := []string{"get_filelist", "mean", "mean", "difference"}
	for name, c := range map[string]struct {
		actual []string
		want   Score
	}{
		"equal":           {e, Score{1, 1, 1, 1, true}},
		"one call lost":   {[]string{"get_filelist", "mean", "difference"}, Score{1, .5, .5, .75, false}},
		"rotated":         {[]string{"difference", "get_filelist", "mean", "mean"}, Score{1, .75, 0, 1, false}},
		"call in the way": {[]string{"get_filelist", "x", "mean", "mean", "difference"}, Score{1, 1, .25, 1.25, false}},
		"nothing":         {nil, Score{}},
		"foreign":         {[]string{"x"}, Score{0, 0, 0, .25, false}},
	} {
		if got := Compare(e, c.actual); got != c.want {
			t.Errorf("%s: %+v, expected %+v", name, got, c.want)
		}
	}
	if got := Compare(nil, e); got != (Score{}) {
		t.Errorf("nothing expected: %+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"tool_sequence":["a"]}`)
	f.Add(`{"tool_sequence":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		tools, err := Parse(text)
		if (err == nil) == (len(tools) == 0) {
			t.Errorf("%q gave %q and %v", text, tools, err)
		}
		if err == nil && !Compare(tools, tools).Exact {
			t.Errorf("%q is not itself", tools)
		}
	})
}
