package tokenizer

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// lateMarks are combining marks (and one composition partner) that the reference's older normalisation tables take for
// characters that neither reorder nor compose.
var lateMarks = &unicode.RangeTable{
	R16: []unicode.Range16{{0x07FD, 0x07FD, 1}, {0x0898, 0x089F, 1}, {0x08CA, 0x08D3, 1}, {0x09FE, 0x09FE, 1},
		{0x0C3C, 0x0C3C, 1}, {0x0D3B, 0x0D3C, 1}, {0x0EBA, 0x0EBA, 1}, {0x1715, 0x1715, 1}, {0x1ABF, 0x1ACE, 1},
		{0x1DF6, 0x1DFA, 1}, {0xA82C, 0xA82C, 1}},
	R32: []unicode.Range32{{0x10D24, 0x10D27, 1}, {0x10EAB, 0x10EAC, 1}, {0x10EFD, 0x10EFF, 1}, {0x10F46, 0x10F50, 1},
		{0x10F82, 0x10F85, 1}, {0x11070, 0x11070, 1}, {0x1133B, 0x1133B, 1}, {0x1145E, 0x1145E, 1}, {0x11839, 0x1183A, 1},
		{0x11930, 0x11930, 1}, {0x1193D, 0x1193E, 1}, {0x11943, 0x11943, 1}, {0x119E0, 0x119E0, 1}, {0x11A34, 0x11A34, 1},
		{0x11A47, 0x11A47, 1}, {0x11A99, 0x11A99, 1}, {0x11D42, 0x11D42, 1}, {0x11D44, 0x11D45, 1}, {0x11D97, 0x11D97, 1},
		{0x11F41, 0x11F42, 1}, {0x16FF0, 0x16FF1, 1}, {0x1E08F, 0x1E08F, 1}, {0x1E130, 0x1E136, 1}, {0x1E2AE, 0x1E2AE, 1},
		{0x1E2EC, 0x1E2EF, 1}, {0x1E4EC, 0x1E4EF, 1}},
}

// diveAkuruO is the one character composed with a late mark; the reference does not take it apart.
const diveAkuruO = 0x11938

// normalize returns the NFC form of s as the reference computes it (Unicode Standard Annex 15). Bytes that are not UTF-8 pass
// through.
//
// It leaves only the quick check to x/text. Its NFC inserts U+034F into runs of more than 30 combining marks (the stream-safe
// format), which changes the text, and its tables know the late marks.
func normalize(s string) string {
	if norm.NFC.IsNormalString(s) {
		return s
	}
	return string(appendComposed(make([]byte, 0, len(s)), decompose(s)))
}

// char is a character with its canonical combining class. A byte b that is not UTF-8 is the character -1-b.
type char struct {
	r     rune
	ccc   uint8
	joins bool // may compose with a character before it
}

// decompose returns the canonical decomposition of s in canonical order.
func decompose(s string) []char {
	out := make([]char, 0, len(s))
	var buf []byte
	for i := 0; i < len(s); {
		r, w := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && w == 1:
			out = append(out, char{r: -1 - rune(s[i])})
		case r < utf8.RuneSelf, r == diveAkuruO, unicode.Is(lateMarks, r):
			out = append(out, char{r: r})
		default:
			buf = norm.NFD.AppendString(buf[:0], s[i:i+w])
			for rest := buf; len(rest) > 0; {
				r, w := utf8.DecodeRune(rest)
				p := norm.NFC.Properties(rest)
				out = append(out, char{r, p.CCC(), !p.BoundaryBefore()})
				rest = rest[w:]
			}
		}
		i += w
	}
	for i := 0; i < len(out); {
		j := i
		for j < len(out) && out[j].ccc != 0 {
			j++
		}
		slices.SortStableFunc(out[i:j], func(a, b char) int { return int(a.ccc) - int(b.ccc) })
		i = j + 1
	}
	return out
}

// appendComposed appends the canonical composition of chars, which must be in canonical order. It uses chars as scratch space.
func appendComposed(dst []byte, chars []char) []byte {
	kept := chars[:0]
	starter := -1 // index in kept of the last starter
	for _, c := range chars {
		if starter >= 0 && c.joins {
			last := kept[len(kept)-1]
			// Blocked when a character in between has a class of 0 or one not lower than c's.
			if adjacent := len(kept)-1 == starter; adjacent || last.ccc != 0 && last.ccc < c.ccc {
				if r, ok := compose(kept[starter].r, c.r); ok {
					kept[starter].r = r
					continue
				}
			}
		}
		if c.ccc == 0 {
			starter = len(kept)
		}
		kept = append(kept, c)
	}
	for _, c := range kept {
		if c.r < 0 {
			dst = append(dst, byte(-1-c.r))
		} else {
			dst = utf8.AppendRune(dst, c.r)
		}
	}
	return dst
}

// compose returns the primary composite of a starter and a following character.
func compose(a, b rune) (rune, bool) {
	if a < 0 {
		return 0, false
	}
	var buf [2 * utf8.UTFMax]byte
	var out [4 * utf8.UTFMax]byte
	pair := utf8.AppendRune(utf8.AppendRune(buf[:0], a), b)
	composed := norm.NFC.Append(out[:0], pair...)
	r, w := utf8.DecodeRune(composed)
	return r, w == len(composed)
}
