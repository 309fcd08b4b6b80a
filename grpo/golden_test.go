package grpo

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
	"terraloom/lora/train/traintest"
)

// goldenModels are the reference models that have rollouts: a dense one and a hybrid one.
var goldenModels = []string{"llama", "qwen35-text"}

func readJSON(tb testing.TB, path string, into any) {
	tb.Helper()
	text, err := os.ReadFile(path)
	check(tb, err)
	check(tb, json.Unmarshal(text, into))
}

// goldenInfo is golden.json.
type goldenInfo struct {
	Cases map[string]struct {
		Std, KL     string
		Temperature float64
		Scalars     map[string]float64
		AtolLoss    float64 `json:"atol_loss"`
		Grads       traintest.Tolerance
	}
	Trace   map[string]json.RawMessage
	Tensors map[string]traintest.Tolerance
}

// reference holds the reference data of one model: rollouts, and what PyTorch, PEFT and TRL compute from them.
type reference struct {
	tb      testing.TB
	dir     string
	base    *setup.Base
	info    goldenInfo
	tensors *checkpoint.Safetensors
	length  int
	tokens  []int32 // [8, length]
	counts  []int   // tokens of each row
	prompts []int   // of which the first are the prompt
}

const goldenGroup = 4

func openReference(tb testing.TB, model string) *reference {
	tb.Helper()
	r := &reference{tb: tb, dir: traintest.Golden(tb, "grpo", model)}
	r.base = &setup.Base{Config: setup.Config{Device: setup.Device{Count: 1, Precision: string(decoder.Float32)}}, Model: traintest.OpenModel(tb, traintest.Golden(tb, model))}
	var err error
	r.base.Start, err = adapter.Load(filepath.Join(r.dir, "adapter"), &r.base.Model.Config)
	check(tb, err)
	readJSON(tb, filepath.Join(r.dir, "golden.json"), &r.info)
	r.tensors = r.open("golden.safetensors")
	for _, x := range r.floats("input_ids") {
		r.tokens = append(r.tokens, int32(x))
	}
	mask, completion := r.floats("attention_mask"), r.floats("completion_mask")
	const rows = 8
	r.length = len(mask) / rows
	for i := range rows {
		n, c := 0, 0
		for j := range r.length {
			n += int(mask[i*r.length+j])
			c += int(completion[i*r.length+j])
		}
		r.counts, r.prompts = append(r.counts, n), append(r.prompts, n-c)
	}
	return r
}

func (r *reference) open(name string) *checkpoint.Safetensors {
	r.tb.Helper()
	f, err := checkpoint.OpenSafetensors(filepath.Join(r.dir, name))
	check(r.tb, err)
	r.tb.Cleanup(func() { f.Close() })
	return f
}

func (r *reference) floats(name string) []float32 {
	r.tb.Helper()
	x, err := r.tensors.Float32(name)
	check(r.tb, err)
	return x
}

// perToken cuts a tensor [8, length−1], whose entry t belongs to token t+1, into the answers' tokens.
func (r *reference) perToken(name string) (out [][]float32) {
	x := r.floats(name)
	for i := range r.counts {
		row := x[i*(r.length-1) : (i+1)*(r.length-1)]
		out = append(out, row[r.prompts[i]-1:r.counts[i]-1])
	}
	return out
}

// task is the task at a case: its rollouts are pending, drawn by the old adapter. Nothing is judged yet.
func (r *reference) task(name string) *task {
	r.tb.Helper()
	c := r.info.Cases[name]
	config := Default()
	config.Device, config.Rollout.Temperature = r.base.Config.Device, c.Temperature
	config.Group = Group{Size: goldenGroup, Std: map[string]string{"population": Population, "bessel": Sample, "trl": Sample}[c.Std], Eps: 1e-6}
	if c.Std == "trl" {
		config.Group.Eps = 1e-4
	}
	config.Objective = Objective{ClipLow: 0.2, ClipHigh: 0.2, Beta: 0.04, Entropy: 0.01, Reference: Bare, Aggregation: TokenMean,
		KL: map[string]string{"k3": K3, "k2": K2, "exact": Exact, "k3_times_ratio": K3Rho}[c.KL]}
	rewards := r.floats("rewards")
	if name == "flat_group_bessel_k3_t1" {
		rewards = r.floats("rewards_flat")
	}
	old := r.perToken(fmt.Sprintf("old_logp_t%g", c.Temperature))
	pending := &rollouts{}
	for i := range r.counts {
		row := r.tokens[i*r.length : i*r.length+r.counts[i]]
		pending.Answers = append(pending.Answers, answer{Prompt: row[:r.prompts[i]], Tokens: row[r.prompts[i]:], Sampled: old[i], Old: old[i], Reward: float64(rewards[i])})
	}
	config.Group.judge(pending.Answers)
	t := &task{config: config, base: r.base, on: traintest.Place(r.tb, r.base), layout: train.Layout{Tokens: 128}, cost: r.base.Cost(), pending: pending, ids: []string{"a", "b"}}
	if config.Objective.needsReference() {
		check(r.tb, t.judgeByReference(context.Background()))
	}
	return t
}

