package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// pythonSDK is an interpreter that has the official Python SDK.
func pythonSDK(t *testing.T) string {
	t.Helper()
	python := os.Getenv("TERRALOOM_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import mcp.client.streamable_http").CombinedOutput(); err != nil {
		t.Skipf("%s with the package mcp is needed (set TERRALOOM_PYTHON): %v %s", python, err, out)
	}
	return python
}

// A client that was not written here lists and calls tools over both transports.
func TestPythonClient(t *testing.T) {
	checkLeaks(t)
	python := pythonSDK(t)
	url, _ := startHTTP(t, newTestServer(t, &testKit{}, Options{}))
	for _, where := range [][]string{{"stdio", os.Args[0]}, {"http", url}} {
		t.Run(where[0], func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, python, append([]string{"testdata/client.py"}, where...)...)
			cmd.Env = append(os.Environ(), childVar+"=good")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			type result struct {
				Content []struct{ Text string }
				IsError bool
				// StructuredContent is the observation, or the error.
				StructuredContent struct {
					Observation float64
					Error       struct{ Reason string }
				}
			}
			var seen struct {
				Protocol string
				Tools    []struct {
					Name, Description string
					InputSchema       json.RawMessage
				}
				Difference, Bad, Panic result
				Unknown                string
				Echoes                 []string
			}
			if err := json.Unmarshal(out, &seen); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("protocol %s", seen.Protocol)
			kit := new(testKit).Tools()
			if len(seen.Tools) != len(kit) {
				t.Errorf("%d tools, want %d", len(seen.Tools), len(kit))
			}
			for _, tool := range seen.Tools {
				i := slices.IndexFunc(kit, func(k Tool) bool { return k.Name == tool.Name })
				if i < 0 || tool.Description != kit[i].Summary || !sameJSON(t, string(tool.InputSchema), kit[i].Schema) {
					t.Errorf("tool %s: %q %s", tool.Name, tool.Description, tool.InputSchema)
				}
			}
			if d := seen.Difference; d.IsError || d.Content[0].Text != "2.0" || d.StructuredContent.Observation != 2 {
				t.Errorf("5 - 3 = %+v", d)
			}
			if b := seen.Bad; !b.IsError || b.StructuredContent.Error.Reason != "bad arguments" || !strings.Contains(b.Content[0].Text, `"b"`) {
				t.Errorf("a missing argument gives %+v", b)
			}
			if p := seen.Panic; !p.IsError || p.StructuredContent.Error.Reason != "internal error" {
				t.Errorf("a panic gives %+v", p)
			}
			if !strings.Contains(seen.Unknown, "nothing") {
				t.Errorf("an unknown tool gives %q", seen.Unknown)
			}
			if len(seen.Echoes) != 20 || seen.Echoes[7] != `{"text":"7"}` {
				t.Errorf("20 calls at once give %q", seen.Echoes)
			}
			if strings.Contains(stderr.String(), "Traceback") {
				t.Errorf("the client complains:\n%s", stderr.String())
			}
		})
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(x)
	two, _ := json.Marshal(y)
	return string(one) == string(two)
}

// A server that was not written here is mounted, fails, crashes and comes back.
func TestPythonServer(t *testing.T) {
	checkLeaks(t)
	m := mountTest(t, Source{Command: []string{pythonSDK(t), "testdata/server.py"}}, MountOptions{Backoff: 10 * time.Millisecond})
	tools := m.Tools()
	i := slices.IndexFunc(tools, func(tool Tool) bool { return tool.Name == "far__area" })
	if len(tools) != 3 || i < 0 || tools[i].Summary != "Area of a rectangle, square metres." {
		t.Fatalf("the tools are %+v", tools)
	}
	schema := object(t, tools[i].Schema)
	if w := schema.Get("properties").Get("width"); w.Get("type").Text() != "number" || schema.Get("required").Len() != 2 {
		t.Errorf("the schema is %s", schema.JSON())
	}
	for range 2 {
		if res := mustCall(t, m, "far__area", `{"width": 2.5, "height": 4}`); !strings.HasPrefix(res.Text, "10") {
			t.Errorf("2.5 × 4 = %q", res.Text)
		}
		if _, err := m.Call(context.Background(), "far__fail", object(t, `{"path": "scene.tif"}`)); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "cannot open scene.tif") {
			t.Errorf("the failing tool gives %v", err)
		}
		if _, err := m.Call(context.Background(), "far__crash", object(t, `{}`)); !errors.Is(err, ErrDown) {
			t.Errorf("the crash gives %v", err)
		}
	}
}
