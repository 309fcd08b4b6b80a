package tools

import (
	"fmt"
	"math"
	"regexp"
	"strconv"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
)

// standardVapour is the column water vapour, in g/cm², of the split window, which
// has no source for it: that of the mid-latitude standard atmospheres lies around it.
const standardVapour = 2

const (
	notKelvin = "no pixel holds temperatures (150 … 500 K); scale stored numbers first"
	notEmiss  = "no pixel holds temperatures (150 … 500 K) and emissivities (0.5 … 1); scale stored numbers first (MODIS: 0.02 and 0.002·n + 0.49)"
)

// first keeps the grid of the first input.
func first([]*raster.Grid) int { return 0 }

// retrievals are the thermal and water vapour retrievals.
var retrievals = map[string]*product{
	"band_ratio": {
		inputs: []input{{param: "sur_refl_b02_path", symbol: "b2"}, {param: "sur_refl_b05_path", symbol: "b5"},
			{param: "sur_refl_b17_path", symbol: "b17"}, {param: "sur_refl_b18_path", symbol: "b18"}, {param: "sur_refl_b19_path", symbol: "b19"}},
		output: "output_path", verb: saved,
		formula: "PWV = -ln(T18)/0.03, Tk = bk/ρ(λk), ρ the line through b2 (0.865 µm) and b5 (1.24 µm)",
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			out := make([][]float32, 4)
			for k := range out {
				out[k] = in[k].Data
			}
			pixel.Vapour(out[0], out[1], out[2], out[3], in[0].Data, in[1].Data, in[2].Data, in[3].Data, in[4].Data)
			return &frame{grids: in[:4], bands: []raster.BandSpec{{Description: "PWV"}, {Description: "T17", Unit: "1"}, {Description: "T18", Unit: "1"}, {Description: "T19", Unit: "1"}},
				empty: "no pixel has positive reflectances in all five bands"}, nil
		},
		public: publicVapour,
	},
	"lst_single_channel": {
		inputs: []input{{param: "bt_path", symbol: "T"}, {param: "red_path", symbol: "R"}, {param: "nir_path", symbol: "N"}},
		output: "output_path", verb: saved,
		formula: "T/(1 + (10.9·T/14387.7)·ln ε), ε = 0.96 for NDVI < 0.2, 0.99 for NDVI > 0.7, else 0.97 + 0.003·NDVI",
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			pixel.SingleChannel(in[0].Data, in[0].Data, in[1].Data, in[2].Data)
			f := one(in[0], "LST", "K")
			f.empty = notKelvin
			return f, nil
		},
		public: publicSingleChannel,
	},
	"lst_multi_channel": {
		inputs: []input{{param: "band31_path", symbol: "T31"}, {param: "band32_path", symbol: "T32"}},
		output: "output_path", verb: saved, formula: "1.022·T31 + 0.47(T31-T32) + 0.43",
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			pixel.MultiChannel(in[0].Data, in[0].Data, in[1].Data)
			f := one(in[0], "LST", "K")
			f.empty = notKelvin
			return f, nil
		},
		public: publicMultiChannel,
	},
	"split_window": {
		inputs: []input{{param: "band31_path", symbol: "T31"}, {param: "band32_path", symbol: "T32"},
			{param: "emissivity31_path", symbol: "ε31"}, {param: "emissivity32_path", symbol: "ε32"}},
		output: "output_path", verb: saved,
		formula: "LST: T31 + 1.378Δ + 0.183Δ² - 0.268 + (54.3-2.238w)(1-ε) + (-129.2+16.4w)Δε, Δ = T31-T32, w = 2 g/cm²; PWV: 100Δ/(T31·ε)",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			f := one(in[0], c.text("parameter"), "K")
			f.empty = notEmiss
			if c.text("parameter") == "PWV" {
				pixel.VapourIndex(in[0].Data, in[0].Data, in[1].Data, in[2].Data, in[3].Data)
				f.bands[0].Unit = ""
				f.warnings = []string{"the split window gives a relative measure of water vapour, not centimetres: compare places or dates, do not read it as an amount"}
				return f, nil
			}
			pixel.SplitWindow(in[0].Data, in[0].Data, in[1].Data, in[2].Data, in[3].Data, standardVapour)
			f.warnings = []string{fmt.Sprintf("a column water vapour of %d g/cm² is assumed", standardVapour)}
			return f, nil
		},
		public: publicSplitWindow,
	},
	"temperature_emissivity_separation": {
		inputs: []input{{param: "tir_band_paths", symbol: "T", list: true}},
		output: "output_path", verb: saved,
		formula: "TES: T by normalised emissivity 0.99; β = ε/mean ε; MMD = max β - min β; ε_min = 0.994 - 0.687·MMD^0.737",
		correct: separate,
		public:  publicSeparate,
	},
	"modis_day_night_lst": {
		inputs: []input{{param: "BT_day_path", symbol: "Td"}, {param: "BT_night_path", symbol: "Tn"},
			{param: "Emis_day_path", symbol: "εd"}, {param: "Emis_night_path", symbol: "εn"}},
		output: "output_path", verb: saved, like: first, method: raster.Nearest,
		formula: "T/(1 + (11·T/14387.7)·ln ε), by day and by night",
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			day, night := in[0].Like(), in[0].Like()
			pixel.Emitted(day.Data, in[0].Data, in[2].Data, modisTIR)
			pixel.Emitted(night.Data, in[1].Data, in[3].Data, modisTIR)
			return &frame{grids: []*raster.Grid{day, night, in[0], in[1], in[2], in[3]}, bands: dayNightBands, empty: notEmiss}, nil
		},
		public: publicDayNight,
	},
	"ttm_lst": {
		inputs: []input{{param: "tir_band_paths", symbol: "T", list: true}},
		output: "output_path", verb: saved,
		formula: "mean over the bands of T/(1 + (λ·T/14387.7)·ln 0.95)",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			w, err := c.series("wavelengths")
			if err != nil {
				return nil, err
			}
			if len(in) != 3 {
				return nil, badArgument("tir_band_paths", "the method needs 3 bands, got %d", len(in))
			}
			if len(w) != len(in) {
				return nil, badArgument("wavelengths", "%d wavelengths for %d bands", len(w), len(in))
			}
			for i, v := range w {
				if v < 3 || v > 20 {
					return nil, badArgument(fmt.Sprintf("wavelengths/%d", i), "%g µm is no thermal wavelength; give 3 to 20", v)
				}
			}
			pixel.GreyBody(in[0].Data, pixelsOf(in), w, greyEmissivity)
			f := one(in[0], "LST", "K")
			f.empty = notKelvin
			f.warnings = []string{"an emissivity of 0.95 is assumed in all bands"}
			return f, nil
		},
		public: publicGreyBody,
	},
	"ATI": {
		inputs: []input{{param: "day_temp_path", symbol: "Td"}, {param: "night_temp_path", symbol: "Tn"}, {param: "albedo_path", symbol: "A"}},
		output: "output_path", verb: saved, like: first, method: raster.Bilinear, formula: "(1-A)/(Td-Tn)",
		correct: func(_ *Call, in []*raster.Grid) (*frame, error) {
			pixel.Inertia(in[0].Data, in[0].Data, in[1].Data, in[2].Data)
			f := one(in[0], "ATI", "1/K")
			f.empty = "no pixel has an albedo of 0 … 1 and a day warmer than its night; scale stored numbers first (MODIS albedo: 0.001)"
			return f, nil
		},
		public: publicInertia,
	},
	"calculate_water_turbidity_ntu": {
		inputs: []input{{param: "input_red_path", symbol: "R"}},
		output: "output_path", verb: saved, formula: "linear: a·R+b; power: a·R^n+b; log: a·ln(R)+b; not below 0",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			m := pixel.Turbidity{Method: c.text("method"), A: c.float("a"), B: c.float("b"), N: c.float("n")}
			m.NTU(in[0].Data, in[0].Data)
			return one(in[0], "turbidity", "NTU"), nil
		},
		public: publicTurbidity,
	},
}

