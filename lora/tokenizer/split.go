package tokenizer

import "fmt"

// scheme is a way of cutting text into the words that BPE works on.
type scheme int

const (
	gpt2 scheme = iota
	qwen2
	qwen35
	llama3
	smollm
)

// The patterns, as tokenizer files spell them. They are compared, never compiled: Go's regexp has no look-ahead.
const (
	gpt2Pattern   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// patterns finds the scheme of a Split pre-tokenizer.
var patterns = map[string]scheme{gpt2Pattern: gpt2, qwen2Pattern: qwen2, qwen35Pattern: qwen35, llama3Pattern: llama3}

func (s scheme) String() string {
	switch s {
	case gpt2:
		return "GPT-2"
	case qwen2:
		return "Qwen2"
	case qwen35:
		return "Qwen3.5"
	case llama3:
		return "Llama-3"
	case smollm:
		return "SmolLM2"
	}
	return fmt.Sprintf("scheme(%d)", int(s))
}

// splitter finds word borders. It is stateless and shared.
type splitter struct {
	scheme  scheme
	classes *classTable
}

// next returns the end of the word that starts at text[i], i < len(text). Words cover the text without gaps.
func (s splitter) next(text string, i int) int {
	switch s.scheme {
	case qwen2:
		return s.cl100k(text, i, letter, 1)
	case qwen35:
		return s.cl100k(text, i, letter|mark, 1)
	case llama3:
		return s.cl100k(text, i, letter, 3)
	case smollm:
		return s.gpt2(text, i, numeric)
	default:
		return s.gpt2(text, i, 0)
	}
}

// cl100k scans the pattern family of Qwen and Llama-3. Words are runs of the classes in word; numbers are cut after maxDigits.
// Each step is one alternative of the pattern, in its order.
func (s splitter) cl100k(text string, i int, word class, maxDigits int) int {
	t := s.classes
	c, w := t.at(text, i)

	// (?i:'s|'t|'re|'ve|'m|'ll|'d)
	if text[i] == '\'' {
		if n := contraction(text[i+1:], true); n > 0 {
			return i + 1 + n
		}
	}
	// [^\r\n\p{L}\p{N}]?[word]+
	if c&word != 0 {
		return s.run(text, i+w, word)
	}
	if c&(newline|letter|number) == 0 && i+w < len(text) {
		if c2, w2 := t.at(text, i+w); c2&word != 0 {
			return s.run(text, i+w+w2, word)
		}
	}
	// \p{N}{1,maxDigits}
	if c&number != 0 {
		end := i + w
		for n := 1; n < maxDigits && end < len(text); n++ {
			c, w := t.at(text, end)
			if c&number == 0 {
				break
			}
			end += w
		}
		return end
	}
	// ' '?[^\s word \p{N}]+[\r\n]*
	const newlines = "\r\n"
	visible := space | word | number
	start, first, firstWidth := i, c, w
	if text[i] == ' ' && i+1 < len(text) {
		start = i + 1
		first, firstWidth = t.at(text, start)
	}
	if first&visible == 0 {
		end := s.runOutside(text, start+firstWidth, visible)
		for end < len(text) && (text[end] == newlines[0] || text[end] == newlines[1]) {
			end++
		}
		return end
	}
	// \s*[\r\n]+ | \s+(?!\S) | \s+
	end, last, afterNewline := i, i, 0
	for end < len(text) {
		c, w := t.at(text, end)
		if c&space == 0 {
			break
		}
		last, end = end, end+w
		if c&newline != 0 {
			afterNewline = end
		}
	}
	switch {
	case afterNewline > 0:
		return afterNewline
	case end < len(text) && last > i: // leave the last space to the word that follows
		return last
	default:
		return end
	}
}

// gpt2 scans the pattern of GPT-2. Each character of the class digit is a word of its own and ends the text before it, as if
// a Digits pre-tokenizer had run first.
func (s splitter) gpt2(text string, i int, digit class) int {
	t := s.classes
	c, w := t.at(text, i)
	if c&digit != 0 {
		return i + w
	}
	// 's|'t|'re|'ve|'m|'ll|'d
	if text[i] == '\'' {
		if n := contraction(text[i+1:], false); n > 0 {
			return i + 1 + n
		}
	}
	// ' '?\p{L}+ | ' '?\p{N}+ | ' '?[^\s\p{L}\p{N}]+
	start, first, firstWidth := i, c, w
	if text[i] == ' ' && i+1 < len(text) {
		start = i + 1
		first, firstWidth = t.at(text, start)
	}
	switch {
	case first&digit != 0: // only after a space, which then stands alone
	case first&letter != 0:
		return s.run(text, start+firstWidth, letter)
	case first&number != 0:
		return s.run(text, start+firstWidth, number)
	case first&space == 0:
		return s.runOutside(text, start+firstWidth, space|letter|number|digit)
	}
	// \s+(?!\S) | \s+
	end, last := i, i
	for end < len(text) {
		c, w := t.at(text, end)
		if c&space == 0 {
			if c&digit == 0 && last > i { // leave the last space to the word that follows
				return last
			}
			break
		}
		last, end = end, end+w
	}
	return end
}

// run returns the end of the characters from i on that have a class in want.
func (s splitter) run(text string, i int, want class) int {
	for i < len(text) {
		c, w := s.classes.at(text, i)
		if c&want == 0 {
			break
		}
		i += w
	}
	return i
}

// runOutside returns the end of the characters from i on that have no class in stop.
func (s splitter) runOutside(text string, i int, stop class) int {
	for i < len(text) {
		c, w := s.classes.at(text, i)
		if c&stop != 0 {
			break
		}
		i += w
	}
	return i
}

// contraction returns the length of the English contraction that text, cut after an apostrophe, starts with; 0 if none.
func contraction(text string, anyCase bool) int {
	lower := func(i int) byte {
		if i >= len(text) {
			return 0
		}
		if b := text[i]; anyCase && b >= 'A' && b <= 'Z' {
			return b | 0x20
		}
		return text[i]
	}
	switch lower(0) {
	case 's', 't', 'm', 'd':
		return 1
	case 'r', 'v':
		if lower(1) == 'e' {
			return 2
		}
	case 'l':
		if lower(1) == 'l' {
			return 2
		}
	case 0xC5: // U+017F, the long s, is an s to a pattern that ignores case
		if anyCase && lower(1) == 0xBF {
			return 2
		}
	}
	return 0
}
