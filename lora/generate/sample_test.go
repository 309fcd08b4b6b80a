package generate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"terraloom/lora/backend/backendtest"
	"terraloom/lora/generate/grammar"
)

func sampler(s Sampling) *row {
	return &row{request: Request{Sampling: s}, seen: map[int32]bool{}}
}

// draws are the tokens that a row can draw, found by going through the uniform numbers, with the probability of each.
func draws(logits []float32, r *row, mask grammar.Mask) (ids []int32, probs []float64) {
	const n = 512
	for i := range n {
		t := drawHost(logits, len(logits), r, mask, (float64(i)+0.5)/n)
		if len(ids) == 0 || ids[len(ids)-1] != t.ID {
			ids, probs = append(ids, t.ID), append(probs, math.Exp(float64(t.Sampled)))
		}
	}
	return ids, probs
}

func TestTruncation(t *testing.T) {
	// Probabilities 0.4, 0.3, 0.15, 0.1, 0.05, out of order.
	logits := []float32{}
	for _, p := range []float64{0.1, 0.4, 0.05, 0.3, 0.15} {
		logits = append(logits, float32(math.Log(p)))
	}
	mask := grammar.Mask{0b10101} // 0, 2, 4
	seen := func(r *row, ids ...int32) *row {
		for _, id := range ids {
			r.seen[id] = true
		}
		return r
	}
	for name, c := range map[string]struct {
		row   *row
		mask  grammar.Mask
		ids   []int32
		probs []float64
	}{
		"all":             {sampler(Sampling{Temperature: 1}), nil, []int32{0, 1, 2, 3, 4}, []float64{0.1, 0.4, 0.05, 0.3, 0.15}},
		"greedy":          {sampler(Sampling{}), nil, []int32{1}, []float64{0.4}},
		"temperature":     {sampler(Sampling{Temperature: 0.5, TopK: 2}), nil, []int32{1, 3}, []float64{0.16 / 0.25, 0.09 / 0.25}},
		"top-k":           {sampler(Sampling{Temperature: 1, TopK: 3}), nil, []int32{1, 3, 4}, []float64{0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85}},
		"top-k of more":   {sampler(Sampling{Temperature: 1, TopK: 9}), nil, []int32{0, 1, 2, 3, 4}, []float64{0.1, 0.4, 0.05, 0.3, 0.15}},
		"top-p":           {sampler(Sampling{Temperature: 1, TopP: 0.69}), nil, []int32{1, 3}, []float64{4. / 7, 3. / 7}},
		"top-p, one more": {sampler(Sampling{Temperature: 1, TopP: 0.71}), nil, []int32{1, 3, 4}, []float64{0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85}},
		"small top-p":     {sampler(Sampling{Temperature: 1, TopP: 1e-9}), nil, []int32{1}, []float64{1}},
		"top-p after k":   {sampler(Sampling{Temperature: 1, TopK: 2, TopP: 0.5}), nil, []int32{1}, []float64{1}},
		"min-p":           {sampler(Sampling{Temperature: 1, MinP: 0.37}), nil, []int32{1, 3, 4}, []float64{0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85}},
		"mask":            {sampler(Sampling{Temperature: 1}), mask, []int32{0, 2, 4}, []float64{0.1 / 0.3, 0.05 / 0.3, 0.15 / 0.3}},
		"greedy mask":     {sampler(Sampling{}), mask, []int32{4}, []float64{0.15}},
		"mask and top-p":  {sampler(Sampling{Temperature: 1, TopP: 0.8}), mask, []int32{0, 4}, []float64{0.4, 0.6}},
		// log 0.4 · 2 = log 0.16 and log 0.3 · 2 = log 0.09: logits are negative, so the penalty multiplies.
		"penalty":        {seen(sampler(Sampling{Temperature: 1, RepetitionPenalty: 2}), 1, 3), nil, []int32{0, 1, 2, 3, 4}, []float64{0.1 / 0.55, 0.16 / 0.55, 0.05 / 0.55, 0.09 / 0.55, 0.15 / 0.55}},
		"greedy penalty": {seen(sampler(Sampling{RepetitionPenalty: 2}), 1), nil, []int32{3}, []float64{0.3}},
	} {
		t.Run(name, func(t *testing.T) {
			ids, probs := draws(logits, c.row, c.mask)
			if !slices.Equal(ids, c.ids) {
				t.Fatalf("draws %v, expected %v", ids, c.ids)
			}
			for i := range probs {
				if math.Abs(probs[i]-c.probs[i]) > 1e-6 {
					t.Errorf("probabilities %v, expected %v", probs, c.probs)
				}
			}
			temperature := c.row.request.Sampling.Temperature
			if temperature == 0 {
				temperature = 1
			}
			token := drawHost(logits, len(logits), c.row, c.mask, 0.3)
			want := float64(logits[token.ID])/temperature - logSumExp(logits, 1/temperature)
			if math.Abs(float64(token.LogProb)-want) > 1e-6 {
				t.Errorf("log-probability %v over the whole vocabulary, expected %v", token.LogProb, want)
			}
		})
	}
}

