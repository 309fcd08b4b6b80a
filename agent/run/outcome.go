package run

import (
	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/data/strictjson"
)

// Status is how a run ended.
type Status string

// The ends of a run.
const (
	Answered   Status = "answered"    // from sufficient evidence
	Incomplete Status = "incomplete"  // limits of repair or of calls were reached; the answer, if any, rests on what there is
	Planned    Status = "planned"     // of PlanningOnly
	PlanFailed Status = "plan_failed" // no valid plan, no call made
	OverBudget Status = "budget"      // tokens, model calls, cost or time
	Broken     Status = "failed"      // the model did not answer
)

// Call is one tool call of a run, accepted or not.
type Call struct {
	Node        int
	Tool        string
	Arguments   strictjson.Value
	Observation strictjson.Value
	Decision    string // accept, retry or replace
	Code        string // what was wrong
}

// Outcome is what a run gave.
type Outcome struct {
	Task   Task
	Status Status
	Reason string // of every end but Answered and Planned
	Answer string
	Skill  string
	Plan   []string // the first valid one, or the proposed one of PlanningOnly
	State  *memory.State
	Calls  []Call
	Errors map[string]int // what went wrong, by the codes of package verify
	Gaps   []string       // what the answer controller missed last
	Spent  llm.Spent
	// Of the observation protocol:
	Failed, Requested, AcceptedLater bool
	Rejected                         int
}
