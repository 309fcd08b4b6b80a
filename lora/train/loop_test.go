package train

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"terraloom/data"
	"terraloom/lora/decoder"
	"terraloom/lora/train/run"
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

// Speed is told three ways, with the share of the peak where one is known; the first step compiles and does not count for
// the time that is left.
func TestMeter(t *testing.T) {
	m := meter{peak: 1e9}
	o := Outcome{Tokens: Tokens{All: 100, Real: 80, Labelled: 10}, FLOPs: 1e8, Wait: 50 * time.Millisecond}
	m.step(o, 10*time.Second)
	if left := m.left(3); left != 30*time.Second {
		t.Errorf("after one step %v are left, expected 30s", left)
	}
	got := map[string]float64{}
	for _, v := range m.step(o, 500*time.Millisecond) {
		got[v.Name] = v.Number
	}
	for name, want := range map[string]float64{"tokens_per_second": 200, "tokens_real_per_second": 160, "tokens_labelled_per_second": 20, "wait_share": 0.1, "mfu": 0.2, "seconds": 0.5} {
		if math.Abs(got[name]-want) > 1e-12 {
			t.Errorf("%s is %v, expected %v", name, got[name], want)
		}
	}
	if left := m.left(4); left != 2*time.Second {
		t.Errorf("%v are left, expected 2s", left)
	}
	for range 50 {
		m.step(o, time.Second)
	}
	if left := m.left(1); left != time.Second || len(m.recent) != window {
		t.Errorf("%v are left after %d recent steps", left, len(m.recent))
	}
}