// modisTIR is the wavelength, in µm, of MODIS band 31; greyEmissivity is that of
// the three-band method, which cannot tell it.
const (
	modisTIR       = 11.0
	greyEmissivity = 0.95
)

var dayNightBands = []raster.BandSpec{
	{Description: "LST_day", Unit: "K"}, {Description: "LST_night", Unit: "K"}, {Description: "BT_day", Unit: "K"},
	{Description: "BT_night", Unit: "K"}, {Description: "Emis_day", Unit: "1"}, {Description: "Emis_night", Unit: "1"},
}

func pixelsOf(in []*raster.Grid) [][]float32 {
	out := make([][]float32, len(in))
	for i, g := range in {
		out[i] = g.Data
	}
	return out
}

// separate is temperature and emissivity separation of ASTER's thermal bands.
func separate(c *Call, in []*raster.Grid) (*frame, error) {
	keep, err := c.int("representative_band_index")
	if err != nil {
		return nil, err
	}
	if keep >= len(in) {
		return nil, badArgument("representative_band_index", "%d bands have the indexes 0 to %d, got %d", len(in), len(in)-1, keep)
	}
	w, err := asterWavelengths(c, len(in))
	if err != nil {
		return nil, err
	}
	lst, emissivity, mmd := in[0].Like(), in[0].Like(), in[0].Like()
	pixel.TES(lst.Data, emissivity.Data, mmd.Data, pixelsOf(in), w, keep)
	return &frame{
		grids:    []*raster.Grid{lst, emissivity, mmd},
		bands:    []raster.BandSpec{{Description: "LST", Unit: "K"}, {Description: "emissivity", Unit: "1"}, {Description: "MMD", Unit: "1"}},
		empty:    notKelvin,
		warnings: []string{"the irradiance of the sky is not corrected for: the contrast of emissivities is too low under humid air"},
	}, nil
}

