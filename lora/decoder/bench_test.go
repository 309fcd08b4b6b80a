package decoder

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"terraloom/lora/adapter"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
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

// hybrid is a Qwen3.5-like configuration with the given width.
func hybrid(layers, hidden int) checkpoint.Config {
	c := dense(layers, hidden, 4, 2, 3*hidden, 2048)
	c.Family, c.Architecture, c.ZeroCentredNorm, c.QKNorm, c.OutputGate = checkpoint.Qwen35, "Qwen3_5ForCausalLM", true, true, true
	c.Rope = checkpoint.Rope{Type: checkpoint.RopeDefault, Theta: 1e7, Dim: c.HeadDim / 4}
	c.LinearAttn = checkpoint.LinearAttn{KeyHeads: 4, ValueHeads: 8, KeyHeadDim: hidden / 8, ValueHeadDim: hidden / 8, ConvKernel: 4}
	for i := range c.LayerTypes {
		if (i+1)%4 != 0 {
			c.LayerTypes[i] = checkpoint.LinearAttention
		}
	}
	return c
}

// BenchmarkLoRAStep is one optimiser step of LoRA on all projections: forward, backward, global norm, AdamW. The shapes
// are those of the peers' programs: toy (8 layers, width 256) and smol (SmolLM2-135M).
func BenchmarkLoRAStep(b *testing.B) {
	for _, c := range []struct {
		name    string
		config  checkpoint.Config
		r, rows int
		len     int
		opts    Options
	}{
		{"toy", dense(8, 256, 8, 4, 688, 2048), 8, 4, 256, Options{}},
		{"toy-keep", dense(8, 256, 8, 4, 688, 2048), 8, 4, 256, Options{Keep: true}},
		{"toy-whole", dense(8, 256, 8, 4, 688, 2048), 8, 4, 256, Options{Whole: true}},
		{"toy-hybrid", hybrid(8, 256), 8, 4, 256, Options{}},
		{"smol", dense(30, 576, 9, 3, 1536, 49152), 16, 4, 512, Options{}},
		{"smol-keep", dense(30, 576, 9, 3, 1536, 49152), 16, 4, 512, Options{Keep: true}},
		{"smol-bf16", dense(30, 576, 9, 3, 1536, 49152), 16, 4, 512, Options{Precision: BFloat16}},
		{"smol-whole", dense(30, 576, 9, 3, 1536, 49152), 16, 4, 512, Options{Whole: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			m, err := Load(backendtest.Open(b), c.config, RandomWeights{Config: c.config}, c.opts)
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			a, err := adapter.New(&c.config, adapter.Config{R: c.r, Alpha: 2 * float64(c.r), Targets: []string{adapter.AllLinear}}, 1, nil)
			if err != nil {
				b.Fatal(err)
			}
			p, err := m.Bind(a)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Free()
			state, err := p.NewMoments()
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			rows := make([][]int32, c.rows)
			for r := range rows {
				for range c.len {
					rows[r] = append(rows[r], int32(rng.IntN(c.config.VocabSize)))
				}
			}
			batch := PadRight(rows)
			labels := batch.NextTokens(nil)
			step := func() {
				sums, err := p.Zeros()
				if err != nil {
					b.Fatal(err)
				}
				defer sums.Free()
				ps, err := m.Forward(batch, p, Train{Backward: true})
				if err != nil {
					b.Fatal(err)
				}
				defer ps.Free()
				if _, err := ps.Backward(labels, meanNLL(labels, len(labels.At)), sums); err != nil {
					b.Fatal(err)
				}
				norm, err := p.Norm(sums)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Update(state, sums, AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.01}, min(1, 1/norm)); err != nil {
					b.Fatal(err)
				}
				if _, err := p.Norm(&p.Vectors); err != nil { // waits for the update
					b.Fatal(err)
				}
			}
			start := time.Now()
			step()
			first := time.Since(start)
			var times []time.Duration
			cpu := cpuTime()
			for b.Loop() {
				start := time.Now()
				step()
				times = append(times, time.Since(start))
			}
			cpu = (cpuTime() - cpu) / time.Duration(len(times))
			best := slices.Min(times)
			b.ReportMetric(best.Seconds()*1e3, "min-ms/step")
			slices.Sort(times)
			b.ReportMetric(times[len(times)/2].Seconds()*1e3, "med-ms/step")
			b.ReportMetric(loraFLOPs(c.config, p.Count(), c.rows, c.len)/best.Seconds()/1e9, "GFLOP/s")
			b.ReportMetric(cpu.Seconds()*1e3, "cpu-ms/step")
			b.ReportMetric((first - best).Seconds(), "compile-s")
			b.ReportMetric(float64(c.rows*c.len)/best.Seconds(), "tokens/s")
			b.ReportMetric(float64(peakRSS())/1e6, "peak-MB")
			runtime.GC()
		})
	}
}

// loraFLOPs are the products of a step without recomputation: 4 per frozen weight and token, 6 per trained one, and
// causal attention forward and twice that backward.
func loraFLOPs(c checkpoint.Config, trained int64, rows, length int) float64 {
	matrices := int64(c.VocabSize) * int64(c.HiddenSize)
	for _, m := range adapter.Linears(&c) {
		matrices += int64(m.In) * int64(m.Out)
	}
	tokens := float64(rows * length)
	attention := 3 * 2 * float64(c.CountLayers(checkpoint.FullAttention)*c.NumHeads*c.HeadDim) * float64(length)
	return tokens * (4*float64(matrices) + 6*float64(trained) + attention)
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprint("getrusage: ", err))
	}
	return u
}

func cpuTime() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakRSS is in bytes; Linux counts in KiB.
func peakRSS() int64 { return usage().Maxrss * 1024 }
