package generate

import (
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// dense is the configuration of a Llama with tied embeddings.
func dense(layers, hidden, heads, kv, inter, vocab int) checkpoint.Config {
	c := checkpoint.Config{Family: checkpoint.Llama, Architecture: "LlamaForCausalLM", HiddenSize: hidden, IntermediateSize: inter,
		NumLayers: layers, NumHeads: heads, NumKVHeads: kv, HeadDim: hidden / heads, VocabSize: vocab, MaxPositions: 8192,
		RMSNormEps: 1e-5, Tied: true, DType: checkpoint.F32, BOS: -1, Pad: -1}
	c.Rope = checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: 1e5, Dim: c.HeadDim}
	for range layers {
		c.LayerTypes = append(c.LayerTypes, checkpoint.FullAttention)
	}
	return c
}

// cpuTime is the processor time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDecode generates 64 tokens after 448 with random weights: toy is 8 layers of width 256, smol has the shape of
// SmolLM2-135M. The figures are the best of the iterations:
//
//	tok/s      of all rows together, prompts not counted
//	ms/step    one token of every row
//	cpu-ms     processor time of a step: steadier than the others where the machine is shared
//	GB/s       weights read: every step reads all matrices once
//	prompt-tok/s
//	compile-s  the first call, which compiles everything, over the best one
//
// -benchtime 5x gives five iterations.
func BenchmarkDecode(b *testing.B) {
	const prompt, length = 448, 64
	for _, c := range []struct {
		name   string
		config checkpoint.Config
	}{
		{"toy", dense(8, 256, 8, 4, 688, 2048)},
		{"smol", dense(30, 576, 9, 3, 1536, 49152)},
	} {
		m, err := decoder.Load(backendtest.Open(b), c.config, decoder.RandomWeights{Config: c.config}, decoder.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer m.Close()
		for _, rows := range []int{1, 4, 16} {
			for _, draw := range []string{"greedy", "sampled", "top-p"} {
				b.Run(fmt.Sprintf("%s/%d/%s", c.name, rows, draw), func(b *testing.B) {
					e := newEngine(b, m, Options{MaxRows: rows})
					var first, last time.Time
					requests := make([]Request, rows)
					for i := range requests {
						requests[i] = Request{Prompt: make([]int32, prompt), MaxTokens: length, StopIDs: none, Sampling: Sampling{Seed: uint64(i)}}
						for j := range requests[i].Prompt {
							requests[i].Prompt[j] = int32((i*131 + j*17) % c.config.VocabSize)
						}
						if draw != "greedy" {
							requests[i].Sampling.Temperature = 1
						}
						if draw == "top-p" {
							requests[i].Sampling.TopP = 0.9
						}
					}
					tokens := 0
					var firstCPU, lastCPU time.Duration
					requests[0].Emit = func(p Piece) {
						last, lastCPU = time.Now(), cpuTime()
						if first.IsZero() {
							first, firstCPU = last, lastCPU
						} else {
							tokens += len(p.Tokens)
						}
					}
					var compile, best time.Duration = 0, math.MaxInt64
					step, cpu, prefill := math.Inf(1), math.Inf(1), math.Inf(1)
					for i := range b.N + 1 { // the first compiles
						first, tokens = time.Time{}, 0
						begin := time.Now()
						generate(b, e, requests...)
						if i == 0 {
							compile = time.Since(begin)
							b.ResetTimer()
							continue
						}
						best = min(best, time.Since(begin))
						step = min(step, last.Sub(first).Seconds()/float64(tokens))
						cpu = min(cpu, (lastCPU-firstCPU).Seconds()/float64(tokens))
						prefill = min(prefill, first.Sub(begin).Seconds()-step*float64(length-tokens))
					}
					matrices := c.config.Parameters() * 4
					b.ReportMetric(float64(rows)/step, "tok/s")
					b.ReportMetric(step*1000, "ms/step")
					b.ReportMetric(cpu*1000, "cpu-ms")
					b.ReportMetric(float64(matrices)/step/1e9, "GB/s")
					b.ReportMetric(float64(rows*(prompt-1))/prefill, "prompt-tok/s")
					b.ReportMetric((compile - best).Seconds(), "compile-s")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
