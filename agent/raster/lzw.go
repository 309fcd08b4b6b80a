package raster

import (
	"encoding/binary"
	"fmt"
)

// TIFF's LZW (TIFF 6.0 §13): codes of 9 to 12 bits, most significant bit first, whose width grows one code early.
const (
	lzwClear   = 256
	lzwEnd     = 257
	lzwFirst   = 258
	lzwMaxBits = 12
)

// unlzw decodes src into dst and returns the number of bytes written, at most len(dst). A stream that ends early is not an error here.
//
// Every table entry is a run of bytes that was already written: entry k is the string of the code before it plus one byte, and
// these lie together in dst. So the table holds a position and a length per code, and decoding a code is one copy.
func unlzw(dst, src []byte) (int, error) {
	var table [1 << lzwMaxBits]struct{ start, length int32 }
	var (
		acc      uint64 // bits read and not used, right-aligned
		bits     uint
		width    uint = 9
		next          = lzwFirst
		out      int
		prevAt   int // where the string of the previous code lies
		prevLen  int // 0 after a clear code
		position int
	)
	for out < len(dst) {
		if bits < width {
			if rest := src[position:]; len(rest) >= 4 {
				acc = acc<<32 | uint64(binary.BigEndian.Uint32(rest))
				position += 4
				bits += 32
			} else {
				for ; len(rest) > 0 && bits < width; rest = rest[1:] {
					acc = acc<<8 | uint64(rest[0])
					position++
					bits += 8
				}
				if bits < width {
					return out, nil
				}
			}
		}
		bits -= width
		code := int(acc>>bits) & (1<<width - 1)
		switch {
		case code == lzwEnd:
			return out, nil
		case code == lzwClear:
			width, next, prevLen = 9, lzwFirst, 0
			continue
		}
		at, n := out, 0
		switch {
		case code < lzwClear:
			dst[out] = byte(code)
			n = 1
		case prevLen == 0 || code > next || next == 1<<lzwMaxBits && code == next:
			return out, fmt.Errorf("LZW code %d where at most %d is known: %w", code, next-1, ErrFormat)
		case code == next: // the string being defined: the previous one plus its own first byte
			n = copyRun(dst, out, prevAt, prevLen)
			if out+n < len(dst) {
				dst[out+n] = dst[prevAt]
				n++
			}
		default:
			e := table[code&(1<<lzwMaxBits-1)]
			n = copyRun(dst, out, int(e.start), int(e.length))
		}
		out += n
		if prevLen > 0 && next < 1<<lzwMaxBits {
			table[next].start, table[next].length = int32(prevAt), int32(prevLen+1)
			next++
		}
		// The encoder widens its codes when the table holds one entry less than the width can name.
		if next+1 >= 1<<width && width < lzwMaxBits {
			width++
		}
		prevAt, prevLen = at, n
	}
	return out, nil
}

// copyRun copies n bytes of dst from at to out, as far as they fit, and returns how many.
func copyRun(dst []byte, out, at, n int) int {
	n = min(n, len(dst)-out)
	if n <= 8 { // most strings are short
		for i := range n {
			dst[out+i] = dst[at+i]
		}
		return n
	}
	return copy(dst[out:out+n], dst[at:at+n])
}
