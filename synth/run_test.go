package synth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"terraloom/data"
	"terraloom/slots"
)

// S3, SYN-1: rows depend on neither workers nor shards.
func TestS3RowsDoNotDependOnWorkersAndShards(t *testing.T) {
	seeds := sampleSeeds(t)
	o := Default()
	o.PerSeed, o.Workers = 20, 1 // more than one chunk
	want := &memory{}
	rep, err := runAll(t, seeds, want, o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Trajectories != len(seeds)*20 || len(want.rows) != rep.Trajectories {
		t.Fatalf("%d rows, %d counted, want %d", len(want.rows), rep.Trajectories, len(seeds)*20)
	}
	same := func(what string, got []row) {
		t.Helper()
		if len(got) != len(want.rows) {
			t.Errorf("%s: %d rows, want %d", what, len(got), len(want.rows))
			return
		}
		for i := range got {
			if got[i].text() != want.rows[i].text() {
				t.Errorf("%s: row %d is %.300s\nwant %.300s", what, i, got[i].text(), want.rows[i].text())
				return
			}
		}
	}
	for _, workers := range []int{2, 16} {
		o.Workers = workers
		got := &memory{}
		if _, err := runAll(t, seeds, got, o); err != nil {
			t.Fatal(err)
		}
		same(fmt.Sprint(workers, " workers"), got.rows)
	}
	o.Workers = 2
	for _, n := range []int{2, 5, 8, 11} {
		var got []row
		sum := &Report{}
		for i := range n {
			o.Shard = Shard{i, n}
			part := &memory{}
			r, err := runAll(t, seeds, part, o)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, part.rows...)
			sum.Seeds, sum.Components, sum.Drawn, sum.Nodes = sum.Seeds+r.Seeds, sum.Components+r.Components, sum.Drawn+r.Drawn, sum.Nodes+r.Nodes
		}
		same(fmt.Sprint(n, " shards"), got)
		if sum.Seeds != rep.Seeds || sum.Components != rep.Components || sum.Drawn != rep.Drawn || sum.Nodes != rep.Nodes {
			t.Errorf("%d shards count %+v, the whole run %+v", n, sum, rep)
		}
	}
}

// The run's seed decides the values: another one gives other instances.
func TestRunSeedChangesTheInstances(t *testing.T) {
	seeds := sampleSeeds(t)[:3]
	a, b := &memory{}, &memory{}
	o := Default()
	if _, err := runAll(t, seeds, a, o); err != nil {
		t.Fatal(err)
	}
	o.Seed++
	if _, err := runAll(t, seeds, b, o); err != nil {
		t.Fatal(err)
	}
	for i := range a.rows {
		if a.rows[i].t.Slots.JSON() == b.rows[i].t.Slots.JSON() {
			t.Errorf("%s has the same slot values under both seeds", a.rows[i].t.ID)
		}
	}
}

// SYN-3: root tuples are unique and not the seed's own; a domain of five cannot
// give ten, and the report says so with reasons.
func TestSYN3DomainOfFiveGivesFiveOfTen(t *testing.T) {
	seed, programs := tinyProgram(t, `  - {name: sample, type: file, role: root, seed: 7, source: {range: {min: 5, max: 10, step: 1, except: []}}}
`, inFolder...)
	o := Default()
	o.NearDuplicate = 1
	sink := &memory{}
	rep, err := runTiny(t, seed, programs, sink, o)
	if !errors.Is(err, ErrShort) || !strings.Contains(err.Error(), "tiny: 5 of 10") || !strings.Contains(err.Error(), refusedTuple) {
		t.Fatalf("error %v", err)
	}
	if len(rep.Short) != 1 || rep.Short[0].Made != 5 || rep.Short[0].Wanted != 10 || len(sink.rows) != 5 || rep.Trajectories != 5 {
		t.Errorf("%+v, %d rows", rep.Short, len(sink.rows))
	}
	seen := map[string]bool{`{"sample":7}`: true} // the seed's own
	for _, r := range sink.rows {
		if tuple := r.t.Slots.JSON(); seen[tuple] {
			t.Errorf("the tuple %s is the seed's or stands twice", tuple)
		} else {
			seen[tuple] = true
		}
	}
}

// S6: how many draws repeat one another is reported for each seed.
func TestS6RepeatedDrawsAreCounted(t *testing.T) {
	seed, programs := tinyProgram(t, `  - {name: sample, type: file, role: root, seed: 7, source: {range: {min: 8, max: 19, step: 1}}}
`, inFolder...)
	o := Default()
	o.NearDuplicate, o.PerSeed, o.Tries = 1, 12, 400
	rep, err := runTiny(t, seed, programs, &memory{}, o)
	if err != nil {
		t.Fatal(err)
	}
	repeated := 0
	for _, r := range rep.Refusals {
		if r.Reason == refusedTuple && r.SeedID == "tiny" && r.Detail != "" {
			repeated += r.Count
		}
	}
	if repeated < 12 || rep.Drawn != rep.Trajectories+repeated {
		t.Errorf("%d draws for %d instances, %d repeated", rep.Drawn, rep.Trajectories, repeated)
	}
	if got := rep.Manifest(o, nil).RefusalsByReason(); len(got) != 1 || got[0].Name != refusedTuple || got[0].Count != repeated {
		t.Errorf("the manifest says %v", got)
	}
}

