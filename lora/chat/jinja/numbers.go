package jinja

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

const (
	// maxIntBits bounds the integers that a template may compute. Real templates count messages.
	maxIntBits = 1 << 15
	// maxIntDigits is CPython's limit on converting between integers and decimal text.
	maxIntDigits = 4300
	// unordered is what comparing with NaN gives.
	unordered = 2
)

func isNumber(v Value) bool {
	switch v.(type) {
	case Bool, Int, *bigInt, Float:
		return true
	}
	return false
}

// asBig returns the value of an int or bool.
func asBig(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case Bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case Int:
		return big.NewInt(int64(v)), true
	case *bigInt:
		return v.v, true
	}
	return nil, false
}

// asInt returns the value of an int or bool that fits int64; larger ones saturate.
func asInt(v Value) (int64, bool) {
	switch v := v.(type) {
	case Bool:
		if v {
			return 1, true
		}
		return 0, true
	case Int:
		return int64(v), true
	case *bigInt:
		if v.v.Sign() < 0 {
			return math.MinInt64, true
		}
		return math.MaxInt64, true
	}
	return 0, false
}

// index is asInt for arguments that Python wants to be integers.
func index(v Value) int {
	i, ok := asInt(v)
	if !ok {
		typeError("'%s' object cannot be interpreted as an integer", v.pyType())
	}
	return int(i)
}

func normInt(i *big.Int) Value {
	if i.IsInt64() {
		return Int(i.Int64())
	}
	if i.BitLen() > maxIntBits {
		raise(ErrLimit, "an integer has more than %d bits", maxIntBits)
	}
	return &bigInt{i}
}

// asFloat is float(v) for a number.
func asFloat(v Value) float64 {
	if f, ok := v.(Float); ok {
		return float64(f)
	}
	i, _ := asBig(v)
	f, _ := new(big.Float).SetInt(i).Float64()
	if math.IsInf(f, 0) {
		typeError("int too large to convert to float")
	}
	return f
}

func compareNumbers(a, b Value) int {
	x, xInt := a.(Int)
	y, yInt := b.(Int)
	if xInt && yInt {
		return cmp.Compare(x, y)
	}
	return exact(a, b)
}

// exact compares two numbers without rounding either.
func exact(a, b Value) int {
	wide := func(v Value) (*big.Float, bool) {
		if f, ok := v.(Float); ok {
			if math.IsNaN(float64(f)) {
				return nil, false
			}
			return big.NewFloat(float64(f)), true
		}
		i, _ := asBig(v)
		return new(big.Float).SetInt(i), true // the precision grows to hold every bit
	}
	x, ok := wide(a)
	y, ok2 := wide(b)
	if !ok || !ok2 {
		return unordered
	}
	return x.Cmp(y)
}

// chargeInts charges for the size of large integers.
func (st *state) chargeInts(vs ...Value) {
	for _, v := range vs {
		if i, ok := v.(*bigInt); ok {
			st.step(i.v.BitLen() / 16)
		}
	}
}

// arithmetic evaluates a binary operator on two numbers.
func arithmetic(op string, a, b Value) Value {
	x, xInt := asBig(a)
	y, yInt := asBig(b)
	if xInt && yInt {
		return intArithmetic(op, a, b, x, y)
	}
	return floatArithmetic(op, asFloat(a), asFloat(b))
}

func intArithmetic(op string, a, b Value, x, y *big.Int) Value {
	if (op == "/" || op == "//" || op == "%") && y.Sign() == 0 {
		typeError("division by zero")
	}
	z := new(big.Int)
	switch op {
	case "+":
		return normInt(z.Add(x, y))
	case "-":
		return normInt(z.Sub(x, y))
	case "*":
		if x.BitLen()+y.BitLen() > maxIntBits+1 {
			raise(ErrLimit, "an integer has more than %d bits", maxIntBits)
		}
		return normInt(z.Mul(x, y))
	case "/":
		f, _ := new(big.Rat).SetFrac(x, y).Float64()
		if math.IsInf(f, 0) {
			typeError("integer division result too large for a float")
		}
		return Float(f)
	case "//":
		z, _ = floorDivMod(x, y)
		return normInt(z)
	case "%":
		_, z = floorDivMod(x, y)
		return normInt(z)
	}
	if y.Sign() < 0 {
		if x.Sign() == 0 {
			typeError("0.0 cannot be raised to a negative power")
		}
		return floatArithmetic(op, asFloat(a), asFloat(b))
	}
	if x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > maxIntBits || int64(x.BitLen()-1)*y.Int64() > maxIntBits) {
		raise(ErrLimit, "an integer has more than %d bits", maxIntBits)
	}
	return normInt(z.Exp(x, y, nil))
}

