package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/data/strictjson"
)

func imported(t *testing.T, path, format string, o ImportOptions) *ImportResult {
	t.Helper()
	res, err := Import(path, format, o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func byID(t *testing.T, res *ImportResult, id string) *Trajectory {
	t.Helper()
	for _, tr := range res.Trajectories {
		if tr.ID == id {
			return tr
		}
	}
	t.Fatalf("no trajectory %s", id)
	return nil
}

// noted lists the irregularities of a report as "kind seed step".
func noted(r *ImportReport) []string {
	var list []string
	for _, i := range r.Irregularities {
		list = append(list, fmt.Sprintf("%s %s %d", i.Kind, i.SeedID, i.Step))
	}
	slices.Sort(list)
	return list
}

func temp(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImportEarthBenchMadeUp(t *testing.T) {
	res := imported(t, "testdata/question.json", "", ImportOptions{})
	a, b := byID(t, res, "earth-bench-7"), byID(t, res, "earth-bench-120")
	for _, c := range []struct{ what, got, want string }{
		{"query", a.Query, "What is the mean of the made-up bay in 2010 and 2011?"},
		{"ids", a.ID + " " + a.SeedID, "earth-bench-7 earth-bench-7"},
		{"labels", a.Source + " " + a.Domain + " " + a.Regime, "earth-bench spectrum ap"},
		{"domain", b.Domain, "products"},
		{"inputs", a.Inputs.JSON(), `{"data_path":"benchmark/data/question7"}`},
		{"answer", a.Answer.JSON(), `{"letter":"B","text":"20"}`},
		{"open answer", b.Answer.JSON(), `{"text":"-15.950","number":-15.950}`},
		{"misnamed observation", a.Steps[1].Observation.JSON(), `[280.50,281.0]`},
		{"arguments", a.Steps[2].Arguments.JSON(), `{"a":"281.0","b":9007199254740993}`},
		{"missing observation", a.Steps[2].Observation.Kind().String(), "absent"},
		{"repr", a.Steps[3].Observation.Text(), "{'class': 'Bay', 'score': 0.5}"},
		{"percentage", b.Steps[1].Observation.JSON(), `"14.98%"`},
		{"thought", a.Steps[0].Thought + a.Steps[1].Thought, "List."},
		{"choices", a.Provenance.Get("choices").JSON(), `["about 10 ",20,"30"]`},
		{"gold", a.Provenance.Get("gold").Text() + a.Provenance.Get("final_answer").Text(), "BA"},
		{"orphan", a.Provenance.Get("orphan_observations").JSON(), `[{"after_step":1,"tool":"mean","observation":280.75}]`},
		{"user turn", b.Provenance.Get("user_turn").Text(), "How cold was the made-up lake in 1999?"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	want := []string{
		"absolute_path earth-bench-7 1", "boolean_in_text earth-bench-7 1", "call_type earth-bench-7 1",
		"data_sentence earth-bench-7 -1", "declared_type earth-bench-7 1", "evaluation_order earth-bench-7 -1",
		"file_as_data_path earth-bench-120 -1", "integer_choices earth-bench-7 -1", "listed_answer earth-bench-7 -1",
		"literal_in_text earth-bench-7 3", "misnamed_tool_turn earth-bench-7 1", "missing_final_answer earth-bench-120 -1",
		"missing_observation earth-bench-7 2", "no_choices earth-bench-120 -1", "null_in_list earth-bench-7 1",
		"number_in_text earth-bench-120 1", "number_in_text earth-bench-7 2", "orphan_observation earth-bench-7 1",
		"other_entry_path earth-bench-7 1", "other_final_answer earth-bench-7 -1", "other_subject earth-bench-120 -1",
		"outer_blanks earth-bench-7 -1", "outer_blanks earth-bench-7 -1", "outer_blanks earth-bench-7 -1", "outer_blanks earth-bench-7 1",
		"repeated_items earth-bench-7 1", "result_count earth-bench-7 1", "unequal_lists earth-bench-7 3",
	}
	if got := noted(res.Report); !slices.Equal(got, want) {
		t.Errorf("report lists\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if res.Report.Trajectories != 2 || res.Report.Steps != 6 || len(res.Inputs) != 1 || len(res.Inputs[0].SHA256) != 64 {
		t.Errorf("totals %+v, inputs %+v", res.Report, res.Inputs)
	}
}

func TestImportRegimes(t *testing.T) {
	for regime, want := range map[string]string{
		"if": "List the files of 2010 and 2011, then average them.", "ap": "What is the mean of the made-up bay in 2010 and 2011?",
		"user": "How warm was the made-up bay in 2010?",
	} {
		if got := byID(t, imported(t, "testdata/question.json", "", ImportOptions{Regime: regime}), "earth-bench-7"); got.Query != want {
			t.Errorf("%s: %q, want %q", regime, got.Query, want)
		}
	}
	// The user turn of entry 120 is about a year that no file has.
	other := byID(t, imported(t, "testdata/question.json", "", ImportOptions{Regime: "user"}), "earth-bench-120")
	if other.Query != "Average 2005 to 2006." || other.Regime != "ap" {
		t.Errorf("a user turn on another subject: %q, regime %q", other.Query, other.Regime)
	}
	if _, err := Import("testdata/question.json", "", ImportOptions{Regime: "ow"}); err == nil || !strings.Contains(err.Error(), "known are if, ap, user") {
		t.Errorf("unknown regime: %v", err)
	}
}

func TestImportEarthBenchRefuses(t *testing.T) {
	source, err := os.ReadFile("testdata/question.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"number out of range", `"120": {`, `"249": {`, "/249: entries are numbered 1 to 248"},
		{"number spelt oddly", `"120": {`, `"0120": {`, "/0120: entries are numbered"},
		{"repeated entry", `"120": {`, `"7": {`, `:22:3: key "7" is repeated`},
		{"unknown key", `"tools": null`, `"tool": null`, "/7/tool: unknown key"},
		{"two calls", `{"dir_path": "benchmark/data/question7"}}}]`, `{}}},{"type":"function"}]`, "/7/dialogs/1/tool_calls: expected exactly one call, found 2"},
		{"arguments as text", `{"dir_path": "benchmark/data/question7"}}}]`, `"{}"}}]`, "/7/dialogs/1/tool_calls/0/function/arguments: expected object, found string"},
		{"unknown role", `"role": "tool", "name": "get_filelist"`, `"role": "system", "name": "get_filelist"`, `/7/dialogs/2: a turn of role "system"`},
		{"unknown type", `"type": "autonomous planning"`, `"type": "planning"`, "/7/evaluation/0/type: expected one text each"},
		{"gold answers differ", `"whitelist": ["B"], "blacklist": null}, "metric"`, `"whitelist": ["A"], "blacklist": null}, "metric"`, "/7/evaluation/1/gt_answer: differs"},
		{"letter beyond choices", `["B"]`, `["D"]`, `"D" is the letter of none of the 3 choices`},
		{"NaN", `280.75`, `NaN`, `:10:77 at /7/dialogs/5/content/content: "NaN`},
		{"end of file", `"Autonomous Planning"}
    ]
  }
}`, ``, "the text ends"},
	} {
		text := strings.ReplaceAll(string(source), c.old, c.new)
		if c.name == "gold answers differ" {
			text = strings.Replace(string(source), c.old, c.new, 1)
		}
		if text == string(source) {
			t.Fatalf("%s: the case changes nothing", c.name)
		}
		path := temp(t, "q.json", text)
		if _, err := Import(path, "", ImportOptions{}); err == nil || !strings.Contains(err.Error(), "q.json") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestImportOpenEarthAgent(t *testing.T) {
	res := imported(t, "testdata/conversations.json", "", ImportOptions{})
	a, b := byID(t, res, "openearthagent-4"), byID(t, res, "openearthagent-x7")
	for _, c := range []struct{ what, got, want string }{
		{"query", a.Query, "How far is the nearest made-up clinic? Question: none."},
		{"query after instructions", b.Query, "What is 3 times 4?"},
		{"tools", a.Steps[0].Tool + " " + a.Steps[1].Tool + " " + a.Steps[2].Tool, "GetAreaBoundary AddPoisLayer ComputeDistance"},
		{"arguments", a.Steps[2].Arguments.JSON(), `{"gpkg":"gpkg_1","src_layer":"a","tar_layer":"b","top":1.0}`},
		{"observation", a.Steps[0].Observation.JSON(), `"Saved boundary to aoi.gpkg\nwith 2 layers"`},
		{"thought", a.Steps[0].Thought, "Get the area."},
		{"answer", a.Answer.JSON(), `"About 900 m."`},
		{"answer from the label", b.Answer.JSON(), `12`},
		{"domains", a.Domain + " " + b.Domain, "gis geometry"},
		{"inputs", a.Inputs.JSON(), `{"images":["train_image/a.png"]}`},
		{"splits", a.Provenance.Get("split").Text() + " " + b.Provenance.Get("split").Text(), "train test"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	want := []string{
		"misnamed_tool_turn openearthagent-x7 0", "missing_final_answer openearthagent-x7 -1", "missing_observation openearthagent-4 2",
		"refused_record openearthagent-9 -1", "test_split openearthagent-x7 -1",
	}
	if got := noted(res.Report); !slices.Equal(got, want) {
		t.Errorf("report lists %q, want %q", got, want)
	}
	for _, want := range []string{"2 trajectories, 4 calls, 4 tools", "refused_record", "conversation/1: expected exactly one action, found 0"} {
		if !strings.Contains(res.Report.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, res.Report)
		}
	}
}

// The same records as lines, in two files of a folder, give the same trajectories.
func TestImportOpenEarthAgentLines(t *testing.T) {
	text, err := os.ReadFile("testdata/conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	records := mustParse(t, string(text))
	dir := t.TempDir()
	for i, name := range []string{"a.jsonl", "b.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(records.Index(i).JSON()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	whole := imported(t, "testdata/conversations.json", FormatOpenEarthAgent, ImportOptions{})
	parts := imported(t, dir, "", ImportOptions{})
	if len(parts.Inputs) != 2 || len(parts.Trajectories) != len(whole.Trajectories) {
		t.Fatalf("%d files, %d trajectories", len(parts.Inputs), len(parts.Trajectories))
	}
	for i, tr := range parts.Trajectories {
		if !tr.Value().Equal(whole.Trajectories[i].Value()) {
			t.Errorf("%s differs", tr.ID)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "c.jsonl"), []byte(records.Index(0).JSON()), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(dir, "", ImportOptions{}); err == nil || !strings.Contains(err.Error(), `id "openearthagent-4" is already in`) {
		t.Errorf("a repeated id over files: %v", err)
	}
}

func TestImportOwn(t *testing.T) {
	tr := mustParse(t, wholeTrajectory).JSON()
	path := temp(t, "own.jsonl", "\xef\xbb\xbf"+tr+"\r\n\r\n"+strings.Replace(tr, `"s-1"`, `"s-2"`, 1)+"\r\n")
	res := imported(t, path, "", ImportOptions{})
	if len(res.Trajectories) != 2 || res.Trajectories[0].Value().JSON() != tr {
		t.Fatalf("got %d trajectories", len(res.Trajectories))
	}
	if got := noted(res.Report); !slices.Equal(got, []string{"byte_order_mark  -1", "crlf  -1"}) {
		t.Errorf("report lists %q", got)
	}
	if text, err := json.Marshal(res.Report); err != nil || !strings.Contains(string(text), `"kind":"crlf"`) {
		t.Errorf("report as JSON: %s, %v", text, err)
	}
}

// Every bad line is reported at once, with its place; nothing is imported.
func TestImportOwnRefuses(t *testing.T) {
	tr := mustParse(t, wholeTrajectory).JSON()
	for _, c := range []struct{ name, line, want string }{
		{"repeated key", strings.Replace(tr, `"skill":"k"`, `"skill":"k","skill":"k"`, 1), `:2:143: key "skill" is repeated`},
		{"repeated key in arguments", strings.Replace(tr, `{"z":"1"}`, `{"z":"1","z":{"a":1}}`, 1), `at /steps/2/arguments: key "z" is repeated`},
		{"NaN", strings.Replace(tr, `0.50`, `NaN`, 1), `at /steps/3/observation: "NaN`},
		{"wrong case", strings.Replace(tr, `"query"`, `"Query"`, 1), `:2: /Query: unknown key; it is spelt "query"`},
		{"lone surrogate", strings.Replace(tr, `"B"`, `"\ud800"`, 1), `lone surrogate`},
		{"bad UTF-8", strings.Replace(tr, `"B"`, "\"\xff\"", 1), `invalid UTF-8`},
		{"two objects", tr + tr, `bytes after the JSON value`},
		{"half an object", tr[:200], `the text ends`},
		{"deep", strings.Replace(tr, `0.50`, strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001), 1), `nested deeper than`},
	} {
		path := temp(t, "own.jsonl", tr+"\n"+c.line+"\n")
		_, err := Import(path, "", ImportOptions{})
		if err == nil || !strings.Contains(err.Error(), "own.jsonl:2:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	var lines []string
	for range 30 {
		lines = append(lines, strings.Replace(tr, `"id"`, `"ID"`, 1))
	}
	_, err := Import(temp(t, "own.jsonl", strings.Join(lines, "\n")), "", ImportOptions{})
	if err == nil || !strings.Contains(err.Error(), "own.jsonl:20:") || strings.Contains(err.Error(), "own.jsonl:21:") || !strings.Contains(err.Error(), "30 bad lines in all") {
		t.Errorf("many bad lines: %v", err)
	}
}

func TestImportChoosesByContent(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"no records", "[]", ErrFormat.Error()},
		{"another object", `{"a":1,"b":[{"steps":1}]}`, `first record has the keys ["a" "b"]`},
		{"a number", `17`, ErrFormat.Error()},
		{"not JSON", `id,query`, ErrFormat.Error()},
		{"all refused", `[{"idx":1,"conversation":[]}]`, "1  refused_record"},
		{"own as an array", `[` + wholeTrajectory + `]`, "expected an object, found array"},
	} {
		_, err := Import(temp(t, "x.json", c.text), "", ImportOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Import("testdata/question.json", "parquet", ImportOptions{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), FormatOpenEarthAgent) {
		t.Errorf("unknown format: %v", err)
	}
	if _, err := Import("testdata/question.json", FormatOwn, ImportOptions{}); err == nil || !strings.Contains(err.Error(), "question.json:1:") {
		t.Errorf("wrong format: %v", err)
	}
	if _, err := Import("testdata/nothing", "", ImportOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Import(t.TempDir(), "", ImportOptions{}); err == nil || !strings.Contains(err.Error(), "holds no .json") {
		t.Errorf("empty folder: %v", err)
	}
}

// FuzzImport: no input panics or gives a trajectory that its own codec refuses.
func FuzzImport(f *testing.F) {
	for _, name := range []string{"testdata/question.json", "testdata/conversations.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(wholeTrajectory))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, format := range append(formats, "") {
			res, err := Import(path, format, ImportOptions{})
			if err != nil {
				continue
			}
			for _, tr := range res.Trajectories {
				v, err := strictjson.Parse([]byte(tr.Value().JSON()))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := DecodeTrajectory(v); err != nil {
					t.Fatalf("%s: %v", format, err)
				}
			}
		}
	})
}
