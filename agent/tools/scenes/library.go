package scenes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"image"
	_ "image/jpeg" // a lossless copy is a PNG, but a JPEG must be told unknown, not broken
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"terraloom/agent/tools/perception"
)

// Errors are the rates at which a Library is wrong, 0 … 1.
type Errors struct {
	Confuse float64 // takes a scene for another class
	Miss    float64 // overlooks an object
	False   float64 // reports an object of a class that looks alike
	Jitter  float64 // moves each side of a box by up to this share of its length
}

// DefaultErrors are about those of published detectors and classifiers on their
// own test sets.
var DefaultErrors = Errors{Confuse: 0.06, Miss: 0.05, False: 0.03, Jitter: 0.02}

// Library answers requests about the scenes it knows. It is a
// perception.Perceiver and safe for concurrent use.
type Library struct {
	seed   uint64
	errors Errors
	truths map[string]Truth
}

// NewLibrary returns a library of scenes. The seed decides which answers are wrong.
func NewLibrary(seed uint64, e Errors, truths ...Truth) (*Library, error) {
	for _, r := range []float64{e.Confuse, e.Miss, e.False, e.Jitter} {
		if !(r >= 0 && r <= 1) {
			return nil, fmt.Errorf("error rates %+v: expected 0 to 1", e)
		}
	}
	l := &Library{seed: seed, errors: e, truths: make(map[string]Truth, len(truths))}
	for _, t := range truths {
		l.truths[t.Key] = t
	}
	return l, nil
}

// ReadTruths reads what WriteTruths wrote.
func ReadTruths(r io.Reader) ([]Truth, error) {
	var truths []Truth
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&truths); err != nil {
		return nil, fmt.Errorf("scene truths: %w", err)
	}
	for i, t := range truths {
		if _, ok := looks[t.Class]; !ok || len(t.Key) != 64 || t.Width < minSide || t.Height < minSide || t.Width > maxSide || t.Height > maxSide || !(t.GSD > 0) {
			return nil, fmt.Errorf("scene truths: item %d is not a scene: class %q, %d×%d pixels of %g m, key %q", i, t.Class, t.Width, t.Height, t.GSD, t.Key)
		}
		for k, o := range t.Objects {
			if _, ok := models[o.Class]; !ok || !(o.Length > 0 && o.Breadth > 0 && o.Length < 4*maxSide && o.Breadth < 4*maxSide) || math.Abs(o.X) > 2*maxSide || math.Abs(o.Y) > 2*maxSide {
				return nil, fmt.Errorf("scene truths: item %d, object %d is not one: %+v", i, k, o)
			}
		}
	}
	return truths, nil
}

// WriteTruths writes truths as JSON. It belongs where no tool can read it.
func WriteTruths(w io.Writer, truths []Truth) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(truths)
}

// Backend is "scenes".
func (l *Library) Backend() string { return "scenes" }

// Perceive answers a request from the truth, with errors at the set rates.
func (l *Library) Perceive(_ context.Context, r perception.Request) (perception.Reply, error) {
	truths := make([]Truth, len(r.Images))
	for i, img := range r.Images {
		t, err := l.truth(img)
		if err != nil {
			return perception.Reply{}, err
		}
		truths[i] = t
	}
	t := truths[len(truths)-1]
	v := view{Truth: t, errors: l.errors, rng: l.dice(&r, truths)}
	reply := perception.Reply{Weights: r.Model + " (scenes 1)", Sensor: "aerial RGB", Resolution: t.GSD, Exact: true,
		Thresholds: map[string]float64{"score": minScore}}
	class, known := ClassOf(r.Prompt)
	if !known && r.Prompt != "" {
		return reply, nil // nothing of the kind is in any scene
	}
	switch r.Task {
	case perception.Classify:
		reply.Labels = v.classify()
	case perception.Detect:
		reply.Boxes, reply.Scores, reply.Filtered = v.detect(class)
	case perception.Count:
		_, scores, filtered := v.detect(class)
		reply.Count, reply.Filtered = len(scores), filtered
	case perception.Ground:
		if o, ok := v.find(class, r.Prompt); ok {
			reply.Boxes, reply.Scores = []perception.Box{v.shaken(o)}, []float64{v.score()}
		}
	case perception.Segment:
		reply.Mask = v.segment(r.Boxes)
	case perception.Change:
		reply.Mask = v.change(truths[0])
	default:
		return reply, fmt.Errorf("task %q: %w", r.Task, perception.ErrReply)
	}
	return reply, nil
}

