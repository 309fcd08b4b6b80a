package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rawSeed is a worked question as its file has it.
type rawSeed struct {
	id, query, answer string
	inputs            any
	steps             []rawStep
}

type rawStep struct {
	tool   string
	args   any
	obs    any
	hasObs bool
}

// rawEarthBench reads question.json with the queries of the evaluation that kind
// begins the name of: autonomous or instruction.
func rawEarthBench(t testing.TB, path, kind string) map[string]*rawSeed {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]struct {
		Dialogs []struct {
			Role      string
			Content   any
			ToolCalls []struct {
				Function struct {
					Name      string
					Arguments any
				}
			} `json:"tool_calls"`
		}
		Choices    []any
		Evaluation []struct {
			Question, Type, Data string
			Gold                 struct{ Whitelist any } `json:"gt_answer"`
		}
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seeds := map[string]*rawSeed{}
	for n, e := range file {
		s := &rawSeed{id: "earth-bench-" + n}
		for _, v := range e.Evaluation {
			if strings.HasPrefix(strings.ToLower(v.Type), kind) {
				s.query = v.Question
				gold := v.Gold.Whitelist
				if list, ok := gold.([]any); ok && len(list) == 1 {
					gold = list[0]
				}
				if letter, ok := gold.(string); ok && len(letter) == 1 && int(letter[0]-'A') < len(e.Choices) {
					s.answer = strings.TrimPrefix(fmt.Sprint(e.Choices[letter[0]-'A']), letter+".")
				}
			}
			if v.Data != "" {
				s.inputs = map[string]any{"data_path": strings.TrimSpace(v.Data)}
			}
		}
		for _, m := range e.Dialogs {
			switch {
			case len(m.ToolCalls) > 0:
				s.steps = append(s.steps, rawStep{tool: m.ToolCalls[0].Function.Name, args: m.ToolCalls[0].Function.Arguments})
			case m.Role == "tool":
				if last := len(s.steps) - 1; last >= 0 && !s.steps[last].hasObs { // else an observation without a call
					s.steps[last].obs, s.steps[last].hasObs = m.Content.(map[string]any)["content"], true
				}
			}
		}
		seeds[s.id] = s
	}
	return seeds
}

// rawOwn reads terraloom's own JSONL.
func rawOwn(t testing.TB, path string) map[string]*rawSeed {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seeds := map[string]*rawSeed{}
	for line := range bytes.Lines(src) {
		s := rawOf(t, line)
		seeds[s.id] = s
	}
	return seeds
}

// rawOf decodes one trajectory object.
func rawOf(t testing.TB, src []byte) *rawSeed {
	t.Helper()
	var v struct {
		ID, Query string
		Inputs    any
		Answer    struct{ Text string }
		Steps     []struct {
			Tool        string
			Arguments   any
			Observation any
		}
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	s := &rawSeed{id: v.ID, query: v.Query, inputs: v.Inputs, answer: v.Answer.Text}
	for _, st := range v.Steps {
		s.steps = append(s.steps, rawStep{st.Tool, st.Arguments, st.Observation, st.Observation != nil})
	}
	return s
}

// leafOf is a string or number of a JSON value and where it stands.
type leafOf struct {
	at string
	v  any // string or json.Number
}

func leavesOf(v any) []leafOf {
	var out []leafOf
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch x := v.(type) {
		case map[string]any:
			keys := make([]string, 0, len(x))
			for k := range x {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			for _, k := range keys {
				walk(at+"/"+k, x[k])
			}
		case []any:
			for i, y := range x {
				walk(at+"/"+strconv.Itoa(i), y)
			}
		case string, json.Number:
			out = append(out, leafOf{at, x})
		}
	}
	walk("", v)
	return out
}

// shapeFault compares keys, JSON types and list lengths.
func shapeFault(at string, a, b any) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return at
		}
		for k := range x {
			if _, ok := y[k]; !ok {
				return at + "/" + k
			}
			if f := shapeFault(at+"/"+k, x[k], y[k]); f != "" {
				return f
			}
		}
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return at + "[]"
		}
		for i := range x {
			if f := shapeFault(at+"/"+strconv.Itoa(i), x[i], y[i]); f != "" {
				return f
			}
		}
	default:
		if fmt.Sprintf("%T", a) != fmt.Sprintf("%T", b) {
			return at + " " + fmt.Sprintf("%T, was %T", b, a)
		}
	}
	return ""
}

func asNumber(v any) (float64, bool) {
	switch x := v.(type) {
	case json.Number:
		f, err := x.Float64()
		return f, err == nil
	case string:
		if len(x) > 32 || !strings.ContainsAny(x, "0123456789") {
			return 0, false
		}
		f, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(x), "%"), 64)
		return f, err == nil
	}
	return 0, false
}

// lastPart is what follows the last slash or backslash.
func lastPart(s string) string {
	s = strings.TrimSpace(s)
	for _, mark := range []string{"saved at ", "save at ", "saved to ", "created: "} {
		if i := strings.LastIndex(s, mark); i >= 0 {
			s = s[i+len(mark):]
		}
	}
	return s[strings.LastIndexAny(s, `/\`)+1:]
}

var plainNumber = regexp.MustCompile(`\d+(?:\.\d+)?`)

func numbersIn(s string) []float64 {
	var out []float64
	for _, m := range plainNumber.FindAllString(s, -1) {
		if f, err := strconv.ParseFloat(m, 64); err == nil {
			out = append(out, f)
		}
	}
	return out
}
