package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/grpo"
)

// Every ready-made configuration of grpo passes a dry run, here with a base that is small and a dataset from the bundled
// seeds.
func TestGrpoDryRun(t *testing.T) {
	base := smolModel(t)
	dataset := filepath.Join(t.TempDir(), "dataset")
	mustRun(t, "synth", "run", "--style", "brief", "--per-seed", "2", "--out", dataset)
	configs, err := filepath.Glob("../../configs/*-executor.yaml")
	if err != nil || len(configs) < 3 {
		t.Fatalf("configurations %v, %v", configs, err)
	}
	for _, config := range configs {
		out := filepath.Join(t.TempDir(), "run")
		text, err := verb(t, newGrpoCmd(), "--config", config, "--set", "base="+base, "--set", "dataset="+dataset, "--set", "out="+out, "--set", "adapter=", "--dry-run")
		if err != nil {
			t.Errorf("%s: %v", config, err)
			continue
		}
		for _, want := range []string{`ends with "<|im_end|>"`, "−min(ρA", "2.0000  the reference answer", "memory: about", config + ":", "--set", "dry run passed"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", config, want, text)
			}
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: the dry run made the run folder", config)
		}
	}
}

// C1: a wrong configuration ends the command before any work, with all that is wrong.
func TestGrpoWrongConfigurations(t *testing.T) {
	config := write(t, "c.yaml", "gruop: {size: 8}\nrollout:\n  top_p: 0.9\n")
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--config", config}, exitInput, []string{`c.yaml:1: unknown key "gruop"; did you mean "group"?`, `c.yaml:3: unknown key "rollout.top_p"`}},
		{[]string{"--set", "group.size=1", "--set", "objective.kl=k1"}, exitInput, []string{"base: missing", "out: missing", "group.size: 1", "objective.kl"}},
		{[]string{"extra"}, exitUsage, []string{"accepts 0 arg(s)"}},
	} {
		_, err := verb(t, newGrpoCmd(), c.args...)
		if err == nil {
			t.Errorf("%v is taken", c.args)
			continue
		}
		if code := exitCode(context.Background(), err); code != c.code {
			t.Errorf("%v: exit code %d, expected %d", c.args, code, c.code)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: no %q in\n%v", c.args, want, err)
			}
		}
	}
	for err, want := range map[error]int{grpo.ErrNoSpread: exitNoSpread, grpo.ErrStale: exitSampler, grpo.ErrSampler: exitSampler, errors.New("other"): 0} {
		if got := trainExitCode(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%v: exit code %d, expected %d", err, got, want)
		}
	}
}
