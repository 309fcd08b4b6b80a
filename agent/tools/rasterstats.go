package tools

import (
	"math"
	"slices"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/agent/tools/series"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// reading is what one image of a list gave.
type reading struct {
	name        string
	value       float64 // NaN where there is none
	used, total int     // pixels
	why         string  // why there is no value
	numerator   float64 // of a measurement
	denominator float64
	note        Evidence
}

// survey reads every image of a list parameter with f, on all cores.
func (c *Call) survey(param string, f func(i int, r *workspace.Raster) (reading, error)) (out []reading, err error) {
	paths, single, err := c.paths(param)
	if err != nil {
		return nil, err
	}
	out = make([]reading, len(paths))
	err = c.each(len(paths), func(i int) error {
		at := pointer(param, i, single)
		r, err := c.open(at, paths[i])
		if err != nil {
			return err
		}
		defer r.Close()
		read, err := f(i, r)
		if err != nil {
			return badInput(at, err)
		}
		read.name = r.Name
		read.note.masks(r)
		out[i] = read
		return nil
	})
	return out, err
}

// poolable are the bands of an image that a statistic over it takes. Pictures
// (several bands of bytes) give all colours. A raster with several bands of another
// type holds different quantities, of which the first is the one it is named after.
func poolable(r *workspace.Raster, e *Evidence) []int {
	if r.Info.Type != raster.Uint8 {
		if n := len(r.Info.Bands); n > 1 {
			name := ""
			if d := r.Info.Bands[0].Description; d != "" {
				name = " (" + d + ")"
			}
			e.warn("%s has %d bands; band 1%s was used", r.Name, n, name)
		}
		e.scaled(r, 1)
		return []int{1}
	}
	var bands []int
	for i, b := range r.Info.Bands {
		if !b.Alpha {
			bands = append(bands, i+1)
		}
	}
	return bands
}

// pooled reads the poolable bands of an image, one after the other.
func (c *Call) pooled(r *workspace.Raster, stretch bool, e *Evidence) (data []float32, release func(), err error) {
	bands := poolable(r, e)
	size := int64(r.Info.Width) * int64(r.Info.Height)
	release, err = c.env.workspace.Reserve(c.Context, 2*4*size*int64(len(bands)))
	if err != nil {
		return nil, nil, err
	}
	for _, b := range bands {
		g, err := r.ReadBand(b)
		if err != nil {
			release()
			return nil, nil, err
		}
		if data == nil {
			data = g.Data
		} else {
			data = append(data, g.Data...)
		}
	}
	if stretch {
		pixel.Stretch(data, data)
	}
	return data, release, nil
}

// stat is a statistic of the valid pixels of an image.
type stat struct {
	formula string
	running func(s raster.Stats) float64 // from one pass in bounded memory; nil if it needs all pixels
	whole   func(data []float32) float64
	needs   string // what makes it undefined
	public  func(x publicPixels) float64
}

var stats = map[string]stat{
	"mean":     {"Σx/n", raster.Stats.Mean, nil, "", publicPixels.mean},
	"std":      {"√(Σ(x-mean)²/(n-1))", func(s raster.Stats) float64 { return s.Std(1) }, nil, "at least 2 valid pixels", publicPixels.std},
	"min":      {"min x", func(s raster.Stats) float64 { return ifAny(s, s.Min) }, nil, "", publicPixels.min},
	"max":      {"max x", func(s raster.Stats) float64 { return ifAny(s, s.Max) }, nil, "", publicPixels.max},
	"sum":      {"Σx", func(s raster.Stats) float64 { return ifAny(s, s.Sum) }, nil, "", publicPixels.sum},
	"median":   {"50th percentile", nil, func(d []float32) float64 { v, _ := pixel.Percentile(d, 50); return v }, "", publicPixels.median},
	"skewness": {"√(n(n-1))/(n-2) · m3/m2^1.5", nil, func(d []float32) float64 { return pixel.CentralMoments(d).Skewness() }, "at least 3 valid pixels that are not all equal", publicPixels.skewness},
	"kurtosis": {"m4/m2²", nil, func(d []float32) float64 { return pixel.CentralMoments(d).Kurtosis() }, "valid pixels that are not all equal", publicPixels.kurtosis},
}

func ifAny(s raster.Stats, v float64) float64 {
	if s.Valid == 0 {
		return math.NaN()
	}
	return v
}

// of computes the statistic of an image.
func (s *stat) of(c *Call, r *workspace.Raster, stretch bool) (reading, error) {
	if c.public() {
		return publicStat(c, s, r, stretch)
	}
	var out reading
	if s.running != nil && !stretch {
		list, err := r.Stats(poolable(r, &out.note)...)
		if err != nil {
			return out, err
		}
		var all raster.Stats
		for _, b := range list {
			all.Merge(b)
		}
		out.value, out.used, out.total = s.running(all), int(all.Valid), int(all.Total)
	} else {
		data, release, err := c.pooled(r, stretch, &out.note)
		if err != nil {
			return out, err
		}
		defer release()
		out.used, out.total = pixel.Valid(data), len(data)
		if s.whole != nil {
			out.value = s.whole(data)
		} else {
			out.value = s.running(raster.Summarize(data))
		}
	}
	if math.IsNaN(out.value) {
		out.why = "it has no valid pixels"
		if out.used > 0 && s.needs != "" {
			out.why = "the statistic needs " + s.needs
		}
	}
	return out, nil
}

// batchStat is a tool that gives a statistic of each image.
func batchStat(name string) Func {
	s := stats[name]
	return func(c *Call) (Result, error) {
		readings, err := c.survey("file_list", func(_ int, r *workspace.Raster) (reading, error) { return s.of(c, r, c.bool("uint8")) })
		if err != nil {
			return Result{}, err
		}
		return listed(c, readings, s.formula, strictjson.Float)
	}
}

// gather makes the evidence of readings.
func gather(readings []reading, formula string) Evidence {
	e := Evidence{Formula: formula, Nodes: make([]Node, len(readings))}
	for i, r := range readings {
		e.Nodes[i] = node(r.name, r.value, r.used, r.total, r.why)
		e.Used, e.Missing = e.Used+r.used, e.Missing+r.total-r.used
		if r.why != "" {
			e.warn("%s: %s", r.name, r.why)
		}
		for _, w := range r.note.Warnings {
			e.warn("%s", w)
		}
		for _, m := range r.note.Masks {
			if len(e.Masks) == 0 || e.Masks[len(e.Masks)-1] != m {
				e.Masks = appendNew(e.Masks, m)
			}
		}
	}
	return e
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}

// node is the evidence of one number; why says why it is not one.
func node(name string, value float64, valid, total int, why string) Node {
	n := Node{Name: name, Output: clean(value), Valid: valid, Total: total, Status: OK}
	if n.Output.Kind() == strictjson.Null {
		n.Status, n.Reason = Insufficient, why
	}
	return n
}

// listed is the list of the values of readings, null where an image has none.
// Where none has, there is no estimate.
func listed(c *Call, readings []reading, formula string, spell func(float64) strictjson.Value) (Result, error) {
	e := gather(readings, formula)
	items := make([]strictjson.Value, len(readings))
	some := false
	for i, r := range readings {
		if c.public() {
			items[i] = publicNumber(r.value, spell)
			continue
		}
		if items[i] = strictjson.NullValue(); r.why == "" {
			items[i], some = spell(r.value), true
		}
	}
	if !some && !c.public() {
		return insufficient(e, "no image has a value; %s: %s", readings[0].name, readings[0].why), nil
	}
	return Result{Value: strictjson.List(items...), Evidence: e}, nil
}

// whole spells a count.
func whole(f float64) strictjson.Value { return strictjson.Int(int(f)) }

// numbered is the result of a computation that gave one finite number.
func numbered(v float64, e Evidence) (Result, error) {
	if !allFinite(v) {
		return Result{}, undefined("the result is beyond 64-bit range")
	}
	return Result{Value: strictjson.Float(v), Evidence: e}, nil
}

// usable are the values of the readings that have one.
func usable(readings []reading) []float64 {
	var out []float64
	for _, r := range readings {
		if r.why == "" {
			out = append(out, r.value)
		}
	}
	return out
}

// meanOfMeans is the mean over the images of their means; meanMax is their largest.
func meanOfMeans(c *Call) (Result, error) {
	return overMeans(c, "mean over the images of Σx/n", average, publicMeanOfMeans)
}

func meanMax(c *Call) (Result, error) {
	return overMeans(c, "largest over the images of Σx/n", func(means []float64) float64 {
		most := means[0]
		for _, m := range means {
			most = max(most, m)
		}
		return most
	}, publicMaxOfMeans)
}

func overMeans(c *Call, formula string, f, public func([]float64) float64) (Result, error) {
	s := stats["mean"]
	readings, err := c.survey("file_list", func(_ int, r *workspace.Raster) (reading, error) { return s.of(c, r, c.bool("uint8")) })
	if err != nil {
		return Result{}, err
	}
	e := gather(readings, formula)
	if c.public() {
		all := make([]float64, len(readings))
		for i, r := range readings {
			all[i] = r.value
		}
		return Result{Value: publicNumber(public(all), strictjson.Float), Evidence: e}, nil
	}
	means := usable(readings)
	if len(means) == 0 {
		return insufficient(e, "no image has valid pixels"), nil
	}
	return numbered(f(means), e)
}

// meanMaxMin is [mean of the means, largest pixel, smallest pixel] of the first
// bands. uint8 cuts the pixels to 0 … 1 and multiplies them by 255.
func meanMaxMin(c *Call) (Result, error) {
	if c.public() {
		return publicMeanMaxMin(c)
	}
	all := make([]raster.Stats, c.Args.Get("file_list").Len())
	readings, err := c.survey("file_list", func(i int, r *workspace.Raster) (reading, error) {
		var out reading
		s, err := firstBand(c, r, c.bool("uint8"))
		if err != nil {
			return out, err
		}
		out.note.scaled(r, 1)
		all[i] = s
		out.value, out.used, out.total = s.Mean(), int(s.Valid), int(s.Total)
		if s.Valid == 0 {
			out.why = "it has no valid pixels"
		}
		return out, nil
	})
	if err != nil {
		return Result{}, err
	}
	e := gather(readings, "[mean over the images of Σx/n, max x, min x] of the first band")
	means := usable(readings)
	if len(means) == 0 {
		return insufficient(e, "no image has valid pixels"), nil
	}
	var pool raster.Stats
	for _, s := range all {
		pool.Merge(s)
	}
	return Result{Value: floats([]float64{average(means), pool.Max, pool.Min}), Evidence: e}, nil
}

// firstBand summarises band 1, cut to 0 … 1 and times 255 if asked for.
func firstBand(c *Call, r *workspace.Raster, bytes bool) (raster.Stats, error) {
	if !bytes {
		s, err := r.Stats(1)
		if err != nil {
			return raster.Stats{}, err
		}
		return s[0], nil
	}
	release, err := c.env.workspace.Reserve(c.Context, 4*int64(r.Info.Width)*int64(r.Info.Height))
	if err != nil {
		return raster.Stats{}, err
	}
	defer release()
	g, err := r.ReadBand(1)
	if err != nil {
		return raster.Stats{}, err
	}
	pixel.Map(g.Data, g.Data, func(v float64) float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return math.NaN()
		}
		return min(max(v, 0), 1) * 255
	})
	return raster.Summarize(g.Data), nil
}

