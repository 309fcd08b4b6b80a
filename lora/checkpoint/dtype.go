package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DType is the element type of a stored tensor: safetensors' names, and ggml's for the block-quantised types of GGUF.
type DType string

// Element types. The safetensors ones are in the order in which that format ranks them by alignment.
const (
	BOOL   DType = "BOOL"
	F4     DType = "F4"
	F6E2M3 DType = "F6_E2M3"
	F6E3M2 DType = "F6_E3M2"
	U8     DType = "U8"
	I8     DType = "I8"
	F8E5M2 DType = "F8_E5M2"
	F8E4M3 DType = "F8_E4M3"
	F8E8M0 DType = "F8_E8M0"
	I16    DType = "I16"
	U16    DType = "U16"
	F16    DType = "F16"
	BF16   DType = "BF16"
	I32    DType = "I32"
	U32    DType = "U32"
	F32    DType = "F32"
	C64    DType = "C64"
	F64    DType = "F64"
	I64    DType = "I64"
	U64    DType = "U64"

	Q4_0 DType = "Q4_0"
	Q4_1 DType = "Q4_1"
	Q5_0 DType = "Q5_0"
	Q5_1 DType = "Q5_1"
	Q8_0 DType = "Q8_0"
	Q2_K DType = "Q2_K"
	Q3_K DType = "Q3_K"
	Q4_K DType = "Q4_K"
	Q5_K DType = "Q5_K"
	Q6_K DType = "Q6_K"
)

// layout is how a dtype is stored: block elements take bytes bytes. rank orders safetensors files; 0 marks a type that
// safetensors does not have.
type layout struct{ block, bytes, rank int }

var layouts = map[DType]layout{
	BOOL: {1, 1, 1}, F4: {2, 1, 2}, F6E2M3: {4, 3, 3}, F6E3M2: {4, 3, 4}, U8: {1, 1, 5}, I8: {1, 1, 6},
	F8E5M2: {1, 1, 7}, F8E4M3: {1, 1, 8}, F8E8M0: {1, 1, 9}, I16: {1, 2, 10}, U16: {1, 2, 11}, F16: {1, 2, 12},
	BF16: {1, 2, 13}, I32: {1, 4, 14}, U32: {1, 4, 15}, F32: {1, 4, 16}, C64: {1, 8, 17}, F64: {1, 8, 18},
	I64: {1, 8, 19}, U64: {1, 8, 20},
	Q4_0: {32, 18, 0}, Q4_1: {32, 20, 0}, Q5_0: {32, 22, 0}, Q5_1: {32, 24, 0}, Q8_0: {32, 34, 0},
	Q2_K: {256, 84, 0}, Q3_K: {256, 110, 0}, Q4_K: {256, 144, 0}, Q5_K: {256, 176, 0}, Q6_K: {256, 210, 0},
}

// Quantised reports whether the type stores blocks of low-bit integers with scales.
func (d DType) Quantised() bool { return layouts[d].block >= 32 }

// floating reports whether weights of this type can be decoded to float32.
func (d DType) floating() bool {
	switch d {
	case F64, F32, F16, BF16, F8E4M3, F8E5M2:
		return true
	}
	return d.Quantised()
}

// numElements multiplies a shape; ok is false when a dimension is negative or the product does not fit.
func numElements(shape []int) (n int64, ok bool) {
	n = 1
	zero := false
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		if d == 0 {
			zero = true
			continue
		}
		if n > math.MaxInt64/int64(d) {
			return 0, false
		}
		n *= int64(d)
	}
	if zero {
		return 0, true
	}
	return n, true
}

// size is the number of bytes of n elements; ok is false for an unknown type, an incomplete block or an overflow.
func (d DType) size(n int64) (bytes int64, ok bool) {
	l, known := layouts[d]
	if !known || n < 0 || n%int64(l.block) != 0 {
		return 0, false
	}
	blocks := n / int64(l.block)
	if blocks > math.MaxInt64/int64(l.bytes) {
		return 0, false
	}
	return blocks * int64(l.bytes), true
}

// Tensor is one stored tensor: row-major, little-endian. Data aliases the mapped file: it is read-only (writing faults)
// and dies with the Model or Safetensors it came from. It need not be aligned to the element size.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte
}

