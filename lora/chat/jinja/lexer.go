package jinja

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

var kindNames = [...]string{"end of template", "template text", "begin of print statement", "end of print statement",
	"begin of statement block", "end of statement block", "name", "string", "integer", "float", "operator"}

type token struct {
	kind tokenKind
	text string // the data, name, decoded string or operator
	num  Value  // of tokInt and tokFloat
	line int
}

func (t token) String() string {
	if t.kind == tokName || t.kind == tokOp {
		return t.text
	}
	return kindNames[t.kind]
}

// lexer cuts a template into tokens, with the whitespace rules that chat templates are rendered with: trim_blocks (the newline after
// a tag is dropped), lstrip_blocks (whitespace before a tag that starts its line is dropped), and the signs - and + in tags.
type lexer struct {
	src      string
	pos      int
	line     int
	tokens   []token
	brackets []byte // the closing brackets still expected inside the current tag
	fresh    bool   // the last token ended with a newline, or nothing was read yet
}

func newLexer(source string) *lexer {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	return &lexer{src: strings.TrimSuffix(source, "\n"), line: 1, fresh: true}
}

// run returns the tokens of the source.
func (lx *lexer) run() []token {
	for lx.pos < len(lx.src) {
		lx.data()
	}
	lx.emit(token{kind: tokEOF})
	return lx.tokens
}

func (lx *lexer) emit(t token) {
	t.line = lx.line
	lx.tokens = append(lx.tokens, t)
}

// advance moves to an offset and counts the lines passed.
func (lx *lexer) advance(to int) {
	lx.line += strings.Count(lx.src[lx.pos:to], "\n")
	lx.fresh = to > lx.pos && lx.src[to-1] == '\n'
	lx.pos = to
}

// data reads template text up to the next tag, and that tag.
func (lx *lexer) data() {
	begin := nextTag(lx.src, lx.pos)
	if begin < 0 {
		lx.text(len(lx.src), 0, false)
		lx.advance(len(lx.src))
		return
	}
	kind := lx.src[begin+1]
	if kind == '%' {
		if sign, end, ok := matchRaw(lx.src[begin:], "raw"); ok {
			lx.text(begin, sign, true)
			lx.advance(begin + end)
			lx.raw()
			return
		}
	}
	sign, end := byte(0), begin+2
	if end < len(lx.src) && (lx.src[end] == '-' || lx.src[end] == '+') {
		sign, end = lx.src[end], end+1
	}
	lx.text(begin, sign, kind != '{')
	lx.advance(end)
	switch kind {
	case '#':
		lx.comment()
	case '%':
		lx.emit(token{kind: tokBlockBegin})
		lx.tag("%}", tokBlockEnd)
	case '{':
		lx.emit(token{kind: tokVarBegin})
		lx.tag("}}", tokVarEnd)
	}
}

func nextTag(src string, from int) int {
	for i := from; i+1 < len(src); i++ {
		if src[i] == '{' && (src[i+1] == '%' || src[i+1] == '{' || src[i+1] == '#') {
			return i
		}
	}
	return -1
}

// text emits the template text that ends at the tag with the given sign; block tells tags from print statements.
func (lx *lexer) text(end int, sign byte, block bool) {
	text := lx.src[lx.pos:end]
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign != '+' && block:
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || lx.fresh) && strings.TrimFunc(text[start:], isSpace) == "" {
			text = text[:start]
		}
	}
	if text != "" {
		lx.emit(token{kind: tokData, text: text})
	}
}

// matchRaw matches {% raw %} or {% endraw %}, with their signs, at the start of s.
func matchRaw(s, name string) (sign byte, end int, ok bool) {
	rest := s[2:]
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		sign, rest = rest[0], rest[1:]
	}
	rest, ok = strings.CutPrefix(strings.TrimLeftFunc(rest, isSpace), name)
	if !ok {
		return 0, 0, false
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	switch {
	case strings.HasPrefix(rest, "-%}"):
		rest = strings.TrimLeftFunc(rest[3:], isSpace)
	case strings.HasPrefix(rest, "%}"):
		rest = rest[2:]
		if name == "endraw" {
			rest = strings.TrimPrefix(rest, "\n")
		}
	case strings.HasPrefix(rest, "+%}") && name == "endraw":
		rest = rest[3:]
	default:
		return 0, 0, false
	}
	return sign, len(s) - len(rest), true
}

