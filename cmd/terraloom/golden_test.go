package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"terraloom/lora/checkpoint"
)

// family is a golden model folder with the numbers that transformers and PEFT compute from it.
type family struct {
	name   string
	config string // file of the folder that serves as config.json
	dir    string // of the weights
	golden *checkpoint.Safetensors
	limits map[string]struct{ ATol float64 } // by tensor
}

// families walks the golden models, as transformers 5 and, where there is one, as transformers 4 writes the configuration.
func families(t *testing.T) (all []family) {
	root := sharedFile(t, "model-golden")
	configs, err := filepath.Glob(filepath.Join(root, "*", "config*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range configs {
		f := family{dir: filepath.Dir(config), config: filepath.Base(config)}
		f.name = strings.TrimSuffix(filepath.Base(f.dir)+"/"+f.config, ".json")
		numbers := strings.TrimSuffix(f.dir, "-sharded") // shards hold the tensors of the model without
		f.golden, f.limits = readGolden(t, numbers)
		all = append(all, f)
	}
	if len(all) < 8 {
		t.Fatalf("%d golden models in %s", len(all), root)
	}
	return all
}

func readGolden(t *testing.T, dir string) (*checkpoint.Safetensors, map[string]struct{ ATol float64 }) {
	t.Helper()
	g, err := checkpoint.OpenSafetensors(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	src, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var description struct {
		Tensors map[string]struct{ ATol float64 }
	}
	if err := json.Unmarshal(src, &description); err != nil {
		t.Fatal(err)
	}
	return g, description.Tensors
}

// byteAlphabet are the characters that stand for bytes in byte-level vocabularies, in the order of the bytes.
func byteAlphabet() (out []string) {
	next := rune(0x100)
	for b := rune(0); b < 256; b++ {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae && b <= 0xff {
			out = append(out, string(b))
			continue
		}
		out = append(out, string(next))
		next++
	}
	return out
}

// spelling is a tokenizer under which every id of a golden model has a text of its own, so that any sequence of ids can
// be given as a raw prompt: one character for each, which is an added token besides. more are names for the ids after
// those of the bytes.
func spelling(t *testing.T, dir string, more ...string) (text func(ids []int64) string) {
	t.Helper()
	const vocab = 320
	names := byteAlphabet()
	ids := map[string]int{}
	for i, name := range names {
		ids[name] = i
	}
	names = append(names, more...)
	for i := len(names); i < vocab; i++ {
		names = append(names, string(rune(0x4e00+i)))
	}
	type added struct {
		ID         int    `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	var tokens []added
	for i, name := range names {
		tokens = append(tokens, added{ID: i, Content: name, Special: true})
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true}
	src, err := json.Marshal(map[string]any{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": tokens, "normalizer": nil,
		"pre_tokenizer": byteLevel, "post_processor": nil, "decoder": byteLevel,
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": "", "end_of_word_suffix": "",
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": ids, "merges": []string{}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), src, 0o644); err != nil {
		t.Fatal(err)
	}
	return func(ids []int64) string {
		var s strings.Builder
		for _, id := range ids {
			s.WriteString(names[id])
		}
		return s.String()
	}
}

// folder lays a model folder out with the family's configuration and weights.
func (f family) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(f.dir, "model*"))
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"config.json": f.config}
	for _, file := range files {
		links[filepath.Base(file)] = filepath.Base(file)
	}
	for name, target := range links {
		absolute, err := filepath.Abs(filepath.Join(f.dir, target))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(absolute, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func floats(t *testing.T, g *checkpoint.Safetensors, name string) []float32 {
	t.Helper()
	x, err := g.Float32(name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func ints(t *testing.T, g *checkpoint.Safetensors, name string) (out []int64) {
	t.Helper()
	for _, v := range floats(t, g, name) {
		out = append(out, int64(v))
	}
	return out
}

// logitsOf runs `model logits --json` and compares its last rows with the golden ones.
func logitsOf(t *testing.T, args []string, ids []int64, want []float32, limit float64) {
	t.Helper()
	var list []string
	for _, id := range ids {
		list = append(list, strconv.FormatInt(id, 10))
	}
	out, err := verb(t, newModelLogitsCmd(), append(args, "--ids", strings.Join(list, ","), "--json", "--backend", "go")...)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		IDs    []int64
		Logits [][]float64
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.IDs, ids) || len(r.Logits) != len(ids) {
		t.Fatalf("%d rows of logits for ids %v, asked were %v", len(r.Logits), r.IDs, ids)
	}
	got := slices.Concat(r.Logits...)
	got = got[len(got)-len(want):]
	worst := 0.0
	for i, w := range want {
		worst = max(worst, math.Abs(got[i]-float64(w)))
	}
	if !(worst <= limit) || limit == 0 {
		t.Errorf("logits differ by %v, at most %v is right", worst, limit)
	}
}

// TestGoldenLogits: `model logits` prints what transformers and PEFT compute, for every family and adapter.
func TestGoldenLogits(t *testing.T) {
	for _, f := range families(t) {
		t.Run(f.name, func(t *testing.T) {
			dir := f.folder(t)
			const length, vocab = 24, 320
			row := ints(t, f.golden, "batch/input_ids")[:length]
			logitsOf(t, []string{"--model", dir}, row, floats(t, f.golden, "batch/logits")[:length*vocab], f.limits["batch/logits"].ATol)
			logitsOf(t, []string{"--model", dir}, ints(t, f.golden, "long/input_ids"), floats(t, f.golden, "long/logits_last8"), f.limits["long/logits_last8"].ATol)
			adapters, err := filepath.Glob(filepath.Join(f.dir, "peft", "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, adapter := range adapters {
				g, limits := readGolden(t, adapter)
				logitsOf(t, []string{"--model", dir, "--adapter", adapter}, ints(t, g, "input_ids")[:length], floats(t, g, "logits")[:length*vocab], limits["logits"].ATol)
			}
		})
	}
}

// TestGoldenGreedy: `generate --raw --temperature 0` writes the tokens that transformers does, and gives each the
// log-probability of the largest logit.
func TestGoldenGreedy(t *testing.T) {
	for _, f := range families(t) {
		if strings.HasSuffix(f.name, "-v4") {
			continue // the same model
		}
		t.Run(f.name, func(t *testing.T) {
			dir := f.folder(t)
			text := spelling(t, dir)
			for _, name := range []string{"greedy0", "greedy1", "greedy2"} {
				prompt := ints(t, f.golden, name+"/prompt")
				want := ints(t, f.golden, name+"/tokens")
				if i := slices.Index(want, 2); i >= 0 {
					want = want[:i+1] // transformers was told to go on after the end of text
				}
				out, err := verb(t, newGenerateCmd(), "--model", dir, "--raw", "--prompt", text(prompt), "--temperature", "0", "--max-tokens", "32", "--json", "--backend", "go")
				if err != nil {
					t.Fatal(err)
				}
				var r struct {
					PromptIDs []int64 `json:"prompt_ids"`
					IDs       []int64
					LogProbs  []float64
				}
				if err := json.Unmarshal([]byte(out), &r); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(r.PromptIDs, prompt) {
					t.Fatalf("%s: prompt ids %v, expected %v", name, r.PromptIDs, prompt)
				}
				if !slices.Equal(r.IDs, want) || len(r.LogProbs) != len(want) {
					t.Errorf("%s: ids %v, expected %v", name, r.IDs, want)
				}
				for i, p := range r.LogProbs {
					if !(p <= 0 && p >= -math.Log(320)) { // the likeliest of 320 has at least this
						t.Errorf("%s: token %d has log-probability %v", name, i, p)
					}
				}
			}
		})
	}
}

// chatCase is a line of the chat goldens.
type chatCase struct {
	Name            string
	Messages, Tools json.RawMessage
	Kwargs          map[string]json.RawMessage
	Rendered        *string
	Error           *struct{ Message string }
}

// TestGoldenChat: `chat render` prints what transformers renders, for every template and conversation, and refuses what
// it refuses.
func TestGoldenChat(t *testing.T) {
	root := sharedFile(t, "model-golden", "chat")
	src, err := os.ReadFile(filepath.Join(root, "families.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Families map[string]struct {
			Variables map[string]string `json:"template_variables"`
		}
	}
	if err := json.Unmarshal(src, &index); err != nil {
		t.Fatal(err)
	}
	today := time.Now().Format("02 Jan 2006")
	rendered, refused := 0, 0
	for name, f := range index.Families {
		t.Run(name, func(t *testing.T) {
			dir := family{dir: filepath.Join(filepath.Dir(root), "llama"), config: "config.json"}.folder(t)
			spelling(t, dir, slices.Compact(slices.Sorted(maps.Values(f.Variables)))...)
			roles, err := json.Marshal(f.Variables)
			if err != nil {
				t.Fatal(err)
			}
			template, err := os.ReadFile(filepath.Join(root, name+".jinja"))
			if err != nil {
				t.Fatal(err)
			}
			for file, content := range map[string][]byte{"tokenizer_config.json": roles, "chat_template.jinja": template} {
				if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			lines, err := os.ReadFile(filepath.Join(root, name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(lines)) {
				var c chatCase
				if err := json.Unmarshal([]byte(line), &c); err != nil {
					t.Fatal(err)
				}
				conversation, err := json.Marshal(map[string]json.RawMessage{"messages": c.Messages, "tools": c.Tools})
				if err != nil {
					t.Fatal(err)
				}
				args := []string{"--model", dir, "--messages", write(t, "messages.json", string(conversation))}
				if string(c.Kwargs["add_generation_prompt"]) == "true" {
					args = append(args, "--generation-prompt")
				}
				delete(c.Kwargs, "add_generation_prompt")
				variables, err := json.Marshal(c.Kwargs)
				if err != nil {
					t.Fatal(err)
				}
				out, err := verb(t, newChatRenderCmd(), append(args, "--variables", string(variables))...)
				switch {
				case c.Error != nil:
					if err == nil {
						t.Errorf("%s was rendered, transformers says: %s", c.Name, c.Error.Message)
					}
					refused++
					continue
				case err != nil:
					t.Errorf("%s: %v", c.Name, err)
				case out != *c.Rendered && (c.Kwargs["date_string"] != nil || out != strings.ReplaceAll(*c.Rendered, goldenDay, today)):
					t.Errorf("%s: rendered\n%q, expected\n%q", c.Name, out, *c.Rendered)
				}
				rendered++
			}
		})
	}
	if rendered < 300 || refused < 30 {
		t.Errorf("%d conversations rendered, %d refused", rendered, refused)
	}
}

// goldenDay is the date on which the goldens were made; some templates write the day.
const goldenDay = "05 Mar 2026"

// TestGoldenTokenize: `tokenize` prints the ids that Hugging Face tokenizers gives to every golden text.
func TestGoldenTokenize(t *testing.T) {
	files, err := filepath.Glob(sharedFile(t, "tokenizer-golden") + "/*.ids.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		stem := strings.TrimSuffix(file, ".ids.jsonl.gz")
		t.Run(filepath.Base(stem), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), gunzip(t, stem+".tokenizer.json.gz"), 0o644); err != nil {
				t.Fatal(err)
			}
			type row struct {
				Text string  `json:"text"`
				IDs  []int32 `json:"ids"`
			}
			var texts strings.Builder
			var want []row
			for line := range strings.Lines(string(gunzip(t, file))) {
				var r row
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				if r.IDs == nil {
					continue // a text that the reference was not given
				}
				text, err := json.Marshal(map[string]string{"text": r.Text})
				if err != nil {
					t.Fatal(err)
				}
				texts.Write(append(text, '\n'))
				want = append(want, r)
			}
			out, err := verb(t, newTokenizeCmd(), "--model", dir, "--file", write(t, "texts.jsonl", texts.String()))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if len(lines) != len(want) || len(want) < 1000 {
				t.Fatalf("%d lines for %d texts", len(lines), len(want))
			}
			for i, line := range lines {
				var r row
				if err := json.Unmarshal([]byte(line), &r); err != nil || !slices.Equal(r.IDs, want[i].IDs) {
					t.Errorf("%q: %s, expected %v (%v)", want[i].Text, line, want[i].IDs, err)
				}
			}
		})
	}
}

func gunzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
