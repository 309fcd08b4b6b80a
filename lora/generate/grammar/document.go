package grammar

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// ErrToken: a token that the schema does not allow at this place.
var ErrToken = errors.New("token is not allowed by the schema")

// Tokens is what a vocabulary is made of: a *tokenizer.BPE.
type Tokens interface {
	VocabSize() int
	TokenBytes(id int32) []byte // what a token decodes to
}

// Vocabulary is the tokens that can write a document, sorted by their bytes.
type Vocabulary struct {
	size  int
	ids   []int32
	text  [][]byte
	same  []int // bytes that a token's text shares with the one before it
	index map[int32]int
}

// NewVocabulary collects the tokens of a tokenizer but those that skip tells to leave out: control tokens are no text.
func NewVocabulary(t Tokens, skip func(id int32) bool) *Vocabulary {
	v := &Vocabulary{size: t.VocabSize(), index: map[int32]int{}}
	for id := range int32(v.size) {
		if len(t.TokenBytes(id)) > 0 && !skip(id) {
			v.ids = append(v.ids, id)
		}
	}
	slices.SortStableFunc(v.ids, func(a, b int32) int { return bytes.Compare(t.TokenBytes(a), t.TokenBytes(b)) })
	for i, id := range v.ids {
		text := t.TokenBytes(id)
		same := 0
		if i > 0 {
			before := v.text[i-1]
			for same < min(len(before), len(text)) && before[same] == text[same] {
				same++
			}
		}
		v.text, v.same = append(v.text, text), append(v.same, same)
		v.index[id] = i
	}
	return v
}

// Mask is a set of token ids.
type Mask []uint64

// Has reports whether id is in the set.
func (m Mask) Has(id int32) bool { return int(id)>>6 < len(m) && m[id>>6]&(1<<(id&63)) != 0 }

// Set adds id.
func (m Mask) Set(id int32) { m[id>>6] |= 1 << (id & 63) }

// Empty reports whether the set has no member.
func (m Mask) Empty() bool { return !slices.ContainsFunc(m, func(w uint64) bool { return w != 0 }) }

// Document is one document being written. It is not safe for concurrent use.
type Document struct {
	grammar *Grammar
	vocab   *Vocabulary
	at      []*frame
}

// Start begins a document.
func (g *Grammar) Start(v *Vocabulary) *Document {
	return &Document{grammar: g, vocab: v, at: []*frame{g.root.start()}}
}

// Complete reports whether the document is whole and nothing can follow.
func (d *Document) Complete() bool {
	if !d.MayEnd() {
		return false
	}
	for b := range 256 {
		for _, f := range d.at {
			if len(f.step(byte(b), nil)) > 0 {
				return false
			}
		}
	}
	return true
}

// MayEnd reports whether the document is whole, but could go on: only a number can.
func (d *Document) MayEnd() bool {
	return slices.ContainsFunc(d.at, func(f *frame) bool { return f.closing() == 0 })
}

// Advance appends a token.
func (d *Document) Advance(id int32) error {
	i, ok := d.vocab.index[id]
	if !ok {
		return fmt.Errorf("%w: id %d is no text", ErrToken, id)
	}
	at := d.at
	for _, b := range d.vocab.text[i] {
		var next []*frame
		for _, f := range at {
			next = f.step(b, next)
		}
		at = next
	}
	if len(at) == 0 {
		return fmt.Errorf("%w: id %d, %q", ErrToken, id, d.vocab.text[i])
	}
	// Choices that have led to the same place are one.
	slices.SortFunc(at, func(a, b *frame) int { return bytes.Compare(a.key(nil), b.key(nil)) })
	d.at = slices.CompactFunc(at, func(a, b *frame) bool { return bytes.Equal(a.key(nil), b.key(nil)) })
	return nil
}

// Mask returns the tokens that can come next. left is how many tokens may still be written, this one included: as the
// end nears, tokens from which the document could not be completed any more are left out, counting every further byte
// as a token. If it is too late for that, the tokens are those that lead to the shortest completion. The caller must
// not change the mask.
func (d *Document) Mask(left int) Mask {
	entry := d.grammar.masks.get(d)
	if entry.longest < left {
		return entry.mask
	}
	mask := make(Mask, len(entry.mask))
	shortest := math.MaxInt
	d.walk(func(id int32, at []*frame) {
		rest := closing(at)
		switch {
		case rest < left:
			if shortest >= left {
				clear(mask)
			}
			shortest = 0
		case rest > shortest:
			return
		case rest < shortest:
			clear(mask)
			shortest = rest
		}
		mask.Set(id)
	})
	return mask
}

// walk calls f for every token that can come next with the configurations after it.
func (d *Document) walk(f func(id int32, at []*frame)) {
	v := d.vocab
	at := [][]*frame{d.at} // configurations after each byte of the token before
	dead := -1             // bytes of the shortest prefix that nothing follows from
	for i, text := range v.text {
		depth := v.same[i]
		if dead >= 0 && depth >= dead {
			continue
		}
		dead = -1
		for depth < len(text) {
			if len(at) == depth+1 {
				at = append(at, nil)
			}
			next := at[depth+1][:0]
			for _, c := range at[depth] {
				next = c.step(text[depth], next)
			}
			depth++
			at[depth] = next
			if len(next) == 0 {
				dead = depth
				break
			}
		}
		if dead < 0 {
			f(v.ids[i], at[depth])
		}
	}
}

// closing is the length of the shortest completion of any configuration.
func closing(at []*frame) int {
	best := math.MaxInt
	for _, f := range at {
		best = min(best, f.closing())
	}
	return best
}

// maskCache keeps the masks of places that come again: inside a string every token leads to the same place.
type maskCache struct {
	mu    sync.Mutex
	vocab *Vocabulary
	known map[string]*maskEntry
}

type maskEntry struct {
	mask    Mask
	longest int // largest number of bytes that a document needs after one of the tokens
}

// maxMasks bounds the cache: 30 KB each for a vocabulary of 250,000.
const maxMasks = 512

func (c *maskCache) get(d *Document) *maskEntry {
	var key []byte
	for _, f := range d.at {
		key = f.key(key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vocab != d.vocab || len(c.known) >= maxMasks {
		c.vocab, c.known = d.vocab, map[string]*maskEntry{}
	}
	if e, ok := c.known[string(key)]; ok {
		return e
	}
	e := &maskEntry{mask: make(Mask, (d.vocab.size+63)/64)}
	d.walk(func(id int32, at []*frame) {
		e.mask.Set(id)
		e.longest = max(e.longest, closing(at))
	})
	c.known[string(key)] = e
	return e
}
