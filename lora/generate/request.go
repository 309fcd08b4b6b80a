package generate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"terraloom/lora/generate/grammar"
)

// Request asks for one completion: one row of a batch.
type Request struct {
	Model  string  // a name given to [Engine.Use]; empty: the base model
	Prompt []int32 // token ids, at least one
	// MaxTokens bounds the completion, the token that ends it included. 0: as many as the model has positions for.
	MaxTokens int
	Sampling  Sampling
	// StopIDs end the completion when drawn. nil: the engine's; empty, not nil: none.
	StopIDs []int32
	// Stop are texts that end the completion. They are not part of the result's text.
	Stop []string
	// Schema constrains the completion to a JSON document of a schema; see package grammar for what it may use.
	Schema json.RawMessage
	// Alternatives asks for that many of the likeliest tokens at every step, at most 20.
	Alternatives int
	// Emit receives the completion piece by piece, from the engine's goroutine: it must return at once. May be nil.
	Emit func(Piece)
}

// Sampling says how tokens are drawn: from softmax(logits/Temperature), cut to the TopK likeliest, then to the fewest
// whose probabilities reach TopP (Holtzman et al. 2019, https://arxiv.org/abs/1904.09751), then to those at least MinP
// times as likely as the likeliest (https://arxiv.org/abs/2407.01082). The zero value takes the likeliest token.
type Sampling struct {
	Temperature float64 // 0: the likeliest token always
	TopK        int     // 0: no limit
	TopP        float64 // 0 or 1: no limit
	MinP        float64 // 0: no limit
	// RepetitionPenalty divides positive logits of tokens that occur in prompt or completion, and multiplies negative
	// ones (Keskar et al. 2019, https://arxiv.org/abs/1909.05858). 0 or 1: none.
	RepetitionPenalty float64
	// Seed starts the row's own random numbers: the same row with the same seed gives the same tokens, whatever else is
	// in the batch.
	Seed uint64
}

// plain reports whether tokens are drawn from the whole distribution, or the likeliest is taken: what the device does
// by itself.
func (s Sampling) plain() bool {
	return s.Temperature == 0 && !s.penalises() || s.TopK == 0 && !s.nucleus() && s.MinP == 0 && !s.penalises()
}

func (s Sampling) nucleus() bool   { return s.TopP > 0 && s.TopP < 1 }
func (s Sampling) penalises() bool { return s.RepetitionPenalty != 0 && s.RepetitionPenalty != 1 }

// Reason says what ended a completion.
type Reason string

// Reasons.
const (
	Stop   Reason = "stop"   // a stop id or text, or a complete document of the schema
	Length Reason = "length" // MaxTokens
)

// Piece is a part of a completion.
type Piece struct {
	Tokens []Token
	Text   string // what became certain: may lag behind the tokens
	Reason Reason // set in the last piece
}

// Token is one drawn token.
type Token struct {
	ID int32
	// LogProb is log softmax(logits/temperature) of the token, over the whole vocabulary, whatever was cut off before
	// drawing; at temperature 1 if Temperature is 0. A trainer computes the same from the same weights.
	LogProb float32
	// Sampled is the log-probability under the distribution that the token was drawn from. It equals LogProb where
	// nothing was cut off, and if Temperature is 0.
	Sampled      float32
	Alternatives []Alternative // the likeliest first
}

// Alternative is a token that could have been drawn.
type Alternative struct {
	ID      int32
	LogProb float32 // as Token.LogProb
}

// Result is a completion.
type Result struct {
	Tokens     []Token // the one that ended it included
	Text       string  // without special tokens and without the text that ended it; empty without a tokenizer
	Reason     Reason
	StopText   string // which of Request.Stop ended it
	PromptSize int    // tokens of the prompt
	Version    uint64 // of the weights, see [Engine.Use]
}

// IDs are the ids of the result's tokens.
func (r Result) IDs() []int32 {
	out := make([]int32, len(r.Tokens))
	for i, t := range r.Tokens {
		out[i] = t.ID
	}
	return out
}

