package eval

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// ErrRun is returned for a run folder or a reference file that cannot be read.
var ErrRun = errors.New("not a readable run")

// The files of a run folder, each plain or with .gz behind its name.
const (
	callsFile   = "extracted_tool_calls.json"
	answersFile = "results_summary_polished.json"
	aboutFile   = "run.json" // plain only, and it may be missing
)

// maxFile is the most bytes of a file, unpacked.
const maxFile = 1 << 30

// Prediction is what a run recorded for one question.
type Prediction struct {
	Calls    []Call
	Planned  bool      // Calls are a plan that was never executed: names only
	Rejected int       // calls that were made and not accepted; they are not in Calls
	Failed   bool      // the run recorded an error for this question
	Answered bool      // there is an answer record, perhaps an empty one
	Answer   string    // what letter and number are read from
	Original string    // the model's own words, before any clean-up
	Spent    *Spent    // nil where the run did not record it
	Verified *Verified // by the observation protocol, Correct left open; nil where not recorded
	traced   bool      // there is a trace record
}

// What a run did.
const (
	EndToEnd     = "end-to-end"
	PlanningOnly = "planning-only" // plans, never executed
	OraclePlan   = "oracle-plan"   // the reference plan, executed
)

// Run is a recorded run.
type Run struct {
	Name        string // of its folder
	Regime      string // if, ap or ow; "" where unknown
	Setting     string // one of the Setting constants
	Predictions map[string]*Prediction
}

// ReadRun reads a run folder: extracted_tool_calls.json, a list of
// {question_index, tool_calls [{name, input, output?, decision?}], error?}, and
// results_summary_polished.json, a list of {question_id, final_answer,
// original_answer?}. A call whose decision is there and is not "accept" is no
// part of the trace. A record of a plan alone has "plan", a list of names, in
// place of tool_calls. A record may also have spent {model_calls, tokens, seconds}
// and verified {failed, requested, accepted, rejected}. Other members are ignored.
// run.json, where it is there, is {"regime", "setting"}; else the regime is read
// off the end of the folder's name (gpt5_AP) and the setting off the records.
// Errors wrap ErrRun.
func ReadRun(dir string) (*Run, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	run := &Run{Name: filepath.Base(abs), Predictions: map[string]*Prediction{}}
	run.Regime = regimeOf(run.Name)
	traces, err := readRecords(filepath.Join(dir, callsFile), "question_index")
	if err != nil {
		return nil, err
	}
	for _, r := range traces {
		p := &Prediction{traced: true}
		if err := r.trace(p); err != nil {
			return nil, err
		}
		run.Predictions[r.id] = p
	}
	answers, err := readRecords(filepath.Join(dir, answersFile), "question_id")
	if err != nil {
		return nil, err
	}
	for _, r := range answers {
		p := run.Predictions[r.id]
		if p == nil {
			p = &Prediction{}
			run.Predictions[r.id] = p
		}
		if err := r.answer(p); err != nil {
			return nil, err
		}
	}
	return run, run.describe(filepath.Join(dir, aboutFile))
}

// ReadPrediction reads one entry of extracted_tool_calls.json and one of
// results_summary_polished.json, as ReadRun does. Errors wrap ErrRun.
func ReadPrediction(trace, answer strictjson.Value) (*Prediction, error) {
	p := &Prediction{traced: true}
	if err := (record{value: trace, path: callsFile}).trace(p); err != nil {
		return nil, err
	}
	return p, (record{value: answer, path: answersFile}).answer(p)
}

// describe finds out what the run did, from run.json where it is there.
func (r *Run) describe(path string) error {
	r.Setting = EndToEnd
	for _, p := range r.Predictions {
		if p.Planned {
			r.Setting = PlanningOnly
		}
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRun, err)
	}
	about, err := strictjson.Parse(text)
	if err != nil {
		return fmt.Errorf("%w: %s:%w", ErrRun, path, err)
	}
	regime, setting := about.Get("regime"), about.Get("setting")
	if !regime.IsAbsent() {
		if r.Regime = regime.Text(); !slices.Contains(regimes, r.Regime) {
			return fmt.Errorf("%w: %s: /regime: expected %s, found %s", ErrRun, path, strings.Join(regimes, ", "), shape(regime))
		}
	}
	if !setting.IsAbsent() {
		known := []string{EndToEnd, PlanningOnly, OraclePlan}
		if !slices.Contains(known, setting.Text()) || (setting.Text() == PlanningOnly) != (r.Setting == PlanningOnly) {
			return fmt.Errorf("%w: %s: /setting: expected %s, and %s exactly where records have plans; found %s",
				ErrRun, path, strings.Join(known, ", "), PlanningOnly, shape(setting))
		}
		r.Setting = setting.Text()
	}
	return nil
}

