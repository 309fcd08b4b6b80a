package raster

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

const benchSide = 2048

// scene returns a band with the texture of imagery: smooth relief, a little noise, and some invalid pixels if asked for.
func scene(b testing.TB, seed uint64, invalid bool) *Grid {
	b.Helper()
	g, err := NewGrid(benchSide, benchSide, CRS{EPSG: 32633, Kind: Projected}, NorthUp(399960, 4500000, 30, 30))
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range g.Data {
		x, y := float64(i%benchSide), float64(i/benchSide)
		g.Data[i] = float32(290 + 8*math.Sin(x/97+float64(seed)) + 5*math.Cos(y/61) + 0.1*math.Round(rng.NormFloat64()*4))
		if invalid && rng.IntN(50) == 0 {
			g.Data[i] = NaN()
		}
	}
	return g
}

func sceneFile(b testing.TB, kind DataType, bands int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "scene.tif")
	grids := make([]*Grid, bands)
	for i := range grids {
		grids[i] = scene(b, uint64(i), false)
	}
	if err := Save(path, Spec{Type: kind}, grids...); err != nil {
		b.Fatal(err)
	}
	return path
}

func BenchmarkWrite(b *testing.B) {
	g := scene(b, 1, false)
	for _, kind := range []DataType{Float32, Int16} {
		b.Run(kind.String(), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "a.tif")
			b.SetBytes(int64(len(g.Data) * kind.Size()))
			for b.Loop() {
				if err := Save(path, Spec{Type: kind}, g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadBand(b *testing.B) {
	for _, kind := range []DataType{Float32, Int16} {
		b.Run(kind.String(), func(b *testing.B) {
			path := sceneFile(b, kind, 1)
			b.SetBytes(benchSide * benchSide * int64(kind.Size()))
			for b.Loop() {
				ds := open(b, path)
				if _, err := ds.ReadBand(1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadWindow(b *testing.B) {
	ds := open(b, sceneFile(b, Float32, 1))
	dst := make([]float32, 256*256)
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		w := Window{rng.IntN(benchSide - 256), rng.IntN(benchSide - 256), 256, 256}
		if err := ds.ReadInto(1, w, dst); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDatasetStats(b *testing.B) {
	path := filepath.Join(b.TempDir(), "large.tif")
	const side = 8192
	writeLarge(b, path, side)
	b.SetBytes(side * side * 4)
	for b.Loop() {
		if _, err := open(b, path).Stats(1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKernels compares the kernels with the plain loop that a tool would write, over the same bytes.
func BenchmarkKernels(b *testing.B) {
	valid, holed := scene(b, 1, false).Data, scene(b, 2, true).Data
	run := func(name string, data []float32, f func([]float32)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(4 * len(data)))
			for b.Loop() {
				f(data)
			}
		})
	}
	plain := func(data []float32) {
		sum, n := 0.0, 0
		for _, v := range data {
			if Finite(v) {
				sum += float64(v)
				n++
			}
		}
		sink = sum / float64(n)
	}
	run("plain loop/valid", valid, plain)
	run("plain loop/holed", holed, plain)
	run("Mean/valid", valid, func(d []float32) { sink, _ = Mean(d) })
	run("Mean/holed", holed, func(d []float32) { sink, _ = Mean(d) })
	run("Summarize/valid", valid, func(d []float32) { sink = Summarize(d).Mean() })
	run("Summarize/holed", holed, func(d []float32) { sink = Summarize(d).Mean() })
	run("copy", valid, func(d []float32) { copy(holed, d) })
}

var sink float64

func BenchmarkResample(b *testing.B) {
	src := scene(b, 1, false)
	like, err := NewGrid(1000, 1000, src.CRS, NorthUp(399960, 4500000, 61.44, 61.44))
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range []Method{Nearest, Bilinear} {
		b.Run(m.String(), func(b *testing.B) {
			b.SetBytes(4 * 1000 * 1000)
			for b.Loop() {
				if _, err := Resample(src, like, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkUnLZW(b *testing.B) {
	g := scene(b, 1, false)
	raw := make([]byte, 0, 1<<20)
	for _, v := range g.Data[:1<<17] {
		raw = append(raw, byte(v), byte(v*10))
	}
	packed := lzw(raw)
	dst := make([]byte, len(raw))
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := unlzw(dst, packed); err != nil {
			b.Fatal(err)
		}
	}
}
