package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/lora/decoder"
	"terraloom/lora/train/run"
	"terraloom/lora/train/settings"
)

// trial is a run of the pull task.
type trial struct {
	loop *Loop
	task *pull
}

// newTrial prepares a run of 7 rows, 3 a step, in dir.
func newTrial(t *testing.T, dir string, o Options, resume string) *trial {
	t.Helper()
	m, p := tinyModel(t)
	folder, err := run.Open(dir, resume != "")
	check(t, err)
	t.Cleanup(func() { folder.Close() })
	from, err := Resumable(dir, resume)
	check(t, err)
	task := newPull(p, 7)
	return &trial{task: task, loop: &Loop{Model: m, Params: p, Task: task, Options: o, Batch: 3, Folder: folder, Resume: from}}
}

func (r *trial) hash(t *testing.T) string {
	t.Helper()
	host, err := r.loop.Params.Host()
	check(t, err)
	return hashVectors(host)
}

// optimizerBytes are the moments of a run's newest checkpoint.
func optimizerBytes(t *testing.T, dir string) []byte {
	t.Helper()
	path, _, err := Newest(filepath.Join(dir, run.CheckpointsDir))
	check(t, err)
	text, err := os.ReadFile(filepath.Join(path, optimizerFile))
	check(t, err)
	return text
}

func trainRecords(t *testing.T, dir string) []run.Record {
	t.Helper()
	records, err := run.Records(dir)
	check(t, err)
	return slices.DeleteFunc(records, func(r run.Record) bool { return r.Kind != run.Train })
}

// C4 and C5: a run that stops after any step, mid-epoch or at the end of one, and is resumed, ends with the parameters,
// moments, best evaluation and metrics of a run that did not stop.
func TestResumeFromEveryStepIsBitEqual(t *testing.T) {
	o := quick()
	o.Checkpoint.Metric = "-loss"
	straight := newTrial(t, t.TempDir(), o, "")
	want, err := straight.loop.Run(context.Background())
	check(t, err)
	total := want.State.Total
	if total != 9 { // 7 rows by 3 are 3 steps an epoch
		t.Fatalf("%d steps, expected 9", total)
	}
	wantHash, wantMoments := straight.hash(t), optimizerBytes(t, straight.loop.Folder.Dir)
	for stop := range total {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		first := newTrial(t, dir, o, "")
		first.task.stop = func(s Step) { // during step number stop: it is lost
			if s.Number == stop {
				cancel()
			}
		}
		if _, err := first.loop.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped in step %d: %v", stop, err)
		}
		check(t, first.loop.Folder.Close())
		again := newTrial(t, dir, o, "auto")
		got, err := again.loop.Run(context.Background())
		check(t, err)
		if again.hash(t) != wantHash {
			t.Errorf("stopped in step %d: other parameters", stop)
		}
		if !bytes.Equal(optimizerBytes(t, dir), wantMoments) {
			t.Errorf("stopped in step %d: other moments", stop)
		}
		a, b := got.State, want.State
		a.Seconds, b.Seconds = 0, 0
		if !sameJSON(t, a, b) {
			t.Errorf("stopped in step %d: state\n%+v, expected\n%+v", stop, a, b)
		}
		if n := len(again.task.steps); n != total-stop {
			t.Errorf("stopped in step %d: %d steps after that, expected %d", stop, n, total-stop)
		}
		for i, r := range trainRecords(t, dir) {
			w := trainRecords(t, straight.loop.Folder.Dir)[i]
			for _, name := range []string{"loss", "grad_norm", "learning_rate", "epoch"} {
				x, _ := r.Get(name)
				if y, _ := w.Get(name); x != y || r.Step != i+1 {
					t.Errorf("stopped in step %d: record %d has step %d and %s %v, expected %v", stop, i, r.Step, name, x, y)
				}
			}
		}
	}
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	check(t, err)
	y, err := json.Marshal(b)
	check(t, err)
	return bytes.Equal(x, y)
}

// Killed after a checkpoint and before the next one, a run has records of steps that its checkpoint does not know: they
// go, and come back the same.
func TestResumeAfterLostSteps(t *testing.T) {
	o := quick()
	o.Checkpoint.Every = 4
	o.Evaluation.Every = 0
	straight := newTrial(t, t.TempDir(), o, "")
	_, err := straight.loop.Run(context.Background())
	check(t, err)

	dir := t.TempDir()
	first := newTrial(t, dir, o, "")
	died := errors.New("died")
	first.task.stop = func(s Step) {
		if s.Number == 6 {
			first.task.params = nil // the next gradient panics: as sudden as a kill
			panic(died)
		}
	}
	func() {
		defer func() {
			if r := recover(); r != died {
				t.Fatalf("recovered %v", r)
			}
		}()
		_, _ = first.loop.Run(context.Background())
	}()
	check(t, first.loop.Folder.Close())
	if n := len(trainRecords(t, dir)); n != 6 {
		t.Fatalf("%d records before, expected 6", n)
	}
	again := newTrial(t, dir, o, "auto")
	_, err = again.loop.Run(context.Background())
	check(t, err)
	if again.hash(t) != straight.hash(t) || len(again.task.steps) != 5 {
		t.Errorf("other parameters after %d steps", len(again.task.steps))
	}
	var steps []int
	for _, r := range trainRecords(t, dir) {
		steps = append(steps, r.Step)
	}
	if !slices.Equal(steps, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("records of the steps %v", steps)
	}
}