// raw reads up to and including {% endraw %}.
func (lx *lexer) raw() {
	for i := lx.pos; i < len(lx.src); i++ {
		if !strings.HasPrefix(lx.src[i:], "{%") {
			continue
		}
		if sign, end, ok := matchRaw(lx.src[i:], "endraw"); ok {
			lx.text(i, sign, true)
			lx.advance(i + end)
			return
		}
	}
	lx.unclosed("{% raw %} has no {% endraw %}")
}

// unclosed refuses what has no end. Jinja only notices if any text follows.
func (lx *lexer) unclosed(message string) {
	if lx.pos < len(lx.src) {
		raise(ErrSyntax, "%s", message)
	}
}

// tagEnd returns the length of the tag end at the start of s, with what it swallows, or 0.
func tagEnd(s, end string, plus, trim bool) int {
	switch {
	case plus && strings.HasPrefix(s, "+"+end):
		return 1 + len(end)
	case strings.HasPrefix(s, "-"+end):
		return len(s) - len(strings.TrimLeftFunc(s[1+len(end):], isSpace))
	case strings.HasPrefix(s, end+"\n") && trim:
		return len(end) + 1
	case strings.HasPrefix(s, end):
		return len(end)
	}
	return 0
}

func (lx *lexer) comment() {
	for i := lx.pos; i < len(lx.src); i++ {
		if n := tagEnd(lx.src[i:], "#}", true, true); n > 0 {
			lx.advance(i + n)
			return
		}
	}
	lx.unclosed("a comment has no end #}")
}

// tag reads the inside of a tag and its end.
func (lx *lexer) tag(end string, kind tokenKind) {
	block := kind == tokBlockEnd
	lx.brackets = lx.brackets[:0]
	for lx.pos < len(lx.src) {
		rest := lx.src[lx.pos:]
		if len(lx.brackets) == 0 {
			if n := tagEnd(rest, end, block, block); n > 0 {
				lx.emit(token{kind: kind})
				lx.advance(lx.pos + n)
				return
			}
		}
		if n := len(rest) - len(strings.TrimLeftFunc(rest, isSpace)); n > 0 {
			lx.advance(lx.pos + n)
			continue
		}
		lx.advance(lx.pos + lx.word(rest))
	}
}

// word emits the token at the start of rest and returns its length.
func (lx *lexer) word(rest string) int {
	afterDot := lx.pos > 0 && lx.src[lx.pos-1] == '.'
	if n := floatLen(rest); n > 0 && !afterDot {
		f, _ := parseFloat(rest[:n])
		lx.emit(token{kind: tokFloat, num: Float(f)})
		return n
	}
	if n := intLen(rest); n > 0 {
		lx.emit(token{kind: tokInt, num: integer(strings.ReplaceAll(rest[:n], "_", ""))})
		return n
	}
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case isNameStart(r):
		n := strings.IndexFunc(rest, func(r rune) bool { return !isNamePart(r) })
		if n < 0 {
			n = len(rest)
		}
		lx.emit(token{kind: tokName, text: rest[:n]})
		return n
	case r == '\'' || r == '"':
		if n := stringLen(rest); n > 0 {
			lx.emit(token{kind: tokString, text: unescape(rest[1 : n-1])})
			return n
		}
	}
	return lx.operator(rest, r)
}

func integer(s string) Value {
	if len(s) > maxIntDigits {
		raise(ErrSyntax, "an integer literal has more than %d digits", maxIntDigits)
	}
	i, _ := new(big.Int).SetString(s, 0)
	return normInt(i)
}

var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
	">", "<", "=", ".", ":", "|", ",", ";"}

func (lx *lexer) operator(rest string, r rune) int {
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(":
			lx.brackets = append(lx.brackets, ')')
		case "[":
			lx.brackets = append(lx.brackets, ']')
		case "{":
			lx.brackets = append(lx.brackets, '}')
		case ")", "]", "}":
			n := len(lx.brackets)
			if n == 0 {
				raise(ErrSyntax, "unexpected '%s'", op)
			}
			if want := lx.brackets[n-1]; want != op[0] {
				raise(ErrSyntax, "unexpected '%s', expected '%c'", op, want)
			}
			lx.brackets = lx.brackets[:n-1]
		}
		lx.emit(token{kind: tokOp, text: op})
		return len(op)
	}
	raise(ErrSyntax, "unexpected character %q", r)
	return 0
}

