package scenes

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/tools/perception"
)

func spec(class string, groups ...Group) Spec {
	return Spec{Class: class, Width: 224, Height: 160, GSD: 0.5, Groups: groups}
}

func mustScene(t testing.TB, seed uint64, s Spec) *Scene {
	t.Helper()
	scene, err := Generate(seed, s)
	if err != nil {
		t.Fatal(err)
	}
	return scene
}

func library(t testing.TB, e Errors, scenes ...*Scene) *Library {
	t.Helper()
	var truths []Truth
	for _, s := range scenes {
		truths = append(truths, s.Truth)
	}
	l, err := NewLibrary(1, e, truths...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ask(t testing.TB, l *Library, r perception.Request, scenes ...*Scene) perception.Reply {
	t.Helper()
	for _, s := range scenes {
		r.Images = append(r.Images, perception.Image{Path: "x.png", Data: s.PNG, Width: s.Truth.Width, Height: s.Truth.Height})
	}
	if r.Model == "" {
		r.Model = "model"
	}
	reply, err := l.Perceive(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(&reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

// Every class can be drawn, each differs from the others, and the same seed draws
// the same pixels.
func TestEveryClass(t *testing.T) {
	seen := map[string]string{}
	if n := len(Classes()); n != 30 {
		t.Errorf("%d scene classes, want 30", n)
	}
	for _, class := range Classes() {
		small := Spec{Class: class, Width: 128, Height: 96, GSD: 0.5}
		a, b, other := mustScene(t, 5, small), mustScene(t, 5, small), mustScene(t, 6, small)
		if !bytes.Equal(a.PNG, b.PNG) || a.Truth.Key != b.Truth.Key {
			t.Errorf("%s: the same seed draws other pixels", class)
		}
		if a.Truth.Key == other.Truth.Key {
			t.Errorf("%s: another seed draws the same pixels", class)
		}
		if twin := seen[a.Truth.Key]; twin != "" {
			t.Errorf("%s looks like %s", class, twin)
		}
		seen[a.Truth.Key] = class
		for _, c := range looks[class].like {
			if _, ok := looks[c]; !ok || c == class {
				t.Errorf("%s is confused with %q", class, c)
			}
		}
	}
	for class, m := range models {
		if _, ok := models[m.like]; !ok || m.like == class {
			t.Errorf("%s is confused with %q", class, m.like)
		}
	}
}

// The truth is what was drawn: objects lie inside, apart from each other, and the
// box is the box of the mask.
func TestObjectsLieWhereTheTruthSays(t *testing.T) {
	const side = 160
	for _, class := range ObjectClasses() {
		spec := Spec{Class: "Meadow", Width: side, Height: side, GSD: models[class].length / 40, Groups: []Group{{class, 2}}}
		s := mustScene(t, 3, spec)
		if len(s.Truth.Of(class)) != 2 {
			t.Fatalf("%s: %d objects, want 2", class, len(s.Truth.Objects))
		}
		for i, o := range s.Truth.Objects {
			b := o.Box(side, side)
			if b[0] < 1 || b[1] < 1 || b[2] > side-1 || b[3] > side-1 {
				t.Errorf("%s %d leaves the picture: %v", class, i, b)
			}
			mask, in, out := s.Truth.Mask([]Object{o}), 0, 0
			for k, set := range mask {
				x, y := float64(k%side), float64(k/side)
				if set && x >= b[0] && y >= b[1] && x < b[2] && y < b[3] {
					in++
				} else if set {
					out++
				}
			}
			if in == 0 || out != 0 {
				t.Errorf("%s %d: %d pixels in its box, %d outside", class, i, in, out)
			}
		}
		if overlap(s.Truth.Objects[0].Box(side, side), s.Truth.Objects[1].Box(side, side)) != 0 {
			t.Errorf("%s: objects overlap", class)
		}
		// A picture with the objects differs from one without them just there.
		spec.Groups = nil
		with, without := pixels(t, s), pixels(t, mustScene(t, 3, spec))
		for k, set := range s.Truth.Mask(s.Truth.Objects) {
			if !set && !slices.Equal(with[4*k:4*k+4], without[4*k:4*k+4]) {
				t.Fatalf("%s: pixel %d differs outside every object", class, k)
			}
		}
		if slices.Equal(with, without) {
			t.Errorf("%s cannot be seen", class)
		}
	}
	// A tennis court of 24 × 11 m, scaled by 0.8 to 1.2.
	s := mustScene(t, 9, spec("Park", Group{"tennis court", 1}))
	area := 0.0
	for _, set := range s.Truth.Mask(s.Truth.Objects) {
		if set {
			area += 0.25
		}
	}
	if area < 0.6*24*11 || area > 1.5*24*11 {
		t.Errorf("a tennis court of %g m²", area)
	}
}

// pixels are the decoded bytes of a scene, four a pixel.
func pixels(t *testing.T, s *Scene) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(s.PNG))
	if err != nil {
		t.Fatal(err)
	}
	return img.(*image.RGBA).Pix
}

func TestExactAnswers(t *testing.T) {
	s := mustScene(t, 2, spec("Park", Group{"tennis court", 4}, Group{"swimming pool", 2}, Group{"small vehicle", 5}))
	l := library(t, Errors{}, s)
	if r := ask(t, l, perception.Request{Task: perception.Classify}, s); r.Labels[0].Name != "Park" || len(r.Labels) != 5 {
		t.Errorf("labels %v", r.Labels)
	}
	r := ask(t, l, perception.Request{Task: perception.Detect, Prompt: "tennis-courts"}, s)
	for i, o := range s.Truth.Of("tennis court") {
		if r.Boxes[i] != o.Box(224, 160) {
			t.Errorf("box %d is %v, want %v", i, r.Boxes[i], o.Box(224, 160))
		}
	}
	if r := ask(t, l, perception.Request{Task: perception.Count, Prompt: "car"}, s); r.Count != 5 {
		t.Errorf("%d cars, want 5", r.Count)
	}
	if r := ask(t, l, perception.Request{Task: perception.Count, Prompt: "unicorn"}, s); r.Count != 0 {
		t.Errorf("%d unicorns", r.Count)
	}
	boxes := []perception.Box{s.Truth.Objects[0].Box(224, 160)}
	mask := ask(t, l, perception.Request{Task: perception.Segment, Boxes: boxes}, s).Mask
	if want := s.Truth.Mask(s.Truth.Objects[:1]); !slices.Equal(mask, want) {
		t.Error("the mask of a box is not that of its object")
	}
	// Far from every object a segmenter still finds an oval.
	empty := mustScene(t, 2, spec("Park"))
	mask = ask(t, library(t, Errors{}, empty), perception.Request{Task: perception.Segment, Boxes: []perception.Box{{10, 20, 30, 40}}}, empty).Mask
	n := 0
	for _, set := range mask {
		if set {
			n++
		}
	}
	if math.Abs(float64(n)-math.Pi*100) > 12 {
		t.Errorf("an oval of %d pixels, want about %.0f", n, math.Pi*100)
	}
}

func TestGrounding(t *testing.T) {
	s := mustScene(t, 4, spec("Park", Group{"storage tank", 5}))
	l := library(t, Errors{}, s)
	tanks := s.Truth.Of("storage tank")
	by := func(f func(o Object) float64) perception.Box {
		o := slices.MaxFunc(tanks, func(a, b Object) int {
			if f(a) < f(b) {
				return -1
			}
			return 1
		})
		return o.Box(224, 160)
	}
	for sentence, want := range map[string]perception.Box{
		"the largest storage tank":                       by(func(o Object) float64 { return o.Length * o.Breadth }),
		"the smallest tank in the image":                 by(func(o Object) float64 { return -o.Length * o.Breadth }),
		"The storage tank on the westernmost side":       by(func(o Object) float64 { return -o.X }),
		"the white storage tanks at the northernmost …":  by(func(o Object) float64 { return -o.Y }),
		"the rightmost storage tank, please":             by(func(o Object) float64 { return o.X }),
		"a storage tank that lies in the southern part ": by(func(o Object) float64 { return o.Y }),
	} {
		r := ask(t, l, perception.Request{Task: perception.Ground, Prompt: sentence}, s)
		if len(r.Boxes) != 1 || r.Boxes[0] != want {
			t.Errorf("%q: %v, want %v", sentence, r.Boxes, want)
		}
	}
	if r := ask(t, l, perception.Request{Task: perception.Ground, Prompt: "the largest ship"}, s); len(r.Boxes) != 0 {
		t.Errorf("a ship at %v", r.Boxes)
	}
}

func TestPairs(t *testing.T) {
	pre, post, err := GeneratePair(8, spec("SparseResidential", Group{"building", 9}), 4)
	if err != nil {
		t.Fatal(err)
	}
	if len(pre.Truth.Of("building")) != 9 || len(post.Truth.Of("building")) != 5 {
		t.Fatalf("%d buildings before, %d after", len(pre.Truth.Objects), len(post.Truth.Objects))
	}
	l := library(t, Errors{}, pre, post)
	var gone []Object
	for _, o := range pre.Truth.Objects {
		if !slices.Contains(post.Truth.Objects, o) {
			gone = append(gone, o)
		}
	}
	if got := ask(t, l, perception.Request{Task: perception.Change}, pre, post).Mask; len(gone) != 4 || !slices.Equal(got, pre.Truth.Mask(gone)) {
		t.Error("the change is not the buildings that are gone")
	}
	if got := ask(t, l, perception.Request{Task: perception.Change}, post, post).Mask; !slices.Equal(got, post.Truth.Mask(post.Truth.Objects)) {
		t.Error("a picture and itself do not give its buildings")
	}
	if _, _, err := GeneratePair(8, spec("SparseResidential", Group{"building", 3}), 4); !errors.Is(err, ErrSpec) {
		t.Errorf("more buildings destroyed than there are: %v", err)
	}
}

// Errors come at the set rates, and the same question gets the same answer.
func TestErrorRates(t *testing.T) {
	n := 40
	if testing.Short() {
		n = 12
	}
	var all []*Scene
	for seed := range uint64(n) {
		all = append(all, mustScene(t, seed, Spec{Class: "Pond", Width: 128, Height: 128, GSD: 0.5, Groups: []Group{{"small vehicle", 10}, {"large vehicle", 10}}}))
	}
	rates := Errors{Confuse: 0.2, Miss: 0.15, False: 0.1, Jitter: 0.05}
	l := library(t, rates, all...)
	confused, missed, false_, moved := 0, 0, 0, 0.0
	for _, s := range all {
		if ask(t, l, perception.Request{Task: perception.Classify}, s).Labels[0].Name != "Pond" {
			confused++
		}
		r := ask(t, l, perception.Request{Task: perception.Detect, Prompt: "small vehicle"}, s)
		again := ask(t, l, perception.Request{Task: perception.Detect, Prompt: "small vehicle"}, s)
		if !slices.Equal(r.Boxes, again.Boxes) || !slices.Equal(r.Scores, again.Scores) {
			t.Fatal("the same question got another answer")
		}
		for _, o := range s.Truth.Objects {
			box := o.Box(128, 128)
			k := slices.IndexFunc(r.Boxes, func(b perception.Box) bool { return overlap(b, box) > 0.5 })
			switch {
			case o.Class == "small vehicle" && k < 0:
				missed++
			case o.Class == "large vehicle" && k >= 0:
				false_++
			case k >= 0:
				moved = max(moved, math.Abs(r.Boxes[k][0]-box[0])/(box[2]-box[0]))
			}
		}
	}
	within := func(what string, got, trials int, rate float64) {
		if sd := math.Sqrt(float64(trials) * rate * (1 - rate)); math.Abs(float64(got)-rate*float64(trials)) > 4*sd {
			t.Errorf("%s: %d of %d, the rate is %g", what, got, trials, rate)
		}
	}
	within("confused", confused, n, rates.Confuse)
	within("missed", missed, 10*n, rates.Miss)
	within("false", false_, 10*n, rates.False)
	if moved == 0 || moved > rates.Jitter*1.001 {
		t.Errorf("boxes moved by %g of their width, the limit is %g", moved, rates.Jitter)
	}
}

func TestUnknownPictures(t *testing.T) {
	known, other := mustScene(t, 1, spec("Park")), mustScene(t, 2, spec("Park"))
	l := library(t, Errors{}, known)
	for name, data := range map[string][]byte{"another scene": other.PNG, "no picture": []byte("x"), "cut off": known.PNG[:200]} {
		_, err := l.Perceive(t.Context(), perception.Request{Model: "m", Task: perception.Classify, Images: []perception.Image{{Path: "a", Data: data}}})
		if !errors.Is(err, perception.ErrUnknownImage) {
			t.Errorf("%s: %v, want ErrUnknownImage", name, err)
		}
	}
	// The same pixels, compressed otherwise, are known.
	img, err := png.Decode(bytes.NewReader(known.PNG))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Perceive(context.Background(), perception.Request{Model: "m", Task: perception.Classify, Images: []perception.Image{{Data: b.Bytes()}}}); err != nil {
		t.Errorf("a copy: %v", err)
	}
}

func TestSpecs(t *testing.T) {
	for _, s := range []Spec{
		{Class: "Moon", Width: 100, Height: 100, GSD: 1},
		{Class: "Park", Width: 10, Height: 100, GSD: 1},
		{Class: "Park", Width: 100, Height: 9999, GSD: 1},
		{Class: "Park", Width: 100, Height: 100},
		{Class: "Park", Width: 100, Height: 100, GSD: math.NaN()},
		{Class: "Park", Width: 100, Height: 100, GSD: 1, Groups: []Group{{"dragon", 1}}},
		{Class: "Park", Width: 100, Height: 100, GSD: 1, Groups: []Group{{"plane", -1}}},
		{Class: "Park", Width: 100, Height: 100, GSD: 1, Groups: []Group{{"ground track field", 9}}},
	} {
		if _, err := Generate(1, s); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v, want ErrSpec", s, err)
		}
	}
	if _, err := NewLibrary(1, Errors{Miss: 2}); err == nil {
		t.Error("a rate of 2 is taken")
	}
}

func TestTruthsRoundTrip(t *testing.T) {
	a := mustScene(t, 1, spec("Park", Group{"plane", 1}))
	var b bytes.Buffer
	if err := WriteTruths(&b, []Truth{a.Truth}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTruths(bytes.NewReader(b.Bytes()))
	if err != nil || len(got) != 1 || got[0].Key != a.Truth.Key || !slices.Equal(got[0].Objects, a.Truth.Objects) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{`{}`, `[{"class":"Park"}]`, `[{"extra":1}]`, strings.Replace(b.String(), `"plane"`, `"dragon"`, 1), strings.Replace(b.String(), `"Park"`, `"Moon"`, 1)} {
		if _, err := ReadTruths(strings.NewReader(bad)); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
}

func TestClassOf(t *testing.T) {
	for prompt, want := range map[string]string{
		"basketball-court": "basketball court", "Tennis courts": "tennis court", "small-vehicle": "small vehicle", "vehicle": "small vehicle",
		"airplanes": "plane", "soccer-ball-field": "soccer ball field", "A football field on the westernmost side.": "soccer ball field",
		"large-vehicle": "large vehicle", "buses": "large vehicle", "harbor": "harbor", "unicorn": "", "": "", "planet": "",
	} {
		if got, ok := ClassOf(prompt); got != want || ok != (want != "") {
			t.Errorf("ClassOf(%q) = %q, want %q", prompt, got, want)
		}
	}
}

func FuzzReadTruths(f *testing.F) {
	f.Add([]byte(`[{"key":"","class":"Park","width":64,"height":64,"gsd":1,"objects":[{"id":0,"class":"plane","x":1,"y":1,"length":9,"breadth":9,"angle":1}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		truths, err := ReadTruths(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, tr := range truths {
			for _, o := range tr.Objects {
				o.Box(tr.Width, tr.Height)
			}
			tr.Mask(tr.Objects)
		}
	})
}
