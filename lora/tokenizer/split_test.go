package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/dlclark/regexp2/v2"
)

func cut(s scheme, text string) []string {
	split := splitter{s, classes()}
	var words []string
	for start := 0; start < len(text); {
		end := split.next(text, start)
		words = append(words, text[start:end])
		start = end
	}
	return words
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		scheme scheme
		text   string
		want   string // words joined by |
	}{
		{qwen2, "Hello, world!  It's 2026.\n\n  x=1", "Hello|,| world|!| | It|'s| |2|0|2|6|.\n\n| | x|=|1"},
		{qwen35, "Hello, world!  It's 2026.\n\n  x=1", "Hello|,| world|!| | It|'s| |2|0|2|6|.\n\n| | x|=|1"},
		{llama3, "Hello, world!  It's 2026.\n\n  x=1", "Hello|,| world|!| | It|'s| |202|6|.\n\n| | x|=|1"},
		{gpt2, "Hello, world!  It's 2026.\n\n  x=1", "Hello|,| world|!| | It|'s| 2026|.|\n\n | x|=|1"},
		{smollm, "Hello, world!  It's 2026.\n\n  x=1", "Hello|,| world|!| | It|'s| |2|0|2|6|.|\n\n | x|=|1"},
		{qwen2, "I'LL go\r\n\t\tnow  ", "I|'LL| go|\r\n|\t|\tnow|  "},
		{gpt2, "I'LL go\r\n\t\tnow  ", "I|'|LL| go|\r\n\t|\t|now|  "},
		{qwen2, "a\n \n b   ", "a|\n \n| b|   "},
		{qwen2, "<think>\n\n</think>\n\n", "<think|>\n\n|</|think|>\n\n"},
		{qwen35, "नमस्ते éte 10km²", "नमस्ते| éte| |1|0|km|²"},
		{qwen2, "नमस्ते éte 10km²", "नमस|्त|े| éte| |1|0|km|²"},
		{qwen2, "it'\u017f o'er", "it|'\u017f| o|'er"},
		{gpt2, "it'\u017f", "it|'|\u017f"},
		{smollm, "a  1  b", "a|  |1| | b"}, // the run before a digit is not shortened
		{gpt2, "a  1  b", "a| | 1| | b"},
		{qwen2, "a\u00a0b\u3000 c", "a|\u00a0b|\u3000| c"},
		{gpt2, "a\u00a0b", "a|\u00a0|b"},
		{llama3, "½Ⅷ²1234567", "½Ⅷ²|123|456|7"},
		{qwen2, "a\xffb \xff\xfe", "a|\xffb| \xff\xfe"},
		{qwen2, " ", " "},
		{smollm, " ", " "},
		{smollm, "x\U00011DE0 \U0001E5F1y", "x|\U00011DE0| |\U0001E5F1|y"}, // digits newer than Go's tables
	} {
		if got := strings.Join(cut(c.scheme, c.text), "|"); got != c.want {
			t.Errorf("%v: %q\n got %q\nwant %q", c.scheme, c.text, got, c.want)
		}
	}
}

// regexSplit cuts text with the pattern itself, on an engine that has look-ahead.
func regexSplit(t testing.TB, re *regexp2.Regexp, text string) []string {
	t.Helper()
	var words []string
	m, err := re.FindStringMatch(text)
	for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
		words = append(words, m.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// patternOf gives the oracle of a scheme: its pattern, and whether digits are cut out first.
var patternOf = []struct {
	scheme  scheme
	pattern string
	digits  bool
}{
	{gpt2, gpt2Pattern, false}, {smollm, gpt2Pattern, true}, {qwen2, qwen2Pattern, false}, {qwen35, qwen35Pattern, false}, {llama3, llama3Pattern, false},
}

func oracleSplit(t testing.TB, re *regexp2.Regexp, digits bool, text string) []string {
	if !digits {
		return regexSplit(t, re, text)
	}
	var words []string
	start := 0
	for i, r := range text {
		if unicode.In(r, unicode.N) {
			words = append(append(words, regexSplit(t, re, text[start:i])...), string(r))
			start = i + len(string(r))
		}
	}
	return append(words, regexSplit(t, re, text[start:])...)
}

// comparable tells whether the oracle, which has Go's Unicode tables, knows all characters of text.
func comparable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, newLetters, newMarks, newNumbers, newDigits)
	})
}

// TestSplitEqualsPattern compares the scanners with the patterns on random text: rows of awkward characters and any character.
func TestSplitEqualsPattern(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	awkward := []string{" ", " ", "  ", "\n", "\r", "\t", "\u00a0", "\u3000", "\u0085", "\u2028", "'", "'s", "'LL", "'\u017f", "'Re", "a", "Z", "é",
		"ß", "中", "\u0301", "\u094d", "1", "7", "½", "Ⅷ", "\u0665", ".", "-", "=", "😀", "\u200d", "\x00", "\x1c", "\ufffd"}
	for _, c := range patternOf {
		re := regexp2.MustCompile(c.pattern)
		for range 4000 {
			var b strings.Builder
			for range 1 + r.IntN(14) {
				switch {
				case r.IntN(4) > 0:
					b.WriteString(awkward[r.IntN(len(awkward))])
				case r.IntN(2) == 0:
					b.WriteRune(rune(r.IntN(0x3000)))
				default:
					b.WriteRune(rune(r.IntN(unicode.MaxRune)))
				}
			}
			text := b.String()
			if !comparable(text) {
				continue
			}
			if got, want := cut(c.scheme, text), oracleSplit(t, re, c.digits, text); !slices.Equal(got, want) {
				t.Fatalf("%v: %q\n got %q\nwant %q", c.scheme, text, got, want)
			}
		}
	}
}

// TestUnicodeVersion guards the tables in unicode.go: they are what the reference adds to this version.
func TestUnicodeVersion(t *testing.T) {
	if unicode.Version != "15.0.0" {
		t.Errorf("Go's Unicode tables are version %s now: compare the classes with the reference's for every code point and change newLetters, newMarks, newNumbers and newDigits", unicode.Version)
	}
	for name, table := range map[string][2]*unicode.RangeTable{
		"newLetters": {newLetters, unicode.L}, "newMarks": {newMarks, unicode.M}, "newNumbers": {newNumbers, unicode.N}, "newDigits": {newDigits, unicode.N},
	} {
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if unicode.Is(table[0], r) && unicode.Is(table[1], r) {
				t.Errorf("%s repeats U+%04X, which Go knows", name, r)
			}
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("Hello, world!  It's 2026.\n\n  x=1")
	f.Add("a\u00a0\u3000 'LL ½\r\n\t")
	f.Add("\xff \xc3")
	var compiled []*regexp2.Regexp
	for _, c := range patternOf {
		compiled = append(compiled, regexp2.MustCompile(c.pattern))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, c := range patternOf {
			got := cut(c.scheme, text)
			if strings.Join(got, "") != text {
				t.Fatalf("%v: the words of %q do not cover it: %q", c.scheme, text, got)
			}
			if valid := strings.ToValidUTF8(text, "") == text; !valid || !comparable(text) {
				continue
			}
			if want := oracleSplit(t, compiled[i], c.digits, text); !slices.Equal(got, want) {
				t.Fatalf("%v: %q\n got %q\nwant %q", c.scheme, text, got, want)
			}
		}
	})
}
