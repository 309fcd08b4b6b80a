package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/codec"
	"terraloom/lora/decoder"
	"terraloom/lora/generate"
	"terraloom/lora/serve/toolcall"
	"terraloom/lora/wheel"
)

func TestMain(m *testing.M) {
	if code, done := backend.Startup(); done {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

const testKey = "sesame"

// liveServer generates with random weights and a random adapter.
func liveServer(t *testing.T) *harness {
	t.Helper()
	tok := testTokenizer(t)
	c := checkpoint.Config{Family: checkpoint.Llama, Architecture: "LlamaForCausalLM", HiddenSize: 32, IntermediateSize: 64, NumLayers: 2,
		NumHeads: 2, NumKVHeads: 1, HeadDim: 16, VocabSize: 304, MaxPositions: 512, RMSNormEps: 1e-5, Tied: true, DType: checkpoint.F32, BOS: -1, Pad: -1,
		Rope:       checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: 1e4, Dim: 16},
		LayerTypes: []checkpoint.LayerType{checkpoint.FullAttention, checkpoint.FullAttention}}
	b := backendtest.Open(t)
	m, err := decoder.Load(b, c, decoder.RandomWeights{Config: c, Seed: 4, Std: 0.3}, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	a, err := adapter.New(&c, adapter.Config{R: 2, Alpha: 4, Targets: []string{adapter.AllLinear}}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.B {
		for j := range a.B[i] {
			a.B[i][j] = float32((i+j)%5) - 2
		}
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
	t.Cleanup(merged.Close)
	e, err := generate.New(b, m, generate.Options{Tokenizer: tok, Chunk: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Use("planner", merged); err != nil {
		t.Fatal(err)
	}
	text, err := codec.New(tok, chatML, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Model{Engine: e, Tokenizer: tok, Codec: text, Calls: toolcall.JSON, Adapters: []string{"planner"}, Positions: c.MaxPositions},
		Options{Key: testKey, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{T: t, server: s, http: httptest.NewServer(s)}
	t.Cleanup(h.http.Close)
	return h
}

// TestLive: answers of a real engine to many clients at once equal those to one client alone.
func TestLive(t *testing.T) {
	h := liveServer(t)
	ask := func(seed int) (string, map[string]any) {
		body, err := json.Marshal(map[string]any{"model": []string{"base", "planner"}[seed%2], "seed": seed, "max_tokens": 20 + seed,
			"messages": []any{map[string]any{"role": "user", "content": strings.Repeat("the lake ", 1+seed%3)}}})
		if err != nil {
			t.Error(err)
		}
		status, v := h.post("/v1/chat/completions", string(body), "Authorization", "Bearer "+testKey)
		if status != 200 {
			t.Errorf("%d %v", status, v)
			return "", nil
		}
		return at(v, "choices", 0, "message", "content").(string), v
	}
	const n = 8
	var together [n]string
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() { together[i], _ = ask(i) })
	}
	clients.Wait()
	for i := range n {
		alone, v := ask(i)
		if alone != together[i] || alone == "" {
			t.Errorf("request %d: %q, together with others %q", i, alone, together[i])
		}
		if got := at(v, "usage", "completion_tokens").(float64); got > float64(20+i) {
			t.Errorf("request %d: %v tokens", i, got)
		}
	}
	if status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,"max_tokens":600}`, "Authorization", "Bearer "+testKey); status != 400 || at(v, "error", "code") != "context_length_exceeded" {
		t.Errorf("%d %v", status, v)
	}
}

// TestContinuousBatching: a short request that comes late joins the batch of a long one and is answered while that runs on.
func TestContinuousBatching(t *testing.T) {
	h := liveServer(t)
	long := func(seed int) string {
		return fmt.Sprintf(`{"model":"base",%s,"seed":%d,"temperature":1,"max_tokens":400,"stream":true}`, hello, seed)
	}
	begin := func(body string) *bufio.Scanner {
		r, err := http.NewRequestWithContext(t.Context(), "POST", h.http.URL+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+testKey)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return bufio.NewScanner(resp.Body)
	}
	count := func(events *bufio.Scanner) (n int) {
		for events.Scan() {
			if strings.HasPrefix(events.Text(), "data: {") {
				n++
			}
		}
		return n
	}
	seed := 0 // of an answer that does not end early
	for count(begin(long(seed))) < 60 {
		if seed++; seed == 20 {
			t.Fatal("no seed gives a long answer")
		}
	}
	events := begin(long(seed))
	for range 8 { // it runs
		if !events.Scan() {
			t.Fatal("the long answer ended at once")
		}
	}
	var ended atomic.Bool
	rest := make(chan int)
	go func() {
		n := count(events)
		ended.Store(true)
		rest <- n
	}()
	status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,"max_tokens":5}`, "Authorization", "Bearer "+testKey)
	if early := ended.Load(); status != 200 || early {
		t.Errorf("%d %v; the long request had ended: %t", status, v, early)
	}
	if n := <-rest; n < 20 {
		t.Errorf("the long request went on for %d events after the short one came", n)
	}
}

// TestOpenAIClient drives the server with a client that was written elsewhere: OpenAI's Python package.
func TestOpenAIClient(t *testing.T) {
	python, err := wheel.Python()
	if err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command(python, "-c", "import openai").CombinedOutput(); err != nil {
		t.Skipf("no openai package for %s (pip install openai; TERRALOOM_PYTHON names another Python): %v %s", python, err, out)
	}
	live := liveServer(t)
	scripted := newHarness(t, "I call.\n\n<tool_call>\n{\"name\": \"ndvi\", \"arguments\": {\"red\": \"b4.tif\"}}\n</tool_call>", Options{Key: testKey})
	out, err := exec.CommandContext(t.Context(), python, "testdata/openai_client.py", live.http.URL, scripted.http.URL, testKey).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("%v\n%s", err, out)
	}
}