// TestNucleusFloor: cutting small tokens off before sorting changes nothing.
func TestNucleusFloor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		logits := make([]float32, 300)
		for i := range logits {
			logits[i] = float32(rng.NormFloat64() * 4)
		}
		s := Sampling{Temperature: 1, TopP: 0.5 + rng.Float64()/2.1}
		var all []candidate
		top := float64(slices.Max(logits))
		for id, z := range logits {
			all = append(all, candidate{int32(id), math.Exp(float64(z) - top)})
		}
		want := truncate(all, 0, s)
		allowed := map[int32]bool{}
		for _, c := range want {
			allowed[c.id] = true
		}
		got := map[int32]bool{}
		ids, _ := draws(logits, sampler(s), nil)
		for _, id := range ids {
			got[id] = true
			if !allowed[id] {
				t.Fatalf("top-p %v drew %d, which is outside the nucleus of %d tokens", s.TopP, id, len(want))
			}
		}
		if len(got) < len(want)/2 {
			t.Fatalf("top-p %v drew %d of the nucleus's %d tokens", s.TopP, len(got), len(want))
		}
	}
}

func TestLikeliest(t *testing.T) {
	got := likeliest([]float32{1, 3, 2, 3, -1, 5}, 4)
	if !slices.Equal(got, []int32{5, 1, 3, 2}) {
		t.Errorf("%v", got)
	}
	if got := likeliest([]float32{1, 2}, 4); !slices.Equal(got, []int32{1, 0}) {
		t.Errorf("%v", got)
	}
}

// TestDeviceDraw: the device draws what the host draws, for vocabularies of any size, with rows of the embedding that
// no token uses, and at the edges of the uniform numbers.
func TestDeviceDraw(t *testing.T) {
	engine := backendtest.Open(t).Engine
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ vocab, live int }{{5, 5}, {256, 256}, {300, 257}, {1000, 700}, {5000, 5000}} {
		const rows = 64
		logits := make([]float32, rows*c.vocab)
		for i := range logits {
			logits[i] = float32(rng.NormFloat64() * 3)
		}
		inverse, uniform := make([]float32, rows), make([]float32, rows)
		for i := range rows {
			inverse[i] = []float32{0, 1, 1 / 0.7, 0.5}[i%4]
			uniform[i] = float32(rng.IntN(1<<23)) / (1 << 23)
		}
		uniform[1], uniform[2], uniform[5] = 0, 1-1./(1<<23), 1-1./(1<<23)
		exec := graph.MustNewExec(engine, func(z, inverse, uniform *graph.Node) []*graph.Node {
			token, logp := drawGraph(z, inverse, uniform, c.live)
			return []*graph.Node{token, logp}
		})
		out, err := exec.Call(tensors.FromFlatDataAndDimensions(logits, rows, c.vocab), inverse, uniform)
		if err != nil {
			t.Fatal(err)
		}
		tokens, logps := tensors.MustCopyFlatData[int32](out[0]), tensors.MustCopyFlatData[float32](out[1])
		differ := 0
		for i := range rows {
			r := sampler(Sampling{})
			if inverse[i] != 0 {
				r.request.Sampling.Temperature = 1 / float64(inverse[i])
			}
			z := logits[i*c.vocab : (i+1)*c.vocab]
			want := drawHost(z, c.live, r, nil, float64(uniform[i]))
			if int(tokens[i]) >= c.live {
				t.Fatalf("vocabulary %d: drew %d, only %d can be drawn", c.vocab, tokens[i], c.live)
			}
			if tokens[i] != want.ID {
				differ++ // a uniform number may lie where two tokens meet
				continue
			}
			if math.Abs(float64(logps[i]-want.LogProb)) > 2e-5 {
				t.Errorf("vocabulary %d row %d: log-probability %v, expected %v", c.vocab, i, logps[i], want.LogProb)
			}
		}
		if differ > 1 {
			t.Errorf("vocabulary %d: %d of %d tokens differ from the host's", c.vocab, differ, rows)
		}
	}
}

// TestUniform: random numbers are below 1 and depend on seed and position.
func TestUniform(t *testing.T) {
	seen := map[float32]bool{}
	var sum float64
	for seed := range uint64(100) {
		r := sampler(Sampling{Seed: seed})
		for i := range 100 {
			u := r.uniform(i)
			if !(u >= 0 && u < 1) {
				t.Fatal(u)
			}
			seen[u] = true
			sum += float64(u)
		}
		first := r.uniform(1)
		r.result.Tokens = append(r.result.Tokens, Token{})
		if r.uniform(0) != first {
			t.Fatal("the number depends on when it is asked for")
		}
	}
	if len(seen) < 9950 || math.Abs(sum/10000-0.5) > 0.02 {
		t.Errorf("%d different numbers with mean %v", len(seen), sum/10000)
	}
}
