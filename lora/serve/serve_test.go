package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"terraloom/lora/chat"
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

const hello = `"messages":[{"role":"user","content":"Hi"}]`

func TestChat(t *testing.T) {
	h := newHarness(t, "Hello <b> été 東京!", Options{})
	status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,"max_tokens":50,"temperature":0.5,"top_p":0.9,"top_k":20,"stop":["x"],"seed":7,"n":2,"user":"me"}`)
	if status != 200 || at(v, "object") != "chat.completion" || at(v, "model") != "base" || !strings.HasPrefix(at(v, "id").(string), "chatcmpl-") {
		t.Fatalf("%d %v", status, v)
	}
	for i := range 2 {
		c := at(v, "choices", i)
		if at(c, "message", "content") != "Hello <b> été 東京!" || at(c, "message", "role") != "assistant" || at(c, "finish_reason") != "stop" || at(c, "index") != float64(i) {
			t.Errorf("choice %d: %v", i, c)
		}
		if m := at(c, "message").(map[string]any); m["tool_calls"] != nil || m["reasoning_content"] != nil {
			t.Errorf("choice %d: %v", i, m)
		}
	}
	tok := h.engine.tok
	prompt := tok.Encode("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
	completion := 2 * len(tok.EncodeOrdinary(h.engine.answer))
	if u := v["usage"]; at(u, "prompt_tokens") != float64(len(prompt)) || at(u, "completion_tokens") != float64(completion) || at(u, "total_tokens") != float64(len(prompt)+completion) {
		t.Errorf("usage %v, expected %d and %d", u, len(prompt), completion)
	}
	a, b := h.engine.requests[0], h.engine.requests[1]
	want := generate.Sampling{Temperature: 0.5, TopP: 0.9, TopK: 20, RepetitionPenalty: 1, Seed: 7}
	if !slices.Equal(a.Prompt, prompt) || a.MaxTokens != 50 || a.Sampling != want || !slices.Equal(a.Stop, []string{"x"}) || a.Model != "" {
		t.Errorf("the engine got %+v", a)
	}
	if b.Sampling.Seed == a.Sampling.Seed {
		t.Error("both choices have the same seed")
	}
	h.post("/v1/chat/completions", `{"model":"planner",`+hello+`}`)
	c := h.engine.last()
	if c.Model != "planner" || c.MaxTokens != 0 || c.Sampling.Temperature != 1 || c.Sampling.Seed == 0 {
		t.Errorf("the engine got %+v", c)
	}
}

func TestChatStream(t *testing.T) {
	h := newHarness(t, "Hello <b> été 東京!", Options{})
	events := h.stream("/v1/chat/completions", `{"model":"planner",`+hello+`,"stream":true,"stream_options":{"include_usage":true},"n":2,"logprobs":true}`)
	texts, tokens, finish := [2]string{}, [2]int{}, [2]any{}
	for i, e := range events {
		if at(e, "object") != "chat.completion.chunk" || at(e, "id") != at(events[0], "id") || at(e, "model") != "planner" {
			t.Fatalf("event %d: %v", i, e)
		}
		if i == len(events)-1 {
			if at(e, "usage", "completion_tokens") != float64(2*len(h.engine.tok.EncodeOrdinary(h.engine.answer))) || len(at(e, "choices").([]any)) != 0 {
				t.Errorf("last event: %v", e)
			}
			continue
		}
		c := at(e, "choices", 0)
		n := int(at(c, "index").(float64))
		if i < 2 && at(c, "delta", "role") != "assistant" || i >= 2 && at(c, "delta", "role") != nil {
			t.Errorf("event %d: %v", i, e)
		}
		if s, ok := at(c, "delta", "content").(string); ok {
			texts[n] += s
		}
		if l, ok := at(c, "logprobs", "content").([]any); ok {
			tokens[n] += len(l)
		}
		if finish[n] != nil {
			t.Errorf("choice %d goes on after its end", n)
		}
		finish[n] = at(c, "finish_reason")
	}
	want := len(h.engine.tok.EncodeOrdinary(h.engine.answer))
	for n := range 2 {
		if texts[n] != h.engine.answer || tokens[n] != want || finish[n] != "stop" {
			t.Errorf("choice %d: %q, %d of %d tokens, %v", n, texts[n], tokens[n], want, finish[n])
		}
	}
}

const offered = `"tools":[{"type":"function","function":{"name":"ndvi","description":"index","parameters":{"type":"object","properties":{"red":{"type":"string"}}}}}]`

func TestToolCalls(t *testing.T) {
	answer := "I call.\n\n<tool_call>\n{\"name\": \"ndvi\", \"arguments\": {\"red\": \"b4.tif\", \"n\": 1.0}}\n</tool_call>\n<tool_call>\n{\"name\": \"ndvi\", \"arguments\": {}}\n</tool_call>"
	h := newHarness(t, answer, Options{})
	status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,`+offered+`,"tool_choice":"auto","parallel_tool_calls":true}`)
	if status != 200 {
		t.Fatal(status, v)
	}
	c := at(v, "choices", 0)
	if at(c, "finish_reason") != "tool_calls" || at(c, "message", "content") != "I call." {
		t.Errorf("%v", c)
	}
	for i, want := range []string{`{"red":"b4.tif","n":1.0}`, `{}`} {
		call := at(c, "message", "tool_calls", i)
		if at(call, "type") != "function" || at(call, "function", "name") != "ndvi" || at(call, "function", "arguments") != want || !strings.HasPrefix(at(call, "id").(string), "call_") {
			t.Errorf("call %d: %v", i, call)
		}
	}
	if text, _ := h.engine.tok.Decode(h.engine.last().Prompt); !strings.Contains(text, `"description": "index"`) {
		t.Errorf("the prompt does not show the tool: %q", text)
	}

	var content string
	calls := map[int]string{}
	var finish any
	for _, e := range h.stream("/v1/chat/completions", `{"model":"base",`+hello+`,`+offered+`,"stream":true}`) {
		c := at(e, "choices", 0)
		if s, ok := at(c, "delta", "content").(string); ok {
			content += s
		}
		if list, ok := at(c, "delta", "tool_calls").([]any); ok {
			for _, call := range list {
				calls[int(at(call, "index").(float64))] += at(call, "function", "arguments").(string)
			}
		}
		finish = at(c, "finish_reason")
	}
	if content != "I call." || calls[0] != `{"red":"b4.tif","n":1.0}` || calls[1] != `{}` || len(calls) != 2 || finish != "tool_calls" {
		t.Errorf("streamed %q, %v, %v", content, calls, finish)
	}

	// Without tools in the request it is text.
	if _, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`}`); at(v, "choices", 0, "message", "content") != answer || at(v, "choices", 0, "finish_reason") != "stop" {
		t.Errorf("%v", v)
	}
	if _, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,`+offered+`,"tool_choice":"none"}`); at(v, "choices", 0, "message", "content") != answer {
		t.Errorf("%v", v)
	}

	// The answer goes back as it came, with the arguments as JSON text.
	history := `"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"ndvi","arguments":"{\"red\":\"<|im_end|>\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"0"},{"type":"text","text":".4"}]}]`
	if status, v := h.post("/v1/chat/completions", `{"model":"base",`+history+`,`+offered+`}`); status != 200 {
		t.Fatal(v)
	}
	prompt := h.engine.last().Prompt
	text, _ := h.engine.tok.Decode(prompt)
	if !strings.Contains(text, `{"name": "ndvi", "arguments": {"red": "<|im_end|>"}}`) || !strings.Contains(text, "tool\n0.4<|im_end|>") {
		t.Errorf("prompt %q", text)
	}
	end, _ := h.engine.tok.TokenID("<|im_end|>")
	ends := 0
	for _, id := range prompt {
		if id == end {
			ends++
		}
	}
	if ends != 4 { // T1: the marker in the arguments is text
		t.Errorf("%d ends of turns in the prompt, expected 4: %q", ends, text)
	}
}

