package train

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
	"terraloom/lora/train/settings"
)

// Files of a checkpoint folder.
const (
	checkpointFormat = "terraloom-checkpoint/1"
	manifestFile     = "manifest.json" // written last: what it names is whole
	stateFile        = "state.json"
	optimizerFile    = "optimizer.safetensors" // both moments, a vector per layer
	weightsFile      = "weights.safetensors"   // all weights, by canonical name; instead of the adapter
	taskFile         = "task.bin"
	adapterDir       = "adapter" // a PEFT folder
	stepPrefix       = "step-"
	// Names with these beginnings are what a run that died left behind.
	temporaryPrefix, removedPrefix = ".tmp-step-", ".old-step-"
)

// State is what a run knows besides tensors.
type State struct {
	Step    int `json:"step"`    // steps done: the number of the next one
	Updates int `json:"updates"` // of the optimiser: steps that were not skipped
	Total   int `json:"total"`   // steps of the whole run, as the schedule has them
	Epoch   int `json:"epoch"`   // of the next step
	Cursor  int `json:"cursor"`  // rows of that epoch before the next step's
	// Seed and Order identify the data order; the random streams follow from the seed, see [Stream].
	Seed  uint64 `json:"seed"`
	Order string `json:"order"`

	Tokens  Tokens  `json:"tokens"`  // so far
	Seconds float64 `json:"seconds"` // spent in steps
	Best    *Best   `json:"best,omitempty"`
	Since   int     `json:"evaluations_since_best"`
	// Evaluated is the step after which the last evaluation was; −1: none yet.
	Evaluated int    `json:"evaluated"`
	Stopped   bool   `json:"stopped"`        // ended early for want of progress
	Skipped   int    `json:"skipped"`        // steps that were not finite
	InRow     int    `json:"skipped_in_row"` // the last of them, without a good one between
	Start     string `json:"start"`          // hash of the parameters before the first step
	// Config is the run's configuration, to compare with that of the run that resumes.
	Config []settings.Entry `json:"config"`
}

// Best is the best evaluation so far.
type Best struct {
	Step  int     `json:"step"`
	Value float64 `json:"value"`
}

// Snapshot is a run's state on the host.
type Snapshot struct {
	State   State
	Adapter *adapter.Adapter    // what is trained; nil where all weights are
	Weights []checkpoint.Source // all weights; nil where an adapter is trained
	M, V    [][]float32         // the optimiser's moments
	Task    []byte              // of a [Stateful] task; nil: none
}

// manifest lists the files of a checkpoint.
type manifest struct {
	Format string          `json:"format"`
	Step   int             `json:"step"`
	Files  []manifestEntry `json:"files"`
}

type manifestEntry struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func stepName(step int) string { return fmt.Sprintf("%s%08d", stepPrefix, step) }

// Save writes a checkpoint below dir and returns its folder, step-N. It is written under a temporary name beside that,
// every file synced, the manifest with their hashes last; then renamed and the parent synced. A process that dies at any
// moment leaves the older checkpoints as they are and at most a folder that loading passes over. A checkpoint of the same
// step is replaced.
func Save(dir string, s *Snapshot) (path string, err error) {
	path = filepath.Join(dir, stepName(s.State.Step))
	defer func() {
		if err != nil {
			err = fmt.Errorf("saving checkpoint %s: %w", path, err)
		}
	}()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return path, err
	}
	tmp, err := os.MkdirTemp(dir, fmt.Sprintf("%s%08d-", temporaryPrefix, s.State.Step))
	if err != nil {
		return path, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return path, err
	}
	if err := s.write(tmp); err != nil {
		return path, err
	}
	if err := writeManifest(tmp, s.State.Step); err != nil {
		return path, err
	}
	if err := syncTree(tmp); err != nil {
		return path, err
	}
	away, err := setAside(path)
	if err != nil {
		return path, err
	}
	if err := os.Rename(tmp, path); err != nil {
		return path, err
	}
	if err := os.RemoveAll(away); err != nil {
		return path, err
	}
	return path, syncPath(dir)
}

