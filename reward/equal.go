package reward

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"terraloom/data/strictjson"
)

// equal is the relation ≡ of Eq. 13: same types at every depth, texts and
// booleans identical, integers identical, floats within the tolerance, objects
// with the same keys, arrays by the list rule. A boolean is never a number.
func (r Rules) equal(n *node, v strictjson.Value) bool {
	if n.kind != v.Kind() {
		return false
	}
	switch n.kind {
	case strictjson.Number:
		return r.equalNumbers(n, v)
	case strictjson.Object:
		if len(n.kids) != v.Len() {
			return false
		}
		for j := range n.kids {
			i := n.find(v.Key(j), j)
			if i < 0 || !r.equal(&n.kids[i], v.Index(j)) {
				return false
			}
		}
		return true
	case strictjson.Array:
		if len(n.kids) > v.Len() || len(n.kids) < v.Len() && r.Lists != Subset {
			return false
		}
		if r.Lists != Ordered {
			return r.partner(n, v)
		}
		for i := range n.kids {
			if !r.equal(&n.kids[i], v.Index(i)) {
				return false
			}
		}
		return true
	}
	return n.text == v.Text()
}

// partner reports whether every item of n has a partner of its own in v.
//
// Tolerance makes ≡ intransitive, so that taking the first free partner could
// leave a later item without one: augmenting paths find a full matching if
// there is one.
func (r Rules) partner(n *node, v strictjson.Value) bool {
	owner := make([]int, v.Len()) // of item j of v: the item of n it is promised to, or -1
	for j := range owner {
		owner[j] = -1
	}
	tried := make([]bool, len(owner))
	var place func(i int) bool
	place = func(i int) bool {
		// Beginning at i makes equal orders fast.
		for k := range owner {
			j := (i + k) % len(owner)
			if owner[j] < 0 && !tried[j] && r.equal(&n.kids[i], v.Index(j)) {
				owner[j] = i
				return true
			}
		}
		for j := range owner {
			if owner[j] >= 0 && !tried[j] && r.equal(&n.kids[i], v.Index(j)) {
				tried[j] = true
				if place(owner[j]) {
					owner[j] = i
					return true
				}
			}
		}
		return false
	}
	for i := range n.kids {
		clear(tried)
		if !place(i) {
			return false
		}
	}
	return true
}

func (r Rules) equalNumbers(n *node, v strictjson.Value) bool {
	literal := v.Text()
	if n.text == literal {
		return true
	}
	integer := v.IsInteger()
	if n.integer && integer {
		return n.text == "-0" && literal == "0" || n.text == "0" && literal == "-0"
	}
	if n.integer != integer && !n.anyFloat {
		return false
	}
	f, ok := v.Float()
	if !ok || !n.finite {
		return false // beyond float64 only the same literal is equivalent
	}
	return within(r.Tolerance, n.float, f, n.text, literal)
}

// within reports |a - b| ≤ tolerance for the numbers as the literals spell
// them. Float64 decides unless rounding could: 0.750001 - 0.75 is above 1e-6 in
// float64, which would make the limit exclusive for some pairs.
func within(tolerance, a, b float64, literalA, literalB string) bool {
	const ulp = 1.0 / (1 << 52)
	d := math.Abs(a - b)
	slack := math.Abs(a)*ulp + math.Abs(b)*ulp + d*ulp + tolerance*ulp
	if d+slack <= tolerance {
		return true
	}
	if d-slack > tolerance || math.IsInf(d, 0) {
		return false
	}
	exactA, okA := exact(literalA)
	exactB, okB := exact(literalB)
	limit, okT := exact(strconv.FormatFloat(tolerance, 'g', -1, 64))
	if !okA || !okB || !okT {
		return d <= tolerance
	}
	difference := exactA.Sub(exactA, exactB)
	return difference.Abs(difference).Cmp(limit) <= 0
}

// exact reads a decimal literal; ok is false for one so long, or with an
// exponent so far out, that exact arithmetic would take much time or memory.
func exact(literal string) (*big.Rat, bool) {
	if len(literal) > 64 {
		return nil, false
	}
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		if e, err := strconv.Atoi(literal[i+1:]); err != nil || e < -400 || e > 400 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(literal)
}
