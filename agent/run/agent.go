package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/agent/rsure"
	"terraloom/agent/verify"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// Sentinels for what callers branch on.
var (
	ErrConfig = errors.New("bad agent configuration")
	ErrResume = errors.New("the run cannot be resumed")
)

// Progress is an event of the journal as it happens.
type Progress = memory.Event

// ModelsFile is the log of model calls in a run's folder: one JSON object per
// call with prompt, reply, tokens and time. As --llm script:FILE it replays the run.
const ModelsFile = "models.jsonl"

// runner is one run.
type runner struct {
	agent      *Agent
	config     *Config
	catalogue  *catalogue.Catalogue
	skills     []*skills.Skill
	env        Environment
	ctx        context.Context
	task       Task
	images     []llm.Image // of the task, where the verifier can see
	journal    *memory.Journal
	meter      *llm.Meter
	session    *rsure.Session
	skill      *skills.Skill
	prompt     prompt.Task
	candidates []prompt.Tool
	state      *memory.State
	out        *Outcome

	calls, repairs int
	errors         map[string]int
	resumed        []try  // attempts at the current node before a restart
	nextTool       string // and the tool that was to come next
	events         []memory.Event
}

// begun is the detail of the first event.
type begun struct {
	Task   Task   `json:"task"`
	Config Config `json:"config"`
	Prior  string `json:"prior,omitempty"` // hash
}

// Run carries out a task in a new folder. The error is one of configuration, of
// the folder, or of the context; how the task itself ended is in the Outcome.
func (a *Agent) Run(ctx context.Context, task Task, env Environment, dir string) (*Outcome, error) {
	if err := a.Config.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if a.Config.Mode == OraclePlan && len(task.Plan) == 0 {
		return nil, fmt.Errorf("%w: the mode %s needs a plan in the task", ErrConfig, OraclePlan)
	}
	j, err := memory.Create(dir)
	if err != nil {
		return nil, err
	}
	return a.do(ctx, task, env, dir, j, nil)
}

// Resume goes on with the run in a folder. A run that has ended gives its outcome
// again. The task and the configuration are those of the folder; another
// configuration of the agent is ErrResume.
func (a *Agent) Resume(ctx context.Context, env Environment, dir string) (*Outcome, error) {
	j, events, err := memory.Open(dir)
	if err != nil {
		return nil, err
	}
	var b begun
	if len(events) == 0 || events[0].Kind != memory.Begun {
		return nil, errors.Join(fmt.Errorf("%w: %s holds no event; start it anew", ErrResume, dir), j.Close())
	}
	if err := json.Unmarshal(events[0].Detail, &b); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrResume, dir, err), j.Close())
	}
	was, _ := json.Marshal(b.Config)
	is, _ := json.Marshal(a.Config)
	if !bytes.Equal(was, is) {
		return nil, errors.Join(fmt.Errorf("%w: %s was begun with the configuration %s, this is %s", ErrResume, dir, was, is), j.Close())
	}
	return a.do(ctx, b.Task, env, dir, j, events)
}

func (a *Agent) do(ctx context.Context, task Task, env Environment, dir string, j *memory.Journal, events []memory.Event) (out *Outcome, err error) {
	defer func() { err = errors.Join(err, j.Close()) }()
	log, err := os.OpenFile(filepath.Join(dir, ModelsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	config := a.Config
	r := &runner{agent: a, config: &config, catalogue: a.Catalogue, skills: a.Skills, env: env, task: task, journal: j, errors: map[string]int{}}
	if r.catalogue == nil {
		r.catalogue = catalogue.Default()
	}
	if r.skills == nil {
		r.skills = skills.Default()
	}
	if r.task.Inputs.Kind() != strictjson.Object {
		r.task.Inputs = strictjson.Obj()
	}
	l := config.Limits
	r.meter = &llm.Meter{Model: a.Model, Price: a.Price, Budget: llm.Budget{Calls: l.ModelCalls, Tokens: l.Tokens, Cost: l.Cost}, Log: log}
	protocol := &rsure.Protocol{Level: config.Protocol, Limits: config.RSure, Prior: a.Prior, Verifier: r.meter, Model: config.Models.Other}
	if protocol.Limits.Calls == 0 {
		if protocol.Limits.Calls = l.ToolCalls; config.Mode.Loop() {
			protocol.Limits.Calls = rsure.DefaultLimits.Calls
		}
	}
	if config.Vision && env.Images != nil {
		r.images = env.Images(r.task.Inputs)
	}
	r.session = protocol.Start(task.Question, r.images)
	r.out = &Outcome{Task: task, Errors: r.errors}
	if l.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.Time, errTime)
		defer cancel()
	}
	r.ctx = ctx
	if err := r.restore(dir, events); err != nil {
		return nil, err
	}
	err = r.execute(events)
	if err = r.ended(err); err != nil {
		return nil, err
	}
	return r.out, r.write(dir)
}

