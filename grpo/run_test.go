package grpo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/lora/checkpoint"
	"terraloom/lora/provenance"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/traintest"
	"terraloom/reward"
)

// warmConfig is a run on four nodes from an adapter that answers some of them.
func warmConfig(t *testing.T, family checkpoint.Family) Config {
	c := tinyConfig(t, tinyBase(t, family), tinyDataset(t, map[string]int{"train": 4, "validation": 4}, nil))
	c.Adapter = warm(t, c, 12)
	return c
}

func lines(tb testing.TB, dir, kind string) (out []line) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(dir, run.SamplesFile))
	check(tb, err)
	for row := range strings.Lines(string(text)) {
		var l line
		check(tb, json.Unmarshal([]byte(row), &l))
		if l.Kind == kind {
			out = append(out, l)
		}
	}
	return out
}

// GRPO-11: four nodes, fixed seed: the mean reward of drawn answers rises by more than a half. GRPO-8: no tool, critic or
// reward model is anywhere. GRPO-10: what a step records.
func TestLearnsFourNodes(t *testing.T) {
	c := warmConfig(t, checkpoint.Llama)
	c.Data.Validation = "validation"
	c.Batch.Prompts, c.Group.Size = 4, 8
	c.Schedule.Steps = 40
	c.Optimizer.LR = 2e-3
	c.Evaluation = train.Evaluation{AtStart: true}
	res := mustRun(t, c, "never")
	steps := traintest.Records(t, c.Out, run.Train)
	mean := func(records []run.Record) (m float64) {
		for _, r := range records {
			m += traintest.Value(t, r, "reward") / float64(len(records))
		}
		return m
	}
	if before, after := mean(steps[:4]), mean(steps[36:]); !(after > before+0.5) {
		t.Errorf("mean reward %v in the first steps, %v in the last", before, after)
	}
	for _, r := range steps {
		for _, v := range r.Values {
			if math.IsNaN(v.Number) {
				t.Errorf("step %d: %s is NaN", r.Step, v.Name)
			}
		}
		for _, name := range []string{"reward_argument", "reward_argument_std", "parse_failures", "reward_std", "reward_batch_std", "zero_spread", "kl", "entropy", "clip_low", "clip_high", "completion_tokens",
			"completion_tokens_max", "truncated", "grad_norm", "share_generate", "share_train", "share_other", "tokens_per_second"} {
			traintest.Value(t, r, name)
		}
		// Strictly on-policy: every ratio is 1, and the sampler says what training computes.
		if x, y := traintest.Value(t, r, "ratio"), traintest.Value(t, r, "ratio_max"); x != 1 || y != 1 {
			t.Errorf("step %d: ratios %v, %v at most", r.Step, x, y)
		}
		if gap := traintest.Value(t, r, "sampler_gap"); gap > 1e-4 {
			t.Errorf("step %d: sampler and training differ by %v", r.Step, gap)
		}
	}
	// What is neither generation nor training is below a twentieth of a step.
	other := 0.0
	for _, r := range steps {
		other += traintest.Value(t, r, "share_other") / float64(len(steps))
	}
	if other > 0.05 {
		t.Errorf("%.1f %% of a step is neither generation nor training", 100*other)
	}
	// G10: the reference is the base with the starting adapter.
	if kl := traintest.Value(t, steps[0], "kl"); kl > 1e-9 {
		t.Errorf("KL %v in the first step", kl)
	}

	// The adapter says what it was made with, and the base is as it was.
	record, err := provenance.Read(res.Path)
	check(t, err)
	hash, err := traintest.OpenModel(t, c.Base).Hash()
	check(t, err)
	if record.Method != "grpo" || record.Role != "executor" || record.Base != hash || record.Parent != traintest.AdapterHash(t, c.Base, c.Adapter) || record.Hash == record.Parent || record.Dataset == "" {
		t.Errorf("record %+v", record)
	}

	rollouts := lines(t, c.Out, "rollout")
	if len(rollouts) != 40*4*8 {
		t.Errorf("%d rollouts, expected 40 steps × 4 prompts × 8", len(rollouts))
	}
	reference := map[string]*reward.Reference{}
	for _, l := range rollouts {
		if reference[l.Expected] == nil {
			if reference[l.Expected], err = reward.NewReference(l.Expected, nil); err != nil {
				t.Fatal(err)
			}
		}
		if s := reward.DefaultRules().Score(reference[l.Expected], l.Answer); l.Reward == nil || *l.Reward != s.Reward || l.Reason != s.Reason || l.Version != l.Step-1 || l.Parts["argument"] != s.Reward {
			t.Fatalf("line %+v, score %+v", l, s)
		}
	}
	if n := len(lines(t, c.Out, "validation")); n != 2*4 {
		t.Errorf("%d validation answers, expected 4 before and 4 after", n)
	}
	last := res.Summary.Last
	for _, name := range []string{"reward", "key_accuracy", "exact_match", "parse_failures"} {
		if _, ok := (run.Record{Values: last}).Get(name); !ok {
			t.Errorf("validation has no %s: %v", name, last)
		}
	}
}

