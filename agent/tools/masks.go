package tools

import (
	"fmt"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// maskProducts make binary maps of one image.
var maskProducts = map[string]*product{
	"threshold_segmentation": {
		inputs: []input{{param: "input_image_path", symbol: "x"}},
		output: "output_path", verb: save, formula: "255 where x > threshold, else 0",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			t := float32(c.float("threshold"))
			pixel.Mask(in[0].Data, in[0].Data, 255, func(v float32) bool { return v > t })
			return maskFrame(in[0], 255, "mask"), nil
		},
		public: publicSegmentation,
	},
	"calc_batch_image_hotspot_tif": {
		inputs: []input{{param: "file_list", symbol: "x"}},
		output: "output_path_list", verb: save, formula: "1 where x < threshold, else 0",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			if c.bool("uint8") {
				pixel.Stretch(in[0].Data, in[0].Data)
			}
			t := float32(c.float("threshold"))
			pixel.Mask(in[0].Data, in[0].Data, 1, func(v float32) bool { return v < t })
			return maskFrame(in[0], 1, "hotspot"), nil
		},
		public: publicHotspotMap, doubled: true,
	},
	"create_fire_increase_map": {
		inputs: []input{{param: "change_image_path", symbol: "x"}},
		output: "output_path", verb: save, formula: "1 where x ≥ threshold, else 0",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			t := float32(c.float("threshold"))
			pixel.Mask(in[0].Data, in[0].Data, 1, func(v float32) bool { return v >= t })
			return maskFrame(in[0], 1, "fire increase"), nil
		},
		public: publicIncreaseMap,
	},
}

// fireProne is [message, threshold]: a mask of the pixels at or above a percentile
// of the positive ones, and that percentile.
func fireProne(c *Call) (Result, error) {
	at := ref{"file_path", c.text("file_path"), 1}
	l, err := c.layers(2, at)
	if err != nil {
		return Result{}, err
	}
	defer l.close()
	target, err := c.env.workspace.Target(c.text("output_path"))
	if err != nil {
		return Result{}, badInput("output_path", err)
	}
	g := l.grids[0]
	if c.bool("uint8") {
		if c.public() {
			publicStretch(g.Data)
		} else {
			pixel.Stretch(g.Data, g.Data)
		}
	}
	e := Evidence{Formula: "1 where x ≥ the percentile of the pixels > 0, else 0"}
	e.Bands = []BandUse{{"x", l.files[0].Name, 1}}
	e.masks(l.files[0])
	e.scaled(l.files[0], 1)
	positive := g.Like()
	for i, v := range g.Data {
		if positive.Data[i] = raster.NaN(); v > 0 {
			positive.Data[i] = v
		}
	}
	limit, n := pixel.Percentile(positive.Data, c.float("threshold_percentile"))
	e.Used, e.Missing = n, len(g.Data)-n
	var f *frame
	switch {
	case c.public():
		limit, f = publicFireProne(g, c.float("threshold_percentile"))
		publicTags(f, l.files[0])
	case n == 0:
		return insufficient(e, "no valid pixel is positive, so there is no fire to rank"), nil
	default:
		t := float32(limit)
		if float64(t) < limit { // a pixel must reach the threshold as it is, not as it is rounded
			t = nextUp(t)
		}
		pixel.Mask(g.Data, g.Data, 1, func(v float32) bool { return v >= t })
		f = maskFrame(g, 1, "fire prone")
	}
	a, err := c.save(target, f)
	if err != nil {
		return Result{}, err
	}
	e.Nodes = []Node{{Name: target, Output: strictjson.Float(limit), Valid: n, Total: len(g.Data), Status: OK}}
	return Result{Value: strictjson.List(said(save, target), strictjson.Float(limit)), Artefacts: []Artefact{a}, Evidence: e}, nil
}

