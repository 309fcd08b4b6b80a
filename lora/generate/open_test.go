package generate

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"terraloom/lora/adapter"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/chat"
	"terraloom/lora/checkpoint"
	"terraloom/lora/codec"
	"terraloom/lora/decoder"
	"terraloom/lora/provenance"
)

const testTemplate = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is false %}-{% endif %}{% endif %}"

// modelFolder writes a small random model with the tokenizer of the tests and, unless it is empty, a chat template.
func modelFolder(t testing.TB, template string) (dir string, config checkpoint.Config) {
	t.Helper()
	config = dense(2, 32, 2, 1, 64, 352)
	config.MaxPositions = 256
	random := decoder.RandomWeights{Config: config, Seed: 9, Std: 0.3}
	f := checkpoint.Folder{Config: config.JSON(), Copy: map[string]string{}}
	for _, s := range config.TensorSpecs() {
		tensor, err := random.Tensor(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		f.Tensors = append(f.Tensors, checkpoint.FromTensor("model."+s.Name, tensor))
	}
	extra := t.TempDir()
	if err := smallTokenizer(t).Save(extra); err != nil {
		t.Fatal(err)
	}
	if template != "" {
		if err := os.WriteFile(filepath.Join(extra, "chat_template.jinja"), []byte(template), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(extra)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f.Copy[file.Name()] = filepath.Join(extra, file.Name())
	}
	dir = filepath.Join(t.TempDir(), "model")
	if err := checkpoint.WriteFolder(dir, f); err != nil {
		t.Fatal(err)
	}
	return dir, config
}

// adapterFolder writes an adapter that changes every projection.
func adapterFolder(t testing.TB, config checkpoint.Config, record any) string {
	t.Helper()
	a, err := adapter.New(&config, adapter.Config{R: 2, Alpha: 4, Targets: []string{adapter.AllLinear}}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.B {
		for j := range a.B[i] {
			a.B[i][j] = float32((i+j)%5-2) / 4
		}
	}
	dir := filepath.Join(t.TempDir(), "adapter")
	if err := a.Save(dir, adapter.SaveOptions{Provenance: record}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t testing.TB, dir string, adapters ...Named) (*Loaded, error) {
	t.Helper()
	l, err := Open(backendtest.Open(t), dir, adapters, decoder.Float32, Options{})
	if err == nil {
		t.Cleanup(l.Close)
	}
	return l, err
}

// TestOpen: a folder becomes a model that answers, and an adapter another one, whose greedy tokens are the largest logits
// of forward passes with the adapter.
func TestOpen(t *testing.T) {
	dir, config := modelFolder(t, testTemplate)
	planner := adapterFolder(t, config, nil)
	l, err := open(t, dir, Named{"planner", planner})
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := l.Prompt(t.Context(), "", chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "the <|im_end|> lake")}}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := l.Tokenizer.Decode(prompt); err != nil || text != "<|im_start|>user\nthe <|im_end|> lake<|im_end|>\n<|im_start|>assistant\n" {
		t.Errorf("%v: prompt %q", err, text)
	}
	end, _ := l.Tokenizer.TokenID("<|im_end|>")
	if i := slices.Index(prompt, end); i < 0 || slices.Contains(prompt[i+1:], end) {
		t.Errorf("T1: the marker in the user's text became a control token: %v", prompt)
	}
	for _, name := range []string{"", "planner"} {
		r := generate(t, l.Engine, Request{Model: name, Prompt: prompt, MaxTokens: 12, StopIDs: none})[0]
		adapterDir := ""
		if name != "" {
			adapterDir = planner
		}
		logits, err := Logits(backendtest.Open(t), dir, adapterDir, decoder.Float32, append(slices.Clone(prompt), r.IDs()...))
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range r.IDs() {
			z := logits[len(prompt)-1+i][:l.Tokenizer.VocabSize()]
			if best := slices.Max(z); z[id] < best-nearTie {
				t.Fatalf("model %q: token %d is %d with logit %v, the largest is %v", name, i, id, z[id], best)
			}
		}
	}
	if got := RawPrompt(l.Tokenizer, "a<|im_end|>"); got[len(got)-1] != end {
		t.Errorf("raw prompt %v does not end with the control token", got)
	}
	if tok, err := OpenTokenizer(dir); err != nil || tok.VocabSize() != l.Tokenizer.VocabSize() {
		t.Errorf("%v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir, config := modelFolder(t, testTemplate)
	other := config
	other.IntermediateSize = 48
	good := adapterFolder(t, config, nil)
	for name, c := range map[string]struct {
		adapters []Named
		want     error
	}{
		"another shape":  {[]Named{{"a", adapterFolder(t, other, nil)}}, adapter.ErrBinding},
		"no adapter":     {[]Named{{"a", t.TempDir()}}, adapter.ErrFormat},
		"twice the name": {[]Named{{"a", good}, {"a", good}}, ErrRequest},
		"another record": {[]Named{{"a", adapterFolder(t, config, provenance.New(provenance.Record{Name: "b", Identity: provenance.Identity{Base: "0", Tokenizer: "0", Template: "0"}}))}}, provenance.ErrMismatch},
	} {
		_, err := open(t, dir, c.adapters...)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.adapters[0].Dir) {
			t.Errorf("%s: %v, expected %v and the folder's name", name, err, c.want)
		}
	}

	bare, _ := modelFolder(t, "")
	l, err := open(t, bare)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Prompt(t.Context(), "", chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "x")}}, time.Time{}); !errors.Is(err, codec.ErrNoTemplate) {
		t.Errorf("a model without a template: %v", err)
	}
	broken, _ := modelFolder(t, "{% if %}")
	if _, err := open(t, broken); err == nil {
		t.Error("a template that does not parse was taken")
	}
}

// T12: an adapter with the record of this base, tokenizer and template is taken, with the variables it was trained with.
func TestOpenRecord(t *testing.T) {
	dir, config := modelFolder(t, testTemplate)
	base, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	c, err := codec.Open(base, codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	record := provenance.Record{Name: dir, Identity: provenance.Identity{Template: c.Template.Hash()}, Variables: map[string]any{"enable_thinking": false}}
	if record.Base, err = base.Hash(); err != nil {
		t.Fatal(err)
	}
	if record.Tokenizer, err = c.Tokenizer.Hash(); err != nil {
		t.Fatal(err)
	}
	l, err := open(t, dir, Named{"planner", adapterFolder(t, config, provenance.New(record))})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "assistant\n", "planner": "assistant\n-"} {
		ids, err := l.Prompt(t.Context(), name, chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "x")}}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := l.Tokenizer.Decode(ids); !strings.HasSuffix(text, want) {
			t.Errorf("model %q: prompt %q, expected the end %q", name, text, want)
		}
	}
}
