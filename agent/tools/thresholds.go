package tools

import (
	"fmt"
	"math"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// tally counts the pixels of bands that pass a comparison, in bounded memory.
func (c *Call) tally(r *workspace.Raster, bands []int, op pixel.Op, t float64) (matching, valid, total int, err error) {
	limit := precision(r, op, t)
	buffer := []float32(nil)
	for _, b := range bands {
		for w := range r.Windows() {
			if err := c.Context.Err(); err != nil {
				return 0, 0, 0, err
			}
			if n := w.Pixels(); cap(buffer) < n {
				buffer = make([]float32, n)
			}
			buffer = buffer[:w.Pixels()]
			if err := r.ReadInto(b, w, buffer); err != nil {
				return 0, 0, 0, err
			}
			m, v := pixel.CountOp(buffer, op, limit)
			matching, valid, total = matching+m, valid+v, total+len(buffer)
		}
	}
	return matching, valid, total, nil
}

// precision is the threshold in the precision of the pixels, so that a pixel
// stored from 0.7 equals the threshold 0.7. Of integer pixels it moves to the
// neighbour that decides the same, since whole numbers are exact.
func precision(r *workspace.Raster, op pixel.Op, t float64) float32 {
	if r.Info.Type.Float() {
		return float32(t)
	}
	switch op {
	case pixel.Above, pixel.AtMost:
		return float32(math.Floor(t))
	case pixel.Below, pixel.AtLeast:
		return float32(math.Ceil(t))
	}
	if t != math.Trunc(t) {
		return raster.NaN() // no whole number equals it
	}
	return float32(t)
}

// measured is the evidence of readings as a measurement.
func measured(readings []reading, m MeasureEvidence, formula string) Evidence {
	e := gather(readings, formula)
	e.Family, e.Measure = Measure, m
	e.Measure.Layers = e.Nodes
	for _, r := range readings {
		e.Measure.Numerator = append(e.Measure.Numerator, r.numerator)
		e.Measure.Denominator = append(e.Measure.Denominator, r.denominator)
	}
	return e
}

// share is a reading of matching pixels among valid ones.
func share(scale float64, matching, valid, total int) reading {
	r := reading{used: valid, total: total, numerator: float64(matching), denominator: float64(valid)}
	if valid == 0 {
		r.value, r.why = math.NaN(), "it has no valid pixels"
		return r
	}
	r.value = scale * (r.numerator / r.denominator)
	return r
}

// counted is a reading of a number of pixels.
func counted(matching, valid, total int) reading {
	r := reading{value: float64(matching), used: valid, total: total, numerator: float64(matching), denominator: 1}
	if valid == 0 {
		r.value, r.why, r.denominator = math.NaN(), "it has no valid pixels", 0
	}
	return r
}

// bandOf is the band that a parameter counting from 0 names.
func (c *Call) bandOf(r *workspace.Raster, param string) (int, error) {
	band, err := c.int(param)
	if err != nil {
		return 0, err
	}
	return band + 1, hasBand(r, band+1, 0, param)
}

// thresholdRatio is the mean over the images of the percentage of valid pixels of
// a band that pass a comparison.
func thresholdRatio(c *Call) (Result, error) {
	op, t := pixel.OpOf(c.text("mode")), c.float("threshold")
	readings, err := c.survey("image_paths", func(_ int, r *workspace.Raster) (reading, error) {
		band, err := c.bandOf(r, "band_index")
		if err != nil {
			return reading{}, err
		}
		if c.public() {
			return publicShare(c, r, band, op, t)
		}
		m, v, total, err := c.tally(r, []int{band}, op, t)
		out := share(100, m, v, total)
		out.note.scaled(r, band)
		return out, err
	})
	if err != nil {
		return Result{}, err
	}
	e := measured(readings, MeasureEvidence{Metric: "percentage", Unit: "%", Scale: 100, Aggregate: "mean",
		Thresholds: []Threshold{{"threshold", t}}}, "mean over the images of 100·(pixels "+op.String()+" threshold)/(valid pixels)")
	if c.public() {
		return Result{Value: strictjson.Float(publicMeanOfMeans(values(readings))), Evidence: e}, nil
	}
	if _, ok := e.Measure.Recompute(); !ok {
		return insufficient(e, "no image has valid pixels"), nil
	}
	v, _ := e.Measure.Recompute()
	return numbered(v[0], e)
}

func values(readings []reading) []float64 {
	out := make([]float64, len(readings))
	for i, r := range readings {
		out[i] = r.value
	}
	return out
}

// hotspotShare is, of each image, the share of valid pixels above a threshold.
func hotspotShare(c *Call) (Result, error) {
	t := c.float("threshold")
	readings, err := c.survey("file_list", func(_ int, r *workspace.Raster) (reading, error) {
		if c.public() {
			return publicHotspotShare(c, r, t, c.bool("uint8"))
		}
		if c.bool("uint8") {
			var note Evidence
			data, release, err := c.pooled(r, true, &note)
			if err != nil {
				return reading{}, err
			}
			defer release()
			m, v := pixel.CountOp(data, pixel.Above, float32(t))
			out := share(1, m, v, len(data))
			out.note = note
			return out, nil
		}
		var note Evidence
		m, v, total, err := c.tally(r, poolable(r, &note), pixel.Above, t)
		out := share(1, m, v, total)
		out.note = note
		return out, err
	})
	if err != nil {
		return Result{}, err
	}
	res, err := listed(c, readings, "(pixels > threshold)/(valid pixels)", strictjson.Float)
	return asMeasure(res, readings, MeasureEvidence{Metric: "fraction", Unit: "1", Scale: 1, Aggregate: "list",
		Thresholds: []Threshold{{"threshold", t}}}), err
}

// asMeasure gives a result of readings the evidence of a measurement.
func asMeasure(res Result, readings []reading, m MeasureEvidence) Result {
	e := measured(readings, m, res.Evidence.Formula)
	e.Status, e.Reason = res.Evidence.Status, res.Evidence.Reason
	res.Evidence = e
	return res
}

// firePixels is, of each image, the number of pixels above a threshold.
func firePixels(c *Call) (Result, error) {
	t := c.float("fire_threshold")
	readings, err := c.survey("file_list", func(_ int, r *workspace.Raster) (reading, error) {
		if c.public() {
			return publicCount(c, r, 0, t)
		}
		var note Evidence
		m, v, total, err := c.tally(r, poolable(r, &note), pixel.Above, t)
		out := counted(m, v, total)
		out.note = note
		return out, err
	})
	if err != nil {
		return Result{}, err
	}
	res, err := listed(c, readings, "number of pixels > fire_threshold", whole)
	return asMeasure(res, readings, MeasureEvidence{Metric: "count", Unit: "px", Scale: 1, Aggregate: "list",
		Thresholds: []Threshold{{"fire_threshold", t}}}), err
}

// countAbove is the number of pixels of the first band above a threshold.
func countAbove(c *Call) (Result, error) {
	t := c.float("threshold")
	return measureOne(c, "file_path", "number of pixels of the first band > threshold", MeasureEvidence{Metric: "count", Unit: "px", Scale: 1, Aggregate: "single",
		Thresholds: []Threshold{{"threshold", t}}}, whole, func(r *workspace.Raster) (reading, error) {
		if c.public() {
			return publicCount(c, r, 1, t)
		}
		m, v, total, err := c.tally(r, []int{1}, pixel.Above, t)
		out := counted(m, v, total)
		out.note.scaled(r, 1)
		return out, err
	})
}

// measureOne is a measurement of one image.
func measureOne(c *Call, param, formula string, m MeasureEvidence, spell func(float64) strictjson.Value, f func(r *workspace.Raster) (reading, error)) (Result, error) {
	readings, err := c.survey(param, func(_ int, r *workspace.Raster) (reading, error) { return f(r) })
	if err != nil {
		return Result{}, err
	}
	e := measured(readings, m, formula)
	if why := readings[0].why; why != "" && !c.public() {
		return insufficient(e, "%s: %s", readings[0].name, why), nil
	}
	return Result{Value: spell(readings[0].value), Evidence: e}, nil
}

// binaryLevel is the value that marks a pixel in a binary map: 1 or 255. A map
// with other values is none.
func binaryLevel(g *raster.Grid) (float32, error) {
	level := float32(1)
	for _, v := range g.Data {
		switch {
		case !raster.Finite(v) || v == 0 || v == 1:
		case v == 255:
			level = 255
		default:
			return 0, fmt.Errorf("it holds the value %g, so it is no binary map of 0 and 1 or 0 and 255", v)
		}
	}
	return level, nil
}

// snowLoss is the share of the valid pixels that are set in a binary map.
func snowLoss(c *Call) (Result, error) {
	return measureOne(c, "binary_map_path", "(pixels set)/(valid pixels)", MeasureEvidence{Metric: "fraction", Unit: "1", Scale: 1, Aggregate: "single"},
		strictjson.Float, func(r *workspace.Raster) (reading, error) {
			if c.public() {
				return publicSnowLoss(c, r)
			}
			g, release, err := c.grid(r, 1)
			if err != nil {
				return reading{}, err
			}
			defer release()
			level, err := binaryLevel(g)
			if err != nil {
				return reading{}, err
			}
			m, v := pixel.CountOp(g.Data, pixel.Equal, level)
			return share(1, m, v, len(g.Data)), nil
		})
}

// grid reads a band of an open raster and reserves its memory.
func (c *Call) grid(r *workspace.Raster, band int) (*raster.Grid, func(), error) {
	release, err := c.env.workspace.Reserve(c.Context, 4*int64(r.Info.Width)*int64(r.Info.Height))
	if err != nil {
		return nil, nil, err
	}
	g, err := c.band(r, band)
	if err != nil {
		release()
		return nil, nil, err
	}
	return g, release, nil
}

// intersection is the percentage of pixels, valid in both images, that lie above
// the threshold of each.
func intersection(c *Call) (Result, error) {
	refs := []ref{{"path1", c.text("path1"), 1}, {"path2", c.text("path2"), 1}}
	l, err := c.maskedLayers(refs...)
	if err != nil {
		return Result{}, err
	}
	defer l.close()
	t1, t2 := precision(l.files[0], pixel.Above, c.float("threshold1")), precision(l.files[1], pixel.Above, c.float("threshold2"))
	a, b := l.grids[0].Data, l.grids[1].Data
	both, valid := 0, 0
	for i := range a {
		if raster.Finite(a[i]) && raster.Finite(b[i]) {
			valid++
			both += boolInt(a[i] > t1 && b[i] > t2)
		}
	}
	r := share(100, both, valid, len(a))
	r.name = l.files[0].Name + " ∩ " + l.files[1].Name
	r.note.scaled(l.files[0], 1)
	r.note.scaled(l.files[1], 1)
	e := measured([]reading{r}, MeasureEvidence{Metric: "overlap", Unit: "%", Scale: 100, Aggregate: "single",
		Thresholds: []Threshold{{"threshold1", c.float("threshold1")}, {"threshold2", c.float("threshold2")}}},
		"100·(pixels above both thresholds)/(pixels valid in both)")
	switch {
	case valid == 0 && c.public():
		return Result{Value: strictjson.Float(0), Evidence: e}, nil
	case valid == 0:
		return insufficient(e, "no pixel is valid in both images"), nil
	}
	return numbered(r.value, e)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maskedLayers is layers with no-data honoured in every mode: the public kit does
// so in a few tools.
func (c *Call) maskedLayers(refs ...ref) (*layers, error) {
	masked := *c
	masked.Compat = Correct
	l, err := masked.layers(0, refs...)
	if err != nil {
		return nil, err
	}
	if err := c.match(l, refs); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

var thresholdTools = map[string]Func{
	"calculate_threshold_ratio":                         thresholdRatio,
	"calc_batch_image_hotspot_percentage":               hotspotShare,
	"calc_batch_fire_pixels":                            firePixels,
	"count_above_threshold":                             countAbove,
	"calc_extreme_snow_loss_percentage_from_binary_map": snowLoss,
	"calculate_intersection_percentage":                 intersection,
	"calculate_multi_band_threshold_ratio":              bandsRatio,
	"count_pixels_satisfying_conditions":                bandsCount,
	"count_images_exceeding_threshold_ratio":            imagesExceeding,
	"average_ratio_exceeding_threshold":                 averageExceeding,
	"count_images_exceeding_mean_multiplier":            imagesBeyondMean,
	"calc_batch_image_mean_threshold":                   imagesByMean,
	"calculate_band_mean_by_condition":                  bandMeanByCondition,
	"calc_threshold_value_mean":                         thresholdValueMean,
	"calculate_area":                                    maskArea,
	"count_skeleton_contours":                           skeletonContours,
}
