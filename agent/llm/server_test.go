package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestServer drives the client through what servers do wrong.
func TestServer(t *testing.T) {
	good := `{"choices":[{"message":{"content":"hello"}}]}`
	for name, c := range map[string]struct {
		replies []string // a status, a space, a body; in turn
		want    string   // part of the error, "" for success
		kind    error
		asked   int
	}{
		"good":            {[]string{"200 " + good}, "", nil, 1},
		"busy, then good": {[]string{"429 x", "503 x", "200 " + good}, "", nil, 3},
		"garbled once":    {[]string{`200 {"choices":[{"mess`, "200 " + good}, "", nil, 2},
		"always broken":   {[]string{"500 x", "500 x", "500 x"}, "500", ErrUnavailable, 3},
		"refused":         {[]string{"401 no key: secret-key"}, "no key: [key]", ErrRefused, 1},
		"never JSON":      {[]string{"200 <html>", "200 <html>", "200 <html>"}, "not JSON", ErrUnavailable, 3},
		"no choices":      {[]string{`200 {"choices":[]}`, `200 {"choices":[]}`, `200 {}`}, "/choices/0/message", ErrUnavailable, 3},
		"null":            {[]string{`200 {"choices":[{"message":{"content":null}}]}`, "200 " + good}, "", nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer secret-key" {
					t.Errorf("%s, %v", r.URL.Path, r.Header)
				}
				code, body, _ := strings.Cut(c.replies[asked], " ")
				status, err := strconv.Atoi(code)
				if err != nil {
					t.Error(err)
				}
				asked++
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			}))
			defer server.Close()
			s := &Server{URL: server.URL + "/v1", Model: "m", Key: "secret-key", Tries: 3, Pause: time.Millisecond, Timeout: time.Second}
			got, err := s.Complete(context.Background(), "s", "u")
			if asked != c.asked || (err == nil) != (c.want == "") || err == nil && got != "hello" {
				t.Fatalf("%q, %v, asked %d times", got, err, asked)
			}
			if err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, c.kind) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestEmbedRefusesWhatIsNoVector(t *testing.T) {
	for _, body := range []string{`{"data":[]}`, `{"data":[{"embedding":[]}]}`, `{"data":[{"embedding":[1e999]}]}`, `{"data":[{"embedding":["1"]}]}`,
		`{"data":[{"index":7,"embedding":[1]}]}`, `{"data":[{"index":-1,"embedding":[1]}]}`, `{"data":{"a":1}}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		if v, err := (&Server{URL: server.URL, Tries: 1}).Embed(context.Background(), []string{"x"}); err == nil {
			t.Errorf("%s gives %v", body, v)
		}
		server.Close()
	}
}

// A request has its own time limit; the caller's ends all tries at once.
func TestTimeouts(t *testing.T) {
	done := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer hanging.Close()
	defer close(done)
	s := &Server{URL: hanging.URL, Tries: 2, Pause: time.Millisecond, Timeout: 20 * time.Millisecond}
	if _, err := s.Complete(context.Background(), "s", "u"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	s = &Server{URL: hanging.URL, Tries: 1000, Pause: time.Hour, Timeout: 10 * time.Millisecond}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := s.Complete(ctx, "s", "u"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// A server's Retry-After is heeded.
func TestRetryAfter(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, `{"choices":[{"message":{"content":"x"}}]}`)
	}))
	defer server.Close()
	start := time.Now()
	if _, err := (&Server{URL: server.URL, Tries: 2}).Complete(context.Background(), "", ""); err != nil || time.Since(start) < time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

func TestStream(t *testing.T) {
	const tools = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"mean","arguments":"{\"x\":"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"[1]}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]
`
	const text = `: a comment
data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}

data: {"choices":[{"index":0,"delta":{"content":"he"}}]}
data: {"choices":[{"index":1,"delta":{"content":"other"}}]}
data: {"choices":[{"index":0,"delta":{"content":"llo"},"finish_reason":"stop"}]}
data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}
data: [DONE]
`
	var pieces []string
	r, err := readStream(strings.NewReader(text), func(p string) { pieces = append(pieces, p) })
	if err != nil || r.Text != "hello" || r.Finish != "stop" || r.Usage != (Usage{Prompt: 7, Completion: 2}) || strings.Join(pieces, "|") != "he|llo" {
		t.Errorf("%+v, %v, %v", r, pieces, err)
	}
	r, err = readStream(strings.NewReader(tools), nil)
	if err != nil || len(r.Calls) != 1 || r.Calls[0] != (ToolCall{"c1", "mean", `{"x":[1]}`}) {
		t.Errorf("%+v, %v", r, err)
	}
	for name, cut := range map[string]string{
		"cut":       text[:strings.Index(text, "llo")-60],
		"no DONE":   strings.Replace(text, "data: [DONE]\n", "", 1),
		"no finish": "data: [DONE]\n",
		"garbled":   "data: {\"cho\ndata: [DONE]\n",
		"error":     "data: {\"error\":{\"message\":\"out of memory\"}}\n",
		"empty":     "",
	} {
		if r, err := readStream(strings.NewReader(cut), nil); err == nil {
			t.Errorf("%s gives %+v", name, r)
		}
	}
}

// A cut stream is asked for again, and no half answer is taken.
func TestCutStreamIsRetried(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n")
		if asked > 1 {
			fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" and half\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		}
	}))
	defer server.Close()
	r, err := (&Server{URL: server.URL, Tries: 3, Stream: true}).Chat(context.Background(), Request{})
	if err != nil || r.Text != "half and half" || r.Tries != 2 || !r.Usage.Estimated {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzStream: a stream of any bytes is an answer or an error, whatever its pieces.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1,\"function\":{\"name\":\"m\"}}]}}]}\n"))
	f.Add([]byte(": x\r\ndata:{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		said := ""
		r, err := readStream(strings.NewReader(string(text)), func(p string) { said += p })
		if err == nil && r.Text != said {
			t.Errorf("%q was emitted, %q returned", said, r.Text)
		}
	})
}
