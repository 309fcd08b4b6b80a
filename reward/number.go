package reward

import (
	"strconv"
	"strings"
)

// Number reads the number that a text spells, for comparisons of answers; the
// argument reward never does this, there "3" is a text. It accepts white space
// around it, the signs + - and U+2212, thousands separated by commas (3,000 and
// not 3,00), a fraction, an exponent, and the unit, which must then stand at the
// end with or without a space. With unit "" no unit may stand there: a number
// of another unit is no number.
func Number(text, unit string) (f float64, ok bool) {
	s := strings.TrimSpace(text)
	if unit != "" {
		if s, ok = strings.CutSuffix(s, unit); !ok {
			return 0, false
		}
		s = strings.TrimRight(s, " \t\u00a0\u202f")
	}
	s = strings.Replace(s, "\u2212", "-", 2) // of the number and of its exponent
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	whole := s
	if i := strings.IndexAny(s, ".eE"); i >= 0 {
		whole = s[:i]
	}
	if strings.Contains(whole, ",") {
		groups := strings.Split(whole, ",")
		for i, g := range groups {
			if len(g) != 3 && (i > 0 || len(g) == 0 || len(g) > 3) {
				return 0, false
			}
		}
		s = strings.Join(groups, "") + s[len(whole):]
	}
	// ParseFloat also reads hexadecimal, underscores, inf and nan.
	if s == "" || strings.Trim(s, "0123456789.eE+-") != "" || s[0] == '+' || s[0] == '-' {
		return 0, false
	}
	f, err := strconv.ParseFloat(sign+s, 64)
	if err != nil { // also beyond float64
		return 0, false
	}
	return f, true
}

// asNumber is Number for a text and the value of a number, which has no unit.
func asNumber(x any, unit string) (float64, bool) {
	switch x := x.(type) {
	case string:
		return Number(x, unit)
	case int:
		return float64(x), unit == ""
	case float64:
		return x, unit == ""
	}
	return 0, false
}
