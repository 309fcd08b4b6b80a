package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"terraloom/lora/decoder"
	"terraloom/lora/train/run"
	"terraloom/lora/train/settings"
)

// Loop is a training run. Fill it in and call Run once.
type Loop struct {
	Model   *decoder.Model
	Params  *decoder.Params // where training starts; Run changes them
	All     bool            // Params are all weights of the model, not an adapter
	Task    Task
	Options Options
	Batch   int         // rows of a step
	Updates int         // steps in a row on the same rows; 0: 1
	Folder  *run.Folder // open, and locked by that
	// Resume is the checkpoint folder to go on from; empty: the run starts.
	Resume string
	// Config is the configuration of the run, for the checkpoints. A run that resumes must have the same, but for the keys
	// in Free (see [settings.Changed]).
	Config []settings.Entry
	Free   []string
	// Peak is the device's peak, in FLOPs per second, for the model FLOPs utilisation; 0: not reported.
	Peak float64
	// Progress is told after every step; may be nil.
	Progress func(Status)
}

// Status is where a run is.
type Status struct {
	Done, Total int
	Loss        float64
	PerSecond   float64 // real tokens
	Left        time.Duration
}

// Summary is how a run ended.
type Summary struct {
	State State
	// Result is the checkpoint that is the run's result: the best one, or the last where nothing was measured.
	Result string
	// Last are the measurements of the last evaluation.
	Last []run.Value
}

// active is a run that is under way.
type active struct {
	*Loop
	order   *Order
	moments *decoder.Moments
	sizes   []int
	state   State
	saved   int // step of the newest checkpoint; −1: none
	meter   meter
	checked bool // whether updates lost to rounding were counted
	last    []run.Value
}

// Run trains until the schedule ends, until nothing gets better, or until ctx ends: then the state is saved first and the
// error wraps ctx's. Errors: [ErrNothingToTrain], [ErrNonFinite], [ErrUnchanged], [ErrComplete], [ErrResume].
func (l *Loop) Run(ctx context.Context) (*Summary, error) {
	a, err := l.start()
	if err != nil {
		return nil, err
	}
	defer a.close()
	for {
		done := a.state.Step >= a.state.Total || a.state.Stopped
		improved := false
		if a.evaluationDue() {
			before := a.state.Best
			if err := a.evaluate(ctx); err != nil {
				return nil, a.interrupted(ctx, err)
			}
			improved = a.state.Best != before
			done = done || a.state.Stopped
		}
		if improved || a.saved != a.state.Step && (done || due(a.Options.Checkpoint.Every, a.state.Step)) {
			if err := a.save(); err != nil {
				return nil, err
			}
		}
		if done {
			return a.finish()
		}
		err := ctx.Err()
		if err == nil {
			err = a.step(ctx)
		}
		if err != nil {
			return nil, a.interrupted(ctx, err)
		}
	}
}

// due reports whether something that happens after every so many steps happens now.
func due(every, step int) bool { return every > 0 && step > 0 && step%every == 0 }

// evaluationDue says so once for every step.
func (a *active) evaluationDue() bool {
	step, o := a.state.Step, a.Options.Evaluation
	return a.state.Evaluated != step && (step == 0 && o.AtStart || step == a.state.Total || due(o.Every, step))
}

// start prepares a new run or restores one.
func (l *Loop) start() (*active, error) {
	if err := l.Options.Validate(); err != nil {
		return nil, err
	}
	if complete, err := l.Folder.Complete(); err != nil || complete {
		if err == nil {
			err = fmt.Errorf("run folder %s: %w and has its result: use another folder to train more", l.Folder.Dir, ErrComplete)
		}
		return nil, err
	}
	if l.Params.Count() == 0 {
		return nil, fmt.Errorf("%w: no parameter is trainable", ErrNothingToTrain)
	}
	order, err := NewOrder(l.Task.IDs(), l.Options.Seed, l.Batch, max(l.Updates, 1))
	if err != nil {
		return nil, err
	}
	a := &active{Loop: l, order: order, saved: -1, meter: meter{peak: l.Peak}}
	host, err := l.Params.Host()
	if err != nil {
		return nil, err
	}
	for _, v := range host {
		a.sizes = append(a.sizes, len(v))
	}
	a.state = State{
		Total: l.Options.Schedule.Total(order.StepsPerEpoch()), Seed: l.Options.Seed, Order: order.Hash(),
		Start: hashVectors(host), Config: l.Config, Evaluated: -1,
	}
	if a.state.Total < 1 {
		return nil, fmt.Errorf("%w: the schedule has no step", ErrNothingToTrain)
	}
	if l.Resume != "" {
		err = a.restore()
	} else if err = l.Folder.Rewind(-1); err == nil { // what a run left that died before its first checkpoint
		a.moments, err = l.Params.NewMoments()
	}
	if err != nil {
		return nil, err
	}
	return a, prune(a.checkpoints(), math.MaxInt, -1)
}

