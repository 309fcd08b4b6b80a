package run

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
)

// eventful is a run with a retry, a replacement, a repair and a reopening, whose
// model says the same to the same prompt whenever it is asked.
func eventful(t testing.TB) *scene {
	yes := func(role, contains, reply string) llm.Line {
		return llm.Line{Role: role, Contains: contains, Reply: reply, Repeat: true}
	}
	lines := []llm.Line{
		yes("planner", "Step 3 (difference) failed for good", planOf("compute_linear_trend")),
		yes("planner", "Step 3 (compute_linear_trend) failed for good: the slope is not in percent", planOf("percentage_change")),
		yes("planner", "", planOf("get_filelist", "calc_batch_image_mean", "difference")),
		yes("executor", "# Next step\nget_filelist", listArgs),
		yes("executor", "That was not accepted: ", meanArgs), // the second attempt at the means
		yes("executor", "# Next step\ncalc_batch_image_mean", `{"file_list":["nowhere/x.tif"]}`),
		yes("executor", "# Next step\ncalc_batch_image_sum", meanArgs),
		yes("executor", "# Next step\ncompute_linear_trend", trendArgs),
		yes("executor", "# Next step\npercentage_change", `{"a":4.125,"b":5.375}`),
		yes("checker", `"tool":"calc_batch_image_mean"`, `{"decision": "replace", "tool": "calc_batch_image_sum", "feedback": "sums are asked for"}`),
		yes("checker", "", `{"decision": "accept"}`),
		yes("controller", `"tool":"percentage_change"`, `{"sufficient": true}`),
		yes("controller", "", `{"sufficient": false, "diagnosis": "the slope is not in percent", "step": 3}`),
		yes("answer", "", "30 %"),
	}
	s := newScene(t, lines...)
	s.agent.Config.Checks = ByModel
	s.tools.results["calc_batch_image_sum"] = []string{"[4.125,5.375]"}
	s.tools.results["percentage_change"] = []string{"30.303"}
	s.tools.results["difference"] = []string{"!these cannot be compared"}
	s.script = llm.NewScript(append([]llm.Line{yes("executor", "# Next step\ndifference", `{"a":4.125,"b":5.375}`)}, lines...)...)
	s.agent.Model = s.script
	return s
}

// A killed run goes on without repeating accepted calls, and ends as an
// uninterrupted one: same state, same answer, whatever the event it was killed at.
func TestResumeAtEveryEvent(t *testing.T) {
	whole := eventful(t)
	want := whole.run().must(t, Answered)
	all, err := memory.Read(whole.dir)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[memory.Kind]int{}
	for _, e := range all {
		kinds[e.Kind]++
	}
	if kinds[memory.Tried] < 4 || kinds[memory.Repaired] != 2 || kinds[memory.Insufficient] != 1 {
		t.Fatalf("the run is not eventful: %v", kinds)
	}
	for stop := 1; stop < len(all); stop++ {
		s := eventful(t)
		ctx, cancel := context.WithCancel(context.Background())
		seen := 0
		s.agent.Progress = func(memory.Event) {
			if seen++; seen == stop {
				cancel()
			}
		}
		_, err := s.agent.Run(ctx, s.task, s.env(), s.dir)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped after event %d: %v", stop, err)
		}
		s.agent.Progress = nil
		got, err := s.agent.Resume(context.Background(), s.env(), s.dir)
		if err != nil {
			t.Fatalf("resumed after event %d: %v", stop, err)
		}
		if got.Status != want.Status || got.Answer != want.Answer || got.State.Hash() != want.State.Hash() {
			t.Errorf("resumed after event %d (%s): %s %q, state %.8s, want %.8s", stop, all[stop-1].Kind, got.Status, got.Answer, got.State.Hash(), want.State.Hash())
		}
		for _, r := range got.State.Evidence {
			extra := s.tools.count(r.Tool) - whole.tools.count(r.Tool)
			if all[stop-1].Kind == memory.Called && all[stop-1].Tool == r.Tool {
				extra-- // it was under way and not accepted
			}
			if extra > 0 {
				t.Errorf("resumed after event %d: %s was called again", stop, r.Tool)
			}
		}
		if n := len(got.Calls); n != len(want.Calls) {
			t.Errorf("resumed after event %d: %d calls in the trace, want %d", stop, n, len(want.Calls))
		}
	}
}