// TestGoldenAdvantages compares with float64 figures in three conventions.
func TestGoldenAdvantages(t *testing.T) {
	var table struct {
		Rows []struct{ Rewards, Population, Bessel, TRL []float64 }
	}
	readJSON(t, filepath.Join(traintest.Golden(t, "grpo"), "advantages.json"), &table)
	if len(table.Rows) == 0 {
		t.Fatal("no rows")
	}
	for _, row := range table.Rows {
		for _, c := range []struct {
			group Group
			want  []float64
		}{{Group{Std: Population, Eps: 1e-6}, row.Population}, {Group{Std: Sample, Eps: 1e-6}, row.Bessel}, {Group{Std: Sample, Eps: 1e-4}, row.TRL}} {
			got, _ := c.group.advantages(row.Rewards)
			for i := range got {
				if !(math.Abs(got[i]-c.want[i]) <= 1e-9) {
					t.Errorf("%v, %+v: %v, expected %v", row.Rewards, c.group, got, c.want)
					break
				}
			}
		}
	}
}

// TestGoldenCases compares one update with the reference's in every case: advantages, the terms of every token, loss, clip
// counts, gradients of every tensor.
func TestGoldenCases(t *testing.T) {
	for _, model := range goldenModels {
		r := openReference(t, model)
		gradients := r.open("grads.safetensors")
		if len(r.info.Cases) < 11 {
			t.Fatalf("%d cases", len(r.info.Cases))
		}
		for name, want := range r.info.Cases {
			t.Run(model+"/"+name, func(t *testing.T) {
				r.tb = t
				task := r.task(name)
				first := name == "on_policy_bessel_k3_t1"
				if first {
					for i := range task.pending.Answers {
						task.pending.Answers[i].Old = nil
					}
				}
				r.compareTokens(task, name, first)

				if first {
					for i := range task.pending.Answers {
						task.pending.Answers[i].Old = nil
					}
					task.config.Rollout.MaxGap = math.Inf(1) // these rollouts are another policy's
				}
				sums, err := task.on.Params.Zeros()
				check(t, err)
				defer sums.Free()
				out, err := task.update(context.Background(), first, sums)
				check(t, err)
				if d := math.Abs(out.Loss - want.Scalars["loss"]); !(d <= want.AtolLoss) {
					t.Errorf("loss %v, expected %v", out.Loss, want.Scalars["loss"])
				}
				record := run.Record{Values: out.Values}
				n := want.Scalars["completion_tokens"]
				for name, x := range map[string]float64{"policy_loss": want.Scalars["policy_term"], "kl": want.Scalars["kl"], "entropy": want.Scalars["entropy"],
					"clip_low": want.Scalars["clipped_low"] / n, "clip_high": want.Scalars["clipped_high"] / n, "trained_tokens": n} {
					if got := traintest.Value(t, record, name); !(math.Abs(got-x) <= 2e-5*math.Max(1, math.Abs(x))) {
						t.Errorf("%s %v, expected %v", name, got, x)
					}
				}
				if got, x := traintest.Value(t, record, "ratio_max"), want.Scalars["ratio_max"]; !(math.Abs(got/x-1) <= 1e-4) {
					t.Errorf("largest ratio %v, expected %v", got, x)
				}
				norm, err := task.on.Params.Norm(sums)
				check(t, err)
				if !(math.Abs(norm/want.Scalars["grad_norm"]-1) <= 1e-4) {
					t.Errorf("gradient norm %v, expected %v", norm, want.Scalars["grad_norm"])
				}
				got, err := task.on.Params.AsAdapter(sums)
				check(t, err)
				traintest.CompareAdapter(t, "gradient", got, gradients, name+"/", want.Grads, 0)
			})
		}
	}
}

// compareTokens checks what the objective makes of every token.
func (r *reference) compareTokens(task *task, name string, first bool) {
	r.tb.Helper()
	prefix := "case/" + name + "/"
	advantages := r.floats(prefix + "advantages")
	for i, a := range task.pending.Answers {
		if !(math.Abs(a.Advantage-float64(advantages[i])) <= 1e-5) {
			r.tb.Errorf("advantage of answer %d: %v, expected %v", i, a.Advantage, advantages[i])
		}
	}
	which, samples, lengths, counts := task.live()
	plan, err := task.layout.Plan(lengths)
	check(r.tb, err)
	weights := task.config.Objective.weights(counts, 0)
	next := make([]int, len(counts))
	want := map[string][][]float32{}
	for _, part := range []string{"logp", "entropy", "ratio", "token_pg", "token_kl", "token_loss"} {
		want[part] = r.perToken(prefix + part)
	}
	compared := 0
	for _, micro := range plan {
		b := micro.Batch(samples)
		owners := make([]int, len(b.Owner))
		for i, s := range b.Owner {
			owners[i] = which[s]
		}
		sums, err := task.on.Params.Zeros()
		check(r.tb, err)
		tokens, err := task.rectangle(b, owners, weights, first, sums)
		sums.Free()
		check(r.tb, err)
		for i, k := range tokens {
			x, at := task.config.Objective.terms(k), next[owners[i]]
			next[owners[i]]++
			for part, got := range map[string]float64{"logp": k.logp, "entropy": k.entropy, "ratio": x.ratio, "token_pg": x.policy, "token_kl": x.kl, "token_loss": x.loss} {
				compared++
				if d := math.Abs(got - float64(want[part][owners[i]][at])); !(d <= r.info.Tensors[prefix+part].Atol) {
					r.tb.Errorf("%s of token %d of answer %d: %v, expected %v ± %v", part, at, owners[i], got, want[part][owners[i]][at], r.info.Tensors[prefix+part].Atol)
				}
			}
		}
	}
	if compared != 6*69 {
		r.tb.Errorf("%d numbers compared, expected 6 of each of 69 tokens", compared)
	}
}

