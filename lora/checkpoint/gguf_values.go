package checkpoint

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// integer decodes an integer of any width.
func (v ggufValue) integer() (int64, bool) {
	return ggufInteger(v.kind, v.raw)
}

func ggufInteger(kind uint32, raw []byte) (int64, bool) {
	switch kind {
	case ggufU8:
		return int64(raw[0]), true
	case ggufI8:
		return int64(int8(raw[0])), true
	case ggufU16:
		return int64(binary.LittleEndian.Uint16(raw)), true
	case ggufI16:
		return int64(int16(binary.LittleEndian.Uint16(raw))), true
	case ggufU32:
		return int64(binary.LittleEndian.Uint32(raw)), true
	case ggufI32:
		return int64(int32(binary.LittleEndian.Uint32(raw))), true
	case ggufU64:
		n := binary.LittleEndian.Uint64(raw)
		return int64(n), n <= math.MaxInt64
	case ggufI64:
		return int64(binary.LittleEndian.Uint64(raw)), true
	}
	return 0, false
}

// float decodes a float, or an integer as one. A float32 is taken at its shortest decimal, so that an epsilon stored
// as float32(1e-5) is 1e-5, as in config.json.
func (v ggufValue) float() (float64, bool) {
	switch v.kind {
	case ggufF32:
		return shortestDecimal(math.Float32frombits(binary.LittleEndian.Uint32(v.raw))), true
	case ggufF64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw)), true
	}
	n, ok := v.integer()
	return float64(n), ok
}

func (v ggufValue) boolean() (bool, bool) {
	return v.kind == ggufBool && v.raw[0] != 0, v.kind == ggufBool
}

func (v ggufValue) text() (string, bool) {
	return string(v.raw), v.kind == ggufString && utf8.Valid(v.raw)
}

// texts decodes an array of strings.
func (v ggufValue) texts() ([]string, bool) {
	if v.kind != ggufArray || v.element != ggufString {
		return nil, false
	}
	list := make([]string, 0, v.n) // n is bounded: each element took 8 bytes of the file
	for raw := v.raw; len(raw) > 0; {
		n := binary.LittleEndian.Uint64(raw)
		list = append(list, string(raw[8:8+n]))
		raw = raw[8+n:]
	}
	return list, true
}

// integers decodes an array of integers of any width.
func (v ggufValue) integers() ([]int64, bool) {
	if v.kind != ggufArray || v.element == ggufString {
		return nil, false
	}
	width := ggufWidths[v.element]
	list := make([]int64, v.n)
	for i := range list {
		n, ok := ggufInteger(v.element, v.raw[i*width:])
		if !ok {
			return nil, false
		}
		list[i] = n
	}
	return list, true
}
