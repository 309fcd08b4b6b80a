package prompt

import (
	"fmt"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

func parse(t testing.TB, src string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func tool(t testing.TB, name string) Tool {
	t.Helper()
	r, err := catalogue.Default().Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	return Tool{Name: name, Spec: r.Tool}
}

// numbers is a JSON list of n numbers, texts one of n file names.
func numbers(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("%d.5", 1000+i)
	}
	return "[" + strings.Join(items, ",") + "]"
}

func texts(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`"f%04d.tif"`, i)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// The rule of what is left out: lists over MaxList keep three items at both ends
// and their count, unless the next tool's schema asks for such values.
func TestCompaction(t *testing.T) {
	for _, test := range []struct {
		name, observation string
		texts, numbers    bool
		want              string
	}{
		{"short list", texts(20), false, false, texts(20)},
		{"long list", texts(21), false, false, `["f0000.tif","f0001.tif","f0002.tif",{"omitted":15},"f0018.tif","f0019.tif","f0020.tif"]`},
		{"long list that is needed", texts(21), true, false, texts(21)},
		{"texts when numbers are needed", texts(21), false, true, `["f0000.tif","f0001.tif","f0002.tif",{"omitted":15},"f0018.tif","f0019.tif","f0020.tif"]`},
		{"numbers", numbers(30), false, false, `[1000.5,1001.5,1002.5,{"omitted":24},1027.5,1028.5,1029.5]`},
		{"numbers that are needed", numbers(30), false, true, numbers(30)},
		{"inside an object", `{"a":` + texts(22) + `,"b":` + texts(3) + `}`, false, false, `{"a":["f0000.tif","f0001.tif","f0002.tif",{"omitted":16},"f0019.tif","f0020.tif","f0021.tif"],"b":` + texts(3) + `}`},
		{"inside a list", `[` + numbers(21) + `,[]]`, false, false, `[[1000.5,1001.5,1002.5,{"omitted":15},1018.5,1019.5,1020.5],[]]`},
		{"long list of lists", "[" + strings.TrimSuffix(strings.Repeat("[1,2],", 25), ",") + "]", false, false, `[[1,2],[1,2],[1,2],{"omitted":19},[1,2],[1,2],[1,2]]`},
		{"long list of lists that is needed", "[" + strings.TrimSuffix(strings.Repeat("[1,2],", 25), ",") + "]", false, true, "[" + strings.TrimSuffix(strings.Repeat("[1,2],", 25), ",") + "]"},
		{"no list", `{"trend":"none","p":1.0,"ok":true,"x":null,"e":{}}`, false, false, `{"trend":"none","p":1.0,"ok":true,"x":null,"e":{}}`},
		{"long text", `"` + strings.Repeat("x", 5000) + `"`, false, false, `"` + strings.Repeat("x", 5000) + `"`},
	} {
		v := shown{texts: test.texts, numbers: test.numbers}
		if got := string(v.observation(parse(t, test.observation))); got != test.want {
			t.Errorf("%s: %.200s, want %.200s", test.name, got, test.want)
		}
	}
}

// What a tool sees depends on its schema.
func TestVisibility(t *testing.T) {
	for _, test := range []struct {
		tool           string
		texts, numbers bool
	}{
		{"calc_batch_image_mean", true, false}, {"mean", false, true}, {"difference", false, true}, {"get_filelist", true, false},
		{"compute_linear_trend", false, true}, {"bboxes2centroids", false, true}, {"calculate_tif_average", true, false}, {"SM3Det", true, false},
	} {
		if v := visibility(tool(t, test.tool).Spec); v.texts != test.texts {
			t.Errorf("%s sees texts: %v, want %v", test.tool, v.texts, test.texts)
		} else if test.numbers && !v.numbers {
			t.Errorf("%s does not see numbers", test.tool)
		}
	}
}

// Of an earlier step's arguments, long lists of inputs are cut and paths of
// outputs are whole for a tool that reads files.
func TestArgumentsKeepTheirOutputs(t *testing.T) {
	s := data.Step{Tool: "f", Arguments: parse(t, `{"file_list":`+texts(25)+`,"output_path_list":`+texts(25)+`,"threshold":0.5}`), Observation: parse(t, `"done"`)}
	cut := `["f0000.tif","f0001.tif","f0002.tif",{"omitted":19},"f0022.tif","f0023.tif","f0024.tif"]`
	if got, want := string(shown{texts: true}.arguments(&s)), `{"file_list":`+cut+`,"output_path_list":`+texts(25)+`,"threshold":0.5}`; got != want {
		t.Errorf("for a tool that reads files %s", got)
	}
	if got, want := string(shown{numbers: true}.arguments(&s)), `{"file_list":`+cut+`,"output_path_list":`+cut+`,"threshold":0.5}`; got != want {
		t.Errorf("for a tool that takes numbers %s", got)
	}
}