func (a *active) checkpoints() string { return a.Folder.Path(run.CheckpointsDir) }

func (a *active) close() {
	if a.moments != nil {
		a.moments.M.Free()
		a.moments.V.Free()
	}
}

// step computes and applies one optimiser step.
func (a *active) step(ctx context.Context) error {
	began := time.Now()
	number := a.state.Step
	epoch, _, update, rows := a.order.At(number)
	grads, err := a.Params.Zeros()
	if err != nil {
		return err
	}
	defer grads.Free()
	found, err := a.Task.Gradient(ctx, Step{Number: number, Epoch: epoch, Update: update, Rows: rows}, grads)
	if err != nil {
		return fmt.Errorf("step %d: %w", number, err)
	}
	norm, err := a.Params.Norm(grads)
	if err != nil {
		return fmt.Errorf("step %d: %w", number, err)
	}
	rate := a.Options.Schedule.Rate(number, a.state.Total)
	scale := a.Options.Optimizer.scale(norm)
	values := []run.Value{{Name: "loss", Number: found.Loss}, {Name: "grad_norm", Number: norm}, {Name: "clip", Number: scale},
		{Name: "learning_rate", Number: a.Options.Optimizer.LR * rate}}

	if finite(found.Loss) && finite(norm) {
		lost, err := a.update(grads, rate, scale)
		if err != nil {
			return fmt.Errorf("step %d: %w", number, err)
		}
		values = append(values, lost...)
		a.state.Updates++
		a.state.InRow = 0
	} else if err := a.skip(number, epoch, rows, found.Loss, norm); err != nil {
		return err
	}

	a.state.Step++
	a.state.Epoch, a.state.Cursor, _, _ = a.order.At(a.state.Step)
	a.state.Tokens.Add(found.Tokens)
	took := time.Since(began)
	a.state.Seconds += took.Seconds()
	epochs := float64(a.state.Step) / float64(a.order.StepsPerEpoch())
	values = append(values, run.Value{Name: "epoch", Number: epochs})
	values = append(append(values, found.Values...), a.meter.step(found, took)...)
	left := a.meter.left(a.state.Total - a.state.Step)
	values = append(values, run.Value{Name: "eta_seconds", Number: left.Seconds()})
	if a.Progress != nil {
		a.Progress(Status{a.state.Step, a.state.Total, found.Loss, float64(found.Tokens.Real) / took.Seconds(), left})
	}
	return a.record(run.Train, values, "")
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// update applies the gradients. In the first step with a rate above 0 it counts the parameters that have a gradient but
// did not change because the change was below the last bit.
func (a *active) update(grads *decoder.Vectors, rate, scale float64) ([]run.Value, error) {
	count := !a.checked && rate > 0
	var before [][]float32
	var err error
	if count {
		if before, err = a.Params.Host(); err != nil {
			return nil, err
		}
	}
	if err := a.Params.Update(a.moments, grads, a.Options.Optimizer.step(rate), scale); err != nil {
		return nil, err
	}
	if !count {
		return nil, nil
	}
	a.checked = true
	after, err := a.Params.Host()
	if err != nil {
		return nil, err
	}
	g, err := grads.Host()
	if err != nil {
		return nil, err
	}
	lost, moving := 0, 0
	for i := range g {
		for j := range g[i] {
			if g[i][j] != 0 {
				moving++
				if before[i][j] == after[i][j] {
					lost++
				}
			}
		}
	}
	if lost > moving/100 {
		slog.Warn("updates are lost to rounding: raise the learning rate", "parameters", lost, "with gradient", moving)
	}
	return []run.Value{{Name: "updates_lost", Number: float64(lost)}}, nil
}

// skipped is a line of [run.SkippedFile].
type skipped struct {
	Step   int      `json:"step"` // that was not applied, from 1 as in the metrics
	Epoch  int      `json:"epoch"`
	Rows   []string `json:"rows"`
	Loss   string   `json:"loss"` // text: NaN is no JSON number
	Norm   string   `json:"grad_norm"`
	InARow int      `json:"in_a_row"`
}

// skip leaves parameters and moments as they are, writes down which rows did it, and gives up after too many.
func (a *active) skip(number, epoch int, rows []int, loss, norm float64) error {
	a.state.Skipped++
	a.state.InRow++
	ids := a.Task.IDs()
	var names []string
	for _, r := range rows {
		names = append(names, ids[r])
	}
	line := skipped{number + 1, epoch, names, fmt.Sprint(loss), fmt.Sprint(norm), a.state.InRow}
	if err := a.Folder.Line(run.SkippedFile, line); err != nil {
		return err
	}
	slog.Warn("step skipped: not finite", "step", number+1, "loss", loss, "grad_norm", norm, "rows", a.Folder.Path(run.SkippedFile))
	if limit := a.Options.Stop.NonFinite; a.state.InRow > limit {
		return fmt.Errorf("%w in %d steps in a row (loss %v, gradient norm %v): the rows are in %s: lower the learning rate or look at them",
			ErrNonFinite, a.state.InRow, loss, norm, a.Folder.Path(run.SkippedFile))
	}
	return nil
}

// evaluate measures, and keeps account of the best.
func (a *active) evaluate(ctx context.Context) error {
	began := time.Now()
	values, err := a.Task.Evaluate(ctx, a.state.Step)
	if err != nil {
		return fmt.Errorf("evaluation after step %d: %w", a.state.Step, err)
	}
	a.state.Evaluated = a.state.Step
	if len(values) == 0 {
		return nil
	}
	a.last = slices.Clone(values)
	values = append(slices.Clone(values), run.Value{Name: "seconds", Number: time.Since(began).Seconds()})
	if err := a.record(run.Validation, values, ""); err != nil {
		return err
	}
	if err := a.Folder.Report(); err != nil {
		return err
	}
	metric, sign := strings.CutPrefix(a.Options.Checkpoint.Metric, "-")
	if metric == "" {
		return nil
	}
	at := slices.IndexFunc(values, func(v run.Value) bool { return v.Name == metric })
	if at < 0 {
		var names []string
		for _, v := range a.last {
			names = append(names, v.Name)
		}
		return fmt.Errorf("%w: checkpoint.metric %q is not measured: use one of %s", ErrOptions, metric, strings.Join(names, ", "))
	}
	if a.state.Step == 0 {
		return nil // what it started from is no result
	}
	value := values[at].Number
	better := value
	if sign {
		better = -value
	}
	best := math.Inf(-1)
	if b := a.state.Best; b != nil {
		if best = b.Value; sign {
			best = -best
		}
	}
	if better > best && better-best >= a.Options.Stop.MinDelta {
		a.state.Best, a.state.Since = &Best{a.state.Step, value}, 0
		return nil
	}
	a.state.Since++
	if p := a.Options.Stop.Patience; p > 0 && a.state.Since >= p {
		a.state.Stopped = true
		return a.record(run.Event, nil, fmt.Sprintf("stopped early: %s has not got better for %d evaluations", metric, a.state.Since))
	}
	return nil
}

func (a *active) record(kind string, values []run.Value, note string) error {
	return a.Folder.Append(run.Record{Time: time.Now(), Kind: kind, Step: a.state.Step, Values: values, Note: note})
}

// save writes a checkpoint and removes those that are not to be kept.
func (a *active) save() error {
	s, err := a.snapshot()
	if err != nil {
		return err
	}
	if err := a.Folder.Sync(); err != nil {
		return err
	}
	if _, err := Save(a.checkpoints(), s); err != nil {
		return err
	}
	a.saved = a.state.Step
	best := -1
	if a.state.Best != nil {
		best = a.state.Best.Step
	}
	return prune(a.checkpoints(), a.Options.Checkpoint.Keep, best)
}

// interrupted saves a run that ctx ends, at the last whole step, and passes other errors on.
func (a *active) interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	if a.saved != a.state.Step && a.state.Step > 0 {
		if e := a.save(); e != nil {
			return errors.Join(err, e)
		}
	}
	return fmt.Errorf("stopped after step %d of %d, resume to go on: %w", a.state.Step, a.state.Total, err)
}

