package tokenizer

import (
	"fmt"
	"slices"
	"sync"
)

// maxID bounds the ids of a vocabulary, so that a hostile file cannot ask for memory it does not fill. The largest published
// vocabularies have about 260,000 tokens.
const maxID = 1<<22 - 1

// BPE is a byte-level BPE tokenizer. Make one with Load, ParseJSON, FromGGUF or Train; it never changes afterwards.
type BPE struct {
	spec    spec
	special Special

	addedIDs map[string]int32 // added tokens; all others are in spec.vocab
	tokens   []string         // id → spelling, "" for ids that do not exist
	raw      []byte           // bytes of all tokens, one after the other
	rawEnd   []uint32         // id → end of its bytes in raw
	isAdded  []bool           // id → is an added token
	hidden   []bool           // id → is dropped by DecodeSkipSpecial

	before, after *matcher // added tokens looked for before and after normalisation
	split         splitter
	byteIDs       [256]int32 // byte → id, NoToken where the vocabulary has no token for it
	unk           int32      // id for such bytes, or NoToken to drop them
	pairs         pairTable
	products      []int32 // rank → id that the merge makes
	words         wordTable

	encoders sync.Pool // of *encoder
}

// spec is everything that defines a tokenizer. Loaders fill one in, build makes the tables, WriteJSON writes it out.
type spec struct {
	scheme       scheme
	nfc          bool
	vocab        map[string]int32 // spelling in the byte alphabet → id
	merges       [][2]int32       // best first
	ignoreMerges bool             // a word that is a token is never built by merges
	unk          string           // spelling, "" for none
	added        []AddedToken     // by id
	roles        Roles
	prefix       []int32
	suffix       []int32
}

// matched returns the text that an added token is found by and decodes to.
func (s *spec) matched(a AddedToken) string {
	if a.Normalized && s.nfc {
		return normalize(a.Content)
	}
	return a.Content
}

// build checks s and makes the tables. Errors wrap ErrInvalid.
func build(s spec) (*BPE, error) {
	b := &BPE{spec: s, split: splitter{s.scheme, classes()}}
	b.encoders.New = func() any { return newEncoder(b) }
	if err := b.indexTokens(); err != nil {
		return nil, err
	}
	if err := b.indexAdded(); err != nil {
		return nil, err
	}
	if err := b.indexMerges(); err != nil {
		return nil, err
	}
	b.indexWords()
	return b, b.setRoles(s.roles)
}

func (b *BPE) indexTokens() error {
	size := int32(0)
	check := func(token string, id int32) error {
		switch {
		case token == "":
			return fmt.Errorf("%w: token %d is empty", ErrInvalid, id)
		case id < 0 || id > maxID:
			return fmt.Errorf("%w: token %q has id %d, expected 0 to %d", ErrInvalid, token, id, maxID)
		}
		size = max(size, id+1)
		return nil
	}
	for token, id := range b.spec.vocab {
		if err := check(token, id); err != nil {
			return err
		}
	}
	for _, a := range b.spec.added {
		if err := check(a.Content, a.ID); err != nil {
			return err
		}
	}
	if size == 0 {
		return fmt.Errorf("%w: the vocabulary is empty", ErrInvalid)
	}
	b.tokens = make([]string, size)
	b.addedIDs = make(map[string]int32, len(b.spec.added))
	for token, id := range b.spec.vocab {
		if other := b.tokens[id]; other != "" {
			return fmt.Errorf("%w: tokens %q and %q share id %d", ErrInvalid, min(token, other), max(token, other), id)
		}
		b.tokens[id] = token
	}
	for _, a := range b.spec.added {
		if id, ok := b.TokenID(a.Content); ok && id != a.ID {
			return fmt.Errorf("%w: added token %q has ids %d and %d", ErrInvalid, a.Content, id, a.ID)
		}
		if other := b.tokens[a.ID]; other != "" && other != a.Content {
			return fmt.Errorf("%w: added token %q has the id %d of token %q", ErrInvalid, a.Content, a.ID, other)
		}
		b.tokens[a.ID] = a.Content
		b.addedIDs[a.Content] = a.ID
	}

	b.rawEnd = make([]uint32, size)
	written := slices.Clone(b.tokens)
	for _, a := range b.spec.added {
		written[a.ID] = b.spec.matched(a)
	}
	for id, token := range written {
		b.raw = appendUnspelled(b.raw, token)
		b.rawEnd[id] = uint32(len(b.raw))
	}
	b.unk = NoToken
	if b.spec.unk != "" {
		id, ok := b.TokenID(b.spec.unk)
		if !ok {
			return fmt.Errorf("%w: the unknown token %q is not in the vocabulary", ErrInvalid, b.spec.unk)
		}
		b.unk = id
	}
	for c := range b.byteIDs {
		b.byteIDs[c] = NoToken
		if id, ok := b.spec.vocab[string(byteToRune[c])]; ok {
			b.byteIDs[c] = id
		}
	}
	return nil
}

func (b *BPE) indexAdded() error {
	b.isAdded = make([]bool, len(b.tokens))
	b.hidden = make([]bool, len(b.tokens))
	before, after := map[string]int32{}, map[string]int32{}
	for _, a := range b.spec.added {
		if b.isAdded[a.ID] {
			return fmt.Errorf("%w: added token %q (id %d) is listed twice", ErrInvalid, a.Content, a.ID)
		}
		b.isAdded[a.ID], b.hidden[a.ID] = true, a.Special
		if !a.Normalized {
			before[a.Content] = a.ID
			continue
		}
		content := b.spec.matched(a)
		if id, ok := after[content]; ok {
			return fmt.Errorf("%w: added tokens %d and %d are the same text %q once normalised", ErrInvalid, id, a.ID, content)
		}
		after[content] = a.ID
	}
	b.before, b.after = newMatcher(before), newMatcher(after)
	return nil
}

