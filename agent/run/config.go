// Package run is the agent: Earth-Agent-Pro's plan-and-execute loop over
// workflow-centred memory, with RSure-Agent's observation verification as a layer
// that can be on or off, and loops without plan over the same model, tools, limits
// and log to compare with: ReAct, CRITIC and Tools Fail.
//
// A run lives in a folder. Its journal is on disk before the next thing happens,
// so that a killed run goes on without repeating an accepted call.
package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"terraloom/agent/llm"
	"terraloom/agent/rsure"
	"terraloom/agent/tools"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// Mode says which part of the agent runs.
type Mode string

// The modes.
const (
	EndToEnd     Mode = "end-to-end"
	PlanningOnly Mode = "planning-only" // the plan as proposed: no validation, calls, retries or edits
	OraclePlan   Mode = "oracle-plan"   // the given plan: no replacement, early end, replanning or edits
	ReAct        Mode = "react"         // a tool-calling loop without plan; with the protocol that of RSure-Agent
	Critic       Mode = "critic"        // ReAct that checks its answer with tools and revises it
	ToolsFail    Mode = "tools-fail"    // ReAct that judges every tool output by a checklist
)

// Modes are all of them.
var Modes = []Mode{EndToEnd, PlanningOnly, OraclePlan, ReAct, Critic, ToolsFail}

// Loop tells the modes that are tool-calling loops without plan.
func (m Mode) Loop() bool { return m == ReAct || m == Critic || m == ToolsFail }

// Planning says how plans are made.
type Planning string

// The ways of planning.
const (
	OneShot Planning = "one-shot" // one prompt, that of training
	Debate  Planning = "debate"   // four roles in turn (Earth-Agent-Pro §IV-B)
)

// Arguments says how the executor gives arguments.
type Arguments string

// The ways of giving arguments.
const (
	ByText Arguments = "text"  // the prompt of training; the reply is the argument object
	ByCall Arguments = "calls" // a native tool call of the one tool
)

// Checks says who decides where rules cannot.
type Checks string

// The checks.
const (
	ByRules Checks = "rules" // nobody: what the rules do not refuse is accepted
	ByModel Checks = "model"
)

// Limits bound a run; a limit of 0 is none, except where it says otherwise.
type Limits struct {
	Plans      int           `json:"plans"`      // attempts at a valid plan, at least 1
	Attempts   int           `json:"attempts"`   // per visit of a node, at least 1
	Repairs    int           `json:"repairs"`    // installed suffixes; 0 is none at all
	Candidates int           `json:"candidates"` // proposals for each, at least 1
	Critiques  int           `json:"critiques"`  // of Critic: rounds of checking; 0 is none at all
	ToolCalls  int           `json:"tool_calls"`
	ModelCalls int           `json:"model_calls"`
	Tokens     int           `json:"tokens"`
	Cost       float64       `json:"cost"`
	Time       time.Duration `json:"time"`
	Reply      int           `json:"reply"` // tokens of one reply
}

// DefaultLimits are used where papers are silent.
var DefaultLimits = Limits{Plans: 3, Attempts: 3, Repairs: 3, Candidates: 3, Critiques: 3, ToolCalls: 50}

// Models are the names by which a server knows the model of each role: adapters
// over one base, or the same name three times.
type Models struct {
	Planner  string `json:"planner"`  // debate and repair
	Executor string `json:"executor"` // arguments
	Other    string `json:"other"`    // routers, checker, controller, verifier, answer
}

// Config is how an agent works. It is written into every run.
type Config struct {
	Mode      Mode         `json:"mode"`
	Planning  Planning     `json:"planning"`
	Arguments Arguments    `json:"arguments"`
	Checks    Checks       `json:"checks"`
	Skills    bool         `json:"skills"` // false: no skill is chosen, all tools are candidates
	Routing   Checks       `json:"routing"`
	Answers   Checks       `json:"answers"`    // ByRules: the last accepted number, for models too small to write
	EarlyStop bool         `json:"early_stop"` // the checker may end the workflow
	Style     prompt.Style `json:"style"`      // of prompts; that of training
	Models    Models       `json:"models"`
	Vision    bool         `json:"vision"` // the verifier's model can see: it gets the images of the task
	Protocol  rsure.Level  `json:"protocol"`
	RSure     rsure.Limits `json:"rsure"` // Calls 0: 10 for the loops without plan, Limits.ToolCalls else
	Limits    Limits       `json:"limits"`
}

