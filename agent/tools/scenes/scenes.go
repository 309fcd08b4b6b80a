// Package scenes draws aerial pictures whose content is known, and answers
// questions about them as perception models would: mostly right, wrong at a set
// rate, always the same for the same question.
package scenes

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"

	"terraloom/agent/tools/perception"
)

// ErrSpec is returned for a scene that cannot be drawn as asked for.
var ErrSpec = errors.New("scene not possible")

// Spec says what a scene shows. The surroundings of some classes hold things that
// look like objects, as the cars of a car park: they are no objects of the truth,
// so count and detect where they cannot be mistaken for them.
type Spec struct {
	Class         string // one of Classes
	Width, Height int    // pixels, 64 to 2048
	GSD           float64
	Groups        []Group
}

// Group asks for objects of a class.
type Group struct {
	Class string // one of ObjectClasses
	Count int
}

// Scene is a picture with its truth.
type Scene struct {
	PNG   []byte
	Truth Truth
}

// Truth is what a picture shows. Its key is the SHA-256 of the size and the
// pixels, so a copy under another name, or in another lossless format, is known.
type Truth struct {
	Key     string   `json:"key"`
	Class   string   `json:"class"`
	Width   int      `json:"width"`
	Height  int      `json:"height"`
	GSD     float64  `json:"gsd"`
	Objects []Object `json:"objects,omitempty"`
}

// Object is one object of a scene: a shape of Length × Breadth pixels about a
// middle, turned by Angle radians.
type Object struct {
	ID      int     `json:"id"` // the same in the pictures of a pair
	Class   string  `json:"class"`
	X       float64 `json:"x"`
	Y       float64 `json:"y"`
	Length  float64 `json:"length"`
	Breadth float64 `json:"breadth"`
	Angle   float64 `json:"angle"`
}

const (
	minSide = 64
	maxSide = 2048
)

func (s *Spec) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrSpec)
	}
	if _, ok := looks[s.Class]; !ok {
		return bad("class %q is not one of %v", s.Class, Classes())
	}
	if s.Width < minSide || s.Height < minSide || s.Width > maxSide || s.Height > maxSide {
		return bad("%d×%d pixels; sides are %d to %d", s.Width, s.Height, minSide, maxSide)
	}
	if !(s.GSD > 0 && s.GSD <= 100) {
		return bad("%g m per pixel; give 0 to 100", s.GSD)
	}
	for _, g := range s.Groups {
		if _, ok := models[g.Class]; !ok {
			return bad("object class %q is not one of %v", g.Class, ObjectClasses())
		}
		if g.Count < 0 || g.Count > 1000 {
			return bad("%d objects of class %q; give 0 to 1000", g.Count, g.Class)
		}
	}
	return nil
}

// Generate draws a scene. The same seed and spec give the same pixels.
func Generate(seed uint64, spec Spec) (*Scene, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	objects, err := place(rng, spec)
	if err != nil {
		return nil, err
	}
	return render(seed, spec, objects, nil)
}

