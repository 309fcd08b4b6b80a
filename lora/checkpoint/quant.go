package checkpoint

import "encoding/binary"

// The block formats of ggml (ggml-common.h, ggml-quants.c). A block is 32 or 256 consecutive elements of a row. Scales
// d and m are halves; products are rounded to float32 before adding, on every machine (no fused multiply-add), so the
// values are the same everywhere.

// blockDecoders expand one block: dst has the block's elements, src its bytes.
var blockDecoders = map[DType]func(dst []float32, src []byte){
	Q4_0: decodeQ4_0, Q4_1: decodeQ4_1, Q5_0: decodeQ5_0, Q5_1: decodeQ5_1, Q8_0: decodeQ8_0,
	Q2_K: decodeQ2K, Q3_K: decodeQ3K, Q4_K: decodeQ4K, Q5_K: decodeQ5K, Q6_K: decodeQ6K,
}

func half(src []byte) float32 { return float16(binary.LittleEndian.Uint16(src)) }

// decodeQ4_0: d | 16 bytes of nibbles. Low nibbles are elements 0..15, high nibbles 16..31; x = d·(q−8).
func decodeQ4_0(dst []float32, src []byte) {
	d, qs := half(src), src[2:18]
	for j, q := range qs {
		dst[j] = d * float32(int(q&0xf)-8)
		dst[j+16] = d * float32(int(q>>4)-8)
	}
}

// decodeQ4_1: d, m | 16 bytes of nibbles; x = d·q + m.
func decodeQ4_1(dst []float32, src []byte) {
	d, m, qs := half(src), half(src[2:]), src[4:20]
	for j, q := range qs {
		dst[j] = float32(d*float32(q&0xf)) + m
		dst[j+16] = float32(d*float32(q>>4)) + m
	}
}

// decodeQ5_0: d | 32 fifth bits | 16 bytes of nibbles; x = d·(q−16).
func decodeQ5_0(dst []float32, src []byte) {
	d, high, qs := half(src), binary.LittleEndian.Uint32(src[2:]), src[6:22]
	for j, q := range qs {
		dst[j] = d * float32(int(q&0xf)|int(high>>j&1)<<4-16)
		dst[j+16] = d * float32(int(q>>4)|int(high>>(j+16)&1)<<4-16)
	}
}

// decodeQ5_1: d, m | 32 fifth bits | 16 bytes of nibbles; x = d·q + m.
func decodeQ5_1(dst []float32, src []byte) {
	d, m, high, qs := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:]), src[8:24]
	for j, q := range qs {
		dst[j] = float32(d*float32(int(q&0xf)|int(high>>j&1)<<4)) + m
		dst[j+16] = float32(d*float32(int(q>>4)|int(high>>(j+16)&1)<<4)) + m
	}
}

// decodeQ8_0: d | 32 signed bytes; x = d·q.
func decodeQ8_0(dst []float32, src []byte) {
	d := half(src)
	for j, q := range src[2:34] {
		dst[j] = d * float32(int8(q))
	}
}

// The K formats hold 256 elements in sub-blocks of 16 or 32 with scales of their own.

// decodeQ2K: 16 bytes of (scale nibble, minimum nibble) | 64 bytes of 2-bit values | d, dmin.
// Sub-block i of 16 elements: x = d·scale·q − dmin·minimum. Bits 2k..2k+1 of bytes 32h..32h+31 are elements
// 128h+32k .. 128h+32k+31.
func decodeQ2K(dst []float32, src []byte) {
	scales, qs, d, dmin := src[:16], src[16:80], half(src[80:]), half(src[82:])
	for i, sc := range scales {
		scale, minimum := d*float32(sc&0xf), dmin*float32(sc>>4)
		at, shift := i/8*32+i%2*16, i/2%4*2
		for l := range 16 {
			dst[16*i+l] = float32(scale*float32(qs[at+l]>>shift&3)) - minimum
		}
	}
}

// decodeQ3K: 32 bytes of third bits | 64 bytes of 2-bit values | 12 bytes of 16 six-bit scales | d.
// Sub-block i of 16: x = d·(scale−32)·(q−4), the third bit being bit i/2 of the mask bytes.
func decodeQ3K(dst []float32, src []byte) {
	mask, qs, packed, d := src[:32], src[32:96], src[96:108], half(src[108:])
	for i := range 16 {
		low := packed[i%8] >> (i / 8 * 4) & 0xf
		high := packed[8+i%4] >> (i / 4 * 2) & 3
		scale := d * float32(int(high<<4|low)-32)
		at, shift := i/8*32+i%2*16, i/2%4*2
		for l := range 16 {
			third := mask[i%2*16+l] >> (i / 2) & 1
			dst[16*i+l] = scale * float32(int(third<<2|qs[at+l]>>shift&3)-4)
		}
	}
}

// scaleMinK4 unpacks the i-th of 8 six-bit scales and minima from the 12 bytes that Q4_K and Q5_K share.
func scaleMinK4(packed []byte, i int) (scale, minimum byte) {
	if i < 4 {
		return packed[i] & 63, packed[i+4] & 63
	}
	return packed[i+4]&0xf | packed[i-4]>>6<<4, packed[i+4]>>4 | packed[i]>>6<<4
}

// decodeQ4K: d, dmin | 12 bytes of scales and minima | 128 bytes of nibbles. Sub-block i of 32:
// x = d·scale·q − dmin·minimum, in the low (i even) or high nibbles of bytes 32(i/2)…
func decodeQ4K(dst []float32, src []byte) {
	d, dmin, packed, qs := half(src), half(src[2:]), src[4:16], src[16:144]
	for i := range 8 {
		sc, mn := scaleMinK4(packed, i)
		scale, minimum := d*float32(sc), dmin*float32(mn)
		for l, q := range qs[i/2*32 : i/2*32+32] {
			dst[32*i+l] = float32(scale*float32(q>>(i%2*4)&0xf)) - minimum
		}
	}
}

// decodeQ5K: as Q4_K with 32 bytes of fifth bits before the nibbles; bit i of byte l belongs to sub-block i.
func decodeQ5K(dst []float32, src []byte) {
	d, dmin, packed, high, qs := half(src), half(src[2:]), src[4:16], src[16:48], src[48:176]
	for i := range 8 {
		sc, mn := scaleMinK4(packed, i)
		scale, minimum := d*float32(sc), dmin*float32(mn)
		for l, q := range qs[i/2*32 : i/2*32+32] {
			value := q>>(i%2*4)&0xf | high[l]>>i&1<<4
			dst[32*i+l] = float32(scale*float32(value)) - minimum
		}
	}
}

// decodeQ6K: 128 bytes of low nibbles | 64 bytes of high bit pairs | 16 signed scales | d. x = d·scale·(q−32).
// Each half of 128 elements: quarter k of 32 has its nibbles in bytes 32(k%2)… (low for k<2), its pairs at bits 2k.
func decodeQ6K(dst []float32, src []byte) {
	low, high, scales, d := src[:128], src[128:192], src[192:208], half(src[208:])
	for i := range 16 { // sub-blocks of 16
		h, k := i/8, i/2%4
		scale := d * float32(int8(scales[i]))
		for l := range 16 {
			j := i%2*16 + l // inside the quarter
			q := low[64*h+k%2*32+j]>>(k/2*4)&0xf | high[32*h+j]>>(2*k)&3<<4
			dst[16*i+l] = scale * float32(int(q)-32)
		}
	}
}