// A run that has ended gives its outcome again and calls nothing.
func TestResumeOfAnEndedRun(t *testing.T) {
	s := smooth(t)
	want := s.run()
	s.tools.made = nil
	got, err := s.agent.Resume(context.Background(), s.env(), s.dir)
	if err != nil || got.Answer != want.Answer || got.State.Hash() != want.State.Hash() || len(s.tools.made) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What cannot be resumed says why.
func TestResumeRefusals(t *testing.T) {
	s := smooth(t)
	s.run()
	if _, err := s.agent.Run(context.Background(), s.task, s.env(), s.dir); !errors.Is(err, memory.ErrExists) {
		t.Errorf("a second run in the folder: %v", err)
	}
	s.agent.Config.Limits.Attempts = 7
	if _, err := s.agent.Resume(context.Background(), s.env(), s.dir); !errors.Is(err, ErrResume) || !strings.Contains(err.Error(), `"attempts":7`) {
		t.Errorf("another configuration: %v", err)
	}
	if _, err := s.agent.Resume(context.Background(), s.env(), t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no run: %v", err)
	}
	j, _, err := memory.Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.agent.Resume(context.Background(), s.env(), s.dir); !errors.Is(err, memory.ErrLocked) {
		t.Errorf("a run that another process has: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, memory.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	broken := slices.Clone(text)
	broken[len(broken)/2] = 0
	if err := os.WriteFile(filepath.Join(s.dir, memory.JournalFile), broken, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.agent.Resume(context.Background(), s.env(), s.dir); !errors.Is(err, memory.ErrJournal) {
		t.Errorf("a damaged journal: %v", err)
	}
}

// childDir, if set, makes the test binary a run that its parent kills.
const childDir = "TERRALOOM_TEST_RUN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

// child runs the eventful scene slowly and writes each call to a file.
func child(dir string) {
	t := &testing.T{}
	s := eventful(t)
	s.dir = dir
	calls, err := os.OpenFile(dir+".calls", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(3)
	}
	s.tools.onCall = func(name string) {
		if _, err := calls.WriteString(name + "\n"); err != nil {
			os.Exit(3)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err = os.Stat(filepath.Join(dir, memory.JournalFile)); err == nil {
		_, err = s.agent.Resume(context.Background(), s.env(), s.dir)
	}
	if err != nil && (errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrResume)) { // killed before its first event
		_, err = s.agent.Run(context.Background(), s.task, s.env(), s.dir)
	}
	if err != nil {
		os.Exit(4)
	}
	os.Exit(0)
}

// Killed with SIGKILL again and again, the run still ends as it should, and
// accepted calls were made once.
func TestResumeAfterKill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	wait := 30 * time.Millisecond
	for kill := range 60 {
		wait += wait / 8 // a slow machine gets as far as a fast one, later
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childDir+"="+dir, "TMPDIR="+t.TempDir())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("the run ends with %v", err)
			}
			finished(t, dir, kill)
			return
		case <-time.After(wait):
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			<-done
		}
	}
	t.Fatal("the run never ended")
}

func finished(t *testing.T, dir string, kills int) {
	t.Helper()
	want := eventful(t)
	hash := want.run().State.Hash()
	events, err := memory.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	state, err := memory.Replay(events)
	if err != nil || state.Hash() != hash {
		t.Errorf("after %d kills: %v, another state", kills, err)
	}
	calls, err := os.ReadFile(dir + ".calls")
	if err != nil {
		t.Fatal(err)
	}
	made := strings.Fields(string(calls))
	if got, least := len(made), len(want.tools.made); got < least || got > least+kills {
		t.Errorf("after %d kills: %d calls, an uninterrupted run has %d", kills, got, least)
	}
	if kills == 0 {
		t.Error("the run was never killed")
	}
	t.Logf("%d kills, %d calls", kills, len(made))
}

// AGT-32: the log of model calls is a script that gives the same run.
func TestAGT32LogReplaysTheRun(t *testing.T) {
	s := eventful(t)
	want := s.run()
	script, err := llm.ReadScript(filepath.Join(s.dir, ModelsFile))
	if err != nil {
		t.Fatal(err)
	}
	again := eventful(t)
	again.agent.Model = script
	if got := again.run(); got.State.Hash() != want.State.Hash() || got.Answer != want.Answer || script.Left() != 0 {
		t.Errorf("the replay gives another run; %d replies left", script.Left())
	}
}
