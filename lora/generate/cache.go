package generate

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"terraloom/lora/checkpoint"
)

// cache is what a batch of rows carries from token to token, two float32 tensors a layer:
//
//	full attention:   keys and values [rows·kvHeads, columns, headDim]
//	linear attention: state [rows, valueHeads, dk, dv] and convolution inputs [rows, kernel−1, convDim]
//
// Rows end together: the newest token of every row is in the same column, whatever the row's length, so one position
// serves all rows when a key is written. Older columns of a short row hold anything; attention masks them.
type cache struct {
	rows, columns int
	parts         []*tensors.Tensor
}

func (c *cache) free() {
	free(c.parts...)
	c.parts = nil
}

// newCache is a cache of zeros.
func (d *device) newCache(rows, columns int) (*cache, error) {
	out := &cache{rows: rows, columns: columns}
	for _, kind := range d.config.LayerTypes {
		for _, dims := range partDims(d.config, kind, rows, columns) {
			t, err := d.zeros(dims...)
			if err != nil {
				out.free()
				return nil, err
			}
			out.parts = append(out.parts, t)
		}
	}
	return out, nil
}

// cacheBytes is the size of a cache.
func (d *device) cacheBytes(rows, columns int) int64 {
	var n int64
	for _, kind := range d.config.LayerTypes {
		for _, dims := range partDims(d.config, kind, rows, columns) {
			part := int64(4)
			for _, x := range dims {
				part *= int64(x)
			}
			n += part
		}
	}
	return n
}

// partDims are the shapes of a layer's two tensors.
func partDims(c *checkpoint.Config, kind checkpoint.LayerType, rows, columns int) [2][]int {
	if kind == checkpoint.LinearAttention {
		a := c.LinearAttn
		return [2][]int{{rows, a.ValueHeads, a.KeyHeadDim, a.ValueHeadDim}, {rows, a.ConvKernel - 1, a.ConvDim()}}
	}
	kv := []int{rows * c.NumKVHeads, columns, c.HeadDim}
	return [2][]int{kv, kv}
}

// insert copies rows of another cache into this one: row from[i] of fresh becomes row to[i], its last column the one
// before column. Columns of fresh that would come before the first one are dropped.
func (c *cache) insert(d *device, fresh *cache, from, to []int, column int) error {
	if fresh.columns > c.columns {
		return fmt.Errorf("%d columns do not fit into %d", fresh.columns, c.columns)
	}
	if !d.updates {
		return c.insertByIndex(d, fresh, from, to, column)
	}
	// Repeating the last row does no harm and keeps the number of compiled programs small.
	n := powerOfTwo(len(from))
	index := make([]int32, 2*n+2)
	for i := range n {
		j := min(i, len(from)-1)
		index[i], index[n+i] = int32(from[j]), int32(to[j])
	}
	index[2*n], index[2*n+1] = int32(max(column-fresh.columns, 0)), int32(max(fresh.columns-column, 0))
	where, err := put(d, index, len(index))
	if err != nil {
		return err
	}
	defer free(where)
	return c.eachPart(d, func(kind checkpoint.LayerType, part int) (*program, []*tensors.Tensor, error) {
		prog, err := d.program("insert rows, "+string(kind), func(in []*Node) []*Node {
			old, fresh, where := in[0], in[1], in[2]
			n := where.Shape().Size()/2 - 1
			scalar := func(i int) *Node { return Reshape(SliceAxis(where, 0, AxisElem(i))) }
			block := headsPerRow(d.config, kind)
			size := append([]int{}, fresh.Shape().Dimensions...)
			size[0] = block
			if kind == checkpoint.FullAttention { // what comes after the dropped columns moves to the front
				fresh = Concatenate([]*Node{fresh, ZerosLike(fresh)}, 1)
			}
			for i := range n {
				source, target := starts(old, scalar(i), block), starts(old, scalar(n+i), block)
				if kind == checkpoint.FullAttention {
					target[1], source[1] = scalar(2*n), scalar(2*n+1)
				}
				old = DynamicUpdateSlice(old, DynamicSlice(fresh, source, size), target)
			}
			return []*Node{old}
		})
		return prog, []*tensors.Tensor{c.parts[part], fresh.parts[part], where}, err
	})
}

// move makes this the cache of other rows and columns: row i becomes what row from[i] was (−1: anything), and what was
// in column shift is in column 0 afterwards; shift may be negative.
func (c *cache) move(d *device, rows, columns int, from []int, shift int) error {
	index := make([]int32, rows+1)
	for i := range rows {
		if i < len(from) {
			index[i] = int32(max(from[i], 0))
		}
	}
	index[rows] = int32(shift)
	where, err := put(d, index, len(index))
	if err != nil {
		return err
	}
	defer free(where)
	err = c.eachPart(d, func(kind checkpoint.LayerType, part int) (*program, []*tensors.Tensor, error) {
		prog, err := d.program(fmt.Sprintf("move rows, %s, to %d columns", kind, columns), func(in []*Node) []*Node {
			return []*Node{d.moveGraph(kind, in[0], in[1], columns)}
		})
		return prog, []*tensors.Tensor{c.parts[part], where}, err
	})
	if err != nil {
		return err
	}
	c.rows, c.columns = rows, columns
	return nil
}

