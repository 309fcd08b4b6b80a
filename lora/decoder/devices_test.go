package decoder

import (
	"errors"
	"math"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
)

// TestDevices splits batches over 2 and 4 virtual devices, with the base whole and split: loss and gradients are those
// of one device.
func TestDevices(t *testing.T) {
	if backendtest.Open(t).Name == backend.Go {
		t.Skip("the Go backend has one device; another run tests XLA")
	}
	if testing.Short() {
		t.Skip("compiling for several devices takes half a minute")
	}
	b, err := backend.Open(backend.CPU, backend.Options{Devices: 4})
	if errors.Is(err, backend.ErrNotInstalled) {
		t.Skip("XLA:CPU is not installed: run `terraloom backend install cpu`")
	}
	if err != nil {
		t.Fatal(err)
	}
	c := tiny(true)
	rows := randomRows(4, 50, 40, 7, 0, 35) // more than one chunk of the delta rule
	batch := Pack([][][]int32{rows, rows[1:], rows[:1], rows[3:]})
	labels := batch.NextTokens(nil)
	run := func(opts Options, full bool) (float64, []float32) {
		weights := RandomWeights{Config: c, Seed: 7, Std: 0.1}
		m, err := Load(b, c, weights, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var p *Params
		if full {
			if p, err = m.Full(weights); err != nil {
				t.Fatal(err)
			}
			defer p.Free()
		} else {
			p = bindNew(t, m, adapter.Config{})
		}
		sums := zeros(t, p)
		l := labels
		l.Reference = forward(t, m, batch, nil, Train{})
		coef := meanNLL(l, len(l.At))
		coef.KL, coef.Entropy = coef.LogProb, coef.LogProb
		s := backward(t, forward(t, m, batch, p, Train{Backward: true}), l, coef, sums)
		return mean(s.LogProb), hostOf(t, sums)
	}
	for _, full := range []bool{false, true} {
		loss, grad := run(Options{}, full)
		several := []Options{{Devices: 2, Keep: true}, {Devices: 4, ShardBase: true}}
		if full {
			several = several[:1]
		}
		for _, opts := range several {
			got, gradGot := run(opts, full)
			if d := math.Abs(got - loss); !(d < 1e-5) {
				t.Errorf("%+v full=%t: loss %v, one device %v", opts, full, got, loss)
			}
			if r := relative(gradGot, grad); !(r < 1e-4) {
				t.Errorf("%+v full=%t: gradients differ by %.2g", opts, full, r)
			}
		}
	}
}
