package tools

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// condition is one of band_conditions: [band from 0, threshold, "above" or "below"].
type condition struct {
	band      int // from 1
	threshold float64
	op        pixel.Op
}

func (c *Call) conditions() ([]condition, error) {
	list := c.Args.Get("band_conditions")
	if list.Len() == 0 {
		return nil, badArgument("band_conditions", "the list is empty; give at least one condition [band, threshold, \"above\" or \"below\"]")
	}
	if list.Len() > 100 {
		return nil, badArgument("band_conditions", "%d conditions; give at most 100", list.Len())
	}
	out := make([]condition, list.Len())
	for i := range out {
		at, item := fmt.Sprintf("band_conditions/%d", i), list.Index(i)
		if item.Len() != 3 {
			return nil, badArgument(at, "expected [band, threshold, \"above\" or \"below\"], got %d items", item.Len())
		}
		band, okBand := item.Index(0).Float()
		t, okT := item.Index(1).Float()
		if !okBand || band != math.Trunc(band) || band < 0 || band > 1e6 {
			return nil, badArgument(at+"/0", "expected a band number from 0, got %s", item.Index(0).JSON())
		}
		if !okT {
			return nil, badArgument(at+"/1", "expected a threshold, got %s", item.Index(1).JSON())
		}
		mode := item.Index(2).Text()
		if mode != "above" && mode != "below" {
			return nil, badArgument(at+"/2", "expected \"above\" or \"below\", got %s", item.Index(2).JSON())
		}
		out[i] = condition{int(band) + 1, t, pixel.OpOf(mode)}
	}
	return out, nil
}

// bandsMatching counts the pixels that meet all conditions, and those that are
// valid in the bands of all of them (in the public kit: of the first).
func bandsMatching(c *Call) (matching, valid int, r reading, conditions []condition, err error) {
	if conditions, err = c.conditions(); err != nil {
		return 0, 0, r, nil, err
	}
	refs := make([]ref, len(conditions))
	for i, k := range conditions {
		refs[i] = ref{"image_path", c.text("image_path"), k.band}
	}
	l, err := c.maskedLayers(refs...)
	if err != nil {
		return 0, 0, r, nil, err
	}
	defer l.close()
	limits := make([]float32, len(conditions))
	for k, cond := range conditions {
		limits[k] = precision(l.files[k], cond.op, cond.threshold)
		r.note.scaled(l.files[k], cond.band)
	}
	n := len(l.grids[0].Data)
	for i := range n {
		all, known := true, true
		for k, cond := range conditions {
			v := l.grids[k].Data[i]
			finite := raster.Finite(v)
			known = known && (finite || c.public() && k > 0)
			all = all && finite && cond.op.Test(v, limits[k])
		}
		matching += boolInt(all)
		valid += boolInt(known)
	}
	r = reading{name: l.files[0].Name, used: valid, total: n, note: r.note}
	r.note.masks(l.files[0])
	return matching, valid, r, conditions, nil
}

func conditionThresholds(conditions []condition) []Threshold {
	out := make([]Threshold, len(conditions))
	for i, k := range conditions {
		out[i] = Threshold{fmt.Sprintf("band %d %s", k.band-1, k.op), k.threshold}
	}
	return out
}

// bandsRatio is the percentage of valid pixels that meet all conditions.
func bandsRatio(c *Call) (Result, error) {
	matching, valid, r, conditions, err := bandsMatching(c)
	if err != nil {
		return Result{}, err
	}
	s := share(100, matching, valid, r.total)
	s.name, s.note = r.name, r.note
	e := measured([]reading{s}, MeasureEvidence{Metric: "percentage", Unit: "%", Scale: 100, Aggregate: "single", Thresholds: conditionThresholds(conditions)},
		"100·(pixels that meet all conditions)/(pixels valid in all bands of the conditions)")
	switch {
	case valid == 0 && c.public():
		return Result{Value: strictjson.Float(0), Evidence: e}, nil
	case valid == 0:
		return insufficient(e, "no pixel is valid in all bands of the conditions"), nil
	}
	return numbered(s.value, e)
}

// bandsCount is the number of pixels that meet all conditions.
func bandsCount(c *Call) (Result, error) {
	matching, valid, r, conditions, err := bandsMatching(c)
	if err != nil {
		return Result{}, err
	}
	s := counted(matching, valid, r.total)
	s.name, s.note = r.name, r.note
	e := measured([]reading{s}, MeasureEvidence{Metric: "count", Unit: "px", Scale: 1, Aggregate: "single", Thresholds: conditionThresholds(conditions)},
		"number of pixels that meet all conditions")
	if valid == 0 && !c.public() {
		return insufficient(e, "no pixel is valid in all bands of the conditions"), nil
	}
	return Result{Value: strictjson.Int(matching), Evidence: e}, nil
}

// exceeding reads, of each image, the percentage of pixels of the first band on
// one side of a value.
func exceeding(c *Call) ([]reading, error) {
	op, t := pixel.OpOf(c.text("mode")), c.float("value_threshold")
	return c.survey("image_paths", func(_ int, r *workspace.Raster) (reading, error) {
		m, v, total, err := c.tally(r, []int{1}, op, t)
		out := share(100, m, v, total)
		if c.public() && v == 0 {
			out.value, out.why = 0, ""
		}
		out.note.scaled(r, 1)
		return out, err
	})
}

