package tools

import (
	"terraloom/agent/tools/series"
	"terraloom/data/strictjson"
)

func meanOf(c *Call) (Result, error) {
	x, err := c.series("x")
	if err != nil {
		return Result{}, err
	}
	m, err := series.Mean(x)
	return statistic(m, err, len(x))
}

// coefficientOfVariation is the standard deviation over the mean.
func coefficientOfVariation(c *Call) (Result, error) {
	x, err := c.series("x")
	if err != nil {
		return Result{}, err
	}
	ddof, err := c.int("ddof")
	if err != nil {
		return Result{}, err
	}
	v, err := series.Variation(x, ddof)
	if err != nil && c.public() {
		return publicText("NaN", len(x))
	}
	var warnings []string
	if v < 0 {
		warnings = append(warnings, "the mean is negative, and so is the coefficient")
	}
	return statistic(v, err, len(x), warnings...)
}

// skewness is g1, or G1 with bias=false.
func skewness(c *Call) (Result, error) {
	x, err := c.series("x")
	if err != nil {
		return Result{}, err
	}
	bias := c.bool("bias")
	if c.public() {
		return number(publicSkewness(x, bias), len(x))
	}
	v, err := series.Skewness(x, !bias)
	return statistic(v, err, len(x))
}

// kurtosis is g2, or G2 with bias=false; 3 more without fisher.
func kurtosis(c *Call) (Result, error) {
	x, err := c.series("x")
	if err != nil {
		return Result{}, err
	}
	bias, fisher := c.bool("bias"), c.bool("fisher")
	if c.public() {
		return number(publicKurtosis(x, bias, fisher), len(x))
	}
	v, err := series.ExcessKurtosis(x, !bias)
	if !fisher {
		v += 3
	}
	return statistic(v, err, len(x))
}

func maxValueAndIndex(c *Call) (Result, error) { return extreme(c, false) }
func minValueAndIndex(c *Call) (Result, error) { return extreme(c, true) }

// extreme is [value, index], the first of equal values.
func extreme(c *Call, smallest bool) (Result, error) {
	x, err := c.series("x")
	if err != nil {
		return Result{}, err
	}
	i, err := series.Extreme(x, smallest)
	if err != nil {
		return Result{}, seriesError(err)
	}
	return Result{
		Value:    strictjson.List(strictjson.Float(x[i]), strictjson.Int(i)),
		Evidence: Evidence{Used: len(x)},
	}, nil
}
