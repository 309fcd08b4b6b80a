package tools

import (
	"fmt"
	"slices"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
)

// The microwave retrievals are linear models whose coefficients the public kit
// sets; what they lack of physics is not corrected here.

// differenceModel is a retrieval from weighted differences.
type differenceModel struct {
	weights []float64
	offset  float64
}

var (
	multiFrequency = map[string]differenceModel{
		"SM": {[]float64{0.6, 0.4}, 0.05}, "VWC": {[]float64{0.5, 0.5}, 0.1}, "LAI": {[]float64{0.7, 0.3}, 0},
	}
	chang = map[string]differenceModel{
		"SM": {[]float64{0.65, 0.3, 0.1}, 0.02}, "VWC": {[]float64{0.5, 0.4, 0.2}, 0.05},
	}
	polarizationRatio = map[string][2]float64{"VWC": {15, 5}, "SM": {0.4, 0.1}}
)

var microwave = map[string]*product{
	"dual_polarization_differential": {
		inputs: []input{{param: "pol1_path", symbol: "p1"}, {param: "pol2_path", symbol: "p2"}},
		output: "output_path", verb: saved, formula: "soil_moisture: a(p1-p2)+b; vegetation_index: (p1-p2)/(p1+p2); of power, dB as 10^(x/10)",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			a, b, db, moisture := c.float("a"), c.float("b"), c.text("input_unit") == "dB", c.text("parameter") == "soil_moisture"
			pixel.Map2(in[0].Data, in[0].Data, in[1].Data, func(p, q float64) float64 {
				if db {
					p, q = pixel.Linear(p), pixel.Linear(q)
				}
				switch {
				case !(p > 0 && q > 0):
					return float64(raster.NaN())
				case moisture:
					return a*(p-q) + b
				}
				return (p - q) / (p + q)
			})
			return one(in[0], c.text("parameter"), "1"), nil
		},
		public: publicPolarDifference,
	},
	"dual_frequency_diff": {
		inputs: []input{{param: "band1_path", symbol: "f1"}, {param: "band2_path", symbol: "f2"}},
		output: "output_path", verb: saved, formula: "alpha(f1-f2)+beta, cut to 0 … 1",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			alpha, beta := c.float("alpha"), c.float("beta")
			diff, value := in[0].Like(), in[0].Like()
			pixel.Map2(diff.Data, in[0].Data, in[1].Data, func(a, b float64) float64 { return a - b })
			pixel.WeightedSum(value.Data, pixelsOf(in), []float64{alpha}, beta)
			return &frame{grids: []*raster.Grid{diff, value}, bands: []raster.BandSpec{{Description: "difference"}, {Description: c.text("parameter")}}}, nil
		},
		public: publicFrequencies, masked: true,
	},
	"multi_freq_bt":                weighted(multiFrequency),
	"chang_single_param_inversion": weighted(chang),
	"nasa_team_sea_ice_concentration": {
		inputs: []input{{param: "bt_paths", key: "19V", symbol: "19V"}, {param: "bt_paths", key: "19H", symbol: "19H"},
			{param: "bt_paths", key: "37V", symbol: "37V"}, {param: "bt_paths", key: "37H", symbol: "37H"}},
		output: "output_path", verb: saved,
		formula: "mean of ((19V-19H)-nd_water)/(nd_ice-nd_water) and ((37V-37H)-s1_water)/(s1_ice-s1_water), cut to 0 … 1",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			w19, i19, w37, i37 := c.float("nd_water"), c.float("nd_ice"), c.float("s1_water"), c.float("s1_ice")
			if w19 == i19 {
				return nil, badArgument("nd_ice", "it equals nd_water, so ice and water cannot be told apart")
			}
			if w37 == i37 {
				return nil, badArgument("s1_ice", "it equals s1_water, so ice and water cannot be told apart")
			}
			pixel.SeaIce(in[0].Data, in[0].Data, in[1].Data, in[2].Data, in[3].Data, w19, i19, w37, i37)
			f := one(in[0], "ice concentration", "1")
			if i19 > w19 || i37 > w37 {
				f.warnings = []string{"the tie points make ice more polarised than water; in nature it is the other way round, so give those of the sensor"}
			}
			return f, nil
		},
		public: publicSeaIce,
	},
	"dual_polarization_ratio": {
		inputs: []input{{param: "bt_paths", key: "V", symbol: "V"}, {param: "bt_paths", key: "H", symbol: "H"}},
		output: "output_path", verb: saved, formula: "a·PR+b, PR = (V-H)/(V+H)",
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			a, b, err := ratioCoefficients(c)
			if err != nil {
				return nil, err
			}
			ratio, value := in[0].Like(), in[0].Like()
			pixel.Map2(ratio.Data, in[0].Data, in[1].Data, func(v, h float64) float64 {
				if !(v > 0 && h > 0) {
					return float64(raster.NaN())
				}
				return pixel.PolarizationRatio(v, h)
			})
			pixel.Map(value.Data, ratio.Data, func(r float64) float64 { return a*r + b })
			return &frame{grids: []*raster.Grid{value, ratio}, bands: []raster.BandSpec{{Description: c.text("parameter")}, {Description: "PR", Unit: "1"}}}, nil
		},
		public: publicPolarRatio,
	},
}

