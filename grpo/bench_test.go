package grpo

import (
	"context"
	"math"
	"slices"
	"testing"

	"terraloom/lora/backend/backendtest"
)

// BenchmarkToyStep is one optimiser step on the shape that TRL's trainer is timed on: a Llama of 8 layers, hidden size 256 and
// 2,048 tokens in float32; 4 prompts of 64 tokens × 4 answers of 64; rank 8 on all projections; KL with β 0.04. It reports the
// shares of generation, of training (the reference's judgement in it) and of what is neither, the optimiser included.
func BenchmarkToyStep(b *testing.B) {
	b.Run("4x4x64", func(b *testing.B) {
		times, err := TRLToy.Time(context.Background(), backendtest.Open(b), b.N)
		check(b, err)
		var all, generate, trained float64
		var seconds []float64
		for _, s := range times.Steps {
			all += s.Seconds
			seconds = append(seconds, s.Seconds)
			generate += s.Generate
			trained += s.Train
		}
		slices.Sort(seconds)
		b.ReportMetric(seconds[len(seconds)/2], "s-median")
		b.ReportMetric(seconds[0], "s-best")
		b.ReportMetric(100*generate/all, "%generate")
		b.ReportMetric(100*trained/all, "%train")
		b.ReportMetric(100*times.Other, "%other")
		b.ReportMetric(0, "ns/op") // compilation is in it
	})
}

// TestToy does two steps of a smaller shape: the second one has moved away from the reference.
func TestToy(t *testing.T) {
	times, err := Toy{Layers: 2, Hidden: 64, Prompts: 2, PromptTokens: 16, Samples: 2, Answer: 16}.Time(context.Background(), backendtest.Open(t), 1)
	check(t, err)
	if len(times.Steps) != 1 || math.Abs(times.First.KL) > 1e-10 || !(times.Steps[0].KL > 1e-9) {
		t.Errorf("%+v", times)
	}
	for _, s := range append(times.Steps, times.First) {
		if !(s.Generate > 0 && s.Train > 0 && s.Seconds >= s.Generate+s.Train && s.Generated > 0) {
			t.Errorf("%+v", s)
		}
	}
}
