package memory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"terraloom/data/strictjson"
)

// Sentinels for what callers branch on.
var (
	ErrLocked  = errors.New("another process writes this run")
	ErrJournal = errors.New("damaged journal")
	ErrExists  = errors.New("the run exists")
)

// JournalFile is the journal's name in a run's folder.
const JournalFile = "journal.jsonl"

// Kind of an event.
type Kind string

// The kinds of events. Planned, Committed, Noted, GaveUp, Repaired and Stopped
// change the state; the others tell what happened between.
const (
	Begun        Kind = "begin"        // Detail: task and configuration
	Routed       Kind = "route"        // Detail: skill and candidates
	Planned      Kind = "plan"         // Tools
	Refused      Kind = "refuse"       // Tools, Reason: a plan or suffix that was not installed
	Called       Kind = "call"         // the environment is about to be called: Node, Attempt, Tool, Arguments
	Tried        Kind = "attempt"      // Node, Attempt, Tool, Arguments, Observation, Decision, Reason
	Committed    Kind = "accept"       // Node, Record, Reason (the summary)
	Noted        Kind = "note"         // Record, Reason: an accepted call of a loop without plan
	GaveUp       Kind = "fail"         // Node, Reason (the diagnosis)
	Repaired     Kind = "repair"       // Node, Tools, Reason (the diagnosis)
	Stopped      Kind = "stop"         // Node, Reason: the last node that was needed
	Insufficient Kind = "insufficient" // Node to reopen (0 for none named), Reason: of the answer controller
	Drafted      Kind = "draft"        // Attempt, Reason: an answer that is checked before it is given
	Answered     Kind = "answer"       // Detail: the answer
	Spent        Kind = "spent"        // Detail: counters so far
	Ended        Kind = "end"          // Reason: the status
)

// Event is one line of a journal.
type Event struct {
	Seq         int              `json:"seq"`
	Time        time.Time        `json:"time"`
	Kind        Kind             `json:"kind"`
	Node        int              `json:"node,omitempty"`
	Attempt     int              `json:"attempt,omitempty"`
	Tool        string           `json:"tool,omitempty"`
	Tools       []string         `json:"tools,omitempty"`
	Arguments   strictjson.Value `json:"arguments,omitzero"`
	Observation strictjson.Value `json:"observation,omitzero"`
	Decision    string           `json:"decision,omitempty"`
	Reason      string           `json:"reason,omitempty"`
	Reply       string           `json:"reply,omitempty"` // the model's words behind an attempt
	Next        string           `json:"next,omitempty"`  // the tool of the next attempt
	Code        string           `json:"code,omitempty"`  // of a refusal or an error
	Record      *Record          `json:"record,omitempty"`
	Detail      json.RawMessage  `json:"detail,omitempty"`
}

// Apply makes the change of an event; events that change nothing are passed by.
// A Planned event gives a new state.
func Apply(s *State, e *Event) (*State, error) {
	switch e.Kind {
	case Planned:
		return Init(e.Tools), nil
	case Committed, Noted, GaveUp, Repaired, Stopped:
		if s == nil {
			return nil, fmt.Errorf("%w: event %d (%s) before a plan", ErrJournal, e.Seq, e.Kind)
		}
	}
	var err error
	switch e.Kind {
	case Committed:
		if e.Record == nil {
			return nil, fmt.Errorf("%w: event %d accepts nothing", ErrJournal, e.Seq)
		}
		err = s.Accept(e.Node, *e.Record, e.Reason)
	case Noted:
		if e.Record == nil {
			return nil, fmt.Errorf("%w: event %d notes nothing", ErrJournal, e.Seq)
		}
		s.Note(*e.Record)
	case GaveUp:
		err = s.Fail(e.Node, e.Reason)
	case Repaired:
		err = s.Repair(e.Node, e.Tools, e.Reason)
	case Stopped:
		err = s.Stop(e.Node, e.Reason)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: event %d: %w", ErrJournal, e.Seq, err)
	}
	return s, nil
}

// Replay is the state that events lead to; nil before a plan.
func Replay(events []Event) (*State, error) {
	var s *State
	for i := range events {
		var err error
		if s, err = Apply(s, &events[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Journal is an append-only file of events. Each is on disk before Append
// returns, as one line: a crash leaves an event whole or not at all.
type Journal struct {
	file *os.File
	lock *flock.Flock
	seq  int
	now  func() time.Time
}

// Create starts the journal of a new run in a folder, which it makes. A folder
// that has one is ErrExists.
func Create(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	j, events, err := open(dir)
	if err != nil {
		return nil, err
	}
	if len(events) > 0 {
		return nil, errors.Join(fmt.Errorf("%w: %s; resume it or name another folder", ErrExists, dir), j.Close())
	}
	return j, nil
}

// Open goes on with a journal and returns the events so far. A last line that
// was cut short is dropped; any other damage is ErrJournal.
func Open(dir string) (*Journal, []Event, error) {
	if _, err := os.Stat(filepath.Join(dir, JournalFile)); err != nil {
		return nil, nil, err
	}
	return open(dir)
}

func open(dir string) (*Journal, []Event, error) {
	path := filepath.Join(dir, JournalFile)
	lock := flock.New(path + ".lock")
	got, err := lock.TryLock()
	if err != nil {
		return nil, nil, err
	}
	if !got {
		return nil, nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	j := &Journal{file: file, lock: lock, now: time.Now}
	events, whole, err := read(file, path)
	if err == nil {
		err = file.Truncate(whole)
	}
	if err == nil {
		_, err = file.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	j.seq = len(events)
	return j, events, nil
}

// Read returns the events of a run's journal without writing to it.
func Read(dir string) ([]Event, error) {
	path := filepath.Join(dir, JournalFile)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	events, _, err := read(file, path)
	return events, err
}

// read returns the events and the length of the whole lines.
func read(r io.Reader, path string) (events []Event, whole int64, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return events, whole, nil // what is left has no end: it was cut short
		}
		if err != nil {
			return nil, 0, err
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		var e Event
		if err := d.Decode(&e); err != nil {
			return nil, 0, fmt.Errorf("%w: %s:%d: %w", ErrJournal, path, line, err)
		}
		if e.Seq != line {
			return nil, 0, fmt.Errorf("%w: %s:%d: it has the number %d", ErrJournal, path, line, e.Seq)
		}
		events, whole = append(events, e), whole+int64(len(text))
	}
}

// Append writes an event; its Seq and Time are set here.
func (j *Journal) Append(e *Event) error {
	e.Seq, e.Time = j.seq+1, j.now().UTC()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if _, err := j.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.seq++
	return nil
}

// Close releases the journal.
func (j *Journal) Close() error {
	return errors.Join(j.file.Close(), j.lock.Unlock())
}
