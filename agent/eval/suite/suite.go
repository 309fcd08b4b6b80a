// Package suite runs an agent over the questions of a benchmark, in cells: a
// regime, a mode, a composition of adapters, skills and protocol on or off. Each
// cell is a folder that terraloom eval score reads. Runs are parallel and can be
// interrupted: a question is one line of records.jsonl, on disk once it is
// finished, and is never done twice.
package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"terraloom/agent/eval"
	"terraloom/agent/llm"
	"terraloom/agent/rsure"
	"terraloom/agent/run"
	"terraloom/data"
	"terraloom/data/strictjson"
)

// Composition says which roles use their adapter (Earth-Agent-Pro Table VIII).
type Composition string

// The compositions.
const (
	None     Composition = "none"
	Planner  Composition = "planner"
	Executor Composition = "executor"
	Both     Composition = "both"
)

// ArgumentsOnly is a mode of cells besides those of the agent: the reference plan
// and, at each node, the reference steps before it; the executor's arguments are
// recorded and no tool is called. It isolates argument grounding where the data of
// a benchmark are not at hand.
const ArgumentsOnly run.Mode = "arguments"

// Cell is one setting of the evaluation.
type Cell struct {
	Regime      string      `json:"regime"` // if, ap or ow
	Mode        run.Mode    `json:"mode"`
	Composition Composition `json:"composition"`
	Skills      bool        `json:"skills"`
	Protocol    rsure.Level `json:"protocol"`
}

// Name is the cell's folder, which ends with its regime.
func (c Cell) Name() string {
	skills := "skills"
	if !c.Skills {
		skills = "noskills"
	}
	return strings.Join([]string{string(c.Mode), string(c.Composition), skills, "protocol-" + string(c.Protocol), strings.ToUpper(c.Regime)}, "_")
}

// ErrSuite is returned for settings that cannot be run.
var ErrSuite = errors.New("bad evaluation")

// Cells is the product of settings, checked.
func Cells(regimes []string, modes []run.Mode, compositions []Composition, skills []bool, protocols []rsure.Level) ([]Cell, error) {
	var out []Cell
	known := append(slices.Clone(run.Modes), ArgumentsOnly)
	for _, regime := range regimes {
		if !slices.Contains([]string{"if", "ap", "ow"}, regime) {
			return nil, fmt.Errorf("%w: regime %q is none of if, ap, ow", ErrSuite, regime)
		}
		for _, mode := range modes {
			if !slices.Contains(known, mode) {
				return nil, fmt.Errorf("%w: mode %q is none of %q", ErrSuite, mode, known)
			}
			for _, c := range compositions {
				if !slices.Contains([]Composition{None, Planner, Executor, Both}, c) {
					return nil, fmt.Errorf("%w: composition %q is none of none, planner, executor, both", ErrSuite, c)
				}
				for _, s := range skills {
					for _, p := range protocols {
						if _, err := rsure.ParseLevel(string(p)); err != nil {
							return nil, fmt.Errorf("%w: %w", ErrSuite, err)
						}
						out = append(out, Cell{regime, mode, c, s, p})
					}
				}
			}
		}
	}
	return out, nil
}

// Names are the model names of a server: the base and its two adapters.
type Names struct {
	Base, Planner, Executor string
}

// Suite is an evaluation.
type Suite struct {
	Out       string
	Agent     run.Agent // model, price, prior, skills, and the configuration that cells change
	Names     Names
	Questions map[string][]*data.Trajectory // by regime
	Workers   int
	// Open makes the environment of one question; dir is a folder for its files,
	// removed afterwards. closed releases it.
	Open func(ctx context.Context, t *data.Trajectory, dir string) (env run.Environment, closed func() error, err error)
	// Progress, if set, gets each finished question. Calls are one at a time.
	Progress func(Progress)
}

// Progress tells how far a cell is, with its running means.
type Progress struct {
	Cell        string
	Done, Total int
	Means       eval.Means
}

// Run runs cells one after another, questions of a cell in parallel, and returns
// their scores. A question that fails has a record and stays in the denominator.
// After an interruption the same call goes on where it was.
func (s *Suite) Run(ctx context.Context, cells []Cell) ([]*eval.Scored, error) {
	for _, c := range cells { // all of them, before the first one costs anything
		config := s.config(c)
		if err := config.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrSuite, c.Name(), err)
		}
	}
	var out []*eval.Scored
	for _, c := range cells {
		scored, err := s.cell(ctx, c)
		if err != nil {
			return out, fmt.Errorf("%s: %w", c.Name(), err)
		}
		out = append(out, scored)
	}
	return out, nil
}

