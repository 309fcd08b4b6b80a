package tools

import (
	"math"
	"slices"

	"terraloom/agent/raster"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// The arithmetic of the public kit's arrays: the precision of the file's own type
// (single for 32-bit floats, double for everything else), sums in the order in
// which NumPy adds, fill values counted.

type real interface{ float32 | float64 }

// publicSum adds in blocks of 128 with eight running sums and halves longer
// arrays, as NumPy does.
func publicSum[T real](a []T) T {
	n := len(a)
	switch {
	case n < 8:
		var s T
		for _, v := range a {
			s += v
		}
		return s
	case n <= 128:
		var r [8]T
		copy(r[:], a)
		i := 8
		for ; i < n-n%8; i += 8 {
			for k := range r {
				r[k] += a[i+k]
			}
		}
		s := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
		for ; i < n; i++ {
			s += a[i]
		}
		return s
	}
	half := n / 2
	half -= half % 8
	return publicSum(a[:half]) + publicSum(a[half:])
}

// publicPixels are all samples of an image, pixel by pixel; one of the two is nil.
type publicPixels struct {
	single []float32
	double []float64
}

// publicImage reads an image as the kit does: all bands, infinities as NaN. stretch
// is its conversion to bytes.
func publicImage(c *Call, r *workspace.Raster, stretch bool) (publicPixels, func(), error) {
	n, bands := r.Info.Width*r.Info.Height, len(r.Info.Bands)
	release, err := c.env.workspace.Reserve(c.Context, int64(n)*int64(bands)*24)
	if err != nil {
		return publicPixels{}, nil, err
	}
	var x publicPixels
	single := r.Info.Type == raster.Float32
	if single {
		x.single = make([]float32, n*bands)
	} else {
		x.double = make([]float64, n*bands)
	}
	for b := range bands {
		samples, err := publicSamples(r, b+1)
		if err != nil {
			release()
			return publicPixels{}, nil, err
		}
		for i, v := range samples {
			if math.IsInf(v, 0) && !stretch {
				v = math.NaN()
			}
			if single {
				x.single[i*bands+b] = float32(v)
			} else {
				x.double[i*bands+b] = v
			}
		}
	}
	if stretch {
		if x.single == nil {
			x.single = make([]float32, len(x.double))
			for i, v := range x.double {
				x.single[i] = float32(v)
			}
		}
		publicStretch(x.single)
		x.double = make([]float64, len(x.single)) // statistics of bytes are double
		for i, v := range x.single {
			x.double[i] = float64(v)
		}
		x.single = nil
	}
	return x, release, nil
}

// publicSamples reads a band without regard to nodata.
func publicSamples(r *workspace.Raster, band int) ([]float64, error) {
	w := raster.Window{Width: r.Info.Width, Height: r.Info.Height}
	out := make([]float64, w.Pixels())
	switch r.Info.Type {
	case raster.Int64, raster.Uint64:
		whole := make([]int64, len(out))
		if r.Info.Type == raster.Uint64 {
			unsigned := make([]uint64, len(out))
			err := raster.ReadSamples(r.Dataset, band, w, unsigned)
			for i, v := range unsigned {
				out[i] = float64(v)
			}
			return out, err
		}
		err := raster.ReadSamples(r.Dataset, band, w, whole)
		for i, v := range whole {
			out[i] = float64(v)
		}
		return out, err
	}
	return out, raster.ReadSamples(r.Dataset, band, w, out)
}

// publicBand reads a band as single-precision numbers without regard to nodata.
func publicBand(r *workspace.Raster, band int) (*raster.Grid, error) {
	g, err := raster.NewGrid(r.Info.Width, r.Info.Height, r.Info.CRS, r.Info.Transform)
	if err != nil {
		return nil, err
	}
	samples, err := publicSamples(r, band)
	if err != nil {
		return nil, err
	}
	for i, v := range samples {
		g.Data[i] = float32(v)
	}
	return g, nil
}

// publicStretch maps the range to 0 … 255 and cuts off the fraction; one NaN
// among the values makes all 0.
func publicStretch(x []float32) {
	if len(x) == 0 {
		return
	}
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	span := hi - lo
	for i, v := range x {
		if !(span > 0) {
			x[i] = 0
			continue
		}
		x[i] = float32(math.Trunc(float64((v - lo) / span * 255)))
	}
}

// publicTags gives a frame the nodata value of the first input where the kit
// does not set one.
func publicTags(f *frame, first *workspace.Raster) {
	if f.nodata == nil {
		f.nodata = first.Info.Bands[0].NoData
	}
}

// publicSave writes the numbers as they are, the nodata value only as a tag. It
// refuses a tag that the type cannot hold, which the kit's writer cannot either.
func publicSave(tmp string, f *frame) error {
	g := f.grids[0]
	spec := raster.Spec{Width: g.Width, Height: g.Height, Type: f.kind, NoData: f.nodata, CRS: g.CRS, Transform: g.Transform,
		Bands: make([]raster.BandSpec, len(f.grids))}
	w, err := raster.Create(tmp, spec)
	if err != nil {
		return err
	}
	defer w.Abort()
	window := raster.Window{Width: g.Width, Height: g.Height}
	for i, g := range f.grids {
		if f.kind == raster.Uint8 {
			bytes := make([]uint8, len(g.Data))
			for k, v := range g.Data {
				bytes[k] = uint8(v)
			}
			err = raster.WriteSamples(w, i+1, window, bytes)
		} else {
			err = raster.WriteSamples(w, i+1, window, g.Data)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}

// publicNumber spells what JSON has no number for as the kit's server does.
func publicNumber(f float64, spell func(float64) strictjson.Value) strictjson.Value {
	switch {
	case math.IsNaN(f):
		return strictjson.Text("NaN")
	case math.IsInf(f, 1):
		return strictjson.Text("Infinity")
	case math.IsInf(f, -1):
		return strictjson.Text("-Infinity")
	}
	return spell(f)
}

// publicStat is the reading of a statistic of all samples of an image.
func publicStat(c *Call, s *stat, r *workspace.Raster, stretch bool) (reading, error) {
	x, release, err := publicImage(c, r, stretch)
	if err != nil {
		return reading{}, err
	}
	defer release()
	return reading{value: s.public(x), used: x.len(), total: x.len()}, nil
}

func (x publicPixels) len() int { return len(x.single) + len(x.double) }

func (x publicPixels) mean() float64 {
	if x.single != nil {
		return float64(nanMean(x.single))
	}
	return nanMean(x.double)
}

func (x publicPixels) std() float64 {
	if x.single != nil {
		return float64(nanStd(x.single))
	}
	return nanStd(x.double)
}

func (x publicPixels) median() float64 {
	if x.single != nil {
		return float64(nanMedian(x.single))
	}
	return nanMedian(x.double)
}

func (x publicPixels) min() float64 {
	if x.single != nil {
		return float64(nanFold(x.single, func(a, b float32) bool { return b < a }))
	}
	return nanFold(x.double, func(a, b float64) bool { return b < a })
}

func (x publicPixels) max() float64 {
	if x.single != nil {
		return float64(nanFold(x.single, func(a, b float32) bool { return b > a }))
	}
	return nanFold(x.double, func(a, b float64) bool { return b > a })
}

func (x publicPixels) sum() float64 {
	if x.single != nil {
		s, _ := nanSum(x.single)
		return float64(s)
	}
	s, _ := nanSum(x.double)
	return s
}

// skewness is NaN if any sample is; kurtosis leaves NaN out.
func (x publicPixels) skewness() float64 {
	if x.single != nil {
		return skewSample(x.single)
	}
	return skewSample(x.double)
}

func (x publicPixels) kurtosis() float64 {
	if x.single != nil {
		return kurtosisPlain(slices.DeleteFunc(slices.Clone(x.single), isNaN[float32]))
	}
	return kurtosisPlain(slices.DeleteFunc(slices.Clone(x.double), isNaN[float64]))
}

func isNaN[T real](v T) bool { return v != v }

// nanSum is the sum with NaN as 0, and the number of others.
func nanSum[T real](a []T) (sum T, n int) {
	b := slices.Clone(a)
	for i, v := range b {
		if v != v {
			b[i] = 0
		} else {
			n++
		}
	}
	return publicSum(b), n
}

func nanMean[T real](a []T) T {
	sum, n := nanSum(a)
	return T(float64(sum) / float64(n))
}

func nanStd[T real](a []T) T {
	mean := nanMean(a)
	squares := make([]T, len(a))
	n := 0
	for i, v := range a {
		if v == v {
			d := v - mean
			squares[i] = d * d
			n++
		}
	}
	variance := T(float64(publicSum(squares)) / float64(n-1))
	if n < 2 {
		return T(math.NaN())
	}
	return T(math.Sqrt(float64(variance)))
}

func nanMedian[T real](a []T) T {
	b := slices.DeleteFunc(slices.Clone(a), isNaN[T])
	slices.Sort(b)
	n := len(b)
	switch {
	case n == 0:
		return T(math.NaN())
	case n%2 == 1:
		return b[n/2]
	}
	return (b[n/2-1] + b[n/2]) / 2
}

// nanFold is the value that no other is better than, NaN of none.
func nanFold[T real](a []T, better func(old, new T) bool) T {
	best := T(math.NaN())
	for _, v := range a {
		if v == v && (best != best || better(best, v)) {
			best = v
		}
	}
	return best
}

// centralMoments are m2, m3 and m4 in the precision of T.
func centralMoments[T real](a []T) (m2, m3, m4 float64) {
	n := float64(len(a))
	mean := T(float64(publicSum(a)) / n)
	p2, p3, p4 := make([]T, len(a)), make([]T, len(a)), make([]T, len(a))
	for i, v := range a {
		d := v - mean
		p2[i] = d * d
		p3[i] = p2[i] * d
		p4[i] = p2[i] * p2[i]
	}
	of := func(p []T) float64 { return float64(T(float64(publicSum(p)) / n)) }
	return of(p2), of(p3), of(p4)
}

func skewSample[T real](a []T) float64 {
	n := float64(len(a))
	m2, m3, _ := centralMoments(a)
	if n < 3 || m2 == 0 || m2 != m2 {
		if m2 == 0 || n < 3 {
			return math.NaN()
		}
		return m2
	}
	return float64(T(math.Sqrt((n-1)*n) / (n - 2) * m3 / math.Pow(m2, 1.5)))
}

func kurtosisPlain[T real](a []T) float64 {
	m2, _, m4 := centralMoments(a)
	return float64(T(m4 / (m2 * m2)))
}

// publicMeanOfMeans is the mean of double numbers; publicMaxOfMeans keeps the
// first where NaN makes comparisons false, as Python's max does.
func publicMeanOfMeans(means []float64) float64 { return publicSum(means) / float64(len(means)) }

func publicMaxOfMeans(means []float64) float64 {
	best := means[0]
	for _, m := range means[1:] {
		if m > best {
			best = m
		}
	}
	return best
}

// publicPercentile interpolates between order statistics in single precision. It
// sorts its argument.
func publicPercentile(x []float32, q float64) float64 {
	slices.Sort(x)
	at := q / 100 * float64(len(x)-1)
	k := min(int(at), len(x)-1)
	lo, hi := x[k], x[min(k+1, len(x)-1)]
	t := at - float64(k)
	d := float64(hi - lo)
	if t >= 0.5 {
		return float64(float32(float64(hi) - d*(1-t)))
	}
	return float64(float32(float64(lo) + d*t))
}
