package surface

import "slices"

// cover is the plane cut along the edges of instances, so that each cell lies
// wholly inside or outside each of them. It makes areas exact for boxes with
// fractions of pixels and for regions alike.
type cover struct{ xs, ys []float64 }

func newCover(sets ...[]*instance) *cover {
	c := &cover{}
	for _, set := range sets {
		for _, n := range set {
			c.xs = append(c.xs, n.box[0], n.box[2])
			c.ys = append(c.ys, n.box[1], n.box[3])
			if n.cells == nil {
				continue
			}
			for x := n.box[0]; x < n.box[2]; x++ {
				c.xs = append(c.xs, x)
			}
			for y := n.box[1]; y < n.box[3]; y++ {
				c.ys = append(c.ys, y)
			}
		}
	}
	slices.Sort(c.xs)
	slices.Sort(c.ys)
	c.xs, c.ys = slices.Compact(c.xs), slices.Compact(c.ys)
	return c
}

// mark is the set of cells that the instances cover.
func (c *cover) mark(set []*instance) []bool {
	w := max(len(c.xs)-1, 0)
	out := make([]bool, w*max(len(c.ys)-1, 0))
	for _, n := range set {
		x1, _ := slices.BinarySearch(c.xs, n.box[0])
		x2, _ := slices.BinarySearch(c.xs, n.box[2])
		y1, _ := slices.BinarySearch(c.ys, n.box[1])
		y2, _ := slices.BinarySearch(c.ys, n.box[3])
		wide := int(n.box[2] - n.box[0])
		for y := y1; y < y2; y++ {
			for x := x1; x < x2; x++ {
				if n.cells == nil || n.cells[int(c.ys[y]-n.box[1])*wide+int(c.xs[x]-n.box[0])] {
					out[y*w+x] = true
				}
			}
		}
	}
	return out
}

// area is that of the marked cells, in pixels.
func (c *cover) area(in func(i int) bool) float64 {
	w, total := max(len(c.xs)-1, 0), 0.0
	for y := range max(len(c.ys)-1, 0) {
		for x := range w {
			if in(y*w + x) {
				total += (c.xs[x+1] - c.xs[x]) * (c.ys[y+1] - c.ys[y])
			}
		}
	}
	return total
}

// covered is the area of the union of a set.
func covered(set []*instance) float64 {
	c := newCover(set)
	marks := c.mark(set)
	return c.area(func(i int) bool { return marks[i] })
}

// common is the area that two unions have in common.
func common(a, b []*instance) float64 {
	c := newCover(a, b)
	in, other := c.mark(a), c.mark(b)
	return c.area(func(i int) bool { return in[i] && other[i] })
}

// either is the area of both unions together.
func either(a, b []*instance) float64 { return covered(slices.Concat(a, b)) }
