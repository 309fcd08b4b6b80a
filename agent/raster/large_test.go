package raster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	largeSide  = 20000
	largeLimit = 300 // MiB
	largeEnv   = "TERRALOOM_LARGE_RASTER"
)

// writeLarge writes a raster of side × side float32 pixels, each tile of which holds the values 0, 1, 2, … 65535 in row order, in
// a small file: all tiles share one stored tile.
func writeLarge(t testing.TB, path string, side int) {
	t.Helper()
	w, err := Create(path, Spec{Width: side, Height: side})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	raw := newBlock(blockSide * blockSide * 4)
	for i := range samples[float32](raw) {
		samples[float32](raw)[i] = float32(i)
	}
	tile, err := w.pack(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.offsets {
		w.offsets[i], w.counts[i] = w.at, int64(len(tile))
	}
	if err := w.append(tile); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// A band of 1.6 GB is averaged in a process that never takes more than 300 MiB from the system.
func TestLargeRasterInBoundedMemory(t *testing.T) {
	if path := os.Getenv(largeEnv); path != "" { // the process that is measured
		s, err := open(t, path).Stats(1)
		if err != nil {
			t.Fatal(err)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Printf("\nlarge %d %d %.3f %d\n", s[0].Valid, s[0].Total, s[0].Mean(), m.Sys>>20)
		return
	}
	if testing.Short() {
		t.Skip("decodes 1.6 GB")
	}
	path := filepath.Join(t.TempDir(), "large.tif")
	writeLarge(t, path, largeSide)
	cmd := exec.Command(os.Args[0], "-test.run=^TestLargeRasterInBoundedMemory$")
	cmd.Env = append(os.Environ(), largeEnv+"="+path, "GOMAXPROCS=16") // as on a larger machine
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, line, _ := strings.Cut(string(out), "\nlarge ")
	var valid, total, mib int64
	var mean float64
	if _, err := fmt.Sscan(line, &valid, &total, &mean, &mib); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	// The mean of x + 256·y over the last, partial tiles too, where x and y are positions within a tile.
	position := 0.0
	for i := range largeSide {
		position += float64(i % blockSide)
	}
	want := position / largeSide * (1 + blockSide)
	if valid != largeSide*largeSide || total != valid || !near(mean, want, 1e-7) {
		t.Errorf("mean %v of %d valid pixels, want %v of %d", mean, valid, want, largeSide*largeSide)
	}
	t.Logf("mean of %d pixels in %d MiB", valid, mib)
	if mib >= largeLimit {
		t.Errorf("took %d MiB, at most %d allowed", mib, largeLimit)
	}
}

// Reading all of a raster beyond MaxBytes is refused with advice, its windows are not.
func TestLargeReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.tif")
	writeLarge(t, path, largeSide)
	ds := open(t, path)
	if _, err := ds.ReadBand(1); err == nil || !strings.Contains(err.Error(), "windows") {
		t.Errorf("%v", err)
	}
	g, err := ds.ReadWindow(1, Window{largeSide - 3, largeSide - 2, 3, 2})
	if err != nil {
		t.Fatal(err)
	}
	x, y := (largeSide-3)%blockSide, (largeSide-2)%blockSide
	if want := float32(x + y*blockSide); g.Data[0] != want {
		t.Errorf("%v, want %v", g.Data[0], want)
	}
}
