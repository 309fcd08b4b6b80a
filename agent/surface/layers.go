package surface

import (
	"fmt"
	"math"

	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// layer is a saved layer: instances of target groups in one image.
type layer struct {
	mode          string
	image         string // path
	width, height int
	exact         bool // the geometry can be measured
	backend       string
	weights       string
	gsd           float64 // 0 if not known
	groups        []group
}

// group are the instances of one target.
type group struct {
	id        string
	mask      string // path of the mask, of regions and change
	instances []instance
}

// instance is a box in pixels, or the pixels of a connected region in a box.
type instance struct {
	label string
	score float64
	box   [4]float64 // x1, y1, x2, y2
	cells []bool     // of the box's whole pixels, row by row; nil: all of the box
}

// value is the layer as its file holds it.
func (l *layer) value() strictjson.Value {
	geometry := "approximate"
	if l.exact {
		geometry = "exact"
	}
	groups := make([]strictjson.Value, len(l.groups))
	for i, g := range l.groups {
		list := make([]strictjson.Value, len(g.instances))
		for k, n := range g.instances {
			list[k] = obj(m("label", strictjson.Text(n.label)), m("confidence", strictjson.Float(n.score)), m("bbox_xyxy", numbers(n.box[:]...)))
		}
		groups[i] = obj(m("id", strictjson.Text(g.id)), m("mask", strictjson.Text(g.mask)), m("instances", strictjson.List(list...)))
	}
	return obj(m("mode", strictjson.Text(l.mode)), m("image", strictjson.Text(l.image)), m("width", strictjson.Int(l.width)), m("height", strictjson.Int(l.height)),
		m("geometry", strictjson.Text(geometry)), m("backend", strictjson.Text(l.backend)), m("weights", strictjson.Text(l.weights)),
		m("gsd", strictjson.Float(l.gsd)), m("groups", strictjson.List(groups...)))
}

// saveLayer writes a layer and returns its path.
func (s *Surface) saveLayer(l *layer, name string) (string, error) {
	target, err := s.files.Target(name)
	if err != nil {
		return "", err
	}
	_, err = s.files.WriteFile(target, []byte(l.value().JSON()+"\n"))
	return target, err
}

// maxLayer bounds the file of a layer.
const maxLayer = 64 << 20

// loadLayer reads a layer back, masks as connected regions.
func (s *Surface) loadLayer(param, path string) (*layer, error) {
	data, err := s.files.Read(path, maxLayer)
	if err != nil {
		return nil, bad(param, "%v", err)
	}
	v, err := strictjson.Parse(data)
	if err != nil {
		return nil, bad(param, "%s is no layer of perceive: %v", path, err)
	}
	size := func(key string) int {
		f, _ := v.Get(key).Float()
		return int(f)
	}
	l := &layer{mode: v.Get("mode").Text(), image: v.Get("image").Text(), width: size("width"), height: size("height"),
		exact: v.Get("geometry").Text() == "exact", backend: v.Get("backend").Text(), weights: v.Get("weights").Text()}
	l.gsd, _ = v.Get("gsd").Float()
	groups := v.Get("groups")
	if groups.Kind() != strictjson.Array || l.width <= 0 || l.height <= 0 {
		return nil, bad(param, "%s is no layer of perceive: it has no size or no groups", path)
	}
	for i := range groups.Len() {
		g := group{id: groups.Index(i).Get("id").Text(), mask: groups.Index(i).Get("mask").Text()}
		list := groups.Index(i).Get("instances")
		for k := range list.Len() {
			box, ok := floats(list.Index(k).Get("bbox_xyxy"))
			if !ok || len(box) != 4 || !(box[0] < box[2] && box[1] < box[3]) {
				return nil, bad(param, "%s: instance %d of group %s has no box", path, k, g.id)
			}
			score, _ := list.Index(k).Get("confidence").Float()
			g.instances = append(g.instances, instance{list.Index(k).Get("label").Text(), score, [4]float64(box), nil})
		}
		if g.mask != "" {
			if g.instances, err = s.regions(param, g.mask, l, g.id); err != nil {
				return nil, err
			}
		}
		l.groups = append(l.groups, g)
	}
	return l, nil
}

// maxRegions bounds the connected regions of a mask.
const maxRegions = 20_000

// regions are the connected regions (4 neighbours) of a mask's pixels that are set.
func (s *Surface) regions(param, mask string, l *layer, label string) ([]instance, error) {
	r, err := s.files.OpenRaster(mask)
	if err != nil {
		return nil, bad(param, "%v", err)
	}
	defer r.Close()
	if r.Info.Width != l.width || r.Info.Height != l.height {
		return nil, bad(param, "the mask %s has %d×%d pixels, its image %d×%d", mask, r.Info.Width, r.Info.Height, l.width, l.height)
	}
	g, err := r.ReadBand(1)
	if err != nil {
		return nil, bad(param, "%v", err)
	}
	w, h := l.width, l.height
	id := make([]int32, w*h) // 0: not set or not seen
	var out []instance
	var stack []int
	for start, v := range g.Data {
		if !(v > 0) || id[start] != 0 {
			continue
		}
		if len(out) == maxRegions {
			return nil, bad(param, "the mask %s has more than %d regions", mask, maxRegions)
		}
		n := int32(len(out) + 1)
		x1, y1, x2, y2 := w, h, 0, 0
		stack = append(stack[:0], start)
		id[start] = n
		for len(stack) > 0 {
			p := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			x, y := p%w, p/w
			x1, y1, x2, y2 = min(x1, x), min(y1, y), max(x2, x+1), max(y2, y+1)
			for _, q := range [4]int{p - 1, p + 1, p - w, p + w} {
				if q < 0 || q >= w*h || q == p-1 && x == 0 || q == p+1 && x == w-1 || id[q] != 0 || !(g.Data[q] > 0) {
					continue
				}
				id[q] = n
				stack = append(stack, q)
			}
		}
		in := instance{label: label, score: 1, box: [4]float64{float64(x1), float64(y1), float64(x2), float64(y2)}, cells: make([]bool, (x2-x1)*(y2-y1))}
		for y := y1; y < y2; y++ {
			for x := x1; x < x2; x++ {
				in.cells[(y-y1)*(x2-x1)+x-x1] = id[y*w+x] == n
			}
		}
		out = append(out, in)
	}
	return out, nil
}

// pixels is the area of an instance in pixels.
func (n *instance) pixels() float64 {
	if n.cells == nil {
		return (n.box[2] - n.box[0]) * (n.box[3] - n.box[1])
	}
	k := 0
	for _, set := range n.cells {
		if set {
			k++
		}
	}
	return float64(k)
}

// squares are the unit pixels of a region's border, or the box itself.
func (n *instance) squares() [][4]float64 {
	if n.cells == nil {
		return [][4]float64{n.box}
	}
	w, h := int(n.box[2]-n.box[0]), int(n.box[3]-n.box[1])
	at := func(x, y int) bool { return x >= 0 && y >= 0 && x < w && y < h && n.cells[y*w+x] }
	var out [][4]float64
	for y := range h {
		for x := range w {
			if at(x, y) && !(at(x-1, y) && at(x+1, y) && at(x, y-1) && at(x, y+1)) {
				left, top := n.box[0]+float64(x), n.box[1]+float64(y)
				out = append(out, [4]float64{left, top, left + 1, top + 1})
			}
		}
	}
	return out
}

// maxPairs bounds the pairs of border pixels of one distance.
const maxPairs = 200_000_000

// gap is the shortest distance between the edges of two instances, in pixels; 0
// where they touch or overlap.
func gap(a, b *instance) (float64, error) {
	if shared(a, b) > 0 {
		return 0, nil
	}
	sa, sb := a.squares(), b.squares()
	if len(sa)*len(sb) > maxPairs {
		return 0, fmt.Errorf("two regions with %d and %d border pixels are too large for a distance", len(sa), len(sb))
	}
	best := math.Inf(1)
	for _, p := range sa {
		for _, q := range sb {
			dx := max(0, p[0]-q[2], q[0]-p[2])
			dy := max(0, p[1]-q[3], q[1]-p[3])
			best = min(best, dx*dx+dy*dy)
		}
	}
	return math.Sqrt(best), nil
}

// shared is the area that two instances have in common, in pixels.
func shared(a, b *instance) float64 {
	if a.box[0] >= b.box[2] || b.box[0] >= a.box[2] || a.box[1] >= b.box[3] || b.box[1] >= a.box[3] {
		return 0
	}
	return common([]*instance{a}, []*instance{b})
}

// nodeOf is a layer as evidence.
func nodeOf(name string, l *layer, status tools.Status, reason string) tools.Node {
	return tools.Node{Name: name, Output: strictjson.NullValue(), Valid: l.width * l.height, Total: l.width * l.height, Status: status, Reason: reason}
}
