package world

import "math"

// The noise of the world is lattice noise over longitude and latitude: octave k
// has cells of 360°/2^k, random values at their corners and a smooth blend between
// them. It is a pure function of seed, salt, time index and position, closes at the
// antimeridian, and an octave finer than the footprint of an observer is left out
// as the observer averages over it.

// axes are the pixel centres of a patch: longitudes by column, latitudes by row.
type axes struct {
	lon, lat []float64
	foot     float64 // degrees that a pixel averages over
}

// hash mixes a lattice point into 64 random bits.
func hash(seed uint64, x, y, t int64) uint64 {
	h := seed ^ uint64(x)*0x9E3779B97F4A7C15 ^ uint64(y)*0xC2B2AE3D27D4EB4F ^ uint64(t)*0x165667B19E3779F9
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	return h ^ h>>32
}

// unit maps random bits to 0 … 1.
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// signed maps random bits to -1 … 1.
func signed(h uint64) float64 { return 2*unit(h) - 1 }

// fade is the smooth blend 3f² - 2f³.
func fade(f float64) float64 { return f * f * (3 - 2*f) }

// ramp is 0 below a, 1 above b and smooth between them; a may exceed b.
func ramp(a, b, x float64) float64 { return fade(clamp((x-a)/(b-a), 0, 1)) }

func clamp(x, lo, hi float64) float64 {
	if x < lo {
		return lo
	}
	if x > hi {
		return hi
	}
	return x
}

func mix(a, b, w float64) float64 { return a + (b-a)*w }

// blendVariance is the mean of (1-s)² + s² with s = fade(f): what blending leaves
// of the variance of independent corners, per dimension.
const blendVariance = 26.0 / 35

// cornerVariance is that of values uniform in -1 … 1.
const cornerVariance = 1.0 / 3

// band is a range of octaves of noise.
type band struct {
	first, last int     // octaves
	gain        float64 // amplitude of an octave relative to the one before
}

// norm scales the sum of the band's octaves to unit variance, not counting the
// octaves that a footprint leaves out.
func (b band) norm() float64 {
	sum, a := 0.0, 1.0
	for k := b.first; k <= b.last; k++ {
		sum += a * a
		a *= b.gain
	}
	return 1 / math.Sqrt(sum*cornerVariance*blendVariance*blendVariance)
}

// cell is the size of a cell of octave k in degrees.
func cell(k int) float64 { return 360 / float64(int64(1)<<k) }

// seen is the share of octave k's amplitude that an observer with a footprint sees.
func seen(k int, foot float64) float64 { return clamp(cell(k)/foot-1, 0, 1) }

// lattice evaluates one octave over the axes.
type lattice struct {
	seed  uint64
	t     int64
	cells int64 // round the world
	col   []int64
	fx    []float32
	// Corner values of lattice rows row and row+1, over the columns of the patch.
	row      int64
	low, top []float32
	first    int64
}

func newLattice(ax *axes, seed uint64, t int64, k int) *lattice {
	l := &lattice{seed: seed, t: t, cells: 1 << k, col: make([]int64, len(ax.lon)), fx: make([]float32, len(ax.lon)), row: math.MinInt64}
	inv := float64(l.cells) / 360
	for i, lon := range ax.lon {
		x := (lon + 180) * inv
		c := math.Floor(x)
		l.col[i], l.fx[i] = int64(c), float32(fade(x-c))
	}
	n := len(l.col)
	if span := l.col[n-1] - l.col[0] + 2; span <= int64(4*n)+4 {
		l.first = l.col[0]
		l.low, l.top = make([]float32, span), make([]float32, span)
	}
	return l
}

func (l *lattice) corner(x, y int64) float32 {
	return float32(signed(hash(l.seed, x&(l.cells-1), y, l.t)))
}

func (l *lattice) fill(dst []float32, y int64) {
	for i := range dst {
		dst[i] = l.corner(l.first+int64(i), y)
	}
}

// add adds amp times the octave at a latitude to dst.
func (l *lattice) add(dst []float32, lat float64, amp float32) {
	y := (lat + 90) * float64(l.cells) / 360
	c := math.Floor(y)
	row, fy := int64(c), float32(fade(y-c))
	if l.low == nil { // cells far smaller than the distance of the pixels
		for i, x := range l.col {
			a, b := l.corner(x, row), l.corner(x+1, row)
			d, e := l.corner(x, row+1), l.corner(x+1, row+1)
			west, east := a+(d-a)*fy, b+(e-b)*fy
			dst[i] += amp * (west + (east-west)*l.fx[i])
		}
		return
	}
	switch {
	case row == l.row:
	case row == l.row-1: // rows of a patch go south
		l.low, l.top = l.top, l.low
		l.fill(l.low, row)
	default:
		l.fill(l.low, row)
		l.fill(l.top, row+1)
	}
	l.row = row
	var at int64 = -1 // the cell whose west and east sides are in hand
	var west, wide float32
	dst = dst[:len(l.col)]
	fx := l.fx[:len(l.col)]
	for i, x := range l.col {
		if j := x - l.first; j != at {
			at = j
			west = l.low[j] + (l.top[j]-l.low[j])*fy
			wide = l.low[j+1] + (l.top[j+1]-l.low[j+1])*fy - west
		}
		dst[i] += amp * (west + wide*fx[i])
	}
}

// noise adds amp times the band's noise, of unit variance, to dst. The noise
// changes from one time index to another without a connection.
func noise(dst []float32, ax *axes, seed uint64, t int64, b band, amp float64) {
	a := amp * b.norm()
	n := len(ax.lon)
	for k := b.first; k <= b.last; k++ {
		s := seen(k, ax.foot)
		if s == 0 {
			return
		}
		l := newLattice(ax, seed+uint64(k), t, k)
		for j, lat := range ax.lat {
			l.add(dst[j*n:(j+1)*n], lat, float32(a*s))
		}
		a *= b.gain
	}
}

// drift adds noise that also changes smoothly in time: its values are random at
// the multiples of step and blended between them.
func drift(dst []float32, ax *axes, seed uint64, day, step float64, b band, amp float64) {
	x := day / step
	t := math.Floor(x)
	f := fade(x - t)
	amp /= math.Sqrt(blendVariance)
	if f < 1 {
		noise(dst, ax, seed, int64(t), b, amp*(1-f))
	}
	if f > 0 {
		noise(dst, ax, seed, int64(t)+1, b, amp*f)
	}
}

// normalShare is the share of a normal distribution below x, by the logistic
// approximation of Bowling et al. (2009), good to 0.0002.
func normalShare(x float64) float64 { return 1 / (1 + math.Exp(-(0.07056*x*x*x + 1.5976*x))) }

// Salt returns a seed for the numbers of Normal that belong to a text and a day.
func (p *Patch) Salt(text string, day int) uint64 {
	return hash(p.world.seed^textHash(text), int64(day), 0, 0x5a17)
}

// Normal returns a random number of a cell, of zero mean and unit variance and
// about normally distributed.
func Normal(seed uint64, x, y int64) float64 {
	h := hash(seed, x, y, 0)
	const part = 1 << 16
	sum := float64(h%part) + float64(h>>16%part) + float64(h>>32%part) + float64(h>>48)
	return (sum/part - 2) * math.Sqrt(3) // four numbers uniform in 0 … 1 have the variance 1/3
}
