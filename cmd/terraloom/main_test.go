package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// outcome is what a command line did.
type outcome struct {
	stdout string
	logs   string
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
	root.SetArgs(withSample(args))
	ctx := context.Background()
	err := root.ExecuteContext(ctx)
	o := outcome{stdout: out.String(), logs: logs.String()}
	if err != nil {
		o.err, o.code = err.Error(), exitCode(ctx, err)
	}
	return o
}

// withSample adds the sample seeds where a command line that reads seeds names
// none: the bundled ones take minutes.
func withSample(args []string) []string {
	if len(args) > 1 && (args[0] == "synth" && args[1] == "run" || args[0] == "slots") && args[1] != "review" && !slices.Contains(args, "--seeds") {
		return append(slices.Clone(args), "--seeds", samplePath())
	}
	return args
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
func samplePath() string { return filepath.Join("..", "..", "data", "testdata", "sample.jsonl") }
