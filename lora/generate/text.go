package generate

import (
	"strings"

	"terraloom/lora/tokenizer"
)

// textStream turns tokens into text as it becomes certain: characters when they are complete, and nothing that could
// still become one of the stop texts.
type textStream struct {
	decoder *tokenizer.StreamDecoder
	stops   []string
	held    string
}

func newTextStream(t *tokenizer.BPE, stops []string) *textStream {
	return &textStream{decoder: t.NewStreamDecoder(true), stops: stops}
}

// push returns the text that a token completes. stop is the stop text that ends the stream, if it does; the returned
// text then ends before it. Of stop texts that are complete at the same token the one that begins first counts, the
// longest of those that begin together.
func (s *textStream) push(id int32) (text, stop string, err error) {
	piece, err := s.decoder.Push(id)
	if err != nil {
		return "", "", err
	}
	s.held += piece
	at := -1
	for _, t := range s.stops {
		if i := strings.Index(s.held, t); i >= 0 && (at < 0 || i < at || i == at && len(t) > len(stop)) {
			at, stop = i, t
		}
	}
	if at >= 0 {
		text = s.held[:at]
		s.held = ""
		return text, stop, nil
	}
	keep := 0
	for _, t := range s.stops {
		keep = max(keep, overlap(s.held, t))
	}
	text, s.held = s.held[:len(s.held)-keep], s.held[len(s.held)-keep:]
	return text, "", nil
}

// flush ends the stream and returns what was held back.
func (s *textStream) flush() string {
	text := s.held + s.decoder.Flush()
	s.held = ""
	return text
}

// overlap is the length of the longest suffix of text that is a prefix of stop, but not all of it.
func overlap(text, stop string) int {
	for n := min(len(text), len(stop)-1); n > 0; n-- {
		if strings.HasSuffix(text, stop[:n]) {
			return n
		}
	}
	return 0
}