// Default is the agent of the papers on one model.
var Default = Config{
	Mode: EndToEnd, Planning: Debate, Arguments: ByText, Checks: ByModel, Routing: ByModel, Answers: ByModel, Skills: true, EarlyStop: true, Style: prompt.Full,
	Protocol: rsure.Off, RSure: rsure.Limits{FollowUps: rsure.DefaultLimits.FollowUps, Calibrate: rsure.DefaultLimits.Calibrate}, Limits: DefaultLimits,
}

// Validate reports all faults of a configuration at once.
func (c *Config) Validate() error {
	var errs []error
	oneOf := func(what, got string, known ...string) {
		for _, k := range known {
			if got == k {
				return
			}
		}
		errs = append(errs, fmt.Errorf("%s %q is none of %q", what, got, known))
	}
	modes := make([]string, len(Modes))
	for i, m := range Modes {
		modes[i] = string(m)
	}
	oneOf("mode", string(c.Mode), modes...)
	oneOf("planning", string(c.Planning), string(OneShot), string(Debate))
	oneOf("arguments", string(c.Arguments), string(ByText), string(ByCall))
	oneOf("checks", string(c.Checks), string(ByRules), string(ByModel))
	oneOf("routing", string(c.Routing), string(ByRules), string(ByModel))
	oneOf("answers", string(c.Answers), string(ByRules), string(ByModel))
	oneOf("protocol", string(c.Protocol), string(rsure.Off), string(rsure.Deterministic), string(rsure.Full))
	if (c.Mode == Critic || c.Mode == ToolsFail) && c.Protocol != rsure.Off {
		errs = append(errs, fmt.Errorf("mode %s verifies in its own way: the protocol must be %s, found %s", c.Mode, rsure.Off, c.Protocol))
	}
	if _, err := prompt.ParseStyle(string(c.Style)); err != nil {
		errs = append(errs, err)
	}
	l := c.Limits
	for name, n := range map[string]int{"plans": l.Plans, "attempts": l.Attempts, "candidates": l.Candidates} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("limits: %s is %d, at least 1 is needed", name, n))
		}
	}
	for name, n := range map[string]float64{"repairs": float64(l.Repairs), "critiques": float64(l.Critiques), "tool_calls": float64(l.ToolCalls), "model_calls": float64(l.ModelCalls), "tokens": float64(l.Tokens),
		"cost": l.Cost, "time": float64(l.Time), "reply": float64(l.Reply), "rsure.follow_ups": float64(c.RSure.FollowUps), "rsure.calls": float64(c.RSure.Calls), "rsure.calibrated": float64(c.RSure.Calibrate)} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("limits: %s is negative", name))
		}
	}
	return errors.Join(errs...)
}

// Tools is the environment: what a call by name or alias gives. *tools.Registry
// is one.
type Tools interface {
	Invoke(ctx context.Context, name string, args strictjson.Value) (tools.Result, error)
}

// Task is one question.
type Task struct {
	ID          string           `json:"id"`
	Regime      string           `json:"regime"` // if, ap, ow, or ""
	Question    string           `json:"question"`
	Inputs      strictjson.Value `json:"inputs"`      // what is at hand, or must be got
	Requirement string           `json:"requirement"` // form of the answer; "" for free text
	Unit        string           `json:"unit"`        // of a numeric answer; "" where unknown
	Plan        []string         `json:"plan"`        // of OraclePlan
}

// Agent carries out tasks. It is safe for concurrent use; each Run has a folder
// of its own.
type Agent struct {
	Config    Config
	Model     llm.Model // for all roles; Config.Models tells them apart
	Price     llm.Price
	Prior     *rsure.Prior    // of Protocol Full; nil for none
	Skills    []*skills.Skill // nil: the bundled ones
	Catalogue *catalogue.Catalogue

	// Progress, if set, gets each event once it is on disk, and Emit each piece of
	// the answer while it is written. Both are called by the goroutine of the run.
	Progress func(Progress)
	Emit     func(text string)
}

// Environment is what one run works in.
type Environment struct {
	Tools  Tools
	Exists func(path string) bool                    // whether a path is in the workspace; nil where there is none
	Images func(inputs strictjson.Value) []llm.Image // of a task, for a verifier that can see; nil where there are none
	// Offered, if set, are the tools of a loop without plan in place of the catalogue's: those of
	// another surface, which Tools knows.
	Offered []llm.Tool
}