// imagesExceeding is the number of images whose percentage exceeds a ratio.
func imagesExceeding(c *Call) (Result, error) {
	readings, err := exceeding(c)
	if err != nil {
		return Result{}, err
	}
	limit := c.float("ratio_threshold")
	return imageCount(c, readings, "number of images with 100·(pixels beyond value_threshold)/(valid pixels) > ratio_threshold",
		func(v float64) bool { return v > limit })
}

// imageCount is the number of images whose reading passes a test.
func imageCount(c *Call, readings []reading, formula string, test func(v float64) bool) (Result, error) {
	e := gather(readings, formula)
	n := 0
	all := usable(readings)
	for _, v := range all {
		n += boolInt(test(v))
	}
	if len(all) == 0 && !c.public() {
		return insufficient(e, "no image has valid pixels"), nil
	}
	return Result{Value: strictjson.Int(n), Evidence: e}, nil
}

// averageExceeding is the mean percentage of the images whose percentage exceeds
// a ratio.
func averageExceeding(c *Call) (Result, error) {
	readings, err := exceeding(c)
	if err != nil {
		return Result{}, err
	}
	limit := c.float("ratio_threshold")
	e := gather(readings, "mean of the percentages 100·(pixels beyond value_threshold)/(valid pixels) that exceed ratio_threshold")
	above := slices.DeleteFunc(usable(readings), func(v float64) bool { return !(v > limit) })
	switch {
	case len(above) == 0 && c.public():
		return Result{Value: strictjson.Float(0), Evidence: e}, nil
	case len(above) == 0:
		return insufficient(e, "the percentage exceeds %g in none of the %d images, so there is nothing to average; count_images_exceeding_threshold_ratio gives 0", limit, len(readings)), nil
	}
	return numbered(average(above), e)
}

// bandMeans reads the mean of a band of each image.
func bandMeans(c *Call, param string, band func(r *workspace.Raster) (int, error), stretch bool) ([]reading, error) {
	return c.survey(param, func(_ int, r *workspace.Raster) (reading, error) {
		var out reading
		b, err := band(r)
		if err != nil {
			return out, err
		}
		masked := *c
		masked.Compat = Correct
		g, release, err := masked.grid(r, b)
		if err != nil {
			return out, err
		}
		defer release()
		if stretch && !c.public() {
			pixel.Stretch(g.Data, g.Data)
		}
		out.value, out.used = raster.Mean(g.Data)
		if c.public() {
			out.value = publicBandMean(g.Data, stretch)
		}
		out.total = len(g.Data)
		if out.used == 0 {
			out.why = "it has no valid pixels"
		}
		out.note.scaled(r, b)
		return out, nil
	})
}

// imagesBeyondMean is the number of images whose mean lies beyond a multiple of
// the mean of all.
func imagesBeyondMean(c *Call) (Result, error) {
	readings, err := bandMeans(c, "image_paths", func(*workspace.Raster) (int, error) { return 1, nil }, false)
	if err != nil {
		return Result{}, err
	}
	all := usable(readings)
	overall := average(all)
	if c.public() {
		overall = publicMean32(all)
	}
	limit := c.float("mean_multiplier") * overall
	below := c.text("mode") == "below"
	if c.public() {
		limit = float64(float32(c.float("mean_multiplier")) * float32(overall))
	}
	res, err := imageCount(c, readings, "number of images whose mean lies beyond mean_multiplier times the mean of all means",
		func(v float64) bool { return below && v < limit || !below && v > limit })
	if err == nil && overall < 0 {
		res.Evidence.warn("the mean of all images is %g: a multiple above 1 of a negative mean lies below it", overall)
	}
	return res, err
}

// imagesByMean is the percentage, or the number, of the images whose mean lies on
// one side of a threshold.
func imagesByMean(c *Call) (Result, error) {
	readings, err := bandMeans(c, "file_list", func(r *workspace.Raster) (int, error) { return c.bandOf(r, "band_index") }, c.bool("uint8"))
	if err != nil {
		return Result{}, err
	}
	t, above := c.float("threshold"), c.bool("above")
	test := func(v float64) bool { return above && v > t || !above && v < t }
	if c.public() {
		t = float64(float32(t))
	}
	if c.text("return_type") == "count" {
		return imageCount(c, readings, "number of images whose mean lies on the given side of the threshold", test)
	}
	e := gather(readings, "100·(images whose mean lies on the given side of the threshold)/(images with valid pixels)")
	all := usable(readings)
	n := 0
	for _, v := range all {
		n += boolInt(test(v))
	}
	switch {
	case len(all) == 0 && c.public():
		return Result{Value: strictjson.Float(0), Evidence: e}, nil
	case len(all) == 0:
		return insufficient(e, "no image has valid pixels"), nil
	}
	return numbered(float64(n)/float64(len(all))*100, e)
}

