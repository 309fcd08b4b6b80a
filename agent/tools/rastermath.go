package tools

import (
	"fmt"
	"math"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// Landsat Collection 2 surface reflectance: value = number·2.75e-5 - 0.2; 0 is fill.
const (
	landsatScale  = 2.75e-5
	landsatOffset = -0.2
)

// The bits of Landsat's QA_PIXEL that apply_cloud_mask rejects.
const qaReject = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4 // fill, dilated cloud, cirrus, cloud, shadow

var mathProducts = map[string]*product{
	"radiometric_correction_sr": {
		inputs: []input{{param: "input_band_path", symbol: "n"}},
		output: "output_path", verb: saved, formula: "n·0.0000275 - 0.2, without fill (n = 0)",
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			pixel.Map(in[0].Data, in[0].Data, func(n float64) float64 {
				if n == 0 {
					return math.NaN()
				}
				return n*landsatScale + landsatOffset
			})
			return one(in[0], "SR", "1"), nil
		},
		public: publicReflectance,
	},
	"apply_cloud_mask": {
		inputs: []input{{param: "sr_band_path", symbol: "x"}, {param: "qa_pixel_path", symbol: "qa"}},
		output: "output_path", verb: saved, formula: "x where none of the bits 0 to 4 of qa (fill, dilated cloud, cirrus, cloud, shadow) is set",
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			for i, q := range in[1].Data {
				if !raster.Finite(q) || q < 0 || int64(q)&qaReject != 0 {
					in[0].Data[i] = raster.NaN()
				}
			}
			f := one(in[0], "SR", "")
			f.empty = "QA_PIXEL marks every pixel as fill, cloud, cirrus or shadow"
			return f, nil
		},
		public: publicCloudMask,
	},
}

// tifAverage is the raster of the mean of the valid pixels at each place, band by band.
func tifAverage(c *Call) (Result, error) {
	paths, _, err := c.paths("file_list")
	if err != nil {
		return Result{}, err
	}
	e := Evidence{Formula: "mean over the images of the valid pixels of each place"}
	f, err := c.combine("file_list", paths, &e, func(stack []*raster.Grid) *raster.Grid {
		if c.public() {
			return publicAverage(stack)
		}
		out := stack[0].Like()
		pixel.MapN(out.Data, pixelsOf(stack), func(v []float64) float64 {
			sum, n := 0.0, 0.0
			for _, x := range v {
				if x-x == 0 {
					sum += x
					n++
				}
			}
			return sum / n
		})
		return out
	})
	if err != nil {
		return Result{}, err
	}
	return c.finish(f, "output_path", save, &e, false)
}

// tifDifference is the raster b - a; subtract is the raster img1 - img2.
func tifDifference(c *Call) (Result, error) {
	return c.twoRasters("image_a_path", "image_b_path", "b - a", func(a, b float64) float64 { return b - a })
}

func subtract(c *Call) (Result, error) {
	return c.twoRasters("img1_path", "img2_path", "img1 - img2", func(a, b float64) float64 { return a - b })
}

func (c *Call) twoRasters(first, second, formula string, f func(a, b float64) float64) (Result, error) {
	e := Evidence{Formula: formula}
	out, err := c.combine("", []string{first, second}, &e, func(stack []*raster.Grid) *raster.Grid {
		g := stack[0].Like()
		pixel.Map2(g.Data, stack[0].Data, stack[1].Data, f)
		return g
	})
	if err != nil {
		return Result{}, err
	}
	return c.finish(out, "output_path", save, &e, true)
}

// combine makes one band out of the same band of several rasters, for each of
// their bands. Without param the items of paths are names of parameters.
func (c *Call) combine(param string, paths []string, e *Evidence, f func(stack []*raster.Grid) *raster.Grid) (*frame, error) {
	refs := make([]ref, len(paths))
	for i, p := range paths {
		if refs[i] = (ref{fmt.Sprintf("%s/%d", param, i), p, 1}); param == "" {
			refs[i] = ref{p, c.text(p), 1}
		}
	}
	out := &frame{}
	bands := 1
	for b := 1; b <= bands; b++ {
		for i := range refs {
			refs[i].band = b
		}
		l, err := c.layers(2, refs...)
		if err != nil {
			return nil, err
		}
		bands = len(l.files[0].Info.Bands)
		err = c.match(l, refs)
		for i, file := range l.files {
			if n := len(file.Info.Bands); err == nil && n != bands {
				err = badInput(refs[i].param, fmt.Errorf("%s has %d bands and %s has %d: %w", file.Name, n, l.files[0].Name, bands, raster.ErrMismatch))
			}
			e.masks(file)
			e.scaled(file, b)
			e.Bands = append(e.Bands, BandUse{fmt.Sprintf("x%d", i+1), file.Name, b})
		}
		if err != nil {
			l.close()
			return nil, err
		}
		g := f(l.grids)
		out.grids = append(out.grids, g)
		info := l.files[0].Info.Bands[b-1]
		out.bands = append(out.bands, raster.BandSpec{Description: info.Description, Unit: info.Unit})
		l.close()
		if c.tool.Name == "subtract" && c.public() {
			if out.nodata = info.NoData; bands > 1 {
				return nil, badArgument(refs[0].param, "the public kit cannot write several bands here")
			}
		}
	}
	return out, nil
}

// finish stretches a frame to bytes if asked for, saves it and makes the result.
func (c *Call) finish(f *frame, param, verb string, e *Evidence, twice bool) (Result, error) {
	target, err := c.env.workspace.Target(c.text(param))
	if err != nil {
		return Result{}, badInput(param, err)
	}
	n := Node{Name: target, Valid: f.valid(), Total: len(f.grids[0].Data), Status: OK}
	e.Used, e.Missing = n.Valid, n.Total-n.Valid
	if n.Valid == 0 && !c.public() {
		n.Status, n.Reason, n.Output = Insufficient, "no pixel is valid", strictjson.NullValue()
		e.Nodes = []Node{n}
		return insufficient(*e, "no pixel is valid in the inputs"), nil
	}
	if c.bool("uint8") {
		for _, g := range f.grids {
			if c.public() {
				publicStretch(g.Data)
			} else {
				pixel.Stretch(g.Data, g.Data)
			}
			if f.kind = raster.Uint8; pixel.Valid(g.Data) < len(g.Data) && !c.public() {
				return Result{}, badArgument("uint8", "%d of %d pixels have no data, which bytes 0 … 255 cannot express; leave uint8 out", len(g.Data)-pixel.Valid(g.Data), len(g.Data))
			}
		}
	}
	a, err := c.save(target, f)
	if err != nil {
		return Result{}, err
	}
	n.Output = strictjson.Text(target)
	e.Nodes = []Node{n}
	message := said(verb, target)
	if twice && c.public() {
		message = said(verb, workspace.OutDir+"/"+target)
	}
	return Result{Value: message, Artefacts: []Artefact{a}, Evidence: *e}, nil
}

// fileList is the sorted names of the files in a folder.
func fileList(c *Call) (Result, error) {
	names, err := c.env.workspace.List(c.text("dir_path"))
	if err != nil {
		return Result{}, badInput("dir_path", err)
	}
	e := Evidence{Used: len(names)}
	if len(names) == 0 {
		e.warn("the folder is empty")
	}
	return Result{Value: texts(names), Evidence: e}, nil
}

func nextUp(v float32) float32 { return math.Nextafter32(v, float32(math.Inf(1))) }
