package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/lora/train/run"
	"terraloom/lora/train/settings"
)

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

// Killed before its first checkpoint, a run starts anew, and nothing is recorded twice.
func TestResumeWithoutCheckpoint(t *testing.T) {
	dir := t.TempDir()
	first := newTrial(t, dir, quick(), "")
	died := errors.New("died")
	first.task.stop = func(s Step) {
		if s.Number == 2 {
			panic(died)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = first.loop.Run(context.Background())
	}()
	check(t, first.loop.Folder.Close())
	if n := len(trainRecords(t, dir)); n != 2 {
		t.Fatalf("%d records, expected 2", n)
	}
	again := newTrial(t, dir, quick(), "auto")
	_, err := again.loop.Run(context.Background())
	check(t, err)
	if n := len(trainRecords(t, dir)); n != 9 || len(again.task.steps) != 9 {
		t.Errorf("%d records of %d steps, expected 9", n, len(again.task.steps))
	}
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
			panic(died) // as sudden as a kill
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
