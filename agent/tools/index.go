package tools

import (
	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
)

// The spectral indices. Each is declared once and offered under the kit's batch
// name and, where the public tasks call it, under that of a single scene.

// pairIndex is a normalized difference of two bands, (a-b)/(a+b).
func pairIndex(name, formula, paramA, symbolA, paramB, symbolB, output string) *product {
	return &product{
		inputs: []input{{param: paramA, symbol: symbolA}, {param: paramB, symbol: symbolB}},
		output: output, verb: save, formula: formula,
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			pixel.NormalizedDifference(in[0].Data, in[0].Data, in[1].Data)
			return indexFrame(in[0], name), nil
		},
		public: publicPair,
	}
}

// indexFrame is a normalized difference, with a warning where it leaves -1 … 1.
func indexFrame(g *raster.Grid, name string) *frame {
	f := one(g, name, "1")
	s := raster.Summarize(g.Data)
	if s.Valid > 0 && (s.Min < -1 || s.Max > 1) {
		f.warnings = append(f.warnings, "values lie outside -1 … 1, so a band is negative there: bands without an offset, or noise over dark water or shadow")
	}
	return f
}

var ndsi = func() *product {
	p := pairIndex("NDSI", "(G-S)/(G+S)", "green_file_list", "G", "swir_file_list", "S", "output_path_list")
	p.like, p.method = coarser, raster.Bilinear
	p.public = publicNDSI
	return p
}()

// coarser is the grid with fewer pixels.
func coarser(in []*raster.Grid) int {
	best := 0
	for i, g := range in {
		if len(g.Data) < len(in[best].Data) {
			best = i
		}
	}
	return best
}

var indexProducts = map[string]*product{
	"calculate_batch_ndvi": pairIndex("NDVI", "(N-R)/(N+R)", "input_nir_paths", "N", "input_red_paths", "R", "output_paths"),
	"calculate_batch_ndwi": pairIndex("NDWI", "(N-S)/(N+S)", "input_nir_paths", "N", "input_swir_paths", "S", "output_paths"),
	"calculate_batch_ndbi": pairIndex("NDBI", "(S-N)/(S+N)", "input_swir_paths", "S", "input_nir_paths", "N", "output_paths"),
	"calculate_batch_nbr":  pairIndex("NBR", "(N-S)/(N+S)", "input_nir_paths", "N", "input_swir_paths", "S", "output_paths"),
	"calculate_batch_ndti": pairIndex("NDTI", "(R-G)/(R+G)", "input_red_paths", "R", "input_green_paths", "G", "output_paths"),
	"calculate_batch_ndsi": ndsi,
	"calculate_ndvi":       pairIndex("NDVI", "(N-R)/(N+R)", "input_nir_path", "N", "input_red_path", "R", "output_path"),
	"calculate_ndwi":       pairIndex("NDWI", "(N-S)/(N+S)", "input_nir_path", "N", "input_swir_path", "S", "output_path"),
	"calculate_nbr":        pairIndex("NBR", "(N-S)/(N+S)", "input_nir_path", "N", "input_swir_path", "S", "output_path"),
	"calculate_ndti":       pairIndex("NDTI", "(R-G)/(R+G)", "input_red_path", "R", "input_green_path", "G", "output_path"),
	"calculate_batch_evi": {
		inputs: []input{{param: "input_nir_paths", symbol: "N"}, {param: "input_red_paths", symbol: "R"}, {param: "input_blue_paths", symbol: "B"}},
		output: "output_paths", verb: save, formula: "G(N-R)/(N+C1·R-C2·B+L)",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			pixel.EVI(in[0].Data, in[0].Data, in[1].Data, in[2].Data, eviCoefficients(c))
			f := one(in[0], "EVI", "1")
			f.empty = "no pixel holds reflectances (-0.2 … 1.6) in all three bands; scale stored numbers first"
			return f, nil
		},
		public: publicEVI,
	},
	"calculate_batch_fvc": {
		inputs: []input{{param: "input_nir_paths", symbol: "N"}, {param: "input_red_paths", symbol: "R"}},
		output: "output_paths", verb: save, formula: "100(NDVI-ndvi_min)/(ndvi_max-ndvi_min), NDVI = (N-R)/(N+R), cut to 0 … 100",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			bare, full := c.float("ndvi_min"), c.float("ndvi_max")
			if bare >= full {
				return nil, badArgument("ndvi_max", "%g must lie above ndvi_min, %g", full, bare)
			}
			pixel.Cover(in[0].Data, in[0].Data, in[1].Data, bare, full)
			return one(in[0], "FVC", "%"), nil
		},
		public: publicCover,
	},
	"calculate_batch_wri": {
		inputs: []input{{param: "input_green_paths", symbol: "G"}, {param: "input_red_paths", symbol: "R"},
			{param: "input_nir_paths", symbol: "N"}, {param: "input_swir_paths", symbol: "S"}},
		output: "output_paths", verb: save, formula: "(G+R)/(N+S)",
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			pixel.WaterRatio(in[0].Data, in[0].Data, in[1].Data, in[2].Data, in[3].Data)
			return one(in[0], "WRI", "1"), nil
		},
		public: publicWaterRatio,
	},
	"calculate_batch_frp": {
		inputs: []input{{param: "input_frp_paths", symbol: "P"}},
		output: "output_paths", verb: save, formula: "255 where P > fire_threshold, else 0",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			t := c.float("fire_threshold")
			pixel.Mask(in[0].Data, in[0].Data, 255, func(v float32) bool { return float64(v) > t })
			return maskFrame(in[0], 255, "fire"), nil
		},
		public: publicFireMask,
	},
	"compute_tvdi": {
		inputs: []input{{param: "ndvi_path", symbol: "NDVI"}, {param: "lst_path", symbol: "T"}},
		output: "output_path", verb: saved, formula: "(T-wet)/(dry-wet), edges by least squares over the extremes of T in 100 intervals of NDVI",
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			if _, _, err := pixel.TVDI(in[0].Data, in[0].Data, in[1].Data); err != nil {
				return nil, err
			}
			f := one(in[0], "TVDI", "1")
			f.empty = "the dry edge lies nowhere above the wet edge"
			return f, nil
		},
		public: publicTVDI,
	},
}

func eviCoefficients(c *Call) pixel.EVICoefficients {
	return pixel.EVICoefficients{G: c.float("G"), C1: c.float("C1"), C2: c.float("C2"), L: c.float("L")}
}
