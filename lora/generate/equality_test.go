package generate

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// nearTie is a margin between two logits that rounding could turn around.
const nearTie = 0.01

// TestGreedyGoldens: greedy completions of every family equal those of transformers, up to the first near-tie, in one
// batch; for one dense and one hybrid model alone and drawn by the host, too.
func TestGreedyGoldens(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(goldenDir(t), "*", "golden.safetensors"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no golden models: %v", err)
	}
	for _, path := range dirs {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			g, err := checkpoint.OpenSafetensors(path)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			e := newEngine(t, loadModel(t, dir), Options{})
			var requests []Request
			var want [][]int32
			var sure []int
			for i := range 3 {
				tokens := ints(t, g, fmt.Sprintf("greedy%d/tokens", i))
				margins, err := g.Float32(fmt.Sprintf("greedy%d/margin", i))
				if err != nil {
					t.Fatal(err)
				}
				n := slices.IndexFunc(margins, func(m float32) bool { return m < nearTie })
				if n < 0 {
					n = len(tokens)
				}
				want, sure = append(want, tokens), append(sure, n)
				requests = append(requests, Request{Prompt: ints(t, g, fmt.Sprintf("greedy%d/prompt", i)), MaxTokens: len(tokens), StopIDs: none})
			}
			check := func(what string, i int, r Result) {
				t.Helper()
				if got := r.IDs(); !slices.Equal(got[:sure[i]], want[i][:sure[i]]) || len(got) != len(want[i]) || r.Reason != Length {
					t.Errorf("%s, prompt %d: %v, expected %v (%d sure)", what, i, got, want[i], sure[i])
				}
			}
			for i, r := range generate(t, e, requests...) {
				check("batch", i, r)
			}
			if name := filepath.Base(dir); name != "llama" && name != "qwen35-text" {
				return // the rest is the same for all families
			}
			check("alone", 1, generate(t, e, requests[1])[0])
			for i := range requests {
				requests[i].Alternatives = 2
			}
			for i, r := range generate(t, e, requests...) {
				check("on the host", i, r)
				for j, token := range r.Tokens[:sure[i]] {
					if a := token.Alternatives; a[0].ID != token.ID || a[0].LogProb != token.LogProb || a[1].LogProb > a[0].LogProb {
						t.Fatalf("prompt %d token %d: %v is not the likeliest of %v", i, j, token, a)
					}
				}
			}
		})
	}
}

// someModels are golden models of every kind of layer and norm.
var someModels = []string{"qwen2", "qwen3", "qwen35-text"}

// prompts are deterministic prompts of the given lengths for a vocabulary of 320.
func prompts(lengths ...int) [][]int32 {
	out := make([][]int32, len(lengths))
	for i, n := range lengths {
		for j := range n {
			out[i] = append(out[i], int32(3+(i*97+j*31+j*j*7)%300))
		}
	}
	return out
}

// G19. TestCachedEqualsFull: the log-probabilities found while decoding are those of a full forward pass over prompt and
// completion, whatever the lengths of the prompts, with growing caches and rows that come and go.
func TestCachedEqualsFull(t *testing.T) {
	for _, name := range someModels {
		t.Run(name, func(t *testing.T) {
			m := loadModel(t, filepath.Join(goldenDir(t), name))
			e := newEngine(t, m, Options{MaxRows: 3, Chunk: 7})
			var requests []Request
			for i, p := range prompts(1, 70, 17, 100, 33) {
				// 100 + 60 tokens make a cache of 128 columns grow; different lengths make rows come and go.
				requests = append(requests, Request{Prompt: p, MaxTokens: []int{70, 25, 60, 60, 45}[i], StopIDs: none, Sampling: Sampling{Temperature: 0.7, Seed: uint64(i)}})
			}
			results := generate(t, e, requests...)
			for i, r := range results {
				if len(r.Tokens) != requests[i].MaxTokens {
					t.Fatalf("request %d: %d tokens of %d", i, len(r.Tokens), requests[i].MaxTokens)
				}
				sameAsFull(t, m, nil, requests[i], r, fmt.Sprintf("request %d", i))
			}
		})
	}
}

