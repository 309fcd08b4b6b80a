package gazetteer

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// class is what a rune means to matching.
type class uint8

const (
	other  class = iota
	letter       // folds to one or two of a-z
	alien        // a letter with no fold: it ends a word but matches nothing
	joint        // may stand between the words of a name
	dot          // may stand after an initial
	accent       // a combining mark: part of the letter before it
)

// folded is a rune read for matching: its class, the letters a-z it stands
// for (0 pads), whether it is upper case, and its width in bytes.
type folded struct {
	class class
	a, b  byte
	upper bool
	width int
}

// ascii and latin hold the folds of U+0000–U+007F and of the Latin letters
// beyond, where diacritics are dropped by canonical decomposition.
var ascii, latin = func() (a [utf8.RuneSelf]folded, l map[rune]folded) {
	for c := range a {
		a[c] = folded{width: 1}
		switch {
		case c >= 'a' && c <= 'z':
			a[c].class, a[c].a = letter, byte(c)
		case c >= 'A' && c <= 'Z':
			a[c].class, a[c].a, a[c].upper = letter, byte(c-'A'+'a'), true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '_' || c == '-' || c == '\'':
			a[c].class = joint
		case c == '.':
			a[c].class = dot
		}
	}
	l = map[rune]folded{}
	put := func(from, to rune) {
		for r := from; r <= to; r++ {
			d := norm.NFD.String(string(r))
			if c := d[0]; len(d) > 1 && c < utf8.RuneSelf && a[c].class == letter {
				l[r] = folded{class: letter, a: a[c].a, upper: a[c].upper, width: utf8.RuneLen(r)}
			}
		}
	}
	put('\u00c0', '\u024f')
	put('\u1e00', '\u1eff')
	for r, s := range map[rune]string{'ß': "ss", 'æ': "ae", 'Æ': "ae", 'œ': "oe", 'Œ': "oe", 'ø': "o", 'Ø': "o",
		'đ': "d", 'Đ': "d", 'ð': "d", 'ł': "l", 'Ł': "l", 'ı': "i"} {
		f := folded{class: letter, a: s[0], upper: unicode.IsUpper(r), width: utf8.RuneLen(r)}
		if len(s) == 2 {
			f.b = s[1]
		}
		l[r] = f
	}
	for _, r := range "\u00a0\u2010\u2011\u2012\u2013\u2019" { // no-break space, hyphens, en dash, apostrophe
		l[r] = folded{class: joint, width: utf8.RuneLen(r)}
	}
	return a, l
}()

// fold reads the rune at s[i:]; i < len(s).
func fold(s string, i int) folded {
	if c := s[i]; c < utf8.RuneSelf {
		return ascii[c]
	}
	return foldWide(s, i)
}

// foldWide is fold beyond ASCII.
func foldWide(s string, i int) folded {
	r, width := utf8.DecodeRuneInString(s[i:])
	if f, ok := latin[r]; ok {
		return f
	}
	switch {
	case r == utf8.RuneError:
		return folded{width: width}
	case unicode.Is(unicode.Mn, r):
		return folded{class: accent, width: width}
	case unicode.IsLetter(r):
		return folded{class: alien, upper: unicode.IsUpper(r), width: width}
	}
	return folded{width: width}
}

// maxLetters bounds a surface form, so that its borders and capitals fit a word.
const maxLetters = 63

// spelling is a surface form reduced to what matching compares: its letters
// a-z, the letters (by bit) before which words may be parted, and the capitals.
type spelling struct {
	letters       string
	parted, upper uint64
}

// spell reduces s. ok is false where s has no letter, more than maxLetters, or
// a character that no name can hold.
func spell(s string) (sp spelling, ok bool) {
	var buf [maxLetters]byte
	n, pending := 0, false
	for i := 0; i < len(s); {
		f := fold(s, i)
		i += f.width
		switch f.class {
		case joint, dot:
			pending = n > 0
			continue
		case accent:
			continue
		case letter:
		default:
			return spelling{}, false
		}
		for _, c := range [...]byte{f.a, f.b} {
			if c == 0 {
				continue
			}
			if n == maxLetters {
				return spelling{}, false
			}
			if pending {
				sp.parted |= 1 << n
				pending = false
			}
			buf[n] = c
			n++
		}
		if f.upper {
			sp.upper |= 1 << (n - 1)
		}
	}
	sp.letters = string(buf[:n])
	return sp, n > 0
}
