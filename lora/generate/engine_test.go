package generate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

func TestMain(m *testing.M) {
	if code, done := backend.Startup(); done {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// goldenDir is model-golden of the shared folder: $TERRALOOM_SHARED, or ../shared beside the repository.
func goldenDir(t testing.TB) string {
	t.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		_, file, _, _ := runtime.Caller(0)
		root = filepath.Join(filepath.Dir(file), "..", "..", "..", "shared")
	}
	dir := filepath.Join(root, "model-golden")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no golden files at %s: set TERRALOOM_SHARED", dir)
	}
	return dir
}

func loadModel(t testing.TB, dir string) *decoder.Model {
	t.Helper()
	base, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	m, err := decoder.Load(backendtest.Open(t), base.Config, base, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func newEngine(t testing.TB, m *decoder.Model, opts Options) *Engine {
	t.Helper()
	e, err := New(backendtest.Open(t), m, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func generate(t testing.TB, e *Engine, requests ...Request) []Result {
	t.Helper()
	out, err := e.Generate(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func ints(t testing.TB, f *checkpoint.Safetensors, name string) []int32 {
	t.Helper()
	x, err := f.Float32(name)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

// none ends no row.
var none = []int32{}

// nearTie is a margin between two logits that rounding could turn around.
const nearTie = 0.01

// TestGreedyGoldens: greedy completions of every family equal those of transformers, up to the first near-tie, on the
// device's loop and drawn by the host, alone and in one batch.
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
			for i := range requests {
				check("alone", i, generate(t, e, requests[i])[0])
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
var someModels = []string{"llama-rope3", "qwen2", "qwen3", "qwen35-text"}

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

// TestCachedEqualsFull: the log-probabilities found while decoding are those of a full forward pass over prompt and
// completion, whatever the lengths of the prompts, with growing caches and rows that come and go.
func TestCachedEqualsFull(t *testing.T) {
	for _, name := range someModels {
		t.Run(name, func(t *testing.T) {
			m := loadModel(t, filepath.Join(goldenDir(t), name))
			e := newEngine(t, m, Options{MaxRows: 3, Chunk: 7})
			var requests []Request
			for i, p := range prompts(1, 5, 17, 64, 100, 2, 33) {
				// 100 + 60 tokens make a cache of 128 columns grow; different lengths make rows come and go.
				requests = append(requests, Request{Prompt: p, MaxTokens: 60 - 7*i, StopIDs: none, Sampling: Sampling{Temperature: 0.7, Seed: uint64(i)}})
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

// sameAsFull compares a result's log-probabilities with those of a forward pass.
func sameAsFull(t testing.TB, m *decoder.Model, p *decoder.Params, request Request, r Result, what string) {
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
		if d := math.Abs(float64(token.LogProb - scores.LogProb[j])); !(d < 1e-4) {
			t.Fatalf("%s: token %d has log-probability %v, the forward pass %v", what, j, token.LogProb, scores.LogProb[j])
		}
	}
}

// TestComposition: a row with its seed gives the same tokens alone, among others in any order, and when it has to wait.
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

// TestAdapters: models with adapters are used by name side by side, equal the forward pass with the adapter, and
// changing them compiles nothing.
func TestAdapters(t *testing.T) {
	dir := filepath.Join(goldenDir(t), "qwen35-text")
	m := loadModel(t, dir)
	a, err := adapter.Load(filepath.Join(dir, "peft", "lora"), &m.Config)
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Bind(a)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	merged, err := m.Merged(p)
	if err != nil {
		t.Fatal(err)
	}
	defer merged.Close()
	e := newEngine(t, m, Options{})
	if err := e.Use("planner", merged); err != nil {
		t.Fatal(err)
	}
	prompt := prompts(21)[0]
	request := Request{Prompt: prompt, MaxTokens: 20, StopIDs: none, Sampling: Sampling{Temperature: 1, Seed: 5}}
	planned := request
	planned.Model = "planner"
	both := generate(t, e, request, planned)
	sameAsFull(t, m, nil, request, both[0], "base")
	sameAsFull(t, m, p, planned, both[1], "adapter")
	if slices.Equal(both[0].IDs(), both[1].IDs()) {
		t.Error("the adapter changed nothing")
	}
	if both[0].Version != 0 || both[1].Version != 1 {
		t.Errorf("versions %d and %d", both[0].Version, both[1].Version)
	}

	compiled := e.Stats().Compiled
	if err := e.Use("planner", m); err != nil {
		t.Fatal(err)
	}
	again := generate(t, e, planned)[0]
	if !slices.Equal(again.IDs(), both[0].IDs()) || again.Version != 2 {
		t.Errorf("with the base's weights the name gives %v (version %d), the base %v", again.IDs(), again.Version, both[0].IDs())
	}
	if now := e.Stats().Compiled; now != compiled {
		t.Errorf("%d programs were compiled, %d before the change", now, compiled)
	}

	if err := e.Use("planner", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Generate(t.Context(), []Request{planned}); !errors.Is(err, ErrUnknown) {
		t.Errorf("removed model: %v", err)
	}
}

func TestUseInUse(t *testing.T) {
	m := loadModel(t, filepath.Join(goldenDir(t), "llama"))
	e := newEngine(t, m, Options{Chunk: 1})
	if err := e.Use("x", m); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var inUse error
	request := Request{Model: "x", Prompt: prompts(3)[0], MaxTokens: 50, StopIDs: none}
	request.Emit = func(Piece) {
		inUse = e.Use("x", nil)
		cancel()
	}
	if _, err := e.Generate(ctx, []Request{request}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
	if !errors.Is(inUse, ErrInUse) {
		t.Errorf("replacing weights that run: %v", inUse)
	}
	if err := e.Use("x", nil); err != nil {
		t.Errorf("after the call: %v", err)
	}
}

// TestCancel: a cancelled row stops at the end of its chunk and leaves the others alone.
func TestCancel(t *testing.T) {
	m := loadModel(t, filepath.Join(goldenDir(t), "qwen2"))
	e := newEngine(t, m, Options{Chunk: 4})
	p := prompts(5, 9)
	other := Request{Prompt: p[1], MaxTokens: 200, StopIDs: none}
	want := generate(t, e, other)[0]

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan Result)
	go func() {
		out, err := e.Generate(t.Context(), []Request{other})
		if err != nil {
			t.Error(err)
			out = make([]Result, 1)
		}
		got <- out[0]
	}()
	tokens := 0
	request := Request{Prompt: p[0], MaxTokens: 400, StopIDs: none, Emit: func(p Piece) {
		if tokens += len(p.Tokens); tokens >= 8 {
			cancel()
		}
	}}
	if _, err := e.Generate(ctx, []Request{request}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if tokens > 12 {
		t.Errorf("%d tokens were made after the call was cancelled at 8", tokens)
	}
	if r := <-got; !slices.Equal(r.IDs(), want.IDs()) {
		t.Errorf("the other row became %v, expected %v", r.IDs(), want.IDs())
	}

	expired, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := e.Generate(expired, []Request{other}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expired: %v", err)
	}
}

func TestClose(t *testing.T) {
	m := loadModel(t, filepath.Join(goldenDir(t), "llama"))
	e := newEngine(t, m, Options{Chunk: 1})
	running := make(chan bool, 1)
	done := make(chan error)
	go func() {
		request := Request{Prompt: prompts(3)[0], MaxTokens: 500, StopIDs: none, Emit: func(Piece) {
			select {
			case running <- true:
			default:
			}
		}}
		_, err := e.Generate(context.Background(), []Request{request})
		done <- err
	}()
	<-running
	e.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("running call: %v", err)
	}
	if _, err := e.Generate(t.Context(), []Request{{Prompt: []int32{1}}}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	e.Close()
}

// TestStopIDs: a row ends on its first stop id, which is part of the result; other rows go on.
func TestStopIDs(t *testing.T) {
	m := loadModel(t, filepath.Join(goldenDir(t), "llama"))
	e := newEngine(t, m, Options{Chunk: 8})
	p := prompts(5, 9)
	long := generate(t, e, Request{Prompt: p[0], MaxTokens: 40, StopIDs: none}, Request{Prompt: p[1], MaxTokens: 40, StopIDs: none})
	ids := long[0].IDs()
	stop := ids[13]
	n := slices.Index(ids, stop) + 1
	many := []int32{}
	for id := range int32(320) { // more than the device can look for
		if !slices.Contains(ids[:n], id) {
			many = append(many, id)
		}
	}
	for _, stops := range [][]int32{{stop}, {319, stop}, append(many, stop)} {
		got := generate(t, e, Request{Prompt: p[0], MaxTokens: 40, StopIDs: stops}, Request{Prompt: p[1], MaxTokens: 40, StopIDs: none})
		if !slices.Equal(got[0].IDs(), ids[:n]) || got[0].Reason != Stop {
			t.Errorf("%v (%s), expected %v", got[0].IDs(), got[0].Reason, ids[:n])
		}
		if !slices.Equal(got[1].IDs(), long[1].IDs()) || got[1].Reason != Length {
			t.Errorf("the other row: %v (%s), expected %v", got[1].IDs(), got[1].Reason, long[1].IDs())
		}
	}
	if own := generate(t, e, Request{Prompt: p[0], MaxTokens: 1, StopIDs: ids[:1]})[0]; own.Reason != Stop {
		t.Errorf("a stop id as the last token allowed: %s", own.Reason)
	}
	if got := newEngine(t, m, Options{}).opts.StopIDs; !slices.Equal(got, []int32{2}) {
		t.Errorf("the model's own stop ids are %v, expected 2", got)
	}
}

func TestRefusedRequests(t *testing.T) {
	m := loadModel(t, filepath.Join(goldenDir(t), "llama"))
	e := newEngine(t, m, Options{})
	prompt := []int32{1, 2, 3}
	for name, c := range map[string]struct {
		request Request
		want    error
	}{
		"empty prompt":    {Request{}, ErrRequest},
		"foreign id":      {Request{Prompt: []int32{320}}, ErrRequest},
		"negative id":     {Request{Prompt: []int32{-1}}, ErrRequest},
		"negative tokens": {Request{Prompt: prompt, MaxTokens: -1}, ErrRequest},
		"long prompt":     {Request{Prompt: make([]int32, m.Config.MaxPositions)}, ErrTooLong},
		"long completion": {Request{Prompt: prompt, MaxTokens: m.Config.MaxPositions - 2}, ErrTooLong},
		"temperature":     {Request{Prompt: prompt, Sampling: Sampling{Temperature: -1}}, ErrRequest},
		"NaN temperature": {Request{Prompt: prompt, Sampling: Sampling{Temperature: math.NaN()}}, ErrRequest},
		"top-p":           {Request{Prompt: prompt, Sampling: Sampling{TopP: 1.5}}, ErrRequest},
		"top-k":           {Request{Prompt: prompt, Sampling: Sampling{TopK: -1}}, ErrRequest},
		"min-p":           {Request{Prompt: prompt, Sampling: Sampling{MinP: -0.1}}, ErrRequest},
		"penalty":         {Request{Prompt: prompt, Sampling: Sampling{RepetitionPenalty: -1}}, ErrRequest},
		"alternatives":    {Request{Prompt: prompt, Alternatives: 21}, ErrRequest},
		"stop, no text":   {Request{Prompt: prompt, Stop: []string{"x"}}, ErrRequest},
		"schema, no text": {Request{Prompt: prompt, Schema: []byte(`{}`)}, ErrRequest},
		"unknown model":   {Request{Prompt: prompt, Model: "nobody"}, ErrUnknown},
	} {
		if _, err := e.Generate(t.Context(), []Request{c.request}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
	}
	other := loadModel(t, filepath.Join(goldenDir(t), "qwen2"))
	if err := e.Use("other", other); !errors.Is(err, ErrRequest) {
		t.Errorf("a model of other shapes: %v", err)
	}
}