// moveGraph is [cache.move] for one tensor.
func (d *device) moveGraph(kind checkpoint.LayerType, old, where *Node, columns int) *Node {
	rows := where.Shape().Size() - 1
	block := headsPerRow(d.config, kind)
	from := SliceAxis(where, 0, AxisRange(0, rows))
	if kind == checkpoint.LinearAttention {
		return Gather(old, InsertAxes(from, -1))
	}
	shift := Reshape(SliceAxis(where, 0, AxisElem(rows)))
	dims := old.Shape().Dimensions
	if !d.updates {
		return gatherColumns(old, expandHeads(from, block), shift, columns)
	}
	room := Zeros(old.Graph(), shapes.Make(dtypes.Float32, dims[0], columns, dims[2]))
	wide := Concatenate([]*Node{room, old, room}, 1)
	out := make([]*Node, rows)
	for i := range out {
		start := starts(old, Reshape(SliceAxis(from, 0, AxisElem(i))), block)
		start[1] = AddScalar(shift, columns)
		out[i] = DynamicSlice(wide, start, []int{block, columns, dims[2]})
	}
	if rows == 1 {
		return out[0]
	}
	return Concatenate(out, 0)
}

// insertByIndex is insert for engines without slice updates: every element of the new cache is looked up in one of the
// two old ones.
func (c *cache) insertByIndex(d *device, fresh *cache, from, to []int, column int) error {
	index := make([]int32, c.rows+1)
	for i := range index {
		index[i] = -1
	}
	for i, row := range to {
		index[row] = int32(from[i])
	}
	index[c.rows] = int32(fresh.columns - column)
	where, err := put(d, index, len(index))
	if err != nil {
		return err
	}
	defer free(where)
	return c.eachPart(d, func(kind checkpoint.LayerType, part int) (*program, []*tensors.Tensor, error) {
		prog, err := d.program("insert rows by index, "+string(kind), func(in []*Node) []*Node {
			old, fresh, where := in[0], in[1], in[2]
			dims := old.Shape().Dimensions
			block := headsPerRow(d.config, kind)
			rows := dims[0] / block
			from := SliceAxis(where, 0, AxisRange(0, rows))
			take := expandHeads(GreaterOrEqual(from, ZerosLike(from)), block)
			from = Max(from, ZerosLike(from))
			if kind == checkpoint.LinearAttention {
				fresh = Gather(fresh, InsertAxes(from, -1))
			} else {
				shift := Reshape(SliceAxis(where, 0, AxisElem(rows)))
				fresh = gatherColumns(fresh, expandHeads(from, block), shift, dims[1])
			}
			ones := make([]int, len(dims)-1)
			for i := range ones {
				ones[i] = 1
			}
			take = BroadcastToShape(Reshape(take, append([]int{dims[0]}, ones...)...), shapes.Make(dtypes.Bool, dims...))
			return []*Node{Where(take, fresh, old)}
		})
		return prog, []*tensors.Tensor{c.parts[part], fresh.parts[part], where}, err
	})
}

// eachPart replaces every tensor of the cache by the result of a program.
func (c *cache) eachPart(d *device, f func(kind checkpoint.LayerType, part int) (*program, []*tensors.Tensor, error)) error {
	for part, old := range c.parts {
		prog, in, err := f(d.config.LayerTypes[part/2], part)
		if err != nil {
			return err
		}
		out, err := prog.run(in...)
		if err != nil {
			return err
		}
		free(old)
		c.parts[part] = out[0]
	}
	return nil
}

// headsPerRow is how many entries of the first axis belong to one row.
func headsPerRow(c *checkpoint.Config, kind checkpoint.LayerType) int {
	if kind == checkpoint.LinearAttention {
		return 1
	}
	return c.NumKVHeads
}

// starts are the start indices of row `row` of x, all zero but the first.
func starts(x, row *Node, block int) []*Node {
	g := x.Graph()
	out := make([]*Node, x.Rank())
	for i := range out {
		out[i] = Const(g, int32(0))
	}
	out[0] = Mul(row, Const(g, int32(block)))
	return out
}

// expandHeads turns one entry per row into one per row and head: row indices become indices of the first axis.
func expandHeads(x *Node, block int) *Node {
	if block == 1 {
		return x
	}
	rows := x.Shape().Dimensions[0]
	x = BroadcastToDims(InsertAxes(x, 1), rows, block)
	if x.DType() == dtypes.Int32 {
		head := Iota(x.Graph(), shapes.Make(dtypes.Int32, rows, block), 1)
		x = Add(MulScalar(x, block), head)
	}
	return Reshape(x, rows*block)
}

// gatherColumns takes entries `from` of x [n, columns, d] and moves them left by shift: [len(from), columns', d].
// Columns from outside repeat the nearest one.
func gatherColumns(x, from, shift *Node, columns int) *Node {
	g := x.Graph()
	n, have := from.Shape().Dimensions[0], x.Shape().Dimensions[1]
	column := Add(Iota(g, shapes.Make(dtypes.Int32, n, columns), 1), shift)
	column = Max(Min(column, Scalar(g, dtypes.Int32, have-1)), Scalar(g, dtypes.Int32, 0))
	row := BroadcastToDims(InsertAxes(from, 1), n, columns)
	return Gather(x, Stack([]*Node{row, column}, -1))
}

// Buckets keep the number of compiled programs small.

// bucketRows rounds a number of decoded rows up to a power of four: unused rows cost little, decoding is bound by
// reading the weights.
func bucketRows(n int) int {
	b := 1
	for b < n {
		b *= 4
	}
	return b
}

// minColumns is the shortest cache: a shorter one would hardly be faster.
const minColumns = 128

// bucketColumns rounds a number of columns up to a power of two.
func bucketColumns(n int) int {
	return max(powerOfTwo(n), minColumns)
}

func powerOfTwo(n int) int {
	b := 1
	for b < n {
		b *= 2
	}
	return b
}
