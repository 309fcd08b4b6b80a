// Package backendtest opens one backend per test process, so that the same tests run on XLA:CPU and on the pure-Go
// engine: $TERRALOOM_BACKEND names it (auto, cuda, cpu, go; auto when unset).
package backendtest

import (
	"os"
	"sync"
	"testing"

	"terraloom/lora/backend"
)

var open = sync.OnceValues(func() (*backend.Backend, error) {
	return backend.Open(os.Getenv("TERRALOOM_BACKEND"), backend.Options{})
})

// Open returns the process's backend. A backend that was named but cannot be opened fails the test.
//
// Tests compile much and run little: unless XLA_FLAGS is set, XLA skips its expensive optimisations (half the time of a
// test run). Benchmarks get them all.
func Open(t testing.TB) *backend.Backend {
	t.Helper()
	if _, isTest := t.(*testing.T); isTest && os.Getenv("XLA_FLAGS") == "" {
		if err := os.Setenv("XLA_FLAGS", "--xla_backend_optimization_level=0"); err != nil {
			t.Fatal(err)
		}
	}
	b, err := open()
	if err != nil {
		t.Fatalf("TERRALOOM_BACKEND=%q: %v", os.Getenv("TERRALOOM_BACKEND"), err)
	}
	return b
}
