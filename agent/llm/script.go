package llm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"terraloom/data/strictjson"
)

// Line is one reply of a script. The conditions that are set must all hold for
// the reply to be given.
type Line struct {
	Role     string // of the request
	Contains string // some message's text has it
	Prompt   string // SHA-256 of the prompt, as Request.PromptHash gives it
	Repeat   bool   // give it as often as it fits; else once

	Reply string
	Calls []ToolCall
	Error string // the call fails with this text instead, wrapping ErrUnavailable
}

// Script is a model that gives prepared replies: for each request the first
// line, in order, that fits and was not given yet. It keeps what it was asked.
type Script struct {
	mu    sync.Mutex
	lines []Line
	given []bool
	asked []Request
}

// NewScript makes a script of lines.
func NewScript(lines ...Line) *Script {
	return &Script{lines: slices.Clone(lines), given: make([]bool, len(lines))}
}

// lineKeys are the members of a script line. A run's log of model calls has more
// and is a script as well: it replays the run.
var lineKeys = []string{"role", "contains", "prompt_sha256", "repeat", "reply", "tool_calls", "error"}

// ReadScript reads a JSONL file of lines: {"role", "contains", "prompt_sha256",
// "repeat", "reply", "tool_calls", "error"}, all optional, or the models.jsonl
// of a run's folder. Errors wrap ErrScript.
func ReadScript(path string) (*Script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScript, err)
	}
	var lines []Line
	err = strictjson.Lines(bytes.NewReader(text), path, func(n int, v strictjson.Value) error {
		l, err := readLineOf(v)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		lines = append(lines, l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScript, err)
	}
	return NewScript(lines...), nil
}

func readLineOf(v strictjson.Value) (Line, error) {
	if v.Kind() != strictjson.Object {
		return Line{}, fmt.Errorf("expected an object, found %s", v.Kind())
	}
	logged := !v.Get("messages").IsAbsent()
	for i := range v.Len() {
		if key := v.Key(i); !logged && !slices.Contains(lineKeys, key) {
			return Line{}, fmt.Errorf("/%s: unknown member; a line has %s", key, strings.Join(lineKeys, ", "))
		}
	}
	for _, key := range []string{"role", "contains", "prompt_sha256", "reply", "error"} {
		if k := v.Get(key).Kind(); k != strictjson.Absent && k != strictjson.String {
			return Line{}, fmt.Errorf("/%s: expected a text, found %s", key, k)
		}
	}
	l := Line{Role: v.Get("role").Text(), Contains: v.Get("contains").Text(), Prompt: v.Get("prompt_sha256").Text(),
		Repeat: v.Get("repeat").True(), Reply: v.Get("reply").Text(), Error: v.Get("error").Text()}
	l.Calls = readCalls(v.Get("tool_calls"))
	if v.Get("reply").IsAbsent() && len(l.Calls) == 0 && l.Error == "" {
		return Line{}, fmt.Errorf("a line needs a reply, tool_calls or an error")
	}
	return l, nil
}

// Chat gives the next reply that fits. Without one the error wraps ErrScript.
func (s *Script) Chat(ctx context.Context, r Request) (Reply, error) {
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
	for i := range s.lines {
		l := &s.lines[i]
		if s.given[i] || !l.fits(&r) {
			continue
		}
		s.given[i] = !l.Repeat
		if l.Error != "" {
			return Reply{Tries: 1}, fmt.Errorf("%w: %s", ErrUnavailable, l.Error)
		}
		reply := Reply{Text: l.Reply, Calls: slices.Clone(l.Calls), Finish: "stop", Tries: 1}
		for j := range reply.Calls {
			if reply.Calls[j].ID == "" {
				reply.Calls[j].ID = fmt.Sprintf("call_%d_%d", len(s.asked), j)
			}
		}
		reply.Usage = r.estimate(&reply)
		if r.Emit != nil {
			r.Emit(reply.Text)
		}
		return reply, nil
	}
	last := ""
	if n := len(r.Messages); n > 0 {
		last = r.Messages[n-1].Content
	}
	return Reply{}, fmt.Errorf("%w: role %q, prompt %.12s ending in %q", ErrScript, r.Role, r.PromptHash(), tail(last, 120))
}

func (l *Line) fits(r *Request) bool {
	return (l.Role == "" || l.Role == r.Role) && (l.Prompt == "" || l.Prompt == r.PromptHash()) &&
		(l.Contains == "" || slices.ContainsFunc(r.Messages, func(m Message) bool { return strings.Contains(m.Content, l.Contains) }))
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return s
}

// Asked returns the requests so far, those of a role only unless it is "".
func (s *Script) Asked(role string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, r := range s.asked {
		if role == "" || r.Role == role {
			out = append(out, r)
		}
	}
	return out
}

// Left is the number of lines that were not given and are not to be repeated.
func (s *Script) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i, l := range s.lines {
		if !s.given[i] && !l.Repeat {
			n++
		}
	}
	return n
}