// record is one entry of a list file, with its place for errors.
type record struct {
	id    string
	value strictjson.Value
	path  string
	index int
}

func (r record) fault(pointer, format string, args ...any) error {
	return fmt.Errorf("%w: %s: /%d%s: %s", ErrRun, r.path, r.index, pointer, fmt.Sprintf(format, args...))
}

// trace reads the calls or the plan of a record.
func (r record) trace(p *Prediction) (err error) {
	plan, hasCalls := r.value.Get("plan"), !r.value.Get("tool_calls").IsAbsent()
	switch {
	case plan.IsAbsent():
		if p.Calls, err = r.calls(); err != nil {
			return err
		}
		p.Rejected = r.value.Get("tool_calls").Len() - len(p.Calls)
	case hasCalls || plan.Kind() != strictjson.Array:
		return r.fault("/plan", "expected a list of names in place of tool_calls, found %s", shape(plan))
	default:
		p.Planned = true
		for i := range plan.Len() {
			if plan.Index(i).Kind() != strictjson.String {
				return r.fault(fmt.Sprintf("/plan/%d", i), "expected a tool name, found %s", shape(plan.Index(i)))
			}
			p.Calls = append(p.Calls, Call{Name: plan.Index(i).Text()})
		}
	}
	if p.Spent, err = member[Spent](r, "spent", "model_calls, tokens and seconds"); err != nil {
		return err
	}
	if p.Verified, err = member[Verified](r, "verified", "failed, requested, accepted and rejected"); err != nil {
		return err
	}
	switch e := r.value.Get("error"); e.Kind() {
	case strictjson.Absent, strictjson.Null:
	case strictjson.Bool:
		p.Failed = e.True()
	case strictjson.String:
		p.Failed = e.Text() != ""
	default:
		return r.fault("/error", "expected true, false or a text, found %s", shape(e))
	}
	return nil
}

// member reads an optional member of a record, an object of the keys, nil where it
// is not there.
func member[T any](r record, key, keys string) (*T, error) {
	v := r.value.Get(key)
	if v.IsAbsent() {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(v.JSON()))
	d.DisallowUnknownFields()
	out := new(T)
	if err := d.Decode(out); err != nil || v.Kind() != strictjson.Object {
		return nil, r.fault("/"+key, "expected an object of %s, found %s", keys, shape(v))
	}
	return out, nil
}

// decisionAccept is the decision of a call that belongs to the trace.
const decisionAccept = "accept"

// calls reads the accepted calls of a record.
func (r record) calls() ([]Call, error) {
	list := r.value.Get("tool_calls")
	if list.Kind() != strictjson.Array {
		return nil, r.fault("/tool_calls", "expected a list of calls, found %s", shape(list))
	}
	calls := make([]Call, 0, list.Len())
	for i := range list.Len() {
		c, at := list.Index(i), fmt.Sprintf("/tool_calls/%d", i)
		name, input, decision := c.Get("name"), c.Get("input"), c.Get("decision")
		switch {
		case c.Kind() != strictjson.Object:
			return nil, r.fault(at, "expected an object with name and input, found %s", shape(c))
		case name.Kind() != strictjson.String:
			return nil, r.fault(at+"/name", "expected a text, found %s", shape(name))
		case input.IsAbsent():
			return nil, r.fault(at+"/input", "missing; it holds the arguments")
		case !decision.IsAbsent() && decision.Kind() != strictjson.String:
			return nil, r.fault(at+"/decision", "expected accept, retry or replace, found %s", shape(decision))
		case decision.IsAbsent() || decision.Text() == decisionAccept:
			calls = append(calls, Call{name.Text(), input, c.Get("output")})
		}
	}
	return calls, nil
}