// bandMeanByCondition is the mean of one band where another is at or above, or
// below, a threshold.
func bandMeanByCondition(c *Call) (Result, error) {
	condition, err := c.int("condition_band_index")
	if err != nil {
		return Result{}, err
	}
	target, err := c.int("target_band_index")
	if err != nil {
		return Result{}, err
	}
	path := c.text("image_path")
	l, err := c.maskedLayers(ref{"image_path", path, condition + 1}, ref{"image_path", path, target + 1})
	if err != nil {
		return Result{}, err
	}
	defer l.close()
	e := Evidence{Formula: "mean of the target band where the condition band is ≥ (above) or < (below) the threshold"}
	e.Bands = []BandUse{{"condition", l.files[0].Name, condition + 1}, {"target", l.files[0].Name, target + 1}}
	e.masks(l.files[0])
	e.scaled(l.files[0], condition+1, target+1)
	op := pixel.AtLeast
	if c.text("condition_mode") == "below" {
		op = pixel.Below
	}
	return conditionalMean(c, l, op, c.float("condition_threshold"), e)
}

// conditionalMean is the mean of the second grid where the first passes a comparison.
func conditionalMean(c *Call, l *layers, op pixel.Op, t float64, e Evidence) (Result, error) {
	a, b := l.grids[0].Data, l.grids[1].Data
	limit := precision(l.files[0], op, t)
	for i := range b {
		if !(raster.Finite(a[i]) && op.Test(a[i], limit)) {
			b[i] = raster.NaN()
		}
	}
	mean, n := raster.Mean(b)
	e.Used, e.Missing = n, len(b)-n
	if c.public() {
		return Result{Value: publicNumber(publicBandMean(b, false), strictjson.Float), Evidence: e}, nil
	}
	if n == 0 {
		return insufficient(e, "no valid pixel has a condition value %s %g", op, t), nil
	}
	return numbered(mean, e)
}

// thresholdValueMean is the mean of the second images over the pixels where the
// first image of the same time exceeds a threshold.
func thresholdValueMean(c *Call) (Result, error) {
	first, _, err := c.paths("path1")
	if err != nil {
		return Result{}, err
	}
	second, _, err := c.paths("path2")
	if err != nil {
		return Result{}, err
	}
	if c.public() {
		return publicThresholdValueMean(c, first, second)
	}
	pairs, err := pairByTime(first, second)
	if err != nil {
		return Result{}, err
	}
	t := c.float("threshold")
	readings := make([]reading, len(pairs))
	sums := make([]raster.Stats, len(pairs))
	err = c.each(len(pairs), func(i int) error {
		p := pairs[i]
		l, err := c.maskedLayers(ref{fmt.Sprintf("path1/%d", p[0]), first[p[0]], 1}, ref{fmt.Sprintf("path2/%d", p[1]), second[p[1]], 1})
		if err != nil {
			return err
		}
		defer l.close()
		a, b := l.grids[0].Data, l.grids[1].Data
		limit := precision(l.files[0], pixel.Above, t)
		for k := range b {
			if !(raster.Finite(a[k]) && a[k] > limit) {
				b[k] = raster.NaN()
			}
		}
		sums[i] = raster.Summarize(b)
		r := &readings[i]
		r.name, r.value, r.used, r.total = l.files[1].Name, sums[i].Mean(), int(sums[i].Valid), len(b)
		if r.used == 0 {
			r.why = fmt.Sprintf("no valid pixel where %s exceeds the threshold", l.files[0].Name)
		}
		r.note.masks(l.files[1])
		r.note.scaled(l.files[0], 1)
		r.note.scaled(l.files[1], 1)
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	var all raster.Stats
	for _, s := range sums {
		all.Merge(s)
	}
	e := gather(readings, "mean over all pairs of the second image where the first is > threshold")
	if all.Valid == 0 {
		return insufficient(e, "the first images exceed %g nowhere that the second ones are valid", t), nil
	}
	return numbered(all.Mean(), e)
}

// pairByTime pairs two lists of files by the time in their names; without times,
// lists of equal length pair in order.
func pairByTime(first, second []string) ([][2]int, error) {
	at := map[string]int{}
	timed := true
	for i, p := range second {
		t := TimeOf(p)
		if _, twice := at[t]; twice || t == "" {
			timed = false
		}
		at[t] = i
	}
	var pairs [][2]int
	for i, p := range first {
		t := TimeOf(p)
		if j, ok := at[t]; ok && t != "" {
			pairs = append(pairs, [2]int{i, j})
		}
		timed = timed && t != ""
	}
	if timed && len(pairs) > 0 {
		slices.SortFunc(pairs, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
		return pairs, nil
	}
	if len(first) != len(second) {
		return nil, badArgument("path2", "%d files for %d, and their names give no common times; give the same number in the same order", len(second), len(first))
	}
	if timed {
		return nil, badArgument("path2", "no time in its names occurs in those of path1, as %q and %q", first[0], second[0])
	}
	pairs = nil
	for i := range first {
		pairs = append(pairs, [2]int{i, i})
	}
	return pairs, nil
}
