package generate

import (
	"context"
	"slices"

	"terraloom/lora/generate/grammar"
)

// row is a request while it waits and runs.
type row struct {
	ctx      context.Context
	request  Request
	call     *call
	weights  *weights
	result   Result
	left     int               // tokens it may still produce
	start    int               // its first column in the cache
	text     *textStream       // nil without a tokenizer
	seen     map[int32]bool    // tokens that are penalised; nil without a penalty
	document *grammar.Document // nil without a schema
	sent     int               // tokens given to Emit
	unsent   string            // text not given to Emit
	err      error
}

// onHost reports whether the host has to draw the row's tokens.
func (r *row) onHost() bool {
	return !r.request.Sampling.plain() || r.document != nil || r.request.Alternatives > 0
}

// last is the newest token, which the next step reads.
func (r *row) last() int32 {
	if n := len(r.result.Tokens); n > 0 {
		return r.result.Tokens[n-1].ID
	}
	return r.request.Prompt[len(r.request.Prompt)-1]
}

// uniform is the random number in [0, 1) for the row's i-th next token: a pure function of seed and position, with 23
// bits, so that float32 arithmetic keeps it below 1.
func (r *row) uniform(i int) float32 {
	const golden = 0x9e3779b97f4a7c15
	n := uint64(len(r.result.Tokens)+i) + 1
	return float32(mix(mix(r.request.Sampling.Seed+golden)+n*golden)>>41) / (1 << 23)
}

// mix is the finaliser of splitmix64 (Steele et al. 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// add appends a drawn token and reports whether the row goes on.
func (r *row) add(t Token) bool {
	r.result.Tokens = append(r.result.Tokens, t)
	r.left--
	if r.seen != nil {
		r.seen[t.ID] = true
	}
	stopped := slices.Contains(r.request.StopIDs, t.ID)
	if r.document != nil && !stopped {
		if r.err = r.document.Advance(t.ID); r.err != nil {
			return false
		}
		stopped = r.document.Complete()
	}
	if r.text != nil && !slices.Contains(r.request.StopIDs, t.ID) {
		text, stop, err := r.text.push(t.ID)
		if err != nil {
			r.err = err
			return false
		}
		r.write(text)
		if stop != "" {
			r.result.StopText, stopped = stop, true
		}
	}
	switch {
	case stopped:
		r.result.Reason = Stop
	case r.left == 0:
		r.result.Reason = Length
	default:
		return true
	}
	if r.text != nil && r.result.StopText == "" {
		r.write(r.text.flush())
	}
	return false
}

func (r *row) write(text string) {
	r.result.Text += text
	r.unsent += text
}

// emit hands what is new to the request's Emit.
func (r *row) emit() {
	if r.request.Emit == nil || r.sent == len(r.result.Tokens) && r.result.Reason == "" {
		return
	}
	r.request.Emit(Piece{Tokens: r.result.Tokens[r.sent:len(r.result.Tokens):len(r.result.Tokens)], Text: r.unsent, Reason: r.result.Reason})
	r.sent, r.unsent = len(r.result.Tokens), ""
}

// finish ends the row.
func (r *row) finish(err error) {
	if r.err == nil {
		r.err = err
	}
	if r.err == nil {
		r.emit()
	}
	r.call.finished(r)
}
