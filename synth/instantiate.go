package synth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots"
)

// Programs gives the slot program of each seed, reviewed and compiled.
type Programs interface {
	For(seed *data.Trajectory) (*slots.Compiled, error)
}

// Environment gives the tools that instances are carried out with. It must be
// safe for concurrent use.
type Environment interface {
	// Session gives tools for one trajectory; no other sees what they leave behind.
	// name tells the trajectory from every other one of this and other runs.
	Session(ctx context.Context, name string) (Session, error)
}

// Session is what one trajectory is carried out with. It is for one goroutine.
type Session interface {
	slots.Tools
	// Close ends the session. Its error is a failure of the environment that was not
	// the fault of a call's arguments, also an earlier one: the run cannot go on.
	Close() error
}

// Shared is the environment of tools that leave nothing behind: arithmetic on arguments.
type Shared struct{ slots.Tools }

// Session implements Environment.
func (s Shared) Session(context.Context, string) (Session, error) { return s, nil }

// Close implements Session.
func (Shared) Close() error { return nil }

// plan is one seed ready to be instantiated. It is compiled once, by the first
// worker that needs it.
type plan struct {
	seed  *data.Trajectory
	split string

	once     sync.Once
	compiled *slots.Compiled
	tuple    string // root values of the seed itself
	records  *extractor
	err      error
}

func (p *plan) prepare(programs Programs, o Options) error {
	p.once.Do(func() {
		if p.compiled, p.err = programs.For(p.seed); p.err != nil {
			return
		}
		if p.tuple, p.err = p.compiled.SeedTuple(); p.err != nil {
			return
		}
		p.records, p.err = newExtractor(p.seed, o)
	})
	return p.err
}

// Filters an instance passes, in order, and the refusals they give rise to.
const (
	refusedSkeleton  = "skeleton"
	refusedEdge      = "dependency"
	refusedStale     = "old value"
	refusedRecompute = "recomputation"
	refusedAnswer    = "answer"
	refusedCollapse  = "collapsed values"
	refusedCompose   = "composition"
	refusedLength    = "length"
	refusedScore     = "target without a full score"
	refusedTool      = "unknown tool"
	refusedTuple     = "same root values"
	refusedExact     = "duplicate"
	refusedNear      = "near-duplicate"
	refusedTarget    = "executor target over the length limit"
)

var filters = []string{refusedCompose, refusedSkeleton, refusedRecompute, refusedEdge, refusedStale, refusedCollapse, refusedAnswer, refusedLength, refusedScore, refusedTuple, refusedExact, refusedNear}

func reasonOf(err error) string {
	for _, r := range []struct {
		err  error
		name string
	}{
		{slots.ErrSkeleton, refusedSkeleton}, {slots.ErrEdge, refusedEdge}, {slots.ErrStale, refusedStale},
		{slots.ErrRecompute, refusedRecompute}, {slots.ErrAnswer, refusedAnswer}, {slots.ErrCollapsed, refusedCollapse},
		{errUnscorable, refusedScore},
	} {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return refusedCompose
}

// refusal is one draw that was not taken.
type refusal struct{ reason, detail string }

// candidate is a verified instance with its records.
type candidate struct {
	t        *data.Trajectory
	tuple    string // its root values as JSON
	attempt  int
	content  uint64
	sketch   signature
	planner  data.PlannerRow
	executor []data.ExecutorRow
	tooLong  int // Executor targets over the limit
}

// draw makes instance index of the plan's seed, trying the attempts from first
// on until one verifies. It is a pure function of its arguments; nil means that
// the tries are used up. The error is one of the environment.
func (p *plan) draw(ctx context.Context, index, first int, env Environment, o Options) (*candidate, []refusal, error) {
	var refused []refusal
	for attempt := first; attempt < o.Tries; attempt++ {
		c, err := p.try(ctx, index, attempt, env, o)
		if err == nil {
			return c, refused, nil
		}
		var broken *environmentError
		if errors.As(err, &broken) {
			return nil, refused, broken.err
		}
		reason := reasonOf(err)
		var long *lengthError
		if errors.As(err, &long) {
			reason = refusedLength
		}
		refused = append(refused, refusal{reason, err.Error()})
	}
	return nil, refused, nil
}

// environmentError is a failure that no other draw would mend.
type environmentError struct{ err error }

func (e *environmentError) Error() string { return e.err.Error() }

type lengthError struct{ have, limit int }

func (e *lengthError) Error() string {
	return fmt.Sprintf("%d bytes of JSON, the limit is %d", e.have, e.limit)
}

func (p *plan) try(ctx context.Context, index, attempt int, env Environment, o Options) (*candidate, error) {
	rng := rand.New(rand.NewPCG(stream(o.Seed, p.seed.ID, index, attempt)))
	values := p.compiled.Draw(rng)
	t, err := p.carryOut(ctx, values, index, attempt, env, o)
	if err != nil {
		return nil, err
	}
	t.ID = p.seed.ID + "-" + strconv.Itoa(index)
	t.SeedID, t.Source = p.seed.ID, p.seed.Source
	t.Provenance = p.provenance(index, attempt, o)
	if o.MaxTrajectory > 0 {
		if n := len(t.Value().AppendJSON(nil)); n > o.MaxTrajectory {
			return nil, &lengthError{n, o.MaxTrajectory}
		}
	}
	c := &candidate{t: t, tuple: t.Slots.JSON(), attempt: attempt, content: contentHash(t), sketch: sketchOf(features(t))}
	c.planner, c.executor, c.tooLong, err = p.records.extract(t)
	return c, err
}

// carryOut composes an instance in a session of its own and verifies it there.
func (p *plan) carryOut(ctx context.Context, values slots.Values, index, attempt int, env Environment, o Options) (t *data.Trajectory, err error) {
	tools, err := env.Session(ctx, fmt.Sprintf("%s %s, seed %d, index %d, attempt %d", p.seed.ID, p.compiled.ProgramHash, o.Seed, index, attempt))
	if err != nil {
		return nil, &environmentError{err}
	}
	defer func() {
		if broken := tools.Close(); broken != nil {
			err = &environmentError{broken}
		}
	}()
	if t, err = p.compiled.Instance(values, tools); err != nil {
		return nil, err
	}
	return t, p.compiled.Verify(t, values, tools)
}

// provenance says where an instance came from; explain rebuilds it from this.
func (p *plan) provenance(index, attempt int, o Options) strictjson.Value {
	program := p.compiled.Program
	review := "none"
	if program.Review != nil {
		review = program.Review.State
		if program.Review.By != "" {
			review += " by " + program.Review.By
		}
	}
	return strictjson.Obj(
		strictjson.Member{Key: "seed", Value: strictjson.Text(p.seed.ID)},
		strictjson.Member{Key: "seed_hash", Value: strictjson.Text(program.SeedHash)},
		strictjson.Member{Key: "program_hash", Value: strictjson.Text(p.compiled.ProgramHash)},
		strictjson.Member{Key: "program_origin", Value: strictjson.Text(program.Origin)},
		strictjson.Member{Key: "review", Value: strictjson.Text(review)},
		strictjson.Member{Key: "run_seed", Value: strictjson.Text(strconv.FormatUint(o.Seed, 10))},
		strictjson.Member{Key: "index", Value: strictjson.Int(index)},
		strictjson.Member{Key: "attempt", Value: strictjson.Int(attempt)},
		strictjson.Member{Key: "mode", Value: strictjson.Text(o.Mode)},
		strictjson.Member{Key: "drawn_observations", Value: p.compiled.DrawnSteps()},
		strictjson.Member{Key: "answer", Value: strictjson.Text(program.Answer)})
}
