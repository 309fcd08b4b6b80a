package pixel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"terraloom/agent/raster"
	"terraloom/agent/tools/series"
)

// numPyRuns is how often each side computes each quantity; the medians are compared.
const numPyRuns = 9

// contest is one quantity: what the tools compute, and the loop that one would write.
// Both give the mean of their result, by which the three sides are held together.
type contest struct {
	name        string
	tool, plain func() float64
}

// contests are the quantities of the comparison and the rasters that they need.
func contests() ([]contest, map[string]any) {
	nir, red := relief(1, 0.4, 0.1), relief(2, 0.2, 0.08)
	ndvi, lst := relief(3, 0.5, 0.2), relief(4, 300, 8)
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, 1000)
	for i := range x {
		x[i] = 280 + 0.01*float64(i) + rng.NormFloat64()
	}
	dst := make([]float32, len(nir))
	mean := func(d []float32) float64 { f, _ := raster.Mean(d); return f }
	list := []contest{
		{"mean", func() float64 { return mean(lst) }, func() float64 {
			sum, n := 0.0, 0
			for _, v := range lst {
				if raster.Finite(v) {
					sum += float64(v)
					n++
				}
			}
			return sum / float64(n)
		}},
		{"NDVI", func() float64 { NormalizedDifference(dst, nir, red); return 0 }, func() float64 {
			for i := range dst {
				dst[i] = (nir[i] - red[i]) / (nir[i] + red[i])
			}
			return 0
		}},
		{"threshold ratio", func() float64 { m, n := CountOp(lst, Above, 300); return float64(m) / float64(n) }, func() float64 {
			m, n := 0, 0
			for _, v := range lst {
				if raster.Finite(v) {
					n++
					if v > 300 {
						m++
					}
				}
			}
			return float64(m) / float64(n)
		}},
		{"TVDI", func() float64 {
			if _, _, err := TVDI(dst, ndvi, lst); err != nil {
				panic(err)
			}
			return 0
		}, func() float64 { plainTVDI(dst, ndvi, lst); return 0 }},
		{"Theil-Sen", func() float64 { f, _ := series.Median(series.PairwiseSlopes(x)); return f }, func() float64 {
			var slopes []float64
			for i := range x {
				for j := i + 1; j < len(x); j++ {
					slopes = append(slopes, (x[j]-x[i])/float64(j-i))
				}
			}
			slices.Sort(slopes)
			return slopes[len(slopes)/2]
		}},
	}
	for i, c := range list { // of rasters, the mean of what was written
		if c.name == "NDVI" || c.name == "TVDI" {
			list[i].tool = func() float64 { c.tool(); return math.NaN() }
			list[i].plain = func() float64 { c.plain(); return math.NaN() }
		}
	}
	return list, map[string]any{"nir": nir, "red": red, "ndvi": ndvi, "lst": lst, "series": x, "dst": dst}
}

// BenchmarkBesideNumPy computes the same quantities from the same rasters of
// 2048 × 2048 pixels with NumPy, with a plain Go loop and with the tools' kernels,
// in one run, and reports how many times as fast as each the kernels are. It needs
// an interpreter with NumPy: python3, or that of TERRALOOM_PYTHON.
func BenchmarkBesideNumPy(b *testing.B) {
	python := os.Getenv("TERRALOOM_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import numpy").CombinedOutput(); err != nil {
		b.Skipf("%s with the package numpy is needed (set TERRALOOM_PYTHON): %v %s", python, err, bytes.TrimSpace(out))
	}
	list, rasters := contests()
	folder := b.TempDir()
	for name, data := range rasters {
		var file bytes.Buffer
		if err := binary.Write(&file, binary.LittleEndian, data); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), file.Bytes(), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	out, err := exec.Command(python, "testdata/numpy_bench.py", folder, strconv.Itoa(side), strconv.Itoa(numPyRuns)).Output()
	if err != nil {
		b.Fatal(err)
	}
	var peer map[string]json.RawMessage
	if err := json.Unmarshal(out, &peer); err != nil {
		b.Fatal(err)
	}
	dst := rasters["dst"].([]float32)
	b.Logf("NumPy %s, %d × %d pixels, medians of %d runs", peer["numpy"], side, side, numPyRuns)
	for _, c := range list {
		var numpy struct{ Seconds, Value float64 }
		if err := json.Unmarshal(peer[c.name], &numpy); err != nil {
			b.Fatalf("%s: %v", c.name, err)
		}
		b.Run(c.name, func(b *testing.B) {
			plain, _ := median(c.plain)
			var tool, value float64
			for b.Loop() {
				tool, value = median(c.tool)
			}
			if math.IsNaN(value) {
				value, _ = raster.Mean(dst)
			}
			if math.Abs(value-numpy.Value) > 2e-3*math.Abs(numpy.Value) {
				b.Errorf("the value is %g, NumPy's %g", value, numpy.Value)
			}
			b.ReportMetric(0, "ns/op") // of one run, below
			b.ReportMetric(tool*1e3, "tool-ms")
			b.ReportMetric(plain*1e3, "loop-ms")
			b.ReportMetric(numpy.Seconds*1e3, "numpy-ms")
			b.ReportMetric(numpy.Seconds/tool, "x-numpy")
			b.ReportMetric(plain/tool, "x-loop")
		})
	}
}

// median is the median time of a few runs, in seconds, and the last value.
func median(f func() float64) (seconds, value float64) {
	times := make([]float64, numPyRuns)
	for i := range times {
		start := time.Now()
		value = f()
		times[i] = time.Since(start).Seconds()
	}
	slices.Sort(times)
	return times[len(times)/2], value
}
