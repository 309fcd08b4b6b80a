package synth

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"terraloom/data"
	"terraloom/slots"
)

// The benchmarks use the real question file, one operation being all 248 seeds.
// Compare "user" figures of `go test -cpuprofile` on a machine that does other work.

func BenchmarkDiscoverAndCheck(b *testing.B) {
	seeds, reg := realSeeds(b), kit(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range seeds {
			if _, err := (Discovered{reg}).For(s); err != nil {
				b.Fatal(err)
			}
		}
	}
	perSecond(b, len(seeds), "seeds/s")
}

// perSecond reports n things per operation as a rate.
func perSecond(b *testing.B, n int, unit string) {
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), unit)
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
	perSecond(b, len(all), "trajectories/s")
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
	for b.Loop() {
		for _, p := range all {
			if _, _, _, err := p.x.extract(p.t); err != nil {
				b.Fatal(err)
			}
		}
	}
	perSecond(b, rows, "rows/s")
}

// Everything but the files: ten instances of every seed.
func BenchmarkRun(b *testing.B) {
	seeds, reg := realSeeds(b), kit(b)
	o := Default()
	o.Workers = runtime.GOMAXPROCS(0)
	b.ReportAllocs()
	made := 0
	for b.Loop() {
		rep, err := Run(context.Background(), seeds, Discovered{reg}, reg, &counter{}, o, nil)
		if err != nil {
			b.Fatal(err)
		}
		made = rep.Trajectories
	}
	perSecond(b, made, "trajectories/s")
}

// The whole: 2,480 instances into a dataset folder that is read back.
func BenchmarkRunToDataset(b *testing.B) {
	seeds, reg := realSeeds(b), kit(b)
	o := Default()
	o.Workers = runtime.GOMAXPROCS(0)
	var rows int
	var size int64
	for b.Loop() {
		w, err := data.CreateDataset(filepath.Join(b.TempDir(), "ds"), data.WriterOptions{Force: true})
		if err != nil {
			b.Fatal(err)
		}
		c := &counter{next: w}
		rep, err := Run(context.Background(), seeds, Discovered{reg}, reg, c, o, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Finish(rep.Manifest(o, nil)); err != nil {
			b.Fatal(err)
		}
		rows, size = rep.Trajectories+rep.PlannerRows+rep.ExecutorRows, c.bytes
	}
	b.SetBytes(size)
	perSecond(b, rows, "rows/s")
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
