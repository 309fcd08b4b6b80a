package sft

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
	childBase    = "TERRALOOM_TEST_SFT_BASE"
	childDataset = "TERRALOOM_TEST_SFT_DATASET"
)

// killConfig is the run that the child does.
func killConfig(t *testing.T, base, dataset, out string) Config {
	c := tinyConfig(t, base, dataset)
	c.Out, c.LoRA.Dropout, c.Checkpoint.Every = out, 0.1, 1
	c.Schedule.Epochs = 4
	c.Data.Validation = ""
	return c
}

// The test binary starts itself as this child, which resumes a run and says how far it is.
func TestChildTrains(t *testing.T) {
	c := killConfig(t, os.Getenv(childBase), os.Getenv(childDataset), traintest.ChildOut(t))
	_, err := prepare(t, c).Run(context.Background(), backendtest.Open(t), "auto", traintest.Step)
	check(t, err)
}

// A run that is killed in other processes, mid-epoch, in the middle of saving, and resumed, ends as if it had not been.
func TestKilledRunsEndTheSame(t *testing.T) {
	base, dataset := tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 7}, nil)
	traintest.Killed{
		Child: "TestChildTrains", Env: []string{childBase + "=" + base, childDataset + "=" + dataset}, Base: base, Steps: 12, Kills: 3, OneIn: 3,
	}.EndsTheSame(t)
}
