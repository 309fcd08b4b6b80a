package synth

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"terraloom/data"
)

// D13: texts shorter than a shingle must not share an empty signature.
func TestD13ShortTextsDiffer(t *testing.T) {
	n := newNeighbours(0.95)
	for i, test := range []struct {
		text string
		near int
	}{{"cat", -1}, {"dog", -1}, {"cat", 0}, {"", -1}, {"cat dog", -1}, {"dog cat", -1}, {"", 3}, {"CAT!", 0}} {
		s := sketchOf(words(test.text))
		if got := n.near(&s); got != test.near {
			t.Errorf("text %d, %q: near %d, want %d", i, test.text, got, test.near)
		}
		n.add(&s)
	}
	if a, b := shingleSet("cat"), shingleSet("dog"); jaccard(a, b) != 0 || jaccard(a, a) != 1 {
		t.Error("sets of short texts")
	}
}

// D12: texts that differ in their Unicode composition alone are duplicates.
func TestD12ComposedAndDecomposedAreDuplicates(t *testing.T) {
	const nfc, nfd = "Wie warm ist M\u00fcnchen im Jahr 2020?", "Wie warm ist Mu\u0308nchen im Jahr 2020?"
	if nfc == nfd {
		t.Fatal("the editor normalised the test")
	}
	a, b := sketchOf(words(nfc)), sketchOf(words(nfd))
	if a != b {
		t.Errorf("similarity %v", a.similarity(&b))
	}
	x, y := sampleSeed(t, "sample-1"), sampleSeed(t, "sample-1")
	x.Query, y.Query = nfc, nfd
	if contentHash(x) != contentHash(y) {
		t.Error("the two are not exact duplicates")
	}
	y.Query = "Wie warm ist Munchen im Jahr 2020?"
	if contentHash(x) == contentHash(y) {
		t.Error("another letter is the same content")
	}
	x.ID, y.ID = "a", "b"
	y.Query = nfd
	if comps := components([]*data.Trajectory{x, y}, 7); len(comps) != 1 {
		t.Errorf("%d groups of two seeds that ask the same", len(comps))
	}
}

// The signature estimates the Jaccard similarity of shingle sets without bias,
// with the spread of a mean of 96 coin throws.
func TestMinHashEstimatesJaccard(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	vocabulary := make([]string, 400)
	for i := range vocabulary {
		vocabulary[i] = fmt.Sprintf("w%d", i)
	}
	var bias, n, worst float64
	for range 400 {
		a := make([]string, 30+r.IntN(60))
		for i := range a {
			a[i] = vocabulary[r.IntN(len(vocabulary))]
		}
		b := append([]string(nil), a...)
		for range r.IntN(20) {
			b[r.IntN(len(b))] = vocabulary[r.IntN(len(vocabulary))]
		}
		exact := jaccard(shingleSet(strings.Join(a, " ")), shingleSet(strings.Join(b, " ")))
		x, y := sketchOf(a), sketchOf(b)
		d := x.similarity(&y) - exact
		bias += d
		n++
		worst = math.Max(worst, math.Abs(d))
		if exact == 1 && d != 0 {
			t.Errorf("equal sets have similarity %v", 1+d)
		}
	}
	sigma := 0.5 / math.Sqrt(sketch)
	if mean := bias / n; math.Abs(mean) > 4*sigma/math.Sqrt(n) || worst > 4.5*sigma {
		t.Errorf("mean error %.4f, worst %.4f; one standard deviation is at most %.4f", mean, worst, sigma)
	}
}

