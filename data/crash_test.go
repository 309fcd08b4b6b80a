//go:build unix

package data

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary starts itself as this child, which writes a dataset to the
// folder named by the environment.
func TestChildWritesDataset(t *testing.T) {
	dir := os.Getenv("TERRALOOM_TEST_CHILD_DIR")
	if dir == "" {
		t.Skip("runs only as the child of the tests below")
	}
	if limit := os.Getenv("TERRALOOM_TEST_CHILD_FSIZE"); limit != "" {
		n, err := strconv.ParseUint(limit, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		signal.Ignore(syscall.SIGXFSZ) // writes past the limit fail with EFBIG, as on a full disk
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := strconv.Atoi(os.Getenv("TERRALOOM_TEST_CHILD_ROWS"))
	if err != nil {
		t.Fatal(err)
	}
	writeTestDataset(t, dir, n, WriterOptions{Force: true, RowsPerFile: 40})
}

func childWriter(dir string, rows int, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildWritesDataset$")
	cmd.Env = append(os.Environ(), append(env, "TERRALOOM_TEST_CHILD_DIR="+dir, "TERRALOOM_TEST_CHILD_ROWS="+strconv.Itoa(rows))...)
	return cmd
}

// Killed at any moment, a run leaves under the final name nothing, the dataset
// that was there before, or the new one: never a part. The next run finds its
// way, whatever was left.
func TestKilledRunsLeaveNoHalfDataset(t *testing.T) {
	const rows = 800
	dir := filepath.Join(t.TempDir(), "ds")
	start := time.Now()
	if out, err := childWriter(dir, rows).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole := time.Since(start)
	complete := folderBytes(t, dir)

	kills := 16
	if testing.Short() {
		kills = 6
	}
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	state := func() string {
		ds, err := OpenDataset(dir)
		switch {
		case errors.Is(err, ErrNotDataset):
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Fatal("a folder without a manifest has the final name")
			}
			return "absent"
		case err != nil:
			t.Fatalf("a half dataset has the final name: %v", err)
		case ds.Manifest.Rows(ConfigTrajectories) == rows:
			sameFolders(t, "a complete dataset", complete, folderBytes(t, dir))
			return "new"
		}
		return "old"
	}
	for i := range kills {
		before := "absent"
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			writeTestDataset(t, dir, 10, WriterOptions{Force: true})
			before = "old"
		}
		cmd := childWriter(dir, rows)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.Int64N(int64(whole) * 6 / 5)))
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed, or done just before
		after := state()
		if after != before && after != "new" && after != "absent" {
			t.Errorf("kill %d: %s before, %s after", i, before, after)
		}
		seen[after]++
	}
	t.Logf("left after %d kills: %v", kills, seen)
	writeTestDataset(t, dir, rows, WriterOptions{Force: true, RowsPerFile: 40})
	if state() != "new" {
		t.Error("the run after the kills is not complete")
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("the run after the kills leaves %v, %v", entries, err)
	}
}

// A disk that fills up is an error, and what was there before stays.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	writeTestDataset(t, dir, 10, WriterOptions{})
	before := folderBytes(t, dir)
	for _, limit := range []string{"0", "900", "4000"} {
		out, err := childWriter(dir, 800, "TERRALOOM_TEST_CHILD_FSIZE="+limit).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "file too large") {
			t.Errorf("files limited to %s bytes: %v\n%s", limit, err, out)
		}
		sameFolders(t, "the old dataset", before, folderBytes(t, dir))
		if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
			t.Errorf("files limited to %s bytes: left %v, %v", limit, entries, err)
		}
	}
}
