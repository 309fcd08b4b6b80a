package decoder

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
)

// tolerance is what a golden says of a group of tensors.
type tolerance struct {
	Atol       float64
	RelativeL2 float64 `json:"relative_l2_tolerance"`
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// compareAdapter checks every tensor of an adapter, or of its gradient, against KEYs of a file under a prefix.
func compareAdapter(t testing.TB, what string, got *adapter.Adapter, f *checkpoint.Safetensors, prefix string, tol tolerance, outliers int) {
	t.Helper()
	names := f.Names()
	find := func(m adapter.Module, part string) []float32 {
		for _, p := range []string{adapter.TextPrefix, adapter.MultimodalPrefix} {
			if key := prefix + p + m.Name() + part; slices.Contains(names, key) {
				return floats(t, f, key)
			}
		}
		t.Fatalf("%s: no golden %s%s", what, m.Name(), part)
		return nil
	}
	var diff, size float64
	worst, where := 0.0, ""
	beyond, tensors := 0, 0
	for i, m := range got.Modules {
		pairs := map[string][]float32{".lora_A.weight": got.A[i], ".lora_B.weight": got.B[i]}
		if got.Config.DoRA {
			pairs[".lora_magnitude_vector"] = got.Magnitude[i]
		}
		for part, x := range pairs {
			want := find(m, part)
			if len(x) != len(want) {
				t.Fatalf("%s %s%s: %d numbers, expected %d", what, m.Name(), part, len(x), len(want))
			}
			tensors++
			for j := range x {
				d := math.Abs(float64(x[j]) - float64(want[j]))
				diff += d * d
				size += float64(want[j]) * float64(want[j])
				if !(d <= tol.Atol) {
					beyond++
				}
				if !(d <= worst) {
					worst, where = d, m.Name()+part
				}
			}
		}
	}
	if tensors == 0 {
		t.Fatalf("%s: nothing compared", what)
	}
	if beyond > outliers {
		t.Errorf("%s: %d numbers off by more than %.2g, worst %.3g at %s", what, beyond, tol.Atol, worst, where)
	}
	if rel := math.Sqrt(diff / size); tol.RelativeL2 > 0 && !(rel <= tol.RelativeL2) {
		t.Errorf("%s: relative L2 error %.3g, allowed %.3g", what, rel, tol.RelativeL2)
	}
}

func bind(t testing.TB, m *Model, dir string) *Params {
	t.Helper()
	a, err := adapter.Load(dir, &m.Config)
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Bind(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Free)
	return p
}

func zeros(t testing.TB, p *Params) *Vectors {
	t.Helper()
	v, err := p.Zeros()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Free)
	return v
}

// meanNLL are the coefficients of the mean negative log-likelihood over n tokens.
func meanNLL(labels Labels, n int) Coefficients {
	c := make([]float32, len(labels.At))
	for i := range c {
		c[i] = -1 / float32(n)
	}
	return Coefficients{LogProb: c}
}