// percentileValue is a percentile of the valid pixels of an image, or of several
// images together. Of integer rasters it is rounded to an integer, half to even.
func percentileValue(c *Call) (Result, error) {
	paths, single, err := c.paths("image_path")
	if err != nil {
		return Result{}, err
	}
	refs := make([]ref, len(paths))
	for i, p := range paths {
		refs[i] = ref{pointer("image_path", i, single), p, 1}
	}
	l, err := c.layers(len(refs), refs...)
	if err != nil {
		return Result{}, err
	}
	defer l.close()
	e := Evidence{Formula: "linear interpolation between order statistics of the first band"}
	data := l.grids[0].Data
	integer := true
	for i, g := range l.grids {
		if i > 0 {
			data = append(data, g.Data...)
		}
		f := l.files[i]
		e.masks(f)
		e.scaled(f, 1)
		integer = integer && !f.Info.Type.Float()
		e.Nodes = append(e.Nodes, Node{Name: f.Name, Output: strictjson.NullValue(), Valid: pixel.Valid(g.Data), Total: len(g.Data), Status: OK})
	}
	v, n := pixel.Percentile(data, c.float("percentile"))
	e.Used, e.Missing = n, len(data)-n
	if c.public() {
		if n == 0 {
			return Result{}, badArgument("image_path", "no valid pixel values")
		}
		v = publicPercentile(slices.DeleteFunc(data, func(v float32) bool { return !raster.Finite(v) }), c.float("percentile"))
	}
	if n == 0 {
		return insufficient(e, "no pixel is valid"), nil
	}
	for i := range e.Nodes {
		e.Nodes[i].Output = strictjson.Int(e.Nodes[i].Valid)
	}
	if integer {
		return Result{Value: whole(math.RoundToEven(v)), Evidence: e}, nil
	}
	return numbered(v, e)
}

