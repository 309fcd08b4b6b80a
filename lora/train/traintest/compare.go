package traintest

import (
	"math"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
)

// Tolerance is how far numbers may be from the reference.
type Tolerance struct {
	Atol       float64
	RelativeL2 float64 `json:"relative_l2_tolerance"`
}

// CompareAdapter checks every tensor. Adam turns noise in the smallest gradients into steps of full size: a few numbers
// may be off.
func CompareAdapter(tb testing.TB, what string, got *adapter.Adapter, f *checkpoint.Safetensors, prefix string, tol Tolerance, outliers int) {
	tb.Helper()
	var diff, size float64
	beyond, compared := 0, 0
	for i, m := range got.Modules {
		for part, x := range map[string][]float32{".lora_A.weight": got.A[i], ".lora_B.weight": got.B[i]} {
			want, err := f.Float32(prefix + adapter.TextPrefix + m.Name() + part)
			Check(tb, err)
			if len(x) != len(want) {
				tb.Fatalf("%s: %s%s has %d numbers, expected %d", what, m.Name(), part, len(x), len(want))
			}
			for j := range x {
				d := float64(x[j]) - float64(want[j])
				diff, size = diff+d*d, size+float64(want[j])*float64(want[j])
				if compared++; !(math.Abs(d) <= tol.Atol) {
					beyond++
				}
			}
		}
	}
	if compared == 0 {
		tb.Fatalf("%s: nothing compared", what)
	}
	if beyond > outliers {
		tb.Errorf("%s: %d of %d numbers off by more than %g", what, beyond, compared, tol.Atol)
	}
	if rel := math.Sqrt(diff / size); tol.RelativeL2 > 0 && !(rel <= tol.RelativeL2) {
		tb.Errorf("%s: relative L2 error %g, allowed %g", what, rel, tol.RelativeL2)
	}
}
