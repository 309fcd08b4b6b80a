package grpo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"terraloom/data/strictyaml"
	"terraloom/lora/train/settings"
	"terraloom/reward"
)

// GRPO-1 to GRPO-12: what the paper says, or what was chosen where it is silent.
func TestDefaults(t *testing.T) {
	c := Default()
	c.Base, c.Dataset, c.Out = "b", "d", "o"
	check(t, c.Validate())
	if c.Group != (Group{Size: 4, Std: Sample, Eps: 1e-6, MaxFlat: 10}) || c.Batch.Prompts != 16 || c.Batch.Updates != 1 {
		t.Errorf("%+v %+v", c.Group, c.Batch)
	}
	if c.Objective != (Objective{ClipLow: .2, ClipHigh: .2, Beta: .04, KL: K3, Reference: Start, Entropy: .001, Aggregation: TokenMean}) {
		t.Errorf("%+v", c.Objective)
	}
	if c.Rollout.Temperature != 1 || c.Rollout.MaxTokens != 1024 || c.Rollout.MaskTruncated || c.Optimizer.LR != 1e-5 {
		t.Errorf("%+v", c.Rollout)
	}
	if len(c.Reward.Functions) != 1 || c.Reward.Functions[0] != (reward.Function{Name: "argument", Kind: reward.KindArgument, Weight: 1}) {
		t.Errorf("%+v", c.Reward)
	}
}

func TestGoodConfig(t *testing.T) {
	path := filepath.Join("testdata", "executor.good.yaml")
	c, origins, err := LoadConfig(path, []string{"group.size=6"})
	check(t, err)
	if c.Group.Size != 6 || c.Group.Std != Population || c.Rollout.Timeout != 90*time.Second || c.Objective.ClipHigh != 0.28 || c.Objective.ClipLow != 0.2 || len(c.Reward.Functions) != 2 || c.Reward.Lists != reward.Set {
		t.Errorf("read %+v", c)
	}
	for key, want := range map[string]string{"group.size": "--set", "group.std": path + ":7", "objective.kl": path + ":9"} {
		if origins[key] != want {
			t.Errorf("%s comes from %q, expected %q", key, origins[key], want)
		}
	}
	// What is written into the run folder reads as the same configuration.
	text, err := settings.YAML("x", &c, origins)
	check(t, err)
	again := filepath.Join(t.TempDir(), "config.yaml")
	check(t, os.WriteFile(again, text, 0o644))
	second, _, err := LoadConfig(again, nil)
	check(t, err)
	before, err := settings.Entries(&c, origins)
	check(t, err)
	after, err := settings.Entries(&second, nil)
	check(t, err)
	if changed := settings.Changed(before, after, nil); len(changed) > 0 {
		t.Errorf("changed: %v", changed)
	}
}

// C1, G13, R2: every error of a file is named at once, with its line where it is a wrong key. G7: what would cut the sampled
// distribution is no setting.
func TestBadConfigs(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.bad.yaml")
	check(t, err)
	if len(paths) != 3 {
		t.Fatalf("files %v", paths)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(t, err)
		_, _, err = LoadConfig(path, nil)
		if !errors.Is(err, ErrConfig) && !errors.Is(err, strictyaml.ErrConfig) {
			t.Errorf("%s: %v is no configuration error", path, err)
			continue
		}
		wanted := 0
		for line := range strings.Lines(string(text)) {
			want, ok := strings.CutPrefix(strings.TrimSpace(line), "# want: ")
			if !ok {
				continue
			}
			if wanted++; !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in\n%v", path, want, err)
			}
		}
		if wanted == 0 {
			t.Errorf("%s says nothing of what it wants", path)
		}
	}
}
