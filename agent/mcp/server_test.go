package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"terraloom/data/strictjson"
)

func newTestServer(t *testing.T, kit Kit, o Options) *Server {
	t.Helper()
	if o.Logger == nil {
		o.Logger = new(logBuffer).logger()
	}
	s, err := NewServer(kit, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inMemory connects an SDK client to a server without any process or socket.
func inMemory(t *testing.T, s *Server) *sdk.ClientSession {
	t.Helper()
	here, there := sdk.NewInMemoryTransports()
	server, err := s.sdk.Connect(context.Background(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(context.Background(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Wait()
	})
	return client
}

func callTool(t *testing.T, c *sdk.ClientSession, name, args string) (text, reason string, res *sdk.CallToolResult) {
	t.Helper()
	res, err := c.CallTool(context.Background(), &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	text = res.Content[0].(*sdk.TextContent).Text
	if m, ok := res.StructuredContent.(map[string]any); ok {
		if e, ok := m["error"].(map[string]any); ok {
			reason, _ = e["reason"].(string)
		}
	}
	if res.IsError != (reason != "") {
		t.Errorf("%s: isError is %v, the reason is %q", name, res.IsError, reason)
	}
	return text, reason, res
}

func TestServerListsAndCalls(t *testing.T) {
	checkLeaks(t)
	kit := &testKit{}
	c := inMemory(t, newTestServer(t, kit, Options{}))
	list, err := c.ListTools(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != len(kit.Tools()) {
		t.Fatalf("%d tools, want %d", len(list.Tools), len(kit.Tools()))
	}
	for _, tool := range list.Tools {
		got, _ := json.Marshal(tool.InputSchema)
		var want string
		for _, k := range kit.Tools() {
			if k.Name == tool.Name {
				var v any
				if err := json.Unmarshal([]byte(k.Schema), &v); err != nil {
					t.Fatal(err)
				}
				b, _ := json.Marshal(v)
				want = string(b)
				if tool.Description != k.Summary || tool.Annotations.ReadOnlyHint != k.Pure {
					t.Errorf("%s: %q, read only %v", tool.Name, tool.Description, tool.Annotations.ReadOnlyHint)
				}
			}
		}
		if string(got) != want {
			t.Errorf("%s: schema %s, want %s", tool.Name, got, want)
		}
	}
	text, _, res := callTool(t, c, "difference", `{"a": 5, "b": 3}`)
	if text != "2.0" || res.StructuredContent.(map[string]any)["observation"] != 2.0 {
		t.Errorf("5 - 3 = %q, %v", text, res.StructuredContent)
	}
	if text, _, _ := callTool(t, c, "echo", `{"n": 9007199254740993, "x": 1.0}`); text != `{"n":9007199254740993,"x":1.0}` {
		t.Errorf("the arguments arrive as %s", text)
	}
}

func TestServerFailuresAreResults(t *testing.T) {
	checkLeaks(t)
	kit := &testKit{release: make(chan struct{})}
	var logs logBuffer
	c := inMemory(t, newTestServer(t, kit, Options{CallTimeout: 500 * time.Millisecond, Concurrency: 1, MaxResult: 1 << 20, Logger: logs.logger()}))
	for _, test := range []struct{ tool, args, reason, text string }{
		{"difference", `{"a": 5}`, "bad arguments", `"b"`},
		{"difference", `{"a": 5, "b": 3, "c": 1}`, "bad arguments", `"c"`},
		{"difference", `{"a": 5, "a": 6, "b": 3}`, "bad arguments", `"a"`},
		{"fault", `{}`, "insufficient data", "insufficient data: 3 of 5 values are missing"},
		{"plain", `{}`, "tool failed", "the disk is full"},
		{"panic", `{}`, "internal error", "go on without it"},
		{"big", `{}`, "result too large", "1048576"},
		{"wait", `{}`, "time limit", "500ms"},
		{"deaf", `{}`, "time limit", "500ms"},
		{"echo", `{}`, "busy", "call again later"}, // deaf still has the only slot
	} {
		text, reason, _ := callTool(t, c, test.tool, test.args)
		if reason != test.reason || !strings.Contains(text, test.text) {
			t.Errorf("%s %s: %q %q, want %q with %q", test.tool, test.args, reason, text, test.reason, test.text)
		}
		if strings.Contains(text, "secret of the panic") {
			t.Error("what a panic says went to the client")
		}
	}
	close(kit.release)
	for kit.running.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	if text, _, _ := callTool(t, c, "echo", `{"text":"alive"}`); text != `{"text":"alive"}` {
		t.Errorf("after all failures: %q", text)
	}
	if !strings.Contains(logs.String(), "secret of the panic") || !strings.Contains(logs.String(), "tool=difference outcome=\"bad arguments\"") {
		t.Errorf("the log lacks the panic or a call:\n%s", logs.String())
	}
	_, err := c.CallTool(context.Background(), &sdk.CallToolParams{Name: "nothing"})
	var protocol *jsonrpc.Error
	if !errors.As(err, &protocol) || protocol.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("an unknown tool gives %v", err)
	}
}

func TestServerBoundsConcurrency(t *testing.T) {
	checkLeaks(t)
	kit := &testKit{}
	c := inMemory(t, newTestServer(t, kit, Options{CallTimeout: 100 * time.Millisecond, Concurrency: 2}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { callTool(t, c, "wait", `{}`) })
	}
	wg.Wait()
	if p := kit.peak.Load(); p != 2 {
		t.Errorf("%d calls ran at the same time, want 2", p)
	}
}

func TestServerBoundsWaitingCalls(t *testing.T) {
	checkLeaks(t)
	c := inMemory(t, newTestServer(t, &testKit{}, Options{CallTimeout: time.Second, Concurrency: 1}))
	const calls = waitersPerSlot + 8
	var refused atomic.Int32
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if text, _, _ := callTool(t, c, "wait", `{}`); strings.Contains(text, "running or waiting") {
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if n := refused.Load(); n != calls-waitersPerSlot {
		t.Errorf("%d of %d calls were refused at once, want %d", n, calls, calls-waitersPerSlot)
	}
}

func TestServerCancelsForTheClient(t *testing.T) {
	checkLeaks(t)
	kit := &testKit{}
	c := inMemory(t, newTestServer(t, kit, Options{}))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "wait"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	waitIdle(t, kit)
}

// waitIdle fails if a call still runs after a second.
func waitIdle(t *testing.T, kit *testKit) {
	t.Helper()
	for range 100 {
		if kit.running.Load() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the tool still runs though its caller is gone")
}

func TestNewServerRefusesBadTools(t *testing.T) {
	for _, test := range []struct {
		tools []Tool
		want  string
	}{
		{nil, "at least one tool"},
		{[]Tool{{Name: "a b", Schema: anyObject}}, `"a b"`},
		{[]Tool{{Name: "a", Schema: `{"type":"string"}`}}, `"object"`},
		{[]Tool{{Name: "a", Schema: `{"type":"object","type":"object"}`}}, "schema"},
		{[]Tool{{Name: "a", Schema: anyObject}, {Name: "a", Schema: anyObject}}, "twice"},
	} {
		if _, err := NewServer(listKit(test.tools), Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: error %v, want one with %s", test.tools, err, test.want)
		}
	}
}

type listKit []Tool

func (l listKit) Tools() []Tool { return l }

func (l listKit) Call(context.Context, string, strictjson.Value) (Result, error) {
	return Result{}, nil
}

func TestSubset(t *testing.T) {
	checkLeaks(t)
	sub, err := Subset(&testKit{}, []string{"echo", "difference", "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	c := inMemory(t, newTestServer(t, sub, Options{}))
	list, err := c.ListTools(context.Background(), nil)
	if err != nil || len(list.Tools) != 2 {
		t.Fatalf("%v %v", list, err)
	}
	if _, err := c.CallTool(context.Background(), &sdk.CallToolParams{Name: "plain"}); err == nil {
		t.Error("a tool outside the subset is callable")
	}
	if _, err := sub.Call(context.Background(), "plain", object(t, `{}`)); !errors.Is(err, ErrUnknown) {
		t.Errorf("a tool outside the subset gives %v", err)
	}
	if _, err := Subset(&testKit{}, []string{"elsewhere"}); err == nil {
		t.Error("an empty subset is accepted")
	}
}
