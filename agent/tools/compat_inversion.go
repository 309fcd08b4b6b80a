package tools

import (
	"math"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/data/strictjson"
)

// The retrievals of the public kit, in single precision; most take fill values
// for measurements.

func log32(v float32) float32 { return float32(math.Log(float64(v))) }

// publicEmission is pixel.Emission in single precision.
func publicEmission(t, wavelength, e float32) float32 {
	return t / (1 + float32(wavelength*t/float32(pixel.C2)*log32(e)))
}

// publicVapour sets 0 where the transmittance is not a positive number and
// infinity where it is 0.
func publicVapour(_ *Call, in []*raster.Grid) (*frame, error) {
	b := pixelsOf(in)
	for i := range b[0] {
		slope := (b[1][i] - b[0][i]) / float32(1.24-0.865)
		base := b[0][i] - float32(slope*0.865)
		ratio := func(v, w float32) float32 {
			if rho := float32(slope*w) + base; rho != 0 {
				return v / rho
			}
			return 0
		}
		t17, t18, t19 := ratio(b[2][i], 0.905), ratio(b[3][i], 0.936), ratio(b[4][i], 0.94)
		pwv := -log32(t18) / 0.03
		if pwv != pwv || pwv < 0 {
			pwv = 0
		}
		b[0][i], b[1][i], b[2][i], b[3][i] = pwv, t17, t18, t19
	}
	return &frame{grids: in[:4]}, nil
}

func publicSingleChannel(_ *Call, in []*raster.Grid) (*frame, error) {
	t, r, n := in[0].Data, in[1].Data, in[2].Data
	for i := range t {
		if t[i] < 0 || r[i] < 0 || n[i] < 0 {
			t[i] = raster.NaN()
			continue
		}
		ndvi := (n[i] - r[i]) / (n[i] + r[i] + publicEpsilon)
		e := float32(0.97) + float32(0.003*ndvi)
		if ndvi > 0.7 {
			e = 0.99
		} else if ndvi < 0.2 {
			e = 0.96
		}
		t[i] = publicEmission(t[i], 10.9, e)
	}
	return &frame{grids: in[:1]}, nil
}

func publicMultiChannel(_ *Call, in []*raster.Grid) (*frame, error) {
	a, b := in[0].Data, in[1].Data
	for i := range a {
		a[i] = float32(1.022*a[i]) + float32(0.47*(a[i]-b[i])) + 0.43
	}
	return &frame{grids: in[:1]}, nil
}

// publicSplitWindow always unpacks the emissivities and multiplies the temperature
// itself, in degrees Celsius, by coefficients that belong to the difference of the bands.
func publicSplitWindow(c *Call, in []*raster.Grid) (*frame, error) {
	a, b, e31, e32 := in[0].Data, in[1].Data, in[2].Data, in[3].Data
	for i := range a {
		p, q := float32(e31[i]*0.002)+0.49, float32(e32[i]*0.002)+0.49
		mean, d := clip32((p+q)/2, 0.8, 1), a[i]-b[i]
		if c.text("parameter") == "PWV" {
			a[i] = d / float32(a[i]*mean) * 100
			continue
		}
		t := a[i] - 273.15
		k := float32(54.3) + float32(-2.238*d)
		v := 0.268 + float32(1.378*t) + float32(0.183*float32(t*t))/1000 + float32(k*(1-mean)) + float32(k*(p-q)) + 273.15
		if v < 200 || v > 350 {
			v = raster.NaN()
		}
		a[i] = v
	}
	return &frame{grids: in[:1]}, nil
}

// publicSeparate takes the range of the brightness temperatures for that of the
// emissivities.
func publicSeparate(c *Call, in []*raster.Grid) (*frame, error) {
	keep, err := c.int("representative_band_index")
	if err != nil {
		return nil, err
	}
	if keep >= len(in) {
		return nil, badArgument("representative_band_index", "%d bands have the indexes 0 to %d, got %d", len(in), len(in)-1, keep)
	}
	lst, emissivity, spread := in[0].Like(), in[0].Like(), in[0].Like()
	for i, t := range in[keep].Data {
		lst.Data[i], emissivity.Data[i], spread.Data[i] = raster.NaN(), raster.NaN(), raster.NaN()
		if !(t > 0 && t < 1000) {
			continue
		}
		lo, hi := raster.NaN(), raster.NaN()
		for _, g := range in {
			if v := g.Data[i]; raster.Finite(v) {
				if !(lo <= v) {
					lo = v
				}
				if !(hi >= v) {
					hi = v
				}
			}
		}
		d := hi - lo
		e := clip32(float32(0.982)-float32(0.072*d), 0.85, 0.999)
		lst.Data[i], emissivity.Data[i], spread.Data[i] = publicEmission(t, 10.6, e), e, d
	}
	return &frame{grids: []*raster.Grid{lst, emissivity, spread}, nodata: new(math.NaN())}, nil
}

