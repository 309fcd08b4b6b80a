package tokenizer

import (
	"container/heap"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Train learns a byte-level BPE tokenizer of exactly vocabSize tokens from texts: first the specials, then the 256 bytes, then
// one token per merge. Text is cut into words as Qwen2 does, after NFC. Each step merges the pair of neighbouring tokens that
// is most frequent in the texts, the one with the lowest ids of equals (Sennrich et al. 2016, algorithm 1), so the result
// depends on the texts only and equals that of Hugging Face's BpeTrainer with the byte alphabet as initial_alphabet.
//
// It is an error if vocabSize leaves no room for the bytes or the texts have too few different words to fill it. Time and
// memory grow with the number of different words.
func Train(texts iter.Seq[string], vocabSize int, specials []string) (*BPE, error) {
	s := spec{scheme: qwen2, nfc: true, vocab: map[string]int32{}}
	if need := len(specials) + 256; vocabSize < need || vocabSize > maxID+1 {
		return nil, fmt.Errorf("train tokenizer: vocabulary size %d: expected %d (256 bytes and %d specials) to %d", vocabSize, need, len(specials), maxID+1)
	}
	for _, token := range specials {
		if _, ok := s.vocab[token]; ok || token == "" {
			return nil, fmt.Errorf("train tokenizer: special token %q is empty or listed twice", token)
		}
		id := int32(len(s.vocab))
		s.vocab[token] = id
		s.added = append(s.added, AddedToken{ID: id, Content: token, Special: true})
	}
	alphabet := slices.Clone(byteToRune[:])
	slices.Sort(alphabet)
	for _, r := range alphabet {
		if _, ok := s.vocab[string(r)]; ok {
			return nil, fmt.Errorf("train tokenizer: special token %q is how the file spells a byte; use a longer one", string(r))
		}
		s.vocab[string(r)] = int32(len(s.vocab))
	}

	t := newTrainer(countWords(texts, s.scheme), s.vocab)
	for len(s.vocab) < vocabSize {
		pair, ok := t.best()
		if !ok {
			return nil, fmt.Errorf("train tokenizer: the texts give %d tokens, fewer than %d; use more text or a smaller vocabulary", len(s.vocab), vocabSize)
		}
		product := t.tokens[pair.left] + t.tokens[pair.right]
		id, ok := s.vocab[product] // two merges can make the same token
		if ok && int(id) < len(specials) {
			return nil, fmt.Errorf("train tokenizer: special token %q is also a word of the texts; use one that they cannot contain", product)
		}
		if !ok {
			id = int32(len(s.vocab))
			s.vocab[product] = id
			t.tokens = append(t.tokens, product)
		}
		s.merges = append(s.merges, [2]int32{pair.left, pair.right})
		t.merge(pair, id)
	}
	return build(s)
}

// countWords counts the words of all texts.
func countWords(texts iter.Seq[string], by scheme) map[string]int {
	split := splitter{by, classes()}
	counts := map[string]int{}
	for text := range texts {
		text = normalize(text)
		for start := 0; start < len(text); {
			end := split.next(text, start)
			counts[text[start:end]]++
			start = end
		}
	}
	return counts
}

type pair struct{ left, right int32 }

// trainer holds the words as ids and how often each pair of neighbours occurs in them.
type trainer struct {
	tokens []string // id → spelling
	words  []trainWord
	counts map[pair]int
	where  map[pair][]int32 // words that have or had the pair, in order of discovery
	queue  pairQueue
}

type trainWord struct {
	ids   []int32
	count int
}

func newTrainer(counts map[string]int, vocab map[string]int32) *trainer {
	t := &trainer{tokens: make([]string, len(vocab)), counts: map[pair]int{}, where: map[pair][]int32{}}
	for token, id := range vocab {
		t.tokens[id] = token
	}
	for n, word := range slices.Sorted(maps.Keys(counts)) {
		w := trainWord{count: counts[word]}
		for i := range len(word) {
			w.ids = append(w.ids, vocab[string(byteToRune[word[i]])])
		}
		for i := range len(w.ids) - 1 {
			t.add(pair{w.ids[i], w.ids[i+1]}, w.count, int32(n))
		}
		t.words = append(t.words, w)
	}
	for p, n := range t.counts {
		t.queue = append(t.queue, counted{p, n})
	}
	heap.Init(&t.queue)
	return t
}

// add counts a pair in a word; a negative count takes it away.
func (t *trainer) add(p pair, count int, word int32) {
	t.counts[p] += count
	if count < 0 {
		return
	}
	if seen := t.where[p]; len(seen) == 0 || seen[len(seen)-1] != word {
		t.where[p] = append(seen, word)
	}
}

// best takes the most frequent pair off the queue.
func (t *trainer) best() (pair, bool) {
	for len(t.queue) > 0 {
		top := heap.Pop(&t.queue).(counted)
		switch now := t.counts[top.pair]; {
		case now <= 0: // merged away
		case now != top.count: // counted before other merges changed it
			heap.Push(&t.queue, counted{top.pair, now})
		default:
			return top.pair, true
		}
	}
	return pair{}, false
}

// merge replaces a pair by id in all words, from left to right, and counts the neighbours anew.
func (t *trainer) merge(p pair, id int32) {
	places := t.where[p]
	delete(t.where, p)
	born := map[pair]bool{}
	for _, n := range places {
		w := &t.words[n]
		add := func(left, right int32, sign int) {
			q := pair{left, right}
			t.add(q, sign*w.count, n)
			if sign > 0 {
				born[q] = true
			}
		}
		kept := w.ids[:0]
		for i := 0; i < len(w.ids); i++ {
			if i+1 == len(w.ids) || w.ids[i] != p.left || w.ids[i+1] != p.right {
				kept = append(kept, w.ids[i])
				continue
			}
			if len(kept) > 0 {
				add(kept[len(kept)-1], p.left, -1)
				add(kept[len(kept)-1], id, +1)
			}
			if i+2 < len(w.ids) {
				add(p.right, w.ids[i+2], -1)
				add(id, w.ids[i+2], +1)
			}
			kept = append(kept, id)
			i++
		}
		w.ids = kept
	}
	delete(t.counts, p)
	for q := range born {
		if n := t.counts[q]; n > 0 {
			heap.Push(&t.queue, counted{q, n})
		}
	}
}

// pairQueue is a heap with the most frequent pair on top, the one with the lowest ids of equals.
type pairQueue []counted

type counted struct {
	pair  pair
	count int
}

func (q pairQueue) Len() int { return len(q) }
func (q pairQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.count != b.count {
		return a.count > b.count
	}
	if a.pair.left != b.pair.left {
		return a.pair.left < b.pair.left
	}
	return a.pair.right < b.pair.right
}
func (q pairQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *pairQueue) Push(x any)   { *q = append(*q, x.(counted)) }
func (q *pairQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
