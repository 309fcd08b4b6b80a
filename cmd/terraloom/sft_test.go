package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"terraloom/lora/train"
	trainrun "terraloom/lora/train/run"
)

// Every ready-made configuration of sft passes a dry run, here with a base that is small and a dataset from the bundled
// seeds.
func TestSftDryRun(t *testing.T) {
	base := smolModel(t)
	dataset := filepath.Join(t.TempDir(), "dataset")
	mustRun(t, "synth", "run", "--style", "brief", "--per-seed", "2", "--out", dataset)
	configs, err := filepath.Glob("../../configs/*-planner.yaml")
	if err != nil || len(configs) < 3 {
		t.Fatalf("configurations %v, %v", configs, err)
	}
	for _, config := range configs {
		out := filepath.Join(t.TempDir(), "run")
		text, err := verb(t, newSftCmd(), "--config", config, "--set", "base="+base, "--set", "dataset="+dataset, "--set", "out="+out, "--dry-run")
		if err != nil {
			t.Errorf("%s: %v", config, err)
			continue
		}
		for _, want := range []string{"end of turn \"<|im_end|>\"", "⟦{\"tool_sequence\":[", "memory: about", config + ":", "--set", "dry run passed"} {
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
func TestSftWrongConfigurations(t *testing.T) {
	config := write(t, "c.yaml", "bsae: x\nlora:\n  rnk: 3\n")
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--config", config}, exitInput, []string{`c.yaml:1: unknown key "bsae"; did you mean "base"?`, `c.yaml:3: unknown key "lora.rnk"`}},
		{[]string{"--set", "batch.rows=0", "--set", "role=pilot"}, exitInput, []string{"base: missing", "dataset: missing", "out: missing", "batch.rows", "role"}},
		{[]string{"--set", "seed"}, exitInput, []string{"--set seed: write key=value"}},
		{[]string{"--config", "absent.yaml"}, exitInput, []string{"absent.yaml"}},
		{[]string{"extra"}, exitUsage, []string{"accepts 0 arg(s)"}},
	} {
		_, err := verb(t, newSftCmd(), c.args...)
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
}

func TestTrainExitCodes(t *testing.T) {
	for err, want := range map[error]int{
		train.ErrNothingToTrain: exitNothingToTrain, train.ErrComplete: exitNothingToTrain, train.ErrUnchanged: exitUnchanged,
		train.ErrNonFinite: exitNonFinite, train.ErrResume: exitInput, train.ErrNoCheckpoint: exitInput, errors.New("other"): 0,
	} {
		if got := trainExitCode(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%v: exit code %d, expected %d", err, got, want)
		}
	}
}

func TestReportOfRuns(t *testing.T) {
	dir := t.TempDir()
	var dirs []string
	for _, name := range []string{"a", "b"} {
		dirs = append(dirs, filepath.Join(dir, name))
		f, err := trainrun.Open(filepath.Join(dir, name), false)
		if err != nil {
			t.Fatal(err)
		}
		for step := 1; step <= 3; step++ {
			if err := f.Append(trainrun.Record{Time: time.Unix(int64(step), 0), Kind: trainrun.Train, Step: step, Values: []trainrun.Value{{Name: "loss", Number: 1 / float64(step)}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := verb(t, newReportCmd(), dirs...); exitCode(context.Background(), err) != exitUsage {
		t.Errorf("two runs without --out: %v", err)
	}
	page := filepath.Join(dir, "both.html")
	if _, err := verb(t, newReportCmd(), append(dirs, "--out", page)...); err != nil {
		t.Fatal(err)
	}
	if _, err := verb(t, newReportCmd(), dirs[0]); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{page, filepath.Join(dirs[0], trainrun.ReportFile)} {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "<polyline") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := verb(t, newReportCmd(), filepath.Join(dir, "absent")); exitCode(context.Background(), err) != exitInput {
		t.Errorf("no run: %v", err)
	}
}
