package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

func TestNormalize(t *testing.T) {
	marks := strings.Repeat("\u0301", 40)
	for _, c := range []struct{ name, in, want string }{
		{"ASCII", "plain", "plain"},
		{"composes", "e\u0301", "\u00e9"},
		{"reorders", "s\u0307\u0323", "\u1e69"},
		{"singleton", "\u212b", "\u00c5"},
		{"excluded from composition", "\u0958", "\u0915\u093c"},
		{"Hangul", "\u1100\u1161\u11a8", "\uac01"},
		{"blocked by a mark of the same class", "a\u0327\u0300\u0301", "\u00e0\u0327\u0301"},
		{"no letter before", "\u0301\u0301", "\u0301\u0301"},
		{"nothing goes into long runs of marks", "q" + marks, "q" + marks},
		{"long runs compose", "e" + marks, "\u00e9" + marks[2:]},
		{"bad bytes stay", "\xffe\u0301\xc3", "\xff\u00e9\xc3"},
		{"a late mark blocks reordering", "a\u0c3c\u0323\u0301", "a\u0c3c\u0323\u0301"},
		{"a late mark is not reordered", "e\u0301\u1ace\u0316", "\u00e9\u1ace\u0316"},
		{"a late composition is not made", "\U00011935\U00011930", "\U00011935\U00011930"},
		{"nor undone", "\U00011938e\u0301", "\U00011938\u00e9"},
	} {
		if got := normalize(c.in); got != c.want {
			t.Errorf("%s: normalize(%+q) = %+q, want %+q", c.name, c.in, got, c.want)
		}
	}
}

// TestNormalizeEqualsNFC compares with x/text where both follow the same rules: no late marks, short runs of marks.
func TestNormalizeEqualsNFC(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50000 {
		var b strings.Builder
		for range 1 + r.IntN(6) {
			switch r.IntN(4) {
			case 0:
				b.WriteRune(rune(r.IntN(unicode.MaxRune)))
			case 1:
				b.WriteRune(0x300 + rune(r.IntN(0x70)))
			case 2:
				b.WriteRune([]rune{0x1100, 0x1161, 0x11A8, 0xAC00, 0x9C7, 0x9BE, 0x3099, 0x304B, 0x212B, 0x958}[r.IntN(10)])
			default:
				b.WriteRune(rune(r.IntN(0x2000)))
			}
		}
		text := b.String()
		if strings.ContainsFunc(text, func(r rune) bool { return r == diveAkuruO || unicode.Is(lateMarks, r) }) {
			continue
		}
		if got, want := normalize(text), norm.NFC.String(text); got != want {
			t.Fatalf("normalize(%+q) = %+q, want %+q", text, got, want)
		}
	}
}
