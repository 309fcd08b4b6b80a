package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"terraloom/lora/codec"
	"terraloom/lora/generate"
	"terraloom/lora/serve/toolcall"
)

func get(t *testing.T, url string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func TestKey(t *testing.T) {
	h := newHarness(t, "x", Options{Key: "sesame-42"})
	body := `{"model":"base",` + hello + `}`
	for _, c := range []struct {
		header string
		status int
	}{{"", 401}, {"Bearer", 401}, {"Bearer wrong", 401}, {"sesame-42", 401}, {"Bearer sesame-42", 200}} {
		status, _ := h.post("/v1/chat/completions", body, "Authorization", c.header)
		if status != c.status {
			t.Errorf("%q: %d, expected %d", c.header, status, c.status)
		}
		if status, _ := get(t, h.http.URL+"/v1/models", "Authorization", c.header); status != c.status {
			t.Errorf("models, %q: %d", c.header, status)
		}
	}
	for _, path := range []string{"/healthz", "/metrics"} {
		if status, _ := get(t, h.http.URL+path); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if strings.Contains(h.log.String(), "sesame") || strings.Contains(h.log.String(), "wrong") {
		t.Errorf("a key is in the log: %s", h.log)
	}
}

func TestModelsAndMetrics(t *testing.T) {
	h := newHarness(t, "two words", Options{})
	status, body := get(t, h.http.URL+"/v1/models")
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil || status != 200 {
		t.Fatal(status, body, err)
	}
	if at(v, "data", 0, "id") != "base" || at(v, "data", 1, "id") != "planner" || at(v, "data", 1, "parent") != "base" || at(v, "data", 2) != nil {
		t.Errorf("%s", body)
	}
	if status, body := get(t, h.http.URL+"/v1/models/planner"); status != 200 || !strings.Contains(body, `"planner"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := get(t, h.http.URL+"/v1/models/nobody"); status != 404 {
		t.Errorf("%d", status)
	}
	if status, body := get(t, h.http.URL+"/v1/engines"); status != 404 || !strings.Contains(body, "/v1/engines") {
		t.Errorf("%d %s", status, body)
	}
	h.post("/v1/chat/completions", `{"model":"base",`+hello+`}`)
	h.post("/v1/chat/completions", `{"model":"x",`+hello+`}`)
	_, body = get(t, h.http.URL+"/metrics")
	for _, want := range []string{
		`terraloom_requests_total{route="POST /v1/chat/completions",status="200"} 1`,
		`terraloom_requests_total{route="POST /v1/chat/completions",status="404"} 1`,
		fmt.Sprintf(`terraloom_tokens_total{kind="completion"} %d`, len(h.engine.tok.EncodeOrdinary("two words"))),
		"terraloom_first_token_seconds_count 1", "terraloom_rows_waiting 3", "terraloom_drawn_tokens_total 40", "go_goroutines",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("Prometheus cannot read the metrics: %v", err)
	}
	for name, f := range families {
		if f.GetHelp() == "" || strings.HasSuffix(name, "_total") != (f.GetType() == dto.MetricType_COUNTER) && strings.HasPrefix(name, "terraloom_") {
			t.Errorf("%s: type %s, help %q", name, f.GetType(), f.GetHelp())
		}
	}
	for _, m := range families["terraloom_request_seconds"].GetMetric() {
		h := m.GetHistogram()
		if b := h.GetBucket(); h.GetSampleCount() == 0 || len(b) == 0 || b[len(b)-1].GetCumulativeCount() != h.GetSampleCount() {
			t.Errorf("histogram %v", h)
		}
	}
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 500 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s did not happen", what)
}

func TestQueueAndLeavingClients(t *testing.T) {
	h := newHarness(t, "one two three four five", Options{Queue: 2})
	h.engine.block = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	begin := func(ctx context.Context, stream string) {
		r, err := http.NewRequestWithContext(ctx, "POST", h.http.URL+"/v1/chat/completions", strings.NewReader(`{"model":"base",`+hello+`,"stream":`+stream+`}`))
		if err != nil {
			t.Error(err)
			return
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	var clients sync.WaitGroup
	for _, stream := range []string{"true", "false"} {
		clients.Go(func() { begin(ctx, stream) })
	}
	eventually(t, "two running requests", func() bool { return h.server.queued.Load() == 2 })

	r, err := http.Post(h.http.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"base",`+hello+`}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
		t.Errorf("a third request: %d, Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
	}

	cancel() // both clients leave
	eventually(t, "the end of both generations", func() bool {
		h.engine.mu.Lock()
		defer h.engine.mu.Unlock()
		return len(h.engine.ended) == 2
	})
	clients.Wait()
	for _, err := range h.engine.ended {
		if err != context.Canceled {
			t.Errorf("the generation of a client that left ended with %v", err)
		}
	}
	eventually(t, "an empty queue", func() bool { return h.server.queued.Load() == 0 })
	close(h.engine.block)
	if status, _ := h.post("/v1/chat/completions", `{"model":"base",`+hello+`}`); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
}

func TestDeadline(t *testing.T) {
	h := newHarness(t, "one two three four five", Options{Timeout: 50 * time.Millisecond})
	h.engine.block = make(chan struct{})
	if status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`}`); status != 504 {
		t.Errorf("%d %v", status, v)
	}
	// A stream that has begun ends with the error as its last event.
	resp, err := http.Post(h.http.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"base",`+hello+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), `"code":"timeout"`) || strings.Contains(string(body), "[DONE]") {
		t.Errorf("%d %v %s", resp.StatusCode, err, body)
	}
}

