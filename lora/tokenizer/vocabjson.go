package tokenizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The two big parts of tokenizer.json are read by hand: about five times as fast as with encoding/json, and repeated keys are
// noticed. Both readers get JSON that encoding/json has found well-formed.

// vocabJSON is the object spelling → id.
type vocabJSON struct{ ids map[string]int32 }

// UnmarshalJSON implements json.Unmarshaler.
func (v *vocabJSON) UnmarshalJSON(data []byte) error {
	r := jsonReader{text: string(data)}
	if !r.take('{') {
		return fmt.Errorf("vocab: expected an object")
	}
	// A key and its number take at least 5 bytes.
	v.ids = make(map[string]int32, min(len(data)/5, len(data)/12+16))
	for !r.take('}') {
		token, err := r.str()
		if err != nil {
			return fmt.Errorf("vocab: %w", err)
		}
		r.take(':')
		id, err := r.integer()
		if err != nil {
			return fmt.Errorf("vocab: %q: %w", token, err)
		}
		if _, ok := v.ids[token]; ok {
			return fmt.Errorf("vocab: %q is listed twice", token)
		}
		v.ids[token] = id
		r.take(',')
	}
	return nil
}

// mergeJSON is the list of merges, best first: each "left right" (older files) or ["left", "right"].
type mergeJSON struct{ pairs [][2]string }

// UnmarshalJSON implements json.Unmarshaler.
func (m *mergeJSON) UnmarshalJSON(data []byte) error {
	r := jsonReader{text: string(data)}
	if !r.take('[') {
		return fmt.Errorf("merges: expected an array")
	}
	m.pairs = make([][2]string, 0, len(data)/14)
	for !r.take(']') {
		pair, err := r.pair()
		if err != nil {
			return fmt.Errorf("merges: merge %d: %w", len(m.pairs), err)
		}
		m.pairs = append(m.pairs, pair)
		r.take(',')
	}
	return nil
}

// jsonReader steps through well-formed JSON.
type jsonReader struct {
	text string
	pos  int
}

func (r *jsonReader) skipSpace() {
	for r.pos < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.pos]) >= 0 {
		r.pos++
	}
}

// take skips space and then the byte c, if it is next.
func (r *jsonReader) take(c byte) bool {
	r.skipSpace()
	if r.pos < len(r.text) && r.text[r.pos] == c {
		r.pos++
		return true
	}
	return false
}

// str reads a string. Without escapes it shares the memory of the text.
func (r *jsonReader) str() (string, error) {
	if !r.take('"') {
		return "", fmt.Errorf("expected a string at %s", r.rest())
	}
	start := r.pos
	for escaped := false; ; r.pos++ {
		switch r.text[r.pos] {
		case '\\':
			escaped = true
			r.pos++
		case '"':
			r.pos++
			if !escaped {
				return r.text[start : r.pos-1], nil
			}
			var s string
			err := json.Unmarshal([]byte(r.text[start-1:r.pos]), &s)
			return s, err
		}
	}
}

func (r *jsonReader) integer() (int32, error) {
	r.skipSpace()
	start := r.pos
	for r.pos < len(r.text) && strings.IndexByte("+-.eE0123456789", r.text[r.pos]) >= 0 {
		r.pos++
	}
	n, err := strconv.ParseInt(r.text[start:r.pos], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("expected a 32-bit id at %s", r.rest())
	}
	return int32(n), nil
}

func (r *jsonReader) pair() ([2]string, error) {
	if !r.take('[') {
		text, err := r.str()
		if err != nil {
			return [2]string{}, err
		}
		return splitMerge(text)
	}
	var pair [2]string
	for side := range pair {
		token, err := r.str()
		if err != nil {
			return pair, err
		}
		pair[side] = token
		r.take(',')
	}
	if !r.take(']') {
		return pair, fmt.Errorf("expected two tokens, got more at %s", r.rest())
	}
	return pair, nil
}

// rest shows where the reader stands.
func (r *jsonReader) rest() string {
	rest := r.text[r.pos:]
	if len(rest) > 20 {
		rest = rest[:20] + "…"
	}
	return strconv.Quote(rest)
}

// splitMerge reads a merge written as "left right".
func splitMerge(text string) ([2]string, error) {
	left, right, ok := strings.Cut(text, " ")
	if !ok || left == "" || right == "" || strings.Contains(right, " ") {
		return [2]string{}, fmt.Errorf("expected two tokens with one space between them, got %q", text)
	}
	return [2]string{left, right}, nil
}
