package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"terraloom/agent/memory"
	"terraloom/data"
	"terraloom/data/strictjson"
)

// ResultFile is the outcome of a run in its folder.
const ResultFile = "result.json"

// Result is what ResultFile holds, and what scripts read.
type Result struct {
	Question   string         `json:"question"`
	Status     Status         `json:"status"`
	Reason     string         `json:"reason,omitempty"`
	Answer     string         `json:"answer"`
	Skill      string         `json:"skill,omitempty"`
	Plan       []string       `json:"plan"`
	ToolCalls  int            `json:"tool_calls"`
	Accepted   int            `json:"accepted"`
	Repairs    int            `json:"repairs"`
	Errors     map[string]int `json:"errors"`
	Gaps       []string       `json:"gaps,omitempty"`
	ModelCalls int            `json:"model_calls"`
	Tokens     int            `json:"tokens"`
	Cost       float64        `json:"cost"`
	Seconds    float64        `json:"seconds"` // waiting for models
	StateHash  string         `json:"state_sha256,omitempty"`
	Run        string         `json:"run,omitempty"` // folder
}

// Result sums an outcome up.
func (o *Outcome) Result() *Result {
	r := &Result{Question: o.Task.Question, Status: o.Status, Reason: o.Reason, Answer: o.Answer, Skill: o.Skill, Plan: o.Plan, ToolCalls: len(o.Calls), Errors: o.Errors,
		Gaps: o.Gaps, ModelCalls: o.Spent.Calls, Tokens: o.Spent.Tokens, Cost: o.Spent.Cost, Seconds: o.Spent.Seconds}
	if r.Plan == nil {
		r.Plan = []string{} // a list for scripts, not null
	}
	if o.State != nil {
		r.StateHash, r.Accepted = o.State.Hash(), len(o.State.Evidence)
		for _, rev := range o.State.Archive {
			if len(rev.New) > 0 {
				r.Repairs++
			}
		}
	}
	return r
}

// write finishes the outcome and puts it, and what the scorer reads, into the
// run's folder.
func (r *runner) write(dir string) error {
	o := r.out
	if r.skill != nil {
		o.Skill = r.skill.Name
	}
	o.State, o.Spent, o.Calls = r.state, r.meter.Spent(), CallsOf(r.events)
	o.Failed, o.Requested, o.AcceptedLater, o.Rejected = r.session.Funnel()
	for i := range r.events {
		if r.events[i].Kind == memory.Planned {
			o.Plan = r.events[i].Tools
			break
		}
	}
	result := o.Result()
	text, err := json.MarshalIndent(result, "", " ")
	if err != nil {
		return err
	}
	id := o.Task.ID
	if id == "" {
		id = "question1"
	}
	files := map[string][]byte{
		ResultFile:                      append(text, '\n'),
		"extracted_tool_calls.json":     strictjson.List(o.Trace(id)).AppendJSON(nil),
		"results_summary_polished.json": strictjson.List(o.AnswerRecord(id)).AppendJSON(nil),
	}
	about := map[string]any{"setting": r.config.setting(), "config": r.config, "code": data.BuildCode(), "prior": r.priorHash()}
	if o.Task.Regime != "" {
		about["regime"] = o.Task.Regime
	}
	if files["run.json"], err = json.MarshalIndent(about, "", " "); err != nil {
		return err
	}
	for name, content := range files {
		if err := writeFile(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	return nil
}

// setting is the scorer's word for a mode.
func (c *Config) setting() string {
	if c.Mode.Loop() {
		return string(EndToEnd)
	}
	return string(c.Mode)
}

// Setting is the scorer's word for the mode: end-to-end, planning-only or
// oracle-plan.
func (c *Config) Setting() string { return c.setting() }

// CallsOf are the calls of a journal that reached the environment, with their
// decisions.
func CallsOf(events []memory.Event) []Call {
	var out []Call
	for i := range events {
		switch e := &events[i]; e.Kind {
		case memory.Tried:
			if !e.Observation.IsAbsent() {
				out = append(out, Call{Node: e.Node, Tool: e.Tool, Arguments: e.Arguments, Observation: e.Observation, Decision: e.Decision, Code: e.Code})
			}
		case memory.Committed, memory.Noted:
			out = append(out, Call{Node: e.Node, Tool: e.Record.Tool, Arguments: e.Record.Arguments, Observation: e.Record.Observation, Decision: "accept"})
		}
	}
	return out
}

// Trace is the run's entry of extracted_tool_calls.json.
func (o *Outcome) Trace(id string) strictjson.Value {
	members := []strictjson.Member{{Key: "question_index", Value: strictjson.Text(id)}}
	if o.Status == Planned {
		names := make([]strictjson.Value, len(o.Plan))
		for i, n := range o.Plan {
			names[i] = strictjson.Text(n)
		}
		members = append(members, strictjson.Member{Key: "plan", Value: strictjson.List(names...)})
	} else {
		calls := make([]strictjson.Value, len(o.Calls))
		for i, c := range o.Calls {
			calls[i] = strictjson.Obj(strictjson.Member{Key: "name", Value: strictjson.Text(c.Tool)}, strictjson.Member{Key: "input", Value: c.Arguments},
				strictjson.Member{Key: "output", Value: c.Observation}, strictjson.Member{Key: "decision", Value: strictjson.Text(c.Decision)})
		}
		members = append(members, strictjson.Member{Key: "tool_calls", Value: strictjson.List(calls...)})
	}
	members = append(members,
		strictjson.Member{Key: "spent", Value: strictjson.Obj(strictjson.Member{Key: "model_calls", Value: strictjson.Int(o.Spent.Calls)},
			strictjson.Member{Key: "tokens", Value: strictjson.Int(o.Spent.Tokens)}, strictjson.Member{Key: "seconds", Value: strictjson.Float(o.Spent.Seconds)})},
		strictjson.Member{Key: "verified", Value: strictjson.Obj(strictjson.Member{Key: "failed", Value: strictjson.Boolean(o.Failed)},
			strictjson.Member{Key: "requested", Value: strictjson.Boolean(o.Requested)}, strictjson.Member{Key: "accepted", Value: strictjson.Boolean(o.AcceptedLater)},
			strictjson.Member{Key: "rejected", Value: strictjson.Int(o.Rejected)})})
	switch o.Status {
	case Answered, Planned, Incomplete:
	default:
		members = append(members, strictjson.Member{Key: "error", Value: strictjson.Text(string(o.Status) + ": " + o.Reason)})
	}
	return strictjson.Obj(members...)
}

// AnswerRecord is the run's entry of results_summary_polished.json.
func (o *Outcome) AnswerRecord(id string) strictjson.Value {
	answer := strictjson.NullValue()
	if o.Answer != "" {
		answer = strictjson.Text(o.Answer)
	}
	return strictjson.Obj(strictjson.Member{Key: "question_id", Value: strictjson.Text(id)}, strictjson.Member{Key: "final_answer", Value: answer}, strictjson.Member{Key: "original_answer", Value: answer})
}

// writeFile replaces a file in one step, unless it has that content already.
func writeFile(path string, content []byte) error {
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
