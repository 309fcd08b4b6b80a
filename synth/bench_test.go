//go:build unix

package synth

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"terraloom/data"
	"terraloom/slots"
)

// The benchmarks use the real question file, one operation being all 248 seeds.
// On a machine that does other work compare the CPU seconds.

func BenchmarkDiscoverAndCheck(b *testing.B) {
	seeds, reg := realSeeds(b), kit(b)
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		for _, s := range seeds {
			if _, err := (Discovered{reg}).For(s); err != nil {
				b.Fatal(err)
			}
		}
	}
	perSecond(b, len(seeds), "seeds/s", before)
}

// perSecond reports n things per operation as a rate, and the CPU time of an
// operation since before.
func perSecond(b *testing.B, n int, unit string, before time.Duration) {
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), unit)
	b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// compiledSeeds are the real seeds with their programs.
func compiledSeeds(b *testing.B) []*slots.Compiled {
	b.Helper()
	reg := kit(b)
	var out []*slots.Compiled
	for _, s := range realSeeds(b) {
		c, err := Discovered{reg}.For(s)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// One trajectory after the other on one core.
func BenchmarkInstantiateAndVerify(b *testing.B) {
	all, reg := compiledSeeds(b), kit(b)
	k := uint64(0)
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		for _, c := range all {
			for try := 0; ; try++ {
				k++
				v := c.Draw(rand.New(rand.NewPCG(k, 1)))
				t, err := c.Instance(v, reg)
				if err == nil {
					err = c.Verify(t, v, reg)
				}
				if err == nil {
					break
				}
				if try == 50 {
					b.Fatal(err)
				}
			}
		}
	}
	perSecond(b, len(all), "trajectories/s", before)
}

func BenchmarkExtract(b *testing.B) {
	type pair struct {
		x *extractor
		t *data.Trajectory
	}
	var all []pair
	rows, bytes := 0, 0
	for _, s := range realSeeds(b) {
		x, err := newExtractor(s, Default())
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, pair{x, s})
		p, e, _, err := x.extract(s)
		if err != nil {
			b.Fatal(err)
		}
		rows += 1 + len(e)
		bytes += len(p.Prompt[0].Content) + len(p.Prompt[1].Content) + len(p.Completion[0].Content)
		for i := range e {
			bytes += len(e[i].Prompt[0].Content) + len(e[i].Prompt[1].Content) + 2*len(e[i].Reference)
		}
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		for _, p := range all {
			if _, _, _, err := p.x.extract(p.t); err != nil {
				b.Fatal(err)
			}
		}
	}
	perSecond(b, rows, "rows/s", before)
}

// Everything but the files: ten instances of every seed.
func BenchmarkRun(b *testing.B) {
	seeds, reg := realSeeds(b), kit(b)
	o := Default()
	o.Workers = runtime.GOMAXPROCS(0)
	b.ReportAllocs()
	made := 0
	before := cpuTime(b)
	for b.Loop() {
		rep, err := Run(context.Background(), seeds, Discovered{reg}, Shared{reg}, &counter{}, o, nil)
		if err != nil {
			b.Fatal(err)
		}
		made = rep.Trajectories
	}
	perSecond(b, made, "trajectories/s", before)
}

// The whole: 2,480 instances into a dataset folder that is read back.
func BenchmarkRunToDataset(b *testing.B) {
	seeds, reg := realSeeds(b), kit(b)
	o := Default()
	o.Workers = runtime.GOMAXPROCS(0)
	var rows int
	var size int64
	before := cpuTime(b)
	for b.Loop() {
		w, err := data.CreateDataset(filepath.Join(b.TempDir(), "ds"), data.WriterOptions{Force: true})
		if err != nil {
			b.Fatal(err)
		}
		c := &counter{next: w}
		rep, err := Run(context.Background(), seeds, Discovered{reg}, Shared{reg}, c, o, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Finish(rep.Manifest(o, nil)); err != nil {
			b.Fatal(err)
		}
		rows, size = rep.Trajectories+rep.PlannerRows+rep.ExecutorRows, c.bytes
	}
	b.SetBytes(size)
	perSecond(b, rows, "rows/s", before)
}

// counter counts rows and bytes of text and hands them on.
type counter struct {
	rows  int
	bytes int64
	next  Sink
}

func (c *counter) Add(split string, t *data.Trajectory, planner data.PlannerRow, executor []data.ExecutorRow) error {
	c.rows += 2 + len(executor)
	if c.next == nil {
		return nil
	}
	c.bytes += int64(len(t.Value().AppendJSON(nil)))
	for _, m := range append(planner.Prompt, planner.Completion...) {
		c.bytes += int64(len(m.Content))
	}
	for i := range executor {
		for _, m := range append(executor[i].Prompt, executor[i].Completion...) {
			c.bytes += int64(len(m.Content))
		}
	}
	return c.next.Add(split, t, planner, executor)
}
