package tools

import (
	"math"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
)

// The indices of the public kit: single precision, 1e-6 in the denominator, no
// regard to nodata, the tag -9999 on the result.

const publicEpsilon = float32(1e-6)

// publicFill is the nodata tag of the indices.
func publicFill(g *raster.Grid) *frame {
	return &frame{grids: []*raster.Grid{g}, nodata: new(-9999.0)}
}

func publicPair(_ *Call, in []*raster.Grid) (*frame, error) {
	a, b := in[0].Data, in[1].Data
	for i := range a {
		a[i] = (a[i] - b[i]) / (a[i] + b[i] + publicEpsilon)
	}
	return publicFill(in[0]), nil
}

func publicEVI(c *Call, in []*raster.Grid) (*frame, error) {
	k := eviCoefficients(c)
	g, c1, c2, l := float32(k.G), float32(k.C1), float32(k.C2), float32(k.L)
	n, r, b := in[0].Data, in[1].Data, in[2].Data
	for i := range n {
		d := n[i] + float32(c1*r[i]) - float32(c2*b[i]) + l + publicEpsilon
		n[i] = float32(g*(n[i]-r[i])) / d
	}
	return publicFill(in[0]), nil
}

func publicCover(c *Call, in []*raster.Grid) (*frame, error) {
	lo, hi := c.float("ndvi_min"), c.float("ndvi_max")
	span := float32(hi - lo)
	n, r := in[0].Data, in[1].Data
	for i := range n {
		ndvi := (n[i] - r[i]) / (n[i] + r[i] + publicEpsilon)
		n[i] = clip32((ndvi-float32(lo))/span*100, 0, 100)
	}
	return publicFill(in[0]), nil
}

// clip32 leaves NaN.
func clip32(v, lo, hi float32) float32 {
	switch {
	case v < lo:
		return lo
	case v > hi:
		return hi
	}
	return v
}

func publicWaterRatio(_ *Call, in []*raster.Grid) (*frame, error) {
	g, r, n, s := in[0].Data, in[1].Data, in[2].Data, in[3].Data
	for i := range g {
		g[i] = (g[i] + r[i]) / (n[i] + s[i] + publicEpsilon)
	}
	return publicFill(in[0]), nil
}

// publicFireMask tags 0 as nodata, which hides every pixel without fire.
func publicFireMask(c *Call, in []*raster.Grid) (*frame, error) {
	t := float32(c.float("fire_threshold"))
	for i, v := range in[0].Data {
		in[0].Data[i] = float32(255 * boolInt(v > t))
	}
	return &frame{grids: in[:1], kind: raster.Uint8, nodata: new(0.0)}, nil
}

// publicNDSI always multiplies by 1e-4, whatever the bands hold, and brings bands
// of other sizes to the smaller one without moving their georeference.
func publicNDSI(_ *Call, in []*raster.Grid) (*frame, error) {
	const scale = float32(1e-4)
	for _, g := range in {
		for i := range g.Data {
			g.Data[i] *= scale
		}
	}
	w, h := min(in[0].Width, in[1].Width), min(in[0].Height, in[1].Height)
	like := in[1]
	a, b := publicZoom(in[0], w, h), publicZoom(in[1], w, h)
	if b.Height > a.Height {
		like = in[0]
	}
	out := &raster.Grid{Width: w, Height: h, Data: a.Data, CRS: like.CRS, Transform: like.Transform}
	for i := range out.Data {
		g, s := outOfUnit(a.Data[i]), outOfUnit(b.Data[i])
		out.Data[i] = clip32((g-s)/(g+s+publicEpsilon), -1, 1)
	}
	return publicFill(out), nil
}

func outOfUnit(v float32) float32 {
	if v < 0 || v > 1 {
		return raster.NaN()
	}
	return v
}