// Instances that say the same, though their slot values differ, are duplicates.
func TestExactDuplicatesAreRefused(t *testing.T) {
	seed, programs := tinyProgram(t, `  - {name: sample, type: file, role: root, seed: 7, source: {choice: [8, 9]}}
  - {name: idle, type: number, role: root, seed: 0, source: {range: {min: 1, max: 900, step: 1}}}
`, inFolder...)
	o := Default()
	o.NearDuplicate = 1
	rep, err := runTiny(t, seed, programs, &memory{}, o)
	if !errors.Is(err, ErrShort) || rep.Trajectories != 2 || !strings.Contains(err.Error(), refusedExact) {
		t.Errorf("%d instances, %v", rep.Trajectories, err)
	}
}

func TestNearDuplicatesAreRefused(t *testing.T) {
	seeds := []*data.Trajectory{sampleSeed(t, "sample-5")}
	o := Default()
	loose := &memory{}
	if _, err := runAll(t, seeds, loose, o); err != nil {
		t.Fatal(err)
	}
	o.NearDuplicate, o.Tries = 0.6, 3
	strict := &memory{}
	rep, err := runAll(t, seeds, strict, o)
	if !errors.Is(err, ErrShort) || !strings.Contains(err.Error(), refusedNear) {
		t.Fatalf("error %v", err)
	}
	if len(strict.rows) == 0 || len(strict.rows) >= len(loose.rows) {
		t.Errorf("%d instances at 0.6, %d at 0.95", len(strict.rows), len(loose.rows))
	}
	if !slices.ContainsFunc(rep.Refusals, func(r data.Refusal) bool { return r.Reason == refusedNear && r.Count > 0 }) {
		t.Errorf("refusals %v", rep.Refusals)
	}
}

