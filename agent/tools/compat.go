package tools

import (
	"math"
	"unicode/utf8"

	"terraloom/agent/tools/series"
	"terraloom/data/strictjson"
)

// The faults of the public kit among the pure tools, given under Compat EarthAgent.
// Those of one line stand in the tool itself, under c.public():
//
//	division                    a = 0 gives Infinity
//	coefficient_of_variation    a zero mean, or too few values, gives NaN
//	calculate_bbox_area         boxes are read as [x, y, w, h]
//	detect_change_points        only multiples of 5 can be change points
//	detect_seasonality_acf      any lag counts, not only a peak, so a trend has period 2
//	autocorrelation_function    the default nlags fails on short series
//
// and the others below.

// publicText is an observation that is not a JSON number, spelt as the kit's server spells it.
func publicText(s string, used int) (Result, error) {
	return Result{Value: strictjson.Text(s), Evidence: Evidence{Used: used, Warnings: []string{"the result is undefined"}}}, nil
}

// unbound are the tools whose parameters the kit leaves untyped.
var unbound = map[string]func(strictjson.Value) (Result, bool, error){
	"multiply":                    publicMultiply,
	"get_list_object_via_indexes": publicPick,
}

// publicMultiply refuses numbers given as text, which the kit does not convert.
func publicMultiply(args strictjson.Value) (Result, bool, error) {
	for _, param := range []string{"a", "b"} {
		if v := args.Get(param); v.Kind() == strictjson.String {
			return Result{}, true, badArgument(param, "expected a number, got the text %q", v.Text())
		}
	}
	return Result{}, false, nil
}

// publicPick indexes the characters of a list given as text.
func publicPick(args strictjson.Value) (Result, bool, error) {
	list, indexes := args.Get("input_list"), args.Get("indexes")
	if list.Kind() != strictjson.String || indexes.Kind() != strictjson.Array {
		return Result{}, false, nil
	}
	for i := range indexes.Len() {
		if !indexes.Index(i).IsInteger() {
			return Result{}, false, nil // Bind says what is wrong
		}
	}
	chars := []rune(list.Text())
	picked, err := pick(utf8.RuneCountInString(list.Text()), func(i int) strictjson.Value { return strictjson.Text(string(chars[i])) }, indexes)
	return Result{Value: picked, Evidence: Evidence{Used: picked.Len()}}, true, err
}

// publicSkewness corrects twice for bias: by the divisor n-1 and by the factor of
// G1. Equal values have skewness 0.
func publicSkewness(x []float64, bias bool) float64 {
	g1, err := series.Skewness(x, false)
	if err != nil {
		return 0
	}
	n := float64(len(x))
	if bias {
		return g1
	}
	v := g1 * math.Pow((n-1)/n, 1.5)
	if n > 2 {
		v *= math.Sqrt(n*(n-1)) / (n - 2)
	}
	return v
}

// publicKurtosis subtracts 3 from what bias=false has already made an excess.
// Equal values have kurtosis 0.
func publicKurtosis(x []float64, bias, fisher bool) float64 {
	v, err := series.ExcessKurtosis(x, !bias)
	if _, spread := series.Moment(x, 4); spread != nil {
		return 0
	}
	switch {
	case bias:
		v += 3
	case err != nil: // fewer than four values: m4/s⁴ with the divisor n-1
		b2, _ := series.Moment(x, 4)
		n := float64(len(x))
		v = b2 * math.Pow((n-1)/n, 2)
	}
	if fisher {
		v -= 3
	}
	return v
}

// publicLine is the minimum-norm solution where all positions are equal:
// (slope, intercept) = mean(y)/(x²+1) · (x, 1).
func publicLine(x, y []float64) series.Line {
	m, _ := series.Mean(y)
	scale := m / (x[0]*x[0] + 1)
	return series.Line{Slope: scale * x[0], Intercept: scale}
}

// publicJump is the grid of change points of the kit's PELT.
const publicJump = 5

// publicSpike compares in single precision; the threshold stays double.
func publicSpike(from, to, threshold strictjson.Value) bool {
	a, _ := from.Float()
	b, _ := to.Float()
	t, _ := threshold.Float()
	return float64(float32(b)-float32(a)) > t
}

// publicSinglePoint is the kit's answer for one point: no pair, infinite distances.
func publicSinglePoint() Result {
	triple := func(d string) strictjson.Value {
		return strictjson.List(strictjson.Int(0), strictjson.Int(0), strictjson.Text(d))
	}
	return Result{
		Value: strictjson.Obj(
			strictjson.Member{Key: "min", Value: triple("Infinity")},
			strictjson.Member{Key: "max", Value: triple("-Infinity")},
		),
		Evidence: Evidence{Used: 1, Warnings: []string{"one point has no distance to another"}},
	}
}
