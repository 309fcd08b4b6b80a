package tools

import (
	"math"
	"unicode/utf8"

	"terraloom/agent/tools/series"
	"terraloom/data/strictjson"
)

// The faults of the public kit, given under Compat EarthAgent. Among the pure
// tools, those of one line stand in the tool itself, under c.public():
//
//	division                    a = 0 gives Infinity
//	coefficient_of_variation    a zero mean, or too few values, gives NaN
//	calculate_bbox_area         boxes are read as [x, y, w, h]
//	detect_change_points        only multiples of 5 can be change points
//	detect_seasonality_acf      any lag counts, not only a peak, so a trend has period 2
//	autocorrelation_function    the default nlags fails on short series
//
// and the others below. Of all raster tools:
//
//	fill values and masks       are measurements, but where this list says otherwise; NaN and infinities are left out by some
//	arithmetic                  is in the file's own precision, sums in NumPy's order (compat_numpy.go)
//	no valid pixel              gives NaN, 0 or a raster of NaN as a success
//	lists of unequal length     end at the shortest
//	grids                       need equal sizes only; place and coordinate system may differ
//
// and, in compat_index.go, compat_inversion.go and compat_images.go:
//
//	indices                     1e-6 in every denominator; tag -9999
//	calculate_batch_ndsi        always multiplies by 1e-4; other sizes are brought to the smaller, the georeference is not
//	calculate_batch_frp         tags 0 as nodata, which hides all pixels without fire
//	compute_tvdi                multiplies by MODIS's 1e-4 and 0.02; the highest NDVI is in no interval
//	calc_extreme_snow_loss_…    a map of 0 and 255 has no loss
//	band_ratio                  0 or infinity where a reflectance is missing
//	lst_single_channel          0 is a temperature
//	split_window                emissivities are always unpacked; the coefficients of the difference of the bands multiply the temperature
//	temperature_emissivity_…    the range of the temperatures stands for that of the emissivities
//	modis_day_night_lst         270 to 325 K only; emissivities are always unpacked; sampled at pixel corners
//	ttm_lst                     weights 0.3, 0.3, 0.4 plus 2 K; the wavelengths are not used
//	ATI                         any number is an albedo; warm nights give 0; resampled by pixel numbers
//	calculate_mean_lst_by_ndvi  scenes that cannot be read are left out
//	calc_batch_image_…          all bands together, whatever they hold; skewness is NaN with a NaN
//	calc_threshold_value_mean   pairs by YYYY_MM_DD_HHMM only; the second image counts between 0 and 1 only
//	calc_batch_image_hotspot_tif, subtract, calculate_tif_difference   repeat the output folder in their messages
//	threshold_segmentation      keeps the nodata tag of the input, which bytes may not hold: it fails
//	calculate_multi_band_threshold_ratio   the first band alone decides what is valid
//	image_division_mean         the bands of two images are always their first
//	calculate_area              counts samples, NaN too, not pixels
//	count_skeleton_contours     a mask of 0 and 1 is empty
//	calculate_tif_average       one missing value makes the place missing
//	radiometric_correction_sr   fill becomes -0.2
//	getis_ord_gi_star           missing data and the outside are 0; the weights are turned round
//	analyze_hotspot_direction   votes about pixel (w/2, h/2); diagonals count east or west; ties go north, south, east, west
//
// Microwave retrievals, turbidity and the index of vegetation cover differ in
// nothing but fill values and precision.

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
