package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// post sends one JSON-RPC request as a plain HTTP client would.
func post(t *testing.T, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

const listRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestHTTPGuards(t *testing.T) {
	checkLeaks(t)
	t.Setenv("TERRALOOM_TEST_KEY", "a-key-of-twenty-chars")
	key, err := KeyFromEnv("TERRALOOM_TEST_KEY")
	if err != nil {
		t.Fatal(err)
	}
	var logs logBuffer
	ts := httptest.NewServer(newTestServer(t, &testKit{}, Options{Key: key, MaxRequest: 10_000, Logger: logs.logger()}).Handler())
	defer ts.Close()
	auth := "Bearer " + key.secret
	for _, test := range []struct {
		name   string
		path   string
		body   string
		header []string
		status int
	}{
		{"good", Path, listRequest, []string{"Authorization", auth}, 200},
		{"scheme in another case", Path, listRequest, []string{"Authorization", "bearer " + key.secret}, 200},
		{"no key", Path, listRequest, nil, 401},
		{"wrong key", Path, listRequest, []string{"Authorization", auth + "x"}, 401},
		{"wrong scheme", Path, listRequest, []string{"Authorization", "Basic " + key.secret}, 401},
		{"wrong path", "/", listRequest, []string{"Authorization", auth}, 404},
		{"another origin", Path, listRequest, []string{"Authorization", auth, "Origin", "https://evil.example"}, 403},
		{"rebound name", Path, listRequest, []string{"Authorization", auth, "Host", "evil.example"}, 403},
		{"too large", Path, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", 10_000) + `"}}}`, []string{"Authorization", auth}, 413},
		{"no JSON", Path, `{"jsonrpc"`, []string{"Authorization", auth}, 400},
	} {
		if status, text := post(t, ts.URL+test.path, test.body, test.header...); status != test.status {
			t.Errorf("%s: status %d %s, want %d", test.name, status, text, test.status)
		}
	}
	if strings.Contains(logs.String(), key.secret) {
		t.Error("the key is in the log")
	}
}

func TestKey(t *testing.T) {
	for _, bad := range []string{"short", "with a space in the key", "with\ttab-0123456789", "schlüssel-0123456789"} {
		t.Setenv("TERRALOOM_TEST_KEY", bad)
		if _, err := KeyFromEnv("TERRALOOM_TEST_KEY"); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: error %v, want one that does not tell the key", bad, err)
		}
	}
	t.Setenv("TERRALOOM_TEST_KEY", "")
	if k, err := KeyFromEnv("TERRALOOM_TEST_KEY"); err != nil || !k.IsZero() {
		t.Errorf("no key gives %v, %v", k.IsZero(), err)
	}
	var logs logBuffer
	logs.logger().Info("options", "key", Key{"a-very-secret-key"}, "all", Options{Key: Key{"a-very-secret-key"}})
	if strings.Contains(logs.String(), "very-secret") {
		t.Errorf("the log shows a key: %s", logs.String())
	}
}

func TestListenStaysAtHome(t *testing.T) {
	t.Setenv("TERRALOOM_TEST_KEY", "a-key-of-twenty-chars")
	key, err := KeyFromEnv("TERRALOOM_TEST_KEY")
	if err != nil {
		t.Fatal(err)
	}
	open, locked := newTestServer(t, &testKit{}, Options{}), newTestServer(t, &testKit{}, Options{Key: key})
	for _, test := range []struct {
		s    *Server
		addr string
		want error
	}{
		{open, "127.0.0.1:0", nil}, {open, "localhost:0", nil}, {open, ":0", ErrExposed}, {open, "0.0.0.0:0", ErrExposed}, {locked, ":0", nil},
	} {
		l, err := test.s.Listen(test.addr)
		if !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: error %v, want %v", test.addr, err, test.want)
		}
		if l != nil {
			l.Close()
		}
	}
	if _, err := open.Listen("8765"); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("a bare port gives %v", err)
	}
}

// startHTTP runs a server on a port of its own until stop.
func startHTTP(t *testing.T, s *Server) (url string, stop func() error) {
	t.Helper()
	l, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return "http://" + l.Addr().String() + Path, stop
}

func TestHTTPStopsGracefully(t *testing.T) {
	checkLeaks(t)
	kit := &testKit{}
	url, stop := startHTTP(t, newTestServer(t, kit, Options{Grace: 200 * time.Millisecond}))
	answer := make(chan string, 1)
	go func() {
		_, text := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
		answer <- text
	}()
	for kit.running.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d < 200*time.Millisecond || d > 5*time.Second {
		t.Errorf("it took %v to stop", d)
	}
	if text := <-answer; !strings.Contains(text, `"reason":"cancelled"`) {
		t.Errorf("the running call got %s", text)
	}
	if _, err := net.DialTimeout("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), Path), time.Second); err == nil {
		t.Error("the port is still open")
	}
}

func TestHTTPClientGoesAway(t *testing.T) {
	checkLeaks(t)
	kit := &testKit{}
	url, _ := startHTTP(t, newTestServer(t, kit, Options{}))
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	go func() {
		for kit.running.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := http.DefaultClient.Do(req); err == nil {
		t.Fatal("the call ended by itself")
	}
	waitIdle(t, kit)
}

// conversation feeds lines to ServeStdio as a pipe would and returns what it said.
func conversation(t *testing.T, s *Server, lines ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	in := io.NopCloser(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	err := s.ServeStdio(context.Background(), in, nopCloser{&out})
	return out.String(), err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestStdioAnswersBeforeItEnds(t *testing.T) {
	checkLeaks(t)
	out, err := conversation(t, newTestServer(t, &testKit{}, Options{}),
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pipe","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"difference","arguments":{"a":7,"b":4}}}`)
	if err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(lines), out)
	}
	for _, line := range lines {
		object(t, line) // nothing but JSON
	}
	if !strings.Contains(lines[1], `"text":"3.0"`) {
		t.Errorf("the answer is %s", lines[1])
	}
}

func TestStdioBoundsLines(t *testing.T) {
	checkLeaks(t)
	_, err := conversation(t, newTestServer(t, &testKit{}, Options{MaxRequest: 1000}), `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+strings.Repeat("x", 2000)+`"}}`)
	if err == nil || !strings.Contains(err.Error(), "maximum line length") {
		t.Errorf("error %v", err)
	}
}

func TestStdioStopsGracefully(t *testing.T) {
	checkLeaks(t)
	kit := &testKit{}
	s := newTestServer(t, kit, Options{Grace: 100 * time.Millisecond})
	in, say := io.Pipe()
	hear, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeStdio(ctx, in, out) }()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(context.Background(), &sdk.IOTransport{Reader: hear, Writer: say}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	answer := make(chan string, 1)
	go func() {
		text, _, _ := callTool(t, client, "wait", `{}`)
		answer <- text
	}()
	for kit.running.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if text := <-answer; text != "cancelled: wait was cancelled" {
		t.Errorf("the running call got %q", text)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStdioEndsAfterACancelledCall(t *testing.T) {
	checkLeaks(t)
	start := time.Now()
	_, err := conversation(t, newTestServer(t, &testKit{}, Options{}),
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pipe","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if err != nil || time.Since(start) > 5*time.Second {
		t.Errorf("it ended after %v with %v", time.Since(start), err)
	}
}