// C4: stopped in any step and resumed, also between the updates on one set of answers, a run ends with the very same adapter.
func TestResumeIsBitEqual(t *testing.T) {
	for _, family := range []checkpoint.Family{checkpoint.Llama, checkpoint.Qwen35} {
		t.Run(string(family), func(t *testing.T) {
			c := warmConfig(t, family)
			c.Batch.Updates, c.Schedule.Steps = 2, 6
			c.Group.Resample = 1
			c.Data.Validation, c.Evaluation.Every = "validation", 4
			straight := mustRun(t, c, "never")
			want := traintest.AdapterHash(t, c.Base, straight.Path)
			ratios := 0
			for _, r := range traintest.Records(t, c.Out, run.Train) {
				if traintest.Value(t, r, "ratio_max") != 1 {
					ratios++
				}
			}
			if ratios != 3 {
				t.Errorf("%d of 6 updates have ratios other than 1, expected every second", ratios)
			}
			stops := []int{1, 2, 3, 4, 5} // odd ones are inside a rollout's updates
			if family == checkpoint.Qwen35 {
				stops = []int{3}
			}
			for _, stop := range stops {
				c.Out = filepath.Join(t.TempDir(), "run")
				ctx, cancel := context.WithCancel(context.Background())
				_, err := runOn(t, ctx, c, "never", func(s train.Status) {
					if s.Done == stop {
						cancel()
					}
				})
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("stopped after step %d: %v", stop, err)
				}
				if got := traintest.AdapterHash(t, c.Base, mustRun(t, c, "auto").Path); got != want {
					t.Errorf("stopped after step %d: another adapter", stop)
				}
				if n := len(lines(t, c.Out, "rollout")); n != 3*2*4 {
					t.Errorf("stopped after step %d: %d rollouts recorded, expected 24", stop, n)
				}
			}
		})
	}
}

// Answers of a checkpoint that are not those of the step are refused, and so is a state that is none.
func TestStaleRolloutsAreRefused(t *testing.T) {
	p := prepare(t, warmConfig(t, checkpoint.Llama))
	folder, err := run.Open(t.TempDir(), false)
	check(t, err)
	defer folder.Close()
	task, err := p.task(context.Background(), share(t, p), folder)
	check(t, err)
	defer task.close()
	sums, err := task.on.Params.Zeros()
	check(t, err)
	defer sums.Free()
	task.config.Batch.Updates = 2
	_, err = task.Gradient(context.Background(), train.Step{Number: 4, Rows: []int{0, 1}}, sums)
	check(t, err)
	state, err := task.State()
	check(t, err)

	again := *task
	again.pending = nil
	check(t, again.Restore(state))
	for i, a := range again.pending.Answers {
		b := task.pending.Answers[i]
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("restored %v, saved %v", a, b)
		}
	}
	if _, err := again.Gradient(context.Background(), train.Step{Number: 7, Update: 1, Rows: []int{0, 1}}, sums); !errors.Is(err, ErrStale) {
		t.Errorf("answers of another step are trained on: %v", err)
	}
	again.pending = nil
	if _, err := again.Gradient(context.Background(), train.Step{Number: 5, Update: 1, Rows: []int{0, 1}}, sums); !errors.Is(err, ErrStale) {
		t.Errorf("trains on no answers: %v", err)
	}
	for _, bad := range []string{"", "x", string(state[:len(state)/2])} {
		if err := again.Restore([]byte(bad)); err == nil {
			t.Errorf("a state of %d bytes is taken", len(bad))
		}
	}
}

