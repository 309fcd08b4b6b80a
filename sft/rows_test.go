package sft

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/train"
	"terraloom/lora/train/settings"
	"terraloom/lora/train/setup"
	"terraloom/lora/train/traintest"
)

func prepareError(t *testing.T, c Config) error {
	t.Helper()
	p, err := Prepare(context.Background(), c, nil)
	if err == nil {
		check(t, p.Close())
	}
	return err
}

// SFT-3 and D16: rows whose target is no plan stop the run before the base is on a device, with reasons and counts.
func TestWrongRowsAreRefused(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 6, "validation": 1}, func(split string, i int, p *data.PlannerRow) {
		switch {
		case split == "train" && i < 3:
			p.Completion[0].Content = `{"tool_sequence":["mean"],"why":"x"}`
		case split == "train" && i == 4:
			p.Completion = append(p.Completion, data.Message{Role: "user", Content: "more"})
		}
	}))
	err := prepareError(t, c)
	if !errors.Is(err, ErrRows) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"4 of 6 rows are wrong", "3 × not a plan", "1 × not a prompt with one assistant message", "train-0", `"why"`, "train-4"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// F4 and T6: rows over the limit are an error, left out and counted, or cut, in which case what is left of the answer is
// still learned.
func TestOverlongRows(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 8, "validation": 1}, func(split string, i int, p *data.PlannerRow) {
		if split == "train" && i == 3 {
			p.Prompt[1].Content = strings.Repeat("x", 70)
		}
	}))
	whole := prepare(t, c)
	long := whole.Train.Rows[3]
	c.Data.MaxTokens = len(long.Tokens) - 2
	if err := prepareError(t, c); !errors.Is(err, ErrRows) || !strings.Contains(err.Error(), "train-3") || !strings.Contains(err.Error(), "data.overlong") {
		t.Errorf("error: %v", err)
	}

	c.Data.Overlong = OverlongDrop
	if err := prepareError(t, c); !errors.Is(err, ErrRows) || !strings.Contains(err.Error(), "1 of 8 rows would be left out") {
		t.Errorf("more left out than data.max_dropped: %v", err)
	}
	c.Data.MaxDropped = 0.2
	dropped := prepare(t, c)
	if len(dropped.Train.Rows) != 7 || dropped.Train.Dropped[tooLong] != 1 || !strings.Contains(strings.Join(dropped.Notices, "\n"), "1 × longer than data.max_tokens") {
		t.Errorf("%d rows, dropped %v, notices %q", len(dropped.Train.Rows), dropped.Train.Dropped, dropped.Notices)
	}

	c.Data.Overlong = OverlongTruncate
	cut := prepare(t, c)
	row := cut.Train.Rows[3]
	if len(row.Tokens) != c.Data.MaxTokens || row.Labels() != long.Labels()-2 || !slices.Equal(row.Tokens, long.Tokens[:len(row.Tokens)]) || cut.Train.Truncated != 1 {
		t.Errorf("%d tokens, %d labelled; before %d, %d", len(row.Tokens), row.Labels(), len(long.Tokens), long.Labels())
	}
	// F2: a row of which no answer is left is left out, not trained on with a loss of nothing.
	c.Data.MaxTokens = long.Prompt
	gone := prepare(t, c)
	if gone.Train.Dropped[unlabelled] != 1 || len(gone.Train.Rows) != 7 {
		t.Errorf("dropped %v", gone.Train.Dropped)
	}
	c.Data.MaxTokens = 10
	if err := prepareError(t, c); !errors.Is(err, train.ErrNothingToTrain) || !strings.Contains(err.Error(), "8 × "+unlabelled) {
		t.Errorf("no labelled token at all: %v", err)
	}
}

// D15: what is tokenised is never kept on disk, so another tokenizer, template or dataset cannot meet old ids.
func TestTokensFollowTheTemplate(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 2, "validation": 1}, nil))
	before := prepare(t, c)
	c.Template.File = filepath.Join(t.TempDir(), "other.jinja")
	check(t, os.WriteFile(c.Template.File, []byte(strings.ReplaceAll(traintest.ChatML, `\n`, ` \n`)), 0o644))
	after := prepare(t, c)
	if slices.Equal(before.Train.Rows[0].Tokens, after.Train.Rows[0].Tokens) {
		t.Error("the ids are those of the old template")
	}
	if slices.Equal(before.Train.Rows[0].Tokens[before.Train.Rows[0].Prompt:], nil) || before.Base.Codec.Template.Hash() == after.Base.Codec.Template.Hash() {
		t.Error("templates are not told apart")
	}
}

func TestExecutorRows(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 4, "validation": 2}, nil))
	c.Role = Executor
	p := prepare(t, c)
	if n := len(p.Train.Rows); n != 1+2+3+4 {
		t.Errorf("%d rows, expected one for each step", n)
	}
	if r := p.Train.Rows[2]; r.ID != "train-1#1" || r.Target != `{"year":2002,"k":1}` || r.record.Role != Executor {
		t.Errorf("row %+v", r)
	}
	var sums tally
	a := answer{Answer: `{"year":2002}`}
	sums.add(&p.Train.Rows[2], &a, 5)
	b := answer{Answer: p.Train.Rows[2].Target}
	sums.add(&p.Train.Rows[2], &b, 5)
	if a.Exact || !b.Exact || a.Reward != 0.5 || b.Reward != 2 {
		t.Errorf("scores %+v, %+v", a, b)
	}
	for _, v := range sums.values() {
		want := map[string]float64{"parse_rate": 1, "exact_match": 0.5, "reward": 1.25, "key_accuracy": 0.75, "value_accuracy": 0.75, "answer_tokens": 5, "truncated": 0}
		if w, ok := want[v.Name]; !ok || v.Number != w {
			t.Errorf("%s is %v", v.Name, v.Number)
		}
	}
}

