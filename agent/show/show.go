// Package show renders a run of the agent for people: the workflow as a tree of
// text, and a page with every step's evidence, maps and series.
package show

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"terraloom/agent/memory"
	"terraloom/agent/run"
)

// Run is a run read from its folder.
type Run struct {
	Dir    string
	Task   run.Task
	Skill  string
	Events []memory.Event
	State  *memory.State // nil before a plan
	Result *run.Result   // nil while it goes on
}

// Read reads a run's folder; a run that is still going on, or was killed, can be
// read too.
func Read(dir string) (*Run, error) {
	r := &Run{Dir: dir}
	var err error
	if r.Events, err = memory.Read(dir); err != nil {
		return nil, err
	}
	if r.State, err = memory.Replay(r.Events); err != nil {
		return nil, err
	}
	for _, e := range r.Events {
		switch e.Kind {
		case memory.Begun:
			var b struct{ Task run.Task }
			if err := json.Unmarshal(e.Detail, &b); err != nil {
				return nil, fmt.Errorf("%w: %s: event %d: %w", memory.ErrJournal, dir, e.Seq, err)
			}
			r.Task = b.Task
		case memory.Routed:
			r.Skill = e.Code
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, run.ResultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r.Result)
	}
	return r, err
}

// marks stand before a node in the tree.
var marks = map[memory.Status]string{memory.Accepted: "[x]", memory.Failed: "[!]", memory.Pending: "[ ]"}

// Tree writes the workflow: nodes with what became of them, rejected attempts
// below each, repairs where they took place, and the answer.
func (r *Run) Tree(w io.Writer) error {
	out := &writer{w: w}
	out.line(0, "%s", r.Task.Question)
	if r.Skill != "" {
		out.line(0, "skill %s", r.Skill)
	}
	attempts := map[int][]memory.Event{} // of the nodes as they are now
	var loose []memory.Event
	for _, e := range r.Events {
		switch e.Kind {
		case memory.Tried:
			if e.Node == 0 {
				loose = append(loose, e)
			} else {
				attempts[e.Node] = append(attempts[e.Node], e)
			}
		case memory.Repaired:
			for n := range attempts {
				if n >= e.Node {
					delete(attempts, n)
				}
			}
		}
	}
	if r.State != nil {
		for _, n := range r.State.Nodes {
			name := n.Planned
			if n.Invoked != "" && n.Invoked != n.Planned {
				name = n.Invoked + " (for " + n.Planned + ")"
			}
			if n.Revision > 0 {
				name += fmt.Sprintf(" (repair %d)", n.Revision)
			}
			out.line(0, "%s %d %s", marks[n.Status], n.Index, name)
			for _, e := range attempts[n.Index] {
				out.line(1, "attempt %d %s: %s: %s", e.Attempt, e.Tool, e.Decision, e.Reason)
			}
			if n.Status == memory.Accepted {
				out.line(1, "%s", n.Arguments.JSON())
				out.line(1, "-> %s", n.Result)
			}
			if n.Diagnosis != "" {
				out.line(1, "%s", n.Diagnosis)
			}
		}
		for _, e := range r.State.Evidence {
			if e.Node == 0 { // a loop without plan
				out.line(0, "[x] %s %s", e.Tool, e.Arguments.JSON())
				out.line(1, "-> %s", e.Observation.JSON())
			}
		}
		for i, rev := range r.State.Archive {
			var old []string
			for _, n := range rev.Old {
				old = append(old, n.Planned)
			}
			out.line(0, "repair %d at step %d: %s", i+1, rev.At, rev.Diagnosis)
			out.line(1, "%s => %s", strings.Join(old, ", "), strings.Join(rev.New, ", "))
		}
	}
	for _, e := range loose {
		out.line(0, "[!] %s: %s", e.Tool, e.Reason)
	}
	switch {
	case r.Result == nil:
		out.line(0, "the run has not ended; go on with --resume")
	case r.Result.Reason != "":
		out.line(0, "%s: %s", r.Result.Status, r.Result.Reason)
	default:
		out.line(0, "%s", r.Result.Status)
	}
	if r.Result != nil {
		out.line(0, "answer: %s", r.Result.Answer)
		out.line(0, "%d tool calls, %d model calls, %d tokens, %.1f s", r.Result.ToolCalls, r.Result.ModelCalls, r.Result.Tokens, r.Result.Seconds)
	}
	return out.err
}

type writer struct {
	w   io.Writer
	err error
}

// line writes one line, long ones cut and control characters made harmless:
// tool text must not drive the terminal.
func (w *writer) line(depth int, format string, args ...any) {
	if w.err != nil {
		return
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, fmt.Sprintf(format, args...))
	const most = 400
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	_, w.err = fmt.Fprintln(w.w, strings.Repeat("    ", depth)+text)
}
