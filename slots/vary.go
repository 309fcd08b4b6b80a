package slots

import (
	"math"
	"strconv"
	"strings"

	"terraloom/data/strictjson"
)

// vary maps every number v inside a value to v·scale + offset. A literal keeps
// its decimals (up to 6; longer ones are taken as unrounded floats), an integer
// stays an integer, numbers inside Python literals and numeric strings change
// in place. With scale 1 and offset 0 the value is returned as it is.
func vary(v strictjson.Value, scale, offset float64) strictjson.Value {
	if scale == 1 && offset == 0 {
		return v
	}
	switch v.Kind() {
	case strictjson.Number:
		w, _ := strictjson.Literal(varyLiteral(v.Text(), scale, offset, false))
		return w
	case strictjson.String:
		return strictjson.Text(varyText(v.Text(), scale, offset))
	case strictjson.Array, strictjson.Object:
		kids := make([]strictjson.Value, v.Len())
		for i := range kids {
			kids[i] = vary(v.Index(i), scale, offset)
		}
		return v.Rebuilt(kids)
	}
	return v
}

// varyText changes the numbers of a numeric string or a Python literal; other text stays.
func varyText(s string, scale, offset float64) string {
	if _, n, ok := textNumber(s); ok {
		return varyLiteral(s[:n], scale, offset, true) + s[n:]
	}
	if _, ok := parseLiteral(s); !ok {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		c := s[i]
		if c == '\'' || c == '"' {
			end := i + 2 + strings.IndexByte(s[i+1:], c)
			b.WriteString(s[i:end])
			i = end
			continue
		}
		if digit(c) || c == '-' && i+1 < len(s) && digit(s[i+1]) {
			j := i + 1
			for j < len(s) && (digit(s[j]) || strings.IndexByte(".eE", s[j]) >= 0 || (s[j] == '-' || s[j] == '+') && s[j-1]|0x20 == 'e') {
				j++
			}
			b.WriteString(varyLiteral(s[i:j], scale, offset, false))
			i = j
			continue
		}
		b.WriteByte(c)
		i++
	}
	return b.String()
}

// textNumber reads a string that is one number with an optional percent sign;
// n is the length of the number.
func textNumber(s string) (f float64, n int, ok bool) {
	t := strings.TrimSuffix(s, "%")
	if _, ok := strictjson.Literal(t); !ok {
		return 0, 0, false
	}
	f, err := strconv.ParseFloat(t, 64)
	return f, len(t), err == nil
}

// varyLiteral maps one number literal; fixed keeps trailing zeros, as texts do.
func varyLiteral(lit string, scale, offset float64, fixed bool) string {
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		return lit
	}
	f = f*scale + offset
	d := decimals(lit)
	switch {
	case !strings.ContainsAny(lit, ".eE"):
		return strconv.FormatFloat(math.Round(f), 'f', 0, 64)
	case d == 0 || d > 6:
		return strictjson.FormatFloat(f)
	case fixed:
		return strconv.FormatFloat(f, 'f', d, 64)
	}
	return strictjson.FormatFloat(roundTo(f, d))
}
