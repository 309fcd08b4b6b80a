package eval

import (
	"context"
	"fmt"
	"math"
)

// matchThreshold is the cosine from which two answers count as the same.
const matchThreshold = 0.9

// EmbeddingSummary is the semantic match of answers (EM of Earth-Agent-Pro):
// the paper gives neither model nor threshold, so both are recorded.
type EmbeddingSummary struct {
	Model     string  `json:"model"`
	Threshold float64 `json:"threshold"`
	Mean      float64 `json:"mean"`  // mean cosine
	Match     float64 `json:"match"` // share of answers with a cosine of at least Threshold
}

// batch is the number of texts of one request.
const batch = 64

// Similarities are the cosines of each item's answer and reference; 0 where
// either is empty, and then neither is sent.
func Similarities(ctx context.Context, e Embedder, items []Item) ([]float64, error) {
	out := make([]float64, len(items))
	var at []int
	var texts []string
	for i, it := range items {
		if it.Answer != "" && it.Reference != "" {
			at, texts = append(at, i), append(texts, it.Reference, it.Answer)
		}
	}
	for from := 0; from < len(texts); from += batch {
		part := texts[from:min(from+batch, len(texts))]
		vectors, err := e.Embed(ctx, part)
		if err != nil {
			return nil, err
		}
		if len(vectors) != len(part) {
			return nil, fmt.Errorf("asked for %d embeddings, got %d", len(part), len(vectors))
		}
		for j := 0; j < len(part); j += 2 {
			out[at[(from+j)/2]] = Cosine(vectors[j], vectors[j+1])
		}
	}
	return out, nil
}

// Cosine is the cosine of two vectors; 0 where they differ in length, or one is
// zero or not finite. Vectors are scaled first, so that large ones do not overflow.
func Cosine(a, b []float64) float64 {
	scaleA, scaleB := largest(a), largest(b)
	if len(a) != len(b) || scaleA == 0 || scaleB == 0 {
		return 0
	}
	dot, aa, bb := 0.0, 0.0, 0.0
	for i := range a {
		x, y := a[i]/scaleA, b[i]/scaleB
		dot += x * y
		aa += x * x
		bb += y * y
	}
	return max(-1, min(1, dot/math.Sqrt(aa*bb)))
}

// largest is the largest magnitude of a vector, 0 if any is not finite.
func largest(v []float64) float64 {
	most := 0.0
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return 0
		}
		most = max(most, math.Abs(x))
	}
	return most
}

// SummarizeEmbedding averages similarities.
func SummarizeEmbedding(model string, similarities []float64) *EmbeddingSummary {
	s := &EmbeddingSummary{Model: model, Threshold: matchThreshold, Mean: mean(similarities, Sum)}
	matches := make([]float64, len(similarities))
	for i, v := range similarities {
		matches[i] = indicator(v >= matchThreshold)
	}
	s.Match = mean(matches, Sum)
	return s
}
