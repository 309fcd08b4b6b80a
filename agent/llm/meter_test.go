package llm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func user(text string) []Message { return []Message{{Role: "user", Content: text}} }

func TestBudget(t *testing.T) {
	hello := NewScript(Line{Reply: strings.Repeat("x", 400), Repeat: true})
	for name, b := range map[string]Budget{"calls": {Calls: 3}, "tokens": {Tokens: 250}, "cost": {Cost: 0.00025}} {
		m := &Meter{Model: hello, Budget: b, Price: Price{Completion: 1}}
		for i := range 3 {
			if _, err := m.Chat(context.Background(), Request{}); err != nil {
				t.Fatalf("%s: call %d: %v", name, i, err)
			}
		}
		if _, err := m.Chat(context.Background(), Request{}); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: %v", name, err)
		}
		if s := m.Spent(); s.Calls != 3 || s.Tokens != 300 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A log of model calls is a script that replays them.
func TestLogReplays(t *testing.T) {
	var log bytes.Buffer
	m := &Meter{Model: NewScript(Line{Role: "planner", Reply: "a\n<b>"}, Line{Role: "executor", Calls: []ToolCall{{Name: "mean", Arguments: "{}"}}}, Line{Error: "cut"}), Log: &log}
	first, err1 := m.Chat(context.Background(), Request{Role: "planner", Messages: user("one")})
	second, err2 := m.Chat(context.Background(), Request{Role: "executor", Messages: user("two")})
	if _, err := m.Chat(context.Background(), Request{Role: "checker", Messages: user("three")}); err1 != nil || err2 != nil || !errors.Is(err, ErrUnavailable) {
		t.Fatal(err1, err2, err)
	}
	path := filepath.Join(t.TempDir(), "models.jsonl")
	if err := os.WriteFile(path, log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ReadScript(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Chat(context.Background(), Request{Role: "executor", Messages: user("two")})
	if err != nil || len(again.Calls) != 1 || again.Calls[0].Name != second.Calls[0].Name {
		t.Errorf("%+v, %v", again, err)
	}
	if r, err := s.Chat(context.Background(), Request{Role: "planner", Messages: user("one")}); err != nil || r.Text != first.Text {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Chat(context.Background(), Request{Role: "planner", Messages: user("changed")}); !errors.Is(err, ErrScript) {
		t.Errorf("a changed prompt gives %v", err)
	}
}

func TestScriptFileFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"rolle":"x","reply":""}`: `:1: /rolle: unknown member`, `{"role":1,"reply":""}`: `/role: expected a text`, "{}": "needs a reply", "[]": "expected an object", "{": ":1",
	} {
		path := filepath.Join(t.TempDir(), "s.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadScript(path); !errors.Is(err, ErrScript) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ReadScript(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// Each line is given once, however many ask at a time.
func TestScriptIsShared(t *testing.T) {
	lines := make([]Line, 100)
	s := NewScript(lines...)
	var all sync.WaitGroup
	for range lines {
		all.Go(func() {
			if _, err := s.Chat(context.Background(), Request{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s.Left() != 0 || len(s.Asked("")) != 100 {
		t.Errorf("%d left, %d asked", s.Left(), len(s.Asked("")))
	}
}