// SYN-4: a draw that gives no real date is redrawn and counted.
func TestSYN4ImpossibleDatesAreRedrawn(t *testing.T) {
	seed, programs := tinyProgram(t, `  - {name: day, type: count, role: root, seed: 5, source: {range: {min: 20, max: 31, step: 1}}}
  - {name: scene, type: date, role: derived, expr: '"2020-02-" + string(day)'}
`,
		`{at: /query, text: "How warm is the scene of {scene}?"}`,
		`{at: /steps/0/observation/0, text: "scene_{scene}.tif"}`,
		`{at: /steps/1/arguments/file_list/0, text: "benchmark/data/question7/scene_{scene}.tif"}`)
	programs["tiny"].Slots[1].Expr = `day == 5 ? "2020-02-05" : "2020-02-" + string(day)`
	o := Default()
	o.NearDuplicate, o.PerSeed, o.Tries = 1, 8, 200
	sink := &memory{}
	rep, err := runTiny(t, seed, programs, sink, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range sink.rows {
		if day, _ := r.t.Slots.Get("day").Float(); day > 29 {
			t.Errorf("%s has the date %s", r.t.ID, r.t.Query)
		}
	}
	found := false
	for _, r := range rep.Refusals {
		found = found || r.Reason == refusedCompose && r.Count > 0 && strings.Contains(r.Detail, "2020-02-3") && strings.Contains(r.Detail, "slot scene")
	}
	if !found {
		t.Errorf("refusals %+v", rep.Refusals)
	}
}

func TestLongInstancesAreRefused(t *testing.T) {
	seed, programs := tinyProgram(t, `  - {name: sample, type: file, role: root, seed: 7, source: {range: {min: 8, max: 500000, step: 1}}}
`, inFolder...)
	o := Default()
	o.NearDuplicate, o.PerSeed, o.MaxTrajectory = 1, 3, 300
	rep, err := runTiny(t, seed, programs, &memory{}, o)
	if !errors.Is(err, ErrShort) || rep.Trajectories != 0 || !strings.Contains(err.Error(), "length 60") || !strings.Contains(err.Error(), "the limit is 300") {
		t.Errorf("%v", err)
	}
}

func TestRunStops(t *testing.T) {
	seeds := sampleSeeds(t)
	reg := kit(t)
	o := Default()
	boom := errors.New("boom")

	ctx, cancel := context.WithCancel(context.Background())
	var seen atomic.Int32
	_, err := Run(ctx, seeds, Discovered{reg}, Shared{reg}, &memory{}, o, func(done, total int) {
		if total != len(seeds) {
			t.Errorf("progress of %d", total)
		}
		if seen.Add(1); done == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || seen.Load() < 2 || seen.Load() == int32(len(seeds)) {
		t.Errorf("cancelled after two seeds: %v, %d seeds seen", err, seen.Load())
	}
	if _, err := Run(context.Background(), seeds, Discovered{reg}, Shared{reg}, failingSink{boom}, o, nil); !errors.Is(err, boom) {
		t.Errorf("a sink that fails: %v", err)
	}
	if _, err := Run(context.Background(), seeds, failingPrograms{boom, "sample-4"}, Shared{reg}, &memory{}, o, nil); !errors.Is(err, boom) {
		t.Errorf("a program that fails: %v", err)
	}
	o.Workers = 0
	if _, err := Run(context.Background(), seeds, Discovered{reg}, Shared{reg}, &memory{}, o, nil); err == nil {
		t.Error("no workers were accepted")
	}
}

type failingSink struct{ err error }

func (f failingSink) Add(string, *data.Trajectory, data.PlannerRow, []data.ExecutorRow) error {
	return f.err
}

type failingPrograms struct {
	err error
	id  string
}

func (f failingPrograms) For(seed *data.Trajectory) (*slots.Compiled, error) {
	if seed.ID == f.id {
		return nil, f.err
	}
	return Discovered{noTools{}}.For(seed)
}

// D15: nothing of an earlier run is used again, and the manifest tells runs apart.
func TestD15ManifestTellsRunsApart(t *testing.T) {
	o := Default()
	o.Shard = Shard{0, 2}
	rep, err := runAll(t, sampleSeeds(t), &memory{}, o)
	if err != nil {
		t.Fatal(err)
	}
	inputs := []data.Input{{Name: "seeds.jsonl", SHA256: "00", Bytes: 1}}
	m := rep.Manifest(o, inputs)
	if m.Seed != o.Seed || m.Shard == nil || *m.Shard != (data.Shard{Index: 0, Count: 2}) || len(m.Inputs) != 1 {
		t.Errorf("manifest %+v", m)
	}
	count := map[string]int{}
	for _, c := range m.Counts {
		if _, twice := count[c.Name]; twice {
			t.Errorf("%s is counted twice", c.Name)
		}
		count[c.Name] = c.Count
	}
	if count["instances taken"] != count["split train"]+count["split validation"]+count["split test"] || count["instances taken"] != rep.Seeds*o.PerSeed ||
		count["computed observations in seeds"] == 0 || count["nodes"] != count["executor rows"]+count[refusedTarget] || count["instances drawn"] < count["instances taken"] {
		t.Errorf("counts %v", count)
	}
	back, err := OptionsOf(m)
	if err != nil {
		t.Fatal(err)
	}
	back.Shard, back.Workers = o.Shard, o.Workers
	if back != o {
		t.Errorf("the manifest's options are %+v, the run's %+v", back, o)
	}
	// Whatever changes the rows changes the recorded options.
	for _, change := range []func(*Options){
		func(o *Options) { o.PerSeed++ }, func(o *Options) { o.Style = "compact" }, func(o *Options) { o.MaxTarget++ }, func(o *Options) { o.MaxTrajectory++ },
		func(o *Options) { o.NearDuplicate -= 0.01 }, func(o *Options) { o.Tries++ }, func(o *Options) { o.Mode = Execute },
	} {
		other := o
		change(&other)
		if rep.Manifest(other, nil).Options.JSON() == m.Options.JSON() {
			t.Errorf("%+v has the manifest of %+v", other, o)
		}
	}
	other := o
	other.Workers, other.Shard = 9, Shard{1, 2}
	if rep.Manifest(other, nil).Options.JSON() != m.Options.JSON() {
		t.Error("workers and shards must not stand in the options: shards of a run would not merge")
	}
	m.Options = parse(t, `{"per_seed":0}`)
	if _, err := OptionsOf(m); err == nil {
		t.Error("options without values were accepted")
	}
}

// Where seeds record a pure tool's result wrongly the report says so.
func TestWrongRecordsAreReported(t *testing.T) {
	seed := sampleSeed(t, "sample-5")
	seed.Steps[4].Observation = parse(t, "99.75")
	rep, err := runAll(t, []*data.Trajectory{seed}, &memory{}, Default())
	if err != nil {
		t.Fatal(err)
	}
	if rep.Computed != 3 || rep.Corrected != 1 {
		t.Errorf("%d computed, %d corrected, want 3 and 1", rep.Computed, rep.Corrected)
	}
	computed, wrong := 0, 0
	for _, s := range realSeeds(t) {
		c, err := Discovered{kit(t)}.For(s)
		if err != nil {
			t.Fatal(err)
		}
		n, corrections := c.Computed()
		computed, wrong = computed+n, wrong+len(corrections)
		for _, x := range corrections {
			if !slices.ContainsFunc(c.Program.Notes, func(n string) bool { return strings.Contains(n, fmt.Sprintf("step %d: %s returns", x.Step, x.Tool)) }) {
				t.Errorf("%s step %d: %s is recorded as %s, which no note says", s.ID, x.Step, x.Right.JSON(), x.Recorded.JSON())
			}
		}
	}
	// Another program, which compares by position, counts 44 of 262.
	if computed < 262 || wrong < 30 || wrong > 50 {
		t.Errorf("%d computed observations in the real seeds, %d recorded wrongly", computed, wrong)
	}
}
