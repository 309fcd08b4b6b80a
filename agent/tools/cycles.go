package tools

import (
	"fmt"
	"math/big"

	"terraloom/agent/tools/series"
	"terraloom/data/strictjson"
)

// Bounds on the work of one call.
const (
	maxSTLWork      = 4_000_000   // values times period
	maxLagWork      = 100_000_000 // values times lags
	maxChangeValues = 10_000      // time grows with n²
	maxSortedValues = 2_000       // l1 and rbf, dearer per step; rbf needs n²/2 numbers of memory
)

// stlDecompose is {trend, seasonal, resid}, three lists as long as x.
func stlDecompose(c *Call) (Result, error) {
	x, err := c.series("x")
	if err != nil {
		return Result{}, err
	}
	period, err := c.int("period")
	if err != nil {
		return Result{}, err
	}
	if len(x) < 2*period {
		return Result{}, badArgument("period", "two whole periods of %d need %d values, got %d; give a longer series or a shorter period", period, 2*period, len(x))
	}
	if len(x)*period > maxSTLWork {
		return Result{}, badArgument("x", "%d values of period %d are too many; aggregate first", len(x), period)
	}
	d, err := series.STL(x, period, c.bool("robust"))
	if err != nil {
		return Result{}, seriesError(err)
	}
	if !allFinite(d.Trend...) || !allFinite(d.Seasonal...) || !allFinite(d.Residual...) {
		return Result{}, undefined("the result is beyond 64-bit range")
	}
	return Result{
		Value: strictjson.Obj(
			strictjson.Member{Key: "trend", Value: floats(d.Trend)},
			strictjson.Member{Key: "seasonal", Value: floats(d.Seasonal)},
			strictjson.Member{Key: "resid", Value: floats(d.Residual)},
		),
		Evidence: Evidence{Used: len(x)},
	}, nil
}

// detectChangePoints is the list of segment ends, the last being the length.
func detectChangePoints(c *Call) (Result, error) {
	x, err := c.series("signal")
	if err != nil {
		return Result{}, err
	}
	model := series.Cost(c.text("model"))
	limit := maxChangeValues
	if model != series.L2 {
		limit = maxSortedValues
	}
	if len(x) > limit {
		return Result{}, badArgument("signal", "%d values; at most %d with model %q: aggregate first", len(x), limit, model)
	}
	jump := 1
	if c.public() {
		jump = publicJump
	}
	ends, err := series.ChangePoints(x, model, c.float("penalty"), jump)
	if err != nil {
		return Result{}, seriesError(err)
	}
	items := make([]strictjson.Value, len(ends))
	for i, e := range ends {
		items[i] = strictjson.Int(e)
	}
	return Result{Value: strictjson.List(items...), Evidence: Evidence{Used: len(x)}}, nil
}

// autocorrelationFunction is the list of autocorrelations at the lags 0 … nlags.
// Without nlags it ends at the last lag that the series has.
func autocorrelationFunction(c *Call) (Result, error) {
	x, err := c.series("x")
	if err != nil {
		return Result{}, err
	}
	lags, err := c.int("nlags")
	if err != nil {
		return Result{}, err
	}
	var warnings []string
	if lags >= len(x) {
		if lags != defaultLags || c.public() {
			return Result{}, badArgument("nlags", "%d values have no lag above %d", len(x), len(x)-1)
		}
		lags = len(x) - 1
		warnings = append(warnings, fmt.Sprintf("%d values: lags end at %d", len(x), lags))
	}
	if len(x)*lags > maxLagWork {
		return Result{}, badArgument("nlags", "%d lags of %d values are too many; ask for at most %d", lags, len(x), maxLagWork/len(x))
	}
	acf, err := series.Autocorrelation(x, lags)
	if err != nil {
		return Result{}, seriesError(err)
	}
	if !allFinite(acf...) {
		return Result{}, undefined("the result is beyond 64-bit range")
	}
	return Result{Value: floats(acf), Evidence: Evidence{Used: len(x), Warnings: warnings}}, nil
}

// defaultLags is the catalogue's default of nlags.
const defaultLags = 20

// notCyclical is the observation of detect_seasonality_acf when there is no period.
const notCyclical = "Data is not cyclical"

// detectSeasonality is the dominant period, or the text notCyclical.
func detectSeasonality(c *Call) (Result, error) {
	x, err := c.series("values")
	if err != nil {
		return Result{}, err
	}
	find := series.DominantPeriod
	if c.public() {
		find = series.StrongestLag
	}
	value := strictjson.Text(notCyclical)
	if period := find(x, c.float("min_acf")); period > 0 {
		value = strictjson.Int(period)
	}
	var warnings []string
	if len(x) < 6 {
		warnings = append(warnings, fmt.Sprintf("%d values are too few to see a period; six is the least", len(x)))
	}
	return Result{Value: value, Evidence: Evidence{Used: len(x), Warnings: warnings}}, nil
}

// countSpikes counts rises above the threshold between consecutive values that
// are not null. Values and threshold are compared as the decimals they are
// written as, so that 0.78 to 0.83 is not a rise above 0.05.
func countSpikes(c *Call) (Result, error) {
	values := c.Args.Get("values")
	threshold := c.Args.Get("spike_threshold")
	exceeds := func(from, to strictjson.Value) bool {
		rise := new(big.Rat).Sub(decimal(to), decimal(from))
		return rise.Cmp(decimal(threshold)) > 0
	}
	if c.public() {
		exceeds = func(from, to strictjson.Value) bool { return publicSpike(from, to, threshold) }
	}
	var e Evidence
	spikes := 0
	var last strictjson.Value
	for i := range values.Len() {
		v := values.Index(i)
		if v.Kind() == strictjson.Null {
			e.Missing++
			continue
		}
		if !last.IsAbsent() && exceeds(last, v) {
			spikes++
		}
		last = v
		e.Used++
	}
	if e.Used < 2 {
		e.Warnings = append(e.Warnings, fmt.Sprintf("only %d valid values: no step to look at", e.Used))
	}
	return Result{Value: strictjson.Int(spikes), Evidence: e}, nil
}

// decimal is the exact value of a number literal. Literals that a float64 reads
// as 0 count as 0: their exponent may be too long to expand.
func decimal(v strictjson.Value) *big.Rat {
	r := new(big.Rat)
	if f, _ := v.Float(); f != 0 {
		r.SetString(v.Text())
	}
	return r
}