// NumElements is the product of the shape, 1 for a scalar.
func (t Tensor) NumElements() int {
	n, _ := numElements(t.Shape)
	return int(n)
}

// Float32 decodes the elements, row-major. 64-bit floats and integers are rounded to the nearest float32; F8 and the
// quantised types are expanded exactly as their formats define. Complex and 4/6-bit types are an error.
func (t Tensor) Float32() ([]float32, error) {
	n, ok := numElements(t.Shape)
	size, ok2 := t.DType.size(n)
	if !ok || !ok2 || size != int64(len(t.Data)) {
		return nil, fmt.Errorf("tensor %q: %s%v does not hold %d bytes: %w", t.Name, t.DType, t.Shape, len(t.Data), ErrFormat)
	}
	out := make([]float32, n)
	if dequantise := blockDecoders[t.DType]; dequantise != nil {
		l := layouts[t.DType]
		parallel(len(out)/l.block, func(from, to int) {
			for i := from; i < to; i++ {
				dequantise(out[i*l.block:(i+1)*l.block], t.Data[i*l.bytes:(i+1)*l.bytes])
			}
		})
		return out, nil
	}
	decode := decoders[t.DType]
	if decode == nil {
		return nil, fmt.Errorf("tensor %q: %s has no float32 form here: %w", t.Name, t.DType, ErrUnsupported)
	}
	width := layouts[t.DType].bytes
	parallel(len(out), func(from, to int) { decode(out[from:to], t.Data[from*width:to*width]) })
	return out, nil
}

// decoders of the plain types: len(dst) elements from src.
var decoders = map[DType]func(dst []float32, src []byte){
	F32: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	},
	BF16: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	},
	F16: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	},
	F64: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
		}
	},
	F8E4M3: byteTable(float8e4m3),
	F8E5M2: byteTable(func(b byte) float32 { return float16(uint16(b) << 8) }), // the upper byte of a half
	F8E8M0: byteTable(float8e8m0),
	BOOL:   byteTable(func(b byte) float32 { return float32(b) }),
	U8:     byteTable(func(b byte) float32 { return float32(b) }),
	I8:     byteTable(func(b byte) float32 { return float32(int8(b)) }),
	I16: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(int16(binary.LittleEndian.Uint16(src[2*i:])))
		}
	},
	U16: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	},
	I32: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(int32(binary.LittleEndian.Uint32(src[4*i:])))
		}
	},
	U32: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(binary.LittleEndian.Uint32(src[4*i:]))
		}
	},
	I64: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(int64(binary.LittleEndian.Uint64(src[8*i:])))
		}
	},
	U64: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float32(binary.LittleEndian.Uint64(src[8*i:]))
		}
	},
}

// byteTable is the decoder of a one-byte type, by a table of its 256 values.
func byteTable(value func(byte) float32) func([]float32, []byte) {
	var table [256]float32
	for i := range table {
		table[i] = value(byte(i))
	}
	return func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = table[src[i]]
		}
	}
}

// float16 expands an IEEE 754 half.
func float16(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exponent := uint32(h>>10) & 0x1f
	fraction := uint32(h) & 0x3ff
	switch exponent {
	case 0: // zero and subnormals: fraction · 2⁻²⁴, exact in float32
		v := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// float8e4m3 expands the "fn" variant of the OCP 8-bit formats: no infinities, S.1111.111 is NaN, bias 7.
func float8e4m3(b byte) float32 {
	exponent, fraction := int(b>>3)&0xf, float64(b&7)
	var v float64
	switch {
	case exponent == 0xf && b&7 == 7:
		return float32(math.NaN())
	case exponent == 0:
		v = math.Ldexp(fraction, -9)
	default:
		v = math.Ldexp(8+fraction, exponent-10)
	}
	if b>>7 == 1 {
		v = math.Copysign(v, -1)
	}
	return float32(v)
}

// float8e8m0 expands the OCP scale type: a power of two with bias 127, 0xff is NaN.
func float8e8m0(b byte) float32 {
	if b == 0xff {
		return float32(math.NaN())
	}
	return float32(math.Ldexp(1, int(b)-127))
}