// maskArea is the number of pixels set in any colour of a mask, times gsd² where
// it is given.
func maskArea(c *Call) (Result, error) {
	gsd := 0.0
	unit := "px"
	if c.Args.Get("gsd").Kind() != strictjson.Null {
		gsd, unit = c.float("gsd"), "m²"
	}
	return measureOne(c, "input_image_path", "(pixels ≠ 0)·gsd²", MeasureEvidence{Metric: "area", Unit: unit, Scale: 1, GSD: gsd, Aggregate: "single"},
		strictjson.Float, func(r *workspace.Raster) (reading, error) {
			if c.public() {
				return publicArea(c, r, gsd)
			}
			set, valid, total, err := c.setPixels(r)
			out := counted(set, valid, total)
			if gsd > 0 {
				out.value = out.value * gsd * gsd
			}
			return out, err
		})
}

// setPixels counts the pixels that differ from 0 in any colour, and those that
// are valid in all.
func (c *Call) setPixels(r *workspace.Raster) (set, valid, total int, err error) {
	bands := colours(r)
	var buffers [][]float32
	for range bands {
		buffers = append(buffers, nil)
	}
	for w := range r.Windows() {
		if err := c.Context.Err(); err != nil {
			return 0, 0, 0, err
		}
		for k, b := range bands {
			if cap(buffers[k]) < w.Pixels() {
				buffers[k] = make([]float32, w.Pixels())
			}
			buffers[k] = buffers[k][:w.Pixels()]
			if err := r.ReadInto(b, w, buffers[k]); err != nil {
				return 0, 0, 0, err
			}
		}
		for i := range w.Pixels() {
			some, known := false, true
			for _, b := range buffers {
				known = known && raster.Finite(b[i])
				some = some || b[i] != 0
			}
			valid += boolInt(known)
			set += boolInt(known && some)
		}
		total += w.Pixels()
	}
	return set, valid, total, nil
}

// colours are the bands of a raster that are not its opacity.
func colours(r *workspace.Raster) []int {
	var bands []int
	for i, b := range r.Info.Bands {
		if !b.Alpha {
			bands = append(bands, i+1)
		}
	}
	return bands
}

// skeletonContours is the number of outlines of a mask after an erosion and
// thinning to a skeleton. A mask is set above 127, or, if it holds no value above
// 1, where it is not 0.
func skeletonContours(c *Call) (Result, error) {
	return measureOne(c, "image_path", "number of outer contours of the skeleton of the mask after a 3×3 erosion", MeasureEvidence{Metric: "count", Unit: "outlines", Scale: 1, Aggregate: "single",
		Thresholds: []Threshold{{"set above", 127}}}, whole, func(r *workspace.Raster) (reading, error) {
		g, release, err := c.gray(r)
		if err != nil {
			return reading{}, err
		}
		defer release()
		limit := float32(127)
		s := raster.Summarize(g.Data)
		if s.Max <= 1 && !c.public() {
			limit = 0
		}
		b := pixel.NewBitmap(g.Width, g.Height)
		for i, v := range g.Data {
			b.Set[i] = v > limit
		}
		out := counted(b.Erode().Skeleton().Outlines(), int(s.Valid), int(s.Total))
		return out, nil
	})
}

// gray reads an image as one band of brightness, by the weights of ITU-R BT.601.
func (c *Call) gray(r *workspace.Raster) (*raster.Grid, func(), error) {
	bands := colours(r)
	if len(bands) == 0 {
		return nil, nil, fmt.Errorf("%s has no band but its opacity: %w", r.Name, raster.ErrFormat)
	}
	size := int64(r.Info.Width) * int64(r.Info.Height)
	release, err := c.env.workspace.Reserve(c.Context, 20*size)
	if err != nil {
		return nil, nil, err
	}
	bands = bands[:min(len(bands), 3)]
	if len(bands) == 2 {
		bands = bands[:1]
	}
	grids, err := r.ReadBands(bands...)
	if err != nil {
		release()
		return nil, nil, err
	}
	if len(grids) == 3 {
		pixel.MapN(grids[0].Data, pixelsOf(grids), func(v []float64) float64 { return float64(int(0.299*v[0] + 0.587*v[1] + 0.114*v[2] + 0.5)) })
	}
	return grids[0], release, nil
}
