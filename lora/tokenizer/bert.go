package tokenizer

import (
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The parts of WordPiece and Unigram pipelines that come before the model, on characters that know where they come from.

// bertChar is a character of a normalised text and the bytes of the original that it stands for.
type bertChar struct {
	r    rune
	from span
}

type bertNormalizerJSON struct {
	Type          string `json:"type"`
	CleanText     bool   `json:"clean_text"`
	ChineseChars  bool   `json:"handle_chinese_chars"`
	StripAccents  *bool  `json:"strip_accents"` // null: as lowercase
	LowercaseText bool   `json:"lowercase"`
}

// parseBertNormalizer returns the normalisation of BERT (Devlin et al. 2019, tokenization.py), or none for null.
func parseBertNormalizer(raw json.RawMessage) (func([]bertChar) []bertChar, error) {
	if isNull(raw) {
		return func(chars []bertChar) []bertChar { return chars }, nil
	}
	typ, err := kind(raw)
	if err != nil {
		return nil, err
	}
	if typ != "BertNormalizer" {
		return nil, unsupported("type", typ, "BertNormalizer or null")
	}
	var c bertNormalizerJSON
	if err := strictJSON(raw, &c); err != nil {
		return nil, fmt.Errorf("BertNormalizer: %w", err)
	}
	strip := c.LowercaseText
	if c.StripAccents != nil {
		strip = *c.StripAccents
	}
	return func(chars []bertChar) []bertChar {
		var out []bertChar
		for _, ch := range chars {
			if c.CleanText {
				switch {
				case ch.r == 0 || ch.r == utf8.RuneError || isControl(ch.r):
					continue
				case unicode.IsSpace(ch.r):
					ch.r = ' '
				}
			}
			if chinese := c.ChineseChars && isChinese(ch.r); chinese {
				out = append(out, bertChar{' ', ch.from}, ch, bertChar{' ', ch.from})
			} else {
				out = append(out, ch)
			}
		}
		if strip {
			out = mapChars(out, func(r rune) []rune {
				var kept []rune
				for _, r := range norm.NFD.String(string(r)) {
					if !unicode.Is(unicode.Mn, r) {
						kept = append(kept, r)
					}
				}
				return kept
			})
		}
		if c.LowercaseText {
			out = mapChars(out, func(r rune) []rune {
				if r == 'İ' { // the one letter whose lower case is two characters
					return []rune{'i', '\u0307'}
				}
				return []rune{unicode.ToLower(r)}
			})
		}
		return out
	}, nil
}

func mapChars(chars []bertChar, f func(rune) []rune) []bertChar {
	out := make([]bertChar, 0, len(chars))
	for _, c := range chars {
		for _, r := range f(c.r) {
			out = append(out, bertChar{r, c.from})
		}
	}
	return out
}

func isControl(r rune) bool {
	return r != '\t' && r != '\n' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co)
}

// isChinese tells CJK ideographs by block, with the gap before U+2B920 that BERT's own code has.
func isChinese(r rune) bool {
	for _, block := range [][2]rune{{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
		{0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}} {
		if r >= block[0] && r <= block[1] {
			return true
		}
	}
	return false
}

// parseWordSplit returns how characters become words; first tells whether they start the text.
func parseWordSplit(raw json.RawMessage) (func(chars []bertChar, first bool) [][]bertChar, error) {
	if isNull(raw) {
		return nil, fmt.Errorf("%w: got null, expected BertPreTokenizer or Metaspace", ErrUnsupported)
	}
	typ, err := kind(raw)
	if err != nil {
		return nil, err
	}
	switch typ {
	case "BertPreTokenizer":
		if err := strictJSON(raw, &struct {
			Type string `json:"type"`
		}{}); err != nil {
			return nil, fmt.Errorf("%s: %w", typ, err)
		}
		return func(chars []bertChar, _ bool) [][]bertChar { return splitBert(chars) }, nil
	case "Metaspace":
		split, err := parseMetaspace(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", typ, err)
		}
		return split, nil
	}
	return nil, unsupported("type", typ, "BertPreTokenizer or Metaspace")
}

// splitBert drops whitespace and takes every punctuation mark for a word.
func splitBert(chars []bertChar) [][]bertChar {
	var words [][]bertChar
	open := false
	for i, c := range chars {
		switch {
		case unicode.IsSpace(c.r):
			open = false
		case isPunctuation(c.r) || !open:
			words = append(words, chars[i:i+1])
			open = !isPunctuation(c.r)
		default:
			last := len(words) - 1
			words[last] = words[last][:len(words[last])+1]
		}
	}
	return words
}

// isPunctuation is Unicode's notion and every ASCII symbol ($, +, …).
func isPunctuation(r rune) bool {
	return unicode.IsPunct(r) || r < utf8.RuneSelf && unicode.IsSymbol(r)
}

// parseMetaspace returns the split of SentencePiece models: spaces become a visible mark that starts a word.
func parseMetaspace(raw json.RawMessage) (func([]bertChar, bool) [][]bertChar, error) {
	var c struct {
		Type    string `json:"type"`
		Mark    string `json:"replacement"`
		Prepend string `json:"prepend_scheme"`
		Split   *bool  `json:"split"`
	}
	if err := strictJSON(raw, &c); err != nil {
		return nil, err
	}
	mark, w := utf8.DecodeRuneInString(c.Mark)
	switch {
	case w == 0 || w != len(c.Mark):
		return nil, unsupported("replacement", c.Mark, "one character")
	case c.Prepend != "always" && c.Prepend != "first" && c.Prepend != "never":
		return nil, unsupported("prepend_scheme", c.Prepend, "always, first or never")
	case c.Split != nil && !*c.Split:
		return nil, unsupported("split", false, "true")
	}
	return func(chars []bertChar, first bool) [][]bertChar {
		for i := range chars {
			if chars[i].r == ' ' {
				chars[i].r = mark
			}
		}
		prepend := c.Prepend == "always" || c.Prepend == "first" && first
		if prepend && len(chars) > 0 && chars[0].r != mark {
			chars = append([]bertChar{{mark, chars[0].from}}, chars...)
		}
		var words [][]bertChar
		for start := 0; start < len(chars); {
			end := start + 1
			for end < len(chars) && chars[end].r != mark {
				end++
			}
			words = append(words, chars[start:end])
			start = end
		}
		return words
	}, nil
}
