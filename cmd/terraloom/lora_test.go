package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"terraloom/data/strictjson"
	"terraloom/lora/checkpoint"
)

// verb runs one verb by its constructor and returns what it prints.
func verb(t testing.TB, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// smolModel is the name of the pulled SmolLM2-135M; without it the test is skipped.
func smolModel(t testing.TB) string {
	t.Helper()
	m, err := checkpoint.Open("smollm2-135m")
	if err != nil {
		t.Skipf("the model is not here (`terraloom model pull smollm2-135m` fetches it): %v", err)
	}
	m.Close()
	return "smollm2-135m"
}

type smolGolden struct {
	Items []struct {
		Question string
		Text     string
		IDs      []int32   `json:"ids"`
		Top      []int     `json:"top10_ids"`
		Logits   []float64 `json:"top10_logits"`
		Greedy   []int32   `json:"greedy_ids"`
		Answer   string    `json:"greedy_text"`
	}
}

func readSmolGolden(t testing.TB) smolGolden {
	t.Helper()
	src, err := os.ReadFile(sharedFile(t, "model-golden", "smollm2", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g smolGolden
	if err := json.Unmarshal(src, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// sharedFile is a file of the shared folder; without it the test is skipped.
func sharedFile(t testing.TB, parts ...string) string {
	t.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(append([]string{root}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared files (set TERRALOOM_SHARED): %v", err)
	}
	return path
}

// TestGenerateVerb: a real model answers as transformers does, however its prompt is given.
func TestGenerateVerb(t *testing.T) {
	items := readSmolGolden(t).Items
	model := smolModel(t)
	if testing.Short() {
		t.Skip("loads 500 MB of weights")
	}
	question, err := json.Marshal([]map[string]string{{"role": "user", "content": items[2].Question}})
	if err != nil {
		t.Fatal(err)
	}
	for i, prompt := range [][]string{
		{"--prompt", items[0].Question}, // item 1 has near-ties
		2:                               {"--messages", write(t, "messages.json", string(question))},
		3:                               {"--raw", "--prompt", items[3].Text},
	} {
		if prompt == nil {
			continue
		}
		out, err := verb(t, newGenerateCmd(), append(prompt, "--model", model, "--max-tokens", "40", "--temperature", "0", "--json")...)
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			PromptIDs []int32 `json:"prompt_ids"`
			IDs       []int32
			Text      string
			LogProbs  []float64
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if g := items[i]; !slices.Equal(r.PromptIDs, g.IDs) || !slices.Equal(r.IDs, g.Greedy) || r.Text != g.Answer || len(r.LogProbs) != len(r.IDs) {
			t.Errorf("%v: %s\nexpected ids %v and %q after %v", prompt, out, g.Greedy, g.Answer, g.IDs)
		}
		for _, p := range r.LogProbs {
			if !(p <= 0) {
				t.Errorf("a log-probability of %v", p)
			}
		}
	}

	schema := write(t, "schema.json", `{"type":"object","properties":{"satellite":{"type":"string"},"year":{"type":"integer"}},"required":["satellite","year"],"additionalProperties":false}`)
	out, err := verb(t, newGenerateCmd(), "--model", model, "--schema", schema, "--max-tokens", "40", "Name a satellite as JSON.")
	if err != nil {
		t.Fatal(err)
	}
	v, err := strictjson.Parse([]byte(out))
	if err != nil || v.Get("satellite").Kind() != strictjson.String || !v.Get("year").IsInteger() {
		t.Errorf("not a document of the schema: %q", out)
	}
}

func TestModelLogitsVerb(t *testing.T) {
	g := readSmolGolden(t).Items[0]
	model := smolModel(t)
	if testing.Short() {
		t.Skip("loads 500 MB of weights")
	}
	var ids []string
	for _, id := range g.IDs {
		ids = append(ids, strictjson.Int(int(id)).JSON())
	}
	out, err := verb(t, newModelLogitsCmd(), "--model", model, "--ids", strings.Join(ids, ","), "--json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		IDs    []int32
		Logits [][]float64
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.IDs, g.IDs) || len(r.Logits) != len(g.IDs) {
		t.Fatalf("%d rows for %v", len(r.Logits), r.IDs)
	}
	for i, id := range g.Top {
		if got := r.Logits[len(g.IDs)-1][id]; math.Abs(got-g.Logits[i]) > 2e-3 {
			t.Errorf("logit of %d: %v, expected %v", id, got, g.Logits[i])
		}
	}
}

func TestChatRenderAndTokenizeVerbs(t *testing.T) {
	g := readSmolGolden(t).Items[0]
	model := smolModel(t)
	messages := strictjson.Obj(strictjson.Member{Key: "role", Value: strictjson.Text("user")}, strictjson.Member{Key: "content", Value: strictjson.Text(g.Question)})
	for _, src := range []string{"[" + messages.JSON() + "]", `{"messages": [` + messages.JSON() + "]}"} {
		out, err := verb(t, newChatRenderCmd(), "--model", model, "--messages", write(t, "messages.json", src), "--generation-prompt")
		if err != nil || out != g.Text {
			t.Errorf("%v: %q, expected %q", err, out, g.Text)
		}
	}
	for _, src := range []string{`{"messages": 3}`, `[{"content": "x"}]`, `nothing`} {
		if _, err := verb(t, newChatRenderCmd(), "--model", model, "--messages", write(t, "bad.json", src)); err == nil || !strings.Contains(err.Error(), "bad.json") {
			t.Errorf("%s: %v", src, err)
		}
	}

	texts := write(t, "texts.jsonl", strictjson.Obj(strictjson.Member{Key: "text", Value: strictjson.Text(g.Text)}).JSON()+"\n{\"text\": \"\"}\n")
	out, err := verb(t, newTokenizeCmd(), "--model", model, "--file", texts)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(map[string][]int32{"ids": g.IDs})
	if err != nil {
		t.Fatal(err)
	}
	if out != string(want)+"\n{\"ids\":[]}\n" {
		t.Errorf("%s, expected %s", out, want)
	}
	if _, err := verb(t, newTokenizeCmd(), "--model", model, "--file", write(t, "bad.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"a\"}\n")); err == nil || !strings.Contains(err.Error(), "bad.jsonl:2") {
		t.Errorf("%v", err)
	}
}

func TestModelInfoVerb(t *testing.T) {
	out, err := verb(t, newModelInfoCmd(), filepath.Dir(sharedFile(t, "model-golden", "qwen35-text", "config.json")))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"architecture  Qwen3_5ForCausalLM", "parameters ", "tokenizer ", "chat template no", "to run ", "to train ", "in bfloat16) for 4 rows of"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	if _, err := verb(t, newModelInfoCmd(), t.TempDir()); err == nil {
		t.Error("an empty folder was taken for a model")
	}
}

// TestMergeAndExportVerbs: the merged folder computes what base and adapter compute, and the exported adapter has the
// prefix that was asked for.
func TestMergeAndExportVerbs(t *testing.T) {
	base := filepath.Dir(sharedFile(t, "model-golden", "qwen35-text", "config.json"))
	adapter := filepath.Join(base, "peft", "lora")
	merged := filepath.Join(t.TempDir(), "merged")
	if _, err := verb(t, newModelMergeCmd(), "--model", base, "--adapter", adapter, "--out", merged); err != nil {
		t.Fatal(err)
	}
	logits := func(args ...string) [][]float64 {
		out, err := verb(t, newModelLogitsCmd(), append(args, "--backend", "go", "--ids", "5,9,200,31", "--json")...)
		if err != nil {
			t.Fatal(err)
		}
		var r struct{ Logits [][]float64 }
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		return r.Logits
	}
	bare, beside, inside := logits("--model", base), logits("--model", base, "--adapter", adapter), logits("--model", merged)
	same, changed := 0.0, 0.0
	for i := range beside {
		for j := range beside[i] {
			same, changed = max(same, math.Abs(beside[i][j]-inside[i][j])), max(changed, math.Abs(beside[i][j]-bare[i][j]))
		}
	}
	if same > 1e-3 || changed < 0.1 {
		t.Errorf("merged logits differ by %v, the adapter changes them by %v", same, changed)
	}

	exported := filepath.Join(t.TempDir(), "exported")
	if _, err := verb(t, newModelExportCmd(), "--model", base, "--adapter", adapter, "--class", "multimodal", "--out", exported); err != nil {
		t.Fatal(err)
	}
	file, err := checkpoint.OpenSafetensors(filepath.Join(exported, "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, name := range file.Names() {
		if !strings.HasPrefix(name, "base_model.model.model.language_model.layers.") {
			t.Errorf("key %s", name)
		}
	}
	for _, bad := range [][]string{{"--class", "video"}, {"--max-lora-rank", "2"}} {
		args := append([]string{"--model", base, "--adapter", adapter, "--out", filepath.Join(t.TempDir(), "x")}, bad...)
		if _, err := verb(t, newModelExportCmd(), args...); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

func TestBackendVerbs(t *testing.T) {
	out, err := verb(t, newBackendListCmd())
	if err != nil || !strings.Contains(out, "go") || !strings.Contains(out, "built in") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = verb(t, newBackendCheckCmd(), "--backend", "go", "--json")
	if err != nil || !strings.Contains(out, `"precision":"float32"`) {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := verb(t, newBackendCheckCmd(), "--backend", "abacus"); err == nil || !strings.Contains(err.Error(), "abacus") {
		t.Errorf("%v", err)
	}
	if _, err := verb(t, newBackendInstallCmd(), "tpu"); err == nil {
		t.Error("an unknown backend was installed")
	}
}

func TestServeVerb(t *testing.T) {
	for _, args := range [][]string{
		{"--base", "x", "--adapter", "planner"},
		{"--base", "x", "--adapter", "=dir"},
	} {
		if _, err := verb(t, newServeCmd(), args...); err == nil || !strings.Contains(err.Error(), "name=DIR") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