// divisionMean is the mean of the quotients of two bands.
func divisionMean(c *Call) (Result, error) {
	band1, err := c.int("band1")
	if err != nil {
		return Result{}, err
	}
	band2, err := c.int("band2")
	if err != nil {
		return Result{}, err
	}
	refs := []ref{{"image_path1", c.text("image_path1"), band1}, {"image_path1", c.text("image_path1"), band2}}
	if c.Args.Get("image_path2").Kind() == strictjson.String {
		refs[1].param, refs[1].path = "image_path2", c.text("image_path2")
		f, err := c.open("image_path2", refs[1].path)
		if err != nil {
			return Result{}, err
		}
		f.Close()
		if len(f.Info.Bands) == 1 { // the default of band2 is meant for one image
			refs[1].band = 1
		}
		if c.public() {
			refs[0].band, refs[1].band = 1, 1
		}
	}
	l, err := c.layers(1, refs...)
	if err != nil {
		return Result{}, err
	}
	defer l.close()
	if err := c.match(l, refs); err != nil {
		return Result{}, err
	}
	a, b := l.grids[0].Data, l.grids[1].Data
	if c.public() {
		return publicDivisionMean(a, b)
	}
	e := Evidence{Formula: "mean of a/b where b ≠ 0"}
	for i, f := range l.files {
		e.Bands = append(e.Bands, BandUse{[]string{"a", "b"}[i], f.Name, refs[i].band})
		e.masks(f)
		e.scaled(f, refs[i].band)
	}
	pixel.Map2(a, a, b, func(x, y float64) float64 { return x / y }) // x/0 is not finite, so not valid
	mean, n := raster.Mean(a)
	e.Used, e.Missing = n, len(a)-n
	if n == 0 {
		return insufficient(e, "no pixel is valid in both bands with a denominator other than 0"), nil
	}
	return numbered(mean, e)
}

var rasterStatTools = map[string]Func{
	"calc_batch_image_mean":           batchStat("mean"),
	"calc_batch_image_std":            batchStat("std"),
	"calc_batch_image_median":         batchStat("median"),
	"calc_batch_image_min":            batchStat("min"),
	"calc_batch_image_max":            batchStat("max"),
	"calc_batch_image_sum":            batchStat("sum"),
	"calc_batch_image_skewness":       batchStat("skewness"),
	"calc_batch_image_kurtosis":       batchStat("kurtosis"),
	"calc_batch_image_mean_mean":      meanOfMeans,
	"calc_batch_image_mean_max":       meanMax,
	"calc_batch_image_mean_max_min":   meanMaxMin,
	"get_percentile_value_from_image": percentileValue,
	"image_division_mean":             divisionMean,
	"calculate_mean_lst_by_ndvi":      meanLSTByNDVI,
	"calculate_max_lst_by_ndvi":       maxLSTByNDVI,
}

// average is the mean of numbers, NaN of none.
func average(x []float64) float64 {
	m, err := series.Mean(x)
	if err != nil {
		return math.NaN()
	}
	return m
}
