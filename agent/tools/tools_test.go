package tools

import (
	"errors"
	"strings"
	"testing"

	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// cases are calls with hand-computed observations. public is the observation
// under EarthAgent where it differs; "error" means a refusal.
var cases = []struct {
	tool, args, want, public string
}{
	{tool: "difference", args: `{"a":2,"b":3.5}`, want: `1.5`},
	{tool: "difference", args: `{"a":"290.94","b":"290.94"}`, want: `0.0`},
	{tool: "division", args: `{"a":4,"b":1}`, want: `0.25`},
	{tool: "division", args: `{"a":0,"b":1}`, want: "error", public: `"Infinity"`},
	{tool: "percentage_change", args: `{"a":2,"b":3}`, want: `50.0`},
	{tool: "percentage_change", args: `{"a":-2,"b":-3}`, want: `50.0`},
	{tool: "percentage_change", args: `{"a":0,"b":3}`, want: "error"},
	{tool: "multiply", args: `{"a":3,"b":-4}`, want: `-12`},
	{tool: "multiply", args: `{"a":3,"b":0.5}`, want: `1.5`},
	{tool: "multiply", args: `{"a":9007199254740993,"b":3}`, want: `27021597764222979`},
	{tool: "multiply", args: `{"a":"3","b":0.5}`, want: `1.5`, public: "error"},
	{tool: "multiply", args: `{"a":1e200,"b":1e200}`, want: "error"},
	{tool: "ceil_number", args: `{"n":9.3258}`, want: `10`},
	{tool: "ceil_number", args: `{"n":-0.5}`, want: `0`},
	{tool: "ceil_number", args: `{"n":7}`, want: `7`},
	{tool: "ceil_number", args: `{"n":1e20}`, want: `100000000000000000000`},
	{tool: "kelvin_to_celsius", args: `{"kelvin":300}`, want: `26.850000000000023`},
	{tool: "celsius_to_kelvin", args: `{"celsius":-273.15}`, want: `0.0`},
	{tool: "mean", args: `{"x":[1,2,4.5]}`, want: `2.5`},
	{tool: "mean", args: `{"x":[0.000001]}`, want: `1e-06`},
	{tool: "mean", args: `{"x":[]}`, want: "error"},
	{tool: "mean", args: `{"x":[1,null]}`, want: "error"},
	// deviations -1 0 1: sample variance 1, population variance 2/3
	{tool: "coefficient_of_variation", args: `{"x":[3,4,5]}`, want: `0.25`},
	{tool: "coefficient_of_variation", args: `{"x":[0,2],"ddof":0}`, want: `1.0`},
	{tool: "coefficient_of_variation", args: `{"x":[-1,1]}`, want: "error", public: `"NaN"`},
	{tool: "coefficient_of_variation", args: `{"x":[1]}`, want: "error", public: `"NaN"`},
	// 0 0 0 4: mean 1, m2 3, m3 6, m4 21; g1 = 6/3^1.5, b2 = 21/9
	{tool: "skewness", args: `{"x":[0,0,0,4]}`, want: `1.1547005383792517`},
	{tool: "skewness", args: `{"x":[0,0,0,4],"bias":false}`, want: `2.0`, public: `1.299038105676658`},
	{tool: "skewness", args: `{"x":[5,5,5]}`, want: "error", public: `0.0`},
	{tool: "skewness", args: `{"x":[1,2],"bias":false}`, want: "error", public: `0.0`},
	{tool: "kurtosis", args: `{"x":[0,0,0,4]}`, want: `-0.6666666666666665`},
	{tool: "kurtosis", args: `{"x":[0,0,0,4],"fisher":"false"}`, want: `2.3333333333333335`},
	{tool: "kurtosis", args: `{"x":[0,0,0,4],"bias":false}`, want: `4.0`, public: `1.0`},
	{tool: "kurtosis", args: `{"x":[0,0,0,4],"bias":false,"fisher":false}`, want: `7.0`, public: `4.0`},
	{tool: "kurtosis", args: `{"x":[0,0,3],"bias":false}`, want: "error", public: `-2.3333333333333335`},
	{tool: "kurtosis", args: `{"x":[5,5,5]}`, want: "error", public: `0.0`},
	{tool: "max_value_and_index", args: `{"x":[1,3.5,3.5,-2]}`, want: `[3.5,1]`},
	{tool: "min_value_and_index", args: `{"x":[1,-2,-2]}`, want: `[-2.0,1]`},
	{tool: "argmax", args: `{"x":[1,3,2]}`, want: `1`},
	{tool: "compute_linear_trend", args: `{"y":[1,3,5]}`, want: `[2.0,1.0]`},
	{tool: "compute_linear_trend", args: `{"y":[5,1],"x":[2000,2002]}`, want: `[-2.0,4005.0]`},
	{tool: "compute_linear_trend", args: `{"y":[5,1],"x":[1]}`, want: "error"},
	{tool: "compute_linear_trend", args: `{"y":[5]}`, want: "error", public: `[0.0,5.0]`},
	{tool: "compute_linear_trend", args: `{"y":[5,15],"x":[3,3]}`, want: "error", public: `[3.0,1.0]`},
	// four rising values: S = 6, Var = 4·3·13/18 = 26/3, z = 5/√(26/3)
	{tool: "mann_kendall_test", args: `{"x":[1,2,3,4]}`, want: `["no trend",0.08942935902899359,1.6984155512168937,1.0]`},
	{tool: "mann_kendall_test", args: `{"x":[7,7,7]}`, want: `["no trend",1.0,0.0,0.0]`},
	{tool: "mann_kendall_test", args: `{"x":[7]}`, want: "error"},
	{tool: "sens_slope", args: `{"x":[0,1,4]}`, want: `[2.0,[1.0,2.0,3.0]]`},
	{tool: "sens_slope", args: `{"x":[1]}`, want: "error"},
	{tool: "stl_decompose", args: `{"x":[1,2,3],"period":2}`, want: "error"},
	{tool: "detect_change_points", args: `{"signal":[1,1,1,10,10,10,2,2,2],"penalty":5}`, want: `[3,6,9]`, public: `[9]`},
	{tool: "detect_change_points", args: `{"signal":[0,0,0,0,0,9,9,9,9,9],"model":"l1"}`, want: `[5,10]`},
	{tool: "detect_change_points", args: `{"signal":[1,2],"model":"ar"}`, want: "error"},
	// deviations -1 0 1 …: c0 = 2, c1 = 0, c2 = -1; var = 2/3; divisors 3, 2, 1
	{tool: "autocorrelation_function", args: `{"x":[1,2,3],"nlags":2}`, want: `[1.0,0.0,-1.5]`},
	{tool: "autocorrelation_function", args: `{"x":[1,2,3]}`, want: `[1.0,0.0,-1.5]`, public: "error"},
	{tool: "autocorrelation_function", args: `{"x":[1,2,3],"nlags":3}`, want: "error"},
	{tool: "autocorrelation_function", args: `{"x":[4,4,4],"nlags":1}`, want: "error"},
	{tool: "detect_seasonality_acf", args: `{"values":[1,2,1,2,1,2]}`, want: `2`},
	{tool: "detect_seasonality_acf", args: `{"values":[1,2,1,2,1,2],"min_acf":0.7}`, want: `"Data is not cyclical"`},
	{tool: "detect_seasonality_acf", args: `{"values":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}`, want: `"Data is not cyclical"`, public: `2`},
	{tool: "count_spikes_from_values", args: `{"values":[0.1,0.15,0.5,null,0.9]}`, want: `2`},
	{tool: "count_spikes_from_values", args: `{"values":[0.78,0.83],"spike_threshold":0.05}`, want: `0`, public: `1`},
	{tool: "count_spikes_from_values", args: `{"values":[0.7,0.8],"spike_threshold":0.1}`, want: `0`, public: `1`},
	{tool: "count_spikes_from_values", args: `{"values":[null]}`, want: `0`},
	{tool: "bbox_expansion", args: `{"bboxes":[[10,10,20,30]],"radius":3,"gsd":0.5}`, want: `[[4.0,4.0,26.0,36.0]]`},
	{tool: "bbox_expansion", args: `{"bboxes":[[10,10,20]],"radius":3,"gsd":0.5}`, want: "error"},
	{tool: "bboxes2centroids", args: `{"bboxes":[[0,264,127,342]]}`, want: `[[63.5,303.0]]`},
	{tool: "centroid_distance_extremes", args: `{"centroids":[[0,0],[3,4],[0,1]]}`, want: `{"min":[0,2,1.0],"max":[0,1,5.0]}`},
	{tool: "centroid_distance_extremes", args: `{"centroids":[[1,1]]}`, want: "error", public: `{"min":[0,0,"Infinity"],"max":[0,0,"-Infinity"]}`},
	{tool: "calculate_bbox_area", args: `{"bboxes":[[0,0,10,20],[5,5,15,10]],"gsd":2}`, want: `1000.0`, public: `1400.0`},
	{tool: "calculate_bbox_area", args: `{"bboxes":[[0,0,10,20]],"gsd":null}`, want: `200.0`},
	{tool: "calculate_bbox_area", args: `{"bboxes":[[10,0,5,20]]}`, want: "error", public: `100.0`},
	{tool: "get_list_object_via_indexes", args: `{"input_list":["a",{"b":1.0},3],"indexes":[2,1,-3]}`, want: `[3,{"b":1.0},"a"]`},
	{tool: "get_list_object_via_indexes", args: `{"input_list":["a"],"indexes":[1]}`, want: "error"},
	{tool: "get_list_object_via_indexes", args: `{"input_list":"[\"a\",\"b\"]","indexes":[0]}`, want: `["a"]`, public: `["["]`},
	{tool: "get_list_object_via_indexes", args: `{"input_list":"['a']","indexes":[1]}`, want: "error", public: `["'"]`},
	{tool: "index_to_date_range", args: `{"dates":["2021-11-01","2021-11-17","2021-12-03"],"start_index":1}`, want: `{"from":"2021-11-17","to":"2021-12-03"}`},
	{tool: "index_to_date_range", args: `{"dates":["2021-11-01","2021-11-17"],"start_index":1}`, want: "error"},
}

func TestTools(t *testing.T) {
	correct, public := mustNew(t, Correct), mustNew(t, EarthAgent)
	check := func(r *Registry, mode, tool, args, want string) {
		t.Helper()
		got, err := r.Call(tool, mustParse(t, args))
		if want == "error" {
			if err == nil || !errors.Is(err, ErrBadArguments) && !errors.Is(err, ErrUndefined) {
				t.Errorf("%s %s %s: got %s, %v, want a typed refusal", mode, tool, args, got.JSON(), err)
			}
			return
		}
		if err != nil || !closeTo(got, mustParse(t, want), 5e-15) {
			t.Errorf("%s %s %s: got %s, %v, want %s", mode, tool, args, got.JSON(), err, want)
		}
	}
	for _, tc := range cases {
		check(correct, "correct", tc.tool, tc.args, tc.want)
		if tc.public == "" {
			tc.public = tc.want
		}
		check(public, "public", tc.tool, tc.args, tc.public)
	}
}

// Observations are spelt as Python spells them.
func TestSpelling(t *testing.T) {
	r := mustNew(t, Correct)
	for _, tc := range []struct{ tool, args, want string }{
		{"mean", `{"x":[1,1]}`, "1.0"},
		{"mean", `{"x":[0.000001]}`, "1e-06"},
		{"mean", `{"x":[1e16]}`, "1e+16"},
		{"mean", `{"x":[123456789012345678]}`, "1.2345678901234568e+17"},
		{"division", `{"a":3,"b":1}`, "0.3333333333333333"},
		{"difference", `{"a":5,"b":5}`, "0.0"},
		{"kelvin_to_celsius", `{"kelvin":228.11979149414062}`, "-45.03020850585935"},
		{"ceil_number", `{"n":9.1}`, "10"},
		{"multiply", `{"a":2,"b":3}`, "6"},
		{"multiply", `{"a":2,"b":3.0}`, "6.0"},
		{"max_value_and_index", `{"x":[7]}`, "[7.0,0]"},
	} {
		if got, err := r.Call(tc.tool, mustParse(t, tc.args)); err != nil || got.JSON() != tc.want {
			t.Errorf("%s %s: got %s, %v, want %s", tc.tool, tc.args, got.JSON(), err, tc.want)
		}
	}
}

// A yearly wave on a line comes apart into both.
func TestSTLDecomposeTool(t *testing.T) {
	var items []strictjson.Value
	for i := range 24 {
		items = append(items, strictjson.Float(10+0.5*float64(i)+[]float64{3, -1, -2, 0}[i%4]))
	}
	got, err := mustNew(t, Correct).Call("stl_decompose", strictjson.Obj(
		strictjson.Member{Key: "x", Value: strictjson.List(items...)}, strictjson.Member{Key: "period", Value: strictjson.Int(4)}))
	if err != nil {
		t.Fatal(err)
	}
	want := mustParse(t, `{"trend":[10,10.5,11],"seasonal":[3,-1,-2],"resid":[0,0,0]}`)
	for i := range want.Len() {
		part := got.Get(want.Key(i))
		if part.Len() != 24 {
			t.Fatalf("%s has %d values, want 24", want.Key(i), part.Len())
		}
		for k := range 3 {
			g, _ := part.Index(k).Float()
			w, _ := want.Index(i).Index(k).Float()
			if g-w > 1e-9 || w-g > 1e-9 {
				t.Errorf("%s[%d] = %v, want %v", want.Key(i), k, g, w)
			}
		}
	}
}

// The registry holds the pure tools of the catalogue, all of them tested above.
func TestRegistryHoldsThePureTools(t *testing.T) {
	r := mustNew(t, Correct)
	tested := map[string]bool{}
	for _, tc := range cases {
		tested[tc.tool] = true
	}
	n := 0
	for _, tool := range catalogue.Default().Tools() {
		if tool.Pure != r.Pure(tool.Name) {
			t.Errorf("%s: pure in the catalogue is %v, in the registry %v", tool.Name, tool.Pure, r.Pure(tool.Name))
		}
		if tool.Pure {
			n++
			if !tested[tool.Name] {
				t.Errorf("%s has no hand-computed case", tool.Name)
			}
		}
	}
	if n != 27 {
		t.Errorf("%d pure tools, want 27", n)
	}
	lags, _ := catalogue.Default().Tool("autocorrelation_function")
	if p, _ := lags.Param("nlags"); !p.Default.Equal(strictjson.Int(defaultLags)) {
		t.Errorf("nlags defaults to %s, the tool thinks %d", p.Default.JSON(), defaultLags)
	}
}

func TestErrors(t *testing.T) {
	r := mustNew(t, Correct)
	for _, tc := range []struct {
		tool, args string
		kind       error
		want       string
	}{
		{"magic_tool", `{}`, ErrUnknownTool, `unknown tool "magic_tool"`},
		{"compute_tvdi", `{}`, ErrUnavailable, "compute_tvdi: tool not available: it needs imagery"},
		{"mean", `{"y":[1]}`, ErrBadArguments, `unknown argument "y" (known: x)`},
		{"mean", `{"x":[]}`, ErrBadArguments, "mean: bad arguments: /x: the list is empty"},
		{"mean", `{"x":[1,"a"]}`, ErrBadArguments, `mean: /x/1: expected float, got string "a"`},
		{"mean", `{"x":[1e151]}`, ErrBadArguments, "/x/0: 1e151 is too large"},
		{"argmax", `{"x":[]}`, ErrBadArguments, "argmax: bad arguments: /x: the list is empty"},
		{"division", `{"a":0,"b":1}`, ErrUndefined, "division: undefined result: the divisor a is 0"},
		{"skewness", `{"x":[2,2]}`, ErrUndefined, "skewness: undefined result: all values are equal"},
		{"calculate_bbox_area", `{"bboxes":[[0,0,1,1],[5,0,1,1]]}`, ErrBadArguments, "/bboxes/1: x2 < x1 or y2 < y1"},
		{"bboxes2centroids", `{"bboxes":[[0,0,1]]}`, ErrBadArguments, "/bboxes/0: expected box [x1, y1, x2, y2], got 3 numbers"},
		{"get_list_object_via_indexes", `{"input_list":[1,2],"indexes":[0,2]}`, ErrBadArguments, "/indexes/1: 2 is outside a list of 2 items; use 0 to 1"},
		{"stl_decompose", `{"x":[1,2,3],"period":12}`, ErrBadArguments, "two whole periods of 12 need 24 values, got 3"},
	} {
		_, err := r.Call(tc.tool, mustParse(t, tc.args))
		if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s: got %v, want %q wrapping %v", tc.tool, tc.args, err, tc.want, tc.kind)
		}
	}
	if _, err := New("earth_agent"); err == nil {
		t.Error("New takes an unknown compat mode")
	}
}

