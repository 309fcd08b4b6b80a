package eval

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// folder makes a folder of files.
func folder(tb testing.TB, files map[string]string) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "model_AP")
	if err := os.Mkdir(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

func packed(tb testing.TB, text string) string {
	tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

const goodAnswers = `[{"question_id":"1","original_answer":"words","final_answer":"<Answer>B<Answer>"},{"question_id":"2","final_answer":null}]`

func TestReadRun(t *testing.T) {
	traces := `[{"question_index":"1","query":"q","tool_calls":[{"name":"f","input":{"x":1},"output":"Error: no"},{"name":"g","input":"text"}],"error":true,"other":1},
		{"question_index":"question3","tool_calls":[]}]`
	run, err := ReadRun(folder(t, map[string]string{callsFile: traces, answersFile + ".gz": packed(t, goodAnswers)}))
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := run.Predictions["question1"], run.Predictions["question2"], run.Predictions["question3"]
	if run.Name != "model_AP" || run.Regime != "ap" || run.Setting != EndToEnd || len(run.Predictions) != 3 {
		t.Errorf("%+v", run)
	}
	if len(one.Calls) != 2 || !one.Failed || one.Answer != "<Answer>B<Answer>" || one.Original != "words" {
		t.Errorf("%+v", one)
	}
	if two.traced || !two.Answered || two.Answer != "" || !three.traced || three.Answered {
		t.Errorf("%+v, %+v", two, three)
	}
}

func TestEVAL2AcceptedCallsOnly(t *testing.T) {
	traces := `[{"question_index":"1","tool_calls":[{"name":"f","input":{"x":0},"decision":"retry"},{"name":"f","input":{"x":1},"decision":"accept"}]}]`
	run, err := ReadRun(folder(t, map[string]string{callsFile: traces, answersFile: "[]"}))
	if err != nil {
		t.Fatal(err)
	}
	p := run.Predictions["question1"]
	if len(p.Calls) != 1 || p.Rejected != 1 || p.Calls[0].Input.JSON() != `{"x":1}` {
		t.Errorf("%+v", p)
	}
}

func TestEVAL14PlanningOnly(t *testing.T) {
	dir := folder(t, map[string]string{callsFile: `[{"question_index":"1","plan":["f","g","h"]}]`, answersFile: "[]"})
	run, err := ReadRun(dir)
	if err != nil || run.Setting != PlanningOnly {
		t.Fatalf("%+v, %v", run, err)
	}
	q := []Question{{ID: "question1", Calls: calls(t, "f", "h"), Gold: NewGold("A")}}
	s, err := Score(run, q, nil, Slice{open: true, end: true})
	if err != nil {
		t.Fatal(err)
	}
	r := s.Records[0]
	if r.TAO != 1 || r.TIO != 1 || r.TEM != .5 || r.Param != nil || r.Efficiency != nil || r.Calls != 0 || s.Summary.Param != nil || s.Setting != PlanningOnly {
		t.Errorf("%+v", s)
	}
}

func TestRunFileSaysWhatRan(t *testing.T) {
	files := map[string]string{callsFile: `[{"question_index":"1","tool_calls":[]}]`, answersFile: "[]", aboutFile: `{"regime":"ow","setting":"oracle-plan"}`}
	run, err := ReadRun(folder(t, files))
	if err != nil || run.Regime != "ow" || run.Setting != OraclePlan {
		t.Errorf("%+v, %v", run, err)
	}
	for _, bad := range []string{`{"regime":"x"}`, `{"setting":1}`, `{"setting":"planning-only"}`, `{`} {
		files[aboutFile] = bad
		if _, err := ReadRun(folder(t, files)); !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), aboutFile) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestReadRunRefuses(t *testing.T) {
	for _, c := range []struct{ traces, answers, want string }{
		{`{}`, `[]`, "extracted_tool_calls.json: expected a list of records, found object of 0"},
		{`[1]`, `[]`, "/0: expected an object, found number 1"},
		{`[{"tool_calls":[]}]`, `[]`, "/0/question_index: expected the id of a question, found nothing"},
		{`[{"question_index":"","tool_calls":[]}]`, `[]`, "/0/question_index"},
		{`[{"question_index":"1","tool_calls":[]},{"question_index":"question1","tool_calls":[]}]`, `[]`, "/1/question_index: question1 is repeated; record 0 has it too"},
		{`[{"question_index":"1"}]`, `[]`, "/0/tool_calls: expected a list of calls, found nothing"},
		{`[{"question_index":"1","tool_calls":{}}]`, `[]`, "/0/tool_calls"},
		{`[{"question_index":"1","tool_calls":[1]}]`, `[]`, "/0/tool_calls/0: expected an object"},
		{`[{"question_index":"1","tool_calls":[{"name":null,"input":{}}]}]`, `[]`, "/0/tool_calls/0/name: expected a text, found null"},
		{`[{"question_index":"1","tool_calls":[{"name":"f"}]}]`, `[]`, "/0/tool_calls/0/input: missing"},
		{`[{"question_index":"1","tool_calls":[{"name":"f","input":{},"decision":1}]}]`, `[]`, "/0/tool_calls/0/decision"},
		{`[{"question_index":"1","tool_calls":[],"plan":[]}]`, `[]`, "/0/plan: expected a list of names in place of tool_calls"},
		{`[{"question_index":"1","plan":[1]}]`, `[]`, "/0/plan/0: expected a tool name"},
		{`[{"question_index":"1","tool_calls":[],"error":3}]`, `[]`, "/0/error"},
		{`[{"question_index":"1","tool_calls":[],"spent":3}]`, `[]`, "/0/spent: expected an object of model_calls, tokens and seconds, found number 3"},
		{`[{"question_index":"1","tool_calls":[],"verified":{"failed":1}}]`, `[]`, "/0/verified: expected an object of failed, requested, accepted and rejected, found object of 1"},
		{`[{"question_index":"1","tool_calls":[{"name":"f","input":{"x":NaN}}]}]`, `[]`, "extracted_tool_calls.json:1:"},
		{`[{"question_index":"1","question_index":"2","tool_calls":[]}]`, `[]`, "repeated"},
		{`[]`, `[{"question_id":"1"}]`, "results_summary_polished.json: /0/final_answer: missing"},
		{`[]`, `[{"question_id":"1","final_answer":{}}]`, "/0/final_answer: expected a text or null, found object of 0"},
		{`[]`, ``, "results_summary_polished.json:1:1"},
	} {
		_, err := ReadRun(folder(t, map[string]string{callsFile: c.traces, answersFile: c.answers}))
		if !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.traces, c.answers, err)
		}
	}
	if _, err := ReadRun(folder(t, map[string]string{callsFile: "[]"})); !errors.Is(err, ErrRun) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), answersFile) {
		t.Errorf("%v", err)
	}
	if _, err := ReadRun(folder(t, map[string]string{callsFile: "[]", callsFile + ".gz": packed(t, "[]"), answersFile: "[]"})); err == nil || !strings.Contains(err.Error(), "both there") {
		t.Errorf("%v", err)
	}
	whole := packed(t, goodAnswers)
	for _, cut := range []string{whole[:5], whole[:len(whole)-4], whole[:20] + "x" + whole[21:], whole + "x", ""} {
		if _, err := ReadRun(folder(t, map[string]string{callsFile: "[]", answersFile + ".gz": cut})); !errors.Is(err, ErrRun) {
			t.Errorf("%d of %d bytes: %v", len(cut), len(whole), err)
		}
	}
}

func TestReadReferenceRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`[{"question_index":"1","tool_calls":[],"final_answer":"A"}]`:                          "/0/tool_calls: a reference needs at least one call",
		`[{"question_index":"1","tool_calls":[{"name":"f","input":{}}]}]`:                      "/0/final_answer: expected a text or null, found nothing",
		`[{"question_index":"1","tool_calls":[{"name":"f","input":{}}],"final_answer":["A"]}]`: "/0/final_answer",
	} {
		path := filepath.Join(folder(t, map[string]string{"gt.json": text}), "gt.json")
		if _, err := ReadReference(path); !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSlice(t *testing.T) {
	list := []Question{{ID: "0"}, {ID: "1"}, {ID: "2"}, {ID: "3"}}
	for text, want := range map[string]string{"": "0123", ":": "0123", "1:": "123", ":-1": "012", "-2:": "23", "1:3": "12", "3:1": "", "9:": "", ":99": "0123", "-99:1": "0"} {
		s, err := ParseSlice(text)
		got := ""
		for _, q := range s.Of(list) {
			got += q.ID
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"1", "a:", "1:2:3", ":x", "1.5:", "99999999999999999999:"} {
		if _, err := ParseSlice(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestEVAL13MissingIsZeroAndPeerDropsIt(t *testing.T) {
	questions := []Question{
		{ID: "question1", Calls: calls(t, "f"), Gold: NewGold("B")},
		{ID: "question2", Calls: calls(t, "f"), Gold: NewGold("B")},
	}
	run, err := ReadRun(folder(t, map[string]string{
		callsFile:   `[{"question_index":"1","tool_calls":[{"name":"f","input":{}}]}]`,
		answersFile: `[{"question_id":"1","final_answer":"<Answer>B<Answer>"}]`}))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Score(run, questions, nil, Slice{open: true, end: true})
	if err != nil {
		t.Fatal(err)
	}
	all, peer := s.Summary.Means, s.Summary.Peer
	if all.Accuracy != .5 || all.TAO != .5 || *all.Param != .5 || *all.Efficiency != .5 || all.Questions != 2 || all.Answers != 2 {
		t.Errorf("%+v", all)
	}
	if peer.Accuracy != 1 || peer.TAO != 1 || *peer.Param != 1 || *peer.Efficiency != 1 || peer.Questions != 1 || peer.Answers != 1 {
		t.Errorf("%+v", peer)
	}
	if !reflect.DeepEqual(s.Summary.Missing, []string{"question2"}) || !reflect.DeepEqual(s.Summary.Failed, []string{"question2"}) {
		t.Errorf("%+v", s.Summary)
	}
}

// TestNothingMatchesNothing holds that a run of empty records scores nothing,
// also against empty references.
func TestNothingMatchesNothing(t *testing.T) {
	questions := []Question{{ID: "question1", Calls: calls(t, "f")}, {ID: "question2", Calls: calls(t, "f"), Gold: NewGold("100")}, {ID: "question3", Calls: calls(t, "f"), Gold: NewGold("B")},
		{ID: "question4", Calls: calls(t, "f"), Gold: NewGold("B")}, {ID: "question5", Calls: calls(t, "f"), Gold: NewGold("B")}}
	run, err := ReadRun(folder(t, map[string]string{
		callsFile: `[{"question_index":"1","tool_calls":[{"name":"","input":{}}]},{"question_index":"5","tool_calls":[],"error":"timed out"}]`,
		answersFile: `[{"question_id":"1","final_answer":""},{"question_id":"2","final_answer":"nan"},{"question_id":"3","final_answer":null},
			{"question_id":"4","final_answer":"FAIL"}]`}))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Score(run, questions, nil, Slice{open: true, end: true})
	if err != nil {
		t.Fatal(err)
	}
	if m := s.Summary.Means; m.Accuracy != 0 || m.TAO != 0 || *m.Param != 0 || m.RougeL != 0 {
		t.Errorf("%+v", m)
	}
	want := map[string]int{FailureNoAnswer: 2, FailureWrong: 1, FailureRefused: 1, FailureError: 1}
	if !reflect.DeepEqual(s.Summary.Failures, want) || len(s.Summary.Failed) != 3 {
		t.Errorf("%v, %v", s.Summary.Failures, s.Summary.Failed)
	}
	if _, err := Score(run, questions, nil, Slice{from: 9, end: true}); !errors.Is(err, ErrReference) {
		t.Errorf("%v", err)
	}
	if _, err := Score(run, questions[:1], questions, Slice{open: true, end: true}); !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), "question2") {
		t.Errorf("%v", err)
	}
}

// FuzzRun feeds both files of a run to the readers and scores what they accept.
func FuzzRun(f *testing.F) {
	f.Add([]byte(`[{"question_index":"1","tool_calls":[{"name":"f","input":{"x":[1,2.0,null]},"output":"Error"}],"error":true}]`), []byte(goodAnswers))
	f.Add([]byte(`[{"question_index":1,"plan":["f"]}]`), []byte(`[{"question_id":7,"polished_answer":"A"}]`))
	f.Add([]byte(`[{"question_index":"1","tool_calls":[{"name":"f","input":1e999,"decision":"x"}]}]`), []byte("\x1f\x8b"))
	q := []Question{{ID: "question1", Calls: []Call{{Name: "f", Input: parsed(f, `{"x":[1,2,null]}`)}}, Gold: NewGold("B")}}
	f.Fuzz(func(t *testing.T, traces, answers []byte) {
		run := &Run{Predictions: map[string]*Prediction{}}
		list, err := parseRecords("traces", traces, "question_index")
		for _, r := range list {
			p := &Prediction{traced: true}
			if e := r.trace(p); e != nil {
				err = e
				break
			}
			run.Predictions[r.id] = p
		}
		if err != nil && !errors.Is(err, ErrRun) {
			t.Fatalf("%v", err)
		}
		list, err = parseRecords("answers", answers, "question_id")
		for _, r := range list {
			p := &Prediction{}
			if e := r.answer(p); e != nil {
				err = e
				break
			}
			run.Predictions[r.id] = p
		}
		if err != nil && !errors.Is(err, ErrRun) {
			t.Fatalf("%v", err)
		}
		s, err := Score(run, q, nil, Slice{open: true, end: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Records[0].check(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte(packed(f, goodAnswers)))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if text, err := unpack(bytes.NewReader(file)); err == nil && len(text) > maxFile {
			t.Fatalf("%d bytes", len(text))
		}
	})
}
