package pixel

// Bitmap is a binary image in row order.
type Bitmap struct {
	Width, Height int
	Set           []bool
}

// NewBitmap returns an empty image.
func NewBitmap(width, height int) *Bitmap {
	return &Bitmap{width, height, make([]bool, width*height)}
}

// at is whether a pixel is set; outside the image it is outside.
func (b *Bitmap) at(x, y int, outside bool) bool {
	if x < 0 || y < 0 || x >= b.Width || y >= b.Height {
		return outside
	}
	return b.Set[y*b.Width+x]
}

// Erode returns the pixels whose 3×3 neighbourhood is set; what lies outside the
// image does not count against a pixel.
func (b *Bitmap) Erode() *Bitmap {
	out := NewBitmap(b.Width, b.Height)
	for y := range b.Height {
		for x := range b.Width {
			set := true
			for dy := -1; dy <= 1 && set; dy++ {
				for dx := -1; dx <= 1 && set; dx++ {
					set = b.at(x+dx, y+dy, true)
				}
			}
			out.Set[y*b.Width+x] = set
		}
	}
	return out
}

// ring are the eight neighbours in the order P2 … P9 of Zhang and Suen: clockwise
// from above. Bit k of a neighbourhood is neighbour k.
var ring = [8][2]int{{0, -1}, {1, -1}, {1, 0}, {1, 1}, {0, 1}, {-1, 1}, {-1, 0}, {-1, -1}}

// The neighbours as bits.
const (
	pN = 1 << iota
	pNE
	pE
	pSE
	pS
	pSW
	pW
	pNW
)

// thinning says, of each neighbourhood, in which passes its pixel may go: bit 0 in
// the first, bit 1 in the second. These are the conditions of Zhang and Suen with
// the amendments of scikit-image, by which corners of staircases go and squares of
// 2×2 pixels do not vanish.
var thinning = func() (table [256]uint8) {
	for hood := range table {
		set, rises := 0, 0
		for k := range 8 {
			set += hood >> k & 1
			rises += ^hood >> k & 1 & (hood >> ((k + 1) % 8))
		}
		if set < 2 || set > 6 || rises != 1 {
			continue
		}
		all := func(bits int) bool { return hood&bits == bits }
		if !all(pN|pE|pS) && !all(pE|pS|pW) {
			table[hood] |= 1
		}
		if !all(pN|pE|pW) && !all(pN|pS|pW) {
			table[hood] |= 2
		}
	}
	for passes, hoods := range [4][]int{
		{pS | pSE, pW | pNW},
		{pNW | pN, pN | pNE, pNW | pN | pE, pNE | pE, pN | pNE | pE, pNW | pN | pW, pN | pNE | pW, pNW | pS | pW, pN | pSW | pW, pN | pNE | pSW | pW},
		{pE | pSE, pN | pE | pSE, pE | pSE | pS, pS | pSW, pE | pS | pSW, pNE | pE | pS | pSW, pSE | pS | pW, pSW | pW, pS | pSW | pW},
		{pN | pE, pE | pS, pN | pW, pS | pW},
	} {
		for _, hood := range hoods {
			table[hood] = uint8(passes)
		}
	}
	return table
}()

// Skeleton thins the image to lines of one pixel by the parallel algorithm of
// Zhang and Suen (1984).
func (b *Bitmap) Skeleton() *Bitmap {
	out := NewBitmap(b.Width, b.Height)
	copy(out.Set, b.Set)
	var border, next []int // pixels that may go: those that are set
	for i, set := range out.Set {
		if set {
			border = append(border, i)
		}
	}
	for changed := true; changed; {
		changed = false
		for pass := range 2 {
			var gone []int
			next = next[:0]
			for _, i := range border {
				if thinning[out.hood(i%b.Width, i/b.Width)]>>pass&1 != 0 {
					gone = append(gone, i)
				} else {
					next = append(next, i)
				}
			}
			for _, i := range gone {
				out.Set[i] = false
			}
			border, next = next, border
			changed = changed || len(gone) > 0
		}
	}
	return out
}

// hood is the neighbourhood of a pixel.
func (b *Bitmap) hood(x, y int) int {
	bits := 0
	for k, d := range ring {
		if b.at(x+d[0], y+d[1], false) {
			bits |= 1 << k
		}
	}
	return bits
}

// Outlines counts the connected parts of the image, diagonal neighbours
// connected, that do not lie in a hole of another part.
func (b *Bitmap) Outlines() int {
	w, h := b.Width+2, b.Height+2 // a free rim around the image, from which the outside is filled
	const (
		free = iota
		set
		outside
		seen
	)
	state := make([]uint8, w*h)
	for y := range b.Height {
		for x := range b.Width {
			if b.Set[y*b.Width+x] {
				state[(y+1)*w+x+1] = set
			}
		}
	}
	stack := []int{0}
	state[0] = outside
	fill := func(from, to uint8, neighbours []int) {
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, d := range neighbours {
				j := i + d
				if j < 0 || j >= len(state) || state[j] != from || (d == 1 && j%w == 0) || (d == -1 && i%w == 0) {
					continue
				}
				state[j] = to
				stack = append(stack, j)
			}
		}
	}
	cross := []int{-w, 1, w, -1}
	fill(free, outside, cross)
	parts := 0
	for i, s := range state {
		if s != set {
			continue
		}
		for _, d := range cross {
			if state[i+d] != outside {
				continue
			}
			parts++
			state[i] = seen
			stack = append(stack, i)
			fill(set, seen, []int{-w - 1, -w, -w + 1, -1, 1, w - 1, w, w + 1})
			break
		}
	}
	return parts
}
