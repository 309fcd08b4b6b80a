//go:build linux

package synth

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"terraloom/data"
)

// 248,000 instances stream: memory stays bounded and time is linear in their
// number. It takes minutes and runs with TERRALOOM_BIG=1 only.
func TestBigRunStreams(t *testing.T) {
	if os.Getenv("TERRALOOM_BIG") == "" {
		t.Skip("makes 248,000 instances; set TERRALOOM_BIG=1")
	}
	seeds := realSeeds(t)
	const limit = 1536 << 10 // KiB
	var perInstance []time.Duration
	for _, perSeed := range []int{250, 1000} {
		o := Default()
		o.PerSeed, o.Workers = perSeed, runtime.GOMAXPROCS(0)
		c := &counter{}
		cpu, wall := cpuTime(t), time.Now()
		rep, err := runAll(t, seeds, c, o)
		if err != nil && rep == nil {
			t.Fatal(err)
		}
		used := cpuTime(t) - cpu
		if want := len(seeds) * perSeed; rep.Trajectories < want*98/100 {
			t.Errorf("%d of %d instances: %v", rep.Trajectories, want, err)
		}
		peak := peakMemory(t)
		t.Logf("%d a seed: %d of %d instances, %d rows, %s, %s of CPU, peak memory %d MiB; short seeds %d, refused %v", perSeed, rep.Trajectories, len(seeds)*perSeed, c.rows,
			time.Since(wall).Round(time.Second), used.Round(time.Second), peak>>10, len(rep.Short), (&data.Manifest{Refusals: rep.Refusals}).RefusalsByReason())
		for _, s := range rep.Short {
			t.Logf("short: %s %d of %d, %.300s", s.SeedID, s.Made, s.Wanted, s.Reasons)
		}
		if peak > limit {
			t.Errorf("peak memory is %d KiB, the limit is %d", peak, limit)
		}
		perInstance = append(perInstance, used/time.Duration(rep.Trajectories))
	}
	if few, many := perInstance[0], perInstance[1]; many > few*13/10 {
		t.Errorf("an instance takes %s of CPU in a run of 62,000 and %s in one of 248,000", few, many)
	}
}

// peakMemory is the most resident memory that the process had, in KiB.
func peakMemory(t *testing.T) int {
	t.Helper()
	src, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(src)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib
		}
	}
	t.Fatal("no VmHWM in /proc/self/status")
	return 0
}
