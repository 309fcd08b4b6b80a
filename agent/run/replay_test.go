package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// AGT-31: recorded calls replay exactly; a call that was not recorded is a typed
// error.
func TestAGT31Replay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(path, []byte(`{"tool":"mean","input":{"x":[1.0,2]},"output":1.5}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := ReadReplay(path)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := r.Invoke(context.Background(), "mean", parse(t, `{"x":[1,2.0]}`)); err != nil || res.Value.JSON() != "1.5" {
		t.Errorf("%s, %v", res.Value.JSON(), err)
	}
	if _, err := r.Invoke(context.Background(), "mean", parse(t, `{"x":[2,1]}`)); !errors.Is(err, ErrMiss) || !errors.Is(err, tools.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{"{}": ":1: expected", `{"tool":"mean","input":{},"output":1}` + "\n" + `{"tool":"mean","input":{},"output":2}`: ":2: mean was recorded before"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadReplay(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}

// AGT-31 on the real recorded calls of the public kit.
func TestAGT31RealCalls(t *testing.T) {
	path := filepath.Join(shared(t), "earth-bench", "tool_golden.jsonl")
	r, err := ReadReplay(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n := 0
	err = strictjson.Lines(file, path, func(_ int, v strictjson.Value) error {
		n++
		res, err := r.Invoke(context.Background(), v.Get("tool").Text(), v.Get("input"))
		if err == nil && !res.Value.Equal(v.Get("output")) {
			err = errors.New("another output")
		}
		return err
	})
	if err != nil || n != 978 {
		t.Errorf("%d calls, %v", n, err)
	}
}