func backward(t testing.TB, ps *Pass, l Labels, c Coefficients, sums *Vectors) *Scores {
	t.Helper()
	s, err := ps.Backward(l, c, sums)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asAdapter(t testing.TB, p *Params, v *Vectors) *adapter.Adapter {
	t.Helper()
	a, err := p.AsAdapter(v)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// modes are the ways to compute gradients.
var modes = map[string]Options{"recompute": {}, "keep": {Keep: true}, "whole graph": {Whole: true}}

// TestAdapterGoldens checks logits, loss, merged logits and the gradient of every adapter tensor, in every mode.
func TestAdapterGoldens(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(goldenDir(t), "*", "peft", "*", "golden.json"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no adapter goldens: %v", err)
	}
	for _, path := range found {
		dir := filepath.Dir(path)
		base := filepath.Dir(filepath.Dir(dir))
		t.Run(filepath.Base(base)+"/"+filepath.Base(dir), func(t *testing.T) {
			g := openGolden(t, filepath.Join(dir, "golden"))
			var tol tolerance
			if err := json.Unmarshal(g.info.Grads, &tol); err != nil {
				t.Fatal(err)
			}
			grads, err := checkpoint.OpenSafetensors(filepath.Join(dir, "grads.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer grads.Close()
			for name, opts := range modes {
				t.Run(name, func(t *testing.T) {
					if name != "recompute" && !compilesFast(t) && !strings.HasPrefix(t.Name(), "TestAdapterGoldens/qwen35-text") {
						t.Skip("one family is enough where compiling is slow; the Go backend runs them all")
					}
					m := loadModel(t, base, opts)
					p := bind(t, m, dir)
					b, labels := goldenBatch(t, g.file)
					ps := forward(t, m, b, p, Train{Backward: true})
					sums := zeros(t, p)
					scores := backward(t, ps, labels, meanNLL(labels, len(labels.At)), sums)
					loss := g.info.Scalars["loss"]
					if d := math.Abs(mean(scores.LogProb) - loss.Value); !(d <= loss.Atol) {
						t.Errorf("loss %v, expected %v", mean(scores.LogProb), loss.Value)
					}
					compareAdapter(t, "gradient", asAdapter(t, p, sums), grads, "", tol, 0)
					if name == "recompute" {
						adapterLogits(t, m, p, ps, b, g)
					}
				})
			}
		})
	}
}

func adapterLogits(t *testing.T, m *Model, p *Params, ps *Pass, b Batch, g *golden) {
	at, V := allPositions(b), m.Config.VocabSize
	logits, err := ps.Logits(at)
	if err != nil {
		t.Fatal(err)
	}
	closeTo(t, "logits", logits, real(floats(t, g.file, "logits"), b, goldenLen, V), g.info.Tensors["logits"].Atol)
	merged, err := m.Merged(p)
	if err != nil {
		t.Fatal(err)
	}
	defer merged.Close()
	after, err := forward(t, merged, b, nil, Train{}).Logits(at)
	if err != nil {
		t.Fatal(err)
	}
	closeTo(t, "merged logits", after, real(floats(t, g.file, "merged_logits"), b, goldenLen, V), g.info.Tensors["merged_logits"].Atol)
}

// TestSFTTrace follows the golden run of ten AdamW steps with accumulation and clipping.
func TestSFTTrace(t *testing.T) {
	for _, name := range []string{"llama", "qwen35-text"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(goldenDir(t), "sft", name)
			var info struct {
				Steps []struct {
					Loss         float64
					GradNorm     float64 `json:"grad_norm"`
					LearningRate float64 `json:"learning_rate"`
					LabelTokens  int     `json:"label_tokens"`
				}
				Errors     map[string]json.RawMessage
				Tolerances map[string]any
			}
			readJSON(t, filepath.Join(dir, "trace.json"), &info)
			tol := func(key string) (x tolerance) {
				if err := json.Unmarshal(info.Errors[key], &x); err != nil {
					t.Fatal(err)
				}
				return x
			}
			f, err := checkpoint.OpenSafetensors(filepath.Join(dir, "trace.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			m := loadModel(t, filepath.Join(goldenDir(t), name), Options{})
			p := bind(t, m, filepath.Join(dir, "initial_adapter"))
			state, err := p.NewMoments()
			if err != nil {
				t.Fatal(err)
			}
			defer state.M.Free()
			defer state.V.Free()

			const accumulate, rows, length = 2, 2, 20
			ids, labels, mask := ints(t, f, "input_ids"), ints(t, f, "labels"), ints(t, f, "attention_mask")
			for s, step := range info.Steps {
				sums := zeros(t, p)
				var loss float64
				for a := range accumulate {
					from := (s*accumulate + a) * rows * length
					part := func(x []int32) []int32 { return x[from : from+rows*length] }
					b := PadRight(rowsOf(part(ids), part(mask), length))
					l := goldenLabels(b, part(labels), length)
					ps := forward(t, m, b, p, Train{Backward: true})
					scores := backward(t, ps, l, meanNLL(l, step.LabelTokens), sums)
					loss += mean(scores.LogProb) * float64(len(l.At)) / float64(step.LabelTokens)
					ps.Free()
				}
				if d := math.Abs(loss - step.Loss); !(d <= info.Tolerances["loss_atol"].(float64)) {
					t.Errorf("step %d: loss %v, expected %v", s, loss, step.Loss)
				}
				norm, err := p.Norm(sums)
				if err != nil {
					t.Fatal(err)
				}
				if d := math.Abs(norm/step.GradNorm - 1); !(d <= info.Tolerances["grad_norm_rtol"].(float64)) {
					t.Errorf("step %d: gradient norm %v, expected %v", s, norm, step.GradNorm)
				}
				if key := fmt.Sprintf("grad_step%d", s); info.Errors[key] != nil {
					compareAdapter(t, key, asAdapter(t, p, sums), f, fmt.Sprintf("grad/step%d/", s), tol(key), 0)
				}
				opt := AdamW{LR: step.LearningRate, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01}
				if err := p.Update(state, sums, opt, math.Min(1, 1/(norm+1e-6))); err != nil {
					t.Fatal(err)
				}
				sums.Free()
				if key := fmt.Sprintf("adapter_step%d", s); info.Errors[key] != nil {
					x := tol(key)
					// Adam turns noise in the smallest gradients into steps of full size: a few may be off.
					compareAdapter(t, key, asAdapter(t, p, &p.Vectors), f, fmt.Sprintf("adapter/step%d/", s), tolerance{x.Atol, 10 * x.RelativeL2}, 5)
				}
			}
		})
	}
}

// TestPackingGoldens is case F3: two documents in one row give the loss, logits and gradients of the two alone.
func TestPackingGoldens(t *testing.T) {
	for _, name := range []string{"llama", "qwen35-text"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(goldenDir(t), "sft", name)
			g := openGolden(t, filepath.Join(dir, "packing"))
			var tol tolerance
			if err := json.Unmarshal(g.info.Grads, &tol); err != nil {
				t.Fatal(err)
			}
			ids, segments := ints(t, g.file, "input_ids"), ints(t, g.file, "segment_ids")
			cut := slices.Index(segments, 1)
			b := Pack([][][]int32{{ids[:cut], ids[cut:]}})
			if got, want := b.Positions()[:len(ids)], ints(t, g.file, "position_ids"); !slices.Equal(got, want) {
				t.Fatalf("positions %v, expected %v", got, want)
			}
			labels := goldenLabels(b, ints(t, g.file, "labels"), len(ids))
			m := loadModel(t, filepath.Join(goldenDir(t), name), Options{})
			p := bind(t, m, filepath.Join(dir, "final_adapter"))
			ps := forward(t, m, b, p, Train{Backward: true})
			logits, err := ps.Logits(allPositions(b))
			if err != nil {
				t.Fatal(err)
			}
			closeTo(t, "logits", logits, floats(t, g.file, "logits"), g.info.Tensors["logits"].Atol)
			sums := zeros(t, p)
			scores := backward(t, ps, labels, meanNLL(labels, len(labels.At)), sums)
			if want := g.info.Scalars["label_tokens"].Value; float64(len(labels.At)) != want {
				t.Errorf("%d label tokens, expected %v", len(labels.At), want)
			}
			if d := math.Abs(mean(scores.LogProb) - g.info.Scalars["loss"].Value); !(d <= 3e-5) {
				t.Errorf("loss %v, expected %v", mean(scores.LogProb), g.info.Scalars["loss"].Value)
			}
			compareAdapter(t, "gradient", asAdapter(t, p, sums), g.file, "grad/", tol, 0)
		})
	}
}

// TestGRPOGradients checks the derivatives of log-probability, entropy and exact KL at two temperatures through the
// golden objective, whose coefficients follow from the golden ratios and advantages.
func TestGRPOGradients(t *testing.T) {
	const epsilon, beta, eta = 0.2, 0.04, 0.01
	const rows, length = 8, 23
	for _, name := range []string{"llama", "qwen35-text"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(goldenDir(t), "grpo", name)
			g := openGolden(t, filepath.Join(dir, "golden"))
			var info struct {
				Cases map[string]struct {
					Temperature float64
					Grads       tolerance
				}
			}
			readJSON(t, filepath.Join(dir, "golden.json"), &info)
			grads, err := checkpoint.OpenSafetensors(filepath.Join(dir, "grads.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer grads.Close()
			m := loadModel(t, filepath.Join(goldenDir(t), name), Options{})
			p := bind(t, m, filepath.Join(dir, "adapter"))
			b := PadRight(rowsOf(ints(t, g.file, "input_ids"), ints(t, g.file, "attention_mask"), length))
			completion := ints(t, g.file, "completion_mask")
			mask := make([]bool, len(b.Tokens))
			for i, c := range completion {
				mask[i/length*b.Len+i%length] = c == 1 // length is below b.Len
			}
			labels := b.NextTokens(mask)
			n := float32(len(labels.At))
			ps := forward(t, m, b, p, Train{Backward: true})
			reference := forward(t, m, b, nil, Train{})
			for _, c := range []string{"bessel_exact_t1", "bessel_exact_t0.7"} {
				perToken := func(key string) []float32 { // golden entry t belongs to token t+1
					x := floats(t, g.file, "case/"+c+"/"+key)
					out := make([]float32, len(labels.At))
					for i, at := range labels.At {
						out[i] = x[int(at)/b.Len*(length-1)+int(at)%b.Len]
					}
					return out
				}
				l := labels
				l.Temperature, l.Reference = info.Cases[c].Temperature, reference
				advantages, ratio := floats(t, g.file, "case/"+c+"/advantages"), perToken("ratio")
				var coef Coefficients
				for i, at := range l.At {
					a, r := advantages[int(at)/b.Len], ratio[i]
					pg := -r * a // of −min(ρA, clip(ρ)A), where the first is the smaller
					if a > 0 && r > 1+epsilon || a < 0 && r < 1-epsilon {
						pg = 0
					}
					coef.LogProb = append(coef.LogProb, pg/n)
					coef.Entropy = append(coef.Entropy, -eta/n)
					coef.KL = append(coef.KL, beta/n)
				}
				sums := zeros(t, p)
				s := backward(t, ps, l, coef, sums)
				for key, got := range map[string][]float32{"logp": s.LogProb, "entropy": s.Entropy, "token_kl": s.KL} {
					closeTo(t, c+" "+key, got, perToken(key), g.info.Tensors["case/"+c+"/"+key].Atol)
				}
				compareAdapter(t, c, asAdapter(t, p, sums), grads, c+"/", info.Cases[c].Grads, 0)
			}
		})
	}
}