// publicDayNight drops brightness temperatures outside 270 … 325 K, cold winters
// with them.
func publicDayNight(_ *Call, in []*raster.Grid) (*frame, error) {
	const lo, hi = 270, 325
	within := func(v float32) float32 {
		if v > hi || v < lo {
			return raster.NaN()
		}
		return v
	}
	out := make([]*raster.Grid, 6)
	for k := range out {
		out[k] = in[0].Like()
	}
	for y := range in[0].Height {
		for x := range in[0].Width {
			i := y*in[0].Width + x
			var v [4]float32
			for k, g := range in {
				v[k] = publicNearest(g, x, y, in[0].Width, in[0].Height)
			}
			for k := range 2 {
				t, e := within(v[k]), float32(v[2+k]*0.002)+0.49
				out[k].Data[i] = within(publicEmission(t, 11, clip32(e, 0.5, 1)))
				out[2+k].Data[i], out[4+k].Data[i] = t, e
			}
		}
	}
	return &frame{grids: out}, nil
}

// publicNearest is the value of g where pixel (x, y) of a w × h grid begins.
func publicNearest(g *raster.Grid, x, y, w, h int) float32 {
	sx, sy := float64(w)/float64(g.Width), float64(h)/float64(g.Height)
	return g.At(min(int(float64(x)/sx), g.Width-1), min(int(float64(y)/sy), g.Height-1))
}

// publicGreyBody ignores the wavelengths.
func publicGreyBody(_ *Call, in []*raster.Grid) (*frame, error) {
	if len(in) != 3 {
		return nil, badArgument("tir_band_paths", "the method needs 3 bands, got %d", len(in))
	}
	lst, e := in[0].Like(), in[0].Like()
	some := false
	for i := range lst.Data {
		lst.Data[i], e.Data[i] = raster.NaN(), raster.NaN()
		a, b, d := in[0].Data[i], in[1].Data[i], in[2].Data[i]
		if a > 240 && a < 340 && b > 240 && b < 340 && d > 240 && d < 340 {
			v := float64(a)*0.3 + float64(b)*0.3 + float64(d)*0.4 // the weights are double
			lst.Data[i], e.Data[i], some = float32(v+2), 0.95, true
		}
	}
	if !some {
		return nil, undefined("no pixel lies between 240 and 340 K in all bands")
	}
	return &frame{grids: []*raster.Grid{lst, e, e}, nodata: new(math.NaN())}, nil
}

// publicInertia brings night and albedo to the size of the day by the pixels
// alone and takes any number for an albedo.
func publicInertia(_ *Call, in []*raster.Grid) (*frame, error) {
	night, albedo := publicWarp(in[1], in[0].Width, in[0].Height), publicWarp(in[2], in[0].Width, in[0].Height)
	for i, d := range in[0].Data {
		delta := d - night.Data[i]
		if delta == 0 {
			delta = raster.NaN()
		}
		in[0].Data[i] = clip32((1-albedo.Data[i])/delta, 0, 10)
	}
	return &frame{grids: in[:1]}, nil
}

// publicWarp resamples a grid to another number of pixels by bilinear weights,
// which a reduction spreads over the pixels that it joins.
func publicWarp(g *raster.Grid, w, h int) *raster.Grid {
	if g.Width == w && g.Height == h {
		return g
	}
	out := &raster.Grid{Width: w, Height: h, Data: make([]float32, w*h)}
	taps := func(to, from int) [][]tap {
		all := make([][]tap, to)
		ratio := float64(from) / float64(to)
		reach := max(ratio, 1)
		for i := range all {
			middle := (float64(i)+0.5)*ratio - 0.5
			total := 0.0
			for k := int(math.Ceil(middle - reach)); float64(k) < middle+reach; k++ {
				weight := 1 - math.Abs(float64(k)-middle)/reach
				if k >= 0 && k < from && weight > 0 {
					all[i] = append(all[i], tap{k, weight})
					total += weight
				}
			}
			for k := range all[i] {
				all[i][k].weight /= total
			}
		}
		return all
	}
	tx, ty := taps(w, g.Width), taps(h, g.Height)
	for y := range h {
		for x := range w {
			sum := 0.0
			for _, b := range ty[y] {
				for _, a := range tx[x] {
					sum += a.weight * b.weight * float64(g.At(a.at, b.at))
				}
			}
			out.Data[y*w+x] = float32(sum)
		}
	}
	return out
}

type tap struct {
	at     int
	weight float64
}

func publicTurbidity(c *Call, in []*raster.Grid) (*frame, error) {
	a, b, n := float32(c.float("a")), float32(c.float("b")), float32(c.float("n"))
	for i, r := range in[0].Data {
		positive := max(r, publicEpsilon)
		v := float32(a*r) + b
		switch c.text("method") {
		case "power":
			v = float32(a*float32(math.Pow(float64(positive), float64(n)))) + b
		case "log":
			v = float32(a*log32(positive)) + b
		}
		if v < 0 {
			v = 0
		}
		in[0].Data[i] = v
	}
	return publicFill(in[0]), nil
}