func TestResumeRefusesAnotherRun(t *testing.T) {
	dir := t.TempDir()
	config := []settings.Entry{{Key: "batch.rows", Value: "3"}, {Key: "out", Value: "x"}}
	first := newTrial(t, dir, quick(), "")
	first.loop.Config = config
	ctx, cancel := context.WithCancel(context.Background())
	first.task.stop = func(s Step) {
		if s.Number == 4 {
			cancel()
		}
	}
	if _, err := first.loop.Run(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "after step 4 of 9") {
		t.Fatalf("%v", err)
	}
	check(t, first.loop.Folder.Close())

	for name, c := range map[string]struct {
		change func(*Loop)
		names  string
	}{
		"other key":      {func(l *Loop) { l.Config = []settings.Entry{{Key: "batch.rows", Value: "4"}, {Key: "out", Value: "x"}} }, "batch.rows was 3 and is 4"},
		"other batch":    {func(l *Loop) { l.Batch = 2 }, "batch size"},
		"other seed":     {func(l *Loop) { l.Options.Seed = 9 }, "order"},
		"other rows":     {func(l *Loop) { l.Task.(*pull).ids[2] = "z" }, "rows"},
		"other schedule": {func(l *Loop) { l.Options.Schedule.Epochs = 4 }, "9 steps and has 12"},
		"other start": {func(l *Loop) {
			a := tinyAdapter(t)
			a.B[0][0] = 1
			p, err := l.Model.Bind(a)
			check(t, err)
			l.Params = p
		}, "other parameters"},
		"all weights": {func(l *Loop) { l.All = true }, "adapter where all weights"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, dir, quick(), "auto")
			defer r.loop.Folder.Close()
			r.loop.Config = config
			c.change(r.loop)
			if _, err := r.loop.Run(context.Background()); !errors.Is(err, ErrResume) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v, expected one naming %q", err, c.names)
			}
		})
	}
	r := newTrial(t, dir, quick(), "auto")
	r.loop.Config, r.loop.Free = []settings.Entry{{Key: "batch.rows", Value: "3"}, {Key: "out", Value: "y"}}, []string{"out"}
	if _, err := r.loop.Run(context.Background()); err != nil {
		t.Errorf("a free key: %v", err)
	}
}

// C7: a second run in the folder is locked out; a folder that holds a run is not taken for a new one; a finished run is
// not resumed.
func TestFolderIsGuarded(t *testing.T) {
	dir := t.TempDir()
	r := newTrial(t, dir, quick(), "")
	if _, err := run.Open(dir, true); !errors.Is(err, data.ErrLocked) {
		t.Errorf("second run: %v", err)
	}
	summary, err := r.loop.Run(context.Background())
	check(t, err)
	check(t, r.loop.Folder.Close())
	if _, err := run.Open(dir, false); !errors.Is(err, data.ErrExists) {
		t.Errorf("new run in the folder: %v", err)
	}
	if err := run.Usable(dir, false); !errors.Is(err, data.ErrExists) {
		t.Errorf("usable: %v", err)
	}
	// All steps are done, but the result was not written: resuming gives it without a step.
	again := newTrial(t, dir, quick(), "auto")
	got, err := again.loop.Run(context.Background())
	check(t, err)
	if got.Result != summary.Result || len(again.task.steps) != 0 {
		t.Errorf("result %s after %d steps, expected %s", got.Result, len(again.task.steps), summary.Result)
	}
	check(t, os.MkdirAll(filepath.Join(dir, run.AdapterDir), 0o755))
	if _, err := again.loop.Run(context.Background()); !errors.Is(err, ErrComplete) {
		t.Errorf("complete run: %v", err)
	}
}