func TestGracefulStop(t *testing.T) {
	h := newHarness(t, "one two three four five", Options{Grace: 5 * time.Second})
	h.engine.block = make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- h.server.Run(ctx, l) }()
	url := "http://" + l.Addr().String()
	answered := make(chan string)
	go func() {
		resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"base",`+hello+`}`))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answered <- string(body)
	}()
	eventually(t, "a running request", func() bool { return h.server.queued.Load() == 1 })
	stop()
	eventually(t, "the stop", h.server.stopping.Load)
	rec := httptest.NewRecorder()
	h.server.ServeHTTP(rec, httptest.NewRequest("GET", "/healthz", nil))
	if rec.Code != 503 {
		t.Errorf("health while stopping: %d", rec.Code)
	}
	close(h.engine.block)
	if body := <-answered; !strings.Contains(body, "five") {
		t.Errorf("the running request was answered %s", body)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}

	// A request that does not end in time is cancelled.
	h = newHarness(t, "one two three", Options{Grace: 20 * time.Millisecond})
	h.engine.block = make(chan struct{})
	if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, stop = context.WithCancel(t.Context())
	go func() { stopped <- h.server.Run(ctx, l) }()
	go func() {
		resp, err := http.Post("http://"+l.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"base",`+hello+`}`))
		if err == nil {
			resp.Body.Close()
		}
		answered <- ""
	}()
	eventually(t, "a running request", func() bool { return h.server.queued.Load() == 1 })
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	<-answered
	if len(h.engine.ended) != 1 || h.engine.ended[0] != context.Canceled {
		t.Errorf("%v", h.engine.ended)
	}
}

func TestNew(t *testing.T) {
	if _, err := New(Model{Adapters: []string{"base"}}, Options{}); err == nil {
		t.Error("an adapter called base was taken")
	}
	if _, err := New(Model{}, Options{Queue: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
}

// FuzzBody: whatever a client sends, the answer is a success or an error that blames the request.
func FuzzBody(f *testing.F) {
	for _, s := range []string{`{"model":"base",` + hello + `}`, `{"model":"base",` + hello + `,` + offered + `,"stream":true,"n":2}`, `{"model":"base","prompt":["a",[1]],"logprobs":2}`,
		`{"model":"base",` + hello + `,"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":[1]}}},"stop":["x"],"seed":-1}`, `{"messages":[{"role":"tool","content":[{"type":"text","text":"é"}]}]}`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	tok := testTokenizer(f)
	text, err := codec.New(tok, chatML, nil)
	if err != nil {
		f.Fatal(err)
	}
	s, err := New(Model{Engine: &scripted{tok: tok, answer: "x y", reason: generate.Stop}, Tokenizer: tok, Codec: text, Calls: toolcall.JSON, Positions: 2048},
		Options{Log: slog.New(slog.DiscardHandler), Queue: 1000})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		path := "/v1/completions"
		if chat {
			path = "/v1/chat/completions"
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", path, bytes.NewReader(body)))
		if w.Code != 200 && (w.Code < 400 || w.Code >= 500) {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	})
}