func TestReasoning(t *testing.T) {
	h := newHarness(t, "I think.\n</think>\n\nDone.", Options{})
	_, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,"chat_template_kwargs":{"enable_thinking":true}}`)
	m := at(v, "choices", 0, "message")
	if at(m, "reasoning_content") != "I think.\n" || at(m, "content") != "Done." {
		t.Errorf("%v", m)
	}
	// An adapter's own variables hold unless the request says otherwise.
	think, err := chat.ParseValue([]byte("true"))
	if err != nil {
		t.Fatal(err)
	}
	h.server.model.Variables = map[string]map[string]chat.Value{"planner": {"enable_thinking": think}}
	for body, want := range map[string]string{
		`{"model":"base",` + hello + `}`:    "I think.\n</think>\n\nDone.",
		`{"model":"planner",` + hello + `}`: "Done.",
		`{"model":"planner",` + hello + `,"chat_template_kwargs":{"enable_thinking":false}}`: "I think.\n</think>\n\nDone.",
	} {
		if _, v := h.post("/v1/chat/completions", body); at(v, "choices", 0, "message", "content") != want {
			t.Errorf("%s: %v", body, v)
		}
	}
	status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,"chat_template_kwargs":{"enable_thinking":true},"response_format":{"type":"json_object"}}`)
	if status != 400 || !strings.Contains(fmt.Sprint(v), "enable_thinking") {
		t.Errorf("%d %v", status, v)
	}
}

