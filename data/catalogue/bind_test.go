package catalogue

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"terraloom/data/strictjson"
)

func mustParse(t *testing.T, s string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func mustTool(t testing.TB, name string) *Tool {
	t.Helper()
	tool, ok := Default().Tool(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	return tool
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		tool, args string
		want       []string // parts of the message; none means valid
	}{
		{"difference", `{"a":1,"b":2.5}`, nil},
		{"difference", `{"b":2,"a":1}`, nil},
		{"difference", `{"a":1}`, []string{`missing argument "b" (float: second number)`}},
		{"difference", `{"a":"290.94","b":1}`, []string{`/a: expected float, got string "290.94"`}},
		{"difference", `{"a":1,"b":1e999}`, []string{"/b: number beyond 64-bit range"}},
		{"difference", `{"a":1,"b":2,"` + strings.Repeat("k", 5000) + `":3}`, []string{`unknown argument "kkkk`}},
		{"difference", `[1,2]`, []string{"arguments must be an object, got array [1,2]"}},
		{"calculate_bbox_area", `{"box":[[0,0,1,1]],"gsd":0}`, []string{
			`unknown argument "box" (did you mean "bboxes"?)`, "/gsd: 0 must be greater than 0", `missing argument "bboxes"`}},
		{"calculate_bbox_area", `{"bboxes":[[0,0,1,"1"]],"gsd":null}`, []string{`/bboxes/0/3: expected float, got string "1"`}},
		{"calculate_bbox_area", `{"bbox":[[0,0,1,1]]}`, []string{`unknown argument "bbox" (did you mean "bboxes"?)`, `missing argument "bboxes"`}},
		{"calculate_bbox_area", `{"bboxes":[],"wavelengths":1}`, []string{`unknown argument "wavelengths" (known: bboxes, gsd)`}},
		{"stl_decompose", `{"x":[1,2],"period":1.5}`, []string{"/period: expected int, got number 1.5"}},
		{"stl_decompose", `{"x":[1,2],"period":12.0,"robust":false}`, nil},
		{"split_window", `{"band31_path":["a"],"band32_path":"b","emissivity31_path":"c","emissivity32_path":"d","parameter":"LSTs","output_path":"o"}`,
			[]string{`/parameter: "LSTs" is none of LST, PWV (did you mean "LST"?)`}},
		{"nasa_team_sea_ice_concentration", `{"bt_paths":{"19V":"a","19H":"b","37V":"c"},"output_path":"o"}`, []string{`"37H" is missing`}},
		{"get_percentile_value_from_image", `{"image_path":"a","percentile":101}`, []string{"/percentile: 101 is above the maximum 100"}},
		{"count_spikes_from_values", `{"values":[1,null,"x"]}`, []string{"/values/2: expected float | null, got string"}},
		{"calculate_threshold_ratio", `{"image_paths":["a",1]}`, []string{"/image_paths/1: expected str, got number 1"}},
	} {
		err := mustTool(t, tc.tool).Validate(mustParse(t, tc.args))
		if len(tc.want) == 0 {
			if err != nil {
				t.Errorf("%s %s: %v", tc.tool, tc.args, err)
			}
			continue
		}
		var e *ArgumentsError
		if !errors.As(err, &e) || !errors.Is(err, ErrArguments) || len(e.Problems) != len(tc.want) {
			t.Errorf("%s %s: got %v, want %q", tc.tool, tc.args, err, tc.want)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: got %v, want %q", tc.tool, tc.args, err, want)
			}
		}
	}
}

