package generate

import (
	"context"
	"errors"
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

// withAdapter merges a golden adapter into its model.
func withAdapter(t testing.TB, family, kind string) (base, merged *decoder.Model, params *decoder.Params) {
	t.Helper()
	dir := filepath.Join(goldenDir(t), family)
	base = loadModel(t, dir)
	a, err := adapter.Load(filepath.Join(dir, "peft", kind), &base.Config)
	if err != nil {
		t.Fatal(err)
	}
	if params, err = base.Bind(a); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(params.Free)
	if merged, err = base.Merged(params); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(merged.Close)
	return base, merged, params
}

// L4: rank-stabilised and weight-decomposed adapters generate with the scale that the forward pass has.
func TestAdapterKinds(t *testing.T) {
	for _, kind := range []string{"rslora", "dora"} {
		m, merged, p := withAdapter(t, "llama", kind)
		e := newEngine(t, m, Options{})
		if err := e.Use(kind, merged); err != nil {
			t.Fatal(err)
		}
		request := Request{Model: kind, Prompt: prompts(21)[0], MaxTokens: 20, StopIDs: none, Sampling: Sampling{Temperature: 1, Seed: 5}}
		sameAsFull(t, m, p, request, generate(t, e, request)[0], kind)
	}
}

// TestAdapters: models with adapters are used by name side by side, equal the forward pass with the adapter, and
// changing them compiles nothing.
func TestAdapters(t *testing.T) {
	m, merged, p := withAdapter(t, "qwen35-text", "lora")
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

// TestCacheBytes: rows wait while the cache would become too large, in their order, and all are served.
func TestCacheBytes(t *testing.T) {
	m := loadModel(t, filepath.Join(goldenDir(t), "llama"))
	d := newDevice(backendtest.Open(t).Engine, m)
	small, large := d.cacheBytes(1, 128), d.cacheBytes(4, 256)
	if want := int64(3 * 2 * 2 * 128 * 16 * 4); small != want { // layers, keys and values, heads, columns, width, bytes
		t.Fatalf("a row of 128 columns takes %d bytes, expected %d", small, want)
	}
	e := newEngine(t, m, Options{CacheBytes: large - 1, Chunk: 4})
	most := 0
	var requests []Request
	for _, p := range prompts(40, 150, 5, 6, 7) { // the second needs 256 columns: it cannot be beside another
		requests = append(requests, Request{Prompt: p, MaxTokens: 8, StopIDs: none, Emit: func(Piece) { most = max(most, e.Stats().Running) }})
	}
	for i, r := range generate(t, e, requests...) {
		if len(r.Tokens) != 8 {
			t.Errorf("row %d: %d tokens", i, len(r.Tokens))
		}
	}
	if most != 3 {
		t.Errorf("%d rows ran at once, expected the last three", most)
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