func TestResponseFormat(t *testing.T) {
	h := newHarness(t, "{}", Options{})
	for format, want := range map[string]string{
		`{"type":"text"}`:        "",
		`{"type":"json_object"}`: `{"type":"object"}`,
		`{"type":"json_schema","json_schema":{"name":"plan","strict":true,"schema":{"type":"object","properties":{"b":{"type":"integer"},"a":{}}}}}`: `{"type":"object","properties":{"b":{"type":"integer"},"a":{}}}`,
	} {
		status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,"response_format":`+format+`}`)
		if got := string(h.engine.last().Schema); status != 200 || got != want {
			t.Errorf("%s: %d %v, schema %s", format, status, v, got)
		}
	}
}

func TestLogProbs(t *testing.T) {
	h := newHarness(t, "été", Options{})
	_, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,"logprobs":true,"top_logprobs":2}`)
	content := at(v, "choices", 0, "logprobs", "content").([]any)
	var raw []byte
	for _, c := range content {
		if at(c, "logprob") != -0.5 || len(at(c, "top_logprobs").([]any)) != 2 || at(c, "top_logprobs", 1, "logprob") != float64(-2) {
			t.Errorf("%v", c)
		}
		for _, b := range at(c, "bytes").([]any) {
			raw = append(raw, byte(b.(float64)))
		}
	}
	if string(raw) != "été" {
		t.Errorf("the bytes of the tokens are %q", raw)
	}
	_, v = h.post("/v1/completions", `{"model":"base","prompt":"a","logprobs":1}`)
	l := at(v, "choices", 0, "logprobs")
	n := len(content)
	if len(at(l, "tokens").([]any)) != n || len(at(l, "token_logprobs").([]any)) != n || len(at(l, "top_logprobs").([]any)) != n || at(l, "text_offset", 0) != float64(0) {
		t.Errorf("%v", l)
	}
}

func TestCompletions(t *testing.T) {
	h := newHarness(t, " and more", Options{})
	status, v := h.post("/v1/completions", `{"model":"base","prompt":["the <|im_end|>",[5,6,7]],"n":2,"max_tokens":9,"temperature":0}`)
	if status != 200 || at(v, "object") != "text_completion" || len(at(v, "choices").([]any)) != 4 {
		t.Fatalf("%d %v", status, v)
	}
	for i := range 4 {
		if c := at(v, "choices", i); at(c, "text") != " and more" || at(c, "index") != float64(i) || at(c, "finish_reason") != "stop" {
			t.Errorf("%v", c)
		}
	}
	first, third := h.engine.requests[0], h.engine.requests[2]
	if !slices.Equal(first.Prompt, h.engine.tok.Encode("the <|im_end|>")) || !slices.Equal(third.Prompt, []int32{5, 6, 7}) || first.MaxTokens != 9 {
		t.Errorf("%v %v", first, third)
	}
	if got := at(v, "usage", "prompt_tokens"); got != float64(len(first.Prompt)+3) {
		t.Errorf("%v prompt tokens", got)
	}
	var text string
	for _, e := range h.stream("/v1/completions", `{"model":"base","prompt":"a","stream":true}`) {
		text += at(e, "choices", 0, "text").(string)
	}
	if text != " and more" {
		t.Errorf("streamed %q", text)
	}
	if h.engine.last().MaxTokens != 16 {
		t.Errorf("the API's default is 16 tokens, the engine got %d", h.engine.last().MaxTokens)
	}
}

