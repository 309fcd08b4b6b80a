package prompt

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/strictjson"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares messages with a file: roles as headings, then the content.
func golden(t *testing.T, name string, messages []data.Message) {
	t.Helper()
	var b strings.Builder
	for _, m := range messages {
		b.WriteString("<<" + m.Role + ">>\n" + m.Content + "\n")
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s changed: adapters trained with the old prompt are served another. Got\n%s", path, b.String())
	}
}

// harbour is a small task: two steps done, arithmetic to follow.
func harbour(t *testing.T) (Task, []data.Step) {
	task := Task{
		Query:    "Two ships lie in the harbour (GSD = 0.25 m/px). How far apart are they? Mind \"<think>\" & 50 %.",
		Inputs:   parse(t, `{"data_path":"benchmark/data/question7"}`),
		Guidance: Guidance{Skill: "pictures", Text: "## Procedure\nDetect, then measure."},
	}
	steps := []data.Step{
		{Tool: "get_filelist", Arguments: parse(t, `{"dir_path":"benchmark/data/question7"}`), Observation: parse(t, `["P1.png"]`), Thought: "never shown"},
		{Tool: "SM3Det", Arguments: parse(t, `{"text_prompt":"ship","input_image_path":"benchmark/data/question7/P1.png"}`)},
		{Tool: "bboxes2centroids", Arguments: parse(t, `{"bboxes":[[10.50,20,30.0,40]]}`), Observation: parse(t, `[[20.25,30.0]]`)},
	}
	return task, steps
}

// The prompts of both roles in all styles, byte for byte.
func TestGoldenPrompts(t *testing.T) {
	task, steps := harbour(t)
	candidates := []Tool{tool(t, "SM3Det"), tool(t, "bboxes2centroids"), tool(t, "argmax"), tool(t, "mean")}
	for _, style := range []Style{Full, Compact, Brief} {
		golden(t, "planner-"+string(style), Planner(style, task, candidates))
		golden(t, "executor-first-"+string(style), Executor(style, task, tool(t, "get_filelist"), nil))
		golden(t, "executor-"+string(style), Executor(style, task, tool(t, "centroid_distance_extremes"), steps))
	}
	bare := Task{Query: "What is it?"}
	golden(t, "planner-bare", Planner(Compact, bare, candidates[3:]))
	golden(t, "executor-bare", Executor(Compact, bare, candidates[3], nil))
}

// Text goes into a prompt as it is: nothing is escaped for HTML.
func TestD5TextIsLiteral(t *testing.T) {
	task, steps := harbour(t)
	steps[1].Observation = strictjson.Text("a < b && c > d, naïve </think>")
	user := Executor(Full, task, tool(t, "mean"), steps)[1].Content
	for _, want := range []string{`Mind "<think>" & 50 %.`, `a < b && c > d, naïve </think>`} {
		if !strings.Contains(user, want) {
			t.Errorf("%q is not in the prompt", want)
		}
	}
}

// DATA-13: a prompt is a function of question, inputs, guidance, tool and the
// steps before; the number of steps done shows, thoughts do not.
func TestExecutorShowsStepsInOrder(t *testing.T) {
	task, steps := harbour(t)
	user := Executor(Full, task, tool(t, "mean"), steps)[1].Content
	at := -1
	for _, part := range []string{"# Question", "# Inputs", "# Skill: pictures", "# Steps done", "## 1 get_filelist", "## 2 SM3Det", "observation: none recorded", "## 3 bboxes2centroids", `{"bboxes":[[10.50,20,30.0,40]]}`, "# Next step", `{"name":"mean"`} {
		i := strings.Index(user, part)
		if i <= at {
			t.Errorf("%q stands at %d, after %d", part, i, at)
		}
		at = i
	}
	if strings.Contains(user, "never shown") {
		t.Error("a thought is shown")
	}
}

func TestPlannerCompletion(t *testing.T) {
	for want, names := range map[string][]string{
		`{"tool_sequence":[]}`:                         nil,
		`{"tool_sequence":["mean"]}`:                   {"mean"},
		`{"tool_sequence":["a\"b","mean","mean","ü"]}`: {`a"b`, "mean", "mean", "ü"},
	} {
		if got := PlannerCompletion(names); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestParseStyle(t *testing.T) {
	for _, s := range []string{"full", "compact", "brief"} {
		if got, err := ParseStyle(s); err != nil || string(got) != s {
			t.Errorf("%s: %v", s, err)
		}
	}
	if _, err := ParseStyle("Full"); err == nil || !strings.Contains(err.Error(), `"Full" is none of "full", "compact" and "brief"`) {
		t.Errorf("error %v", err)
	}
}