var errTime = errors.New("the time is up")

// ended turns what stopped the loop into a status. Only cancellation and faults
// of the folder stay errors.
func (r *runner) ended(err error) error {
	switch {
	case err == nil:
	case errors.Is(context.Cause(r.ctx), errTime):
		r.out.Status, r.out.Reason = OverBudget, fmt.Sprintf("%v: %v", errTime, r.config.Limits.Time)
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case errors.Is(err, llm.ErrBudget):
		r.out.Status, r.out.Reason = OverBudget, err.Error()
	case errors.Is(err, llm.ErrUnavailable), errors.Is(err, llm.ErrRefused), errors.Is(err, llm.ErrScript):
		r.out.Status, r.out.Reason = Broken, err.Error()
	default:
		return err
	}
	return r.event(&memory.Event{Kind: memory.Ended, Decision: string(r.out.Status), Reason: r.out.Reason})
}

// event puts an event on disk, applies it, and tells of it.
func (r *runner) event(e *memory.Event) error {
	if err := r.journal.Append(e); err != nil {
		return err
	}
	state, err := memory.Apply(r.state, e)
	if err != nil {
		return err
	}
	r.state = state
	r.events = append(r.events, *e)
	if r.agent.Progress != nil {
		r.agent.Progress(*e)
	}
	return nil
}

// ask has a role answer messages.
func (r *runner) ask(role, model string, messages []llm.Message) (llm.Reply, error) {
	return r.meter.Chat(r.ctx, r.request(role, model, messages))
}

func (r *runner) request(role, model string, messages []llm.Message) llm.Request {
	return llm.Request{Role: role, Model: model, Messages: messages, MaxTokens: r.config.Limits.Reply}
}

func (r *runner) routed(s *skills.Skill) error {
	name := ""
	if s != nil {
		name = s.Name
	}
	r.use(s)
	var names []string
	for _, t := range r.candidates {
		names = append(names, t.Name)
	}
	return r.event(&memory.Event{Kind: memory.Routed, Code: name, Tools: names})
}

// restore brings back what events of an earlier process led to.
func (r *runner) restore(dir string, events []memory.Event) error {
	if events == nil {
		return nil
	}
	state, err := memory.Replay(events)
	if err != nil {
		return err
	}
	r.state, r.events = state, events
	routed := false
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case memory.Routed:
			routed = true
			r.use(nil)
			for _, s := range r.skills {
				if s.Name == e.Code {
					r.use(s)
				}
			}
			if e.Code != "" && r.skill == nil {
				return fmt.Errorf("%w: the skill %s of the run is not there", ErrResume, e.Code)
			}
		case memory.Called:
			r.calls++
		case memory.Tried:
			r.errors[e.Code]++
			r.resumed = append(r.resumed, try{e.Tool, e.Reply, e.Reason})
			r.nextTool = e.Next
			if !e.Observation.IsAbsent() {
				r.replay(e.Tool, e.Arguments, e.Reason, nil)
			}
		case memory.Committed, memory.Noted:
			r.resumed, r.nextTool = nil, ""
			r.replay(e.Record.Tool, e.Record.Arguments, "", e.Record)
		case memory.GaveUp, memory.Planned, memory.Stopped:
			r.resumed, r.nextTool = nil, ""
		case memory.Repaired:
			r.repairs++
			r.resumed, r.nextTool = nil, ""
		}
	}
	if !routed {
		r.use(nil)
	}
	spent, err := SpentOf(dir)
	if err != nil {
		return err
	}
	r.meter.Restore(spent)
	return nil
}

// replay tells the protocol's session of a call of an earlier process.
func (r *runner) replay(tool string, args strictjson.Value, feedback string, record *memory.Record) {
	name := tool
	if found, err := r.catalogue.Resolve(tool); err == nil {
		name = found.Tool.Name
	}
	a := rsure.Action{Tool: name, Args: args}
	if record == nil {
		r.session.Refused(a, feedback)
		return
	}
	r.session.Accepted(a, record.Observation, record.Support)
}

