package decoder

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"terraloom/lora/checkpoint"
)

// InverseFrequencies returns ω_i of the rotary embedding, i = 0 … Dim/2−1: θ^(−2i/Dim), for the llama3 type with long
// wavelengths stretched by Factor and those in between interpolated (transformers' "llama3" rope type).
func InverseFrequencies(r checkpoint.Rope) []float64 {
	w := make([]float64, r.Dim/2)
	for i := range w {
		w[i] = math.Pow(r.Theta, -2*float64(i)/float64(r.Dim))
		if r.Type != checkpoint.RopeLlama3 {
			continue
		}
		length := float64(r.OriginalMaxPositions)
		wave := 2 * math.Pi / w[i]
		switch smooth := (length/wave - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor); {
		case wave > length/r.LowFreqFactor:
			w[i] /= r.Factor
		case wave >= length/r.HighFreqFactor:
			w[i] = (1-smooth)*w[i]/r.Factor + smooth*w[i]
		}
	}
	return w
}

// RopeTable returns cosine and sine of position·ω_i, [len(positions), Dim/2] row-major. Angles are float64: at position
// 100,000 a float32 angle is off by 0.004.
func RopeTable(r checkpoint.Rope, positions []int32) (cos, sin []float32) {
	w := InverseFrequencies(r)
	cos, sin = make([]float32, len(positions)*len(w)), make([]float32, len(positions)*len(w))
	for t, p := range positions {
		for i, f := range w {
			s, c := math.Sincos(float64(p) * f)
			cos[t*len(w)+i], sin[t*len(w)+i] = float32(c), float32(s)
		}
	}
	return cos, sin
}

// Rotate applies the rotary embedding to x [B, T, heads, d]: pairs (i, i+h) for i < h turn by the angle of the table,
// elements from 2h on pass through (Su et al. 2021, https://arxiv.org/abs/2104.09864, half-split layout).
// cos and sin are [B or 1, T, h].
func Rotate(x, cos, sin *Node) *Node {
	h := cos.Shape().Dimensions[2]
	d := x.Shape().Dimensions[3]
	a := Slice(x, AxisRange(), AxisRange(), AxisRange(), AxisRange(0, h))
	b := Slice(x, AxisRange(), AxisRange(), AxisRange(), AxisRange(h, 2*h))
	cos, sin = InsertAxes(cos, 2), InsertAxes(sin, 2)
	parts := []*Node{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))}
	if 2*h < d {
		parts = append(parts, Slice(x, AxisRange(), AxisRange(), AxisRange(), AxisRange(2*h, d)))
	}
	return Concatenate(parts, -1)
}