// F7: a step that is not finite changes neither parameters nor moments, its rows are written down, and too many in a row
// end the run.
func TestNonFiniteStepsAreSkipped(t *testing.T) {
	r := newTrial(t, t.TempDir(), quick(), "")
	before := map[int]string{}
	r.task.spoil = func(s Step) (bool, bool) {
		before[s.Number] = r.hash(t)
		return s.Number == 2, s.Number == 3 // a loss, then a gradient
	}
	summary, err := r.loop.Run(context.Background())
	check(t, err)
	if before[2] != before[3] || before[3] != before[4] || before[4] == before[5] {
		t.Error("skipped steps changed parameters, or later ones did not")
	}
	if s := summary.State; s.Skipped != 2 || s.Updates != 7 || s.InRow != 0 || s.Step != 9 {
		t.Errorf("state %+v", s)
	}
	text, err := os.ReadFile(r.loop.Folder.Path(run.SkippedFile))
	check(t, err)
	var lines []skipped
	for line := range strings.Lines(string(text)) {
		var s skipped
		check(t, json.Unmarshal([]byte(line), &s))
		lines = append(lines, s)
	}
	var rows []string
	for _, i := range r.task.steps[2].Rows {
		rows = append(rows, r.task.ids[i])
	}
	if len(lines) != 2 || lines[0].Step != 3 || !slices.Equal(lines[0].Rows, rows) || lines[0].Loss != "NaN" || lines[1].Norm != "+Inf" || lines[1].InARow != 2 {
		t.Errorf("written down: %+v, expected the rows %v", lines, rows)
	}
	// D2: the records of these steps are there, and readable.
	if x, ok := trainRecords(t, r.loop.Folder.Dir)[2].Get("loss"); !ok || !math.IsNaN(x) {
		t.Errorf("loss %v in the record", x)
	}

	endless := newTrial(t, t.TempDir(), quick(), "")
	endless.task.spoil = func(s Step) (bool, bool) { return s.Number >= 1, false }
	if _, err := endless.loop.Run(context.Background()); !errors.Is(err, ErrNonFinite) || !strings.Contains(err.Error(), "4 steps in a row") {
		t.Errorf("endless: %v", err)
	}
	if n := len(endless.task.steps); n != 5 {
		t.Errorf("given up after %d steps, expected 1 good one and 4 others", n)
	}
}

// The skipped steps count for resumption too: the moments' step is that of the updates.
func TestResumeAfterSkippedStep(t *testing.T) {
	spoil := func(s Step) (bool, bool) { return s.Number == 1, false }
	straight := newTrial(t, t.TempDir(), quick(), "")
	straight.task.spoil = spoil
	_, err := straight.loop.Run(context.Background())
	check(t, err)
	dir := t.TempDir()
	first := newTrial(t, dir, quick(), "")
	first.task.spoil = spoil
	ctx, cancel := context.WithCancel(context.Background())
	first.task.stop = func(s Step) {
		if s.Number == 4 {
			cancel()
		}
	}
	if _, err := first.loop.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	check(t, first.loop.Folder.Close())
	again := newTrial(t, dir, quick(), "auto")
	_, err = again.loop.Run(context.Background())
	check(t, err)
	if again.hash(t) != straight.hash(t) {
		t.Error("other parameters")
	}
}

// The best evaluation becomes the result, its checkpoint stays, and a run that does not get better stops.
func TestBestCheckpointAndEarlyStop(t *testing.T) {
	measured := map[int]float64{0: 0.9, 1: 0.5, 2: 0.7, 3: 0.71, 4: math.NaN(), 5: 0.6, 6: 0.6, 7: 0.65, 8: 0.1}
	o := quick()
	o.Evaluation = Evaluation{Every: 1, AtStart: true}
	o.Checkpoint = Checkpoints{Every: 3, Keep: 1, Metric: "exact_match"}
	o.Stop = Stop{Patience: 4}
	r := newTrial(t, t.TempDir(), o, "")
	r.task.measure = func(done int) []run.Value { return []run.Value{{Name: "exact_match", Number: measured[done]}} }
	summary, err := r.loop.Run(context.Background())
	check(t, err)
	if s := summary.State; !s.Stopped || s.Step != 7 || s.Best == nil || *s.Best != (Best{3, 0.71}) || filepath.Base(summary.Result) != stepName(3) {
		t.Errorf("state %+v with best %+v, result %s", s, s.Best, summary.Result)
	}
	entries, err := os.ReadDir(r.loop.Folder.Path(run.CheckpointsDir))
	check(t, err)
	if len(entries) != 2 {
		t.Errorf("checkpoints %v, expected the best and the last", entries)
	}
	if !slices.Equal(r.task.measured, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("measured after the steps %v", r.task.measured)
	}

	o.Checkpoint.Metric, o.Stop = "-exact_match", Stop{MinDelta: 0.2}
	smaller := newTrial(t, t.TempDir(), o, "")
	smaller.task.measure = r.task.measure
	summary, err = smaller.loop.Run(context.Background())
	check(t, err)
	if b := summary.State.Best; *b != (Best{8, 0.1}) || summary.State.Stopped {
		t.Errorf("best %+v", b)
	}

	o.Checkpoint.Metric = "accuracy"
	unknown := newTrial(t, t.TempDir(), o, "")
	unknown.task.measure = r.task.measure
	if _, err := unknown.loop.Run(context.Background()); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "exact_match") {
		t.Errorf("unknown metric: %v", err)
	}
}