// TestBFloat16: bfloat16 matrices decode, alone and fused for several rows, as the forward pass with them computes, up
// to their rounding.
func TestBFloat16(t *testing.T) {
	base, err := checkpoint.Open(filepath.Join(goldenDir(t), "qwen2"))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	m, err := decoder.Load(backendtest.Open(t), base.Config, base, decoder.Options{Precision: decoder.BFloat16})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	e := newEngine(t, m, Options{})
	defer e.Close()
	requests := []Request{}
	for i, p := range prompts(9, 12, 5) {
		requests = append(requests, Request{Prompt: p, MaxTokens: 8, StopIDs: none, Sampling: Sampling{Temperature: 1, Seed: uint64(i)}})
	}
	for i, r := range generate(t, e, requests...) {
		within(t, 0.1, m, nil, requests[i], r, fmt.Sprintf("row %d", i))
	}
	within(t, 0.1, m, nil, requests[0], generate(t, e, requests[0])[0], "alone")
}

// sameAsFull compares a result's log-probabilities with those of a forward pass.
func sameAsFull(t testing.TB, m *decoder.Model, p *decoder.Params, request Request, r Result, what string) {
	t.Helper()
	within(t, 1e-4, m, p, request, r, what)
}

func within(t testing.TB, limit float64, m *decoder.Model, p *decoder.Params, request Request, r Result, what string) {
	t.Helper()
	b := decoder.PadRight([][]int32{append(slices.Clone(request.Prompt), r.IDs()...)})
	pass, err := m.Forward(b, p, decoder.Train{})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Free()
	labels := decoder.Labels{Temperature: request.Sampling.Temperature}
	for j, id := range r.IDs() {
		labels.At, labels.Token = append(labels.At, int32(len(request.Prompt)-1+j)), append(labels.Token, id)
	}
	scores, err := pass.Score(labels)
	if err != nil {
		t.Fatal(err)
	}
	for j, token := range r.Tokens {
		if d := math.Abs(float64(token.LogProb - scores.LogProb[j])); !(d < limit) {
			t.Fatalf("%s: token %d has log-probability %v, the forward pass %v", what, j, token.LogProb, scores.LogProb[j])
		}
	}
}

// G19. TestComposition: a row with its seed gives the same tokens alone, among others in any order, and when it has to wait.
func TestComposition(t *testing.T) {
	for _, name := range []string{"llama", "qwen35-text"} {
		t.Run(name, func(t *testing.T) {
			m := loadModel(t, filepath.Join(goldenDir(t), name))
			var requests []Request
			for i, p := range prompts(9, 30, 1, 70, 12, 12) {
				requests = append(requests, Request{Prompt: p, MaxTokens: 10 + 6*i, StopIDs: none, Sampling: Sampling{Temperature: 1, Seed: uint64(100 + i)}})
			}
			e := newEngine(t, m, Options{MaxRows: 8})
			var alone []Result
			for _, r := range requests {
				alone = append(alone, generate(t, e, r)...)
			}
			same := func(what string, order []int, got []Result) {
				t.Helper()
				for i, r := range got {
					want := alone[order[i]]
					if !slices.Equal(r.IDs(), want.IDs()) {
						t.Errorf("%s: request %d gives %v, alone %v", what, order[i], r.IDs(), want.IDs())
					}
				}
			}
			pick := func(order []int) (out []Request) {
				for _, i := range order {
					out = append(out, requests[i])
				}
				return out
			}
			forward, backward := []int{0, 1, 2, 3, 4, 5}, []int{5, 4, 3, 2, 1, 0}
			same("together", forward, generate(t, e, pick(forward)...))
			same("in reverse", backward, generate(t, e, pick(backward)...))
			same("two at a time", forward, generate(t, newEngine(t, m, Options{MaxRows: 2, Chunk: 5}), pick(forward)...))

			// One joins while others run.
			late := make(chan []Result)
			started := make(chan bool, 1)
			first := pick([]int{5})
			first[0].Emit = func(Piece) {
				select {
				case started <- true:
				default:
				}
			}
			go func() {
				<-started
				out, err := e.Generate(t.Context(), pick([]int{0}))
				if err != nil {
					t.Error(err)
				}
				late <- out
			}()
			same("running", []int{5}, generate(t, e, first...))
			same("joining", []int{0}, <-late)

			again := generate(t, e, pick(forward)...)
			for i, r := range generate(t, e, pick(forward)...) {
				if !slices.Equal(r.LogProbs(), again[i].LogProbs()) {
					t.Errorf("request %d: the same call gave other log-probabilities", i)
				}
			}
		})
	}
}

