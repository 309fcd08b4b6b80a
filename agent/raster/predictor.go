package raster

import (
	"encoding/binary"
	"unsafe"
)

// TIFF predictors: each row holds differences between neighbouring samples of a band instead of the samples.
const (
	predictNone       = 1
	predictHorizontal = 2 // TIFF 6.0 §14: integer differences, also used on the bits of floats
	predictFloat      = 3 // Adobe Photoshop TIFF Technical Note 3: byte planes, then byte differences
)

// hostOrder is the byte order of decoded blocks.
var hostOrder binary.ByteOrder = func() binary.ByteOrder {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}()

// Sample is any type that a file may store.
type Sample interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

// samples returns the memory of b as values of T, without copying. b comes from newBlock, so it is aligned for every T.
func samples[T Sample](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// newBlock returns n zero bytes that may be viewed as samples of any type.
func newBlock(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// swapBytes reverses the bytes of each sample of the given size.
func swapBytes(b []byte, size int) {
	switch size {
	case 2:
		for i := 0; i+1 < len(b); i += 2 {
			b[i], b[i+1] = b[i+1], b[i]
		}
	case 4:
		for i := 0; i+3 < len(b); i += 4 {
			v := binary.LittleEndian.Uint32(b[i:])
			binary.BigEndian.PutUint32(b[i:], v)
		}
	case 8:
		for i := 0; i+7 < len(b); i += 8 {
			v := binary.LittleEndian.Uint64(b[i:])
			binary.BigEndian.PutUint64(b[i:], v)
		}
	}
}

// unpredict undoes a predictor on a block of rows of rowBytes bytes with spp interleaved samples of the given size per pixel, and
// leaves the samples in host order. order is that of the file; predictor 3 stores its byte planes from the most significant one
// in either order.
func unpredict(predictor uint64, b []byte, rowBytes, size, spp int, order binary.ByteOrder) {
	if predictor == predictFloat {
		scratch := make([]byte, rowBytes)
		for len(b) >= rowBytes {
			unpredictFloat(b[:rowBytes], scratch, size, spp)
			b = b[rowBytes:]
		}
		return
	}
	if order != hostOrder {
		swapBytes(b, size)
	}
	if predictor != predictHorizontal {
		return
	}
	switch size {
	case 1:
		accumulate(samples[uint8](b), rowBytes, spp)
	case 2:
		accumulate(samples[uint16](b), rowBytes/2, spp)
	case 4:
		accumulate(samples[uint32](b), rowBytes/4, spp)
	case 8:
		accumulate(samples[uint64](b), rowBytes/8, spp)
	}
}

// accumulate turns differences into values, row by row of n samples.
func accumulate[T uint8 | uint16 | uint32 | uint64](v []T, n, spp int) {
	for ; len(v) >= n; v = v[n:] {
		row := v[:n]
		if spp == 1 {
			var sum T
			for i, d := range row {
				sum += d
				row[i] = sum
			}
			continue
		}
		for i := spp; i < n; i++ {
			row[i] += row[i-spp]
		}
	}
}

// unpredictFloat decodes one row of predictor 3.
func unpredictFloat(row, scratch []byte, size, spp int) {
	accumulate(row, len(row), spp)
	copy(scratch, row)
	n := len(row) / size
	switch size {
	case 4:
		b3, b2, b1, b0 := scratch[:n], scratch[n:2*n], scratch[2*n:3*n], scratch[3*n:4*n]
		out := samples[uint32](row) // rows of 4-byte samples begin at multiples of 4 bytes
		for i := range out {
			out[i] = uint32(b3[i])<<24 | uint32(b2[i])<<16 | uint32(b1[i])<<8 | uint32(b0[i])
		}
	case 8:
		for i := range n {
			var v uint64
			for p := range 8 {
				v = v<<8 | uint64(scratch[p*n+i])
			}
			hostOrder.PutUint64(row[8*i:], v)
		}
	}
}

// predictFloatRow encodes one row of little-endian float samples of the given size into dst, the reverse of unpredictFloat for one band.
func predictFloatRow(dst, row []byte, size int) {
	n := len(row) / size
	for i := range n {
		v := row[i*size : (i+1)*size]
		for p := range size {
			dst[p*n+i] = v[size-1-p]
		}
	}
	for i := len(dst) - 1; i > 0; i-- {
		dst[i] -= dst[i-1]
	}
}

// differences replaces each row of n samples by its differences, the reverse of accumulate for one band.
func differences[T uint8 | uint16 | uint32 | uint64](v []T, n int) {
	for ; len(v) >= n; v = v[n:] {
		for i := n - 1; i > 0; i-- {
			v[i] -= v[i-1]
		}
	}
}
