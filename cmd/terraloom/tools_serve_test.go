package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"terraloom/agent/mcp"
	"terraloom/data/catalogue"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// toolsServe runs the verb alone, with in as standard input, until ctx ends.
func toolsServe(ctx context.Context, in io.Reader, args ...string) (stdout string, err error) {
	var out bytes.Buffer
	cmd := newToolsServeCmd()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetIn(in)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(ctx)
	return out.String(), err
}

func TestToolsServeStdio(t *testing.T) {
	talk := strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pipe","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"difference","arguments":{"a":7,"b":4}}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"difference","arguments":{"a":7}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"division","arguments":{"a":0,"b":7}}}`,
	}, "\n") + "\n"
	out, err := toolsServe(t.Context(), strings.NewReader(talk), "--skill", "earth-time-series-trend")
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]strictjson.Value{}
	if err := strictjson.Lines(strings.NewReader(out), "stdout", func(_ int, v strictjson.Value) error {
		answers[v.Get("id").Text()] = v.Get("result")
		return nil
	}); err != nil {
		t.Fatalf("standard output is not clean: %v", err)
	}
	var skill *skills.Skill
	for _, s := range skills.Default() {
		if s.Name == "earth-time-series-trend" {
			skill = s
		}
	}
	listed := answers["2"].Get("tools")
	if listed.Len() == 0 || listed.Len() > len(skill.Tools) {
		t.Errorf("%d tools, the skill has %d", listed.Len(), len(skill.Tools))
	}
	for i := range listed.Len() {
		name := listed.Index(i).Get("name").Text()
		entry, ok := catalogue.Default().Tool(name)
		if !ok || !skill.Covers([]string{name}) {
			t.Errorf("%q is not a tool of the skill", name)
		} else if got := listed.Index(i).Get("inputSchema").JSON(); got != entry.Schema() {
			t.Errorf("%s: schema %s, want %s", name, got, entry.Schema())
		}
	}
	for _, test := range []struct{ id, text, pointer, want string }{
		{"3", "3.0", "/structuredContent/observation", "3.0"},
		{"3", "3.0", "/structuredContent/evidence/status", "ok"},
		{"4", `"b"`, "/structuredContent/error/reason", "bad arguments"},
		{"5", "division", "/structuredContent/error/reason", "undefined result"},
	} {
		text, _ := answers[test.id].At("/content/0/text")
		if v, _ := answers[test.id].At(test.pointer); v.Text() != test.want || !strings.Contains(text.Text(), test.text) {
			t.Errorf("answer %s is %s, want %s at %s", test.id, answers[test.id].JSON(), test.want, test.pointer)
		}
	}
}

func TestToolsServeHTTP(t *testing.T) {
	t.Setenv(mcpKeyVar, "a-key-of-twenty-chars")
	key, err := mcp.KeyFromEnv(mcpKeyVar)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a free port
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := toolsServe(ctx, strings.NewReader(""), "--http", addr, "--workspace", t.TempDir())
		ended <- err
	}()
	source := mcp.Source{URL: "http://" + addr + mcp.Path, Key: key}
	m, err := mcp.Mount(ctx, source, mcp.MountOptions{Prefix: "kit"})
	for range 100 {
		if err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // until it listens
		m, err = mcp.Mount(ctx, source, mcp.MountOptions{Prefix: "kit"})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	args, _ := strictjson.Parse([]byte(`{"x": [1, 2, 6]}`))
	if res, err := m.Call(ctx, "kit__mean", args); err != nil || res.Text != "3.0" {
		t.Errorf("the mean of 1, 2, 6 is %q, %v", res.Text, err)
	}
	args, _ = strictjson.Parse([]byte(`{"dir_path": "../elsewhere"}`))
	var f *mcp.Fault
	if _, err := m.Call(ctx, "kit__get_filelist", args); !errors.As(err, &f) || f.Reason != mcp.ErrArguments || !strings.Contains(f.Msg, "outside the workspace") {
		t.Errorf("a path outside the workspace gives %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestToolsServeRefuses(t *testing.T) {
	t.Setenv(mcpKeyVar, "")
	for _, test := range []struct {
		want string
		args []string
	}{
		{"no skill", []string{"--skill", "earth-time"}},
		{"--compat", []string{"--compat", "wrong"}},
		{mcpKeyVar, []string{"--http", "0.0.0.0:0"}},
		{"host:port", []string{"--http", "8765"}},
		{"stdio http", []string{"--http", "127.0.0.1:0", "--stdio"}},
		{"no-such-folder", []string{"--workspace", "no-such-folder"}},
	} {
		if _, err := toolsServe(t.Context(), strings.NewReader(""), test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: error %v, want one with %q", test.args, err, test.want)
		}
	}
	t.Setenv(mcpKeyVar, "short")
	if _, err := toolsServe(t.Context(), strings.NewReader(""), "--http", "127.0.0.1:0"); err == nil || strings.Contains(err.Error(), "short ") {
		t.Errorf("a short key gives %v", err)
	}
}