// write puts all files but the manifest into dir.
func (s *Snapshot) write(dir string) error {
	if s.Adapter != nil {
		if err := s.Adapter.Save(filepath.Join(dir, adapterDir), adapter.SaveOptions{}); err != nil {
			return err
		}
	} else if err := checkpoint.WriteSafetensors(filepath.Join(dir, weightsFile), nil, s.Weights); err != nil {
		return err
	}
	var moments []checkpoint.Source
	for i := range s.M {
		if len(s.M[i]) == 0 {
			continue
		}
		shape := []int{len(s.M[i])}
		moments = append(moments,
			checkpoint.FromFloat32(momentName("m", i), checkpoint.F32, shape, s.M[i]),
			checkpoint.FromFloat32(momentName("v", i), checkpoint.F32, shape, s.V[i]))
	}
	if err := checkpoint.WriteSafetensors(filepath.Join(dir, optimizerFile), nil, moments); err != nil {
		return err
	}
	if s.Task != nil {
		if err := writeFile(filepath.Join(dir, taskFile), s.Task); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(s.State, "", " ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, stateFile), append(text, '\n'))
}

func momentName(moment string, vector int) string { return fmt.Sprintf("%s.%d", moment, vector) }

// writeManifest hashes what is in dir, from the disk.
func writeManifest(dir string, step int) error {
	m := manifest{Format: checkpointFormat, Step: step}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		size, sum, err := hashFile(path)
		m.Files = append(m.Files, manifestEntry{filepath.ToSlash(name), size, sum})
		return err
	})
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, manifestFile), append(text, '\n'))
}

func hashFile(path string) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// writeFile writes a file through to the disk.
func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncTree flushes every file and folder below dir, and dir, to the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// setAside takes the name from a checkpoint, if it is there, and returns where it is then: one that is being deleted must
// not look whole.
func setAside(path string) (away string, err error) {
	dir, name := filepath.Split(path)
	away = filepath.Join(dir, removedPrefix+strings.TrimPrefix(name, stepPrefix))
	if err := os.RemoveAll(away); err != nil {
		return away, err
	}
	if err := os.Rename(path, away); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return away, err
	}
	return away, nil
}

// remove deletes a checkpoint, if it is there.
func remove(path string) error {
	away, err := setAside(path)
	if err != nil {
		return err
	}
	return os.RemoveAll(away)
}

// verify checks a checkpoint's files against its manifest: [ErrCorrupt] with the reason.
func verify(path string) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %s", path, ErrCorrupt, fmt.Sprintf(format, args...))
	}
	text, err := os.ReadFile(filepath.Join(path, manifestFile))
	if err != nil {
		return bad("%v", err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return bad("%s: %v", manifestFile, err)
	}
	if m.Format != checkpointFormat {
		return bad("format %q, expected %q", m.Format, checkpointFormat)
	}
	if filepath.Base(path) != stepName(m.Step) {
		return bad("the manifest speaks of step %d", m.Step)
	}
	for _, f := range m.Files {
		if !filepath.IsLocal(f.Name) {
			return bad("file name %q", f.Name)
		}
		size, sum, err := hashFile(filepath.Join(path, filepath.FromSlash(f.Name)))
		switch {
		case err != nil:
			return bad("%v", err)
		case size != f.Bytes:
			return bad("%s has %d bytes, the manifest says %d", f.Name, size, f.Bytes)
		case sum != f.SHA256:
			return bad("%s: its SHA-256 differs from the manifest's", f.Name)
		}
	}
	for _, name := range []string{stateFile, optimizerFile} {
		if !slices.ContainsFunc(m.Files, func(f manifestEntry) bool { return f.Name == name }) {
			return bad("the manifest lacks %s", name)
		}
	}
	return nil
}

