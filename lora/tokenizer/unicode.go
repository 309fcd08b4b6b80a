package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a set of the character properties that pre-tokenizer patterns ask for.
type class uint8

const (
	letter  class = 1 << iota // \p{L}
	mark                      // \p{M}
	number                    // \p{N}
	space                     // \s, Unicode White_Space
	newline                   // \r or \n (also space)
	numeric                   // what the reference's Digits pre-tokenizer calls a digit
)

// The reference's tables are newer than Go's (Unicode 16 for patterns, 17 for Digits, against 15): these are the differences.
// Found by asking tokenizers 0.23.3 about every code point; TestUnicodeVersion fails when Go's own tables move.
var (
	newLetters = &unicode.RangeTable{
		R16: []unicode.Range16{{0x1C89, 0x1C8A, 1}, {0xA7CB, 0xA7CD, 1}, {0xA7DA, 0xA7DC, 1}},
		R32: []unicode.Range32{{0x105C0, 0x105F3, 1}, {0x10D4A, 0x10D65, 1}, {0x10D6F, 0x10D85, 1}, {0x10EC2, 0x10EC4, 1},
			{0x11380, 0x11389, 1}, {0x1138B, 0x1138B, 1}, {0x1138E, 0x1138E, 1}, {0x11390, 0x113B5, 1}, {0x113B7, 0x113B7, 1},
			{0x113D1, 0x113D1, 1}, {0x113D3, 0x113D3, 1}, {0x11BC0, 0x11BE0, 1}, {0x13460, 0x143FA, 1}, {0x16100, 0x1611D, 1},
			{0x16D40, 0x16D6C, 1}, {0x18CFF, 0x18CFF, 1}, {0x1E5D0, 0x1E5ED, 1}, {0x1E5F0, 0x1E5F0, 1}, {0x2EBF0, 0x2EE5D, 1}},
	}
	newMarks = &unicode.RangeTable{
		R16: []unicode.Range16{{0x0897, 0x0897, 1}},
		R32: []unicode.Range32{{0x10D69, 0x10D6D, 1}, {0x10EFC, 0x10EFC, 1}, {0x113B8, 0x113C0, 1}, {0x113C2, 0x113C2, 1},
			{0x113C5, 0x113C5, 1}, {0x113C7, 0x113CA, 1}, {0x113CC, 0x113D0, 1}, {0x113D2, 0x113D2, 1}, {0x113E1, 0x113E2, 1},
			{0x11F5A, 0x11F5A, 1}, {0x1611E, 0x1612F, 1}, {0x1E5EE, 0x1E5EF, 1}},
	}
	newNumbers = &unicode.RangeTable{
		R32: []unicode.Range32{{0x10D40, 0x10D49, 1}, {0x116D0, 0x116E3, 1}, {0x11BF0, 0x11BF9, 1}, {0x16130, 0x16139, 1},
			{0x16D70, 0x16D79, 1}, {0x1CCF0, 0x1CCF9, 1}, {0x1E5F1, 0x1E5FA, 1}},
	}
	// Digits follows Rust's standard library, one Unicode version further on.
	newDigits = &unicode.RangeTable{
		R32: []unicode.Range32{{0x11DE0, 0x11DE9, 1}, {0x16FF4, 0x16FF6, 1}},
	}
)

const (
	pageBits = 8
	pageSize = 1 << pageBits
	pages    = (unicode.MaxRune + 1) / pageSize
)

// classTable gives the class of every rune in two loads; equal pages are stored once.
type classTable struct {
	ascii [utf8.RuneSelf]class
	index [pages]uint16
	page  [][pageSize]class
}

// classes builds the table on first use (about a millisecond).
var classes = sync.OnceValue(func() *classTable {
	flat := make([]class, unicode.MaxRune+1)
	paint := func(c class, tables ...*unicode.RangeTable) {
		for _, t := range tables {
			for _, r := range t.R16 {
				for i := int(r.Lo); i <= int(r.Hi); i += int(r.Stride) {
					flat[i] |= c
				}
			}
			for _, r := range t.R32 {
				for i := int(r.Lo); i <= int(r.Hi); i += int(r.Stride) {
					flat[i] |= c
				}
			}
		}
	}
	paint(letter, unicode.L, newLetters)
	paint(mark, unicode.M, newMarks)
	paint(number|numeric, unicode.N, newNumbers)
	paint(numeric, newDigits)
	paint(space, unicode.White_Space)
	flat['\r'] |= newline
	flat['\n'] |= newline

	t := &classTable{}
	copy(t.ascii[:], flat)
	seen := map[[pageSize]class]uint16{}
	for p := range pages {
		content := [pageSize]class(flat[p<<pageBits:])
		at, ok := seen[content]
		if !ok {
			at = uint16(len(t.page))
			seen[content] = at
			t.page = append(t.page, content)
		}
		t.index[p] = at
	}
	return t
})

// at returns the class and the width in bytes of the character at text[i]. A byte that is not UTF-8 is a character of no class.
func (t *classTable) at(text string, i int) (class, int) {
	if b := text[i]; b < utf8.RuneSelf {
		return t.ascii[b], 1
	}
	r, w := utf8.DecodeRuneInString(text[i:])
	return t.page[t.index[r>>pageBits]][r&(pageSize-1)], w
}
