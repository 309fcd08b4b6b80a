// Package run keeps the folder of a training run: its configuration, its metrics (metrics.jsonl is the source of truth,
// TensorBoard's event files and report.html are made from it), the steps that were skipped and samples of what the
// model wrote. One process at a time writes a folder.
package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"terraloom/data"
)

// Names in a run folder.
const (
	ConfigFile      = "config.yaml"
	MetricsFile     = "metrics.jsonl"
	SkippedFile     = "skipped.jsonl" // steps that were not applied, with their rows
	SamplesFile     = "samples.jsonl" // what the model wrote, with scores
	ReportFile      = "report.html"
	CheckpointsDir  = "checkpoints"
	TensorBoardDir  = "tensorboard"
	AdapterDir      = "adapter" // the result: a PEFT folder
	ModelDir        = "model"   // the result where all weights were trained
	lockFile        = ".lock"
	folderMode      = 0o755
	metricsFileMode = 0o644
)

// Folder is an open run folder. Its methods are not for several goroutines at once.
type Folder struct {
	Dir string

	lock    *flock.Flock
	metrics *os.File
	lines   map[string]*os.File
	board   *Board
}

// Open locks a run folder, making it where there is none. A folder that another process writes gives data.ErrLocked. A
// folder that already holds a run gives data.ErrExists unless resume is set.
func Open(dir string, resume bool) (f *Folder, err error) {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockFile))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("run folder %s: %w", dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("run folder %s: %w: wait for it, or use another folder", dir, data.ErrLocked)
	}
	f = &Folder{Dir: dir, lock: lock, lines: map[string]*os.File{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
			f = nil
		}
	}()
	if used, err := f.used(); err != nil || used && !resume {
		if err == nil {
			err = fmt.Errorf("run folder %s: %w and holds a run: resume it, or use another folder", dir, data.ErrExists)
		}
		return f, err
	}
	if f.metrics, err = os.OpenFile(f.Path(MetricsFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, metricsFileMode); err != nil {
		return f, fmt.Errorf("run folder: %w", err)
	}
	f.board, err = NewBoard(f.Path(TensorBoardDir))
	return f, err
}

// used reports whether a run has left something in the folder.
func (f *Folder) used() (bool, error) {
	for _, name := range []string{MetricsFile, CheckpointsDir, AdapterDir, ModelDir} {
		if _, err := os.Lstat(f.Path(name)); err == nil {
			return true, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("run folder: %w", err)
		}
	}
	return false, nil
}

// Complete reports whether the run's result is there.
func (f *Folder) Complete() (bool, error) {
	for _, name := range []string{AdapterDir, ModelDir} {
		if _, err := os.Lstat(f.Path(name)); err == nil {
			return true, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("run folder: %w", err)
		}
	}
	return false, nil
}

// Path is the path of a name in the folder.
func (f *Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

// Append writes a record to metrics.jsonl and to TensorBoard.
func (f *Folder) Append(r Record) error {
	if _, err := f.metrics.Write(r.line()); err != nil {
		return fmt.Errorf("%s: %w", MetricsFile, err)
	}
	return f.board.Add(r)
}

// Line appends a value as one line of JSON to another file of the folder, such as SkippedFile.
func (f *Folder) Line(name string, v any) error {
	out, ok := f.lines[name]
	if !ok {
		var err error
		if out, err = os.OpenFile(f.Path(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, metricsFileMode); err != nil {
			return fmt.Errorf("run folder: %w", err)
		}
		f.lines[name] = out
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Rewind drops what was recorded after a step, by a run that was cut off after its last checkpoint, and makes the
// TensorBoard file anew.
func (f *Folder) Rewind(step int) error {
	records, err := Records(f.Dir)
	if err != nil {
		return err
	}
	var text []byte
	kept := records[:0]
	for _, r := range records {
		if r.Step <= step {
			text = append(text, r.line()...)
			kept = append(kept, r)
		}
	}
	if err := f.metrics.Close(); err != nil {
		return fmt.Errorf("%s: %w", MetricsFile, err)
	}
	if err := data.WriteFile(f.Path(MetricsFile), text); err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	if f.metrics, err = os.OpenFile(f.Path(MetricsFile), os.O_RDWR|os.O_APPEND, metricsFileMode); err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	for _, name := range []string{SkippedFile, SamplesFile} {
		if err := f.rewindLines(name, step); err != nil {
			return err
		}
	}
	if err := f.board.Restart(); err != nil {
		return err
	}
	for _, r := range kept {
		if err := f.board.Add(r); err != nil {
			return err
		}
	}
	return nil
}

// rewindLines drops the lines of a file whose "step" is above step, and a last line that was cut off.
func (f *Folder) rewindLines(name string, step int) error {
	text, err := os.ReadFile(f.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	var kept []byte
	for line := range lines(text) {
		var at struct{ Step int }
		if json.Unmarshal(line, &at) == nil && at.Step <= step {
			kept = append(append(kept, line...), '\n')
		}
	}
	if open, ok := f.lines[name]; ok {
		delete(f.lines, name)
		if err := open.Close(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return data.WriteFile(f.Path(name), kept)
}

// Sync makes what was recorded durable.
func (f *Folder) Sync() error {
	errs := []error{f.metrics.Sync(), f.board.Sync()}
	for _, out := range f.lines {
		errs = append(errs, out.Sync())
	}
	return errors.Join(errs...)
}

// Close releases the folder.
func (f *Folder) Close() error {
	var errs []error
	if f.metrics != nil {
		errs = append(errs, f.metrics.Close())
	}
	if f.board != nil {
		errs = append(errs, f.board.Close())
	}
	for _, out := range f.lines {
		errs = append(errs, out.Close())
	}
	return errors.Join(append(errs, f.lock.Close())...)
}

// Usable reports what Open would complain of, without making or locking anything.
func Usable(dir string, resume bool) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f := &Folder{Dir: dir}
	if used, err := f.used(); err != nil || !used || resume {
		return err
	}
	return fmt.Errorf("run folder %s: %w and holds a run: resume it, or use another folder", dir, data.ErrExists)
}