// publicZoom samples a grid bilinearly so that the middles of the corner pixels
// stay where they are, as SciPy's zoom does.
func publicZoom(g *raster.Grid, w, h int) *raster.Grid {
	if g.Width == w && g.Height == h {
		return g
	}
	out := &raster.Grid{Width: w, Height: h, Data: make([]float32, w*h)}
	step := func(from, to int) float64 {
		if to == 1 {
			return 0
		}
		return float64(from-1) / float64(to-1)
	}
	sx, sy := step(g.Width, w), step(g.Height, h)
	for y := range h {
		fy := float64(y) * sy
		y0 := min(int(fy), g.Height-1)
		y1 := min(y0+1, g.Height-1)
		ty := fy - float64(y0)
		for x := range w {
			fx := float64(x) * sx
			x0 := min(int(fx), g.Width-1)
			x1 := min(x0+1, g.Width-1)
			tx := fx - float64(x0)
			top := float64(g.At(x0, y0))*(1-tx) + float64(g.At(x1, y0))*tx
			bottom := float64(g.At(x0, y1))*(1-tx) + float64(g.At(x1, y1))*tx
			out.Data[y*w+x] = float32(top*(1-ty) + bottom*ty)
		}
	}
	return out
}

// publicTVDI has MODIS's scale factors wired in, leaves the pixels of the highest
// NDVI out of the edges, and reports a raster of NaN as a success where data are
// too few.
func publicTVDI(_ *Call, in []*raster.Grid) (*frame, error) {
	ndvi, lst := in[0], in[1]
	out := ndvi.Like()
	var x, y []float32
	for i := range ndvi.Data {
		ndvi.Data[i] *= float32(0.0001)
		lst.Data[i] *= float32(0.02)
		out.Data[i] = raster.NaN()
		if publicVegetated(ndvi.Data[i], lst.Data[i]) {
			x, y = append(x, ndvi.Data[i]), append(y, lst.Data[i])
		}
	}
	f := &frame{grids: []*raster.Grid{out}}
	if len(x) < 100 {
		return f, nil
	}
	middle, low, high := publicBins(x, y)
	if len(middle) < 2 {
		return f, nil
	}
	dry, wet := publicEdge(middle, high), publicEdge(middle, low)
	for i, n := range ndvi.Data {
		if !publicVegetated(n, lst.Data[i]) {
			continue
		}
		top, bottom := float64(float64(n)*dry.Slope)+dry.Intercept, float64(float64(n)*wet.Slope)+wet.Intercept
		span := top - bottom
		if span == 0 {
			span = 1e-6
		}
		out.Data[i] = float32(min(max((float64(lst.Data[i])-bottom)/span, 0), 1))
	}
	return f, nil
}

func publicVegetated(n, t float32) bool { return n >= 0 && n <= 1 && t > 0 }

// publicBins gives the middle and the extremes of each of 100 half-open intervals
// that holds a pixel.
func publicBins(ndvi, lst []float32) (middle, low, high []float32) {
	lo, hi := ndvi[0], ndvi[0]
	for _, v := range ndvi {
		lo, hi = min(lo, v), max(hi, v)
	}
	const n = 100
	var edge [n + 1]float32
	step := (hi - lo) / n
	for i := range edge {
		edge[i] = float32(float32(i)*step) + lo
	}
	edge[n] = hi
	var least, most [n]float32
	var some [n]bool
	for i, v := range ndvi {
		if !(v < hi) {
			continue
		}
		b := min(int((v-lo)/step), n-1)
		for b > 0 && v < edge[b] {
			b--
		}
		for b < n-1 && v >= edge[b+1] {
			b++
		}
		if t := lst[i]; !some[b] {
			least[b], most[b], some[b] = t, t, true
		} else {
			least[b], most[b] = min(least[b], t), max(most[b], t)
		}
	}
	for b := range n {
		if some[b] {
			middle = append(middle, (edge[b]+edge[b+1])/2)
			low, high = append(low, least[b]), append(high, most[b])
		}
	}
	return middle, low, high
}

// publicEdge fits a line in double precision through means in single precision.
func publicEdge(x, y []float32) pixel.Edge {
	mean := func(v []float32) float64 { return float64(publicSum(v) / float32(len(v))) }
	double := func(v []float32) ([]float64, float64) {
		out := make([]float64, len(v))
		for i, f := range v {
			out[i] = float64(f)
		}
		return out, publicSum(out) / float64(len(out))
	}
	dx, mx := double(x)
	dy, my := double(y)
	sxx, sxy := 0.0, 0.0
	for i := range dx {
		sxx += (dx[i] - mx) * (dx[i] - mx)
		sxy += (dx[i] - mx) * (dy[i] - my)
	}
	slope := sxy / sxx
	if math.IsNaN(slope) {
		slope = 0
	}
	return pixel.Edge{Slope: slope, Intercept: mean(y) - slope*mean(x)}
}
