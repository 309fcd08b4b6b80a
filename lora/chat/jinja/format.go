package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// conversion is one %-conversion of a format.
type conversion struct {
	key       string // of %(key)s
	keyed     bool
	flags     string
	width     int
	precision int // -1 without
	verb      byte
}

// format is template % args. It has the conversions s, r, d, i, u, f, x, X and %.
func (st *state) format(template Text, args Value) Text {
	values := []Value{args}
	if t, ok := args.(*tuple); ok {
		values = t.items
	}
	used, mapped := 0, false
	b := st.builder()
	for at := 0; at < len(template.s); {
		i := strings.IndexByte(template.s[at:], '%')
		if i < 0 {
			b.text(template.slice(at, len(template.s)))
			break
		}
		b.text(template.slice(at, at+i))
		c, n := parseConversion(template.s[at+i+1:])
		at += i + 1 + n
		if c.verb == '%' {
			b.literal("%")
			continue
		}
		var v Value
		switch {
		case c.keyed:
			d, ok := args.(*Dict)
			if !ok {
				typeError("format requires a mapping")
			}
			if v, ok = d.Get(c.key); !ok {
				typeError("%s", reprOf(literal(c.key)))
			}
			mapped = true
		case used == len(values):
			typeError("not enough arguments for format string")
		default:
			v = values[used]
			used++
		}
		b.text(st.convert(c, v, template.safe))
	}
	if _, isTuple := args.(*tuple); used < len(values) && !mapped && (isTuple || !isMapping(args)) {
		typeError("not all arguments converted during string formatting")
	}
	return b.done().withSafe(template.safe)
}

// isMapping is PyMapping_Check as % uses it: what may be left unused on the right-hand side.
func isMapping(v Value) bool {
	switch v.(type) {
	case *Dict, *List, *pyRange, *undefined:
		return true
	}
	return false
}

// parseConversion reads what follows a percent sign and returns its length.
func parseConversion(s string) (conversion, int) {
	c := conversion{precision: -1}
	rest := s
	if strings.HasPrefix(rest, "(") {
		depth, end := 0, -1
		for i := range len(rest) {
			if rest[i] == '(' {
				depth++
			} else if rest[i] == ')' {
				if depth--; depth == 0 {
					end = i
					break
				}
			}
		}
		if end < 0 {
			typeError("incomplete format key")
		}
		c.keyed, c.key, rest = true, rest[1:end], rest[end+1:]
	}
	trimmed := strings.TrimLeft(rest, "-+ #0")
	c.flags, rest = rest[:len(rest)-len(trimmed)], trimmed
	number := func() int {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		rest = rest[len(digits):]
		n, err := strconv.Atoi("0" + digits)
		if err != nil || n > maxOutput {
			raise(ErrLimit, "a width of more than %d in a format", maxOutput)
		}
		return n
	}
	c.width = number()
	if strings.HasPrefix(rest, ".") {
		rest = rest[1:]
		c.precision = number()
	}
	rest = strings.TrimLeft(rest, "hlL")
	if rest == "" {
		typeError("incomplete format")
	}
	c.verb = rest[0]
	return c, len(s) - len(rest) + 1
}

func (st *state) convert(c conversion, v Value, safe bool) Text {
	var t Text
	switch c.verb {
	case 's', 'r':
		if t = st.str(v); c.verb == 'r' {
			b := st.builder()
			st.repr(b, v)
			t = b.done()
		} else if safe {
			t = st.escape(v).plainText()
		}
		if c.verb == 'r' && safe {
			t = st.escape(t).plainText()
		}
		if c.precision >= 0 {
			t = t.slice(0, t.offset(min(c.precision, t.length())))
		}
		return st.pad(t, c)
	case 'd', 'i', 'u':
		return st.padNumber(decimal(v, c), c)
	case 'x', 'X':
		i, ok := asBig(v)
		if !ok {
			typeError("%%%c format: an integer is required, not %s", c.verb, v.pyType())
		}
		s := i.Text(16)
		if strings.Contains(c.flags, "#") {
			s = strings.Replace("0x"+s, "0x-", "-0x", 1)
		}
		if c.verb == 'X' {
			s = strings.ToUpper(s)
		}
		return st.padNumber(s, c)
	case 'f', 'F':
		if !isNumber(v) {
			typeError("must be real number, not %s", v.pyType())
		}
		precision := c.precision
		if precision < 0 {
			precision = 6
		}
		if precision > maxIntDigits {
			raise(ErrLimit, "a precision of more than %d in a format", maxIntDigits)
		}
		return st.padNumber(strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(asFloat(v), 'f', precision, 64)), "+"), c)
	}
	if strings.IndexByte("aceEgGoO", c.verb) >= 0 {
		raise(ErrUnsupported, "the conversion %%%c", c.verb)
	}
	typeError("unsupported format character '%c'", c.verb)
	return Text{}
}