// Validate accepts exactly what an independent validator accepts under Schema.
func TestValidateEqualsSchema(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	accepted, refused := 0, 0
	for _, tool := range Default().Tools() {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(tool.Schema()))
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("mem:///"+tool.Name, doc); err != nil {
			t.Fatal(err)
		}
		schema, err := compiler.Compile("mem:///" + tool.Name)
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		for range 300 {
			args := randomArgs(r, tool)
			instance, err := jsonschema.UnmarshalJSON(strings.NewReader(args.JSON()))
			if err != nil {
				t.Fatal(err)
			}
			want, got := schema.Validate(instance), tool.Validate(args)
			if (want == nil) != (got == nil) {
				t.Fatalf("%s %s\nschema says %v\nValidate says %v", tool.Name, args.JSON(), want, got)
			}
			if got == nil {
				accepted++
			} else {
				refused++
			}
		}
	}
	if accepted < 3000 || refused < 3000 {
		t.Errorf("one-sided sample: %d accepted, %d refused", accepted, refused)
	}
}

// randomArgs makes arguments that are mostly right.
func randomArgs(r *rand.Rand, tool *Tool) strictjson.Value {
	var members []strictjson.Member
	for i := range tool.Params {
		p := &tool.Params[i]
		if r.IntN(40) == 0 || !p.Required() && r.IntN(2) == 0 {
			continue
		}
		v := randomValue(r, p.Type)
		if len(p.Enum) > 0 && r.IntN(8) > 0 {
			v = strictjson.Text(p.Enum[r.IntN(len(p.Enum))])
		}
		if len(p.Keys) > 0 && r.IntN(8) > 0 {
			var dict []strictjson.Member
			for _, k := range p.Keys {
				dict = append(dict, strictjson.Member{Key: k, Value: strictjson.Text("a")})
			}
			v = strictjson.Obj(dict...)
		}
		members = append(members, strictjson.Member{Key: p.Name, Value: v})
	}
	if r.IntN(20) == 0 {
		members = append(members, strictjson.Member{Key: "extra", Value: strictjson.Int(1)})
	}
	return strictjson.Obj(members...)
}

func randomValue(r *rand.Rand, typ Type) strictjson.Value {
	if r.IntN(30) == 0 {
		typ = Type{kind: []typeKind{nullType, boolType, floatType, strType}[r.IntN(4)]}
	}
	switch typ.kind {
	case nullType:
		return strictjson.NullValue()
	case boolType:
		return strictjson.Boolean(r.IntN(2) == 0)
	case intType:
		return []strictjson.Value{strictjson.Int(r.IntN(200) - 5), strictjson.Float(float64(r.IntN(9))), strictjson.Float(1.5)}[r.IntN(3)]
	case floatType:
		return []strictjson.Value{strictjson.Int(r.IntN(200) - 5), strictjson.Float(r.NormFloat64())}[r.IntN(2)]
	case strType:
		return strictjson.Text([]string{"a", "above", ""}[r.IntN(3)])
	case listType:
		items := make([]strictjson.Value, r.IntN(4))
		for i := range items {
			items[i] = randomValue(r, *typ.elem)
		}
		return strictjson.List(items...)
	case dictType:
		return strictjson.Obj(strictjson.Member{Key: "VWC", Value: randomValue(r, *typ.elem)})
	case unionType:
		return randomValue(r, typ.alts[r.IntN(len(typ.alts))])
	}
	return strictjson.Int(1)
}