// G1, E9: an untrained base earns the same in every answer. The share is recorded, and after the steps that are allowed the
// run ends and says what to do.
func TestNoSpreadEndsTheRun(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 4}, nil))
	c.Group.MaxFlat, c.Group.Resample, c.Schedule.Steps = 2, 1, 9
	_, err := runOn(t, context.Background(), c, "never", nil)
	if !errors.Is(err, ErrNoSpread) || !strings.Contains(err.Error(), "Executor SFT") {
		t.Fatalf("error %v", err)
	}
	steps := traintest.Records(t, c.Out, run.Train)
	if len(steps) != 2 {
		t.Fatalf("%d steps, expected 2", len(steps))
	}
	for _, r := range steps {
		if traintest.Value(t, r, "zero_spread") != 1 || traintest.Value(t, r, "resampled_groups") != 2 || traintest.Value(t, r, "policy_loss") != 0 {
			t.Errorf("step %d: %v", r.Step, r.Values)
		}
	}
}

// A group that is drawn again has other answers, and only groups without spread are.
func TestResamplingDrawsFlatGroupsAgain(t *testing.T) {
	c := warmConfig(t, checkpoint.Llama)
	c.Batch.Prompts, c.Schedule.Steps = 4, 1
	flat := func(resample int) (float64, float64, []line) {
		c.Out, c.Group.Resample = filepath.Join(t.TempDir(), "run"), resample
		mustRun(t, c, "never")
		r := traintest.Records(t, c.Out, run.Train)[0]
		return traintest.Value(t, r, "zero_spread"), traintest.Value(t, r, "resampled_groups"), lines(t, c.Out, "rollout")
	}
	none, again, first := flat(0)
	if none == 0 || none == 1 || again != 0 {
		t.Fatalf("share without spread %v, %v drawn again: the adapter is not made for this test", none, again)
	}
	many, again, second := flat(3)
	if again == 0 || many > none {
		t.Errorf("share without spread %v after drawing %v groups again, %v before", many, again, none)
	}
	for g := range 4 {
		same, spread := true, false
		for i := range c.Group.Size {
			at := g*c.Group.Size + i
			same = same && first[at].Answer == second[at].Answer
			spread = spread || *first[at].Advantage != 0
		}
		if same != spread {
			t.Errorf("group %d: spread %t, drawn again %t", g, spread, !same)
		}
	}
}

// GRPO-9, G4, G5: answers that are cut off are scored and counted; masked, they leave the objective but not the lengths.
func TestTruncatedAnswers(t *testing.T) {
	c := warmConfig(t, checkpoint.Llama)
	c.Schedule.Steps = 1
	once := func(mask bool) run.Record {
		c.Out, c.Rollout.MaskTruncated = filepath.Join(t.TempDir(), "run"), mask
		mustRun(t, c, "never")
		return traintest.Records(t, c.Out, run.Train)[0]
	}
	all, masked := once(false), once(true)
	tokens := 0
	for _, l := range lines(t, c.Out, "rollout") {
		if !l.Truncated {
			tokens += l.Tokens
		} else if l.Tokens != c.Rollout.MaxTokens || *l.Reward != -2 {
			t.Errorf("a truncated answer of %d tokens earns %v", l.Tokens, *l.Reward)
		}
	}
	share := traintest.Value(t, all, "truncated")
	if share == 0 || share == 1 || traintest.Value(t, masked, "truncated") != share || traintest.Value(t, masked, "completion_tokens") != traintest.Value(t, all, "completion_tokens") {
		t.Fatalf("truncated %v and %v", share, traintest.Value(t, masked, "truncated"))
	}
	if n := traintest.Value(t, masked, "trained_tokens"); n != float64(tokens) || n >= traintest.Value(t, all, "trained_tokens") {
		t.Errorf("%v tokens trained, expected %d", n, tokens)
	}
}

