package tools

import (
	"fmt"

	"terraloom/agent/tools/series"
	"terraloom/data/strictjson"
)

// computeLinearTrend is [slope, intercept] of the least-squares line.
func computeLinearTrend(c *Call) (Result, error) {
	y, err := c.series("y")
	if err != nil {
		return Result{}, err
	}
	x := make([]float64, len(y))
	for i := range x {
		x[i] = float64(i)
	}
	if c.Args.Get("x").Kind() != strictjson.Null {
		if x, err = c.series("x"); err != nil {
			return Result{}, err
		}
		if len(x) != len(y) {
			return Result{}, badArgument("x", "%d positions for %d values; give one position per value", len(x), len(y))
		}
	}
	line, err := series.LinearFit(x, y)
	if err != nil && c.public() {
		line, err = publicLine(x, y), nil
	}
	if err != nil {
		return Result{}, seriesError(err)
	}
	if !allFinite(line.Slope, line.Intercept) {
		return Result{}, undefined("the result is beyond 64-bit range")
	}
	var warnings []string
	if len(y) == 2 {
		warnings = append(warnings, "two values always lie on a line; the slope says nothing about a trend")
	}
	return Result{
		Value:    strictjson.List(strictjson.Float(line.Slope), strictjson.Float(line.Intercept)),
		Evidence: Evidence{Used: len(y), Warnings: warnings},
	}, nil
}

// smallSample is the length below which the normal approximation of the
// Mann-Kendall test is poor (Gilbert 1987, table A18 ends at 10).
const smallSample = 10

// mannKendallTest is [trend, p, z, tau].
func mannKendallTest(c *Call) (Result, error) {
	x, err := c.series("x")
	if err != nil {
		return Result{}, err
	}
	if err := fewEnoughForPairs("x", len(x)); err != nil {
		return Result{}, err
	}
	t, err := series.MannKendall(x)
	if err != nil {
		return Result{}, seriesError(err)
	}
	var warnings []string
	if len(x) < smallSample {
		warnings = append(warnings, fmt.Sprintf("only %d values: the p-value is approximate below %d", len(x), smallSample))
	}
	return Result{
		Value:    strictjson.List(strictjson.Text(t.Direction()), strictjson.Float(t.P), strictjson.Float(t.Z), strictjson.Float(t.Tau)),
		Evidence: Evidence{Used: len(x), Warnings: warnings},
	}, nil
}

// maxSenValues bounds sens_slope, which returns all n(n-1)/2 slopes.
const maxSenValues = 2000

// sensSlope is [median of the pairwise slopes, the slopes].
func sensSlope(c *Call) (Result, error) {
	x, err := c.series("x")
	if err != nil {
		return Result{}, err
	}
	if len(x) < 2 {
		return Result{}, undefined("a slope needs at least 2 values, got %d", len(x))
	}
	if len(x) > maxSenValues {
		return Result{}, badArgument("x", "%d values would return %d slopes; aggregate to at most %d values first", len(x), len(x)*(len(x)-1)/2, maxSenValues)
	}
	slopes := series.PairwiseSlopes(x)
	median, err := series.Median(slopes)
	if err != nil {
		return Result{}, seriesError(err)
	}
	if !allFinite(slopes...) || !allFinite(median) {
		return Result{}, undefined("the result is beyond 64-bit range")
	}
	return Result{
		Value:    strictjson.List(strictjson.Float(median), floats(slopes)),
		Evidence: Evidence{Used: len(x)},
	}, nil
}