// SpentOf counts what the model calls of a run have taken, from its log. A last
// line that was cut short is not counted.
func SpentOf(dir string) (llm.Spent, error) {
	text, err := os.ReadFile(filepath.Join(dir, ModelsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return llm.Spent{}, nil
	}
	if err != nil {
		return llm.Spent{}, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	var s llm.Spent
	err = strictjson.Lines(bytes.NewReader(text), ModelsFile, func(_ int, v strictjson.Value) error {
		number := func(key string) float64 { f, _ := v.Get(key).Float(); return f }
		s.Calls++
		s.Tokens += int(number("prompt_tokens") + number("completion_tokens"))
		s.Cost += number("cost")
		s.Seconds += number("seconds")
		if e := v.Get("error"); e.Kind() == strictjson.String {
			s.Failed++
		}
		return nil
	})
	return s, err
}

// execute runs the loop from wherever the events so far have led.
func (r *runner) execute(events []memory.Event) error {
	has := func(kind memory.Kind) *memory.Event {
		for i := len(events) - 1; i >= 0; i-- {
			if events[i].Kind == kind {
				return &events[i]
			}
		}
		return nil
	}
	if e := has(memory.Answered); e != nil {
		var d struct{ Answer string }
		if err := json.Unmarshal(e.Detail, &d); err != nil {
			return fmt.Errorf("%w: %w", ErrResume, err)
		}
		r.out.Status, r.out.Reason, r.out.Answer = Status(e.Decision), e.Reason, d.Answer
		return nil
	}
	if events == nil {
		detail, err := json.Marshal(begun{Task: r.task, Config: *r.config, Prior: r.priorHash()})
		if err != nil {
			return err
		}
		if err := r.event(&memory.Event{Kind: memory.Begun, Detail: detail}); err != nil {
			return err
		}
	}
	if has(memory.Routed) == nil {
		if err := r.route(); err != nil {
			return err
		}
	}
	if r.config.Mode.Loop() {
		return r.react()
	}
	if r.state == nil {
		tools, ok := r.task.Plan, true
		if r.config.Mode != OraclePlan {
			var err error
			if tools, ok, err = r.makePlan(); err != nil {
				return err
			}
		}
		if !ok && r.config.Mode != PlanningOnly {
			r.out.Status, r.out.Reason = PlanFailed, fmt.Sprintf("no valid plan in %d attempts", r.config.Limits.Plans)
			return nil
		}
		if len(tools) > 0 {
			if err := r.event(&memory.Event{Kind: memory.Planned, Tools: tools}); err != nil {
				return err
			}
		}
	}
	if r.config.Mode == PlanningOnly {
		r.out.Status = Planned
		return nil
	}
	err := r.workflow()
	if errors.Is(err, errStop) {
		return r.answer(Incomplete, err.Error())
	}
	return err
}

func (r *runner) priorHash() string {
	if r.agent.Prior == nil {
		return ""
	}
	return r.agent.Prior.Hash()
}

// workflow advances node by node; a node that fails, and evidence that does not
// suffice, go through repair.
func (r *runner) workflow() error {
	for {
		i := r.state.Next()
		if i == 0 {
			gap, err := r.control()
			if err != nil {
				return err
			}
			if gap == nil {
				return r.answer(Answered, "")
			}
			done, err := r.reopen(gap)
			if err != nil || done {
				return err
			}
			continue
		}
		diagnosis := r.state.Node(i).Diagnosis // of a run that ended between failure and repair
		if r.state.Node(i).Status != memory.Failed {
			ok, why, err := r.visit(i)
			if err != nil {
				return err
			}
			if ok {
				continue
			}
			diagnosis = why
			if err := r.event(&memory.Event{Kind: memory.GaveUp, Node: i, Reason: why}); err != nil {
				return err
			}
		}
		ok, err := r.repair(i, diagnosis)
		if err != nil {
			return err
		}
		if !ok {
			return r.answer(Incomplete, fmt.Sprintf("step %d (%s): %s", i, r.state.Node(i).Planned, diagnosis))
		}
	}
}

// reopen sends a gap's node, or the last, through repair. Where there is none
// left it answers from what there is; then done is true.
func (r *runner) reopen(gap *verify.Gap) (done bool, err error) {
	node := gap.Node
	if node == 0 {
		node = len(r.state.Nodes)
	}
	r.out.Gaps = append(r.out.Gaps, gap.Defect+": "+gap.Diagnosis)
	if err := r.event(&memory.Event{Kind: memory.Insufficient, Node: gap.Node, Code: gap.Defect, Reason: gap.Diagnosis}); err != nil {
		return false, err
	}
	ok, err := r.repair(node, gap.Diagnosis)
	if err != nil || ok {
		return false, err
	}
	return true, r.answer(Incomplete, gap.Defect+": "+gap.Diagnosis)
}
