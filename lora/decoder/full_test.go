package decoder

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
)

// TestFull trains all weights: gradients against the change of the loss, tied and untied, in every mode; the trained weights written out are the model.
func TestFull(t *testing.T) {
	for _, tied := range []bool{true, false} {
		t.Run(fmt.Sprintf("tied=%t", tied), func(t *testing.T) {
			var grads [][]float32
			for _, name := range []string{"recompute", "keep", "whole graph"} {
				if name != "recompute" && !compilesFast(t) {
					continue
				}
				m := loadTiny(t, tied, modes[name])
				weights := RandomWeights{Config: m.Config, Seed: 7, Std: 0.2}
				p, err := m.Full(weights)
				if err != nil {
					t.Fatal(err)
				}
				if p.Count() != m.Config.Parameters() {
					t.Errorf("%d trainable numbers, the model has %d", p.Count(), m.Config.Parameters())
				}
				b := PadRight(randomRows(4, 50, 24, 17))
				labels := b.NextTokens(nil)
				run := func() (float64, []float32) {
					sums := zeros(t, p)
					ps := forward(t, m, b, p, Train{Backward: true})
					s := backward(t, ps, labels, meanNLL(labels, len(labels.At)), sums)
					return mean(s.LogProb), hostOf(t, sums)
				}
				loss, grad := run()
				frozen, err := forward(t, m, b, nil, Train{}).Score(labels)
				if err != nil {
					t.Fatal(err)
				}
				if d := math.Abs(loss - mean(frozen.LogProb)); d > 1e-5 {
					t.Errorf("trained and frozen weights differ in the loss by %v", d)
				}
				grads = append(grads, grad)
				if name != "recompute" {
					if r := relative(grad, grads[0]); !(r < 1e-4) {
						t.Errorf("%s: gradients differ by %.2g", name, r)
					}
					continue
				}
				slope(t, p, grad, func() float64 { l, _ := run(); return l })
				// Each kind of tensor by itself: the slope above is ruled by the largest.
				for v, name := range map[int]string{len(m.layers): "outer", 0: "linear layer", 1: "attention layer"} {
					only := make([]float32, 0, len(grad))
					for i, n := range p.sizes() {
						part := grad[len(only) : len(only)+n]
						if i != v {
							part = make([]float32, n)
						}
						only = append(only, part...)
					}
					t.Run(name, func(t *testing.T) { slope(t, p, only, func() float64 { l, _ := run(); return l }) })
				}
				fullRoundTrip(t, m, p, b, labels)
			}
		})
	}
}

// fullRoundTrip trains a few steps, merges, and reloads the written tensors.
func fullRoundTrip(t *testing.T, m *Model, p *Params, b Batch, labels Labels) {
	state, err := p.NewMoments()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		sums := zeros(t, p)
		backward(t, forward(t, m, b, p, Train{Backward: true}), labels, meanNLL(labels, len(labels.At)), sums)
		if err := p.Update(state, sums, AdamW{LR: 0.01, Beta1: .9, Beta2: .99, Eps: 1e-8}, 1); err != nil {
			t.Fatal(err)
		}
	}
	at := allPositions(b)
	logits := func(m *Model, p *Params) []float32 {
		out, err := forward(t, m, b, p, Train{}).Logits(at)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := logits(m, p)
	if slices.Equal(want, logits(m, nil)) {
		t.Error("training changed nothing")
	}
	merged, err := m.Merged(p)
	if err != nil {
		t.Fatal(err)
	}
	defer merged.Close()
	closeTo(t, "merged", logits(merged, nil), want, 1e-5)
	sources, err := p.Tensors()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "model")
	for i := range sources {
		if sources[i].Name != "lm_head.weight" {
			sources[i].Name = "model." + sources[i].Name
		}
	}
	if err := checkpoint.WriteFolder(dir, checkpoint.Folder{Config: m.Config.JSON(), Tensors: sources}); err != nil {
		t.Fatal(err)
	}
	again, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	reloaded, err := Load(backendtest.Open(t), again.Config, again, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer reloaded.Close()
	closeTo(t, "written and reloaded", logits(reloaded, nil), want, 1e-5)
}