var btList = []input{{param: "bt_paths", symbol: "T", list: true}}

// weighted is a retrieval from differences of the bands that diff_pairs names. A
// band without a place in the pairs can mask too.
func weighted(models map[string]differenceModel) *product {
	return &product{
		inputs: btList, output: "output_path", verb: saved, formula: "Σ α(Ti-Tj)+β, cut to 0 … 1", masked: true,
		correct: func(c *Call, in []*raster.Grid) (*frame, error) {
			m := models[c.text("parameter")]
			pairs, err := c.pairs(in, len(m.weights))
			if err != nil {
				return nil, err
			}
			out := in[0].Like()
			pixel.WeightedSum(out.Data, pixelsOf(pairs), m.weights, m.offset)
			maskAll(out, in)
			return one(out, c.text("parameter"), ""), nil
		},
		public: func(c *Call, in []*raster.Grid) (*frame, error) {
			m := models[c.text("parameter")]
			pairs, err := c.pairs(in, len(m.weights))
			if err != nil {
				return nil, err
			}
			return publicWeighted(in, pairs, m), nil
		},
	}
}

// maskAll makes a pixel invalid that is so in any of the grids.
func maskAll(out *raster.Grid, in []*raster.Grid) {
	for i := range out.Data {
		if slices.ContainsFunc(in, func(g *raster.Grid) bool { return !raster.Finite(g.Data[i]) }) {
			out.Data[i] = raster.NaN()
		}
	}
}

// pairs are the grids that diff_pairs names, two for each of n differences.
func (c *Call) pairs(in []*raster.Grid, n int) ([]*raster.Grid, error) {
	list := c.Args.Get("diff_pairs")
	if list.Len() != n {
		return nil, badArgument("diff_pairs", "the model has %d differences, got %d pairs", n, list.Len())
	}
	var out []*raster.Grid
	for i := range n {
		p := list.Index(i)
		if p.Len() != 2 {
			return nil, badArgument(fmt.Sprintf("diff_pairs/%d", i), "expected a pair of indexes, got %d numbers", p.Len())
		}
		for k := range 2 {
			f, _ := p.Index(k).Float()
			if f < 0 || f >= float64(len(in)) {
				return nil, badArgument(fmt.Sprintf("diff_pairs/%d/%d", i, k), "%s is outside the %d bands of bt_paths; use 0 to %d", p.Index(k).Text(), len(in), len(in)-1)
			}
			out = append(out, in[int(f)])
		}
	}
	return out, nil
}

func ratioCoefficients(c *Call) (a, b float64, err error) {
	k := polarizationRatio[c.text("parameter")]
	own := c.Args.Get("coeffs").Get(c.text("parameter"))
	if c.Args.Get("coeffs").Len() > 0 && own.Len() == 0 {
		return 0, 0, badArgument("coeffs", "it has no coefficients of %q", c.text("parameter"))
	}
	for i, key := range []string{"a", "b"} {
		if v := own.Get(key); own.Len() > 0 {
			f, ok := v.Float()
			if !ok {
				return 0, 0, badArgument("coeffs/"+c.text("parameter"), "it lacks the number %q", key)
			}
			k[i] = f
		}
	}
	return k[0], k[1], nil
}