// finish checks that something was learned and names the result.
func (a *active) finish() (*Summary, error) {
	host, err := a.Params.Host()
	if err != nil {
		return nil, err
	}
	if hashVectors(host) == a.state.Start {
		return nil, fmt.Errorf("%w: after %d steps (%d skipped) the parameters have the hash they had at the start: is the learning rate 0?",
			ErrUnchanged, a.state.Step, a.state.Skipped)
	}
	result := stepName(a.state.Step)
	if a.state.Best != nil {
		result = stepName(a.state.Best.Step)
	}
	s := &Summary{State: a.state, Result: filepath.Join(a.checkpoints(), result), Last: a.last}
	if _, err := os.Stat(s.Result); err != nil {
		return nil, fmt.Errorf("the result's checkpoint: %w", err)
	}
	if err := a.record(run.Event, nil, "complete: the result is the checkpoint "+result); err != nil {
		return nil, err
	}
	return s, a.Folder.Report()
}

// Resumable finds the checkpoint that a run in folder would go on from: what is "never" (none), "auto" (the newest that is
// whole, or none), or the name or path of a checkpoint folder.
func Resumable(folder, what string) (path string, err error) {
	dir := filepath.Join(folder, run.CheckpointsDir)
	switch what {
	case "never", "":
		return "", nil
	case "auto":
		path, passed, err := Newest(dir)
		for _, p := range passed {
			slog.Warn("checkpoint passed over", "error", p)
		}
		if errors.Is(err, ErrNoCheckpoint) && len(passed) == 0 {
			return "", nil
		}
		return path, err
	}
	if path = what; !strings.ContainsRune(what, filepath.Separator) {
		path = filepath.Join(dir, what)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	return path, verify(path)
}
