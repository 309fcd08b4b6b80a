package catalogue

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"terraloom/data/strictjson"
)

func TestDefaultHolds112Tools(t *testing.T) {
	count := map[string]int{}
	seen := map[string]bool{}
	for _, tool := range Default().Tools() {
		count[tool.Origin+"/"+tool.Family]++
		if seen[tool.Name] {
			t.Errorf("%s is there twice", tool.Name)
		}
		seen[tool.Name] = true
	}
	want := map[string]int{
		"kit/index": 12, "kit/inversion": 17, "kit/perception": 15, "kit/analysis": 10, "kit/statistics": 50,
		"inferred/acquisition": 3, "seed-calls/index": 4, "seed-calls/analysis": 1,
	}
	if fmt.Sprint(count) != fmt.Sprint(want) || len(seen) != 112 {
		t.Errorf("%d tools, by origin and family %v, want 112, %v", len(seen), count, want)
	}
}

// The 104 public tools have the public kit's parameters, order, defaults and types.
func TestMatchesPublicSignatures(t *testing.T) {
	root, err := strictjson.Parse(sharedFile(t, "earth-bench/tool_signatures.json"))
	if err != nil {
		t.Fatal(err)
	}
	if root.Len() != 104 {
		t.Fatalf("%d public tools, want 104", root.Len())
	}
	for i := range root.Len() {
		name, public := root.Key(i), root.Index(i).Get("args")
		tool, ok := Default().Tool(name)
		if !ok || tool.Origin != "kit" {
			t.Errorf("%s: not in the catalogue as a kit tool", name)
			continue
		}
		if kit := strings.ToLower(root.Index(i).Get("kit").Text()); tool.Family != kit {
			t.Errorf("%s: family %s, public %s", name, tool.Family, kit)
		}
		if len(tool.Params) != public.Len() {
			t.Errorf("%s: %d parameters, public %d", name, len(tool.Params), public.Len())
			continue
		}
		for j, p := range tool.Params {
			arg := public.Index(j)
			if p.Name != arg.Index(0).Text() {
				t.Errorf("%s: parameter %d is %s, public %s", name, j, p.Name, arg.Index(0).Text())
			}
			if got, want := p.Type.String(), arg.Index(1).Text(); !refines(got, want, tool.Batch && p.IO != "") {
				t.Errorf("%s: %s is %s, public %s", name, p.Name, got, want)
			}
			if got, want := p.Default, pythonLiteral(t, arg.Index(2)); !got.Equal(want) {
				t.Errorf("%s: %s defaults to %s, public %s", name, p.Name, got.JSON(), want.JSON())
			}
		}
	}
}

// refines reports whether a catalogue type is the public one or says more: "?"
// is anything, "list" may name its items, a batch path may be a list.
func refines(got, public string, batchPath bool) bool {
	switch {
	case public == "?", got == public:
		return true
	case batchPath:
		return public == "str" && got == "str | list[str]"
	case public == "list" || public == "dict":
		return strings.HasPrefix(got, public)
	case public == "list | None" || public == "dict | None":
		return strings.HasPrefix(got, public[:4]) && strings.HasSuffix(got, " | null")
	}
	return false
}

func pythonLiteral(t *testing.T, v strictjson.Value) strictjson.Value {
	t.Helper()
	if v.Kind() == strictjson.Null { // no default
		return strictjson.Value{}
	}
	s := strings.ReplaceAll(v.Text(), ", ", ",")
	switch {
	case s == "None":
		s = "null"
	case s == "True" || s == "False":
		s = strings.ToLower(s)
	case strings.HasPrefix(s, "'"):
		return strictjson.Text(strings.Trim(s, "'"))
	}
	w, err := strictjson.Parse([]byte(s))
	if err != nil {
		t.Fatalf("default %s: %v", v.JSON(), err)
	}
	return w
}

func TestPathParametersAreMarked(t *testing.T) {
	for _, tool := range Default().Tools() {
		for _, p := range tool.Params {
			looksLikePath := strings.Contains(p.Name, "path") || strings.Contains(p.Name, "file") || p.Name == "save_name"
			if looksLikePath && p.IO == "" {
				t.Errorf("%s: %s looks like a path but has no io", tool.Name, p.Name)
			}
			if tool.Pure && p.IO != "" {
				t.Errorf("%s is pure but %s is a path", tool.Name, p.Name)
			}
		}
	}
}

