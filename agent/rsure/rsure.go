// Package rsure is the observation verification of RSure-Agent: rules first
// (Eq. R9), then a verifier in a context of its own that also sees how reliable
// the tool's configuration has been on such tasks (Eq. R6, R7, R10), and two
// histories, what the backbone reads and what the answer may rest on (Eq. R11,
// R12). It is a layer over any loop that calls tools.
package rsure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"terraloom/agent/llm"
	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// Level says how much of the protocol is on.
type Level string

// The levels.
const (
	Off           Level = "off"           // observations pass as they are (RSure-Base)
	Deterministic Level = "deterministic" // the rules alone
	Full          Level = "full"          // rules, prior where there is one, verifier
)

// ParseLevel checks a level's name.
func ParseLevel(s string) (Level, error) {
	if l := Level(s); l == Off || l == Deterministic || l == Full {
		return l, nil
	}
	return "", fmt.Errorf("protocol %q is none of off, deterministic, full", s)
}

// Decision V_t on an observation (Eq. R8).
type Decision string

// The decisions.
const (
	Accept  Decision = "accept"
	Request Decision = "request_evidence"
	Reject  Decision = "reject"
)

// Limits of the protocol (§4.4 and §5.4).
type Limits struct {
	FollowUps int `json:"follow_ups"` // K_max: calls after a request for evidence
	Calls     int `json:"calls"`      // H_max: all tool calls of a task, follow-ups and failed ones included
	Calibrate int `json:"calibrated"` // n_min: calls from which a configuration counts as calibrated
}

// DefaultLimits are the paper's.
var DefaultLimits = Limits{FollowUps: 3, Calls: 10, Calibrate: 8}

// Action is a tool call a_t.
type Action struct {
	Tool string
	Args strictjson.Value
}

// Value is the action as JSON.
func (a *Action) Value() strictjson.Value {
	return strictjson.Obj(strictjson.Member{Key: "tool", Value: strictjson.Text(a.Tool)}, strictjson.Member{Key: "arguments", Value: a.Args})
}

// Protocol is the configuration that all tasks share. It is safe for concurrent use.
type Protocol struct {
	Level    Level
	Limits   Limits
	Prior    *Prior    // nil: verification without prior
	Verifier llm.Model // of level Full
	Model    string    // its name on the server
}

// Judgement is what became of one observation.
type Judgement struct {
	Decision Decision
	Rules    bool   // Vdet: the rules passed it
	Feedback string // f_det or f_sem; "" of what was accepted
	Prior    *float64
	Source   string // fine, coarse or "" without a prior
}

// Entry is one step of the history h_t (Eq. R11): an accepted observation with
// its evidence, or what was said of one that was not.
type Entry struct {
	Action      Action
	Accepted    bool
	Observation strictjson.Value // Absent unless accepted
	Evidence    strictjson.Value // Absent unless accepted
	Card        bool             // a knowledge card: text, no observation
	Decision    Decision         // "" where the rules did not pass it
	Feedback    string
}

// Session is the protocol of one task. It is used by one goroutine.
type Session struct {
	p        *Protocol
	question string
	task     string // z, found at the first verification
	images   []llm.Image
	model    llm.Model

	history []Entry
	seen    map[string]bool // canonical actions that were made
	calls   int
	open    string // coarse configuration for which evidence was asked
	follow  int    // follow-ups since
	closed  map[string]bool
}

// Sentinels for what callers branch on.
var (
	ErrCalls = errors.New("the budget of tool calls is spent") // H_max
)

// Start begins a task. images are those of the task, for a verifier that can see.
func (p *Protocol) Start(question string, images []llm.Image) *Session {
	return &Session{p: p, question: question, images: images, model: p.Verifier, seen: map[string]bool{}, closed: map[string]bool{}}
}

// With has the session's own model calls go through another model: the meter of
// a run.
func (s *Session) With(m llm.Model) *Session {
	s.model = m
	return s
}

// Calls is the number of calls so far.
func (s *Session) Calls() int { return s.calls }

// Before decides whether a call may be made: within H_max, not a repetition
// (Novel of Eq. R9), not for an evidence request that has ended. A feedback that
// is not "" goes to the backbone in place of a call, and costs none.
func (s *Session) Before(a Action) (feedback string, err error) {
	if s.p.Limits.Calls > 0 && s.calls >= s.p.Limits.Calls {
		return "", fmt.Errorf("%w: %d", ErrCalls, s.calls)
	}
	if s.p.Level == Off {
		return "", nil
	}
	if s.seen[Canonical(a)] {
		return "repeated_call: the same call was made before; change its arguments or use another tool", nil
	}
	if s.closed[ConfigOf(a).Coarse] {
		return fmt.Sprintf("closed_request: %d follow-ups gave no sufficient evidence from %s; use another tool or go on without", s.p.Limits.FollowUps, a.Tool), nil
	}
	return "", nil
}

// Refused records a call that was made and that a rule outside the protocol
// turned down.
func (s *Session) Refused(a Action, feedback string) {
	s.calls++
	s.seen[Canonical(a)] = true
	s.history = append(s.history, Entry{Action: a, Feedback: feedback})
}

