package pixel

import (
	"math"
	"math/rand/v2"
	"testing"

	"terraloom/agent/raster"
)

const side = 2048

// relief is a band with smooth texture, a little noise and two percent of holes.
func relief(seed uint64, base, swing float64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	d := make([]float32, side*side)
	for i := range d {
		x, y := float64(i%side), float64(i/side)
		d[i] = float32(base + swing*(math.Sin(x/97+float64(seed))+math.Cos(y/61)+0.1*rng.NormFloat64()))
		if rng.IntN(50) == 0 {
			d[i] = nan
		}
	}
	return d
}

var sink float64

func bench(b *testing.B, name string, bytes int, f func()) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(bytes))
		for b.Loop() {
			f()
		}
	})
}

// BenchmarkKernels sets each kernel beside the plain loop over the same bytes.
func BenchmarkKernels(b *testing.B) {
	nir, red := relief(1, 0.4, 0.1), relief(2, 0.2, 0.08)
	ndvi, lst := relief(3, 0.5, 0.2), relief(4, 300, 8)
	dst := make([]float32, len(nir))
	const band = side * side * 4
	bench(b, "NDVI/plain loop", 3*band, func() {
		for i := range dst {
			dst[i] = (nir[i] - red[i]) / (nir[i] + red[i])
		}
	})
	bench(b, "NDVI/kernel", 3*band, func() { NormalizedDifference(dst, nir, red) })
	bench(b, "mean/plain loop", band, func() {
		sum, n := 0.0, 0
		for _, v := range lst {
			if raster.Finite(v) {
				sum += float64(v)
				n++
			}
		}
		sink = sum / float64(n)
	})
	bench(b, "mean/kernel", band, func() { sink, _ = raster.Mean(lst) })
	bench(b, "threshold ratio/plain loop", band, func() {
		m, n := 0, 0
		for _, v := range lst {
			if raster.Finite(v) {
				n++
				if v > 300 {
					m++
				}
			}
		}
		sink = float64(m) / float64(n)
	})
	bench(b, "threshold ratio/kernel", band, func() { m, n := CountOp(lst, Above, 300); sink = float64(m) / float64(n) })
	bench(b, "TVDI/plain loop", 3*band, func() { plainTVDI(dst, ndvi, lst) })
	bench(b, "TVDI/kernel", 3*band, func() {
		if _, _, err := TVDI(dst, ndvi, lst); err != nil {
			b.Fatal(err)
		}
	})
	bench(b, "median/kernel", band, func() { sink, _ = Percentile(lst, 50) })
}

// plainTVDI is the index in four loops, as one would write it.
func plainTVDI(dst, ndvi, lst []float32) {
	lo, hi := float32(2), float32(-1)
	for i, n := range ndvi {
		if n >= 0 && n <= 1 && lst[i] > 0 {
			lo, hi = min(lo, n), max(hi, n)
		}
	}
	var least, most [tvdiBins]float32
	for b := range least {
		least[b], most[b] = math.MaxFloat32, -math.MaxFloat32
	}
	scale := tvdiBins / (hi - lo)
	for i, n := range ndvi {
		if n >= 0 && n <= 1 && lst[i] > 0 {
			b := min(int((n-lo)*scale), tvdiBins-1)
			least[b], most[b] = min(least[b], lst[i]), max(most[b], lst[i])
		}
	}
	var x, l, h []float64
	for b := range least {
		if least[b] <= most[b] {
			x = append(x, float64(lo)+(float64(b)+0.5)*float64(hi-lo)/tvdiBins)
			l, h = append(l, float64(least[b])), append(h, float64(most[b]))
		}
	}
	dry, wet := fit(x, h), fit(x, l)
	for i, n := range ndvi {
		dst[i] = nan
		if n >= 0 && n <= 1 && lst[i] > 0 {
			bottom, top := wet.At(float64(n)), dry.At(float64(n))
			dst[i] = float32(min(max((float64(lst[i])-bottom)/(top-bottom), 0), 1))
		}
	}
}
