package suite

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gofrs/flock"

	"terraloom/agent/eval"
	"terraloom/agent/run"
	"terraloom/data"
	"terraloom/data/strictjson"
)

// RecordsFile is the list of finished questions in a cell's folder.
const RecordsFile = "records.jsonl"

// Record is one finished question.
type Record struct {
	Question string           `json:"question"`
	Status   run.Status       `json:"status"`
	Trace    strictjson.Value `json:"trace"`  // its entry of extracted_tool_calls.json
	Answer   strictjson.Value `json:"answer"` // its entry of results_summary_polished.json
	Result   *run.Result      `json:"result"`
}

func recordOf(id string, o *run.Outcome) *Record {
	return &Record{Question: id, Status: o.Status, Trace: o.Trace(id), Answer: o.AnswerRecord(id), Result: o.Result()}
}

// failedRecord is a question that could not be tried: it stays in the denominator.
func failedRecord(id string, err error) *Record {
	return recordOf(id, &run.Outcome{Status: run.Broken, Reason: err.Error(), Errors: map[string]int{}})
}

// about is run.json of a cell.
type about struct {
	Regime  string     `json:"regime"`
	Setting string     `json:"setting"`
	Cell    Cell       `json:"cell"`
	Config  run.Config `json:"config"`
}

// ErrLocked is returned where another process runs the cell.
var ErrLocked = errors.New("another evaluation writes this folder")

// ErrRecords is returned for records that are damaged or of other settings.
var ErrRecords = errors.New("records cannot be gone on with")

// records is the open file.
type records struct {
	mu   sync.Mutex
	file *os.File
	lock *flock.Flock
	list []*Record
	seen map[string]bool
}

// openRecords opens a cell's folder, or makes it. One of other settings is
// refused; a last line that was cut short is dropped.
func openRecords(dir string, a *about) (_ *records, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, RecordsFile+".lock"))
	got, err := lock.TryLock()
	if err != nil {
		return nil, err
	}
	if !got {
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	r := &records{lock: lock, seen: map[string]bool{}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	want, err := marshal(a)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "run.json")
	switch was, rerr := os.ReadFile(path); {
	case errors.Is(rerr, os.ErrNotExist):
		if err := os.WriteFile(path, want, 0o644); err != nil {
			return nil, err
		}
	case rerr != nil:
		return nil, rerr
	case !bytes.Equal(was, want):
		return nil, fmt.Errorf("%w: %s was made with the settings %s these are %s name another folder", ErrRecords, path, was, want)
	}
	name := filepath.Join(dir, RecordsFile)
	if r.file, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, err
	}
	whole := int64(0)
	in := bufio.NewReaderSize(r.file, 1<<20)
	for line := 1; ; line++ {
		text, rerr := in.ReadBytes('\n')
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			return nil, rerr
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		var rec Record
		if err := d.Decode(&rec); err != nil {
			return nil, fmt.Errorf("%w: %s:%d: %w", ErrRecords, name, line, err)
		}
		if r.seen[rec.Question] {
			return nil, fmt.Errorf("%w: %s:%d: %s is there twice", ErrRecords, name, line, rec.Question)
		}
		r.seen[rec.Question], whole = true, whole+int64(len(text))
		r.list = append(r.list, &rec)
	}
	if err := r.file.Truncate(whole); err != nil {
		return nil, err
	}
	_, err = r.file.Seek(whole, io.SeekStart)
	return r, err
}

func (r *records) close() {
	if r.file != nil {
		_ = r.file.Close() // every record was synced
	}
	_ = r.lock.Unlock()
}

func (r *records) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[id]
}

func (r *records) records() []*Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// add writes a record, and then calls f before the next one is written.
func (r *records) add(rec *Record, f func()) error {
	line, err := marshal(rec)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[rec.Question] {
		return fmt.Errorf("%w: %s is there already", ErrRecords, rec.Question)
	}
	if _, err := r.file.Write(line); err != nil {
		return err
	}
	if err := r.file.Sync(); err != nil {
		return err
	}
	r.seen[rec.Question] = true
	r.list = append(r.list, rec)
	f()
	return nil
}

// finish writes what the scorer reads, scores it, and writes the scores. Records
// stand in the order of the questions.
func finish(dir string, list []*Record, trajectories []*data.Trajectory, questions []eval.Question) (*eval.Scored, error) {
	byID := map[string]*Record{}
	for _, r := range list {
		byID[r.Question] = r
	}
	var traces, answers []strictjson.Value
	for _, t := range trajectories {
		if r := byID[t.ID]; r != nil {
			traces, answers = append(traces, r.Trace), append(answers, r.Answer)
		}
	}
	for name, list := range map[string][]strictjson.Value{"extracted_tool_calls.json": traces, "results_summary_polished.json": answers} {
		if err := os.WriteFile(filepath.Join(dir, name), append(strictjson.List(list...).AppendJSON(nil), '\n'), 0o644); err != nil {
			return nil, err
		}
	}
	scored, err := scoreRun(dir, questions)
	if err != nil {
		return nil, err
	}
	text, err := marshal(scored)
	if err != nil {
		return nil, err
	}
	return scored, os.WriteFile(filepath.Join(dir, "scores.json"), text, 0o644)
}

func scoreRun(dir string, questions []eval.Question) (*eval.Scored, error) {
	r, err := eval.ReadRun(dir)
	if err != nil {
		return nil, err
	}
	whole, err := eval.ParseSlice("")
	if err != nil {
		return nil, err
	}
	return eval.Score(r, questions, nil, whole)
}

// board keeps the running means of a cell.
type board struct {
	scores []eval.Record
	total  int
}

func newBoard(questions []eval.Question, done []*Record) *board {
	b := &board{total: len(questions)}
	for _, r := range done {
		if i := slices.IndexFunc(questions, func(q eval.Question) bool { return q.ID == r.Question }); i >= 0 {
			b.scores = append(b.scores, *b.score(&questions[i], r))
		}
	}
	return b
}

// score scores one record, for the running means.
func (b *board) score(q *eval.Question, r *Record) *eval.Record {
	p, err := eval.ReadPrediction(r.Trace, r.Answer)
	if err != nil {
		p = nil // it counts as missing here; finish reports the fault
	}
	s := eval.ScoreQuestion(q, p)
	return &s
}

func (b *board) progress(c Cell, last *eval.Record) Progress {
	if last != nil {
		b.scores = append(b.scores, *last)
	}
	return Progress{Cell: c.Name(), Done: len(b.scores), Total: b.total, Means: eval.Average(b.scores, b.scores)}
}
