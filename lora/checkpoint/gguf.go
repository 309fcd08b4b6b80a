package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"unicode/utf8"
)

// GGUF is one open GGUF file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3,
// little-endian. Shapes are reversed on reading, so that they are row-major like those of safetensors.
type GGUF struct {
	Version int

	path    string
	values  map[string]ggufValue
	tensors map[string]Tensor
	order   []string // as listed in the file, which need not be the order of the data
	release func() error
}

const (
	ggufMagic     = "GGUF"
	maxGGUFKey    = 1 << 16 // the format's limit
	maxGGUFName   = 1 << 10
	maxGGUFDims   = 4
	ggufAlignment = 32 // unless general.alignment says otherwise
)

// Value types of the metadata.
const (
	ggufU8 = iota
	ggufI8
	ggufU16
	ggufI16
	ggufU32
	ggufI32
	ggufF32
	ggufBool
	ggufString
	ggufArray
	ggufU64
	ggufI64
	ggufF64
)

var ggufWidths = [...]int{ggufU8: 1, ggufI8: 1, ggufU16: 2, ggufI16: 2, ggufU32: 4, ggufI32: 4, ggufF32: 4, ggufBool: 1, ggufU64: 8, ggufI64: 8, ggufF64: 8}

// ggufValue is a metadata value, undecoded: raw holds the scalar, the string's bytes, or n elements of an array.
type ggufValue struct {
	kind    uint32
	element uint32 // for arrays
	n       uint64
	raw     []byte
}

// ggmlTypes are the tensor types by their number in the file; an empty dtype is a known type that is not read.
var ggmlTypes = map[uint32]struct {
	dtype DType
	name  string
}{
	0: {F32, "F32"}, 1: {F16, "F16"}, 2: {Q4_0, "Q4_0"}, 3: {Q4_1, "Q4_1"}, 6: {Q5_0, "Q5_0"}, 7: {Q5_1, "Q5_1"}, 8: {Q8_0, "Q8_0"},
	9: {"", "Q8_1"}, 10: {Q2_K, "Q2_K"}, 11: {Q3_K, "Q3_K"}, 12: {Q4_K, "Q4_K"}, 13: {Q5_K, "Q5_K"}, 14: {Q6_K, "Q6_K"}, 15: {"", "Q8_K"},
	16: {"", "IQ2_XXS"}, 17: {"", "IQ2_XS"}, 18: {"", "IQ3_XXS"}, 19: {"", "IQ1_S"}, 20: {"", "IQ4_NL"}, 21: {"", "IQ3_S"}, 22: {"", "IQ2_S"},
	23: {"", "IQ4_XS"}, 24: {I8, "I8"}, 25: {I16, "I16"}, 26: {I32, "I32"}, 27: {I64, "I64"}, 28: {F64, "F64"}, 29: {"", "IQ1_M"}, 30: {BF16, "BF16"},
	34: {"", "TQ1_0"}, 35: {"", "TQ2_0"}, 39: {"", "MXFP4"},
}

func isGGUF(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, len(ggufMagic))
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == ggufMagic
}

