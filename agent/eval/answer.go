package eval

import (
	"math"
	"regexp"
	"strings"
	"unicode"

	"terraloom/reward"
)

// What Letter returns where it finds none.
const (
	Unknown = "UNKNOWN" // no letter in the text
	Refused = "FAIL"    // the text says FAIL
)

var taggedLetter = regexp.MustCompile(`(?i)<answer>\s*([A-F])\s*</?answer>`)

// Letter reads the chosen letter of an answer as the Earth-Agent code does:
// Refused where the text contains FAIL, else the letter A–F between <Answer>
// marks (the closing one is often written without its slash), else the last
// capital A–F that stands alone — which takes the article "A" for a choice —
// else Unknown.
func Letter(answer string) string {
	if strings.Contains(answer, Refused) {
		return Refused
	}
	if m := taggedLetter.FindStringSubmatch(answer); m != nil {
		return strings.ToUpper(m[1])
	}
	found, before := Unknown, ' '
	runes := []rune(answer)
	for i, r := range runes {
		alone := !isWord(before) && (i+1 == len(runes) || !isWord(runes[i+1]))
		if alone && 'A' <= r && r <= 'F' {
			found = string(r)
		}
		before = r
	}
	return found
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// Gold is a reference answer.
type Gold struct {
	Letter string // of a multiple-choice question, else ""
	Text   string // the text of the answer, of the chosen choice where there are choices
}

// NewGold makes the reference of a bare answer text: a letter where it is one
// capital A–F.
func NewGold(text string) Gold {
	if text = strings.TrimSpace(text); len(text) == 1 && 'A' <= text[0] && text[0] <= 'F' {
		return Gold{Letter: text}
	}
	return Gold{Text: text}
}

// Empty reports whether there is nothing to match.
func (g Gold) Empty() bool { return g.Letter == "" && strings.TrimSpace(g.Text) == "" }

// Match reports whether an answer is right, and what of it was compared. A
// letter must be equal; a number must be within 15 % (Number), any other text
// equal but for letter case and white space (Earth-Agent-Pro §VI). An empty
// reference and an empty answer match nothing.
func (g Gold) Match(answer string) (compared string, ok bool) {
	if g.Letter != "" {
		compared = Letter(answer)
		return compared, compared == g.Letter
	}
	compared = Plain(answer)
	if g.Empty() || compared == "" {
		return compared, false
	}
	if want, ok := wholeQuantity(g.Text); ok {
		got, found := lastQuantity(compared)
		return compared, found && want.near(got)
	}
	return compared, fold(g.Text) == fold(compared)
}

var answerTag = regexp.MustCompile(`(?i)</?answer>`)

// Plain is an answer without its <Answer> marks and outer white space.
func Plain(answer string) string {
	return strings.TrimSpace(answerTag.ReplaceAllString(answer, " "))
}

func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// quantity is a number and the text behind it, with single spaces and powers
// written as m².
type quantity struct {
	value float64
	after string
}

// Tolerances of numeric answers: the relative error must be below the first;
// where the reference is 0, the absolute error must not exceed the second.
const (
	relativeTolerance = 0.15
	zeroTolerance     = 1e-6
)

// near reports whether got is within the tolerance of the reference q. The unit
// of the reference must follow the number in the answer too; where the
// reference has none, the answer's is not looked at.
func (q quantity) near(got quantity) bool {
	rest, same := strings.CutPrefix(got.after, q.after)
	if !same || q.after != "" && rest != "" && (isWord([]rune(rest)[0]) || strings.ContainsRune("/²³^", []rune(rest)[0])) {
		return false
	}
	diff := math.Abs(got.value - q.value)
	if q.value == 0 {
		return diff <= zeroTolerance
	}
	// An error of exactly 15 % fails; the small term keeps decimal fractions
	// such as 0.115 against 0.1 from passing by a rounding.
	return diff/math.Abs(q.value) < relativeTolerance-1e-12
}

var number = regexp.MustCompile(`[-+\x{2212}]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?`)

// lastQuantity finds the last number of a text that is no part of a word such
// as B10, with its unit.
func lastQuantity(text string) (q quantity, ok bool) {
	text = powers.Replace(text) // the 2 of m^2 is no number
	for _, m := range number.FindAllStringIndex(text, -1) {
		start, end := m[0], m[1]
		before := lastRune(text[:start])
		if before == '.' || before == '^' {
			continue
		}
		if isWord(before) {
			// A minus behind a word or digit is a hyphen: 2019-01 holds 2019 and 1.
			digits := strings.TrimLeft(text[start:end], "-+\u2212")
			if digits == text[start:end] {
				continue
			}
			start = end - len(digits)
		}
		if v, isNumber := reward.Number(text[start:end], ""); isNumber {
			q, ok = quantity{v, unitText(text[end:])}, true
		}
	}
	return q, ok
}

// longestUnit is the number of words of the longest unit, such as "per year".
const longestUnit = 3

// wholeQuantity reads a text that is one number and perhaps a unit.
func wholeQuantity(text string) (q quantity, ok bool) {
	text = powers.Replace(strings.TrimSpace(text))
	m := number.FindStringIndex(text)
	if m == nil || m[0] != 0 {
		return quantity{}, false
	}
	unit := strings.TrimRight(unitText(text[m[1]:]), ".")
	words := strings.Fields(unit)
	if len(words) > longestUnit {
		return quantity{}, false
	}
	for _, w := range words {
		if first := []rune(w)[0]; !unicode.IsLetter(first) && !strings.ContainsRune("%°", first) {
			return quantity{}, false // a date or a range
		}
	}
	v, ok := reward.Number(text[:m[1]], "")
	return quantity{v, unit}, ok
}

var powers = strings.NewReplacer("^2", "²", "^3", "³")

// unitText is what follows a number, with single spaces.
func unitText(rest string) string { return strings.Join(strings.Fields(rest), " ") }

func lastRune(s string) rune {
	last := ' '
	for _, r := range s[max(0, len(s)-4):] {
		last = r
	}
	return last
}