// asterBand finds the band number in the name of an ASTER thermal file.
var asterBand = regexp.MustCompile(`(?i)(?:^|[^0-9])(?:BT|B|band|TIR)[-_ ]?(1[0-4])(?:[^0-9]|$)`)

// asterWavelengths gives the wavelength of each band by the number in its file's
// name, else by its place, from band 10 on.
func asterWavelengths(c *Call, n int) ([]float64, error) {
	if n < 3 || n > len(pixel.ASTERThermal) {
		return nil, badArgument("tir_band_paths", "the method needs 3 to %d ASTER bands, got %d", len(pixel.ASTERThermal), n)
	}
	w := make([]float64, n)
	for i := range w {
		band := 10 + i
		if m := asterBand.FindStringSubmatch(c.Args.Get("tir_band_paths").Index(i).Text()); m != nil {
			band, _ = strconv.Atoi(m[1])
		}
		w[i] = pixel.ASTERThermal[band-10]
	}
	for i := range w {
		for k := range i {
			if w[i] == w[k] {
				return nil, badArgument(fmt.Sprintf("tir_band_paths/%d", i), "it is the same band as item %d", k)
			}
		}
	}
	return w, nil
}

// meanLSTByNDVI is the mean temperature of the pixels on one side of an NDVI
// threshold, over all scenes together; maxLSTByNDVI is the highest of one scene.
func meanLSTByNDVI(c *Call) (Result, error) {
	return lstByNDVI(c, [3]string{"red_paths", "nir_paths", "lst_paths"}, false)
}

func maxLSTByNDVI(c *Call) (Result, error) {
	return lstByNDVI(c, [3]string{"red_path", "nir_path", "lst_path"}, true)
}

func lstByNDVI(c *Call, params [3]string, highest bool) (Result, error) {
	lists, err := equalLists(c, params[:]...)
	if err != nil {
		return Result{}, err
	}
	if c.public() {
		return publicLSTByNDVI(c, lists, params, highest)
	}
	t, below := c.float("ndvi_threshold"), c.text("mode") == "below"
	e := Evidence{Formula: "statistic of T where NDVI = (N-R)/(N+R) is on the given side of the threshold (at it: above)", Nodes: make([]Node, len(lists[0]))}
	sums := make([]raster.Stats, len(lists[0]))
	notes := make([]Evidence, len(lists[0]))
	err = c.each(len(lists[0]), func(i int) error {
		var refs []ref
		for k, p := range params {
			refs = append(refs, ref{fmt.Sprintf("%s/%d", p, i), lists[k][i], 1})
		}
		l, err := c.layers(0, refs...)
		if err != nil {
			return err
		}
		defer l.close()
		if err := c.match(l, refs); err != nil {
			return err
		}
		red, nir, lst := l.grids[0].Data, l.grids[1].Data, l.grids[2].Data
		for k := range lst {
			n, r := float64(nir[k]), float64(red[k])
			ndvi := (n - r) / (n + r)
			if math.IsInf(ndvi, 0) || !(ndvi < t == below && ndvi == ndvi) {
				lst[k] = raster.NaN()
			}
		}
		sums[i] = raster.Summarize(lst)
		for k, f := range l.files {
			notes[i].Bands = append(notes[i].Bands, BandUse{[]string{"R", "N", "T"}[k], f.Name, 1})
			notes[i].masks(f)
			notes[i].scaled(f, 1)
		}
		e.Nodes[i] = node(l.files[2].Name, sums[i].Mean(), int(sums[i].Valid), len(lst), "no valid pixel is on that side of the NDVI threshold")
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	var all raster.Stats
	for i, s := range sums {
		all.Merge(s)
		e.Bands = append(e.Bands, notes[i].Bands...)
		e.Masks = notes[i].Masks
		for _, w := range notes[i].Warnings {
			e.warn("%s", w)
		}
	}
	e.Used, e.Missing = int(all.Valid), int(all.Total-all.Valid)
	if all.Valid == 0 {
		return insufficient(e, "no valid pixel has an NDVI %s %g", c.text("mode"), t), nil
	}
	v := all.Mean()
	if highest {
		v = all.Max
	}
	return numbered(v, e)
}
