package grpo

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/train/setup"
)

func TestMain(m *testing.M) {
	if code, done := backend.Startup(); done {
		os.Exit(code)
	}
	dir, err := os.MkdirTemp("", "grpo-test-")
	if err != nil {
		panic(err)
	}
	bases.dir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// bases is a folder of models that the tests share.
var bases struct{ dir string }

// golden is a folder of the reference models, or skips the test.
func golden(tb testing.TB, parts ...string) string {
	tb.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(append([]string{root, "model-golden"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("reference models are not here (set TERRALOOM_SHARED): %v", err)
	}
	return path
}

// placed keeps one model of every base and setting on the device: compiled programs belong to models, and compiling is
// what takes time here.
var placed = map[string]*decoder.Model{}

// place puts a base and its parameters on the test's backend.
func place(tb testing.TB, b *setup.Base) *setup.Placed {
	tb.Helper()
	key := fmt.Sprintf("%s %+v", b.Model.Path, b.Config.Device)
	on := &setup.Placed{Backend: backendtest.Open(tb), Model: placed[key]}
	var err error
	if on.Model == nil {
		on, err = b.Load(on.Backend)
		check(tb, err)
		placed[key] = on.Model
	} else {
		on.Params, err = on.Model.Bind(b.Start)
	}
	check(tb, err)
	tb.Cleanup(on.Params.Free)
	return on
}

// drawers keeps one local sampler of every base, for the same reason.
var drawers = map[*decoder.Model]*local{}

// share lets a run use the base's model and sampler that earlier runs of the tests have used.
func share(tb testing.TB, p *Prepared) *setup.Placed {
	tb.Helper()
	on := place(tb, p.Base)
	if p.Config.Rollout.Engine != Local {
		return on
	}
	if drawers[on.Model] == nil {
		l, err := newLocal(p.Config, p.Base, on, p.Train.Terminator)
		check(tb, err)
		drawers[on.Model] = l
	}
	p.sampler = drawers[on.Model]
	return on
}

func openModel(tb testing.TB, path string) *checkpoint.Model {
	tb.Helper()
	m, err := checkpoint.Open(path)
	check(tb, err)
	tb.Cleanup(func() { m.Close() })
	return m
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