// config is the agent's configuration in a cell: cells that are to be compared
// differ in what they name and nothing else.
func (s *Suite) config(c Cell) run.Config {
	config := s.Agent.Config
	config.Mode, config.Skills, config.Protocol = c.Mode, c.Skills, c.Protocol
	if c.Mode == ArgumentsOnly {
		config.Mode = run.OraclePlan
	}
	config.Models = run.Models{Planner: s.Names.Base, Executor: s.Names.Base, Other: s.Names.Base}
	if c.Composition == Planner || c.Composition == Both {
		config.Models.Planner = s.Names.Planner
	}
	if c.Composition == Executor || c.Composition == Both {
		config.Models.Executor = s.Names.Executor
	}
	return config
}

func (s *Suite) cell(ctx context.Context, c Cell) (*eval.Scored, error) {
	trajectories := s.Questions[c.Regime]
	if len(trajectories) == 0 {
		return nil, fmt.Errorf("%w: there is no question of the regime %s", ErrSuite, c.Regime)
	}
	dir := filepath.Join(s.Out, c.Name())
	config := s.config(c)
	questions, err := eval.Questions(trajectories, c.Name())
	if err != nil {
		return nil, err
	}
	log, err := openRecords(dir, &about{Regime: c.Regime, Setting: config.Setting(), Cell: c, Config: config})
	if err != nil {
		return nil, err
	}
	defer log.close()
	board := newBoard(questions, log.records())
	if s.Progress != nil {
		s.Progress(board.progress(c, nil))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(s.Workers, 1))
	for i, t := range trajectories {
		if log.has(t.ID) || ctx.Err() != nil {
			continue
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r, err := s.question(ctx, c, config, t, filepath.Join(dir, "questions", folder(t.ID)))
			if err != nil {
				return err
			}
			return log.add(r, func() {
				if s.Progress != nil {
					s.Progress(board.progress(c, board.score(&questions[i], r)))
				}
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil && errors.Is(err, context.Canceled) && len(log.records()) < len(trajectories) {
		return nil, err
	}
	return finish(dir, log.records(), trajectories, questions)
}

// folder is an id as a folder name.
func folder(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, id)
}

// question answers one question and gives its record. An error is an
// interruption, or a fault of the disk: nothing is recorded then.
func (s *Suite) question(ctx context.Context, c Cell, config run.Config, t *data.Trajectory, dir string) (*Record, error) {
	if err := os.RemoveAll(dir); err != nil { // of an interrupted attempt
		return nil, err
	}
	task := run.Task{ID: t.ID, Regime: c.Regime, Question: t.Query, Inputs: t.Inputs, Requirement: requirement(t), Unit: t.Provenance.Get("unit").Text()}
	if config.Mode == run.OraclePlan {
		for _, step := range t.Steps {
			task.Plan = append(task.Plan, step.Tool)
		}
	}
	agent := s.Agent
	agent.Config, agent.Progress, agent.Emit = config, nil, nil
	if c.Mode == ArgumentsOnly {
		return s.arguments(ctx, &agent, t)
	}
	work := filepath.Join(dir, "workspace")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	env, closed, err := s.Open(ctx, t, work)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return failedRecord(t.ID, fmt.Errorf("environment: %w", err)), os.RemoveAll(work)
	}
	o, err := agent.Run(ctx, task, env, dir)
	broken := closed()
	if err = errors.Join(err, os.RemoveAll(work)); err != nil {
		return nil, err
	}
	if broken != nil { // what was observed there cannot be trusted
		return failedRecord(t.ID, fmt.Errorf("environment: %w", broken)), nil
	}
	return recordOf(t.ID, o), nil
}

// requirement is the form of answer that a question asks for: one of its
// candidates, where it has any, or a number in a unit (RSure-Agent §B.5).
func requirement(t *data.Trajectory) string {
	choices := t.Provenance.Get("choices")
	if unit := t.Provenance.Get("unit").Text(); choices.Len() == 0 && unit != "" {
		return "Give the number with the unit " + unit + "."
	}
	if choices.Len() == 0 {
		return ""
	}
	lines := []string{"Answer with exactly one of these candidates, by its letter, as <Answer>LETTER</Answer>:"}
	for i := range choices.Len() {
		text := choices.Index(i).Text()
		if choices.Kind() == strictjson.Object {
			text = choices.Key(i) + ". " + text
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// meter counts the calls of a question outside the agent's loop.
func (s *Suite) meter(config *run.Config) *llm.Meter {
	l := config.Limits
	return &llm.Meter{Model: s.Agent.Model, Price: s.Agent.Price, Budget: llm.Budget{Calls: l.ModelCalls, Tokens: l.Tokens, Cost: l.Cost}}
}

// marshal is JSON without HTML escapes.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return []byte(b.String()), err
}