// floorDivMod divides towards minus infinity, as Python does.
func floorDivMod(x, y *big.Int) (*big.Int, *big.Int) {
	q, r := new(big.Int).QuoRem(x, y, new(big.Int))
	if r.Sign() != 0 && r.Sign() != y.Sign() {
		q.Sub(q, big.NewInt(1))
		r.Add(r, y)
	}
	return q, r
}

func floatArithmetic(op string, x, y float64) Value {
	if (op == "/" || op == "//" || op == "%") && y == 0 {
		typeError("float division by zero")
	}
	switch op {
	case "+":
		return Float(x + y)
	case "-":
		return Float(x - y)
	case "*":
		return Float(x * y)
	case "/":
		return Float(x / y)
	case "//":
		return Float(floorDiv(x, y))
	case "%":
		return Float(floorMod(x, y))
	}
	switch {
	case x == 0 && y < 0:
		typeError("0.0 cannot be raised to a negative power")
	case x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0) && !math.IsInf(y, 0):
		raise(ErrUnsupported, "complex numbers")
	}
	z := math.Pow(x, y)
	if math.IsInf(z, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		typeError("(34, 'Numerical result out of range')")
	}
	return Float(z)
}

func floorMod(x, y float64) float64 {
	m := math.Mod(x, y)
	switch {
	case m == 0:
		return math.Copysign(0, y)
	case (m < 0) != (y < 0):
		return m + y
	}
	return m
}

// floorDiv follows CPython's float_divmod: the quotient is computed from the remainder and snapped to an integer.
func floorDiv(x, y float64) float64 {
	mod := math.Mod(x, y)
	div := (x - mod) / y
	if mod != 0 && (mod < 0) != (y < 0) {
		div--
	}
	if div == 0 {
		return math.Copysign(0, x/y)
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor
}

// negate is -v; it returns nil if v is not a number.
func negate(v Value) Value {
	if f, ok := v.(Float); ok {
		return -f
	}
	if i, ok := asBig(v); ok {
		return normInt(new(big.Int).Neg(i))
	}
	return nil
}

// floatText is repr(f): the shortest decimal that reads back as f.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	sci := strconv.FormatFloat(f, 'e', -1, 64)
	_, exp, _ := strings.Cut(sci, "e")
	if e, _ := strconv.Atoi(exp); e < -4 || e >= 16 {
		return sci
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// intText is str(i).
func intText(i *big.Int) string {
	s := i.String()
	if len(strings.TrimPrefix(s, "-")) > maxIntDigits {
		typeError("Exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
	}
	return s
}

// parseInt is int(s, base) for base 0 or 2..36.
func parseInt(s string, base int) (Value, bool) {
	s = strings.TrimFunc(s, isSpace)
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || strings.HasPrefix(digits, "_") && base != 0 {
		return nil, false
	}
	negative := strings.HasPrefix(s, "-")
	if len(digits) > 1 && digits[0] == '0' {
		prefixes := map[string]int{"b": 2, "o": 8, "x": 16}
		if p, ok := prefixes[strings.ToLower(digits[1:2])]; ok && (base == p || base == 0) {
			base, digits = p, strings.TrimPrefix(digits[2:], "_")
		} else if base == 0 && strings.Trim(digits, "0_") != "" {
			return nil, false
		}
	}
	if base == 0 {
		base = 10
	}
	// Underscores may stand between digits only.
	if digits == "" || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return nil, false
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if strings.ContainsAny(digits, "+-") || base&(base-1) != 0 && len(digits) > maxIntDigits {
		return nil, false
	}
	i, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return nil, false
	}
	if negative {
		i.Neg(i)
	}
	return normInt(i), true
}

// parseFloat is float(s).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	lower := strings.ToLower(s)
	if strings.ContainsAny(lower, "xp") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false // Go reads hexadecimal floats, Python does not
	}
	for i := range s {
		if s[i] == '_' && !(isDigit(s[i-1]) && isDigit(s[i+1])) {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