func (b *BPE) indexMerges() error {
	b.pairs = newPairTable(len(b.spec.merges))
	b.products = make([]int32, len(b.spec.merges))
	for rank, m := range b.spec.merges {
		left, right := b.tokens[m[0]], b.tokens[m[1]]
		id, ok := b.spec.vocab[left+right]
		if !ok {
			return fmt.Errorf("%w: merge %d makes %q, which is not in the vocabulary", ErrInvalid, rank, left+right)
		}
		if earlier, ok := b.pairs.insert(m[0], m[1], uint32(rank)); !ok {
			return fmt.Errorf("%w: merge %d repeats merge %d (%q, %q)", ErrInvalid, rank, earlier, left, right)
		}
		b.products[rank] = id
	}
	return nil
}

// indexWords collects the tokens that a whole word can become in one step: with ignore_merges every token, else those that the
// merges build from exactly their own bytes. Added tokens are left to the matchers.
func (b *BPE) indexWords() {
	b.words = newWordTable(len(b.tokens))
	e := newEncoder(b)
	for id, token := range b.tokens {
		if token == "" || b.isAdded[id] {
			continue
		}
		word := string(b.bytes(int32(id)))
		if !b.spec.ignoreMerges {
			e.out = e.out[:0]
			if e.merge(word); len(e.out) != 1 || e.out[0] != int32(id) {
				continue
			}
		} else if spell(word) != token { // not in the byte alphabet: no text is spelled like this
			continue
		}
		b.words.insert(word, int32(id))
	}
}

// setRoles resolves the names in r and checks the ids that the file puts around a text.
func (b *BPE) setRoles(r Roles) error {
	b.spec.roles = r
	b.special = Special{Prefix: b.spec.prefix, Suffix: b.spec.suffix}
	for _, id := range slices.Concat(b.special.Prefix, b.special.Suffix) {
		if _, ok := b.Token(id); !ok {
			return fmt.Errorf("%w: the post-processor adds id %d, which is not in the vocabulary", ErrInvalid, id)
		}
	}
	for _, role := range []struct {
		name, token string
		id          *int32
	}{
		{"bos_token", r.BOS, &b.special.BOS}, {"eos_token", r.EOS, &b.special.EOS},
		{"pad_token", r.PAD, &b.special.PAD}, {"unk_token", r.UNK, &b.special.UNK},
	} {
		*role.id = NoToken
		if role.token == "" {
			continue
		}
		id, ok := b.TokenID(role.token)
		if !ok {
			return fmt.Errorf("%w: %s %q is not in the vocabulary", ErrInvalid, role.name, role.token)
		}
		*role.id = id
	}
	return nil
}

// WithRoles returns a tokenizer that differs from b in the tokens' roles only.
func (b *BPE) WithRoles(r Roles) (*BPE, error) {
	s := b.spec
	s.roles = r
	return build(s)
}

// TokenID implements [Tokenizer].
func (b *BPE) TokenID(token string) (int32, bool) {
	if id, ok := b.addedIDs[token]; ok {
		return id, true
	}
	id, ok := b.spec.vocab[token]
	return id, ok
}

// Token returns the spelling of an id in the tokenizer file: "Ġthe" for " the".
func (b *BPE) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(b.tokens) || b.tokens[id] == "" {
		return "", false
	}
	return b.tokens[id], true
}

// TokenBytes returns the bytes that an id decodes to, perhaps only a part of a character; nil if there is no such id. Do not
// change them.
func (b *BPE) TokenBytes(id int32) []byte {
	if _, ok := b.Token(id); !ok {
		return nil
	}
	return b.bytes(id)
}

// bytes is TokenBytes for an id within the vocabulary.
func (b *BPE) bytes(id int32) []byte {
	start := uint32(0)
	if id > 0 {
		start = b.rawEnd[id-1]
	}
	return b.raw[start:b.rawEnd[id]:b.rawEnd[id]]
}

// VocabSize implements [Tokenizer].
func (b *BPE) VocabSize() int { return len(b.tokens) }

// Special returns the ids with a role.
func (b *BPE) Special() Special {
	s := b.special
	s.Prefix, s.Suffix = slices.Clone(s.Prefix), slices.Clone(s.Suffix)
	return s
}

// AddedTokens returns the added tokens by id.
func (b *BPE) AddedTokens() []AddedToken { return slices.Clone(b.spec.added) }

// IsSpecial tells whether DecodeSkipSpecial drops the id.
func (b *BPE) IsSpecial(id int32) bool { return id >= 0 && int(id) < len(b.hidden) && b.hidden[id] }

// MissingBytes returns the bytes that no token stands for. Most vocabularies have none; SmolLM2 lacks 21, some of which can
// occur in text (control characters, U+40000 to U+BFFFF). Such bytes become the model's unknown token if it has one and are
// dropped otherwise, as in the reference.
func (b *BPE) MissingBytes() []byte {
	var missing []byte
	for c, id := range b.byteIDs {
		if id == NoToken {
			missing = append(missing, byte(c))
		}
	}
	return missing
}
