package tools

import (
	"math"
	"regexp"
	"slices"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// Statistics and maps of images as the public kit computes them.

// publicCompare counts the samples that pass a comparison, in the precision of
// the file. Infinities are samples like others.
func publicCompare(x publicPixels, op pixel.Op, t float64) (matching, known int) {
	for _, v := range x.single {
		matching += boolInt(op.Test(v, float32(t)))
		known += boolInt(v == v)
	}
	for _, v := range x.double {
		matching += boolInt(test64(op, v, t))
		known += boolInt(v == v)
	}
	return matching, known
}

func test64(op pixel.Op, v, t float64) bool {
	switch op {
	case pixel.Above:
		return v > t
	case pixel.Below:
		return v < t
	case pixel.Equal:
		return v == t
	case pixel.AtLeast:
		return v >= t
	}
	return v <= t
}

// publicSamplesOf reads one band, or with band 0 all, infinities kept.
func publicSamplesOf(c *Call, r *workspace.Raster, band int) (publicPixels, func(), error) {
	bands := []int{band}
	if band == 0 {
		bands = bands[:0]
		for b := range r.Info.Bands {
			bands = append(bands, b+1)
		}
	}
	release, err := c.env.workspace.Reserve(c.Context, int64(r.Info.Width)*int64(r.Info.Height)*int64(len(bands))*16)
	if err != nil {
		return publicPixels{}, nil, err
	}
	var x publicPixels
	for _, b := range bands {
		s, err := publicSamples(r, b)
		if err != nil {
			release()
			return publicPixels{}, nil, err
		}
		if r.Info.Type != raster.Float32 {
			x.double = append(x.double, s...)
			continue
		}
		for _, v := range s {
			x.single = append(x.single, float32(v))
		}
	}
	return x, release, nil
}

// publicShare is 0 where nothing is valid.
func publicShare(c *Call, r *workspace.Raster, band int, op pixel.Op, t float64) (reading, error) {
	x, release, err := publicSamplesOf(c, r, band)
	if err != nil {
		return reading{}, err
	}
	defer release()
	m, n := publicCompare(x, op, t)
	return publicZero(share(100, m, n, x.len())), nil
}

func publicZero(r reading) reading {
	if r.why != "" {
		r.value, r.why = 0, ""
	}
	return r
}

func publicHotspotShare(c *Call, r *workspace.Raster, t float64, stretch bool) (reading, error) {
	x, release, err := publicImage(c, r, stretch)
	if err != nil {
		return reading{}, err
	}
	defer release()
	m, n := publicCompare(x, pixel.Above, t)
	return publicZero(share(1, m, n, x.len())), nil
}

func publicCount(c *Call, r *workspace.Raster, band int, t float64) (reading, error) {
	x, release, err := publicSamplesOf(c, r, band)
	if err != nil {
		return reading{}, err
	}
	defer release()
	m, n := publicCompare(x, pixel.Above, t)
	return publicZero(counted(m, max(n, 1), x.len())), nil
}

// publicSnowLoss looks for 1 only, so a map of 0 and 255 has no loss.
func publicSnowLoss(c *Call, r *workspace.Raster) (reading, error) {
	x, release, err := publicImage(c, r, false)
	if err != nil {
		return reading{}, err
	}
	defer release()
	m, n := publicCompare(x, pixel.Equal, 1)
	return publicZero(share(1, m, n, x.len())), nil
}

// publicArea counts samples, not pixels, and NaN among them.
func publicArea(c *Call, r *workspace.Raster, gsd float64) (reading, error) {
	x, release, err := publicSamplesOf(c, r, 0)
	if err != nil {
		return reading{}, err
	}
	defer release()
	zero, _ := publicCompare(x, pixel.Equal, 0)
	out := counted(x.len()-zero, x.len(), x.len())
	if gsd > 0 {
		out.value = out.value * gsd * gsd
	}
	return out, nil
}

// publicBandMean is the mean in single precision of the pixels that are not NaN,
// after a stretch of their range to 0 … 255 if asked for, without cutting off fractions.
func publicBandMean(x []float32, stretch bool) float64 {
	if stretch {
		lo := nanFold(x, func(old, new float32) bool { return new < old })
		hi := nanFold(x, func(old, new float32) bool { return new > old })
		for i, v := range x {
			if x[i] = 0; hi > lo {
				x[i] = (v - lo) / (hi - lo) * 255
			}
		}
	}
	return float64(nanMean(x))
}

// publicMean32 is the mean, in single precision, of single-precision means.
func publicMean32(means []float64) float64 {
	x := make([]float32, len(means))
	for i, m := range means {
		x[i] = float32(m)
	}
	return float64(nanMean(x))
}

// publicMeanMaxMin takes only finite pixels and the extremes of all images.
func publicMeanMaxMin(c *Call) (Result, error) {
	means := make([]float32, c.Args.Get("file_list").Len())
	highs, lows := slices.Clone(means), slices.Clone(means)
	readings, err := c.survey("file_list", func(i int, r *workspace.Raster) (reading, error) {
		g, release, err := c.grid(r, 1)
		if err != nil {
			return reading{}, err
		}
		defer release()
		x := slices.DeleteFunc(g.Data, func(v float32) bool { return !raster.Finite(v) })
		if len(x) == 0 {
			return reading{}, badArgument("file_list", "%s has no finite pixels", r.Name)
		}
		for k, v := range x {
			if c.bool("uint8") {
				x[k] = clip32(v, 0, 1) * 255
			}
		}
		means[i] = publicSum(x) / float32(len(x))
		highs[i], lows[i] = slices.Max(x), slices.Min(x)
		return reading{value: float64(means[i]), used: len(x), total: len(x)}, nil
	})
	if err != nil {
		return Result{}, err
	}
	mean := publicSum(means) / float32(len(means))
	return Result{Value: floats([]float64{float64(mean), float64(slices.Max(highs)), float64(slices.Min(lows))}),
		Evidence: gather(readings, "[mean over the images of Σx/n, max x, min x] of the first band")}, nil
}

// publicDivisionMean leaves out NaN and the denominator 0.
func publicDivisionMean(a, b []float32) (Result, error) {
	for i := range a {
		if b[i] == 0 {
			a[i] = raster.NaN()
			continue
		}
		a[i] /= b[i]
	}
	return Result{Value: publicNumber(float64(nanMean(a)), strictjson.Float), Evidence: Evidence{Formula: "mean of a/b where b ≠ 0", Used: len(a)}}, nil
}

var publicStamp = regexp.MustCompile(`\d{4}_\d{2}_\d{2}_\d{4}`)

// publicThresholdValueMean pairs files only by a stamp YYYY_MM_DD_HHMM and keeps
// only values of 0 … 1 of the second.
func publicThresholdValueMean(c *Call, first, second []string) (Result, error) {
	at := map[string]string{}
	for _, p := range second {
		if k := publicStamp.FindString(p); k != "" {
			at[k] = p
		}
	}
	pairs := map[string]string{}
	for _, p := range first {
		if k := publicStamp.FindString(p); at[k] != "" {
			pairs[k] = p
		}
	}
	keys := make([]string, 0, len(pairs))
	for k := range pairs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	t := float32(c.float("threshold"))
	var all []float32
	for _, k := range keys {
		refs := []ref{{"path1", pairs[k], 1}, {"path2", at[k], 1}}
		l, err := c.layers(1, refs...)
		if err != nil {
			return Result{}, err
		}
		if err := c.match(l, refs); err != nil {
			l.close()
			return Result{}, err
		}
		for i, v := range l.grids[0].Data {
			if w := l.grids[1].Data[i]; v > t && v > 0 && w >= 0 && w <= 1 {
				all = append(all, w)
			}
		}
		l.close()
	}
	if len(all) == 0 {
		return publicText("NaN", 0)
	}
	return Result{Value: strictjson.Float(float64(publicSum(all) / float32(len(all)))), Evidence: Evidence{Used: len(all)}}, nil
}

// publicSegmentation keeps the nodata tag of the input, which a byte often cannot hold.
func publicSegmentation(c *Call, in []*raster.Grid) (*frame, error) {
	t := float32(c.float("threshold"))
	for i, v := range in[0].Data {
		in[0].Data[i] = float32(255 * boolInt(v > t))
	}
	return &frame{grids: in[:1], kind: raster.Uint8}, nil
}

func publicHotspotMap(c *Call, in []*raster.Grid) (*frame, error) {
	t := float32(c.float("threshold"))
	if c.bool("uint8") {
		publicStretch(in[0].Data)
	}
	for i, v := range in[0].Data {
		if in[0].Data[i] = float32(boolInt(v < t)); v != v || math.IsInf(float64(v), 0) {
			in[0].Data[i] = raster.NaN()
		}
	}
	return &frame{grids: in[:1], nodata: new(math.NaN())}, nil
}

func publicIncreaseMap(c *Call, in []*raster.Grid) (*frame, error) {
	t := float32(c.float("threshold"))
	for i, v := range in[0].Data {
		in[0].Data[i] = float32(boolInt(v >= t))
	}
	return &frame{grids: in[:1], kind: raster.Uint8, nodata: new(255.0)}, nil
}

// publicFireProne marks nothing where no pixel is positive, with the threshold 0.
func publicFireProne(g *raster.Grid, q float64) (float64, *frame) {
	positive := slices.DeleteFunc(slices.Clone(g.Data), func(v float32) bool { return !(v > 0) })
	n := len(positive)
	limit := math.Inf(1)
	if n > 0 {
		limit = publicPercentile(positive, q)
	}
	for i, v := range g.Data {
		g.Data[i] = float32(boolInt(v >= float32(limit)))
	}
	if n == 0 {
		limit = 0
	}
	return limit, &frame{grids: []*raster.Grid{g}, kind: raster.Uint8, nodata: new(255.0)}
}

// publicReflectance gives fill the value -0.2.
func publicReflectance(_ *Call, in []*raster.Grid) (*frame, error) {
	for i, v := range in[0].Data {
		in[0].Data[i] = float32(v*float32(landsatScale)) + float32(landsatOffset)
	}
	return &frame{grids: in[:1], nodata: new(math.NaN())}, nil
}

func publicCloudMask(_ *Call, in []*raster.Grid) (*frame, error) {
	for i, q := range in[1].Data {
		if int64(q)&qaReject != 0 {
			in[0].Data[i] = raster.NaN()
		}
	}
	return &frame{grids: in[:1], nodata: new(math.NaN())}, nil
}

// publicAverage lets one NaN or fill value spoil a place.
func publicAverage(stack []*raster.Grid) *raster.Grid {
	out := stack[0].Like()
	for i := range out.Data {
		sum := 0.0
		for _, g := range stack {
			sum += float64(g.Data[i])
		}
		out.Data[i] = float32(sum / float64(len(stack)))
	}
	return out
}

// publicGiStar takes missing data for 0, turns the weights round, and takes what
// lies outside the image for 0 too.
func publicGiStar(c *Call, in []*raster.Grid) (*frame, error) {
	w, cols, rows, err := c.weights("weight_matrix")
	if err != nil {
		return nil, err
	}
	if len(w)*len(in[0].Data) > maxWeighings {
		return nil, badArgument("weight_matrix", "%d weights on %d pixels are too many", len(w), len(in[0].Data))
	}
	g := in[0]
	x := make([]float64, len(g.Data))
	for i, v := range g.Data {
		if v == v {
			x[i] = float64(v)
		}
	}
	n := float64(len(x))
	mean := publicSum(x) / n
	squares := make([]float64, len(x))
	for i, v := range x {
		squares[i] = (v - mean) * (v - mean)
	}
	sd := math.Sqrt(publicSum(squares) / n)
	w1, w2 := 0.0, 0.0
	for _, v := range w {
		w1 += v
		w2 += v * v
	}
	scale := sd * math.Sqrt((n*w2-w1*w1)/(n-1))
	out := g.Like()
	for y := range g.Height {
		for px := range g.Width {
			sum := 0.0
			for j := range rows {
				for i := range cols {
					// A convolution: weight (i, j) meets the pixel on the other side of the middle.
					yy, xx := y-(j-rows/2), px-(i-cols/2)
					if yy >= 0 && yy < g.Height && xx >= 0 && xx < g.Width {
						sum += w[j*cols+i] * x[yy*g.Width+xx]
					}
				}
			}
			out.Data[y*g.Width+px] = float32((sum - mean*w1) / scale)
		}
	}
	return &frame{grids: []*raster.Grid{out}}, nil
}

// publicDirection votes about pixel (w/2, h/2), counts it and diagonals to the
// sides as west or east, and breaks ties by the order north, south, east, west.
func publicDirection(g *raster.Grid) Result {
	var votes [4]int
	pixels := 0
	for y := range g.Height {
		for x, v := range g.Row(y) {
			if v != 1 {
				continue
			}
			pixels++
			dy, dx := g.Height/2-y, x-g.Width/2
			switch vertical := math.Abs(float64(dy)) > math.Abs(float64(dx)); {
			case vertical && dy > 0:
				votes[0]++
			case vertical:
				votes[1]++
			case dx > 0:
				votes[2]++
			default:
				votes[3]++
			}
		}
	}
	e := Evidence{Used: pixels}
	if pixels == 0 {
		return Result{Value: strictjson.Text("no hotspots found"), Evidence: e}
	}
	best := 0
	for i, n := range votes {
		if n > votes[best] {
			best = i
		}
	}
	return Result{Value: strictjson.Text([]string{"north", "south", "east", "west"}[best]), Evidence: e}
}
