package train

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// testSnapshot is a snapshot whose every number follows from the step.
func testSnapshot(tb testing.TB, step int) *Snapshot {
	a := tinyAdapter(tb)
	s := &Snapshot{Adapter: a, State: State{Step: step, Updates: step, Total: 99, Seed: 3, Order: "order", Start: "start"}, Task: []byte{byte(step)}}
	for i := range a.A {
		for j := range a.A[i] {
			a.A[i][j] = float32(step) + float32(j)/7
		}
	}
	for i := range 3 {
		m, v := make([]float32, i*500), make([]float32, i*500)
		for j := range m {
			m[j], v[j] = float32(step*i)+float32(j)/3, float32(step*i)-float32(j)/3
		}
		s.M, s.V = append(s.M, m), append(s.V, v)
	}
	return s
}

func load(tb testing.TB, path string) *Loaded {
	tb.Helper()
	c := tiny()
	l, err := Load(path, &c)
	check(tb, err)
	tb.Cleanup(func() { l.Close() })
	return l
}

// sameSnapshot compares a loaded checkpoint with the snapshot it was made from, bit for bit.
func sameSnapshot(tb testing.TB, l *Loaded, want *Snapshot) {
	tb.Helper()
	m, v, err := l.Moments([]int{0, 500, 1000})
	check(tb, err)
	if l.Adapter.Hash() != want.Adapter.Hash() || !slices.EqualFunc(m, want.M, slices.Equal) || !slices.EqualFunc(v, want.V, slices.Equal) ||
		!slices.Equal(l.Task, want.Task) || l.State.Step != want.State.Step || l.State.Order != want.State.Order {
		tb.Errorf("%s holds other numbers than were saved", l.Path)
	}
}

func TestCheckpointRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoints")
	for _, step := range []int{5, 12, 12} { // the last replaces the one before
		path, err := Save(dir, testSnapshot(t, step))
		check(t, err)
		sameSnapshot(t, load(t, path), testSnapshot(t, step))
	}
	path, passed, err := Newest(dir)
	if err != nil || len(passed) > 0 || filepath.Base(path) != "step-00000012" {
		t.Errorf("newest is %s, passed over %v, error %v", path, passed, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("saving leaves %v", entries)
	}
	if _, _, err := load(t, path).Moments([]int{0, 500, 999}); !errors.Is(err, ErrResume) {
		t.Errorf("moments of another shape: %v", err)
	}
	if _, _, err := Newest(t.TempDir()); !errors.Is(err, ErrNoCheckpoint) {
		t.Errorf("empty folder: %v", err)
	}
	if _, _, err := Newest(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, ErrNoCheckpoint) {
		t.Errorf("absent folder: %v", err)
	}
}

func TestCheckpointOfAllWeights(t *testing.T) {
	c := tiny()
	weights := decoder.RandomWeights{Config: c, Seed: 4}
	s := &Snapshot{State: State{Step: 1}}
	for _, spec := range c.TensorSpecs() {
		tensor, err := weights.Tensor(spec.Name)
		check(t, err)
		s.Weights = append(s.Weights, checkpoint.FromTensor(spec.Name, tensor))
	}
	path, err := Save(t.TempDir(), s)
	check(t, err)
	l := load(t, path)
	for _, spec := range c.TensorSpecs() {
		got, err := l.Weights.Tensor(spec.Name)
		check(t, err)
		want, err := weights.Tensor(spec.Name)
		check(t, err)
		if !slices.Equal(got.Data, want.Data) || !slices.Equal(got.Shape, want.Shape) {
			t.Errorf("%s differs", spec.Name)
		}
	}
}

// A checkpoint with any damage is passed over for the one before it, and the reason names the file.
func TestDamagedCheckpointsArePassedOver(t *testing.T) {
	flip := func(name string) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			raw[len(raw)-2] ^= 1
			return os.WriteFile(path, raw, 0o644)
		}
	}
	for name, c := range map[string]struct {
		damage func(dir string) error
		names  string
	}{
		"no manifest":   {func(d string) error { return os.Remove(filepath.Join(d, manifestFile)) }, manifestFile},
		"cut manifest":  {func(d string) error { return os.Truncate(filepath.Join(d, manifestFile), 20) }, manifestFile},
		"flipped bit":   {flip(optimizerFile), optimizerFile},
		"flipped state": {flip(stateFile), stateFile},
		"cut adapter":   {func(d string) error { return os.Truncate(filepath.Join(d, "adapter/adapter_model.safetensors"), 100) }, "adapter/adapter_model.safetensors"},
		"missing file":  {func(d string) error { return os.Remove(filepath.Join(d, taskFile)) }, taskFile},
		"other step": {func(d string) error {
			return os.Rename(d, filepath.Join(filepath.Dir(d), stepName(9)))
		}, "step 8"},
		"short manifest": {func(d string) error {
			text, err := json.Marshal(manifest{Format: checkpointFormat, Step: 8})
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(d, manifestFile), text, 0o644)
		}, stateFile},
		"path outside": {func(d string) error {
			text, err := json.Marshal(manifest{Format: checkpointFormat, Step: 8, Files: []manifestEntry{{Name: "../x"}}})
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(d, manifestFile), text, 0o644)
		}, "../x"},
		"other format": {func(d string) error {
			return os.WriteFile(filepath.Join(d, manifestFile), []byte(`{"format":"x"}`), 0o644)
		}, `"x"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			old, err := Save(dir, testSnapshot(t, 7))
			check(t, err)
			broken, err := Save(dir, testSnapshot(t, 8))
			check(t, err)
			check(t, c.damage(broken))
			path, passed, err := Newest(dir)
			if err != nil || path != old {
				t.Errorf("newest is %s, error %v", path, err)
			}
			if len(passed) != 1 || !errors.Is(passed[0], ErrCorrupt) || !strings.Contains(passed[0].Error(), c.names) {
				t.Errorf("passed over %v, expected a reason naming %q", passed, c.names)
			}
		})
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	for step := range 6 {
		_, err := Save(dir, testSnapshot(t, step))
		check(t, err)
	}
	for _, left := range []string{temporaryPrefix + "00000009-1", removedPrefix + "00000001"} {
		check(t, os.MkdirAll(filepath.Join(dir, left, "x"), 0o755))
	}
	check(t, prune(dir, 2, 1))
	entries, err := os.ReadDir(dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{stepName(1), stepName(4), stepName(5)}; !slices.Equal(names, want) {
		t.Errorf("left %v, expected %v", names, want)
	}
	check(t, prune(filepath.Join(dir, "absent"), 2, 1))
}