func TestBind(t *testing.T) {
	for _, tc := range []struct {
		tool, args, want string
		notes            []NoteKind
	}{
		{"difference", `{"b":2,"a":1.50}`, `{"a":1.50,"b":2}`, nil},
		{"difference", `{"a":"290.94","b":" 281.97 "}`, `{"a":290.94,"b":281.97}`, []NoteKind{Converted, Converted}},
		{"difference", `{"x":[-0.05,"0.1"]}`, `{"a":-0.05,"b":0.1}`, []NoteKind{Regrouped, Converted}},
		{"difference", `"{\"a\":1,\"b\":2}"`, `{"a":1,"b":2}`, []NoteKind{Converted}},
		{"kurtosis", `{"x":"[1, 2.0]","fisher":"False"}`, `{"x":[1,2.0],"bias":true,"fisher":false}`, []NoteKind{Converted, Converted}},
		{"kurtosis", `{"x":["1",2],"bias":0,"fisher":null}`, `{"x":[1,2],"bias":false,"fisher":true}`, []NoteKind{Converted, Converted}},
		{"mean", `{"values":3}`, `{"x":[3]}`, []NoteKind{Renamed, Wrapped}},
		{"calc_batch_image_mean", `{"file_path":"a.tif"}`, `{"file_list":["a.tif"],"uint8":false}`, []NoteKind{Renamed, Wrapped}},
		{"calculate_bbox_area", `{"bboxes":[[0,0,1,1]],"gsd":"None"}`, `{"bboxes":[[0,0,1,1]],"gsd":null}`, []NoteKind{Converted}},
		{"compute_tvdi", `{"lst_path":["l"],"ndvi_path":["n"],"output_path":["o"]}`,
			`{"ndvi_path":["n"],"lst_path":["l"],"output_path":["o"]}`, []NoteKind{Listed, Listed, Listed}},
		{"calculate_mean_lst_by_ndvi", `{"red_paths":["r"],"nir_paths":"n","lst_paths":"l","ndvi_threshold":0.2}`,
			`{"red_paths":["r"],"nir_paths":"n","lst_paths":"l","ndvi_threshold":0.2,"mode":"above"}`, nil},
		{"calculate_ndvi", `{"red_band_file":"r","nir_band_file":"n","output_file":"o"}`,
			`{"input_nir_path":"n","input_red_path":"r","output_path":"o"}`, []NoteKind{Renamed, Renamed, Renamed}},
		{"calculate_ndti", `{"input_pairs":[{"input_red_path":"r1","input_green_path":"g1","output_filename":"o1"},{"input_red_path":"r2","input_green_path":"g2","output_filename":"o2"}]}`,
			`{"input_red_path":["r1","r2"],"input_green_path":["g1","g2"],"output_path":["o1","o2"]}`, []NoteKind{Regrouped, Renamed, Renamed, Listed, Listed, Listed}},
		{"SAM2", `{"image_path":"a","bboxes":"[[1,2,3,4]]","save_name":"m"}`,
			`{"input_image_path":"a","bbox":[[1,2,3,4]],"output_path":"m"}`, []NoteKind{Renamed, Renamed, Renamed, Converted}},
	} {
		tool := mustTool(t, tc.tool)
		b, err := tool.Bind(mustParse(t, tc.args))
		if err != nil {
			t.Errorf("%s %s: %v", tc.tool, tc.args, err)
			continue
		}
		var kinds []NoteKind
		for _, n := range b.Notes {
			kinds = append(kinds, n.Kind)
		}
		if b.Args.JSON() != tc.want || !slices.Equal(kinds, tc.notes) {
			t.Errorf("%s %s\ngot  %s %v\nwant %s %v", tc.tool, tc.args, b.Args.JSON(), kinds, tc.want, tc.notes)
		}
	}
}

