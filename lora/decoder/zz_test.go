package decoder

import (
	"fmt"
	"testing"
	"time"

	"terraloom/lora/adapter"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
)

func BenchmarkZZ(b *testing.B) {
	c := hybrid(1, 256)
	c.LayerTypes[0] = checkpoint.LinearAttention
	m, err := Load(backendtest.Open(b), c, RandomWeights{Config: c}, Options{Keep: true})
	if err != nil { b.Fatal(err) }
	a, _ := adapter.New(&c, adapter.Config{R: 8, Alpha: 16, Targets: []string{adapter.AllLinear}}, 1, nil)
	p, _ := m.Bind(a)
	for _, T := range []int{256, 1024, 2048, 4096} {
		row := make([]int32, T)
		for i := range row { row[i] = int32(i*i%2000) }
		batch := PadRight([][]int32{row})
		labels := batch.NextTokens(nil)
		sums, _ := p.Zeros()
		for k := range 3 {
			s := time.Now(); c0 := cpuTime()
			ps, err := m.Forward(batch, p, Train{Backward: true})
			if err != nil { b.Fatal(err) }
			if _, err := ps.Hidden(1); err != nil { b.Fatal(err) }
			f := time.Since(s); cf := cpuTime()-c0
			ps.Backward(labels, meanNLL(labels, len(labels.At)), sums)
			p.Norm(sums)
			ps.Free()
			fmt.Println(T, k, "fwd", f, cf, "all", time.Since(s), cpuTime()-c0)
		}
	}
}
