package traintest

import (
	"bufio"
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
	"terraloom/lora/train"
)

const (
	killsEnv  = "TERRALOOM_TEST_RUN_KILLS"
	killedOut = "TERRALOOM_TEST_RUN_OUT"
)

// Killed describes a run that is killed. The test binary starts itself with Env, and only the test named Child does
// anything there: it resumes the run in the folder that ChildOut names, and prints its progress by Step.
type Killed struct {
	Child string
	Env   []string
	Base  string // model folder
	Steps int    // of the whole run
	Kills int    // at most
	OneIn int    // steps is killed after
}

// ChildOut is the run folder of a child; a test that is no child is skipped.
func ChildOut(t *testing.T) string {
	t.Helper()
	out := os.Getenv(killedOut)
	if out == "" {
		t.Skip("runs only as the child of a test that kills it")
	}
	return out
}

// Step tells the parent how far a child is.
func Step(s train.Status) { fmt.Println("step", s.Done) }

// EndsTheSame kills the run again and again, at any moment, and starts it again each time. It must end with the adapter of a
// run that was left alone. The pure-Go engine is enough for that, and compiles nothing; with TERRALOOM_TEST_RUN_KILLS=n there
// are n kills on the tests' own backend.
func (k Killed) EndsTheSame(t *testing.T) {
	t.Helper()
	kills, engine := k.Kills, backend.Go
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills, engine = n, os.Getenv("TERRALOOM_BACKEND")
	}
	random := rand.New(rand.NewPCG(8, 9))
	// start runs the child until it is done or, by chance, killed after one of its steps.
	start := func(out string, kill bool) (steps int, killed bool) {
		cmd := exec.Command(os.Args[0], "-test.run=^"+k.Child+"$", "-test.v")
		cmd.Env = append(os.Environ(), "TERRALOOM_BACKEND="+engine, killedOut+"="+out)
		cmd.Env = append(cmd.Env, k.Env...)
		stdout, err := cmd.StdoutPipe()
		Check(t, err)
		Check(t, cmd.Start())
		var last []string
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			last = append(last, scan.Text())
			if strings.HasPrefix(scan.Text(), "step ") {
				if steps++; kill && random.IntN(k.OneIn) == 0 {
					time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
					Check(t, cmd.Process.Kill())
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
	if steps, _ := start(straight, false); steps != k.Steps {
		t.Fatalf("%d steps, expected %d", steps, k.Steps)
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
	if AdapterHash(t, k.Base, filepath.Join(out, "adapter")) != AdapterHash(t, k.Base, filepath.Join(straight, "adapter")) {
		t.Errorf("killed up to %d times: another adapter", kills)
	}
}
