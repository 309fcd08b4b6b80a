package synth

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"strings"

	"golang.org/x/text/unicode/norm"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// shingle is the number of words that count as one feature of a text.
const shingle = 3

// signature is a MinHash sketch: the share of equal entries of two signatures
// estimates the Jaccard similarity of the texts' shingle sets.
type signature [sketch]uint32

const sketch = 96 // entries

// words splits a text, in its composed form (NFC), into lower-case words and numbers.
func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(norm.NFC.String(s)), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127)
	})
}

// sketchOf sketches the words of a text. A text of fewer words than a shingle is
// one feature, so that short texts differ unless they are equal.
func sketchOf(w []string) signature {
	var s signature
	for i := range s {
		s[i] = math.MaxUint32
	}
	n := min(shingle, len(w))
	for i := 0; i+n <= len(w); i++ {
		h := fnv.New64a()
		for _, word := range w[i : i+n] {
			h.Write([]byte(word))
			h.Write([]byte{0})
		}
		x := h.Sum64()
		a, b := uint32(x), uint32(x>>32)|1
		for k := range s {
			v := mix32(a + uint32(k)*b)
			if v < s[k] {
				s[k] = v
			}
		}
		if n == 0 {
			break
		}
	}
	return s
}

func mix32(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	return x ^ x>>16
}

func (s *signature) similarity(t *signature) float64 {
	same := 0
	for i := range s {
		if s[i] == t[i] {
			same++
		}
	}
	return float64(same) / sketch
}

// neighbours finds earlier texts that are nearly the same. Signatures are cut
// into bands; texts that share a band are compared.
type neighbours struct {
	threshold float64
	inBand    int // entries of a band
	seen      []signature
	buckets   map[uint64][]int32
}

func newNeighbours(threshold float64) *neighbours {
	n := &neighbours{threshold: threshold, buckets: map[uint64][]int32{}}
	// Long bands have few chance meetings. The longest are taken in which two texts
	// as similar as the threshold still meet, but for one case in a thousand.
	for r := 1; r <= sketch; r++ {
		if sketch%r == 0 && (r == 1 || math.Pow(1-math.Pow(threshold, float64(r)), float64(sketch/r)) <= 1e-3) {
			n.inBand = r
		}
	}
	return n
}

// bands calls f with the bucket of every band of a signature until f is false.
func (n *neighbours) bands(s *signature, f func(bucket uint64) bool) {
	for k := 0; k < sketch; k += n.inBand {
		h := uint64(k)*0x9e3779b97f4a7c15 + 1
		for _, v := range s[k : k+n.inBand] {
			h = (h ^ uint64(v)) * 0x100000001b3
		}
		if !f(h) {
			return
		}
	}
}

// near returns the index of an earlier text at least threshold similar, or -1.
func (n *neighbours) near(s *signature) int {
	found := -1
	n.bands(s, func(bucket uint64) bool {
		for _, i := range n.buckets[bucket] {
			if n.seen[i].similarity(s) >= n.threshold {
				found = int(i)
				return false
			}
		}
		return true
	})
	return found
}

func (n *neighbours) add(s *signature) {
	i := int32(len(n.seen))
	n.seen = append(n.seen, *s)
	n.bands(s, func(bucket uint64) bool {
		n.buckets[bucket] = append(n.buckets[bucket], i)
		return true
	})
}

// features are the words by which instances are compared: the question, what was
// drawn for it and, where observations are computed, the numbers and words that
// the tools found. The skeleton, which instances of a seed share, is left out.
func features(t *data.Trajectory) []string {
	w := words(t.Query)
	for i := range t.Slots.Len() {
		w = append(w, t.Slots.Key(i))
		w = append(w, words(t.Slots.Index(i).Text())...)
	}
	if t.Provenance.Get("mode").Text() != Execute {
		return w
	}
	for i := range t.Steps {
		n := 0
		t.Steps[i].Observation.Leaves("", func(_ string, leaf strictjson.Value) {
			if n++; n <= found && !strings.Contains(leaf.Text(), "/") { // paths follow from what was drawn
				w = append(w, leaf.Text())
			}
		})
	}
	return w
}

// found is how many values of an observation count.
const found = 12

// contentHash identifies what a trajectory says, whatever its ids; texts that
// differ in their Unicode composition alone say the same.
func contentHash(t *data.Trajectory) uint64 {
	h := fnv.New64a()
	buf := make([]byte, 0, 4096)
	put := func(v strictjson.Value) {
		buf = v.AppendJSON(buf[:0])
		h.Write(norm.NFC.Bytes(buf))
		h.Write([]byte{0})
	}
	put(strictjson.Text(t.Query))
	put(t.Inputs)
	for i := range t.Steps {
		put(strictjson.Text(t.Steps[i].Tool))
		put(t.Steps[i].Arguments)
		put(t.Steps[i].Observation)
	}
	put(t.Answer)
	return h.Sum64()
}

// stream derives a random stream from the run's seed, a text and two numbers.
func stream(seed uint64, text string, a, b int) (uint64, uint64) {
	h := fnv.New128a()
	var n [24]byte
	binary.LittleEndian.PutUint64(n[:], seed)
	binary.LittleEndian.PutUint64(n[8:], uint64(a))
	binary.LittleEndian.PutUint64(n[16:], uint64(b))
	h.Write(n[:])
	h.Write([]byte(text))
	sum := h.Sum(nil)
	return binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])
}
