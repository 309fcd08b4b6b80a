package checkpoint

import (
	"math"
	"math/big"
	"testing"
)

// TestBlocksEqualReference compares every block format and the F8 types with what ggml's own Python package and
// ml_dtypes make of the same random bytes (testdata/make_blocks.py), bit by bit.
func TestBlocksEqualReference(t *testing.T) {
	s, err := OpenSafetensors("testdata/blocks.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	checked := 0
	for dtype, l := range layouts {
		raw, err := s.Tensor(string(dtype) + ".raw")
		if err != nil {
			continue
		}
		checked++
		want, err := s.Float32(string(dtype) + ".f32")
		if err != nil {
			t.Fatal(err)
		}
		if len(want) != len(raw.Data)/l.bytes*l.block {
			t.Fatalf("%s: %d values for %d bytes", dtype, len(want), len(raw.Data))
		}
		got, err := Tensor{"x", dtype, []int{len(want)}, raw.Data}.Float32()
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			same := math.Float32bits(got[i]) == math.Float32bits(want[i]) || got[i] != got[i] && want[i] != want[i]
			if !same {
				t.Fatalf("%s element %d: %v, reference %v", dtype, i, got[i], want[i])
			}
		}
	}
	if want := len(blockDecoders) + 3; checked != want {
		t.Errorf("%d types compared, expected %d", checked, want)
	}
}

// TestBlocksByHand has one block per simple format whose values can be read off the bytes.
func TestBlocksByHand(t *testing.T) {
	one, two := []byte{0x00, 0x3c}, []byte{0x00, 0x40} // halves 1 and 2
	ramp := make([]byte, 16)                           // low nibble j, high nibble 15−j
	for j := range ramp {
		ramp[j] = byte(j | (15-j)<<4)
	}
	cat := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	high := []byte{0xff, 0xff, 0, 0} // fifth bit set in the first half only
	for _, c := range []struct {
		dtype         DType
		block         []byte
		first, middle float32 // elements 3 and 19
	}{
		{Q4_0, cat(one, ramp), 3 - 8, 12 - 8},
		{Q4_1, cat(two, one, ramp), 2*3 + 1, 2*12 + 1},
		{Q5_0, cat(one, high, ramp), 3 + 16 - 16, 12 - 16},
		{Q5_1, cat(two, one, high, ramp), 2*(3+16) + 1, 2*12 + 1},
		{Q8_0, cat(two, []byte{0, 0, 0, 0xff}, make([]byte, 15), []byte{0x7f}, make([]byte, 12)), -2, 254},
	} {
		got, err := Tensor{"x", c.dtype, []int{32}, c.block}.Float32()
		if err != nil {
			t.Fatal(err)
		}
		if got[3] != c.first || got[19] != c.middle {
			t.Errorf("%s: elements 3 and 19 are %v and %v, expected %v and %v", c.dtype, got[3], got[19], c.first, c.middle)
		}
	}
}

// TestHalves checks all 65,536 halves against the definition, and rounding against exact arithmetic.
func TestHalves(t *testing.T) {
	for h := range 1 << 16 {
		sign, exponent, fraction := h>>15, h>>10&31, h&1023
		var want float64
		switch {
		case exponent == 31 && fraction != 0:
			want = math.NaN()
		case exponent == 31:
			want = math.Inf(1)
		case exponent == 0:
			want = math.Ldexp(float64(fraction), -24)
		default:
			want = math.Ldexp(float64(1024+fraction), exponent-25)
		}
		if sign == 1 {
			want = math.Copysign(want, -1)
		}
		got := float64(float16(uint16(h)))
		if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("half %04x is %v, expected %v", h, got, want)
		}
		if !math.IsNaN(want) && toFloat16(float32(want)) != uint16(h) {
			t.Fatalf("half %04x does not survive: %04x", h, toFloat16(float32(want)))
		}
		if b := math.Float32frombits(uint32(h) << 16); b == b && toBFloat16(b) != uint16(h) {
			t.Fatalf("bfloat16 %04x does not survive: %04x", h, toBFloat16(b))
		}
	}
	if v := toBFloat16(float32(math.NaN())); v&0x7fff <= 0x7f80 {
		t.Errorf("NaN became %04x", v)
	}
	// Between neighbours the nearer wins, at the middle the even one. Every pair of finite neighbours of both formats.
	check := func(name string, low, high float32, got func(float32) uint16, lowBits uint16) {
		middle := new(big.Float).Quo(new(big.Float).Add(big.NewFloat(float64(low)), big.NewFloat(float64(high))), big.NewFloat(2))
		m, _ := middle.Float32()
		even := lowBits + lowBits&1
		if got(m) != even || got(math.Nextafter32(m, 0)) != lowBits || got(math.Nextafter32(m, float32(math.Inf(1)))) != lowBits+1 {
			t.Fatalf("%s: around %v: %04x %04x %04x", name, m, got(math.Nextafter32(m, 0)), got(m), got(math.Nextafter32(m, float32(math.Inf(1)))))
		}
	}
	for h := uint16(0); h < 0x7bff; h++ {
		check("half", float16(h), float16(h+1), toFloat16, h)
	}
	for h := uint16(0x0100); h < 0x7f7e; h++ {
		check("bfloat16", math.Float32frombits(uint32(h)<<16), math.Float32frombits(uint32(h+1)<<16), toBFloat16, h)
	}
	if toFloat16(65520) != 0x7c00 || toFloat16(65519.9) != 0x7bff || toFloat16(1e-8) != 0 || toFloat16(-1e30) != 0xfc00 {
		t.Error("the ends of the half range are wrong")
	}
}

func TestFloat32OfIntegers(t *testing.T) {
	for _, c := range []struct {
		dtype DType
		data  []byte
		want  float32
	}{
		{I8, []byte{0xfe}, -2}, {U8, []byte{0xfe}, 254}, {BOOL, []byte{1}, 1}, {I16, []byte{0xfe, 0xff}, -2}, {U16, []byte{0xfe, 0xff}, 65534},
		{I32, []byte{0xfe, 0xff, 0xff, 0xff}, -2}, {U32, []byte{0, 0, 0, 0x80}, 1 << 31}, {I64, []byte{0xfe, 255, 255, 255, 255, 255, 255, 255}, -2},
		{U64, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, 1 << 63}, {F64, []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 1.5},
	} {
		got, err := Tensor{"scalar", c.dtype, nil, c.data}.Float32()
		if err != nil || len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %v (%v), expected %v", c.dtype, got, err, c.want)
		}
	}
	_, err := Tensor{"x", C64, []int{1}, make([]byte, 8)}.Float32()
	wantError(t, err, ErrUnsupported, "C64")
	_, err = Tensor{"x", F32, []int{3}, make([]byte, 8)}.Float32()
	wantError(t, err, ErrFormat, `"x"`, "8 bytes")
}

// TestParallelDecode: a tensor large enough to be split decodes as its parts do.
func TestParallelDecode(t *testing.T) {
	n := 7*parallelGrain + 5
	data := make([]byte, 2*n)
	for i := range data {
		data[i] = byte(i * 7)
	}
	whole, err := Tensor{"x", F16, []int{n}, data}.Float32()
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		want := float16(uint16(data[2*i]) | uint16(data[2*i+1])<<8)
		if math.Float32bits(whole[i]) != math.Float32bits(want) {
			t.Fatalf("element %d: %v, expected %v", i, whole[i], want)
		}
	}
}