// Newest is the folder of the newest checkpoint below dir that verifies. Newer ones that do not are named in passed, with
// what is wrong. [ErrNoCheckpoint] if none does.
func Newest(dir string) (path string, passed []error, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	for _, e := range slices.Backward(entries) { // sorted by name, and so by step
		if !strings.HasPrefix(e.Name(), stepPrefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := verify(path); err != nil {
			passed = append(passed, err)
			continue
		}
		return path, passed, nil
	}
	return "", passed, fmt.Errorf("%s: %w that is whole: %w", dir, ErrNoCheckpoint, errors.Join(passed...))
}

// Load reads a checkpoint after verifying it. base is the configuration of the model that it was made with.
func Load(path string, base *checkpoint.Config) (*Loaded, error) {
	if err := verify(path); err != nil {
		return nil, err
	}
	l := &Loaded{Path: path}
	bad := func(err error) error { return fmt.Errorf("%s: %w", path, err) }
	text, err := os.ReadFile(filepath.Join(path, stateFile))
	if err != nil {
		return nil, bad(err)
	}
	if err := json.Unmarshal(text, &l.State); err != nil {
		return nil, bad(fmt.Errorf("%w: %s: %w", ErrCorrupt, stateFile, err))
	}
	if _, err := os.Lstat(filepath.Join(path, weightsFile)); err == nil {
		if l.Weights, err = checkpoint.OpenSafetensors(filepath.Join(path, weightsFile)); err != nil {
			return nil, bad(err)
		}
	} else if l.Adapter, err = adapter.Load(filepath.Join(path, adapterDir), base); err != nil {
		return nil, bad(err)
	}
	if l.Task, err = os.ReadFile(filepath.Join(path, taskFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(bad(err), l.Close())
	}
	if l.optimizer, err = checkpoint.OpenSafetensors(filepath.Join(path, optimizerFile)); err != nil {
		return nil, errors.Join(bad(err), l.Close())
	}
	return l, nil
}

// Loaded is an open checkpoint.
type Loaded struct {
	Path    string
	State   State
	Adapter *adapter.Adapter        // nil where all weights were trained
	Weights *checkpoint.Safetensors // nil where an adapter was trained
	Task    []byte

	optimizer *checkpoint.Safetensors
}

// Moments are the optimiser's moments, a vector for each of the sizes.
func (l *Loaded) Moments(sizes []int) (m, v [][]float32, err error) {
	read := func(moment string) (out [][]float32, err error) {
		for i, n := range sizes {
			var x []float32
			if n > 0 {
				if x, err = l.optimizer.Float32(momentName(moment, i)); err != nil {
					return nil, err
				}
				if len(x) != n {
					return nil, fmt.Errorf("%w: %s has %d numbers, the parameters have %d", ErrResume, momentName(moment, i), len(x), n)
				}
			}
			out = append(out, x)
		}
		return out, nil
	}
	if m, err = read("m"); err == nil {
		v, err = read("v")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", l.Path, optimizerFile, err)
	}
	return m, v, nil
}

// Close releases the checkpoint's files.
func (l *Loaded) Close() error {
	var errs []error
	if l.Weights != nil {
		errs = append(errs, l.Weights.Close())
	}
	if l.optimizer != nil {
		errs = append(errs, l.optimizer.Close())
	}
	return errors.Join(errs...)
}

// prune removes what dead runs left below dir and all checkpoints but the newest keep and that of the best step. Only the
// process that holds the run's lock may call it.
func prune(dir string, keep, best int) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("checkpoints: %w", err)
	}
	var steps []string
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, temporaryPrefix), strings.HasPrefix(name, removedPrefix):
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("checkpoints: %w", err)
			}
		case strings.HasPrefix(name, stepPrefix):
			steps = append(steps, name)
		}
	}
	for _, name := range steps[:max(len(steps)-keep, 0)] {
		if name == stepName(best) {
			continue
		}
		if err := remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("checkpoints: %w", err)
		}
	}
	return nil
}