func TestBindRefuses(t *testing.T) {
	for _, tc := range []struct{ tool, args, want string }{
		{"difference", `{"a":"14.98%","b":1}`, `/a: expected float, got string "14.98%"`},
		{"difference", `{"a":true,"b":1}`, "/a: expected float, got boolean true"},
		{"difference", `{"x":[1,2,3]}`, "/x: expected 2 values in order, alone, got [1,2,3]"},
		{"difference", `{"x":[1,2],"a":1}`, "/x: expected 2 values in order, alone"},
		{"difference", `{"a":null,"b":1}`, "/a: expected float, got null"},
		{"difference", `3`, "arguments must be an object"},
		{"mean", `{"x":[1],"values":[2]}`, `arguments "x" and "values" are the same parameter`},
		{"get_list_object_via_indexes", `{"input_list":"['a', 'b']","indexes":[0]}`, `/input_list: expected list, got string`},
		{"calc_batch_image_hotspot_percentage", `{"file_list":["a"],"threshold":"a third more"}`, "/threshold: expected float"},
		{"stl_decompose", `{"x":[1],"period":"1.5"}`, "/period: expected int"},
		{"calculate_ndti", `{"input_pairs":[{"input_red_path":"r","input_green_path":"g","output_path":"o"},{"input_red_path":"r"}]}`, `only 1 of 2 calls give "input_green_path"`},
		{"calculate_ndti", `{"input_pairs":[1]}`, "/input_pairs/0: expected an argument object"},
		{"calculate_ndti", `{"input_pairs":[]}`, "/input_pairs: expected a list of argument objects"},
		{"calculate_ndti", `{}`, `missing argument "input_red_path"`},
		{"detect_change_points", `{"x":[1,2],"penalty":"0"}`, "/penalty: 0 must be greater than 0"},
	} {
		if b, err := mustTool(t, tc.tool).Bind(mustParse(t, tc.args)); err == nil || !strings.Contains(err.Error(), tc.want) || !errors.Is(err, ErrArguments) {
			t.Errorf("%s %s: got %s, %v, want %q", tc.tool, tc.args, b.Args.JSON(), err, tc.want)
		}
	}
}

// Every reference call of the public tasks can be bound, but for the one whose
// threshold is prose.
func TestRecordedCallsBind(t *testing.T) {
	calls := recordedCalls(t)
	native, kitNames, untyped := 0, 0, 0
	notes := map[NoteKind]int{}
	var impossible []string
	for _, c := range calls {
		r, err := Default().Resolve(c.name)
		if err != nil {
			t.Errorf("question %s: %v", c.question, err)
			continue
		}
		if r.Tool.Origin == "kit" && r.Tool.Name == c.name {
			kitNames++
		}
		b, err := r.Tool.Bind(c.args)
		if err != nil {
			impossible = append(impossible, "question "+c.question+": "+err.Error())
			continue
		}
		if len(b.Notes) == 0 && r.Tool.Origin == "kit" && r.Tool.Name == c.name {
			native++
		}
		if c.name == "multiply" && b.Has(Converted) { // the kit declares no types there, so a text passes its schema
			untyped++
		}
		for _, kind := range []NoteKind{Renamed, Converted, Wrapped, Listed, Regrouped} {
			if b.Has(kind) {
				notes[kind]++
			}
		}
	}
	t.Logf("%d calls: %d by a kit name, %d as the kit declares them, calls by leniency %v, impossible %q", len(calls), kitNames, native+untyped, notes, impossible)
	// Of 1335 calls 45 use names outside the kit, 1188 fit the kit's own schemas, 65 give a list for one
	// path, to which three calls with record lists come.
	if len(calls) != 1335 || kitNames != 1335-45 || native+untyped != 1188 || notes[Listed] != 65+3 || len(impossible) != 1 || !strings.Contains(impossible[0], "question 123:") {
		t.Error("the counts differ from those known of the file")
	}
}

func FuzzBind(f *testing.F) {
	f.Add("difference", `{"a":"1","b":2}`)
	f.Add("calculate_ndti", `{"input_pairs":[{"input_red_path":"r"}]}`)
	f.Add("nasa_team_sea_ice_concentration", `{"bt_paths":"{}"}`)
	f.Fuzz(func(t *testing.T, name, text string) {
		args, err := strictjson.Parse([]byte(text))
		if err != nil {
			return
		}
		r, err := Default().Resolve(name)
		if err != nil {
			return
		}
		b, err := r.Tool.Bind(args)
		if err != nil {
			if !errors.Is(err, ErrArguments) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if err := r.Tool.Validate(b.Args); err != nil {
			t.Fatalf("%s: bound arguments %s are not valid: %v", text, b.Args.JSON(), err)
		}
		if again, err := r.Tool.Bind(b.Args); err != nil || !again.Args.Equal(b.Args) {
			t.Fatalf("%s: binding twice gives %s, %v", text, again.Args.JSON(), err)
		}
	})
}
