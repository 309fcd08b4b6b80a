package grpo

import (
	"testing"

	"terraloom/lora/checkpoint"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
)

// GRPO-11: from an adapter that answers badly, the mean reward of greedy answers rises by more than a half.
func TestLearnsFourNodes(t *testing.T) {
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 4, "validation": 4}, nil))
	c.Adapter = warm(t, c, 12)
	c.Data.Validation = "validation"
	c.Batch.Prompts, c.Group.Size = 4, 8
	c.Schedule = train.Schedule{Kind: train.Constant, Steps: 40}
	c.Optimizer.LR = 2e-3
	c.Evaluation = train.Evaluation{AtStart: true}
	mustRun(t, c, "never")
	for _, r := range records(t, c.Out, run.Train) {
		t.Logf("step %d reward %.3f std %.3f flat %.2f kl %.4f entropy %.3f", r.Step, value(t, r, "reward"), value(t, r, "reward_std"), value(t, r, "zero_spread"), value(t, r, "kl"), value(t, r, "entropy"))
	}
	for _, r := range records(t, c.Out, run.Validation) {
		t.Log(r)
	}
}