func TestEvidence(t *testing.T) {
	r := mustNew(t, Correct)
	for _, tc := range []struct {
		tool, args    string
		used, missing int
		warning       string
	}{
		{"mean", `{"x":[1,2,3]}`, 3, 0, ""},
		{"count_spikes_from_values", `{"values":[1,null,3]}`, 2, 1, ""},
		{"count_spikes_from_values", `{"values":[1,null]}`, 1, 1, "only 1 valid values"},
		{"kelvin_to_celsius", `{"kelvin":-1}`, 1, 0, "below absolute zero"},
		{"percentage_change", `{"a":-1,"b":1}`, 2, 0, "a is negative"},
		{"mann_kendall_test", `{"x":[1,2,3]}`, 3, 0, "only 3 values"},
		{"autocorrelation_function", `{"x":[1,2,3]}`, 3, 0, "lags end at 2"},
	} {
		res, err := r.Invoke(t.Context(), tc.tool, mustParse(t, tc.args))
		e := res.Evidence
		if err != nil || e.Used != tc.used || e.Missing != tc.missing || (tc.warning == "") != (len(e.Warnings) == 0) ||
			tc.warning != "" && !strings.Contains(e.Warnings[0], tc.warning) {
			t.Errorf("%s %s: got %+v, %v", tc.tool, tc.args, e, err)
		}
	}
}