// TestGoldenLogProbs compares the log-probabilities of the sampling policy and of the reference, at both temperatures.
func TestGoldenLogProbs(t *testing.T) {
	for _, model := range goldenModels {
		r := openReference(t, model)
		old, err := adapter.Load(filepath.Join(r.dir, "old_adapter"), &r.base.Model.Config)
		check(t, err)
		for name, temperature := range map[string]float64{"bessel_k3_t1": 1, "bessel_k3_t0.7": 0.7} {
			task := r.task(name)
			params, err := task.on.Model.Bind(old)
			check(t, err)
			for what, p := range map[string]*decoder.Params{"old": params, "ref": nil} {
				for i := range task.pending.Answers {
					task.pending.Answers[i].Ref = nil
				}
				task.reference = p
				check(t, task.judgeByReference(context.Background()))
				key := fmt.Sprintf("%s_logp_t%g", what, temperature)
				for i, want := range r.perToken(key) {
					for j := range want {
						if d := math.Abs(float64(task.pending.Answers[i].Ref[j] - want[j])); !(d <= r.info.Tensors[key].Atol) {
							t.Errorf("%s: %s, answer %d token %d: %v, expected %v", model, key, i, j, task.pending.Answers[i].Ref[j], want[j])
						}
					}
				}
			}
			params.Free()
		}
	}
}

// goldenTrace is a task whose rollouts are those of the reference run.
type goldenTrace struct{ *task }

func (g *goldenTrace) Gradient(ctx context.Context, _ train.Step, sums *decoder.Vectors) (train.Outcome, error) {
	return g.update(ctx, false, sums)
}

func (g *goldenTrace) Evaluate(context.Context, int) ([]run.Value, error) { return nil, nil }

// TestGoldenTrace follows three updates on the same rollouts through the whole loop: losses, gradient norms and the adapter
// after each.
func TestGoldenTrace(t *testing.T) {
	for _, model := range goldenModels {
		r := openReference(t, model)
		f := r.open("trace.safetensors")
		for _, name := range []string{"bessel_k3_t1", "bessel_k2_t1", "bessel_exact_t1"} {
			t.Run(model+"/"+name, func(t *testing.T) {
				r.tb = t
				var info struct {
					Updates []struct {
						Loss, KL, Entropy float64
						GradNorm          float64 `json:"grad_norm"`
						Low               float64 `json:"clipped_low"`
						High              float64 `json:"clipped_high"`
						Tokens            float64 `json:"completion_tokens"`
					}
					AdapterError traintest.Tolerance `json:"adapter_error"`
				}
				check(t, json.Unmarshal(r.info.Trace[name], &info))
				task := r.task(name)
				options := train.Default()
				options.Optimizer.LR, options.Optimizer.Decay = 1e-3, 0.01
				options.Schedule = train.Schedule{Kind: train.Constant, Steps: len(info.Updates)}
				options.Checkpoint.Metric = ""
				folder, err := run.Open(t.TempDir(), false)
				check(t, err)
				defer folder.Close()
				loop := train.Loop{Model: task.on.Model, Params: task.on.Params, Task: &goldenTrace{task}, Options: options, Batch: 2, Updates: len(info.Updates), Folder: folder,
					Progress: func(s train.Status) {
						got, err := task.on.Params.Adapter()
						check(t, err)
						tol := info.AdapterError
						tol.RelativeL2 *= 2
						traintest.CompareAdapter(t, fmt.Sprintf("adapter after update %d", s.Done), got, f, fmt.Sprintf("%s/update%d/", name, s.Done-1), tol, 5)
					}}
				_, err = loop.Run(context.Background())
				check(t, err)
				for i, got := range traintest.Records(t, folder.Dir, run.Train) {
					want := info.Updates[i]
					for name, x := range map[string]float64{"loss": want.Loss, "grad_norm": want.GradNorm, "kl": want.KL, "entropy": want.Entropy, "clip_low": want.Low / want.Tokens, "clip_high": want.High / want.Tokens} {
						if y := traintest.Value(t, got, name); !(math.Abs(y-x) <= 5e-5*math.Max(1, math.Abs(x))) {
							t.Errorf("update %d: %s %v, expected %v", i, name, y, x)
						}
					}
				}
			})
		}
	}
}