// truth finds a picture by its pixels.
func (l *Library) truth(img perception.Image) (Truth, error) {
	c, format, err := image.DecodeConfig(bytes.NewReader(img.Data))
	if err != nil || c.Width > maxSide || c.Height > maxSide || format != "png" {
		return Truth{}, fmt.Errorf("%s is none of the %d scenes of this environment: %w", img.Path, len(l.truths), perception.ErrUnknownImage)
	}
	picture, err := png.Decode(bytes.NewReader(img.Data))
	if err != nil {
		return Truth{}, fmt.Errorf("%s: %w: %w", img.Path, err, perception.ErrUnknownImage)
	}
	t, ok := l.truths[key(picture)]
	if !ok {
		return Truth{}, fmt.Errorf("%s is none of the %d scenes of this environment: %w", img.Path, len(l.truths), perception.ErrUnknownImage)
	}
	return t, nil
}

// dice are the random numbers of a question: the same for the same question.
func (l *Library) dice(r *perception.Request, truths []Truth) *rand.Rand {
	h := fnv.New128a()
	h.Write([]byte(r.Model + "\x00" + string(r.Task) + "\x00" + strings.ToLower(strings.TrimSpace(r.Prompt))))
	for _, t := range truths {
		h.Write([]byte(t.Key))
	}
	for _, b := range r.Boxes {
		for _, v := range b {
			h.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
		}
	}
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum)^l.seed, binary.BigEndian.Uint64(sum[8:])))
}

// view is one look at a scene.
type view struct {
	Truth
	errors Errors
	rng    *rand.Rand
}

// minScore is the score below which candidates are dropped.
const minScore = 0.5

func (v *view) score() float64 { return 0.6 + 0.39*v.rng.Float64() }

func (v *view) errs(rate float64) bool { return v.rng.Float64() < rate }

// classify gives the class and its look-alikes, best first.
func (v *view) classify() []perception.Label {
	names := append([]string{v.Class}, looks[v.Class].like...)
	if v.errs(v.errors.Confuse) {
		k := 1 + v.rng.IntN(len(names)-1)
		names[0], names[k] = names[k], names[0]
	}
	for _, c := range Classes() {
		if len(names) == 5 {
			break
		}
		if !slices.Contains(names, c) {
			names = append(names, c)
		}
	}
	out := make([]perception.Label, len(names))
	left := 1.0
	for i, n := range names {
		share := 0.5
		if i == 0 {
			share = v.score()
		}
		out[i] = perception.Label{Name: n, Score: left * share}
		left -= out[i].Score
	}
	slices.SortStableFunc(out, func(a, b perception.Label) int { return cmp.Compare(b.Score, a.Score) })
	return out
}

// detect gives the boxes of a class: without those overlooked, with look-alikes
// taken for it.
func (v *view) detect(class string) (boxes []perception.Box, scores []float64, filtered int) {
	for _, o := range v.Objects {
		switch {
		case o.Class == class && !v.errs(v.errors.Miss), models[o.Class].like == class && v.errs(v.errors.False):
			boxes, scores = append(boxes, v.shaken(o)), append(scores, v.score())
		case o.Class == class:
			filtered++ // seen, but below the threshold
		}
	}
	return boxes, scores, filtered
}

// shaken is the box of an object, moved a little, inside the picture.
func (v *view) shaken(o Object) perception.Box {
	b := o.Box(v.Width, v.Height)
	w, h := b[2]-b[0], b[3]-b[1]
	off := func() float64 { return (2*v.rng.Float64() - 1) * v.errors.Jitter }
	out := perception.Box{b[0] + w*off(), b[1] + h*off(), b[2] + w*off(), b[3] + h*off()}
	out[0], out[1] = min(max(out[0], 0), b[2]-1), min(max(out[1], 0), b[3]-1)
	out[2], out[3] = min(max(out[2], out[0]+1), float64(v.Width)), min(max(out[3], out[1]+1), float64(v.Height))
	return out
}

