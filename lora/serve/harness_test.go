package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"terraloom/lora/codec"
	"terraloom/lora/generate"
	"terraloom/lora/serve/toolcall"
	"terraloom/lora/tokenizer"
)

// chatML is a template with tools in the manner of Hermes and an optional open reasoning block.
const chatML = `{%- if tools %}<|im_start|>system
Tools:{% for t in tools %}
{{ t | tojson }}{% endfor %}
Answer with <tool_call>
{"name": …, "arguments": …}
</tool_call><|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}{% endif %}`

func testTokenizer(t testing.TB) *tokenizer.BPE {
	t.Helper()
	texts := []string{"the stop word and the other words", `{"name": "ndvi", "arguments": {"red": "b4.tif"}}`, "été 東京 system user assistant"}
	tok, err := tokenizer.Train(slices.Values(slices.Repeat(texts, 3)), 300, []string{"<|im_start|>", "<|im_end|>"})
	if err != nil {
		t.Fatal(err)
	}
	if tok, err = tok.WithRoles(tokenizer.Roles{EOS: "<|im_end|>"}); err != nil {
		t.Fatal(err)
	}
	return tok
}

// scripted is an engine that answers with a text, a few tokens at a time.
type scripted struct {
	tok    *tokenizer.BPE
	answer string
	reason generate.Reason
	err    error
	block  chan struct{} // answers wait until it is closed

	mu       sync.Mutex
	requests []generate.Request
	ended    []error // how calls ended
}

func (e *scripted) Stats() generate.Stats { return generate.Stats{Waiting: 3, Running: 2, Tokens: 40} }

func (e *scripted) Generate(ctx context.Context, requests []generate.Request) (results []generate.Result, err error) {
	e.mu.Lock()
	e.requests = append(e.requests, requests...)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.ended = append(e.ended, err)
		e.mu.Unlock()
	}()
	if e.err != nil {
		return nil, e.err
	}
	for i, r := range requests {
		ids := e.tok.EncodeOrdinary(e.answer)
		result := generate.Result{PromptSize: len(r.Prompt), Reason: e.reason}
		stream := e.tok.NewStreamDecoder(true)
		for j, id := range ids {
			if e.block != nil && j == 2 {
				select {
				case <-e.block:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			token := generate.Token{ID: id, LogProb: -0.5 - float32(i)}
			for k := range r.Alternatives {
				token.Alternatives = append(token.Alternatives, generate.Alternative{ID: id + int32(k), LogProb: -1 - float32(k)})
			}
			text, err := stream.Push(id)
			if err != nil {
				return nil, err
			}
			p := generate.Piece{Tokens: []generate.Token{token}, Text: text}
			if j == len(ids)-1 {
				p.Reason = e.reason
			}
			result.Tokens, result.Text = append(result.Tokens, token), result.Text+text
			r.Emit(p)
		}
		results = append(results, result)
	}
	return results, nil
}

func (e *scripted) last() generate.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requests[len(e.requests)-1]
}

type harness struct {
	*testing.T
	engine *scripted
	server *Server
	http   *httptest.Server
	log    *bytes.Buffer
}

func newHarness(t *testing.T, answer string, opts Options) *harness {
	t.Helper()
	tok := testTokenizer(t)
	h := &harness{T: t, engine: &scripted{tok: tok, answer: answer, reason: generate.Stop}, log: &bytes.Buffer{}}
	opts.Log = slog.New(slog.NewTextHandler(h.log, nil))
	text, err := codec.New(tok, chatML, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.server, err = New(Model{Engine: h.engine, Tokenizer: tok, Codec: text, Calls: toolcall.JSON, Adapters: []string{"planner"}, Positions: 2048}, opts)
	if err != nil {
		t.Fatal(err)
	}
	h.http = httptest.NewServer(h.server)
	t.Cleanup(h.http.Close)
	return h
}

// post sends a body and returns status and decoded answer.
func (h *harness) post(path, body string, header ...string) (int, map[string]any) {
	h.Helper()
	r, err := http.NewRequest("POST", h.http.URL+path, strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.Fatal(err)
	}
	defer resp.Body.Close()
	var v map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		h.Fatalf("%s: %v", path, err)
	}
	return resp.StatusCode, v
}

// stream sends a body and returns the events; the last one must be [DONE].
func (h *harness) stream(path, body string) []map[string]any {
	h.Helper()
	resp, err := http.Post(h.http.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		text, _ := io.ReadAll(resp.Body)
		h.Fatalf("content type %q: %s", got, text)
	}
	var events []map[string]any
	done := false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
		case !ok || done:
			h.Fatalf("unexpected line %q", lines.Text())
		case data == "[DONE]":
			done = true
		default:
			var v map[string]any
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				h.Fatalf("%q: %v", data, err)
			}
			events = append(events, v)
		}
	}
	if !done {
		h.Fatal("the stream has no [DONE]")
	}
	return events
}

// at walks into decoded JSON: keys and indices.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}
