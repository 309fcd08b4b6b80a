package show

import (
	"context"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/run"
	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// hostile is an environment whose texts try to drive a terminal and a page.
type hostile struct{}

func (hostile) Invoke(_ context.Context, name string, args strictjson.Value) (tools.Result, error) {
	v := strictjson.List(strictjson.Text("\x1b[31m<script>alert(1)</script>.tif"))
	return tools.Result{Value: v, Evidence: tools.Evidence{Family: tools.Execute, Status: tools.OK, Operator: name, Parameters: args}}, nil
}

// Tree and page show a run, and tool text in them is text: no escape sequence
// reaches the terminal, no element the page.
func TestHostileText(t *testing.T) {
	config := run.Default
	config.Planning, config.Routing, config.Checks, config.Limits.Repairs = run.OneShot, run.ByRules, run.ByRules, 0
	script := llm.NewScript(llm.Line{Role: "planner", Reply: `{"tool_sequence":["get_filelist","mean"]}`}, llm.Line{Role: "executor", Contains: `"name":"get_filelist"`, Reply: `{"dir_path":"d/e.f"}`},
		llm.Line{Role: "executor", Reply: "no", Repeat: true}, llm.Line{Role: "answer", Reply: "<b>nothing</b>\x1b[0m"})
	a := &run.Agent{Config: config, Model: script}
	dir := t.TempDir()
	inputs, err := strictjson.Parse([]byte(`{"data_path":"d/e.f"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(context.Background(), run.Task{Question: "<i>What</i> is there?", Inputs: inputs}, run.Environment{Tools: hostile{}}, dir); err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var tree, page strings.Builder
	if err := r.Tree(&tree); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(tree.String(), 0x1b) {
		t.Errorf("an escape sequence in the tree: %q", tree.String())
	}
	for _, part := range []string{"[x] 1 get_filelist", "[!] 2 mean", "attempt 3 mean: retry", "incomplete: step 2 (mean)", "answer: <b>nothing</b>"} {
		if !strings.Contains(tree.String(), part) {
			t.Errorf("the tree lacks %q:\n%s", part, tree.String())
		}
	}
	if err := r.Page(&page, nil); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>", "<b>nothing", "<i>What"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if !strings.Contains(page.String(), "&lt;script&gt;") || !strings.Contains(page.String(), "Not accepted") {
		t.Error("the page lacks the evidence or the rejected attempts")
	}
}
