package serve

import (
	"terraloom/lora/generate"
)

// chatLogProbs are the log-probabilities of a chat completion.
type chatLogProbs struct {
	Content []tokenLogProb `json:"content"`
}

type tokenLogProb struct {
	Token   string          `json:"token"`
	LogProb float32         `json:"logprob"`
	Bytes   []int           `json:"bytes"` // a token may be a part of a character
	Top     *[]tokenLogProb `json:"top_logprobs,omitempty"`
}

func (s *Server) chatLogProbs(tokens []generate.Token) *chatLogProbs {
	out := &chatLogProbs{Content: make([]tokenLogProb, len(tokens))}
	for i, t := range tokens {
		out.Content[i] = s.tokenLogProb(t.ID, t.LogProb)
		top := []tokenLogProb{}
		for _, a := range t.Alternatives {
			top = append(top, s.tokenLogProb(a.ID, a.LogProb))
		}
		out.Content[i].Top = &top
	}
	return out
}

func (s *Server) tokenLogProb(id int32, logp float32) tokenLogProb {
	t := tokenLogProb{Token: s.tokenText(id), LogProb: logp, Bytes: []int{}}
	for _, b := range s.model.Tokenizer.TokenBytes(id) {
		t.Bytes = append(t.Bytes, int(b))
	}
	return t
}

// tokenText is a token as text; a part of a character shows as U+FFFD.
func (s *Server) tokenText(id int32) string {
	text, err := s.model.Tokenizer.Decode([]int32{id})
	if err != nil {
		return "" // the engine draws only tokens of the vocabulary
	}
	return text
}

// textLogProbs are the log-probabilities of a completion.
type textLogProbs struct {
	Tokens   []string             `json:"tokens"`
	LogProbs []float32            `json:"token_logprobs"`
	Top      []map[string]float32 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"` // in characters
}

// textLogProbs describes tokens; offset is how many characters came before them.
func (s *Server) textLogProbs(tokens []generate.Token, offset int) *textLogProbs {
	out := &textLogProbs{Tokens: []string{}, LogProbs: []float32{}, Offsets: []int{}}
	for _, t := range tokens {
		text := s.tokenText(t.ID)
		out.Tokens, out.LogProbs, out.Offsets = append(out.Tokens, text), append(out.LogProbs, t.LogProb), append(out.Offsets, offset)
		offset += len([]rune(text))
		if t.Alternatives != nil {
			top := map[string]float32{}
			for _, a := range t.Alternatives {
				if text := s.tokenText(a.ID); top[text] == 0 { // several parts of characters look the same
					top[text] = a.LogProb
				}
			}
			out.Top = append(out.Top, top)
		}
	}
	return out
}
