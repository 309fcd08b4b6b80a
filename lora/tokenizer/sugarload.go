package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	sugar "github.com/sugarme/tokenizer"
	sugarmodel "github.com/sugarme/tokenizer/model"
	"github.com/sugarme/tokenizer/model/unigram"
	"github.com/sugarme/tokenizer/model/wordpiece"
)

// maxUnigramToken is the longest token, in bytes, that the library's Unigram model looks for.
const maxUnigramToken = 20

// LoadSugarme loads a tokenizer.json with a WordPiece or a Unigram model, for encoding only. The pre-tokenizer must be
// BertPreTokenizer or Metaspace, the normalizer BertNormalizer or none; anything else, and whatever makes the library's model
// differ from the reference, is refused with ErrUnsupported. Byte-level BPE is loaded with Load and wrapped with NewSugarme.
//
// BertNormalizer and BertPreTokenizer agree with the reference on characters up to Unicode 8, where its tables for them end.
func LoadSugarme(path string) (*Sugarme, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	s, err := parseSugarme(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func parseSugarme(file []byte) (*Sugarme, error) {
	var f fileJSON[json.RawMessage]
	if err := parseFile(file, &f); err != nil {
		return nil, err
	}
	if isNull(f.Model) {
		return nil, fmt.Errorf("model: %w: missing", ErrInvalid)
	}
	typ, err := kind(f.Model)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	s := &Sugarme{}
	switch typ {
	case "WordPiece":
		err = s.wordPiece(f.Model)
	case "Unigram":
		err = s.unigram(f.Model)
	case "BPE":
		return nil, fmt.Errorf("model: %w: got BPE, which Load and NewSugarme handle", ErrUnsupported)
	default:
		return nil, unsupported("model: type", typ, "WordPiece or Unigram")
	}
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", typ, err)
	}
	if _, _, err := parsePostProcessor(f.PostProcessor); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if !isNull(f.Decoder) {
		if typ, err := kind(f.Decoder); err != nil || typ != "WordPiece" && typ != "Metaspace" {
			return nil, unsupported("decoder: type", typ, "WordPiece or Metaspace")
		}
	}
	return s, s.front(&f)
}

// front sets how a text becomes words.
func (s *Sugarme) front(f *fileJSON[json.RawMessage]) error {
	clean, err := parseBertNormalizer(f.Normalizer)
	if err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	split, err := parseWordSplit(f.PreTokenizer)
	if err != nil {
		return fmt.Errorf("pre_tokenizer: %w", err)
	}
	vocab := map[string]int32{}
	for token, id := range s.model.GetVocab() {
		vocab[token] = int32(id)
	}
	added, err := parseAdded(f.AddedTokens, vocab)
	if err != nil {
		return fmt.Errorf("added_tokens: %w", err)
	}
	before := map[string]int32{}
	s.special = map[int]bool{}
	for _, a := range added {
		switch {
		case a.Normalized:
			return fmt.Errorf("added_tokens: %q: %w", a.Content, unsupported("normalized", true, "false"))
		case a.Content == "":
			return fmt.Errorf("added_tokens: %w: token %d is empty", ErrInvalid, a.ID)
		}
		if _, ok := vocab[a.Content]; !ok {
			return fmt.Errorf("added_tokens: %w: %q is not in the model's vocabulary", ErrUnsupported, a.Content)
		}
		before[a.Content] = a.ID
		s.special[int(a.ID)] = a.Special
	}
	markers := newMatcher(before)
	s.words = func(text string) []piece {
		var out []piece
		markers.split(text, func(start, end int) {
			chars := make([]bertChar, 0, end-start)
			for i, r := range text[start:end] {
				w := len(string(r))
				chars = append(chars, bertChar{r, span{start + i, start + i + w}})
			}
			for _, word := range split(clean(chars), start == 0) {
				out = append(out, newPiece(word))
			}
		}, func(id int32, start, end int) {
			out = append(out, piece{text[start:end], id, spans(start, end)})
		})
		return out
	}
	return nil
}

// newPiece joins the characters of a word.
func newPiece(word []bertChar) piece {
	var text strings.Builder
	p := piece{added: NoToken}
	for _, c := range word {
		text.WriteRune(c.r)
		for len(p.from) < text.Len() {
			p.from = append(p.from, c.from)
		}
	}
	p.text = text.String()
	return p
}

func (s *Sugarme) wordPiece(raw json.RawMessage) error {
	var m struct {
		Type      string    `json:"type"`
		Unk       string    `json:"unk_token"`
		Prefix    string    `json:"continuing_subword_prefix"`
		MaxLength int       `json:"max_input_chars_per_word"`
		Vocab     vocabJSON `json:"vocab"`
	}
	if err := strictJSON(raw, &m); err != nil {
		return err
	}
	if _, ok := m.Vocab.ids[m.Unk]; !ok {
		return fmt.Errorf("unk_token: %w: %q is not in the vocabulary", ErrInvalid, m.Unk)
	}
	if m.MaxLength <= 0 {
		return fmt.Errorf("max_input_chars_per_word: %w: got %d, expected at least 1", ErrInvalid, m.MaxLength)
	}
	vocab := sugarmodel.Vocab{}
	for token, id := range m.Vocab.ids {
		if id < 0 || id > maxID {
			return fmt.Errorf("vocab: %w: %q has id %d, expected 0 to %d", ErrInvalid, token, id, maxID)
		}
		vocab[token] = int(id)
	}
	model := wordpiece.NewWordPieceBuilder().Vocab(&vocab).UnkToken(m.Unk).
		ContinuingSubwordPrefix(m.Prefix).MaxInputCharsPerWord(m.MaxLength).Build()
	s.model = model
	s.width = func(_ int, token, rest string, first bool) int {
		switch {
		case first && strings.HasPrefix(rest, token): // also a word that is spelled like the unknown token
			return len(token)
		case first:
			return len(rest) // unknown, as a whole
		}
		return len(token) - len(m.Prefix)
	}
	return nil
}

func (s *Sugarme) unigram(raw json.RawMessage) error {
	var m struct {
		Type         string            `json:"type"`
		Unk          *int              `json:"unk_id"`
		ByteFallback bool              `json:"byte_fallback"`
		Vocab        []json.RawMessage `json:"vocab"`
	}
	if err := strictJSON(raw, &m); err != nil {
		return err
	}
	switch {
	case m.ByteFallback:
		return unsupported("byte_fallback", true, "false")
	case m.Unk == nil:
		return unsupported("unk_id", "null", "an id")
	case *m.Unk < 0 || *m.Unk >= len(m.Vocab):
		return fmt.Errorf("unk_id: %w: %d is not in the vocabulary (%d tokens)", ErrInvalid, *m.Unk, len(m.Vocab))
	}
	vocab := make([]unigram.TokenScore, len(m.Vocab))
	for id, entry := range m.Vocab {
		at := fmt.Sprintf("vocab[%d]", id)
		pair := []any{new(string), new(float64)}
		if err := json.Unmarshal(entry, &pair); err != nil || len(pair) != 2 || pair[0] == nil || pair[1] == nil {
			return fmt.Errorf("%s: %w: expected [token, score], got %s", at, ErrInvalid, entry)
		}
		vocab[id] = unigram.TokenScore{Token: *pair[0].(*string), Score: *pair[1].(*float64)}
		if len(vocab[id].Token) > maxUnigramToken && id != *m.Unk {
			return unsupported(at, vocab[id].Token, fmt.Sprintf("at most %d bytes, the longest that sugarme's Unigram finds", maxUnigramToken))
		}
	}
	model, err := unigram.NewUnigramBuilder().Vocab(vocab).UnkID(*m.Unk).Build()
	if err != nil {
		return fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	s.model = model
	s.width = func(_ int, token, _ string, _ bool) int { return len(token) } // it names a token by the text that it covers
	return nil
}

// Both models satisfy the library's interface.
var (
	_ sugar.Model = wordpiece.WordPiece{}
	_ sugar.Model = (*unigram.Unigram)(nil)
)
