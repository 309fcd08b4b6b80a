package eval

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Why a question counts as not answered right.
const (
	FailureMissing  = "missing"      // the run has neither trace nor answer
	FailureError    = "error"        // the run recorded an error
	FailureNoAnswer = "no_answer"    // an empty answer, or one without a letter or number
	FailureRefused  = "refused"      // the answer says FAIL
	FailureWrong    = "wrong_answer" // an answer that does not match
)

// Record is the score of one question.
type Record struct {
	Question   string   `json:"question"`
	Domain     string   `json:"domain,omitempty"`
	Skill      string   `json:"skill,omitempty"`
	TAO        float64  `json:"tao"`
	TIO        float64  `json:"tio"`
	TEM        float64  `json:"tem"`
	Param      *float64 `json:"param"`      // null for a plan without calls
	Efficiency *float64 `json:"efficiency"` // null for a plan without calls
	Predicted  string   `json:"predicted"`  // what was compared: a letter, UNKNOWN, FAIL or a text; "" without an answer
	Correct    bool     `json:"correct"`    // against the answer of the reference file
	// BenchmarkCorrect is against the answer of the benchmark file, which
	// replaced those of the reference file in part.
	BenchmarkCorrect bool      `json:"benchmark_correct"`
	RougeL           float64   `json:"rouge_l"`     // answer text against the benchmark's answer text
	Traced           bool      `json:"traced"`      // the run has a trace of the question
	Answered         bool      `json:"answered"`    // the run has an answer record of the question
	Calls            int       `json:"calls"`       // accepted calls
	Rejected         int       `json:"rejected"`    // calls that were not accepted
	ToolErrors       int       `json:"tool_errors"` // calls that returned an error text
	Failure          string    `json:"failure,omitempty"`
	Verdict          *Verdict  `json:"verdict,omitempty"`    // of the judge
	Similarity       *float64  `json:"similarity,omitempty"` // cosine of embeddings
	Spent            *Spent    `json:"spent,omitempty"`
	Verified         *Verified `json:"verified,omitempty"`
}

// Scored is a run's score file.
type Scored struct {
	Run     string   `json:"run"`
	Regime  string   `json:"regime,omitempty"` // if, ap or ow
	Setting string   `json:"setting"`          // end-to-end, planning-only or oracle-plan
	Records []Record `json:"records"`
	Summary Summary  `json:"summary"`
}

// ErrReference is returned where benchmark, reference and slice leave nothing to score.
var ErrReference = errors.New("nothing to score against")

// Score scores a run. The questions, their order, traces and answers are those
// of the reference (or of the benchmark where reference is nil), cut by the
// slice; what the benchmark adds, found by id, are domain, skill and the
// benchmark's own answer.
func Score(run *Run, benchmark, reference []Question, s Slice) (*Scored, error) {
	if reference == nil {
		reference = benchmark
	}
	byID := make(map[string]*Question, len(benchmark))
	for i := range benchmark {
		byID[benchmark[i].ID] = &benchmark[i]
	}
	questions := s.Of(reference)
	if len(questions) == 0 {
		return nil, fmt.Errorf("%w: the slice holds none of %d questions", ErrReference, len(reference))
	}
	out := &Scored{Run: run.Name, Regime: run.Regime, Setting: run.Setting, Records: make([]Record, len(questions))}
	for i := range questions {
		b := byID[questions[i].ID]
		if b == nil {
			return nil, fmt.Errorf("%w: the benchmark lacks %s of the reference", ErrReference, questions[i].ID)
		}
		out.Records[i] = scoreQuestion(&questions[i], b, run.Predictions[questions[i].ID])
	}
	out.Summary = Summarize(out.Records)
	return out, nil
}

// ScoreQuestion scores one prediction, nil where there is none, against a
// benchmark's own trace and answer.
func ScoreQuestion(q *Question, p *Prediction) Record { return scoreQuestion(q, q, p) }

func scoreQuestion(q, b *Question, p *Prediction) Record {
	r := Record{Question: q.ID, Domain: b.Domain, Skill: b.Skill, Failure: FailureMissing}
	if p == nil {
		p = &Prediction{}
	}
	t := Trace(q.Calls, p.Calls)
	r.TAO, r.TIO, r.TEM = t.AnyOrder, t.InOrder, t.ExactMatch
	if !p.Planned {
		r.Param, r.Efficiency, r.Calls = &t.Param, &t.Efficiency, len(p.Calls)
	}
	r.Traced, r.Answered, r.Rejected = p.traced, p.Answered, p.Rejected
	for _, c := range p.Calls {
		if strings.HasPrefix(strings.TrimSpace(c.Output.Text()), "Error") {
			r.ToolErrors++
		}
	}
	if p.Answered {
		r.Predicted, r.Correct = q.Gold.Match(p.Answer)
		_, r.BenchmarkCorrect = b.Gold.Match(p.Answer)
		r.RougeL = RougeL(b.Gold.Text, Plain(p.Original))
	}
	r.Failure, r.Spent = failure(&r, p), p.Spent
	if p.Verified != nil {
		v := *p.Verified
		v.Correct = r.BenchmarkCorrect
		r.Verified = &v
	}
	return r
}

// failure names why a question is not right, by the benchmark's answer.
func failure(r *Record, p *Prediction) string {
	switch {
	case r.BenchmarkCorrect:
		return ""
	case !p.traced && !p.Answered:
		return FailureMissing
	case p.Failed:
		return FailureError
	case r.Predicted == "" || r.Predicted == Unknown:
		return FailureNoAnswer
	case r.Predicted == Refused:
		return FailureRefused
	}
	return FailureWrong
}

// Failures are the causes in the order of reports.
var Failures = []string{FailureMissing, FailureError, FailureNoAnswer, FailureRefused, FailureWrong}

// regimes are those of Earth-Agent-Pro: instruction following, autonomous
// planning, open world.
var regimes = []string{"if", "ap", "ow"}

// regimeOf reads the regime off the end of a run's name: gpt5_AP is "ap".
func regimeOf(name string) string {
	i := strings.LastIndexByte(name, '_')
	if end := strings.ToLower(name[i+1:]); i >= 0 && slices.Contains(regimes, end) {
		return end
	}
	return ""
}

// Model is the run's name without its regime.
func (s *Scored) Model() string {
	if regimeOf(s.Run) == "" {
		return s.Run
	}
	return s.Run[:len(s.Run)-len("_xx")]
}
