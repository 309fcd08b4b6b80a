package raster

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// lzw encodes src as TIFF 6.0 §13 describes, with a map for the table: slow and plain, to check the decoder against.
func lzw(src []byte) []byte {
	var out []byte
	var acc uint32
	var bits, width uint = 0, 9
	emit := func(code int) {
		acc = acc<<width | uint32(code)
		for bits += width; bits >= 8; bits -= 8 {
			out = append(out, byte(acc>>(bits-8)))
		}
	}
	table := map[string]int{}
	code := func(s string) int {
		if len(s) == 1 {
			return int(s[0])
		}
		return table[s]
	}
	emit(lzwClear)
	run := ""
	for _, b := range src {
		longer := run + string([]byte{b})
		if _, ok := table[longer]; ok || len(longer) == 1 {
			run = longer
			continue
		}
		emit(code(run))
		table[longer] = lzwFirst + len(table)
		switch lzwFirst + len(table) { // the code that the next entry would get
		case 512, 1024, 2048:
			width++
		case 4095:
			emit(lzwClear)
			clear(table)
			width = 9
		}
		run = string([]byte{b})
	}
	if run != "" {
		emit(code(run))
		if n := lzwFirst + len(table) + 1; n == 512 || n == 1024 || n == 2048 { // the decoder adds an entry here too
			width++
		}
	}
	emit(lzwEnd)
	if bits > 0 {
		out = append(out, byte(acc<<(8-bits)))
	}
	return out
}

func TestLZW(t *testing.T) {
	// The worked example of the PDF reference, whose LZW is TIFF's.
	dst := make([]byte, 10)
	if n, err := unlzw(dst, []byte{0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01}); err != nil || string(dst[:n]) != "-----A---B"[:n] || n != 10 {
		t.Errorf("%q, %v", dst[:n], err)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	inputs := [][]byte{{}, {7}, bytes.Repeat([]byte{0}, 100000), bytes.Repeat([]byte("abcab"), 9000)}
	for _, symbols := range []int{2, 5, 40, 256} {
		b := make([]byte, 70000)
		for i := range b {
			b[i] = byte(rng.IntN(symbols))
		}
		inputs = append(inputs, b)
	}
	gradient := []byte{}
	for i := range 30000 {
		gradient = binary.LittleEndian.AppendUint16(gradient, uint16(i/7))
	}
	inputs = append(inputs, gradient)
	for i, in := range inputs {
		packed := lzw(in)
		for _, n := range []int{len(in), len(in) + 10, len(in) / 2} {
			out := make([]byte, n)
			got, err := unlzw(out, packed)
			if want := min(n, len(in)); err != nil || got != want || !bytes.Equal(out[:want], in[:want]) {
				t.Errorf("input %d into %d bytes: %d bytes, %v", i, n, got, err)
			}
		}
	}
}
