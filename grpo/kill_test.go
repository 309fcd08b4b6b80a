package grpo

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

	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/train"
)

const (
	childOut = "TERRALOOM_TEST_GRPO_OUT"
	killsEnv = "TERRALOOM_TEST_RUN_KILLS"
)

// The test binary starts itself as this child, which resumes a run and says how far it is.
func TestChildTrains(t *testing.T) {
	out := os.Getenv(childOut)
	if out == "" {
		t.Skip("runs only as the child of the test below")
	}
	c := tinyConfig(t, os.Getenv(childOut+"_BASE"), os.Getenv(childOut+"_DATASET"))
	c.Adapter, c.Out, c.Checkpoint.Every = os.Getenv(childOut+"_ADAPTER"), out, 1
	c.Batch.Updates, c.Schedule.Steps = 2, 6
	_, err := prepare(t, c).Run(context.Background(), backendtest.Open(t), "auto", func(s train.Status) { fmt.Println("step", s.Done) })
	check(t, err)
}

// A run whose process is killed again and again, at any moment, and started again each time with --resume auto, ends with
// the adapter of a run that was left alone: in other processes, inside a rollout's updates, in the middle of saving. The
// pure-Go engine is enough for that, and compiles nothing; with TERRALOOM_TEST_RUN_KILLS=n there are n kills on the tests' own
// backend.
func TestKilledRunsEndTheSame(t *testing.T) {
	kills, engine := 2, backend.Go
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills, engine = n, os.Getenv("TERRALOOM_BACKEND")
	}
	c := warmConfig(t, checkpoint.Llama)
	random := rand.New(rand.NewPCG(8, 9))
	// start runs the child until it is done or, by chance, killed after one of its steps.
	start := func(out string, kill bool) (steps int, killed bool) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChildTrains$", "-test.v")
		cmd.Env = append(os.Environ(), "TERRALOOM_BACKEND="+engine, childOut+"="+out, childOut+"_BASE="+c.Base, childOut+"_DATASET="+c.Dataset, childOut+"_ADAPTER="+c.Adapter)
		stdout, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		var last []string
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			last = append(last, scan.Text())
			if strings.HasPrefix(scan.Text(), "step ") {
				if steps++; kill && random.IntN(2) == 0 {
					time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
					check(t, cmd.Process.Kill())
					killed = true
				}
			}
		}
		if err := cmd.Wait(); err != nil && !killed {
			t.Fatalf("%v\n%s", err, strings.Join(last[max(len(last)-20, 0):], "\n"))
		}
		return steps, killed
	}
	straight, out := filepath.Join(t.TempDir(), "straight"), filepath.Join(t.TempDir(), "killed")
	if steps, _ := start(straight, false); steps != 6 {
		t.Fatalf("%d steps, expected 6", steps)
	}
	seen := 0
	for range kills {
		steps, killed := start(out, true)
		if seen += steps; !killed {
			break
		}
	}
	if seen == 0 {
		t.Error("killed before any step")
	}
	for { // a kill may have hit the very end, after the result was written
		if _, err := os.Stat(filepath.Join(out, "adapter")); err == nil {
			break
		}
		start(out, false)
	}
	if adapterHash(t, c.Base, filepath.Join(out, "adapter")) != adapterHash(t, c.Base, filepath.Join(straight, "adapter")) {
		t.Errorf("killed up to %d times: another adapter", kills)
	}
}