// GeneratePair draws a place before and after an event that destroys a number of
// its buildings, which leave rubble.
func GeneratePair(seed uint64, spec Spec, destroyed int) (pre, post *Scene, err error) {
	if err := spec.check(); err != nil {
		return nil, nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	objects, err := place(rng, spec)
	if err != nil {
		return nil, nil, err
	}
	var buildings []int
	for i, o := range objects {
		if o.Class == "building" {
			buildings = append(buildings, i)
		}
	}
	if destroyed < 0 || destroyed > len(buildings) {
		return nil, nil, fmt.Errorf("%d of %d buildings destroyed: %w", destroyed, len(buildings), ErrSpec)
	}
	rng.Shuffle(len(buildings), func(i, k int) { buildings[i], buildings[k] = buildings[k], buildings[i] })
	gone := buildings[:destroyed]
	var left, rubble []Object
	for i, o := range objects {
		if slices.Contains(gone, i) {
			rubble = append(rubble, o)
		} else {
			left = append(left, o)
		}
	}
	if pre, err = render(seed, spec, objects, nil); err != nil {
		return nil, nil, err
	}
	post, err = render(seed, spec, left, rubble)
	return pre, post, err
}

// place finds room for the objects, none touching another.
func place(rng *rand.Rand, spec Spec) ([]Object, error) {
	var out []Object
	for _, g := range spec.Groups {
		m := models[g.Class]
		for range g.Count {
			placed := false
			for range 2000 {
				scale := 0.8 + 0.4*rng.Float64()
				o := Object{ID: len(out), Class: g.Class, Length: scale * m.length / spec.GSD, Breadth: scale * m.breadth / spec.GSD}
				if o.Angle = float64(rng.IntN(2)) * math.Pi / 2; m.turns {
					o.Angle = rng.Float64() * math.Pi
				}
				w, h := o.extent()
				if w+4 >= float64(spec.Width) || h+4 >= float64(spec.Height) || min(o.Length, o.Breadth) < 3 {
					continue
				}
				o.X = w/2 + 2 + rng.Float64()*(float64(spec.Width)-w-4)
				o.Y = h/2 + 2 + rng.Float64()*(float64(spec.Height)-h-4)
				if !slices.ContainsFunc(out, func(p Object) bool { return o.touches(p) }) {
					out, placed = append(out, o), true
					break
				}
			}
			if !placed {
				return nil, fmt.Errorf("%d objects of class %q (%g×%g m) do not fit %d×%d pixels of %g m: %w",
					g.Count, g.Class, m.length, m.breadth, spec.Width, spec.Height, spec.GSD, ErrSpec)
			}
		}
	}
	return out, nil
}

// extent is the width and height of the box about the object.
func (o *Object) extent() (w, h float64) {
	s, c := math.Sincos(o.Angle)
	return math.Abs(o.Length*c) + math.Abs(o.Breadth*s), math.Abs(o.Length*s) + math.Abs(o.Breadth*c)
}

func (o *Object) touches(p Object) bool {
	w1, h1 := o.extent()
	w2, h2 := p.extent()
	const gap = 3
	return math.Abs(o.X-p.X) < (w1+w2)/2+gap && math.Abs(o.Y-p.Y) < (h1+h2)/2+gap
}

// each calls f with every pixel of the object inside a w × h image.
func (o *Object) each(w, h int, f func(x, y int, along, across float64)) {
	ew, eh := o.extent()
	s, c := math.Sincos(o.Angle)
	for y := max(int(o.Y-eh/2)-1, 0); y <= min(int(o.Y+eh/2)+1, h-1); y++ {
		for x := max(int(o.X-ew/2)-1, 0); x <= min(int(o.X+ew/2)+1, w-1); x++ {
			dx, dy := float64(x)+0.5-o.X, float64(y)+0.5-o.Y
			along, across := 2*(dx*c+dy*s)/o.Length, 2*(dy*c-dx*s)/o.Breadth // -1 … 1 inside
			if models[o.Class].shape(along, across) {
				f(x, y, along, across)
			}
		}
	}
}

// Box is the smallest box of whole pixels about the object in a w × h image.
func (o *Object) Box(w, h int) perception.Box {
	b := perception.Box{float64(w), float64(h), 0, 0}
	o.each(w, h, func(x, y int, _, _ float64) {
		b[0], b[1] = min(b[0], float64(x)), min(b[1], float64(y))
		b[2], b[3] = max(b[2], float64(x+1)), max(b[3], float64(y+1))
	})
	return b
}

// Mask is the set of pixels of objects.
func (t *Truth) Mask(objects []Object) []bool {
	mask := make([]bool, t.Width*t.Height)
	for _, o := range objects {
		o.each(t.Width, t.Height, func(x, y int, _, _ float64) { mask[y*t.Width+x] = true })
	}
	return mask
}

// Of are the objects of a class.
func (t *Truth) Of(class string) []Object {
	var out []Object
	for _, o := range t.Objects {
		if o.Class == class {
			out = append(out, o)
		}
	}
	return out
}

// render draws a scene and encodes it.
func render(seed uint64, spec Spec, objects, rubble []Object) (*Scene, error) {
	c := newCanvas(spec.Width, spec.Height, seed)
	looks[spec.Class].draw(c)
	for _, o := range rubble {
		c.rubble(o)
	}
	for _, o := range objects {
		c.object(o)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, c.img); err != nil {
		return nil, err
	}
	return &Scene{PNG: b.Bytes(), Truth: Truth{Key: key(c.img), Class: spec.Class, Width: spec.Width, Height: spec.Height, GSD: spec.GSD, Objects: objects}}, nil
}

// key is the SHA-256 of the size and the colours of a picture.
func key(img image.Image) string {
	h := sha256.New()
	b := img.Bounds()
	size := binary.BigEndian.AppendUint32(nil, uint32(b.Dx()))
	h.Write(binary.BigEndian.AppendUint32(size, uint32(b.Dy())))
	row := make([]byte, 3*b.Dx())
	for y := b.Min.Y; y < b.Max.Y; y++ {
		if pix := opaqueRow(img, y); pix != nil {
			for x := range b.Dx() {
				copy(row[3*x:3*x+3], pix[4*x:])
			}
		} else {
			for x := range b.Dx() {
				c := color.NRGBAModel.Convert(img.At(b.Min.X+x, y)).(color.NRGBA)
				row[3*x], row[3*x+1], row[3*x+2] = c.R, c.G, c.B
			}
		}
		h.Write(row)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// opaqueRow is the bytes of a row of the two kinds of picture that PNG gives for
// opaque colour, four a pixel; else nil.
func opaqueRow(img image.Image, y int) []byte {
	switch p := img.(type) {
	case *image.NRGBA:
		return p.Pix[p.PixOffset(p.Rect.Min.X, y):]
	case *image.RGBA:
		if p.Opaque() {
			return p.Pix[p.PixOffset(p.Rect.Min.X, y):]
		}
	}
	return nil
}
