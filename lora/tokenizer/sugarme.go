package tokenizer

import (
	"fmt"

	sugar "github.com/sugarme/tokenizer"
	"github.com/sugarme/tokenizer/normalizer"
	"golang.org/x/text/unicode/norm"
)

// Sugarme gives text as github.com/sugarme/tokenizer's Encoding: ids with tokens, offsets, word numbers and masks. Its models run
// inside that package's pipeline; added tokens, normalisation and the cutting into words are done here, because that package's
// own do not give the reference's ids (v0.3.0). For byte-level BPE, BPE is about ten times as fast.
//
// It is safe for concurrent use.
type Sugarme struct {
	model sugar.Model
	// words cuts a text into words and added tokens, in order.
	words func(text string) []piece
	// width returns how many bytes a token covers of the rest of its word.
	width   func(id int, token, rest string, first bool) int
	special map[int]bool
}

// piece is a word or an added token of a text.
type piece struct {
	text  string // a word after normalisation
	added int32  // the id of an added token, or NoToken
	from  []span // of each byte of text: the bytes of the original text that it comes from
}

type span struct{ start, end int }

// NewSugarme wraps b. Encode then gives the ids of b.Encode.
func NewSugarme(b *BPE) *Sugarme {
	s := &Sugarme{model: sugarModel{b}, words: b.pieces, special: map[int]bool{}}
	s.width = b.width
	for _, a := range b.spec.added {
		s.special[int(a.ID)] = a.Special
	}
	return s
}

// Encode returns the encoding of text, added tokens parsed and none put around it. Offsets are byte positions in text; where
// normalisation changed the text they are those of the whole characters that a token comes from. Text that is not UTF-8 is an
// error.
func (s *Sugarme) Encode(text string) (enc *sugar.Encoding, err error) {
	if at := invalidUTF8([]byte(text)); at >= 0 {
		return nil, fmt.Errorf("sugarme: byte %d of the text is not UTF-8", at)
	}
	defer func() {
		if p := recover(); p != nil {
			enc, err = nil, fmt.Errorf("sugarme: the library failed: %v", p)
		}
	}()
	pieces := s.words(text)
	t := sugar.NewTokenizer(s.model)
	t.WithPreTokenizer(presplit{s.model, pieces})
	if enc, err = t.EncodeSingle(text); err != nil {
		return nil, fmt.Errorf("sugarme: %w", err)
	}
	// The library's offsets are relative to a word and know nothing of normalisation.
	word, at := -1, 0
	for i, id := range enc.Ids {
		if enc.Words[i] != word {
			word, at = enc.Words[i], 0
		}
		p := pieces[word]
		end := len(p.text)
		if p.added == NoToken {
			end = at + s.width(id, enc.Tokens[i], p.text[at:], at == 0)
		}
		enc.Offsets[i] = []int{p.from[at].start, p.from[end-1].end}
		at = end
		if s.special[id] && p.added != NoToken {
			enc.SpecialTokenMask[i] = 1
		}
	}
	return enc, nil
}

// presplit is a pre-tokenizer that hands over words which are known already.
type presplit struct {
	model  sugar.Model
	pieces []piece
}

// PreTokenize implements sugar.PreTokenizer.
func (p presplit) PreTokenize(text *sugar.PreTokenizedString) (*sugar.PreTokenizedString, error) {
	return text.Split(func(int, *normalizer.NormalizedString) []sugar.SplitIdx {
		splits := make([]sugar.SplitIdx, len(p.pieces))
		for i, piece := range p.pieces {
			splits[i].Normalized = normalizer.NewNormalizedFrom(piece.text)
			if piece.added != NoToken {
				token, _ := p.model.IdToToken(int(piece.added))
				splits[i].Tokens = []sugar.Token{{Id: int(piece.added), Value: token, Offsets: []int{0, len(piece.text)}}}
			}
		}
		return splits
	}), nil
}