// OpenGGUF maps a file and checks its structure. Damage is [ErrFormat]; a tensor type without a decoder here is
// [ErrUnsupported]. Close it after the last use of its tensors.
func OpenGGUF(path string) (*GGUF, error) {
	raw, release, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	g, err := ParseGGUF(raw)
	if err != nil {
		release()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	g.path, g.release = path, release
	return g, nil
}

// ParseGGUF reads a file held in memory; tensors alias raw.
func ParseGGUF(raw []byte) (*GGUF, error) {
	r := &ggufReader{raw: raw}
	g := &GGUF{values: map[string]ggufValue{}, tensors: map[string]Tensor{}, release: func() error { return nil }}
	if !bytes.HasPrefix(raw, []byte(ggufMagic)) {
		return nil, fmt.Errorf("gguf: does not begin with %q: %w", ggufMagic, ErrFormat)
	}
	r.at = len(ggufMagic)
	version := r.u32()
	switch version {
	case 2, 3:
	case 2 << 24, 3 << 24:
		return nil, fmt.Errorf("gguf: big-endian files are not read: %w", ErrUnsupported)
	default:
		return nil, fmt.Errorf("gguf: version %d, this program reads 2 and 3: %w", version, ErrUnsupported)
	}
	g.Version = int(version)
	numTensors, numValues := r.u64(), r.u64()
	for i := uint64(0); i < numValues && r.err == nil; i++ {
		key := r.text(maxGGUFKey, "key")
		r.what = "value of " + key
		kind := r.u32()
		value := r.value(kind)
		if _, twice := g.values[key]; twice && r.err == nil {
			return nil, fmt.Errorf("gguf: key %q is there twice: %w", key, ErrFormat)
		}
		g.values[key] = value
	}
	if r.err != nil {
		return nil, fmt.Errorf("gguf: metadata: %w", r.err)
	}
	return g, g.readTensors(r, numTensors)
}

// readTensors reads the table of tensors, which may be in any order, and cuts them out of the data part.
func (g *GGUF) readTensors(r *ggufReader, count uint64) error {
	align := uint64(ggufAlignment)
	if v, ok := g.values["general.alignment"]; ok {
		a, isInt := v.integer()
		if !isInt || a <= 0 || a > 1<<20 || a&(a-1) != 0 {
			return fmt.Errorf("gguf: general.alignment is not a power of two: %w", ErrFormat)
		}
		align = uint64(a)
	}
	type span struct {
		name         string
		dtype        DType
		shape        []int
		offset, size uint64
	}
	var spans []span
	seen := map[string]bool{}
	for i := uint64(0); i < count && r.err == nil; i++ {
		name := r.text(maxGGUFName, "tensor name")
		r.what = "tensor " + name
		dims := r.u32()
		if dims > maxGGUFDims {
			return fmt.Errorf("gguf: tensor %q has %d dimensions, at most %d are allowed: %w", name, dims, maxGGUFDims, ErrFormat)
		}
		shape := make([]int, dims)
		for d := range shape {
			n := r.u64()
			if n > math.MaxInt64 || uint64(int(n)) != n {
				return fmt.Errorf("gguf: tensor %q: dimension %d: %w", name, n, ErrFormat)
			}
			shape[len(shape)-1-d] = int(n)
		}
		number, offset := r.u32(), r.u64()
		if r.err != nil {
			break
		}
		if seen[name] {
			return fmt.Errorf("gguf: tensor %q is there twice: %w", name, ErrFormat)
		}
		seen[name] = true
		kind, known := ggmlTypes[number]
		if kind.dtype == "" {
			if !known {
				kind.name = fmt.Sprintf("of unknown number %d", number)
			}
			return fmt.Errorf("gguf: tensor %q has type %s, which is not read: %w", name, kind.name, ErrUnsupported)
		}
		n, ok := numElements(shape)
		size, ok2 := kind.dtype.size(n)
		if block := layouts[kind.dtype].block; !ok || !ok2 || len(shape) > 0 && shape[len(shape)-1]%block != 0 {
			return fmt.Errorf("gguf: tensor %q: rows of %s%v are not whole blocks of %d, or it is too large: %w", name, kind.dtype, shape, block, ErrFormat)
		}
		if offset%align != 0 {
			return fmt.Errorf("gguf: tensor %q: offset %d is not a multiple of %d: %w", name, offset, align, ErrFormat)
		}
		spans = append(spans, span{name, kind.dtype, shape, offset, uint64(size)})
		g.order = append(g.order, name)
	}
	if r.err != nil {
		return fmt.Errorf("gguf: tensor table: %w", r.err)
	}
	start := (uint64(r.at) + align - 1) / align * align
	if start > uint64(len(r.raw)) {
		start = uint64(len(r.raw))
	}
	data := r.raw[start:]
	slices.SortStableFunc(spans, func(a, b span) int {
		switch {
		case a.offset < b.offset || a.offset == b.offset && a.size < b.size:
			return -1
		case a.offset == b.offset && a.size == b.size:
			return 0
		}
		return 1
	})
	var end uint64
	for _, s := range spans {
		if s.offset < end {
			return fmt.Errorf("gguf: tensor %q overlaps the one before it: %w", s.name, ErrFormat)
		}
		if s.offset > uint64(len(data)) || s.size > uint64(len(data))-s.offset {
			return fmt.Errorf("gguf: tensor %q: %d bytes at %d of a data part of %d (truncated file?): %w", s.name, s.size, s.offset, len(data), ErrFormat)
		}
		end = s.offset + s.size
		g.tensors[s.name] = Tensor{s.name, s.dtype, s.shape, data[s.offset:end:end]}
	}
	return nil
}

// Names lists the tensors as the file does.
func (g *GGUF) Names() []string { return slices.Clone(g.order) }

// Tensor returns a tensor by its name in the file, without copying its data; [ErrNoTensor] if there is none.
func (g *GGUF) Tensor(name string) (Tensor, error) {
	t, ok := g.tensors[name]
	if !ok {
		return Tensor{}, fmt.Errorf("%s: %q: %w", g.path, name, ErrNoTensor)
	}
	return t, nil
}

// Close releases the file. Tensors taken from it must not be used afterwards.
func (g *GGUF) Close() error {
	release := g.release
	g.release = func() error { return nil }
	return release()
}

// ggufReader reads little-endian values until the first error, which sticks.
type ggufReader struct {
	raw  []byte
	at   int
	what string // for messages
	err  error
}

func (r *ggufReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %s: %s: %w", r.at, r.what, fmt.Sprintf(format, args...), ErrFormat)
	}
}

func (r *ggufReader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.raw)-r.at) {
		r.fail("%d bytes wanted, the file has %d more", n, len(r.raw)-r.at)
		return nil
	}
	b := r.raw[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *ggufReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *ggufReader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// text reads a length and that many bytes of UTF-8.
func (r *ggufReader) text(limit uint64, what string) string {
	r.what = what
	n := r.u64()
	if n > limit {
		r.fail("%d bytes long, at most %d are allowed", n, limit)
		return ""
	}
	b := r.take(n)
	if !utf8.Valid(b) {
		r.fail("not valid UTF-8")
	}
	return string(b)
}

// value reads one metadata value, leaving it undecoded. Arrays of arrays, which no model file has, are refused.
func (r *ggufReader) value(kind uint32) ggufValue {
	v := ggufValue{kind: kind, n: 1}
	switch {
	case kind == ggufString:
		v.raw = r.take(r.u64())
	case kind == ggufArray:
		v.element, v.n = r.u32(), r.u64()
		start := r.at
		switch {
		case v.element == ggufString:
			for i := uint64(0); i < v.n && r.err == nil; i++ {
				r.take(r.u64())
			}
		case v.element == ggufArray:
			r.fail("arrays of arrays are not read")
		case int(v.element) >= len(ggufWidths):
			r.fail("unknown element type %d", v.element)
		case v.n > math.MaxInt64/8:
			r.fail("%d elements", v.n)
		default:
			r.take(v.n * uint64(ggufWidths[v.element]))
		}
		v.raw = r.raw[start:r.at]
	case int64(kind) >= int64(len(ggufWidths)):
		r.fail("unknown type %d", kind)
	default:
		v.raw = r.take(uint64(ggufWidths[kind]))
	}
	return v
}
