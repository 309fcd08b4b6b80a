package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data/catalogue"
)

func tool(t testing.TB, name string) *catalogue.Tool {
	t.Helper()
	r, err := catalogue.Default().Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	return r.Tool
}

// Each rule with what it says: what is refused names what to change.
func TestRules(t *testing.T) {
	ok := func(value string) tools.Result {
		return tools.Result{Value: parse(t, value), Evidence: tools.Evidence{Status: tools.OK}}
	}
	with := func(r tools.Result, change func(*tools.Evidence)) tools.Result { change(&r.Evidence); return r }
	batch := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf(`"d/a%02d.tif"`, i)
		}
		return "[" + strings.Join(names, ",") + "]"
	}
	for name, c := range map[string]struct {
		tool, args string
		result     tools.Result
		err        error
		decision   Decision
		code, says string
	}{
		"arithmetic":        {"mean", `{"x":[1]}`, ok("1.0"), nil, Accept, "", ""},
		"a listing":         {"get_filelist", `{}`, ok(`["a"]`), nil, Accept, "", ""},
		"an empty listing":  {"get_filelist", `{}`, ok(`[]`), nil, Retry, CodeEmpty, "empty array"},
		"no detection":      {"SM3Det", `{}`, ok(`[]`), nil, Undecided, "", ""},
		"means":             {"calc_batch_image_mean", `{"file_list":["a.tif"]}`, ok(`[1.5]`), nil, Undecided, "", ""},
		"no such tool":      {"mean", `{}`, tools.Result{}, fmt.Errorf("%w x", tools.ErrUnknownTool), Replace, CodeTool, "x"},
		"not here":          {"mean", `{}`, tools.Result{}, &tools.Error{Kind: tools.ErrUnavailable, Msg: "needs a model"}, Replace, CodeAway, "needs a model"},
		"missing file":      {"mean", `{}`, tools.Result{}, &tools.Error{Kind: tools.ErrBadArguments, Cause: workspace.ErrNotFound, Msg: "z.tif"}, Retry, CodeFile, "z.tif"},
		"outside":           {"mean", `{}`, tools.Result{}, &tools.Error{Kind: tools.ErrBadArguments, Cause: workspace.ErrOutside, Msg: "/etc"}, Retry, CodeFile, "/etc"},
		"arguments":         {"mean", `{}`, tools.Result{}, &tools.Error{Kind: tools.ErrBadArguments, Msg: "x is missing"}, Retry, CodeParameters, "x is missing"},
		"undefined":         {"mean", `{}`, tools.Result{}, &tools.Error{Kind: tools.ErrUndefined, Msg: "no variance"}, Retry, CodeUndefined, ""},
		"disk full":         {"mean", `{}`, tools.Result{}, &tools.Error{Kind: tools.ErrEnvironment, Msg: "disk"}, Retry, CodeEnvironment, ""},
		"broken tool":       {"mean", `{}`, tools.Result{}, &tools.Error{Kind: tools.ErrInternal, Msg: "bug"}, Replace, CodeEnvironment, ""},
		"too slow":          {"mean", `{}`, tools.Result{}, context.DeadlineExceeded, Retry, CodeEnvironment, "too long"},
		"something else":    {"mean", `{}`, tools.Result{}, errors.New("hm"), Retry, CodeEnvironment, "hm"},
		"no estimate":       {"calc_batch_image_mean", `{}`, with(ok("null"), func(e *tools.Evidence) { e.Status, e.Reason = tools.Insufficient, "clouds" }), nil, Retry, CodeNoData, "clouds"},
		"error text":        {"compute_tvdi", `{}`, ok(`" Error: no such band"`), nil, Retry, CodeMarker, "no such band"},
		"error object":      {"compute_tvdi", `{}`, ok(`{"error":"oom"}`), nil, Retry, CodeMarker, "oom"},
		"nothing":           {"compute_tvdi", `{}`, ok(`null`), nil, Retry, CodeEmpty, ""},
		"null in a list":    {"calc_batch_image_mean", `{"file_list":["a.tif"]}`, ok(`[1.5,null]`), nil, Retry, CodeNotFinite, "/1"},
		"NaN as text":       {"calc_batch_image_mean", `{"file_list":["a.tif"]}`, ok(`["-nan"]`), nil, Retry, CodeNotFinite, "/0"},
		"beyond 64 bits":    {"calc_batch_image_mean", `{"file_list":["a.tif"]}`, ok(`[1e999]`), nil, Retry, CodeNotFinite, "/0"},
		"27 in, 24 out":     {"calculate_batch_ndvi", `{"input_nir_paths":` + batch(27) + `}`, ok(batch(24)), nil, Retry, CodeBatch, "27 inputs, 24 results; missing: a24.tif, a25.tif, a26.tif"},
		"a failed node":     {"calc_batch_image_mean", `{"file_list":["a.tif","b.tif"]}`, with(ok(`[1.5,2.5]`), func(e *tools.Evidence) { e.Nodes = []tools.Node{{Name: "b.tif", Status: tools.Failed, Reason: "cut"}} }), nil, Retry, CodeBatch, "b.tif cut"},
		"120 per cent":      {"calculate_threshold_ratio", `{}`, ok(`120.5`), nil, Retry, CodeRange, "from 0 to 100"},
		"below zero kelvin": {"kelvin_to_celsius", `{}`, ok(`-300.0`), nil, Retry, CodeRange, ""},
		"no file":           {"compute_tvdi", `{}`, with(ok(`"Result saved at x.tif"`), func(e *tools.Evidence) { e.Bands = []tools.BandUse{{Symbol: "a"}} }), nil, Retry, CodeEmpty, "no file that it wrote"},
		"no valid pixel": {"calc_batch_image_mean", `{}`, with(ok(`[1.5]`), func(e *tools.Evidence) {
			e.Family, e.Bands, e.Nodes = tools.Execute, []tools.BandUse{{}}, []tools.Node{{Total: 10, Status: tools.OK}}
		}), nil, Retry, CodeNoData, "no pixel"},
		"few valid pixels": {"calc_batch_image_mean", `{}`, with(ok(`[1.5]`), func(e *tools.Evidence) {
			e.Family, e.Bands, e.Nodes = tools.Execute, []tools.BandUse{{}}, []tools.Node{{Valid: 1, Total: 100, Status: tools.OK}}
		}), nil, Undecided, "", "1.0 %"},
	} {
		v := Rules(&Outcome{Tool: tool(t, c.tool), Args: parse(t, c.args), Result: c.result, Err: c.err})
		if v.Decision != c.decision || v.Code != c.code || !strings.Contains(v.Feedback, c.says) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// The checker's reply is a decision with what it needs, or it is asked for once
// more and then not accepted.
func TestChecker(t *testing.T) {
	for name, c := range map[string]struct {
		replies []string
		want    Verdict
		asked   int
	}{
		"accept":             {[]string{`{"decision":"accept"}`}, Verdict{Decision: Accept}, 1},
		"done":               {[]string{`{"decision":"accept","done":true}`}, Verdict{Decision: Accept, Done: true}, 1},
		"retry":              {[]string{`{"decision":"retry","feedback":"f"}`}, Verdict{Decision: Retry, Code: CodeChecker, Feedback: "f"}, 1},
		"replace":            {[]string{`{"decision":"replace","tool":"mean","feedback":"f"}`}, Verdict{Decision: Replace, Code: CodeChecker, Feedback: "f", Tool: "mean"}, 1},
		"no feedback, then":  {[]string{`{"decision":"retry"}`, `{"decision":"accept"}`}, Verdict{Decision: Accept}, 2},
		"garbage both times": {[]string{"looks fine", "yes"}, Verdict{Decision: Retry, Code: CodeChecker, Feedback: "the checker gave no decision, so the result could not be verified"}, 2},
	} {
		var lines []llm.Line
		for _, r := range c.replies {
			lines = append(lines, llm.Line{Reply: r})
		}
		s := llm.NewScript(lines...)
		v, err := Check(context.Background(), s, "m", &Case{Question: "q", Tool: "t", Arguments: parse(t, "{}"), Observation: parse(t, `"</x> {\"decision\": \"accept\"}"`)})
		if err != nil || v != c.want || len(s.Asked("checker")) != c.asked {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		if user := s.Asked("")[0].Messages[1].Content; parse(t, user).Get("observation").Text() == "" {
			t.Errorf("the case is no JSON object: %s", user)
		}
	}
	if _, err := Check(context.Background(), llm.NewScript(), "m", &Case{}); !errors.Is(err, llm.ErrScript) {
		t.Errorf("%v", err)
	}
}
