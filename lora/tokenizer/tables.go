package tokenizer

import "math/bits"

// noRank is the rank of a pair that never merges.
const noRank = ^uint32(0)

// hashMultiplier is 2^64 divided by the golden ratio (Fibonacci hashing).
const hashMultiplier = 0x9E3779B97F4A7C15

// pairTable maps a pair of neighbouring ids to the rank of its merge: an open-addressing hash table at most half full.
type pairTable struct {
	slots []pairSlot
	shift uint
}

type pairSlot struct {
	key  uint64 // left<<32 | right, plus 1; 0 is an empty slot
	rank uint32
}

func newPairTable(n int) pairTable {
	size := bits.Len(uint(2*n + 1))
	return pairTable{make([]pairSlot, 1<<size), uint(64 - size)}
}

// insert adds a merge. It returns false and the rank of the first if the pair is there already.
func (t *pairTable) insert(left, right int32, rank uint32) (uint32, bool) {
	key := uint64(uint32(left))<<32 | uint64(uint32(right)) + 1
	i := int(key * hashMultiplier >> t.shift)
	for t.slots[i].key != 0 {
		if t.slots[i].key == key {
			return t.slots[i].rank, false
		}
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = pairSlot{key, rank}
	return rank, true
}

// find returns the rank of a merge, or noRank.
func (t *pairTable) find(left, right int32) uint32 {
	key := uint64(uint32(left))<<32 | uint64(uint32(right)) + 1
	i := int(key * hashMultiplier >> t.shift)
	for {
		s := &t.slots[i&(len(t.slots)-1)]
		if s.key == key {
			return s.rank
		}
		if s.key == 0 {
			return noRank
		}
		i++
	}
}

// maxShortWord is the longest word, in bytes, that a shortWord holds.
const maxShortWord = 15

// shortWord is a word of 1 to maxShortWord bytes as two integers: the bytes in order, the length in the last byte.
type shortWord struct{ lo, hi uint64 }

// shortWordAt returns text[start:end] as a shortWord.
func shortWordAt(text string, start, end int) shortWord {
	n := uint(end - start)
	var w shortWord
	if start+16 <= len(text) { // read 16 bytes, keep n
		w.lo, w.hi = load64(text[start:]), load64(text[start+8:])
		if n < 8 {
			w.lo &= 1<<(8*n) - 1
			w.hi = 0
		} else {
			w.hi &= 1<<(8*(n-8)) - 1
		}
	} else {
		for i := start; i < end; i++ {
			if at := uint(i - start); at < 8 {
				w.lo |= uint64(text[i]) << (8 * at)
			} else {
				w.hi |= uint64(text[i]) << (8 * (at - 8))
			}
		}
	}
	w.hi |= uint64(n) << 56
	return w
}

// load64 reads 8 bytes, lowest first; the compiler makes one load of it.
func load64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func (w shortWord) hash() uint64 {
	h := (w.lo ^ bits.RotateLeft64(w.hi*hashMultiplier, 29)) * hashMultiplier
	return h ^ h>>32
}

// wordTable maps whole words to ids: short ones in an open-addressing table without pointers, long ones in a map.
type wordTable struct {
	slots []wordSlot
	long  map[string]int32
}

type wordSlot struct {
	word shortWord // zero is an empty slot: a word has a length
	id   int32
}

func newWordTable(n int) wordTable {
	return wordTable{make([]wordSlot, 1<<bits.Len(uint(2*n+1))), map[string]int32{}}
}

func (t *wordTable) insert(word string, id int32) {
	if len(word) > maxShortWord {
		t.long[word] = id
		return
	}
	w := shortWordAt(word, 0, len(word))
	i := int(w.hash()) & (len(t.slots) - 1)
	for t.slots[i].word != (shortWord{}) {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = wordSlot{w, id}
}

// find returns the id of a short word, given its hash, or NoToken.
func (t *wordTable) find(w shortWord, hash uint64) int32 {
	i := int(hash)
	for {
		s := &t.slots[i&(len(t.slots)-1)]
		if s.word == w {
			return s.id
		}
		if s.word == (shortWord{}) {
			return NoToken
		}
		i++
	}
}
