package grpo

import (
	"context"
	"os"
	"testing"

	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/train/traintest"
)

// The variables that tell a child which run is meant.
const (
	childBase    = "TERRALOOM_TEST_GRPO_BASE"
	childDataset = "TERRALOOM_TEST_GRPO_DATASET"
	childAdapter = "TERRALOOM_TEST_GRPO_ADAPTER"
)

// The test binary starts itself as this child, which resumes a run and says how far it is.
func TestChildTrains(t *testing.T) {
	out := traintest.ChildOut(t)
	c := tinyConfig(t, os.Getenv(childBase), os.Getenv(childDataset))
	c.Adapter, c.Out, c.Checkpoint.Every = os.Getenv(childAdapter), out, 1
	c.Batch.Updates, c.Schedule.Steps = 2, 6
	_, err := prepare(t, c).Run(context.Background(), backendtest.Open(t), "auto", traintest.Step)
	check(t, err)
}

// A run that is killed in other processes, inside a rollout's updates, in the middle of saving, and resumed, ends as if it had
// not been.
func TestKilledRunsEndTheSame(t *testing.T) {
	c := warmConfig(t, checkpoint.Llama)
	traintest.Killed{
		Child: "TestChildTrains", Env: []string{childBase + "=" + c.Base, childDataset + "=" + c.Dataset, childAdapter + "=" + c.Adapter},
		Base: c.Base, Steps: 6, Kills: 2, OneIn: 2,
	}.EndsTheSame(t)
}
