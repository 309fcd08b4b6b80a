package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"terraloom/lora/chat"
	"terraloom/lora/codec"
	"terraloom/lora/generate"
)

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
