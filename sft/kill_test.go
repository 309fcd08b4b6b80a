package sft

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/train"
)

const (
	childOut = "TERRALOOM_TEST_SFT_OUT"
	killsEnv = "TERRALOOM_TEST_RUN_KILLS"
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
	out := os.Getenv(childOut)
	if out == "" {
		t.Skip("runs only as the child of the test below")
	}
	c := killConfig(t, os.Getenv(childOut+"_BASE"), os.Getenv(childOut+"_DATASET"), out)
	_, err := prepare(t, c).Run(context.Background(), backendtest.Open(t), "auto", func(s train.Status) { fmt.Println("step", s.Done) })
	check(t, err)
}

// A run whose process is killed again and again, at any moment, and started again each time with --resume auto, ends with
// the adapter of a run that was left alone: in other processes, mid-epoch, in the middle of saving.
func TestKilledRunsEndTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes that compile")
	}
	kills := 2
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills = n
	}
	base, dataset := tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 7}, nil)
	want := adapterHash(t, base, mustRun(t, killConfig(t, base, dataset, filepath.Join(t.TempDir(), "straight")), "never").Path)

	out := filepath.Join(t.TempDir(), "killed")
	random := rand.New(rand.NewPCG(8, 9))
	steps := 0
	for start := 0; ; start++ {
		if start > kills+40 {
			t.Fatalf("not done after %d starts", start)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestChildTrains$", "-test.v")
		cmd.Env = append(os.Environ(), childOut+"="+out, childOut+"_BASE="+base, childOut+"_DATASET="+dataset)
		stdout, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		killed := false
		var last []string
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			last = append(last, scan.Text())
			if strings.HasPrefix(scan.Text(), "step ") {
				steps++
				if start < kills && random.IntN(3) == 0 {
					time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
					check(t, cmd.Process.Kill())
					killed = true
				}
			}
		}
		err = cmd.Wait()
		if err == nil {
			break
		}
		if !killed {
			t.Fatalf("start %d: %v\n%s", start, err, strings.Join(last[max(len(last)-20, 0):], "\n"))
		}
	}
	if got := adapterHash(t, base, filepath.Join(out, "adapter")); got != want {
		t.Errorf("after %d kills: another adapter", kills)
	}
	if total := 12; steps < total {
		t.Errorf("%d steps seen, expected at least %d", steps, total)
	}
}
