package eval

import (
	"math/big"
	"strings"

	"terraloom/data/strictjson"
)

// Equal compares two argument values as Python's == compares what json.loads
// makes of them, because that is how the published parameter scores were made:
// the order of object members does not count, that of lists does; 1, 1.0 and
// true are one value; integers and floats compare exactly. Unlike there, a
// literal beyond float64 equals nothing, not even itself.
func Equal(a, b strictjson.Value) bool {
	if numeric(a) && numeric(b) {
		return equalNumbers(numberText(a), numberText(b))
	}
	if a.Kind() != b.Kind() || a.Len() != b.Len() {
		return false
	}
	switch a.Kind() {
	case strictjson.Absent:
		return false
	case strictjson.Array:
		for i := range a.Len() {
			if !Equal(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case strictjson.Object:
		return equalObjects(a, b)
	}
	return a.Text() == b.Text()
}

// equalObjects compares objects of the same size; keys are unique in each.
func equalObjects(a, b strictjson.Value) bool {
	at := make(map[string]int, b.Len())
	for i := range b.Len() {
		at[b.Key(i)] = i
	}
	for i := range a.Len() {
		j, ok := at[a.Key(i)]
		if !ok || !Equal(a.Index(i), b.Index(j)) {
			return false
		}
	}
	return true
}

func numeric(v strictjson.Value) bool {
	return v.Kind() == strictjson.Number || v.Kind() == strictjson.Bool
}

// numberText is the literal of a number; booleans are the integers 0 and 1.
func numberText(v strictjson.Value) string {
	switch {
	case v.Kind() != strictjson.Bool && v.Text() != "-0":
		return v.Text()
	case v.True():
		return "1"
	}
	return "0"
}

func isFloat(literal string) bool { return strings.ContainsAny(literal, ".eE") }

// longestInt is the number of characters beyond which an integer literal is
// larger than every finite float64.
const longestInt = 310

func equalNumbers(a, b string) bool {
	if !isFloat(a) && !isFloat(b) {
		return a == b // JSON integers have one spelling
	}
	if !isFloat(a) {
		a, b = b, a
	}
	x, ok := parseFinite(a)
	if !ok {
		return false
	}
	if isFloat(b) {
		y, ok := parseFinite(b)
		return ok && x == y
	}
	if len(b) > longestInt {
		return false
	}
	n, ok := new(big.Int).SetString(b, 10)
	whole, accuracy := big.NewFloat(x).Int(nil)
	return ok && accuracy == big.Exact && n.Cmp(whole) == 0
}

func parseFinite(literal string) (float64, bool) {
	v, ok := strictjson.Literal(literal)
	if !ok {
		return 0, false
	}
	return v.Float()
}