func publicPolarDifference(c *Call, in []*raster.Grid) (*frame, error) {
	a, b := float32(c.float("a")), float32(c.float("b"))
	for i, p := range in[0].Data {
		q := in[1].Data[i]
		if c.text("input_unit") == "dB" {
			p, q = float32(math.Pow(10, float64(p/10))), float32(math.Pow(10, float64(q/10)))
		}
		switch {
		case !(p > 0 && q > 0):
			in[0].Data[i] = raster.NaN()
		case c.text("parameter") == "soil_moisture":
			in[0].Data[i] = float32(a*(p-q)) + b
		default:
			in[0].Data[i] = (p - q) / (p + q)
		}
	}
	return &frame{grids: in[:1]}, nil
}

func publicPolarRatio(c *Call, in []*raster.Grid) (*frame, error) {
	ka, kb, err := ratioCoefficients(c)
	if err != nil {
		return nil, err
	}
	a, b := float32(ka), float32(kb)
	value := in[0].Like()
	for i, v := range in[0].Data {
		h := in[1].Data[i]
		sum := v + h
		divisor := sum
		if divisor == 0 {
			divisor = publicEpsilon
		}
		r := clip32((v-h)/divisor, -1, 1)
		in[0].Data[i], value.Data[i] = r, raster.NaN()
		if sum > publicEpsilon {
			value.Data[i] = float32(a*r) + b
		}
	}
	return &frame{grids: []*raster.Grid{value, in[0]}}, nil
}

// publicLSTByNDVI skips scenes that it cannot read.
func publicLSTByNDVI(c *Call, lists [][]string, params [3]string, highest bool) (Result, error) {
	t, below := float32(c.float("ndvi_threshold")), c.text("mode") == "below"
	var chosen []float32
	e := Evidence{Formula: "statistic of T where NDVI = (N-R)/(N+R) is on the given side of the threshold"}
	for i := range lists[0] {
		l, err := c.layers(1, ref{params[0], lists[0][i], 1}, ref{params[1], lists[1][i], 1}, ref{params[2], lists[2][i], 1})
		if err != nil {
			if highest {
				return Result{}, err
			}
			e.warn("%v", err)
			continue
		}
		red, nir, lst := l.grids[0].Data, l.grids[1].Data, l.grids[2].Data
		if len(nir) == len(red) && len(lst) == len(red) {
			for k, v := range lst {
				sum := nir[k] + red[k]
				ndvi := (nir[k] - red[k]) / sum
				if sum != 0 && (below && ndvi < t || !below && ndvi >= t) && (highest || raster.Finite(v)) {
					chosen = append(chosen, v)
				}
			}
		}
		l.close()
	}
	e.Used = len(chosen)
	if highest {
		v := nanFold(chosen, func(old, new float32) bool { return new > old })
		if len(chosen) == 0 {
			return Result{}, badArgument(params[2], "no pixel is on that side of the threshold")
		}
		return Result{Value: publicNumber(float64(v), strictjson.Float), Evidence: e}, nil
	}
	return Result{Value: publicNumber(float64(nanMean(chosen)), strictjson.Float), Evidence: e}, nil
}

func publicWeighted(in, pairs []*raster.Grid, m differenceModel) *frame {
	out := in[0].Like()
	for i := range out.Data {
		v := float32(m.offset)
		for k, w := range m.weights {
			v += float32(float32(w) * (pairs[2*k].Data[i] - pairs[2*k+1].Data[i]))
		}
		out.Data[i] = clip32(v, 0, 1)
	}
	maskAll(out, in)
	return &frame{grids: []*raster.Grid{out}, nodata: new(math.NaN())}
}

func publicFrequencies(c *Call, in []*raster.Grid) (*frame, error) {
	alpha, beta := float32(c.float("alpha")), float32(c.float("beta"))
	value := in[0].Like()
	for i, v := range in[0].Data {
		d := v - in[1].Data[i]
		in[0].Data[i], value.Data[i] = d, clip32(float32(alpha*d)+beta, 0, 1)
	}
	return &frame{grids: []*raster.Grid{in[0], value}}, nil
}

func publicSeaIce(c *Call, in []*raster.Grid) (*frame, error) {
	w19, w37 := float32(c.float("nd_water")), float32(c.float("s1_water"))
	d19, d37 := float32(c.float("nd_ice")-c.float("nd_water")), float32(c.float("s1_ice")-c.float("s1_water"))
	for i := range in[0].Data {
		a, b, e, f := in[0].Data[i], in[1].Data[i], in[2].Data[i], in[3].Data[i]
		in[0].Data[i] = raster.NaN()
		if a > 0 && b > 0 && e > 0 && f > 0 {
			in[0].Data[i] = clip32(((a-b-w19)/d19+(e-f-w37)/d37)/2, 0, 1)
		}
	}
	return &frame{grids: in[:1]}, nil
}
