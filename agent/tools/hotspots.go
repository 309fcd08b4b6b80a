package tools

import (
	"fmt"
	"path"
	"strings"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/data/strictjson"
)

// maxWeights bounds a weight matrix, maxWeighings its work on an image.
const (
	maxWeights   = 10_201 // 101×101
	maxWeighings = 1 << 34
)

// weights is a weight matrix with odd sides. The public kit takes any sides.
func (c *Call) weights(param string) (w []float64, cols, rows int, err error) {
	list := c.Args.Get(param)
	rows = list.Len()
	if rows == 0 || list.Index(0).Len() == 0 {
		return nil, 0, 0, badArgument(param, "the matrix is empty")
	}
	cols = list.Index(0).Len()
	if rows*cols > maxWeights {
		return nil, 0, 0, badArgument(param, "%d×%d weights; give at most %d", rows, cols, maxWeights)
	}
	if (rows%2 == 0 || cols%2 == 0) && !c.public() {
		return nil, 0, 0, badArgument(param, "%d×%d weights have no middle; give odd numbers of rows and columns", rows, cols)
	}
	sum := 0.0
	for j := range rows {
		row := list.Index(j)
		if row.Len() != cols {
			return nil, 0, 0, badArgument(fmt.Sprintf("%s/%d", param, j), "%d weights in a matrix of %d columns", row.Len(), cols)
		}
		for i := range cols {
			f, _ := row.Index(i).Float()
			w = append(w, f)
			sum += f
		}
	}
	if sum == 0 {
		return nil, 0, 0, badArgument(param, "the weights sum to 0")
	}
	if !allFinite(sum) {
		return nil, 0, 0, badArgument(param, "the weights are too large")
	}
	return w, cols, rows, nil
}

var giStar = &product{
	inputs: []input{{param: "image_path", symbol: "x"}},
	output: "output_path", verb: save,
	formula: "(Σwx - x̄Σw)/(s·√((nΣw² - (Σw)²)/(n-1))), sums over the valid neighbours",
	correct: func(c *Call, in []*raster.Grid) (*frame, error) {
		w, cols, rows, err := c.weights("weight_matrix")
		if err != nil {
			return nil, err
		}
		if len(w)*len(in[0].Data) > maxWeighings {
			return nil, badArgument("weight_matrix", "%d weights on %d pixels are too many; use a smaller matrix or a coarser image", len(w), len(in[0].Data))
		}
		out := in[0].Like()
		if err := pixel.GiStar(out, in[0], w, cols, rows); err != nil {
			return nil, err
		}
		f := one(out, "Gi*", "σ")
		f.empty = "no neighbourhood has a variance"
		return f, nil
	},
	public: publicGiStar, untagged: true,
}

// hotspotDirection is the side of the image that holds most hotspots.
func hotspotDirection(c *Call) (Result, error) {
	r, err := c.open("hotspot_map_path", c.text("hotspot_map_path"))
	if err != nil {
		return Result{}, err
	}
	defer r.Close()
	g, release, err := c.grid(r, 1)
	if err != nil {
		return Result{}, badInput("hotspot_map_path", err)
	}
	defer release()
	if c.public() {
		return publicDirection(g), nil
	}
	level, err := binaryLevel(g)
	if err != nil {
		return Result{}, badInput("hotspot_map_path", fmt.Errorf("%s: %w", r.Name, err))
	}
	votes, pixels := pixel.Direction(g, func(v float32) bool { return v == level })
	e := Evidence{Formula: "side of the middle of the image towards which most set pixels lie; at equal angles a pixel counts half for two sides", Used: pixels, Missing: len(g.Data) - pixels}
	e.masks(r)
	sides := []struct {
		name  string
		votes int
	}{{"north", votes.North}, {"south", votes.South}, {"east", votes.East}, {"west", votes.West}}
	best := 0
	for i, s := range sides {
		e.Nodes = append(e.Nodes, Node{Name: s.name, Output: strictjson.Float(float64(s.votes) / 2), Valid: pixels, Total: len(g.Data), Status: OK})
		if s.votes > sides[best].votes {
			best = i
		}
	}
	if pixels == 0 {
		return insufficient(e, "no pixel of the map is set, so there are no hotspots"), nil
	}
	for i, s := range sides {
		if i != best && s.votes == sides[best].votes {
			e.warn("%s and %s hold equally many", sides[best].name, s.name)
		}
	}
	return Result{Value: strictjson.Text(sides[best].name), Evidence: e}, nil
}

// colourMap makes a picture of a raster: its range along a colour map, black where
// there is no data.
func colourMap(c *Call) (Result, error) {
	m, err := pixel.ColormapOf(c.text("cmap_name"))
	if err != nil {
		return Result{}, badInput("cmap_name", err)
	}
	l, err := c.layers(4, ref{"image_path", c.text("image_path"), 1})
	if err != nil {
		return Result{}, err
	}
	defer l.close()
	g := l.grids[0]
	e := Evidence{Formula: "colour of (x-min)/(max-min)"}
	e.Bands = []BandUse{{"x", l.files[0].Name, 1}}
	e.masks(l.files[0])
	s := raster.Summarize(g.Data)
	e.Used, e.Missing = int(s.Valid), int(s.Total-s.Valid)
	if s.Valid == 0 {
		return insufficient(e, "no pixel is valid"), nil
	}
	f := &frame{kind: raster.Uint8, bands: []raster.BandSpec{{Description: "red"}, {Description: "green"}, {Description: "blue"}}}
	for range 3 {
		f.grids = append(f.grids, g.Like())
	}
	span := s.Max - s.Min
	if span == 0 {
		span = 1
		e.warn("all pixels are equal, so the picture has one colour")
	}
	for i, v := range g.Data {
		if raster.Finite(v) {
			for k, level := range m.At((float64(v) - s.Min) / span) {
				f.grids[k].Data[i] = level
			}
		}
	}
	name := c.text("save_name")
	ext := path.Ext(name)
	switch {
	case c.bool("preserve_geo"):
		name = strings.TrimSuffix(name, ext) + ".tif"
	case !picture(name) && !strings.EqualFold(ext, ".tif") && !strings.EqualFold(ext, ".tiff"):
		return Result{}, badArgument("save_name", "%q names no picture; end it in .png or .tif", name)
	}
	target, err := c.env.workspace.Target(name)
	if err != nil {
		return Result{}, badInput("save_name", err)
	}
	a, err := c.save(target, f)
	if err != nil {
		return Result{}, err
	}
	e.Nodes = []Node{{Name: target, Output: strictjson.Text(target), Valid: e.Used, Total: e.Used + e.Missing, Status: OK}}
	return Result{Value: said(save, target), Artefacts: []Artefact{a}, Evidence: e}, nil
}

var hotspotTools = map[string]Func{
	"getis_ord_gi_star":         giStar.run,
	"analyze_hotspot_direction": hotspotDirection,
	"grayscale_to_colormap":     colourMap,
	"identify_fire_prone_areas": fireProne,
	"calculate_tif_average":     tifAverage,
	"calculate_tif_difference":  tifDifference,
	"subtract":                  subtract,
	"get_filelist":              fileList,
}