// pieces cuts text as Encode does.
func (b *BPE) pieces(text string) []piece {
	var out []piece
	b.before.split(text, func(start, end int) {
		gap, from := text[start:end], spans(start, end)
		if b.spec.nfc {
			gap, from = normalizeSpans(gap, start)
		}
		b.after.split(gap, func(start, end int) {
			for start < end {
				next := b.split.next(gap[:end], start)
				if word := gap[start:next]; !b.vanishes(word) {
					out = append(out, piece{word, NoToken, from[start:next]})
				}
				start = next
			}
		}, func(id int32, start, end int) {
			out = append(out, piece{gap[start:end], id, from[start:end]})
		})
	}, func(id int32, start, end int) {
		out = append(out, piece{text[start:end], id, spans(start, end)})
	})
	return out
}

// vanishes tells whether a word has no tokens at all: every byte is missing from the vocabulary and there is no unknown token.
func (b *BPE) vanishes(word string) bool {
	for i := range len(word) {
		if b.unk != NoToken || b.byteIDs[word[i]] != NoToken {
			return false
		}
	}
	return true
}

// width is Sugarme.width for BPE: as many bytes as the token has, and those that no token stands for.
func (b *BPE) width(id int, _, rest string, _ bool) int {
	left := len(b.bytes(int32(id)))
	if b.unk != NoToken {
		if b.byteIDs[rest[0]] == NoToken {
			return 1 // the unknown token, for one byte
		}
		return left
	}
	for i := range len(rest) {
		if b.byteIDs[rest[i]] != NoToken {
			if left == 0 {
				return i
			}
			left--
		}
	}
	return len(rest)
}

// spans returns the spans of bytes that are in the original as they are.
func spans(start, end int) []span {
	out := make([]span, end-start)
	for i := range out {
		out[i] = span{start + i, start + i + 1}
	}
	return out
}

// normalizeSpans normalises text, which starts at byte base of the original, and says where each byte of the result comes from.
func normalizeSpans(text string, base int) (string, []span) {
	normal := normalize(text)
	if normal == text {
		return text, spans(base, base+len(text))
	}
	var from []span
	joined := ""
	for i := 0; i < len(text); {
		n := norm.NFC.NextBoundaryInString(text[i:], true)
		part := normalize(text[i : i+n])
		joined += part
		for range len(part) {
			from = append(from, span{base + i, base + i + n})
		}
		i += n
	}
	if joined == normal {
		return normal, from
	}
	// A run of marks too long for x/text's borders: every byte comes from the whole text.
	from = make([]span, len(normal))
	for i := range from {
		from[i] = span{base, base + len(text)}
	}
	return normal, from
}

// sugarModel is the merging half of a BPE as a model of the library.
type sugarModel struct{ b *BPE }

// Tokenize implements sugar.Model for one word.
func (m sugarModel) Tokenize(word string) ([]sugar.Token, error) {
	e := m.b.encoders.Get().(*encoder)
	defer m.b.encoders.Put(e)
	e.out, e.unk = e.out[:0], m.b.unk
	if word != "" {
		e.word(word, 0, len(word))
	}
	tokens := make([]sugar.Token, len(e.out))
	at := 0
	for i, id := range e.out {
		end := min(at+len(m.b.bytes(id)), len(word))
		tokens[i] = sugar.Token{Id: int(id), Value: m.b.tokens[id], Offsets: []int{at, end}}
		at = end
	}
	return tokens, nil
}

// TokenToId implements sugar.Model.
func (m sugarModel) TokenToId(token string) (int, bool) {
	id, ok := m.b.TokenID(token)
	return int(id), ok
}

// IdToToken implements sugar.Model.
func (m sugarModel) IdToToken(id int) (string, bool) {
	if id < 0 || id > maxID {
		return "", false
	}
	return m.b.Token(int32(id))
}

// GetVocab implements sugar.Model.
func (m sugarModel) GetVocab() map[string]int {
	vocab := make(map[string]int, len(m.b.tokens))
	for id, token := range m.b.tokens {
		if token != "" {
			vocab[token] = id
		}
	}
	return vocab
}

// GetVocabSize implements sugar.Model.
func (m sugarModel) GetVocabSize() int { return m.b.VocabSize() }

// Save implements sugar.Model.
func (m sugarModel) Save(dir string, _ ...string) error { return m.b.Save(dir) }