func isNameStart(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) }

func isNamePart(r rune) bool {
	return isNameStart(r) || unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc)
}

// digitsLen is the length of a run of digits with single underscores between them.
func digitsLen(s string, digit func(byte) bool) int {
	n := 0
	for n < len(s) && (digit(s[n]) || s[n] == '_' && n > 0 && s[n-1] != '_' && n+1 < len(s) && digit(s[n+1])) {
		n++
	}
	return n
}

// floatLen is the length of the float literal at the start of s, or 0.
func floatLen(s string) int {
	n := digitsLen(s, isDigit)
	if n == 0 {
		return 0
	}
	fraction := 0
	if strings.HasPrefix(s[n:], ".") {
		if d := digitsLen(s[n+1:], isDigit); d > 0 {
			fraction = 1 + d
		}
	}
	rest := s[n+fraction:]
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		sign := 1
		if len(rest) > 1 && (rest[1] == '+' || rest[1] == '-') {
			sign = 2
		}
		if d := digitsLen(rest[sign:], isDigit); d > 0 {
			return n + fraction + sign + d
		}
	}
	if fraction == 0 {
		return 0
	}
	return n + fraction
}

// intLen is the length of the integer literal at the start of s, or 0.
func intLen(s string) int {
	if len(s) > 2 && s[0] == '0' {
		var digit func(byte) bool
		switch s[1] {
		case 'b', 'B':
			digit = func(c byte) bool { return c == '0' || c == '1' }
		case 'o', 'O':
			digit = func(c byte) bool { return c >= '0' && c <= '7' }
		case 'x', 'X':
			digit = func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
		default:
			return digitsLen(s, func(c byte) bool { return c == '0' })
		}
		skip := 2
		if s[2] == '_' {
			skip = 3
		}
		if d := digitsLen(s[skip:], digit); d > 0 {
			return skip + d
		}
		return 1
	}
	if strings.HasPrefix(s, "0") {
		return digitsLen(s, func(c byte) bool { return c == '0' })
	}
	return digitsLen(s, isDigit)
}

// stringLen is the length of the quoted string at the start of s, or 0 if it does not end.
func stringLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

// unescape decodes the inside of a string literal as Jinja does: non-ASCII characters first become Python escapes, then everything
// goes through Python's unicode-escape codec. So a backslash before a non-ASCII character spells out that character's escape.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			i++
			continue
		}
		i++
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch r {
		case '\n':
		case '\\', '\'', '"':
			b.WriteRune(r)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexRune("abfnrtv", r)])
		case 'x':
			i += hexEscape(&b, s[i:], 2)
		case 'u':
			i += hexEscape(&b, s[i:], 4)
		case 'U':
			i += hexEscape(&b, s[i:], 8)
		case 'N':
			raise(ErrUnsupported, `the escape \N{...}`)
		default:
			switch {
			case r >= '0' && r <= '7':
				n := 0
				for n < 2 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
					n++
				}
				code, _ := strconv.ParseUint(s[i-1:i+n], 8, 16)
				b.WriteRune(rune(code))
				i += n
			case r >= utf8.RuneSelf:
				b.WriteString(`\` + strings.TrimPrefix(reprEscape(r), `\`))
			default:
				b.WriteString(`\` + string(r))
			}
		}
	}
	return b.String()
}

func hexEscape(b *strings.Builder, s string, digits int) int {
	if len(s) < digits {
		raise(ErrSyntax, "truncated escape in a string literal")
	}
	code, err := strconv.ParseUint(s[:digits], 16, 32)
	if err != nil {
		raise(ErrSyntax, "invalid escape in a string literal")
	}
	if !utf8.ValidRune(rune(code)) {
		raise(ErrSyntax, "a string literal escapes U+%04X, which is not a character", code)
	}
	b.WriteRune(rune(code))
	return digits
}
