package generate

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// prefillTokens is how many tokens, padding included, one prefill computes at most, unless a single row is longer.
const prefillTokens = 8192

// prefill computes the caches of token sequences in batches of similar length. Row i is row at[i].row of caches[at[i].batch].
// An empty sequence gives a row without any key, and with the state that the first token starts from.
func (d *device) prefill(w *weights, sequences [][]int32) (caches []*cache, at []place, err error) {
	defer func() {
		if err != nil {
			for _, c := range caches {
				c.free()
			}
		}
	}()
	order := make([]int, len(sequences))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(sequences[a]) - len(sequences[b]) })
	at = make([]place, len(sequences))
	for len(order) > 0 {
		if len(sequences[order[0]]) == 0 {
			blank, err := d.newCache(1, decoder.Bucket(0))
			if err != nil {
				return caches, nil, err
			}
			for len(order) > 0 && len(sequences[order[0]]) == 0 {
				at[order[0]] = place{len(caches), 0}
				order = order[1:]
			}
			caches = append(caches, blank)
			continue
		}
		n := 1
		for n < len(order) && powerOfTwo(n+1)*decoder.Bucket(len(sequences[order[n]])) <= prefillTokens {
			n++
		}
		rows := make([][]int32, powerOfTwo(n))
		for i := range rows {
			rows[i] = sequences[order[min(i, n-1)]] // the last one fills the batch
		}
		for i := range n {
			at[order[i]] = place{len(caches), i}
		}
		order = order[n:]
		c, err := d.prefillBatch(w, decoder.PadLeft(rows))
		if err != nil {
			return caches, nil, err
		}
		caches = append(caches, c)
	}
	return caches, at, nil
}

// place says where a prefilled row is.
type place struct{ batch, row int }

// prefillBatch runs the layers over a left-padded batch, one program per kind of layer, and keeps what decoding needs.
func (d *device) prefillBatch(w *weights, b decoder.Batch) (out *cache, err error) {
	config := d.config
	out = &cache{rows: b.Rows, columns: b.Len}
	var x *tensors.Tensor
	args := &arguments{device: d}
	defer func() {
		free(x)
		args.free()
		if err != nil {
			out.free()
		}
	}()
	cos, sin := decoder.RopeTable(config.Rope, b.Positions())
	half := config.Rope.Dim / 2
	add(args, b.Tokens, b.Rows, b.Len)
	add(args, cos, b.Rows, b.Len, half)
	add(args, sin, b.Rows, b.Len, half)
	add(args, b.Segments, b.Rows, b.Len)
	if args.err != nil {
		return nil, args.err
	}
	embed, err := d.program("prefill embed", func(in []*Node) []*Node { return []*Node{embedTokens(in[0], in[1])} })
	if err != nil {
		return nil, err
	}
	ys, err := embed.run(args.tensors[0], w.stored[0])
	if err != nil {
		return nil, err
	}
	x = ys[0]
	for i, kind := range config.LayerTypes {
		_, layer := w.model.LayerWeights(i)
		prog, err := d.program("prefill "+string(kind), func(in []*Node) []*Node {
			return prefillLayer(d.base.NewLayer(i, in[4:]), in[0], in[1], in[2], in[3])
		})
		if err != nil {
			return nil, err
		}
		ys, err := prog.run(slices.Concat([]*tensors.Tensor{x}, args.tensors[1:], layer)...)
		if err != nil {
			return nil, err
		}
		free(x)
		x = ys[0]
		out.parts = append(out.parts, ys[1], ys[2])
	}
	return out, nil
}

// prefillLayer computes a layer over x [rows, columns, H] and what it leaves in the cache.
func prefillLayer(l *decoder.Layer, x, cos, sin, segments *Node) []*Node {
	dims := x.Shape().Dimensions
	rows, columns := dims[0], dims[1]
	s := decoder.Sequence{Rows: rows, Len: columns, Cos: cos, Sin: sin, Segments: segments}
	x = Reshape(x, rows*columns, dims[2])
	u := l.InputNorm(x)
	var parts [2]*Node
	if l.Type == checkpoint.LinearAttention {
		mixed, state := l.DeltaNet(u, s)
		x, parts = Add(x, mixed), [2]*Node{state.S, state.Conv}
	} else {
		q, k, v, gate := l.QKV(u, s)
		x = Add(x, l.AttentionOut(decoder.CausalAttention(q, k, v, segments), gate))
		for i, y := range []*Node{k, v} {
			kv, d := y.Shape().Dimensions[2], y.Shape().Dimensions[3]
			parts[i] = Reshape(TransposeAllAxes(y, 0, 2, 1, 3), rows*kv, columns, d)
		}
	}
	x = Add(x, l.MLP(l.MLPNorm(x)))
	return []*Node{Reshape(x, dims...), parts[0], parts[1]}
}

// embedTokens looks tokens up: int32 [...] → float32 [..., H].
func embedTokens(tokens, embed *Node) *Node {
	return ConvertDType(Gather(embed, InsertAxes(tokens, -1)), dtypes.Float32)
}