func decimal(v Value, c conversion) string {
	if f, ok := v.(Float); ok {
		v = toInt(f, None{}, None{})
	}
	i, ok := asBig(v)
	if !ok {
		typeError("%%%c format: a real number is required, not %s", c.verb, v.pyType())
	}
	s := intText(i)
	negative := strings.HasPrefix(s, "-")
	if zeros := c.precision - len(strings.TrimPrefix(s, "-")); zeros > 0 {
		s = strings.Repeat("0", zeros) + strings.TrimPrefix(s, "-")
		if negative {
			s = "-" + s
		}
	}
	return s
}

func (st *state) padNumber(s string, c conversion) Text {
	if !strings.HasPrefix(s, "-") {
		switch {
		case strings.Contains(c.flags, "+"):
			s = "+" + s
		case strings.Contains(c.flags, " "):
			s = " " + s
		}
	}
	if zeros := c.width - len(s); zeros > 0 && strings.Contains(c.flags, "0") && !strings.Contains(c.flags, "-") {
		st.grow(len(s), zeros)
		at := len(s) - len(strings.TrimLeft(s, "+- "))
		s = s[:at] + strings.Repeat("0", zeros) + s[at:]
	}
	return st.pad(literal(s), c)
}

func (st *state) pad(t Text, c conversion) Text {
	missing := c.width - t.length()
	if missing <= 0 {
		return t
	}
	st.grow(len(t.s), missing)
	space := literal(strings.Repeat(" ", missing))
	if strings.Contains(c.flags, "-") {
		return st.concat(t, space)
	}
	return st.concat(space, t)
}

// strftime formats a time in the C locale, with glibc's flag - against padding. A naive datetime has no zone: %z and %Z are empty.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format)
		if bare {
			i++
		}
		b.WriteString(strftimeField(t, format[i], bare))
	}
	return b.String()
}

func strftimeField(t time.Time, verb byte, bare bool) string {
	number := func(n, width int) string {
		if bare {
			width = 1
		}
		return fmt.Sprintf("%0*d", width, n)
	}
	switch verb {
	case 'Y':
		return fmt.Sprint(t.Year())
	case 'y':
		return number(t.Year()%100, 2)
	case 'm':
		return number(int(t.Month()), 2)
	case 'd':
		return number(t.Day(), 2)
	case 'e':
		return fmt.Sprintf("%2d", t.Day())
	case 'H':
		return number(t.Hour(), 2)
	case 'I':
		return number((t.Hour()+11)%12+1, 2)
	case 'M':
		return number(t.Minute(), 2)
	case 'S':
		return number(t.Second(), 2)
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 'j':
		return number(t.YearDay(), 3)
	case 'w':
		return fmt.Sprint(int(t.Weekday()))
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1)
	case 'p':
		return t.Format("PM")
	case 'B':
		return t.Month().String()
	case 'b', 'h':
		return t.Month().String()[:3]
	case 'A':
		return t.Weekday().String()
	case 'a':
		return t.Weekday().String()[:3]
	case 'F':
		return t.Format("2006-01-02")
	case 'T':
		return t.Format("15:04:05")
	case 'R':
		return t.Format("15:04")
	case 'D':
		return t.Format("01/02/06")
	case 'z', 'Z':
		return ""
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case '%':
		return "%"
	}
	raise(ErrUnsupported, "the directive %%%c of strftime_now", verb)
	return ""
}