// LogProbs are the log-probabilities of the result's tokens, [Token.LogProb].
func (r Result) LogProbs() []float32 {
	out := make([]float32, len(r.Tokens))
	for i, t := range r.Tokens {
		out[i] = t.LogProb
	}
	return out
}

// What callers branch on.
var (
	ErrRequest = errors.New("request cannot be served")
	ErrTooLong = errors.New("longer than the model's positions")
	ErrUnknown = errors.New("unknown model")
	ErrInUse   = errors.New("model is in use")
	ErrClosed  = errors.New("engine is closed")
)

// maxAlternatives is the bound of Request.Alternatives: the one of OpenAI's API.
const maxAlternatives = 20

// check verifies a request and returns the row that will serve it, not bound to weights yet.
func (e *Engine) check(ctx context.Context, i int, r Request) (*row, error) {
	bad := func(kind error, format string, args ...any) error {
		return fmt.Errorf("request %d: %w: %s", i, kind, fmt.Sprintf(format, args...))
	}
	s := r.Sampling
	positions := e.device.config.MaxPositions
	switch {
	case len(r.Prompt) == 0:
		return nil, bad(ErrRequest, "the prompt has no tokens")
	case r.MaxTokens < 0:
		return nil, bad(ErrRequest, "at most %d tokens", r.MaxTokens)
	case len(r.Prompt)+max(r.MaxTokens, 1) > positions:
		return nil, bad(ErrTooLong, "a prompt of %d tokens and %d more, the model has %d positions", len(r.Prompt), max(r.MaxTokens, 1), positions)
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0):
		return nil, bad(ErrRequest, "temperature %v: use 0 or more", s.Temperature)
	case s.TopK < 0:
		return nil, bad(ErrRequest, "top-k %d: use 0 (no limit) or more", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return nil, bad(ErrRequest, "top-p %v is not in 0 … 1", s.TopP)
	case !(s.MinP >= 0 && s.MinP <= 1):
		return nil, bad(ErrRequest, "min-p %v is not in 0 … 1", s.MinP)
	case !(s.RepetitionPenalty >= 0) || math.IsInf(s.RepetitionPenalty, 0):
		return nil, bad(ErrRequest, "repetition penalty %v: use a positive number", s.RepetitionPenalty)
	case r.Alternatives < 0 || r.Alternatives > maxAlternatives:
		return nil, bad(ErrRequest, "%d alternatives: use 0 … %d", r.Alternatives, maxAlternatives)
	case e.opts.Tokenizer == nil && len(r.Stop) > 0:
		return nil, bad(ErrRequest, "stop texts need a tokenizer")
	case e.opts.Tokenizer == nil && r.Schema != nil:
		return nil, bad(ErrRequest, "a schema needs a tokenizer")
	}
	for j, id := range r.Prompt {
		if id < 0 || int(id) >= e.device.config.VocabSize {
			return nil, bad(ErrRequest, "prompt token %d: id %d is not in 0 … %d: is this the model's tokenizer?", j, id, e.device.config.VocabSize-1)
		}
	}
	for _, stop := range r.Stop {
		if stop == "" {
			return nil, bad(ErrRequest, "an empty stop text")
		}
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = positions - len(r.Prompt)
	}
	if r.StopIDs == nil {
		r.StopIDs = e.opts.StopIDs
	}
	out := &row{ctx: ctx, request: r, left: r.MaxTokens}
	out.result.PromptSize = len(r.Prompt)
	if e.opts.Tokenizer != nil {
		out.text = newTextStream(e.opts.Tokenizer, r.Stop)
	}
	if s.penalises() {
		out.seen = make(map[int32]bool, len(r.Prompt))
		for _, id := range r.Prompt {
			out.seen[id] = true
		}
	}
	if r.Schema != nil {
		g, err := grammar.Compile(r.Schema)
		if err != nil {
			return nil, fmt.Errorf("request %d: schema: %w", i, err)
		}
		out.document = g.Start(e.vocabulary())
	}
	return out, nil
}