// TestSeeds: other seeds give other tokens, and every token of a small vocabulary comes as often as it should.
func TestSeeds(t *testing.T) {
	m := loadModel(t, filepath.Join(goldenDir(t), "llama"))
	e := newEngine(t, m, Options{MaxRows: 16})
	prompt := prompts(7)[0]
	pass, err := m.Forward(decoder.PadRight([][]int32{prompt}), nil, decoder.Train{})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Free()
	logits, err := pass.Logits([]int32{int32(len(prompt) - 1)})
	if err != nil {
		t.Fatal(err)
	}
	const n = 512
	for _, onHost := range []bool{false, true} {
		requests := make([]Request, n)
		for i := range requests {
			requests[i] = Request{Prompt: prompt, MaxTokens: 1, StopIDs: none, Sampling: Sampling{Temperature: 2, Seed: uint64(i)}}
			if onHost {
				requests[i].Alternatives = 1
			}
		}
		counts := make([]float64, len(logits))
		for _, r := range generate(t, e, requests...) {
			counts[r.Tokens[0].ID]++
		}
		// Pearson's statistic over the tokens with enough expected draws, the rest in one bin: its mean is the number
		// of bins less one, its variance about twice that.
		norm := logSumExp(logits, 0.5)
		var statistic, restWant, restGot, bins float64
		for id, z := range logits {
			if want := n * math.Exp(float64(z)/2-norm); want >= 5 {
				statistic += (counts[id] - want) * (counts[id] - want) / want
				bins++
			} else {
				restWant, restGot = restWant+want, restGot+counts[id]
			}
		}
		statistic += (restGot - restWant) * (restGot - restWant) / restWant
		if limit := bins + 5*math.Sqrt(2*bins); statistic > limit || bins < 3 {
			t.Errorf("on host %t: chi-square %.1f over %v bins, at most %.1f expected", onHost, statistic, bins+1, limit)
		}
	}
}

// TestSharedPrompt: samples of one prompt compute it once and equal samples made one by one.
func TestSharedPrompt(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen35-text"} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, loadModel(t, filepath.Join(goldenDir(t), name)), Options{MaxRows: 8})
			p := prompts(40, 23)
			var requests []Request
			for i := range 8 {
				requests = append(requests, Request{Prompt: p[i/4], MaxTokens: 24, StopIDs: none, Sampling: Sampling{Temperature: 1, Seed: uint64(i)}})
			}
			before := e.Stats()
			shared := generate(t, e, requests...)
			after := e.Stats()
			if got, want := after.PromptTokens-before.PromptTokens, 39+22; got != want {
				t.Errorf("%d prompt tokens were computed, expected %d", got, want)
			}
			if got := after.Tokens - before.Tokens; got != 8*24 || after.Running != 0 || after.Waiting != 0 {
				t.Errorf("%d tokens were drawn, expected %d; %+v", got, 8*24, after)
			}
			for i, r := range requests {
				if alone := generate(t, e, r)[0]; !slices.Equal(alone.IDs(), shared[i].IDs()) {
					t.Errorf("sample %d: %v, alone %v", i, shared[i].IDs(), alone.IDs())
				}
			}
			if slices.Equal(shared[0].IDs(), shared[1].IDs()) {
				t.Error("two seeds gave the same sample")
			}
		})
	}
}
