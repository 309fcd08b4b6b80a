package rsure

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/tools"
)

// RS-6, RS-11, RS-17, RS-18, RS-21: what the rules refuse costs no verifier call;
// accept, reject and request give three entries of h_t and one of Hver.
func TestRS21Histories(t *testing.T) {
	script := llm.NewScript(llm.Line{Reply: `{"decision": "accept"}`}, llm.Line{Reply: `{"decision": "reject", "reason": "another harbour"}`}, llm.Line{Reply: `{"decision": "request_evidence", "needed": "a closer view"}`})
	s := (&Protocol{Level: Full, Limits: DefaultLimits, Verifier: script}).Start("How many ships are there?", nil)
	judge := func(tool string, r *tools.Result) Judgement {
		t.Helper()
		j, err := s.Judge(context.Background(), Action{tool, parse(t, "{}")}, r, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	bad := whole(t, tools.Execute)
	bad.Evidence.Formula = ""
	if j := judge("a", bad); j.Rules || j.Decision != Reject || len(script.Asked("")) != 0 {
		t.Errorf("%+v, %d verifier calls", j, len(script.Asked("")))
	}
	for i, want := range []Decision{Accept, Reject, Request} {
		if j := judge(string(rune('b'+i)), whole(t, tools.Execute)); j.Decision != want || !j.Rules {
			t.Errorf("%+v, want %s", j, want)
		}
	}
	h, ver := s.History(), s.Verified()
	if len(h) != 4 || len(ver) != 1 || ver[0].Action.Tool != "b" {
		t.Fatalf("%d, %d", len(h), len(ver))
	}
	if h[2].Observation.Kind() != 0 || h[2].Feedback != "another harbour" || h[0].Decision != "" {
		t.Errorf("%+v", h)
	}
	card := &tools.Result{Value: parse(t, `"Theil-Sen is robust."`), Evidence: tools.Evidence{Family: tools.Retrieve, Status: tools.OK}}
	if j := judge("retrieve", card); j.Decision != Accept || len(s.Verified()) != 2 || !s.Verified()[1].Card {
		t.Errorf("%+v", j)
	}
	failed, requested, later, rejected := s.Funnel()
	if !failed || !requested || !later || rejected != 2 {
		t.Errorf("%v %v %v %d", failed, requested, later, rejected)
	}
}

// RS-10: repeated calls are refused, whatever the order of their keys or the
// spelling of their numbers; after a transient failure the same call is allowed.
func TestRS10Novel(t *testing.T) {
	s := (&Protocol{Level: Deterministic, Limits: DefaultLimits}).Start("q", nil)
	a := Action{"mean", parse(t, `{"x":[1.0,2],"y":{"b":1,"a":2}}`)}
	if _, err := s.Judge(context.Background(), a, whole(t, tools.Execute), nil, true); err != nil {
		t.Fatal(err)
	}
	for args, repeated := range map[string]bool{`{"y":{"a":2,"b":1},"x":[1,2.0]}`: true, `{"x":[2,1],"y":{"b":1,"a":2}}`: false} {
		why, err := s.Before(Action{"mean", parse(t, args)})
		if err != nil || strings.HasPrefix(why, "repeated_call") != repeated {
			t.Errorf("%s: %q, %v", args, why, err)
		}
	}
	b := Action{"mean", parse(t, `{"x":[9]}`)}
	if _, err := s.Judge(context.Background(), b, &tools.Result{}, &tools.Error{Kind: tools.ErrEnvironment, Msg: "away"}, true); err != nil {
		t.Fatal(err)
	}
	if why, err := s.Before(b); why != "" || err != nil {
		t.Errorf("after a transient failure: %q, %v", why, err)
	}
}

// RS-18: a request says what is needed and a rejection why; a reply that does not
// is asked for once more, and then counts as a request.
func TestRS18BadVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		replies []string
		want    Decision
		asked   int
	}{
		"reject without reason, then with": {[]string{`{"decision": "reject"}`, `{"decision": "reject", "reason": "r"}`}, Reject, 2},
		"request without need":             {[]string{`{"decision": "request_evidence"}`, `{"decision": "accept"}`}, Accept, 2},
		"garbage twice":                    {[]string{"fine", `{"decision": "maybe"}`}, Request, 2},
		"at once":                          {[]string{`{"decision": "accept"}`}, Accept, 1},
	} {
		var lines []llm.Line
		for _, r := range c.replies {
			lines = append(lines, llm.Line{Role: "verifier", Reply: r})
		}
		script := llm.NewScript(lines...)
		s := (&Protocol{Level: Full, Limits: DefaultLimits, Verifier: script}).Start("How many ships are there?", nil)
		j, err := s.Judge(context.Background(), Action{"x", parse(t, "{}")}, whole(t, tools.Execute), nil, true)
		if err != nil || j.Decision != c.want || len(script.Asked("verifier")) != c.asked {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
	}
}

// RS-12: keyword rules first, the model where none matches.
func TestRS12Classify(t *testing.T) {
	script := llm.NewScript(llm.Line{Reply: "Situation Inference."}, llm.Line{Reply: "none of them"})
	for _, c := range []struct {
		question, want string
		asked          int
	}{{"How many aircraft stand on the apron?", "Object Counting", 0}, {"xyzzy", "Situation Inference", 1}, {"plugh", Unknown, 2}} {
		got, err := Classify(context.Background(), script, "", c.question)
		if err != nil || got != c.want || len(script.Asked("")) != c.asked {
			t.Errorf("%s: %s, %v, %d calls", c.question, got, err, len(script.Asked("")))
		}
	}
	if got, err := Classify(context.Background(), nil, "", "xyzzy"); got != Unknown || err != nil {
		t.Errorf("without model: %s, %v", got, err)
	}
}

// RS-13: (n_valid + 1)/(n + 2).
func TestRS13Smoothing(t *testing.T) {
	for _, c := range []struct {
		valid, calls int
		want         float64
	}{{1, 8, .2}, {0, 0, .5}, {8, 8, .9}, {100, 110, .901786}} {
		if got := (&Count{Valid: c.valid, Calls: c.calls}).Reliability(); math.Abs(got-c.want) > 5e-7 {
			t.Errorf("%d of %d: %v", c.valid, c.calls, got)
		}
	}
}

// RS-14: coarse ids are mode, metric or operator; fine ids add backend and view, or
// relation and layer; execute has none. Each level has its own counts.
func TestRS14Configurations(t *testing.T) {
	for _, c := range []struct {
		tool, args, coarse, fine string
	}{
		{"rs_perceive", `{"mode":"objects","view":"tiles"}`, "perceive:objects", "perceive:objects|auto|tiles"},
		{"measure", `{"spec":{"metric":"count"},"sources":[{"mode":"objects"}]}`, "measure:count", "measure:count|auto|objects"},
		{"execute", `{"dag":{"nodes":[{"op":"asset.catalog"},{"op":"raster.product"}]}}`, "execute:raster.product", ""},
		{"SM3Det", `{}`, "perceive:objects", "perceive:objects|SM3Det|auto"},
		{"mean", `{}`, "execute:mean", ""},
		{"calculate_area", `{}`, "measure:area", "measure:area|auto|calculate_area"},
	} {
		if got := ConfigOf(Action{c.tool, parse(t, c.args)}); got.Coarse != c.coarse || got.Fine != c.fine {
			t.Errorf("%s: %+v", c.tool, got)
		}
	}
	var samples []Sample
	add := func(fine string, valid, n int) {
		for i := range n {
			samples = append(samples, Sample{"Object Counting", Config{"measure", "measure:count", fine}, i < valid})
		}
	}
	add("measure:count|auto|objects", 9, 10)
	add("measure:count|inside|objects", 1, 2)
	p, err := Fit(samples, []string{"c1"}, []string{"t1"})
	if err != nil {
		t.Fatal(err)
	}
	r, level := p.Lookup("Object Counting", Config{Coarse: "measure:count"}, 8)
	if level != "coarse" || math.Abs(*r-11.0/14) > 1e-12 {
		t.Errorf("%v %s, want 11/14", *r, level)
	}
}

// RS-15: fine, then coarse, then none, by n_min = 8; without a prior no number
// reaches the verifier.
func TestRS15Fallback(t *testing.T) {
	c := Config{Coarse: "c", Fine: "f"}
	for _, n := range []struct {
		fine, coarse int
		want         string
	}{{8, 20, "fine"}, {7, 8, "coarse"}, {7, 7, ""}, {0, 0, ""}} {
		p := &Prior{Coarse: []Count{{"z", "c", n.coarse, n.coarse}}, Fine: []Count{{"z", "f", n.fine, n.fine}}}
		r, level := p.Lookup("z", c, DefaultLimits.Calibrate)
		if level != n.want || (r == nil) != (n.want == "") {
			t.Errorf("%d, %d: %s", n.fine, n.coarse, level)
		}
	}
	for name, p := range map[string]*Prior{"low": {Coarse: []Count{{"Object Counting", "execute:x", 1, 8}}}, "none": nil} {
		script := llm.NewScript(llm.Line{Reply: `{"decision": "accept"}`})
		s := (&Protocol{Level: Full, Limits: DefaultLimits, Prior: p, Verifier: script}).Start("How many ships are there?", nil)
		if _, err := s.Judge(context.Background(), Action{"x", parse(t, "{}")}, whole(t, tools.Execute), nil, true); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"low": `"prior":0.2}`, "none": `"prior":null}`}[name]
		if user := script.Asked("")[0].Messages[1].Content; !strings.HasSuffix(user, want) {
			t.Errorf("%s: …%s", name, user[len(user)-40:])
		}
	}
}

