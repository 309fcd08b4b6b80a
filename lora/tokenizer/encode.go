package tokenizer

import "slices"

// Encode implements [Tokenizer]: the ids of Hugging Face's encode(text, add_special_tokens=False).
func (b *BPE) Encode(text string) []int32 { return b.encode(text, true) }

// EncodeOrdinary implements [Tokenizer]: the ids of encode with split_special_tokens, extended to added tokens that are not
// special, so no marker in text ever becomes its control id.
func (b *BPE) EncodeOrdinary(text string) []int32 { return b.encode(text, false) }

func (b *BPE) encode(text string, parseAdded bool) []int32 {
	e := b.encoders.Get().(*encoder)
	defer b.encoders.Put(e)
	e.out = e.out[:0]
	e.text(text, parseAdded)
	return slices.Clone(e.out)
}

const (
	cacheSlots   = 1 << 11
	maxCachedIDs = 11
	// maxScan is the longest word whose best pair is found by looking at all of them; longer words use a heap.
	maxScan = 48
)

// encoder is the scratch space of one goroutine. Its cache remembers the ids of recent short words that are not tokens.
type encoder struct {
	b     *BPE
	out   []int32
	unk   int32 // what a byte without a token becomes in this text
	cache []cacheSlot

	// State of merge: the symbols of the word and the rank of each with its right neighbour.
	syms  []int32
	ranks []uint32
	// For words above maxScan: neighbours as linked lists, and a heap of rank<<32 | position.
	prev, next []int32
	heap       []uint64
}

type cacheSlot struct {
	word shortWord
	n    int32
	ids  [maxCachedIDs]int32
}

func newEncoder(b *BPE) *encoder {
	return &encoder{b: b, unk: b.unk, cache: make([]cacheSlot, cacheSlots)}
}

// text appends the ids of a whole text to e.out.
func (e *encoder) text(text string, parseAdded bool) {
	b := e.b
	e.unk = b.unk
	before, after := b.before, b.after
	if !parseAdded {
		before, after = nil, nil
		if b.unk != NoToken && b.isAdded[b.unk] {
			e.unk = NoToken // an unknown token that is a control token must not come out of ordinary text
		}
	}
	token := func(id int32, _, _ int) { e.out = append(e.out, id) }
	before.split(text, func(start, end int) {
		gap := text[start:end]
		if b.spec.nfc {
			gap = normalize(gap)
		}
		after.split(gap, func(start, end int) { e.words(gap[start:end]) }, token)
	}, token)
}

// words appends the ids of text without added tokens.
func (e *encoder) words(text string) {
	for start := 0; start < len(text); {
		end := e.b.split.next(text, start)
		e.word(text, start, end)
		start = end
	}
}

// word appends the ids of the word text[start:end].
func (e *encoder) word(text string, start, end int) {
	if end-start <= maxShortWord {
		e.short(text, start, end)
		return
	}
	word := text[start:end]
	if id, ok := e.b.words.long[word]; ok {
		e.out = append(e.out, id)
	} else {
		e.merge(word)
	}
}

// short appends the ids of the word text[start:end] of at most maxShortWord bytes.
func (e *encoder) short(text string, start, end int) {
	w := shortWordAt(text, start, end)
	hash := w.hash()
	if id := e.b.words.find(w, hash); id != NoToken {
		e.out = append(e.out, id)
		return
	}
	slot := &e.cache[hash>>40&(cacheSlots-1)]
	if slot.word == w {
		e.out = append(e.out, slot.ids[:slot.n]...)
		return
	}
	from := len(e.out)
	if known := e.merge(text[start:end]); !known {
		return // its ids depend on e.unk
	}
	if ids := e.out[from:]; len(ids) <= maxCachedIDs {
		slot.word = w
		slot.n = int32(copy(slot.ids[:], ids))
	}
}

// merge appends the ids that BPE gives a word: starting from its bytes, the neighbouring pair of lowest rank, the leftmost of
// equals, is merged until no pair is left. It returns false if some byte has no token.
func (e *encoder) merge(word string) (known bool) {
	known = true
	e.syms = e.syms[:0]
	for i := range len(word) {
		id := e.b.byteIDs[word[i]]
		if id == NoToken {
			known = false
			if id = e.unk; id == NoToken {
				continue
			}
		}
		e.syms = append(e.syms, id)
	}
	if len(e.syms) <= maxScan {
		e.mergeByScan()
	} else {
		e.mergeByHeap()
	}
	return known
}

// mergeByScan merges e.syms in time quadratic in its length, which for words of text is the fastest.
func (e *encoder) mergeByScan() {
	syms, pairs := e.syms, &e.b.pairs
	ranks := e.ranks[:0]
	for i := range len(syms) - 1 {
		ranks = append(ranks, pairs.find(syms[i], syms[i+1]))
	}
	e.ranks = ranks
	for {
		best, at := noRank, 0
		for i, rank := range ranks {
			if rank < best {
				best, at = rank, i
			}
		}
		if best == noRank {
			break
		}
		syms[at] = e.b.products[best]
		syms = append(syms[:at+1], syms[at+2:]...)
		ranks = append(ranks[:at], ranks[at+1:]...)
		if at > 0 {
			ranks[at-1] = pairs.find(syms[at-1], syms[at])
		}
		if at < len(ranks) {
			ranks[at] = pairs.find(syms[at], syms[at+1])
		}
	}
	e.out = append(e.out, syms...)
}

// mergeByHeap merges e.syms in time n log n.
func (e *encoder) mergeByHeap() {
	syms, pairs := e.syms, &e.b.pairs
	n := len(syms)
	e.ranks, e.prev, e.next = resize(e.ranks, n), resize(e.prev, n), resize(e.next, n)
	ranks, prev, next := e.ranks, e.prev, e.next
	e.heap = e.heap[:0]
	// rate sets the rank of the pair that starts at i. A heap entry counts only while its rank is still the pair's.
	rate := func(i int32) {
		ranks[i] = noRank
		if j := next[i]; int(j) < n {
			if rank := pairs.find(syms[i], syms[j]); rank != noRank {
				ranks[i] = rank
				e.push(uint64(rank)<<32 | uint64(i))
			}
		}
	}
	for i := range n {
		prev[i], next[i] = int32(i)-1, int32(i)+1
	}
	for i := range n {
		rate(int32(i))
	}
	for len(e.heap) > 0 {
		top := e.pop()
		rank, i := uint32(top>>32), int32(uint32(top))
		if ranks[i] != rank {
			continue
		}
		j := next[i]
		syms[i] = e.b.products[rank]
		ranks[j] = noRank
		next[i] = next[j]
		if int(next[i]) < n {
			prev[next[i]] = i
		}
		rate(i)
		if prev[i] >= 0 {
			rate(prev[i])
		}
	}
	for i := int32(0); int(i) < n; i = next[i] {
		e.out = append(e.out, syms[i])
	}
}

// push adds an entry to the heap, smallest first.
func (e *encoder) push(x uint64) {
	h := append(e.heap, x)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent] <= x {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = x
	e.heap = h
}

// pop removes the smallest entry.
func (e *encoder) pop() uint64 {
	h := e.heap
	top, x := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	e.heap = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= x {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = x
	return top
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