func TestRefused(t *testing.T) {
	h := newHarness(t, "x", Options{MaxBody: 3000, Queue: 8})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"chat/", `{`, 400, "not JSON"},
		{"chat/", `[]`, 400, "object"},
		{"chat/", `{"model":"base","model":"base",` + hello + `}`, 400, "model"},
		{"chat/", `{` + hello + `}`, 400, "planner"},
		{"chat/", `{"model":"gpt-4",` + hello + `}`, 404, "no model gpt-4"},
		{"chat/", `{"model":"base"}`, 400, "messages"},
		{"chat/", `{"model":"base","messages":[]}`, 400, "messages"},
		{"chat/", `{"model":"base","messages":[{"content":"x"}]}`, 400, "role"},
		{"chat/", `{"model":"base","messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, 400, "image_url"},
		{"chat/", `{"model":"base","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":"{"}}]}]}`, 400, "arguments"},
		{"chat/", `{"model":"base",` + hello + `,"temprature":1}`, 400, "temprature: unknown"},
		{"chat/", `{"model":"base",` + hello + `,"temperature":"hot"}`, 400, "temperature: expected"},
		{"chat/", `{"model":"base",` + hello + `,"temperature":-1}`, 400, "temperature"},
		{"chat/", `{"model":"base",` + hello + `,"n":0}`, 400, "n:"},
		{"chat/", `{"model":"base",` + hello + `,"n":1.5}`, 400, "whole"},
		{"chat/", `{"model":"base",` + hello + `,"n":9}`, 400, "takes 8"},
		{"chat/", `{"model":"base",` + hello + `,"seed":1.5}`, 400, "seed"},
		{"chat/", `{"model":"base",` + hello + `,"stop":[1]}`, 400, "stop"},
		{"chat/", `{"model":"base",` + hello + `,"logit_bias":{"5":1}}`, 400, "logit_bias"},
		{"chat/", `{"model":"base",` + hello + `,"frequency_penalty":1}`, 400, "frequency_penalty"},
		{"chat/", `{"model":"base",` + hello + `,"stream_options":{"include_usage":true}}`, 400, "stream"},
		{"chat/", `{"model":"base",` + hello + `,"stream":true,"stream_options":{"usage":true}}`, 400, "stream_options.usage"},
		{"chat/", `{"model":"base",` + hello + `,"top_logprobs":2}`, 400, "logprobs"},
		{"chat/", `{"model":"base",` + hello + `,"max_tokens":0}`, 400, "max_tokens"},
		{"chat/", `{"model":"base",` + hello + `,"response_format":{"type":"xml"}}`, 400, "xml"},
		{"chat/", `{"model":"base",` + hello + `,"response_format":{"type":"json_schema"}}`, 400, "json_schema"},
		{"chat/", `{"model":"base",` + hello + `,"response_format":{"type":"json_object"},` + offered + `}`, 400, "beside tools"},
		{"chat/", `{"model":"base",` + hello + `,` + offered + `,"tool_choice":"required"}`, 400, "tool_choice"},
		{"chat/", `{"model":"base",` + hello + `,"tools":[{"type":"function"}]}`, 400, "tool 0"},
		{"chat/", `{"model":"base","messages":[{"role":"user","content":"` + strings.Repeat("x", 4000) + `"}]}`, 413, "3000"},
		{"", `{"model":"base"}`, 400, "prompt"},
		{"", `{"model":"base","prompt":[]}`, 400, "prompt"},
		{"", `{"model":"base","prompt":[[1],[2,-3]]}`, 400, "-3"},
		{"", `{"model":"base","prompt":[["a","b"]]}`, 400, "prompt"},
		{"", `{"model":"base","prompt":"a","echo":true}`, 400, "echo"},
	} {
		status, v := h.post("/v1/"+c.path+"completions", c.body)
		if message, _ := at(v, "error", "message").(string); status != c.status || !strings.Contains(message, c.want) {
			t.Errorf("%.100s: %d %v, expected %d %q", c.body, status, v, c.status, c.want)
		}
	}
	if len(h.engine.requests) != 0 {
		t.Errorf("%d refused requests reached the engine", len(h.engine.requests))
	}
	for err, want := range map[error]int{
		fmt.Errorf("x: %w", generate.ErrTooLong): 400, fmt.Errorf("x: %w", generate.ErrRequest): 400, generate.ErrClosed: 503,
		context.DeadlineExceeded: 504, fmt.Errorf("secret"): 500,
	} {
		h.engine.err = err
		for _, stream := range []string{"false", "true"} {
			status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,"stream":`+stream+`}`)
			if status != want || strings.Contains(fmt.Sprint(v), "secret") {
				t.Errorf("engine error %v: %d %v, expected %d", err, status, v, want)
			}
		}
	}
	if !strings.Contains(h.log.String(), "secret") {
		t.Error("an internal error must be in the log")
	}
	// A template that shows no tools.
	text, err := codec.New(h.engine.tok, "{% for m in messages %}{{ m.content }}{% endfor %}", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.engine.err, h.server.model.Codec = nil, text
	if status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`,`+offered+`}`); status != 400 || !strings.Contains(fmt.Sprint(v), "tools") {
		t.Errorf("%d %v", status, v)
	}
	h.server.model.Codec = nil
	if status, v := h.post("/v1/chat/completions", `{"model":"base",`+hello+`}`); status != 400 || !strings.Contains(fmt.Sprint(v), "template") {
		t.Errorf("%d %v", status, v)
	}
}

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
