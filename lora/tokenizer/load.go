package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// File names of a Hugging Face model folder.
const (
	tokenizerFile = "tokenizer.json"
	configFile    = "tokenizer_config.json"
)

// Load reads the tokenizer of a Hugging Face model folder: tokenizer.json and, if it is there, tokenizer_config.json. Errors
// name the file and the part of it, and wrap ErrInvalid, ErrUnsupported or the file system's error.
func Load(dir string) (*BPE, error) {
	path := filepath.Join(dir, tokenizerFile)
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	s, err := parseSpec(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	configPath := filepath.Join(dir, configFile)
	switch config, err := os.ReadFile(configPath); {
	case err == nil:
		if err := applyConfig(&s, config); err != nil {
			return nil, fmt.Errorf("%s: %w", configPath, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	b, err := build(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// ParseJSON makes a tokenizer of the content of a tokenizer.json (Hugging Face tokenizers, version 1.0). Errors are as in Load.
func ParseJSON(file []byte) (*BPE, error) {
	s, err := parseSpec(file)
	if err != nil {
		return nil, err
	}
	return build(s)
}

// The layout of tokenizer.json around a model of type M. Fields that are not listed are refused.
type fileJSON[M any] struct {
	Version       string          `json:"version"`
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []addedJSON     `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         M               `json:"model"`
}

type addedJSON struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type modelJSON struct {
	Type                    string    `json:"type"`
	Dropout                 *float64  `json:"dropout"`
	UnkToken                *string   `json:"unk_token"`
	ContinuingSubwordPrefix *string   `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string   `json:"end_of_word_suffix"`
	FuseUnk                 bool      `json:"fuse_unk"`
	ByteFallback            bool      `json:"byte_fallback"`
	IgnoreMerges            bool      `json:"ignore_merges"`
	Vocab                   vocabJSON `json:"vocab"`
	Merges                  mergeJSON `json:"merges"`
}

func parseSpec(file []byte) (spec, error) {
	var f fileJSON[modelJSON]
	if err := parseFile(file, &f); err != nil {
		// Of another kind of model, name the kind and not the first key that BPE does not have.
		var other struct{ Model struct{ Type string } }
		if json.Unmarshal(file, &other) == nil && other.Model.Type != "" && other.Model.Type != "BPE" {
			return spec{}, unsupported("model: type", other.Model.Type, "BPE")
		}
		return spec{}, err
	}
	s, err := f.Model.spec()
	if err != nil {
		return s, fmt.Errorf("model: %w", err)
	}
	if s.nfc, err = parseNormalizer(f.Normalizer); err != nil {
		return s, fmt.Errorf("normalizer: %w", err)
	}
	if s.scheme, err = parsePreTokenizer(f.PreTokenizer); err != nil {
		return s, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if err = parseDecoder(f.Decoder); err != nil {
		return s, fmt.Errorf("decoder: %w", err)
	}
	if s.prefix, s.suffix, err = parsePostProcessor(f.PostProcessor); err != nil {
		return s, fmt.Errorf("post_processor: %w", err)
	}
	if s.added, err = parseAdded(f.AddedTokens, s.vocab); err != nil {
		return s, fmt.Errorf("added_tokens: %w", err)
	}
	return s, nil
}

// parseFile reads a tokenizer.json and checks the parts that are the same for every model.
func parseFile[M any](file []byte, f *fileJSON[M]) error {
	if at := invalidUTF8(file); at >= 0 {
		return fmt.Errorf("%w: byte %d is not UTF-8", ErrInvalid, at)
	}
	if err := strictJSON(file, f); err != nil {
		return err
	}
	if f.Version != "1.0" {
		return unsupported("version", f.Version, "1.0")
	}
	// The reference would cut or pad every text. transformers clears both, so ids of models do not depend on them.
	for _, part := range []struct {
		key string
		raw json.RawMessage
	}{{"truncation", f.Truncation}, {"padding", f.Padding}} {
		if !isNull(part.raw) {
			return fmt.Errorf("%s: %w: expected null; set it to null in the file, sequences are cut and padded elsewhere", part.key, ErrUnsupported)
		}
	}
	return nil
}

func (m *modelJSON) spec() (spec, error) {
	s := spec{vocab: m.Vocab.ids, ignoreMerges: m.IgnoreMerges}
	if m.UnkToken != nil {
		s.unk = *m.UnkToken
	}
	empty := func(s *string) bool { return s == nil || *s == "" }
	switch {
	case m.Type != "BPE":
		return s, unsupported("type", m.Type, "BPE")
	case m.Dropout != nil && *m.Dropout != 0:
		return s, unsupported("dropout", *m.Dropout, "null")
	case !empty(m.ContinuingSubwordPrefix):
		return s, unsupported("continuing_subword_prefix", *m.ContinuingSubwordPrefix, `"" or null`)
	case !empty(m.EndOfWordSuffix):
		return s, unsupported("end_of_word_suffix", *m.EndOfWordSuffix, `"" or null`)
	case m.FuseUnk:
		return s, unsupported("fuse_unk", true, "false")
	case m.ByteFallback:
		return s, unsupported("byte_fallback", true, "false")
	case s.vocab == nil:
		return s, fmt.Errorf("vocab: %w: missing", ErrInvalid)
	}
	s.merges = make([][2]int32, len(m.Merges.pairs))
	for rank, pair := range m.Merges.pairs {
		for side, token := range pair {
			id, ok := s.vocab[token]
			if !ok {
				return s, fmt.Errorf("merges: %w: merge %d (%q, %q): %q is not in the vocabulary", ErrInvalid, rank, pair[0], pair[1], token)
			}
			s.merges[rank][side] = id
		}
	}
	return s, nil
}

// parseAdded checks the added tokens and returns them by id. The reference numbers a token that is not in the model's
// vocabulary itself, after all others; an id that disagrees would be silently changed there and is refused here.
func parseAdded(list []addedJSON, vocab map[string]int32) ([]AddedToken, error) {
	var added []AddedToken
	seen := map[string]bool{}
	highest := int32(-1)
	for i, a := range list {
		name := fmt.Sprintf("[%d] %q", i, a.Content)
		switch {
		case a.SingleWord:
			return nil, unsupported(name+": single_word", true, "false")
		case a.LStrip:
			return nil, unsupported(name+": lstrip", true, "false")
		case a.RStrip:
			return nil, unsupported(name+": rstrip", true, "false")
		case seen[a.Content]:
			return nil, fmt.Errorf("%s: %w: listed twice", name, ErrInvalid)
		}
		seen[a.Content] = true
		id, ok := vocab[a.Content]
		if !ok {
			id = max(int32(len(vocab)), highest+1)
		}
		if a.ID != id {
			return nil, fmt.Errorf("%s: %w: has id %d, expected %d", name, ErrInvalid, a.ID, id)
		}
		highest = max(highest, id)
		added = append(added, AddedToken{ID: a.ID, Content: a.Content, Special: a.Special, Normalized: a.Normalized})
	}
	slices.SortFunc(added, func(a, b AddedToken) int { return int(a.ID) - int(b.ID) })
	return added, nil
}

// strictJSON decodes the whole of raw into v and refuses unknown fields. Errors wrap ErrUnsupported for those, else ErrInvalid.
func strictJSON(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		text := strings.TrimPrefix(err.Error(), "json: ")
		if strings.HasPrefix(text, "unknown field") {
			return fmt.Errorf("%w: %s", ErrUnsupported, text)
		}
		return fmt.Errorf("%w: %s", ErrInvalid, text)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: more text after the JSON value, at byte %d", ErrInvalid, d.InputOffset())
	}
	return nil
}

// invalidUTF8 returns the position of the first byte of data that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; ; {
		r, w := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && w <= 1 {
			return i
		}
		i += w
	}
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// unsupported says that a value of the file is known and not handled.
func unsupported(what string, got any, want string) error {
	return fmt.Errorf("%s: %w: got %v, expected %s", what, ErrUnsupported, quoted(got), want)
}

func quoted(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v)
}