// answer reads final_answer, or polished_answer where that is empty.
func (r record) answer(p *Prediction) error {
	text := func(key string) (string, error) {
		switch v := r.value.Get(key); v.Kind() {
		case strictjson.String:
			return v.Text(), nil
		case strictjson.Absent, strictjson.Null:
			return "", nil
		default:
			return "", r.fault("/"+key, "expected a text or null, found %s", shape(v))
		}
	}
	final, err1 := text("final_answer")
	polished, err2 := text("polished_answer")
	original, err3 := text("original_answer")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if r.value.Get("final_answer").IsAbsent() && r.value.Get("polished_answer").IsAbsent() {
		return r.fault("/final_answer", "missing; write null where there is no answer")
	}
	if final == "" {
		final = polished
	}
	if original == "" {
		original = final
	}
	p.Answered, p.Answer, p.Original = true, final, original
	return nil
}

// readRecords reads a file that is a list of objects, each with an id of its
// own in the member idKey.
func readRecords(path, idKey string) ([]record, error) {
	text, path, err := readPacked(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRun, err)
	}
	return parseRecords(path, text, idKey)
}

func parseRecords(path string, text []byte, idKey string) ([]record, error) {
	list, err := strictjson.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s:%w", ErrRun, path, err)
	}
	if list.Kind() != strictjson.Array {
		return nil, fmt.Errorf("%w: %s: expected a list of records, found %s", ErrRun, path, shape(list))
	}
	records, first := make([]record, list.Len()), map[string]int{}
	for i := range records {
		r := record{value: list.Index(i), path: path, index: i}
		if r.value.Kind() != strictjson.Object {
			return nil, r.fault("", "expected an object, found %s", shape(r.value))
		}
		id := r.value.Get(idKey)
		if id.Kind() != strictjson.String && !id.IsInteger() || id.Text() == "" {
			return nil, r.fault("/"+idKey, "expected the id of a question, found %s", shape(id))
		}
		r.id = questionID(id.Text())
		if j, repeated := first[r.id]; repeated {
			return nil, r.fault("/"+idKey, "%s is repeated; record %d has it too", r.id, j)
		}
		first[r.id], records[i] = i, r
	}
	return records, nil
}

// readPacked reads a file or, where only that is there, its .gz; it returns the
// path that it read.
func readPacked(path string) (text []byte, read string, err error) {
	if !strings.HasSuffix(path, ".gz") {
		_, plain := os.Stat(path)
		_, packed := os.Stat(path + ".gz")
		switch {
		case plain == nil && packed == nil:
			return nil, path, fmt.Errorf("%s and %s.gz are both there; remove one", path, path)
		case errors.Is(plain, fs.ErrNotExist) && errors.Is(packed, fs.ErrNotExist):
			return nil, path, fmt.Errorf("%s: neither the file nor its .gz is there: %w", path, fs.ErrNotExist)
		case plain != nil:
			path += ".gz"
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, path, err
	}
	defer file.Close()
	if strings.HasSuffix(path, ".gz") {
		text, err = unpack(file)
	} else {
		text, err = readLimited(file)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return text, path, err
}

// unpack reads a gzip stream to its end, checksum included.
func unpack(r io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	text, err := readLimited(z)
	return text, errors.Join(err, z.Close())
}

func readLimited(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(r, maxFile+1))
	if err == nil && n > maxFile {
		err = fmt.Errorf("longer than %d bytes", int64(maxFile))
	}
	return b.Bytes(), err
}

// questionID is the id of a question: digits alone get "question" before them.
func questionID(id string) string {
	if id != "" && strings.Trim(id, "0123456789") == "" {
		return "question" + id
	}
	return id
}

// shape names a value for an error.
func shape(v strictjson.Value) string {
	switch v.Kind() {
	case strictjson.Absent:
		return "nothing"
	case strictjson.Array, strictjson.Object:
		return fmt.Sprintf("%s of %d", v.Kind(), v.Len())
	}
	return fmt.Sprintf("%s %s", v.Kind(), clip(v.JSON()))
}

// clip shortens a text for an error.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