// What would fail later is refused before anything is on a device.
func TestPrepareRefusals(t *testing.T) {
	base := tinyBase(t, checkpoint.Llama)
	dataset := tinyDataset(t, map[string]int{"train": 4, "validation": 2}, nil)
	for name, c := range map[string]struct {
		change func(*Config)
		want   error
		names  string
	}{
		"no such base":           {func(c *Config) { c.Base = filepath.Join(base, "absent") }, nil, "absent"},
		"no such dataset":        {func(c *Config) { c.Dataset = filepath.Join(base, "absent") }, data.ErrNotDataset, "absent"},
		"no such split":          {func(c *Config) { c.Data.Validation = "test" }, ErrRows, `"test" has no planner records`},
		"rows over positions":    {func(c *Config) { c.Data.MaxTokens = 300 }, ErrConfig, "256 positions"},
		"rows over rectangle":    {func(c *Config) { c.Batch.Tokens = 32 }, train.ErrTooLong, "batch.tokens"},
		"rectangle and devices":  {func(c *Config) { c.Batch.Tokens, c.Device.Count = 128, 4 }, train.ErrTooLong, "4 devices"},
		"answers over positions": {func(c *Config) { c.Generation = Generation{Rows: 2, MaxTokens: 250} }, ErrConfig, "generation.max_tokens"},
		"unknown target":         {func(c *Config) { c.LoRA.Targets = []string{"qproj"} }, nil, "q_proj"},
		"adapter of nothing":     {func(c *Config) { c.Adapter = base }, nil, "adapter_config.json"},
		"all weights and answers": {func(c *Config) {
			c.Method, c.Device.Count, c.Batch.Tokens, c.Generation.Rows = setup.Full, 2, 512, 1
			c.Generation.MaxTokens = 64
		}, ErrConfig, "generation.rows"},
	} {
		t.Run(name, func(t *testing.T) {
			config := tinyConfig(t, base, dataset)
			c.change(&config)
			err := prepareError(t, config)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v, expected %v naming %q", err, c.want, c.names)
			}
			if _, err := os.Stat(config.Out); err == nil {
				t.Error("the run folder is there")
			}
		})
	}
}

// The dry run prints what the run would do and one example with its mask, writes nothing, and refuses a folder in use.
func TestDryRun(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 7, "validation": 2}, nil))
	c.Device.PeakTFLOPs = 989
	var b bytes.Buffer
	check(t, prepare(t, c).DryRun(&b, "never"))
	for _, want := range []string{
		"LlamaForCausalLM", "adapter of rank 4, scale 2, 14 modules", "7 rows", `end of turn "<|im_end|>" (id 2) trained: yes`,
		"steps: 3 an epoch, 6 in all, 1 of warm-up; cosine", "rectangles a step", "memory: about", "TFLOP a step", "40 % of the peak",
		`⟦{"tool_sequence":["` + plans(0)[0], `"]}<|im_end|>⟧`, `"{\""`, "\n *  ", "optimizer.lr", settings.Default, "dry run passed",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if _, err := os.Stat(c.Out); err == nil {
		t.Error("the dry run made the run folder")
	}
	c.Schedule.Steps = 1
	c.Schedule.Warmup = 0
	mustRun(t, c, "never")
	if err := prepare(t, c).DryRun(&b, "never"); !errors.Is(err, data.ErrExists) {
		t.Errorf("folder in use: %v", err)
	}
	if err := prepare(t, c).DryRun(&b, "step-00000007"); !errors.Is(err, train.ErrNoCheckpoint) {
		t.Errorf("no such checkpoint: %v", err)
	}
	check(t, prepare(t, c).DryRun(&b, "auto"))
	// The same folder as a new run is refused by the run itself too.
	if _, err := prepare(t, c).Run(context.Background(), backendtest.Open(t), "never", nil); !errors.Is(err, data.ErrExists) {
		t.Errorf("run in a folder in use: %v", err)
	}
}

// Both roles in one run, prompts learned too: every token but the first of each row counts.
func TestBothRolesWithPrompts(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 4, "validation": 2}, nil))
	c.Role, c.Data.CompletionOnlyLoss = Both, false
	p := prepare(t, c)
	if n := len(p.Train.Rows); n != 4+(1+2+3+4) {
		t.Errorf("%d rows, expected one a trajectory and one a step", n)
	}
	for _, r := range p.Train.Rows {
		if r.Labels() != len(r.Tokens)-1 {
			t.Errorf("row %s: %d of %d tokens are labelled", r.ID, r.Labels(), len(r.Tokens))
		}
	}
	c.Data.CompletionOnlyLoss = true
	for _, r := range prepare(t, c).Train.Rows {
		if r.Labels() != len(r.Tokens)-r.Prompt {
			t.Errorf("row %s: %d labels, the answer has %d tokens", r.ID, r.Labels(), len(r.Tokens)-r.Prompt)
		}
	}
	var sums tally
	for _, r := range []*Row{&p.Train.Rows[0], &p.Train.Rows[4]} {
		sums.add(r, &answer{Answer: r.Target}, 3)
	}
	got := map[string]float64{}
	for _, v := range sums.values() {
		got[v.Name] = v.Number
	}
	if got["planner_exact_match"] != 1 || got["executor_reward"] != 2 || got["answer_tokens"] != 3 {
		t.Errorf("figures %v", got)
	}
}
