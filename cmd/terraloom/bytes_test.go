//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"iter"
	"maps"
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

func keysOf[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// contentsOf is the content of a folder by file name.
func contentsOf(t testing.TB, dir string) map[string][sha256.Size]byte {
	t.Helper()
	files := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[name] = sha256.Sum256(src)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func sameFolder(t testing.TB, want, got map[string][sha256.Size]byte) {
	t.Helper()
	for name := range want {
		if want[name] != got[name] {
			t.Errorf("%s differs", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is new", name)
		}
	}
}

// S3, SYN-1: the bytes depend on neither workers nor shards, and shards differ
// from each other.
func TestS3SameBytesForWorkersAndShards(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	seeds := []string{"--per-seed", "12", "--seed", "11"}
	mustRun(t, append([]string{"synth", "run", "--out", at("w1"), "--workers", "1"}, seeds...)...)
	whole := contentsOf(t, at("w1"))
	for _, workers := range []string{"2", "16"} {
		mustRun(t, append([]string{"synth", "run", "--out", at("w" + workers), "--workers", workers}, seeds...)...)
		sameFolder(t, whole, contentsOf(t, at("w"+workers)))
	}
	for _, shards := range []int{2, 3, 16} { // 16 are more than there are seeds
		merge := []string{"data", "merge", "--out", at("merged" + strconv.Itoa(shards))}
		seen := map[string]bool{}
		for i := range shards {
			name := at("shard" + strconv.Itoa(shards) + "-" + strconv.Itoa(i))
			mustRun(t, append([]string{"synth", "run", "--out", name, "--shard", strconv.Itoa(i) + "/" + strconv.Itoa(shards)}, seeds...)...)
			manifest, err := os.ReadFile(filepath.Join(name, "manifest.json"))
			if err != nil {
				t.Fatal(err)
			}
			if seen[string(manifest)] {
				t.Errorf("shard %d of %d is a copy of another", i, shards)
			}
			seen[string(manifest)] = true
			merge = append(merge, name)
		}
		mustRun(t, merge...)
		sameFolder(t, whole, contentsOf(t, at("merged"+strconv.Itoa(shards))))
	}
	mustRun(t, "synth", "run", "--out", at("other"), "--per-seed", "12", "--seed", "12")
	other := contentsOf(t, at("other"))
	for name, sum := range whole {
		if strings.HasSuffix(name, ".parquet") && other[name] == sum {
			t.Errorf("%s is the same under another seed", name)
		}
	}
}

// Programs that were discovered and saved give the rows of a run that discovers
// them itself: nothing is lost in their files.
func TestSavedProgramsGiveTheSameBytes(t *testing.T) {
	dir := t.TempDir()
	programs, a, b := filepath.Join(dir, "programs"), filepath.Join(dir, "a"), filepath.Join(dir, "b")
	mustRun(t, "slots", "discover", "--out", programs)
	mustRun(t, "synth", "run", "--out", a)
	mustRun(t, "synth", "run", "--out", b, "--programs", programs)
	sameFolder(t, contentsOf(t, a), contentsOf(t, b))
}

// The test binary starts itself as this child, which is the program with the
// command line of the environment.
func TestChildIsTerraloom(t *testing.T) {
	args := os.Getenv("TERRALOOM_TEST_CHILD_ARGS")
	if args == "" {
		t.Skip("runs only as the child of the tests below")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, strings.Fields(args)))
}

func child(args string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildIsTerraloom$")
	cmd.Env = append(os.Environ(), "TERRALOOM_TEST_CHILD_ARGS="+strings.Join(withSample(strings.Fields(args)), " "))
	return cmd
}

// S5, SYN-6: killed at any moment, a run leaves nothing half-written under the
// final name, and the next run gives the bytes of an uninterrupted one.
func TestS5KilledRunsLeaveNothingHalfWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	args := "synth run --per-seed 30 --out " + dir
	start := time.Now()
	if out, err := child(args).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	took := time.Since(start)
	whole := contentsOf(t, dir)
	kills := 10
	if testing.Short() {
		kills = 4
	}
	random := rand.New(rand.NewPCG(5, 5))
	found := 0
	for range kills {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		cmd := child(args)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.Int64N(int64(took))))
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed, or done just before
		if _, err := os.Stat(dir); err == nil {
			found++
			sameFolder(t, whole, contentsOf(t, dir)) // whole, or not there
		}
	}
	t.Logf("%d of %d killed runs had finished", found, kills)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if out, err := child(args).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sameFolder(t, whole, contentsOf(t, dir))
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("the run after the kills leaves %v beside its dataset, %v", left, err)
	}
}

// An interrupted run has its own exit code and leaves nothing.
func TestInterruptedRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ds")
	cmd := child("synth run --per-seed 20000 --out " + dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for { // until the run writes beside its final name
		if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the run does not begin to write")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("%v, want exit code %d", err, exitInterrupted)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 0 {
		t.Errorf("the interrupted run leaves %v, %v", left, err)
	}
}
