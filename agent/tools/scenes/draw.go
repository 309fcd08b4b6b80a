package scenes

import (
	"image"
	"math"
	"math/rand/v2"
)

// rgb is a colour.
type rgb [3]float64

// canvas is a picture being drawn, with its own noise.
type canvas struct {
	img  *image.NRGBA
	w, h int
	seed uint64
	rng  *rand.Rand
}

func newCanvas(w, h int, seed uint64) *canvas {
	return &canvas{img: image.NewNRGBA(image.Rect(0, 0, w, h)), w: w, h: h, seed: seed, rng: rand.New(rand.NewPCG(seed, 2))}
}

// grain is noise of a pixel, -1 … 1, the same whenever and in whatever order it is asked for.
func (c *canvas) grain(x, y int) float64 {
	v := c.seed ^ uint64(x)*0x9e3779b97f4a7c15 ^ uint64(y)*0xc2b2ae3d27d4eb4f
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return float64(v>>40)/float64(1<<23) - 1
}

// field is smooth noise, about -1 … 1, with features of the given size in pixels.
func (c *canvas) field(x, y, size float64) float64 {
	fx, fy := math.Floor(x/size), math.Floor(y/size)
	tx, ty := x/size-fx, y/size-fy
	smooth := func(t float64) float64 { return t * t * (3 - 2*t) }
	corner := func(i, k float64) float64 { return c.grain(int(fx+i)+7919, int(fy+k)+104729) }
	top := corner(0, 0) + (corner(1, 0)-corner(0, 0))*smooth(tx)
	bottom := corner(0, 1) + (corner(1, 1)-corner(0, 1))*smooth(tx)
	return top + (bottom-top)*smooth(ty)
}

func (c *canvas) set(x, y int, k rgb) {
	if x < 0 || y < 0 || x >= c.w || y >= c.h {
		return
	}
	p := c.img.Pix[4*(y*c.w+x):][:4]
	p[0], p[1], p[2], p[3] = level(k[0]), level(k[1]), level(k[2]), 255
}

func level(v float64) uint8 {
	switch {
	case v <= 0:
		return 0
	case v >= 255:
		return 255
	}
	return uint8(v)
}

func blend(a, b rgb, t float64) rgb {
	return rgb{a[0] + (b[0]-a[0])*t, a[1] + (b[1]-a[1])*t, a[2] + (b[2]-a[2])*t}
}

func (k rgb) add(v float64) rgb { return rgb{k[0] + v, k[1] + v, k[2] + v} }

// ground fills the picture with a mix of two colours in patches, with grain.
func (c *canvas) ground(a, b rgb, patch, grain float64) {
	for y := range c.h {
		for x := range c.w {
			t := 0.5 + 0.5*c.field(float64(x), float64(y), patch)
			c.set(x, y, blend(a, b, t).add(grain*c.grain(x, y)))
		}
	}
}

// where paints the pixels of which f holds.
func (c *canvas) where(k rgb, grain float64, f func(x, y float64) bool) {
	for y := range c.h {
		for x := range c.w {
			if f(float64(x), float64(y)) {
				c.set(x, y, k.add(grain*c.grain(x, y)))
			}
		}
	}
}

// blocks paints n rectangles of about the given sides, as houses or halls.
func (c *canvas) blocks(n int, length, breadth float64, colours ...rgb) {
	for range n {
		l, b := length*(0.7+0.6*c.rng.Float64()), breadth*(0.7+0.6*c.rng.Float64())
		x, y := c.rng.Float64()*float64(c.w), c.rng.Float64()*float64(c.h)
		k := colours[c.rng.IntN(len(colours))]
		if c.rng.IntN(2) == 0 {
			l, b = b, l
		}
		for j := int(y); j < int(y+b); j++ {
			for i := int(x); i < int(x+l); i++ {
				shade := 0.0
				if float64(j)-y < b/2 {
					shade = 14
				}
				c.set(i, j, k.add(shade+5*c.grain(i, j)))
			}
		}
	}
}

// rounds paints n discs, as tree crowns or tanks.
func (c *canvas) rounds(n int, radius float64, k rgb, shade float64) {
	for range n {
		r := radius * (0.6 + 0.8*c.rng.Float64())
		x, y := c.rng.Float64()*float64(c.w), c.rng.Float64()*float64(c.h)
		for j := int(y - r); j <= int(y+r); j++ {
			for i := int(x - r); i <= int(x+r); i++ {
				dx, dy := (float64(i)-x)/r, (float64(j)-y)/r
				if dx*dx+dy*dy <= 1 {
					c.set(i, j, k.add(-shade*(dx+dy)/2+4*c.grain(i, j)))
				}
			}
		}
	}
}

// road paints a straight strip through (x, y).
func (c *canvas) road(x, y, angle, width float64, k rgb) {
	s, co := math.Sincos(angle)
	c.where(k, 4, func(px, py float64) bool { return math.Abs((py-y)*co-(px-x)*s) < width/2 })
}

// object paints an object with the lines that tell its class.
func (c *canvas) object(o Object) {
	m := models[o.Class]
	o.each(c.w, c.h, func(x, y int, along, across float64) {
		k := m.colour
		if m.line != nil && m.line(along, across) {
			k = m.lines
		}
		c.set(x, y, k.add(4*c.grain(x, y)))
	})
}

// rubble paints what is left of a building.
func (c *canvas) rubble(o Object) {
	o.each(c.w, c.h, func(x, y int, _, _ float64) {
		c.set(x, y, rgb{112, 102, 92}.add(38*c.grain(x, y)))
	})
}
