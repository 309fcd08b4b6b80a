package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// outcome is what a command line did.
type outcome struct {
	stdout string
	err    string
	code   int
}

// terraloom runs a command line inside the test.
func terraloom(t testing.TB, args ...string) outcome {
	t.Helper()
	var out, logs bytes.Buffer
	root := newRootCmd()
	root.SetOut(&out)
	root.SetErr(&logs)
	root.SetArgs(args)
	ctx := context.Background()
	err := root.ExecuteContext(ctx)
	o := outcome{stdout: out.String()}
	if err != nil {
		o.err, o.code = err.Error(), exitCode(ctx, err)
	}
	return o
}

// mustRun is terraloom for command lines that must work.
func mustRun(t testing.TB, args ...string) string {
	t.Helper()
	o := terraloom(t, args...)
	if o.code != 0 {
		t.Fatalf("terraloom %s: exit code %d: %s", strings.Join(args, " "), o.code, o.err)
	}
	return o.stdout
}

// realFile is the public question file, or the test is skipped.
func realFile(t testing.TB) string {
	t.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(root, "earth-bench", "question.json")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the public question file is not here (%s); set TERRALOOM_SHARED", path)
	}
	return path
}

// samplePath is the bundled seed set.
func samplePath() string { return filepath.Join("..", "..", "data", "seeds", "sample.jsonl") }