// RS-16: calibration is disjoint from the test set; the matrix is frozen and
// keeps its hash through a file and through online use.
func TestRS16Calibration(t *testing.T) {
	sample := []Sample{{"Object Counting", Config{"execute", "execute:x", ""}, true}}
	if _, err := Fit(sample, []string{"a", "b"}, []string{"b"}); !errors.Is(err, ErrPrior) || !strings.Contains(err.Error(), "b") {
		t.Errorf("%v", err)
	}
	if _, err := Fit(nil, nil, nil); !errors.Is(err, ErrPrior) {
		t.Errorf("%v", err)
	}
	p, err := Fit(sample, []string{"a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prior.json")
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := ReadPrior(path)
	if err != nil || read.Hash() != p.Hash() {
		t.Fatalf("%v", err)
	}
	script := llm.NewScript(llm.Line{Reply: `{"decision": "accept"}`, Repeat: true})
	s := (&Protocol{Level: Full, Limits: DefaultLimits, Prior: read, Verifier: script}).Start("How many ships are there?", nil)
	for _, x := range []string{"1", "2", "3"} {
		if _, err := s.Judge(context.Background(), Action{"x", parse(t, x)}, whole(t, tools.Execute), nil, true); err != nil {
			t.Fatal(err)
		}
	}
	if read.Hash() != p.Hash() {
		t.Error("online use changes the prior")
	}
}

// RS-19 and RS-20 on the session itself: 1 + 3 calls for a request, H_max calls in
// all.
func TestLimits(t *testing.T) {
	script := llm.NewScript(llm.Line{Reply: `{"decision": "request_evidence", "needed": "more"}`, Repeat: true})
	s := (&Protocol{Level: Full, Limits: Limits{FollowUps: 3, Calls: 10}, Verifier: script}).Start("How many ships are there?", nil)
	made := 0
	for i := range 20 {
		a := Action{"x", parse(t, strings.Repeat("[", i+1)+strings.Repeat("]", i+1))}
		why, err := s.Before(a)
		if err != nil || why != "" {
			if !strings.HasPrefix(why, "closed_request") {
				t.Errorf("%q, %v", why, err)
			}
			break
		}
		made++
		if _, err := s.Judge(context.Background(), a, whole(t, tools.Execute), nil, true); err != nil {
			t.Fatal(err)
		}
	}
	if made != 4 || s.Open() {
		t.Errorf("%d calls", made)
	}
	for i := range 6 {
		if _, err := s.Judge(context.Background(), Action{"y", parse(t, strings.Repeat("[", i+1)+strings.Repeat("]", i+1))}, whole(t, tools.Execute), nil, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Before(Action{"z", parse(t, "{}")}); !errors.Is(err, ErrCalls) || s.Calls() != 10 {
		t.Errorf("%v after %d calls", err, s.Calls())
	}
}

// RS-22: the answer is made from question, requirement and verified history, in a
// context of its own.
func TestRS22AnswerContext(t *testing.T) {
	script := llm.NewScript(llm.Line{Reply: " B \n"})
	got, err := Answer(context.Background(), script, "m", "Which?", parse(t, "{}"), "Answer with exactly one of these candidates: A, B", nil, nil)
	if err != nil || got != "B" {
		t.Fatalf("%q, %v", got, err)
	}
	r := script.Asked("answer")[0]
	if len(r.Messages) != 2 || !strings.Contains(r.Messages[1].Content, `"observations":[]`) || !strings.Contains(r.Messages[0].Content, "Invent no measurement") || !strings.Contains(r.Messages[0].Content, "choose exactly one of them") {
		t.Errorf("%+v", r)
	}
}
