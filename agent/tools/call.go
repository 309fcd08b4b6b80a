package tools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"terraloom/agent/tools/series"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Call is one tool call as its function sees it.
type Call struct {
	Context context.Context
	Args    strictjson.Value // bound: canonical keys, declared types, defaults filled in
	Compat  Compat

	tool *catalogue.Tool
	env  *environment
}

// public reports whether the public kit's faults are wanted.
func (c *Call) public() bool { return c.Compat == EarthAgent }

func (c *Call) float(param string) float64 {
	f, _ := c.Args.Get(param).Float()
	return f
}

// int is an integer argument; one beyond 32 bits is an error.
func (c *Call) int(param string) (int, error) {
	f := c.float(param)
	if math.Abs(f) > math.MaxInt32 {
		return 0, badArgument(param, "%s is too large", c.Args.Get(param).Text())
	}
	return int(f), nil
}

func (c *Call) bool(param string) bool { return c.Args.Get(param).True() }

func (c *Call) text(param string) string { return c.Args.Get(param).Text() }

// series is a list of numbers that must not be empty.
func (c *Call) series(param string) ([]float64, error) {
	list := c.Args.Get(param)
	if list.Len() == 0 {
		return nil, badArgument(param, "the list is empty; give at least one number")
	}
	x := make([]float64, list.Len())
	for i := range x {
		x[i], _ = list.Index(i).Float()
		if math.Abs(x[i]) > maxMagnitude {
			return nil, badArgument(fmt.Sprintf("%s/%d", param, i), "%s is too large for statistics in 64 bits; rescale", list.Index(i).Text())
		}
	}
	return x, nil
}

// maxMagnitude keeps squares of differences finite.
const maxMagnitude = 1e150

// points is a list of lists of exactly dim numbers, and not empty.
func (c *Call) points(param string, dim int, form string) ([][]float64, error) {
	list := c.Args.Get(param)
	if list.Len() == 0 {
		return nil, badArgument(param, "the list is empty; give at least one %s", form)
	}
	points := make([][]float64, list.Len())
	for i := range points {
		item := list.Index(i)
		if item.Len() != dim {
			return nil, badArgument(fmt.Sprintf("%s/%d", param, i), "expected %s, got %d numbers", form, item.Len())
		}
		points[i] = make([]float64, dim)
		for k := range dim {
			points[i][k], _ = item.Index(k).Float()
		}
	}
	return points, nil
}

// maxPairValues bounds the tools that look at every pair of values.
const maxPairValues = 20_000

func fewEnoughForPairs(param string, n int) error {
	if n > maxPairValues {
		return badArgument(param, "%d items have too many pairs; give at most %d", n, maxPairValues)
	}
	return nil
}

// number is the result of an arithmetic step on used values; it must be finite.
func number(f float64, used int, warnings ...string) (Result, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return Result{}, undefined("the result is beyond 64-bit range")
	}
	return Result{Value: strictjson.Float(f), Evidence: Evidence{Used: used, Warnings: warnings}}, nil
}

// statistic is number for a series function.
func statistic(f float64, err error, used int, warnings ...string) (Result, error) {
	if err != nil {
		return Result{}, seriesError(err)
	}
	return number(f, used, warnings...)
}

// seriesError turns the errors of package series into tool errors.
func seriesError(err error) error {
	if errors.Is(err, series.ErrUndefined) {
		return undefined("%s", strings.TrimPrefix(err.Error(), series.ErrUndefined.Error()+": "))
	}
	return err
}

// floats is the JSON list of finite numbers.
func floats(x []float64) strictjson.Value {
	items := make([]strictjson.Value, len(x))
	for i, f := range x {
		items[i] = strictjson.Float(f)
	}
	return strictjson.List(items...)
}

func allFinite(x ...float64) bool {
	for _, f := range x {
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return false
		}
	}
	return true
}
