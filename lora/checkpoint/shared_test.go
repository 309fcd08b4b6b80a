package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden is a folder of the reference models: $TERRALOOM_SHARED/model-golden, by default beside the repository.
func golden(tb testing.TB, parts ...string) string {
	tb.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		root = "../shared"
	}
	if !filepath.IsAbs(root) {
		root = filepath.Join(repoRoot(tb), root)
	}
	path := filepath.Join(append([]string{root, "model-golden"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("reference models are not here (set TERRALOOM_SHARED): %v", err)
	}
	return path
}

func repoRoot(tb testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// goldenModels lists the reference folders with a config.json.
func goldenModels(tb testing.TB) []string {
	configs, err := filepath.Glob(filepath.Join(golden(tb), "*", configFile))
	if err != nil || len(configs) == 0 {
		tb.Fatalf("no models in %s (%v)", golden(tb), err)
	}
	for i := range configs {
		configs[i] = filepath.Dir(configs[i])
	}
	return configs
}

func read(tb testing.TB, path string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func write(tb testing.TB, path string, data []byte) {
	tb.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, path string) *Model {
	tb.Helper()
	m, err := Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.Close() })
	return m
}

// wantError checks the kind of an error and that its text names everything that matters.
func wantError(tb testing.TB, err, kind error, texts ...string) {
	tb.Helper()
	if !errors.Is(err, kind) {
		tb.Fatalf("error %v, expected %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			tb.Errorf("error %q does not say %q", err, text)
		}
	}
}