// L10: a run that changes nothing is an error, and so is one with nothing to change. L8: updates that round to nothing
// are counted.
func TestUnchangedParametersAreAnError(t *testing.T) {
	o := quick()
	o.Optimizer.LR = 1e-30
	r := newTrial(t, t.TempDir(), o, "")
	host, err := r.loop.Params.Host()
	check(t, err)
	moving := 0
	for i := range host {
		for j := range host[i] {
			host[i][j] += 0.5 // zeros would move by any amount
			moving++
		}
	}
	v, err := r.loop.Params.FromHost(host)
	check(t, err)
	r.loop.Params.Vectors = *v
	if _, err := r.loop.Run(context.Background()); !errors.Is(err, ErrUnchanged) {
		t.Errorf("error %v", err)
	}
	if n, ok := trainRecords(t, r.loop.Folder.Dir)[1].Get("updates_lost"); !ok || int(n) < moving*9/10 {
		t.Errorf("%v updates lost, expected nearly all of %d", n, moving)
	}
	fine := newTrial(t, t.TempDir(), quick(), "")
	_, err = fine.loop.Run(context.Background())
	check(t, err)
	if n, ok := trainRecords(t, fine.loop.Folder.Dir)[1].Get("updates_lost"); !ok || n != 0 {
		t.Errorf("%v updates lost in a run that moves", n)
	}
	empty := newTrial(t, t.TempDir(), quick(), "")
	empty.loop.Params = &decoder.Params{}
	if _, err := empty.loop.Run(context.Background()); !errors.Is(err, ErrNothingToTrain) {
		t.Errorf("no parameters: %v", err)
	}
}

// stateful is pull with something to keep.
type stateful struct {
	*pull
	state string
}

func (s *stateful) State() ([]byte, error)     { return []byte(s.state), nil }
func (s *stateful) Restore(state []byte) error { s.state = string(state); return nil }

// What a task wants kept, such as rollouts of which only some updates are done, is in the checkpoint of every step.
func TestTaskStateIsKept(t *testing.T) {
	dir := t.TempDir()
	first := newTrial(t, dir, quick(), "")
	first.loop.Updates = 2
	task := &stateful{pull: first.task}
	first.loop.Task = task
	ctx, cancel := context.WithCancel(context.Background())
	first.task.stop = func(s Step) {
		if s.Number == 5 {
			cancel()
			return
		}
		task.state = fmt.Sprintf("rollouts of rows %v, update %d", s.Rows, s.Update)
	}
	if _, err := first.loop.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	check(t, first.loop.Folder.Close())
	again := newTrial(t, dir, quick(), "auto")
	again.loop.Updates = 2
	restored := &stateful{pull: again.task}
	again.loop.Task = restored
	kept := ""
	again.task.stop = func(Step) {
		if kept == "" {
			kept = restored.state
		}
	}
	_, err := again.loop.Run(context.Background())
	check(t, err)
	if kept == "" || kept != task.state {
		t.Errorf("restored %q, expected %q", kept, task.state)
	}
	if s := again.task.steps[0]; s.Update != 1 || s.Number != 5 {
		t.Errorf("went on with %+v", s)
	}
}

func TestResumable(t *testing.T) {
	dir := t.TempDir()
	if path, err := Resumable(dir, "never"); path != "" || err != nil {
		t.Errorf("never: %q, %v", path, err)
	}
	if path, err := Resumable(dir, "auto"); path != "" || err != nil {
		t.Errorf("auto without checkpoints: %q, %v", path, err)
	}
	if _, err := Resumable(dir, "step-00000003"); !errors.Is(err, ErrNoCheckpoint) {
		t.Errorf("absent: %v", err)
	}
	checkpoints := filepath.Join(dir, run.CheckpointsDir)
	for step := 3; step <= 4; step++ {
		_, err := Save(checkpoints, testSnapshot(t, step))
		check(t, err)
	}
	for what, want := range map[string]string{"auto": stepName(4), stepName(3): stepName(3), filepath.Join(checkpoints, stepName(3)): stepName(3)} {
		if path, err := Resumable(dir, what); err != nil || filepath.Base(path) != want {
			t.Errorf("%s: %q, %v", what, path, err)
		}
	}
	for _, step := range []int{3, 4} {
		check(t, os.Remove(filepath.Join(checkpoints, stepName(step), manifestFile)))
	}
	if _, err := Resumable(dir, "auto"); !errors.Is(err, ErrNoCheckpoint) {
		t.Errorf("only damaged ones: %v", err)
	}
}
