package tools

import (
	"math"
	"math/big"

	"terraloom/data/strictjson"
)

// difference is |a - b|. That it is absolute is the tool's contract, not a fault:
// the sign of a change is percentage_change's business.
func difference(c *Call) (Result, error) {
	return number(math.Abs(c.float("a")-c.float("b")), 2)
}

// division is b / a: the first argument divides the second.
func division(c *Call) (Result, error) {
	a, b := c.float("a"), c.float("b")
	if a == 0 {
		if c.public() {
			return publicText("Infinity", 2)
		}
		return Result{}, undefined("the divisor a is 0")
	}
	return number(b/a, 2)
}

// percentageChange is 100 (b - a)/a.
func percentageChange(c *Call) (Result, error) {
	a, b := c.float("a"), c.float("b")
	if a == 0 {
		return Result{}, undefined("the value before, a, is 0, so no percentage of it exists; use difference")
	}
	var warnings []string
	if a < 0 {
		warnings = append(warnings, "a is negative, so the sign of the percentage is against that of the change")
	}
	return number((b-a)/a*100, 2, warnings...)
}

// multiply is a·b; two integers give their exact product.
func multiply(c *Call) (Result, error) {
	a, b := c.Args.Get("a"), c.Args.Get("b")
	if a.IsInteger() && b.IsInteger() {
		x, okA := new(big.Int).SetString(a.Text(), 10)
		y, okB := new(big.Int).SetString(b.Text(), 10)
		if okA && okB {
			v, _ := strictjson.Literal(x.Mul(x, y).String())
			return Result{Value: v, Evidence: Evidence{Used: 2}}, nil
		}
	}
	return number(c.float("a")*c.float("b"), 2)
}

// ceilNumber is the smallest integer not below n.
func ceilNumber(c *Call) (Result, error) {
	n := c.Args.Get("n")
	if !n.IsInteger() {
		exact, _ := new(big.Float).SetFloat64(math.Ceil(c.float("n"))).Int(nil)
		n, _ = strictjson.Literal(exact.String())
	}
	return Result{Value: n, Evidence: Evidence{Used: 1}}, nil
}

// zeroCelsius is 0 °C in kelvin.
const zeroCelsius = 273.15

func kelvinToCelsius(c *Call) (Result, error) {
	k := c.float("kelvin")
	return number(k-zeroCelsius, 1, belowAbsoluteZero(k)...)
}

func celsiusToKelvin(c *Call) (Result, error) {
	k := c.float("celsius") + zeroCelsius
	return number(k, 1, belowAbsoluteZero(k)...)
}

func belowAbsoluteZero(kelvin float64) []string {
	if kelvin < 0 {
		return []string{"the temperature is below absolute zero: wrong unit, or a scale or offset not applied"}
	}
	return nil
}
