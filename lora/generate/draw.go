package generate

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// drawBlock is the length of the blocks in which a token is looked for.
const drawBlock = 256

// drawGraph draws one token of every row: logits [rows, V], inverse temperature [rows] (0: the likeliest token, the
// lowest id of equals) and a uniform random number in [0, 1) [rows] → token int32 [rows] and its log-probability in
// softmax(logits·inverse) [rows] (greedy rows: softmax(logits)). Only the ids below live can be drawn: others are
// rows of the embedding that no token uses. They still count in the softmax, as in training.
//
// A token is found by inverting the cumulative distribution in two stages, blocks of 256 and then inside one: noise
// for every element of the vocabulary would cost more than the rest of the step.
func drawGraph(logits, inverse, uniform *Node, live int) (token, logp *Node) {
	g := logits.Graph()
	rows, vocab := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	zero := Const(g, float32(0))
	greedy := Equal(inverse, zero)
	z := Mul(logits, InsertAxes(Where(greedy, OnesLike(inverse), inverse), 1))
	z = Sub(z, ReduceAndKeep(z, ReduceMax, 1))
	e := Exp(z)
	total := ReduceSum(e, 1) // [rows]
	likeliest := z
	if live < vocab {
		used := LessThan(Iota(g, shapes.Make(dtypes.Int32, 1, vocab), 1), Const(g, int32(live)))
		used = BroadcastToDims(used, rows, vocab)
		e = Where(used, e, ZerosLike(e))
		likeliest = Where(used, z, Mul(OnesLike(z), Const(g, float32(unseen))))
	}
	top := ArgMax(likeliest, 1)

	blocks := (vocab + drawBlock - 1) / drawBlock
	if extra := blocks*drawBlock - vocab; extra > 0 {
		e = Concatenate([]*Node{e, BroadcastToDims(zero, rows, extra)}, 1)
	}
	e = Reshape(e, rows, blocks, drawBlock)
	mass := ReduceSum(e, 2) // [rows, blocks]
	upTo := DotGeneral(mass, []int{1}, nil, triangle(g, blocks), []int{0}, nil)
	target := Mul(InsertAxes(uniform, 1), SliceAxis(upTo, 1, AxisElem(blocks-1)))
	row := Iota(g, shapes.Make(dtypes.Int32, rows), 0)
	pick := func(x, i *Node) *Node { return Gather(x, Stack([]*Node{row, i}, 1)) }
	block := countUpTo(upTo, target)
	inside := pick(e, block) // [rows, drawBlock]
	before := Sub(pick(upTo, block), pick(mass, block))
	within := countUpTo(Add(DotGeneral(inside, []int{1}, nil, triangle(g, drawBlock), []int{0}, nil), InsertAxes(before, 1)), target)
	drawn := Add(Mul(block, Const(g, int32(drawBlock))), within)
	// Rounding could end on a token of probability zero at the edge of a block.
	drawn = Where(LogicalOr(greedy, Equal(pick(inside, within), zero)), top, drawn)
	return drawn, Sub(pick(z, drawn), Log(total))
}

// triangle is the matrix that turns a vector into its cumulative sums: ones where row ≤ column.
func triangle(g *Graph, n int) *Node {
	s := shapes.Make(dtypes.Int32, n, n)
	return ConvertDType(LessOrEqual(Iota(g, s, 0), Iota(g, s, 1)), dtypes.Float32)
}

// countUpTo counts the entries of each row of x [rows, n] that are ≤ target [rows, 1]: the index of the first larger
// one, n−1 at most.
func countUpTo(x, target *Node) *Node {
	n := x.Shape().Dimensions[1]
	count := ReduceSum(ConvertDType(LessOrEqual(x, BroadcastToShape(target, x.Shape())), dtypes.Int32), 1)
	return Min(count, Const(x.Graph(), int32(n-1)))
}
