package adapter

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"terraloom/lora/checkpoint"
)

// Adapter is an adapter's configuration and tensors on the host.
type Adapter struct {
	Config  Config
	Base    string   // name or path of the base, as adapter_config.json records it
	Modules []Module // in the order of computation
	// Tensors of the modules, row-major: A [r, In], B [Out, r] and, for DoRA, Magnitude [Out].
	A, B, Magnitude [][]float32
}

// Weights gives base tensors by canonical name: a [checkpoint.Model].
type Weights interface {
	Float32(name string) ([]float32, error)
}

// New makes an adapter that changes nothing yet: A uniform in ±1/√In (PEFT's Kaiming initialisation), B zero. Every
// module has its own random stream, so the same seed gives a module the same A whatever the other targets are.
// DoRA takes the lengths of the rows of the base's matrices from weights; otherwise weights may be nil.
func New(base *checkpoint.Config, c Config, seed uint64, weights Weights) (*Adapter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	modules, err := c.Modules(base)
	if err != nil {
		return nil, err
	}
	a := &Adapter{Config: c, Modules: modules}
	for _, m := range modules {
		h := fnv.New64a()
		h.Write([]byte(m.Name()))
		rng := rand.New(rand.NewPCG(seed, h.Sum64()))
		bound := 1 / math.Sqrt(float64(m.In))
		A := make([]float32, c.R*m.In)
		for i := range A {
			A[i] = float32((2*rng.Float64() - 1) * bound)
		}
		a.A = append(a.A, A)
		a.B = append(a.B, make([]float32, m.Out*c.R))
		if c.DoRA {
			if weights == nil {
				return nil, fmt.Errorf("%w: DoRA needs the base's weights for the lengths of their rows", ErrConfig)
			}
			w, err := weights.Float32(m.Name() + ".weight")
			if err != nil {
				return nil, err
			}
			a.Magnitude = append(a.Magnitude, rowNorms(w, m.Out, m.In))
		}
	}
	return a, nil
}

func rowNorms(w []float32, rows, columns int) []float32 {
	norms := make([]float32, rows)
	for r := range norms {
		var sum float64
		for _, v := range w[r*columns : (r+1)*columns] {
			sum += float64(v) * float64(v)
		}
		norms[r] = float32(math.Sqrt(sum))
	}
	return norms
}

// Parameters counts the adapter's numbers.
func (a *Adapter) Parameters() int64 {
	var n int64
	for i := range a.Modules {
		n += int64(len(a.A[i]) + len(a.B[i]))
		if a.Config.DoRA {
			n += int64(len(a.Magnitude[i]))
		}
	}
	return n
}

// Hash is the SHA-256, in hex, over scale, module names and tensors: two adapters with the same hash compute the same.
// Training that leaves it unchanged trained nothing.
func (a *Adapter) Hash() string {
	h := sha256.New()
	buf := make([]byte, 0, 1<<16)
	flush := func() {
		h.Write(buf)
		buf = buf[:0]
	}
	fmt.Fprintf(h, "r=%d scale=%v dora=%t\n", a.Config.R, a.Config.Scale(), a.Config.DoRA)
	for i, m := range a.Modules {
		fmt.Fprintf(h, "%s %d %d\n", m.Name(), m.Out, m.In)
		tensors := [][]float32{a.A[i], a.B[i]}
		if a.Config.DoRA {
			tensors = append(tensors, a.Magnitude[i])
		}
		for _, t := range tensors {
			for _, v := range t {
				if buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v)); len(buf) >= 1<<16-4 {
					flush()
				}
			}
			flush()
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// CheckFits verifies that the adapter was made for a base of this shape.
func (a *Adapter) CheckFits(base *checkpoint.Config) error {
	known := make(map[string]Module)
	for _, m := range Linears(base) {
		known[m.Name()] = m
	}
	for i, m := range a.Modules {
		b, ok := known[m.Name()]
		switch {
		case !ok:
			return fmt.Errorf("%w: %s has no module %s", ErrBinding, base.Architecture, m.Name())
		case b.In != m.In || b.Out != m.Out:
			return fmt.Errorf("%w: %s is [%d, %d] in the base, the adapter was made for [%d, %d]", ErrBinding, m.Name(), b.Out, b.In, m.Out, m.In)
		case len(a.A[i]) != a.Config.R*m.In || len(a.B[i]) != m.Out*a.Config.R || a.Config.DoRA && len(a.Magnitude[i]) != m.Out:
			return fmt.Errorf("%w: the tensors of %s have not the sizes of rank %d", ErrBinding, m.Name(), a.Config.R)
		}
	}
	return nil
}