// At every threshold the bands find nearly all pairs over it and no pair under it.
func TestNeighboursAgreeWithAllPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var texts [][]string
	for range 50 {
		base := make([]string, 120)
		for i := range base {
			base[i] = fmt.Sprintf("w%d", r.IntN(5000))
		}
		texts = append(texts, base)
		for _, changed := range []int{0, 1, 2, 4, 8, 16, 32} { // similarity from 1 to about 0.3
			near := append([]string(nil), base...)
			for range changed {
				near[r.IntN(len(near))] = "other"
			}
			texts = append(texts, near)
		}
	}
	for _, threshold := range []float64{0.3, 0.6, 0.8, 0.95, 1} {
		n := newNeighbours(threshold)
		var sketches []signature
		missed, found := 0, 0
		for _, w := range texts {
			s := sketchOf(w)
			want := false
			for i := range sketches {
				want = want || sketches[i].similarity(&s) >= threshold
			}
			switch got := n.near(&s); {
			case got >= 0 && sketches[got].similarity(&s) < threshold:
				t.Errorf("threshold %v: text %d is %v similar", threshold, got, sketches[got].similarity(&s))
			case got < 0 && want:
				missed++
			case want:
				found++
			}
			n.add(&s)
			sketches = append(sketches, s)
		}
		if missed > 2 || found < 50 {
			t.Errorf("threshold %v, bands of %d: %d texts with a neighbour found, %d missed", threshold, n.inBand, found, missed)
		}
	}
}

// Streams of different uses do not meet, and are the same everywhere.
func TestStreams(t *testing.T) {
	seen := map[[2]uint64]string{}
	for _, seed := range []uint64{0, 1, 7, 1 << 40} {
		for _, text := range []string{"", "a", "ab", "split a", "earth-bench-1", "earth-bench-11"} {
			for a := range 5 {
				for b := range 5 {
					x, y := stream(seed, text, a, b)
					name := fmt.Sprint(seed, text, a, b)
					if other, ok := seen[[2]uint64{x, y}]; ok {
						t.Errorf("%s and %s have one stream", name, other)
					}
					seen[[2]uint64{x, y}] = name
				}
			}
		}
	}
	if a, b := stream(7, "earth-bench-112", 3, 0); a != 0x8e757a8e96e76a85 || b != 0x89ea73348a7be0f1 {
		t.Errorf("the stream is %#x %#x: datasets made before cannot be made again", a, b)
	}
}

// Across the whole real set no two instances are near-duplicates, also not those
// of different seeds, which the run compares only within groups.
func TestNoNearDuplicatesAcrossTheWholeSet(t *testing.T) {
	if testing.Short() {
		t.Skip("compares all pairs of 2,480 instances")
	}
	seeds := realSeeds(t)
	sink := &features10{}
	o := Default()
	if _, err := runAll(t, seeds, sink, o); err != nil {
		t.Fatal(err)
	}
	if len(sink.sets) != 2480 {
		t.Fatalf("%d instances", len(sink.sets))
	}
	for i := range sink.sets {
		for j := range i {
			a, b := sink.sets[i], sink.sets[j]
			if small, large := min(len(a), len(b)), max(len(a), len(b)); float64(small) < 0.95*float64(large) {
				continue // cannot be that similar
			}
			if s := overlap(a, b); s >= 0.97 { // two standard deviations over the threshold
				t.Errorf("%s and %s are %.3f similar", sink.ids[i], sink.ids[j], s)
			}
		}
		if i > 0 && sink.hashes[i] == sink.hashes[i-1] {
			t.Errorf("%s says what %s says", sink.ids[i], sink.ids[i-1])
		}
	}
	distinct := map[uint64]bool{}
	for _, h := range sink.hashes {
		distinct[h] = true
	}
	if len(distinct) != 2480 {
		t.Errorf("%d distinct contents", len(distinct))
	}
}

// features10 keeps the sorted shingle hashes of what is compared.
type features10 struct {
	ids    []string
	sets   [][]uint64
	hashes []uint64
}

func (f *features10) Add(_ string, t *data.Trajectory, _ data.PlannerRow, _ []data.ExecutorRow) error {
	f.ids = append(f.ids, t.ID)
	f.hashes = append(f.hashes, contentHash(t))
	f.sets = append(f.sets, shingleHashes(features(t)))
	return nil
}

// shingleHashes is the sorted set of shingles, written a second time.
func shingleHashes(w []string) []uint64 {
	var out []uint64
	for i := 0; i+3 <= len(w); i++ {
		h := fnv.New64()
		fmt.Fprint(h, w[i], "|", w[i+1], "|", w[i+2])
		out = append(out, h.Sum64())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// overlap is the Jaccard similarity of two sorted sets.
func overlap(a, b []uint64) float64 {
	both, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			both, i, j = both+1, i+1, j+1
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return float64(both) / float64(len(a)+len(b)-both)
}