// Accepted records a call that was accepted before a restart.
func (s *Session) Accepted(a Action, observation, evidence strictjson.Value) {
	s.calls++
	s.seen[Canonical(a)] = true
	s.history = append(s.history, Entry{Action: a, Accepted: true, Decision: Accept, Observation: observation, Evidence: evidence})
}

// Judge verifies what a call gave and adds to the histories. Without semantic the
// verifier is not asked: of arithmetic and listings the rules know all. An error
// is that of the model or the context; the call is then in no history.
func (s *Session) Judge(ctx context.Context, a Action, r *tools.Result, callErr error, semantic bool) (Judgement, error) {
	s.calls++
	card := r.Evidence.Family == tools.Retrieve
	transient := callErr != nil && (errors.Is(callErr, tools.ErrEnvironment) || errors.Is(callErr, context.DeadlineExceeded))
	if !transient {
		s.seen[Canonical(a)] = true
	}
	if s.p.Level == Off || card && callErr == nil {
		j := Judgement{Decision: Accept, Rules: true}
		if callErr != nil {
			j = Judgement{Decision: Reject, Feedback: callErr.Error()}
		}
		s.record(a, r, j, card)
		return j, nil
	}
	if faults := Faults(a, r, callErr); len(faults) > 0 {
		j := Judgement{Decision: Reject, Feedback: strings.Join(faults, "; ")}
		s.record(a, r, j, false)
		return j, nil
	}
	j := Judgement{Decision: Accept, Rules: true}
	if s.p.Level == Full && semantic {
		if s.task == "" {
			task, err := Classify(ctx, s.model, s.p.Model, s.question)
			if err != nil {
				return Judgement{}, err
			}
			s.task = task
		}
		if s.p.Prior != nil {
			j.Prior, j.Source = s.p.Prior.Lookup(s.task, ConfigOf(a), s.p.Limits.Calibrate)
		}
		v, err := s.verify(ctx, a, r, j.Prior)
		if err != nil {
			return Judgement{}, err
		}
		j.Decision, j.Feedback = v.decision, v.feedback
	}
	s.record(a, r, j, false)
	s.follows(ConfigOf(a).Coarse, j)
	return j, nil
}

// follows counts the follow-ups of an evidence request: it ends when an
// observation is accepted or rejected, or at K_max.
func (s *Session) follows(coarse string, j Judgement) {
	switch {
	case j.Decision != Request:
		s.open, s.follow = "", 0
	case s.open == "":
		s.open, s.follow = coarse, 0
	default:
		if s.follow++; s.follow >= s.p.Limits.FollowUps {
			s.closed[s.open] = true
			s.closed[coarse] = true
			s.open, s.follow = "", 0
		}
	}
}

// Open reports whether a request for evidence may be followed up.
func (s *Session) Open() bool { return s.open != "" }

func (s *Session) record(a Action, r *tools.Result, j Judgement, card bool) {
	e := Entry{Action: a, Accepted: j.Decision == Accept, Card: card, Feedback: j.Feedback}
	if j.Rules {
		e.Decision = j.Decision
	}
	if e.Accepted {
		e.Observation, e.Evidence = r.Value, r.Evidence.Value()
	}
	s.history = append(s.history, e)
}

// History is h_t: what the backbone reads.
func (s *Session) History() []Entry { return slices.Clone(s.history) }

// Verified is Hver: accepted observations and knowledge cards, in call order.
func (s *Session) Verified() []Entry {
	return slices.DeleteFunc(slices.Clone(s.history), func(e Entry) bool { return !e.Accepted })
}

// Funnel counts what verification did in the task.
func (s *Session) Funnel() (failed, requested, acceptedLater bool, rejected int) {
	for _, e := range s.history {
		switch {
		case e.Accepted:
			acceptedLater = acceptedLater || requested
		case e.Decision == Request:
			failed, requested = true, true
		default:
			failed = true
			rejected++
		}
	}
	return failed, requested, acceptedLater, rejected
}

// Canonical is an action as text, keys sorted and numbers by value, so that two
// spellings of one call are equal.
func Canonical(a Action) string {
	return a.Tool + " " + string(canonical(nil, a.Args))
}

func canonical(b []byte, v strictjson.Value) []byte {
	switch v.Kind() {
	case strictjson.Object:
		at := make([]int, v.Len())
		for i := range at {
			at[i] = i
		}
		slices.SortFunc(at, func(i, j int) int { return strings.Compare(v.Key(i), v.Key(j)) })
		b = append(b, '{')
		for _, i := range at {
			b = append(strictjson.AppendString(b, v.Key(i)), ':')
			b = append(canonical(b, v.Index(i)), ',')
		}
		return append(b, '}')
	case strictjson.Array:
		b = append(b, '[')
		for i := range v.Len() {
			b = append(canonical(b, v.Index(i)), ',')
		}
		return append(b, ']')
	case strictjson.Number:
		if f, ok := v.Float(); ok {
			return append(b, strictjson.FormatFloat(f)...)
		}
	}
	return v.AppendJSON(b)
}
