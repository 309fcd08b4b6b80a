package sft

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data/strictyaml"
	"terraloom/lora/train/settings"
)

func TestGoodConfigs(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.good.yaml")
	check(t, err)
	for _, path := range paths {
		if _, _, err := LoadConfig(path, nil); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	c, origins, err := LoadConfig("testdata/planner.good.yaml", []string{"lora.r=8", "seed=7"})
	check(t, err)
	if c.LoRA.R != 8 || c.LoRA.Alpha != 64 || c.Seed != 7 || c.Optimizer.LR != 2e-4 || c.Optimizer.Beta2 != 0.999 || c.Schedule.Steps != 200 || c.Batch.Rows != 16 {
		t.Errorf("read %+v", c)
	}
	for key, want := range map[string]string{"lora.r": "--set", "seed": "--set", "optimizer.lr": "testdata/planner.good.yaml:9", "schedule.kind": "testdata/planner.good.yaml:10"} {
		if origins[key] != want {
			t.Errorf("%s comes from %q, expected %q", key, origins[key], want)
		}
	}
	entries, err := settings.Entries(&c, origins)
	check(t, err)
	for _, e := range entries {
		if e.Key == "optimizer.beta1" && e.Origin != settings.Default {
			t.Errorf("%+v", e)
		}
	}
}

// C1: every error of a file is named at once, with its line where it is a wrong key.
func TestBadConfigs(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.bad.yaml")
	check(t, err)
	if len(paths) == 0 {
		t.Fatal("no files")
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(t, err)
		_, _, err = LoadConfig(path, nil)
		if err == nil {
			t.Errorf("%s is taken", path)
			continue
		}
		if !errors.Is(err, ErrConfig) && !errors.Is(err, strictyaml.ErrConfig) {
			t.Errorf("%s: %v is no configuration error", path, err)
		}
		wanted := 0
		for line := range strings.Lines(string(text)) {
			if want, ok := strings.CutPrefix(strings.TrimSpace(line), "# want: "); ok {
				if wanted++; !strings.Contains(err.Error(), want) {
					t.Errorf("%s: no %q in\n%v", path, want, err)
				}
			}
		}
		if wanted == 0 {
			t.Errorf("%s wants nothing", path)
		}
	}
}

// Every ready-made configuration is valid, and its first line is the command that uses it.
func TestShippedConfigs(t *testing.T) {
	paths, err := filepath.Glob("../configs/*.yaml")
	check(t, err)
	found := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(t, err)
		first, _, _ := strings.Cut(string(text), "\n")
		if !strings.HasPrefix(first, "# terraloom sft ") {
			continue
		}
		found++
		if !strings.Contains(first, "--config configs/"+filepath.Base(path)) {
			t.Errorf("%s: its first line is %q", path, first)
		}
		if _, _, err := LoadConfig(path, nil); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if found < 3 {
		t.Errorf("%d configurations for sft, expected the planners of Qwen3.5-9B, 4B and SmolLM2", found)
	}
}

// SFT-5: what the run record says of the optimiser when nothing is set.
func TestDefaultsAreThoseOfTheRequirements(t *testing.T) {
	c := Default()
	if c.Optimizer.LR != 1e-4 || c.Schedule.Kind != "cosine" || c.Schedule.Warmup != 0.03 || c.Schedule.Epochs != 2 || c.Batch.Rows != 32 ||
		c.Optimizer.Clip != 1 || c.Device.Precision != "auto" || c.LoRA.R != 16 || c.LoRA.Alpha != 32 || c.LoRA.Dropout != 0 || c.Data.MaxTokens != 8192 {
		t.Errorf("%+v", c)
	}
}
