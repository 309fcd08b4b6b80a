package world

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"terraloom/slots/gazetteer"
)

// heightsTSV has the heights of some places.
//
//go:embed heights.tsv
var heightsTSV string

// place is a place of the gazetteer as the world sees it.
type place struct {
	gazetteer.Place
	seed   uint64 // of its own noise, before the world's seed
	height float64
	high   bool // height is known
}

// radius is how far, in half boxes, a place has an effect.
const radius = 1.5

// thePlaces lists the gazetteer with the largest boxes first, so that smaller
// places are laid over larger ones.
var thePlaces = sync.OnceValue(func() []place {
	ps, err := readPlaces(heightsTSV)
	if err != nil {
		panic(err)
	}
	return ps
})

func readPlaces(heights string) ([]place, error) {
	known := map[string]float64{}
	for line := range strings.Lines(heights) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, text, _ := strings.Cut(line, "\t")
		h, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("heights.tsv: %q: %q is no number of metres", name, text)
		}
		known[name] = h
	}
	var ps []place
	for _, p := range gazetteer.All() {
		q := place{Place: p, seed: textHash(p.Name)}
		q.height, q.high = known[p.Name]
		ps = append(ps, q)
	}
	area := func(p place) float64 { return (p.East - p.West) * (p.North - p.South) }
	slices.SortStableFunc(ps, func(a, b place) int {
		switch {
		case area(a) > area(b):
			return -1
		case area(a) < area(b):
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return ps, nil
}

func textHash(s string) uint64 {
	h := uint64(0xcbf29ce484222325) // FNV-1a
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

// near is one place's part of a patch: for each pixel within its radius the
// distance from the middle of its box, 1 on the ellipse that touches the box, and
// the same with a rugged edge.
type near struct {
	*place
	x0, x1, y0, y1 int // columns and rows of the patch
	plain, rugged  []float32
	centre         []float32 // distance from the place's point, in half boxes
}

// halves are the half widths of the box.
func (p *place) halves() (x, y float64) { return (p.East - p.West) / 2, (p.North - p.South) / 2 }

// nearPlaces finds the places that have an effect in a patch, largest first.
func (w *World) nearPlaces(ax *axes) []near {
	var out []near
	west, east := ax.lon[0], ax.lon[len(ax.lon)-1]
	north, south := ax.lat[0], ax.lat[len(ax.lat)-1]
	ps := thePlaces()
	for i := range ps {
		p := &ps[i]
		hx, hy := p.halves()
		mx, my := (p.West+p.East)/2, (p.South+p.North)/2
		if mx+radius*hx < west || mx-radius*hx > east || my+radius*hy < south || my-radius*hy > north {
			continue
		}
		n := near{place: p}
		n.x0, n.x1 = within(ax.lon, mx-radius*hx, mx+radius*hx)
		n.y1, n.y0 = within(reverse(ax.lat), my-radius*hy, my+radius*hy)
		n.y0, n.y1 = len(ax.lat)-n.y0, len(ax.lat)-n.y1
		if n.x0 >= n.x1 || n.y0 >= n.y1 {
			continue
		}
		out = append(out, w.measure(n, ax))
	}
	return out
}

// within returns the range of the ascending values that lie in lo … hi.
func within(values []float64, lo, hi float64) (from, to int) {
	from, _ = slices.BinarySearch(values, lo)
	to, _ = slices.BinarySearch(values, hi)
	return from, to
}

func reverse(v []float64) []float64 {
	out := slices.Clone(v)
	slices.Reverse(out)
	return out
}

// measure fills in the distances of a near place.
func (w *World) measure(n near, ax *axes) near {
	sub := &axes{lon: ax.lon[n.x0:n.x1], lat: ax.lat[n.y0:n.y1], foot: ax.foot}
	cols := len(sub.lon)
	size := cols * len(sub.lat)
	n.plain, n.rugged, n.centre = make([]float32, size), make([]float32, size), make([]float32, size)
	hx, hy := n.halves()
	// The edge is rugged from the size of the place downwards.
	first := int(math.Ceil(math.Log2(360 / math.Max(hx, hy))))
	rough := make([]float32, size)
	noise(rough, sub, w.seed^n.seed, 1, band{first, first + 5, 0.55}, 0.16)
	mx, my := (n.West+n.East)/2, (n.South+n.North)/2
	for j, lat := range sub.lat {
		v, pv := (lat-my)/hy, (lat-n.Lat)/hy
		for i, lon := range sub.lon {
			u, pu := (lon-mx)/hx, (lon-n.Lon)/hx
			at := j*cols + i
			r := math.Sqrt(u*u + v*v)
			n.plain[at] = float32(r)
			n.rugged[at] = float32(r + clamp(float64(rough[at]), -0.4, 0.4)*(0.4+0.6*r))
			n.centre[at] = float32(math.Sqrt(pu*pu + pv*pv))
		}
	}
	return n
}

// each calls f with every pixel of the patch that the place is near to.
func (n *near) each(width int, f func(pixel, at int)) {
	cols := n.x1 - n.x0
	for j := n.y0; j < n.y1; j++ {
		for i := n.x0; i < n.x1; i++ {
			f(j*width+i, (j-n.y0)*cols+i-n.x0)
		}
	}
}
