package synth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"terraloom/agent/environment"
	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots"
)

// world is the environment of the bundled seeds; calls counts the calls of tools.
type world struct {
	env   *environment.Environment
	fail  error        // what every session ends with, if set
	calls atomic.Int64 // that were not answered from a record
}

func (w *world) Session(ctx context.Context, name string) (Session, error) {
	s, err := w.env.Session(ctx, name)
	return &watchedSession{s, w}, err
}

type watchedSession struct {
	*environment.Session
	w *world
}

func (s *watchedSession) Close() error {
	s.w.calls.Add(int64(s.Session.Made()))
	return errors.Join(s.w.fail, s.Session.Close())
}

func openWorld(t testing.TB, cache string) *world {
	t.Helper()
	env, err := environment.OpenBundled(environment.Options{Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{env: env}
}

// few are bundled seeds of every domain, quick ones; fewer with -short.
func few(t testing.TB, regime string) []*data.Trajectory {
	t.Helper()
	res, err := data.Seeds(regime)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"seed-002", "seed-074", "seed-101", "seed-190", "seed-233"}
	if testing.Short() {
		ids = []string{"seed-002", "seed-101", "seed-190"}
	}
	seeds := slices.DeleteFunc(res.Trajectories, func(s *data.Trajectory) bool { return !slices.Contains(ids, s.ID) })
	if len(seeds) != len(ids) {
		t.Fatalf("%d of the seeds %v are bundled", len(seeds), ids)
	}
	return seeds
}

func execute(t testing.TB, w *world, seeds []*data.Trajectory, o Options) (*memory, *Report, error) {
	t.Helper()
	sink := &memory{}
	rep, err := Run(context.Background(), seeds, Executed{Files: data.SeedPrograms(), Environment: w}, w, sink, o, nil)
	return sink, rep, err
}

// text is everything that a run handed to its sink.
func (m *memory) text() []byte {
	var b bytes.Buffer
	for _, r := range m.rows {
		b.Write(r.t.Value().AppendJSON(nil))
		fmt.Fprintln(&b, r.split, r.planner, r.executor)
	}
	return b.Bytes()
}

// Every observation of an executed instance is what the tools return, and the
// rows do not depend on the number of workers.
func TestExecutedInstancesAreComputed(t *testing.T) {
	seeds := few(t, "")
	o := Default()
	o.Mode, o.PerSeed, o.Workers = Execute, 2, 2
	w := openWorld(t, "")
	rows, rep, err := execute(t, w, seeds, o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Trajectories != 2*len(seeds) || rep.AnswersDropped != 0 {
		t.Errorf("%d trajectories, %d without answer", rep.Trajectories, rep.AnswersDropped)
	}
	for _, r := range rows.rows {
		if n := r.t.Provenance.Get("drawn_observations").Len(); n != 0 || r.t.Provenance.Get("mode").Text() != Execute {
			t.Errorf("%s: %d observations are drawn", r.t.ID, n)
		}
		s, err := w.env.Session(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		for i, st := range r.t.Steps {
			if v, err := s.Call(st.Tool, st.Arguments); err != nil || !v.Equal(st.Observation) {
				t.Errorf("%s step %d (%s): recorded %.80s, the tool returns %.80s (%v)", r.t.ID, i, st.Tool, st.Observation.JSON(), v.JSON(), err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	o.Workers = 1
	again, _, err := execute(t, openWorld(t, ""), seeds, o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(rows.text(), again.text()) {
		t.Error("the rows depend on the number of workers")
	}
}

// An interrupted execution goes on from its records: the same rows, and no tool
// is called twice.
func TestExecutionGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("executes the seeds several times over")
	}
	seeds := few(t, "")[:3]
	o := Default()
	o.Mode, o.PerSeed, o.Workers = Execute, 2, 2
	w := openWorld(t, "")
	whole, _, err := execute(t, w, seeds, o)
	if err != nil {
		t.Fatal(err)
	}
	all := w.calls.Load()
	cache := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	w = openWorld(t, cache)
	_, err = Run(ctx, seeds, Executed{Files: data.SeedPrograms(), Environment: w}, w, &memory{}, o, func(done, _ int) {
		if done == 1 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want %v", err, context.Canceled)
	}
	w = openWorld(t, cache)
	rest, _, err := execute(t, w, seeds, o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(whole.text(), rest.text()) {
		t.Error("a resumed run makes other rows")
	}
	if n := w.calls.Load(); n >= all {
		t.Errorf("the resumed run makes %d calls, a whole one %d", n, all)
	}
	w = openWorld(t, cache)
	if _, _, err := execute(t, w, seeds, o); err != nil || w.calls.Load() != 0 {
		t.Errorf("a complete run is made again with %d calls (%v)", w.calls.Load(), err)
	}
}

// A failing environment ends the run; it is no reason to draw again.
func TestFailingEnvironmentEndsTheRun(t *testing.T) {
	w := openWorld(t, "")
	w.fail = errors.New("disk full")
	o := Default()
	o.Mode, o.PerSeed = Execute, 1
	if _, _, err := execute(t, w, few(t, "")[:1], o); !errors.Is(err, w.fail) {
		t.Errorf("%v; want %v", err, w.fail)
	}
}

// The other regimes of a seed have programs too: other questions, the same answers.
func TestOtherRegimesAreExecuted(t *testing.T) {
	if testing.Short() {
		t.Skip("tries the programs of other questions on samples")
	}
	o := Default()
	o.Mode, o.PerSeed = Execute, 1
	for _, regime := range []string{"ap", "if"} {
		seeds := few(t, regime)
		seeds = []*data.Trajectory{seeds[0], seeds[len(seeds)-2]}
		rows, _, err := execute(t, openWorld(t, ""), seeds, o)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows.rows {
			if r.t.Regime != regime || r.t.Answer.Get("text").Kind() != strictjson.String || r.t.Query == seeds[i].Query && seeds[i].Domain != "rgb" {
				t.Errorf("%s: regime %s, answer %s", r.t.ID, r.t.Regime, r.t.Answer.JSON())
			}
		}
	}
}

// Instances are made again, bit for bit, from seed and provenance.
func TestExecutedInstancesAreMadeAgain(t *testing.T) {
	seeds := few(t, "")[:2]
	o := Default()
	o.Mode, o.PerSeed = Execute, 2
	w := openWorld(t, "")
	rows, _, err := execute(t, w, seeds, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows.rows {
		seed := seeds[slices.IndexFunc(seeds, func(s *data.Trajectory) bool { return s.ID == r.t.SeedID })]
		again, _, _, err := Rebuild(context.Background(), seed, r.t, Executed{Files: data.SeedPrograms(), Environment: w}, w, o)
		if err != nil || again.Value().JSON() != r.t.Value().JSON() {
			t.Errorf("%s: %v", r.t.ID, err)
		}
	}
}

// A seed whose files are nowhere cannot be executed, and the error says what to do.
func TestPreparedFilesCannotBeExecuted(t *testing.T) {
	w := openWorld(t, "")
	_, err := Executed{Files: data.SeedPrograms(), Environment: w}.For(sampleSeed(t, "sample-1"))
	if !errors.Is(err, ErrSeed) || !strings.Contains(err.Error(), "--mode propagate") {
		t.Errorf("%v", err)
	}
	// A program that nobody checked is not used.
	s := few(t, "")[0]
	p, err := slots.Discover(s, slots.Recorded{Seed: s})
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{s.ID + ".yaml": {Data: p.YAML()}}
	if _, err := (Executed{Files: files, Environment: w}).For(s); !errors.Is(err, ErrUnreviewed) {
		t.Errorf("%v; want %v", err, ErrUnreviewed)
	}
}

// Instances that ask the same about different pictures are told apart by what
// was found in them; drawn observations do not count.
func TestFoundValuesTellInstancesApart(t *testing.T) {
	instance := func(mode, found string) *data.Trajectory {
		return seedOf(t, fmt.Sprintf(`{"id":"a","seed_id":"a","source":"own","domain":"rgb","query":"How many square metres of roof do the buildings of the village have in all, taking a pixel as half a metre wide?",
			"steps":[{"tool":"calculate_area","arguments":{"input_image_path":"m.png","gsd":0.5},"observation":[%s]}],"slots":{"sample":4711},"provenance":{"mode":%q}}`, found, mode))
	}
	for _, test := range []struct {
		mode string
		same bool
	}{{Propagate, true}, {Execute, false}} {
		a, b := sketchOf(features(instance(test.mode, "10.5, 21.25, 7"))), sketchOf(features(instance(test.mode, "11.5, 20.75, 9")))
		if s := a.similarity(&b); s >= Default().NearDuplicate != test.same {
			t.Errorf("%s: similarity %v", test.mode, s)
		}
	}
}
