//go:build unix

package train

import (
	"bufio"
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

const (
	childDir   = "TERRALOOM_TEST_CHECKPOINTS"
	childLimit = "TERRALOOM_TEST_FILE_SIZE"
	killsEnv   = "TERRALOOM_TEST_KILLS"
)

// The test binary starts itself as this child, which saves checkpoint after checkpoint and says when each is whole.
func TestChildSavesCheckpoints(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("runs only as the child of the tests below")
	}
	if limit := os.Getenv(childLimit); limit != "" {
		n, err := strconv.ParseUint(limit, 10, 64)
		check(t, err)
		signal.Ignore(syscall.SIGXFSZ) // writes past the limit fail with EFBIG, as on a full disk
		check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}))
	}
	first, err := strconv.Atoi(os.Getenv(childDir + "_FROM"))
	check(t, err)
	check(t, prune(dir, 2, -1))
	for step := first; ; step++ {
		_, err := Save(dir, testSnapshot(t, step))
		check(t, err)
		os.Stdout.WriteString("saved " + strconv.Itoa(step) + "\n")
		check(t, prune(dir, 2, -1))
	}
}

func childSaver(dir string, from int, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildSavesCheckpoints$")
	cmd.Env = append(os.Environ(), append(env, childDir+"="+dir, childDir+"_FROM="+strconv.Itoa(from))...)
	return cmd
}

// C2: killed at any moment, a run keeps its last complete checkpoint: the newest that loads is the last one that was
// reported, or the next one, whole. TERRALOOM_TEST_KILLS=200 makes the full number of kills.
func TestKilledSavesKeepTheLastCheckpoint(t *testing.T) {
	kills := 40
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills = n
	} else if testing.Short() {
		kills = 8
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(5, 6))
	newest, left := 0, 0
	for kill := range kills {
		cmd := childSaver(dir, newest+1)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		reported := newest
		done := make(chan struct{})
		first := make(chan struct{}, 1)
		go func() {
			defer close(done)
			for scan := bufio.NewScanner(out); scan.Scan(); {
				if text, ok := strings.CutPrefix(scan.Text(), "saved "); ok {
					if n, err := strconv.Atoi(text); err == nil {
						reported = n
					}
					select {
					case first <- struct{}{}:
					default:
					}
				}
			}
		}()
		select { // the start of the process is not what is tested
		case <-first:
		case <-time.After(20 * time.Second):
			t.Error("the child saves nothing")
		}
		time.Sleep(time.Duration(random.Int64N(int64(90 * time.Millisecond))))
		check(t, cmd.Process.Kill())
		<-done
		_ = cmd.Wait() // killed

		path, passed, err := Newest(dir)
		if err != nil {
			t.Fatalf("kill %d after step %d: %v", kill, reported, err)
		}
		if len(passed) > 0 {
			t.Errorf("kill %d: %v has the name of a checkpoint and is none", kill, passed)
		}
		l := load(t, path)
		if got := l.State.Step; got != reported && got != reported+1 {
			t.Errorf("kill %d: the newest is of step %d, the last that was reported is %d", kill, got, reported)
		}
		sameSnapshot(t, l, testSnapshot(t, l.State.Step))
		newest = l.State.Step
		entries, err := os.ReadDir(dir)
		check(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), temporaryPrefix) || strings.HasPrefix(e.Name(), removedPrefix) {
				left++
			}
		}
	}
	t.Logf("%d kills, %d steps saved, %d kills inside a save", kills, newest, left)
	check(t, prune(dir, 2, -1))
	entries, err := os.ReadDir(dir)
	check(t, err)
	if len(entries) > 2 {
		t.Errorf("a later run leaves %v", entries)
	}
}

// C3: a disk that fills up during a save is an error, and the checkpoint before stays whole.
func TestFullDiskKeepsTheLastCheckpoint(t *testing.T) {
	for _, limit := range []string{"0", "300", "2000", "9000"} {
		dir := t.TempDir()
		old, err := Save(dir, testSnapshot(t, 1))
		check(t, err)
		out, err := childSaver(dir, 2, childLimit+"="+limit).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "file too large") || !strings.Contains(string(out), "saving checkpoint") {
			t.Errorf("files of at most %s bytes: %v\n%s", limit, err, out)
		}
		path, _, err := Newest(dir)
		if err != nil || path != old {
			t.Errorf("files of at most %s bytes: newest is %s, %v", limit, path, err)
		}
		sameSnapshot(t, load(t, old), testSnapshot(t, 1))
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("files of at most %s bytes: left %v, %v", limit, entries, err)
		}
	}
	// A checkpoint that fits in none of those files.
	if info, err := os.Stat(filepath.Join(mustSave(t), optimizerFile)); err != nil || info.Size() <= 9000 {
		t.Errorf("the limits above are no limits: %v, %v", info, err)
	}
}

func mustSave(t *testing.T) string {
	path, err := Save(t.TempDir(), testSnapshot(t, 1))
	check(t, err)
	return path
}
