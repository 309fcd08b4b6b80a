package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// Decode implements [Tokenizer].
func (b *BPE) Decode(ids []int32) (string, error) { return b.decode(ids, false) }

// DecodeSkipSpecial is Decode without the special tokens.
func (b *BPE) DecodeSkipSpecial(ids []int32) (string, error) { return b.decode(ids, true) }

func (b *BPE) decode(ids []int32, skipSpecial bool) (string, error) {
	var raw []byte
	for i, id := range ids {
		if _, ok := b.Token(id); !ok {
			return "", fmt.Errorf("decode: position %d of %d: %w: %d, expected 0 to %d", i, len(ids), ErrUnknownID, id, len(b.tokens)-1)
		}
		if skipSpecial && b.hidden[id] {
			continue
		}
		raw = append(raw, b.bytes(id)...)
	}
	if utf8.Valid(raw) {
		return string(raw), nil
	}
	text, rest := appendValid(make([]byte, 0, len(raw)+8), raw)
	if len(rest) > 0 {
		text = utf8.AppendRune(text, utf8.RuneError)
	}
	return string(text), nil
}

// appendValid appends raw with each maximal ill-formed part replaced by one U+FFFD, as the Unicode Standard (3.9, "U+FFFD
// Substitution of Maximal Subparts") and the reference do. An unfinished character at the end, of at most 3 bytes, is returned
// and not appended.
func appendValid(dst, raw []byte) (text, rest []byte) {
	for len(raw) > 0 {
		if r, w := utf8.DecodeRune(raw); r != utf8.RuneError || w > 1 {
			dst = append(dst, raw[:w]...)
			raw = raw[w:]
			continue
		}
		n := illFormed(raw)
		if n == len(raw) && !utf8.FullRune(raw) {
			return dst, raw
		}
		dst = utf8.AppendRune(dst, utf8.RuneError)
		raw = raw[n:]
	}
	return dst, nil
}

// illFormed returns the length of the maximal ill-formed part that raw starts with: the longest start of a character, or 1.
func illFormed(raw []byte) int {
	n := 1
	for n < len(raw) && !utf8.FullRune(raw[:n+1]) { // raw[:n+1] is still the start of a character
		n++
	}
	return n
}

// StreamDecoder decodes ids one at a time and holds back the bytes of a character until it is complete. The pieces that Push
// and Flush return add up to what Decode returns for all ids. The zero value is not usable.
type StreamDecoder struct {
	b           *BPE
	skipSpecial bool
	pending     []byte // an unfinished character
}

// NewStreamDecoder returns a decoder of one stream. skipSpecial drops special tokens as DecodeSkipSpecial does.
func (b *BPE) NewStreamDecoder(skipSpecial bool) *StreamDecoder {
	return &StreamDecoder{b: b, skipSpecial: skipSpecial}
}

// Push returns the text that id completes, often a word, "" while a character is unfinished. After an error, which wraps
// ErrUnknownID, the decoder is as before.
func (d *StreamDecoder) Push(id int32) (string, error) {
	if _, ok := d.b.Token(id); !ok {
		return "", fmt.Errorf("decode: %w: %d, expected 0 to %d", ErrUnknownID, id, len(d.b.tokens)-1)
	}
	if d.skipSpecial && d.b.hidden[id] {
		return "", nil
	}
	raw := append(d.pending, d.b.bytes(id)...)
	text, rest := appendValid(make([]byte, 0, len(raw)), raw)
	d.pending = append(raw[:0], rest...)
	return string(text), nil
}

// Flush ends the stream: it returns U+FFFD if a character was left unfinished, else "". The decoder can then be used again.
func (d *StreamDecoder) Flush() string {
	unfinished := len(d.pending) > 0
	d.pending = d.pending[:0]
	if unfinished {
		return string(utf8.RuneError)
	}
	return ""
}