// find is the object of a class that a sentence singles out: the largest or
// smallest, the one farthest to a side, or the largest of those on a side. A
// sentence without such words means the largest.
func (v *view) find(class, sentence string) (Object, bool) {
	all := v.Of(class)
	if len(all) == 0 || v.errs(v.errors.Miss) {
		return Object{}, false
	}
	s := strings.ToLower(sentence)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
	}
	size := func(o Object) float64 { return o.Length * o.Breadth }
	if has("smallest") {
		size = func(o Object) float64 { return -o.Length * o.Breadth }
	}
	var side func(o Object) float64 // larger lies farther to the side
	switch {
	case has("western", "west ", "leftmost", "left "):
		side = func(o Object) float64 { return -o.X }
	case has("eastern", "east ", "rightmost", "right "):
		side = func(o Object) float64 { return o.X }
	case has("northern", "north ", "topmost", "top "):
		side = func(o Object) float64 { return -o.Y }
	case has("southern", "south ", "bottom"):
		side = func(o Object) float64 { return o.Y }
	}
	better := func(f func(o Object) float64) Object {
		return slices.MaxFunc(all, func(a, b Object) int { return cmp.Compare(f(a), f(b)) })
	}
	if side == nil {
		return better(size), true
	}
	if has("largest", "biggest", "smallest") {
		middle := side(Object{X: float64(v.Width) / 2, Y: float64(v.Height) / 2})
		if half := slices.DeleteFunc(slices.Clone(all), func(o Object) bool { return side(o) < middle }); len(half) > 0 {
			all = half
			return better(size), true
		}
	}
	return better(side), true
}

// segment is the mask of the object that fills most of each box; of a box without
// one, its inner oval, as a segmenter finds something everywhere.
func (v *view) segment(boxes []perception.Box) []bool {
	mask := make([]bool, v.Width*v.Height)
	for _, b := range boxes {
		best, fit := -1, 0.1
		for i, o := range v.Objects {
			if f := overlap(b, o.Box(v.Width, v.Height)); f > fit {
				best, fit = i, f
			}
		}
		if best >= 0 {
			o := v.Objects[best]
			if v.errs(v.errors.Miss) { // the outline is drawn too tight
				o.Length, o.Breadth = o.Length*0.94, o.Breadth*0.94
			}
			o.each(v.Width, v.Height, func(x, y int, _, _ float64) { mask[y*v.Width+x] = true })
			continue
		}
		cx, cy, rx, ry := (b[0]+b[2])/2, (b[1]+b[3])/2, (b[2]-b[0])/2, (b[3]-b[1])/2
		for y := max(int(b[1]), 0); y < min(int(b[3])+1, v.Height); y++ {
			for x := max(int(b[0]), 0); x < min(int(b[2])+1, v.Width); x++ {
				if oval((float64(x)+0.5-cx)/rx, (float64(y)+0.5-cy)/ry) {
					mask[y*v.Width+x] = true
				}
			}
		}
	}
	return mask
}

// overlap is the intersection of two boxes over their union.
func overlap(a, b perception.Box) float64 {
	w, h := min(a[2], b[2])-max(a[0], b[0]), min(a[3], b[3])-max(a[1], b[1])
	if w <= 0 || h <= 0 {
		return 0
	}
	area := func(b perception.Box) float64 { return (b[2] - b[0]) * (b[3] - b[1]) }
	return w * h / (area(a) + area(b) - w*h)
}

// change is the mask of the buildings of an earlier picture that are gone; of the
// same picture, of its buildings.
func (v *view) change(before Truth) []bool {
	var seen []Object
	for _, o := range before.Of("building") {
		gone := !slices.ContainsFunc(v.Objects, func(p Object) bool { return p == o })
		if (gone || before.Key == v.Key) && !v.errs(v.errors.Miss) {
			seen = append(seen, o)
		}
	}
	return v.Mask(seen)
}