func TestResolve(t *testing.T) {
	c := Default()
	for _, tc := range []struct {
		name, tool string
		item       int
	}{
		{"mean", "mean", -1},
		{"calculate_ndsi", "calculate_batch_ndsi", -1},
		{"extract_modis_bt", "extract_brightness_temperature", -1},
		{"argmax", "max_value_and_index", 1},
		{"argmin", "min_value_and_index", 1},
	} {
		r, err := c.Resolve(tc.name)
		if err != nil || r.Tool.Name != tc.tool || r.Item != tc.item {
			t.Errorf("Resolve(%q) = %v, %v, want %s item %d", tc.name, r, err, tc.tool, tc.item)
		}
	}
	if _, ok := c.Tool("argmax"); ok {
		t.Error("Tool takes an alias")
	}
	_, err := c.Resolve("calcluate_tvdi")
	if !errors.Is(err, ErrUnknownTool) || !strings.Contains(err.Error(), `(did you mean "compute_tvdi"?)`) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Resolve("magic_tool"); err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("magic_tool: got %v, want no suggestion", err)
	}
}

func TestSignature(t *testing.T) {
	for name, want := range map[string]string{
		"division":     "division(a: float, b: float) — Quotient b/a of two numbers (the second divided by the first).",
		"kurtosis":     "kurtosis(x: list[float], bias: bool = true, fisher: bool = true) — Kurtosis of a series; 0 for a normal distribution with fisher, else 3.",
		"split_window": `split_window(band31_path: str | list[str], band32_path: str | list[str], emissivity31_path: str | list[str], emissivity32_path: str | list[str], parameter: "LST" | "PWV", output_path: str | list[str]) — Land surface temperature or water vapour by the split-window method from bands 31 and 32 with emissivities.`,
	} {
		tool, _ := Default().Tool(name)
		if got := tool.Signature(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestSchema(t *testing.T) {
	tool, _ := Default().Tool("calculate_bbox_area")
	want := `{"type":"object","properties":{` +
		`"bboxes":{"type":"array","items":{"type":"array","items":{"type":"number"}},"description":"boxes [x1, y1, x2, y2] (px)"},` +
		`"gsd":{"anyOf":[{"type":"number","exclusiveMinimum":0},{"type":"null"}],"description":"ground size of a pixel (m)","default":null}},` +
		`"required":["bboxes"],"additionalProperties":false}`
	if got := tool.Schema(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParseTypeRoundTrip(t *testing.T) {
	for _, s := range []string{"str", "list", "list[float | null]", "dict[dict[float]] | null", "str | list[str] | int", "any", "list[list[int]]"} {
		got, err := ParseType(s)
		if err != nil || got.String() != s {
			t.Errorf("ParseType(%q) = %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "number", "list[", "list[float", "str |", "str]", "list[]", "float float"} {
		if got, err := ParseType(s); err == nil {
			t.Errorf("ParseType(%q) = %s, want an error", s, got)
		}
	}
}

func TestParseRefusesBadFiles(t *testing.T) {
	const head = "tools:\n- name: t\n  family: index\n  domains: [rgb]\n  tags: [x]\n  summary: S.\n  returns: str\n"
	for _, tc := range []struct{ text, want string }{
		{"tools: []", "no tools"},
		{"tolls: []", "tolls"},
		{strings.Replace(head, "index", "indexes", 1) + "  params: [{name: a, type: str, doc: d}]", `family "indexes" is none of`},
		{strings.Replace(head, "rgb", "sar", 1) + "  params: [{name: a, type: str, doc: d}]", `domain "sar" is none of`},
		{head + "  params: []", "needs name, summary"},
		{head + "  params: [{name: a, type: string, doc: d}]", `parameter "a": type "string"`},
		{head + "  params: [{name: a, type: str}]", "needs name and doc"},
		{head + "  params: [{name: a, type: str, doc: d, io: both}]", `io "both"`},
		{head + "  params: [{name: a, type: int, doc: d, default: x}]", `default: expected int, got string "x"`},
		{head + "  params: [{name: a, type: float, doc: d, minimum: 0, default: -1}]", "below the minimum 0"},
		{head + "  params: [{name: a, type: str, doc: d}, {name: b, type: str, doc: d, aliases: [a]}]", `key "a" is used twice`},
		{head + "  aliases: [t]\n  params: [{name: a, type: str, doc: d}]", `the name "t" already stands for t`},
		{head + "  params: [{name: a, type: dict, doc: d, default: {b: 1}}]", "a default is a scalar or a list"},
	} {
		if _, err := parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s\ngot  %v\nwant %s", tc.text, err, tc.want)
		}
	}
}