// Every answer of a step is cut off and masked: nothing is trained on, nothing is divided by zero.
func TestAllAnswersMasked(t *testing.T) {
	p := prepare(t, warmConfig(t, checkpoint.Llama))
	task, err := p.task(context.Background(), share(t, p), nil)
	check(t, err)
	defer task.close()
	task.config.Rollout.MaskTruncated = true
	task.pending = &rollouts{Answers: []answer{{Tokens: []int32{1}, Truncated: true}, {Tokens: []int32{2}, Truncated: true}}}
	sums, err := task.on.Params.Zeros()
	check(t, err)
	defer sums.Free()
	check(t, task.judgeByReference(context.Background()))
	out, err := task.update(context.Background(), true, sums)
	check(t, err)
	if norm, err := task.on.Params.Norm(sums); err != nil || norm != 0 || out.Loss != 0 || out.Tokens.Labelled != 0 {
		t.Errorf("norm %v, outcome %+v, %v", norm, out, err)
	}
}

// G6, L9: the temperature of drawing is that of the objective; dropout is off. Either would show as a ratio other than 1 or as
// a gap to the sampler.
func TestTemperatureAndDropout(t *testing.T) {
	c := warmConfig(t, checkpoint.Llama)
	c.Rollout.Temperature, c.Schedule.Steps = 0.6, 1
	c.Adapter, c.LoRA.Dropout, c.Group.MaxFlat = "", 0.5, 5
	p := prepare(t, c)
	for _, b := range p.Base.Start.B {
		for i := range b {
			b[i] = float32(i%7-3) / 40
		}
	}
	if text := strings.Join(p.Notices, "\n"); !strings.Contains(text, "dropout of 0.5 is off") {
		t.Errorf("notices %q", text)
	}
	folder, err := run.Open(c.Out, false)
	check(t, err)
	defer folder.Close()
	_, err = p.train(context.Background(), share(t, p), folder, "", nil)
	check(t, err)
	r := traintest.Records(t, c.Out, run.Train)[0]
	if gap, ratio := traintest.Value(t, r, "sampler_gap"), traintest.Value(t, r, "ratio"); gap > 1e-4 || ratio != 1 {
		t.Errorf("gap %v, ratio %v", gap, ratio)
	}
}

// A sampler whose probabilities are others' ends the run before its first update.
func TestSamplerThatDisagrees(t *testing.T) {
	p := prepare(t, warmConfig(t, checkpoint.Llama))
	folder, err := run.Open(t.TempDir(), false)
	check(t, err)
	defer folder.Close()
	task, err := p.task(context.Background(), share(t, p), folder)
	check(t, err)
	defer task.close()
	honest := task.sampler
	for name, c := range map[string]struct {
		spoil func(d *drawn)
		want  error
	}{
		"other probabilities":  {func(d *drawn) { d.logProbs[0] -= 20 }, ErrSampler},
		"missing ones":         {func(d *drawn) { d.logProbs = d.logProbs[1:] }, ErrSampler},
		"other weights":        {func(d *drawn) { d.version++ }, ErrStale},
		"nothing wrong at all": {func(d *drawn) {}, nil},
	} {
		task.sampler = &spoiled{honest, c.spoil}
		sums, err := task.on.Params.Zeros()
		check(t, err)
		_, err = task.Gradient(context.Background(), train.Step{Rows: []int{0, 1}}, sums)
		sums.Free()
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	task.sampler = honest
}

// A reward function that fails leaves its answer out of mean and deviation, and the run goes on.
func TestFailingRewardIsNoReward(t *testing.T) {
	c := warmConfig(t, checkpoint.Llama)
	c.Schedule.Steps = 1
	c.Reward.Functions = append(c.Reward.Functions, reward.Function{Name: "shaky", Kind: reward.KindExpr, Weight: 1, Program: `length > 25 ? reference["absent"].x : 0`})
	mustRun(t, c, "never")
	r := traintest.Records(t, c.Out, run.Train)[0]
	failed := 0
	for _, l := range lines(t, c.Out, "rollout") {
		if l.Reward == nil {
			failed++
			if l.Error == "" || *l.Advantage != 0 {
				t.Errorf("line %+v", l)
			}
		}
	}
	if n := traintest.Value(t, r, "reward_failures"); n == 0 || n != float64(failed) {
		t.Errorf("%v failures recorded, %d in the samples", n, failed)
	}
}

// L10, E9: where nothing pulls at the parameters the run does not end as if it had trained.
func TestUnchangedAdapterIsAnError(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 4}, nil))
	c.Schedule.Steps, c.Objective.Beta, c.Objective.Entropy = 2, 0, 0
	if _, err := runOn(t, context.Background(), c, "never", nil); !errors.Is(err, train.ErrUnchanged) {
		t.Errorf("error %v", err)
	}
}