// No input makes a tool panic, return what JSON cannot hold, or fail without a type.
func FuzzCall(f *testing.F) {
	for _, tc := range cases {
		f.Add(tc.tool, tc.args)
	}
	correct, public := mustNew(f, Correct), mustNew(f, EarthAgent)
	f.Fuzz(func(t *testing.T, name, text string) {
		args, err := strictjson.Parse([]byte(text))
		if err != nil || len(text) > 4096 {
			return
		}
		for _, r := range []*Registry{correct, public} {
			got, err := r.Call(name, args)
			if err != nil {
				if !errors.Is(err, ErrUnknownTool) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrBadArguments) && !errors.Is(err, ErrUndefined) {
					t.Fatalf("untyped error %v", err)
				}
				continue
			}
			got.Leaves("", func(pointer string, leaf strictjson.Value) {
				if leaf.Kind() == strictjson.Null && !strings.Contains(text, "null") {
					t.Fatalf("null at %s of %s", pointer, got.JSON())
				}
			})
			if again, err := r.Call(name, args); err != nil || !again.Equal(got) {
				t.Fatalf("a second call gives %s, %v, the first gave %s", again.JSON(), err, got.JSON())
			}
		}
	})
}

func BenchmarkCall(b *testing.B) {
	r := mustNew(b, Correct)
	args := mustParse(b, `{"x":[280.1,281.2,279.9,290.4,285.5,283.3,281.7,282.8,284.9,286.0,287.2,288.3]}`)
	for b.Loop() {
		if _, err := r.Call("mean", args); err != nil {
			b.Fatal(err)
		}
	}
}
