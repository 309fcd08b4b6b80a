package grpo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/lora/checkpoint"
	"terraloom/lora/provenance"
	"terraloom/lora/train"
	"terraloom/lora/train/rowset"
	"terraloom/lora/train/traintest"
	"terraloom/reward"
)

func prepareError(t *testing.T, c Config) error {
	t.Helper()
	p, err := Prepare(context.Background(), c, nil)
	if err == nil {
		check(t, p.Close())
	}
	return err
}

// A prompt is what is served: the template's rendering up to where the answer begins, with the tokens that the answer needs
// counted beside it.
func TestPrompts(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 3, "validation": 2, "test": 1}, nil))
	c.Data.Validation = "validation"
	p := prepare(t, c)
	if len(p.Train.Rows) != 3 || len(p.Validation.Rows) != 2 {
		t.Fatalf("%d and %d rows", len(p.Train.Rows), len(p.Validation.Rows))
	}
	for i, row := range p.Train.Rows {
		question, arguments := node(i)
		text, err := p.Base.Codec.Tokenizer.Decode(row.Prompt)
		check(t, err)
		want := "<|im_start|>system\nYou give arguments.<|im_end|>\n<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n"
		if text != want || row.Target != arguments.JSON() {
			t.Errorf("row %s: prompt %q, target %s", row.ID, text, row.Target)
		}
		if n := len(p.Base.Codec.Tokenizer.EncodeOrdinary(row.Target)) + 1; row.Answer != n {
			t.Errorf("row %s: an answer of %d tokens, expected %d", row.ID, row.Answer, n)
		}
	}
	c.Data.TrainRows = 2
	if n := len(prepare(t, c).Train.Rows); n != 2 {
		t.Errorf("%d rows, expected 2", n)
	}
}

// D16, REW-6, S7: rows that cannot be learned stop the run before the base is on a device, with reasons and counts.
func TestWrongRowsAreRefused(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 6}, func(split string, i int, r *data.ExecutorRow) {
		switch i {
		case 1:
			r.Completion[0].Content = "```json\n" + r.Completion[0].Content + "\n```"
		case 2:
			r.Completion[0].Content = `{"place":"Nowhere","year":1}`
		case 4:
			r.Completion = append(r.Completion, data.Message{Role: "user", Content: "more"})
		}
	}))
	err := prepareError(t, c)
	if !errors.Is(err, ErrRows) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"3 of 6 rows are wrong", "2 × the record's own answer is not scored as right", "1 × not a prompt with one assistant message", "train-1#0", "train-4#0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	c.Data.Train = "absent"
	if err := prepareError(t, c); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("a split that is not there: %v", err)
	}
}

// G14: prompts over the limit, and answers that could never be written to their end, are refused or left out and counted.
func TestOverlongRows(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 6}, func(split string, i int, r *data.ExecutorRow) {
		if i == 3 {
			r.Prompt[1].Content = strings.Repeat("x", 70)
		}
	}))
	if err := prepareError(t, c); !errors.Is(err, ErrRows) || !strings.Contains(err.Error(), "data.max_prompt_tokens 64") || !strings.Contains(err.Error(), "train-3#0") {
		t.Errorf("error %v", err)
	}
	c.Data.Overlong, c.Data.MaxDropped = OverlongDrop, 0.2
	p := prepare(t, c)
	if len(p.Train.Rows) != 5 || !strings.Contains(strings.Join(p.Notices, "\n"), "1 × "+longPrompt) {
		t.Errorf("%d rows, notices %q", len(p.Train.Rows), p.Notices)
	}
	c.Data.MaxDropped = 0.1
	if err := prepareError(t, c); !errors.Is(err, ErrRows) || !strings.Contains(err.Error(), "1 of 6 rows would be left out") {
		t.Errorf("error %v", err)
	}
	c.Data.MaxDropped, c.Rollout.MaxTokens = 0.99, 4
	if err := prepareError(t, c); !errors.Is(err, ErrRows) || !strings.Contains(err.Error(), longAnswer) {
		t.Errorf("answers of more than 4 tokens: %v", err)
	}
}

// What cannot fit anywhere is found before anything is put on a device.
func TestLimitsAreChecked(t *testing.T) {
	good := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 2}, nil))
	for key, change := range map[string]func(*Config){
		"positions of the base": func(c *Config) { c.Data.MaxPromptTokens = 250 },
		"batch.tokens":          func(c *Config) { c.Batch.Tokens = 64 },
	} {
		c := good
		change(&c)
		if err := prepareError(t, c); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	// T12: an adapter of another template.
	c := good
	c.Adapter = warm(t, good, 1)
	c.Template.File = filepath.Join(t.TempDir(), "template.jinja")
	check(t, os.WriteFile(c.Template.File, []byte(strings.ReplaceAll(traintest.ChatML, `\n`, ` \n`)), 0o644))
	if err := prepareError(t, c); !errors.Is(err, provenance.ErrMismatch) || !strings.Contains(err.Error(), "chat template") {
		t.Errorf("another template: %v", err)
	}
}

// What is measured must not be trained on.
func TestSplitsAreApart(t *testing.T) {
	trained, measured := &Rows{Rows: []Row{{ID: "a#0"}}}, &Rows{Rows: []Row{{ID: "b#0"}, {ID: "a#0"}}}
	if err := rowset.Apart("train", trained.ids(), "validation", measured.ids()); !errors.Is(err, ErrRows) || !strings.Contains(err.Error(), "a#0") {
		t.Errorf("error %v", err)
	}
}

// A dry run shows the run and writes nothing; it refuses a reward under which another answer earns as much as the right one.
func TestDryRun(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 5, "validation": 2}, nil))
	c.Data.Validation = "validation"
	var out bytes.Buffer
	check(t, prepare(t, c).DryRun(context.Background(), &out, "never"))
	for _, want := range []string{"train: 5 prompts of", `ends with "<|im_end|>"`, "2 prompts × 4 answers", "−min(ρA, clip(ρ, 0.8, 1.2)·A) + 0.04·KL(p‖p_ref)", "p_ref: the base alone", "over all answer tokens of the step",
		"group.eps", "default", "steps: 3 an epoch", "answers of rollout.max_tokens", "memory while drawing", `⟦{"place":"Leon","year":2001}⟧`,
		"2.0000  the reference answer", "-2.0000  nothing", "-1.0000  an empty object", "notice: objective.kl k3", "dry run passed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if _, err := os.Stat(c.Out); err == nil {
		t.Error("the dry run made the run folder")
	}
	c.Reward.Functions = []reward.Function{{Name: "short", Kind: reward.KindLength, Weight: 1, Free: 40, Max: 80}}
	if err := prepare(t, c).DryRun(context.Background(), &out, "never"); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "nothing earns 0") {
		t.Errorf("a reward for silence: %v", err)
	}
	if err := prepare(t, tinyConfig(t, c.Base, c.Dataset)).DryRun(context.Background(), &out, "step-3"); !errors.Is(err, train.ErrNoCheckpoint) {
		t.Errorf("a checkpoint that is not there: %v", err)
	}
}
