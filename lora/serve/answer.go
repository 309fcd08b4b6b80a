package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"terraloom/lora/generate"
	"terraloom/lora/serve/toolcall"
)

// completionHeader is what every answer and every event of a stream begins with.
type completionHeader struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []any  `json:"choices"`
	Usage   *usage `json:"usage,omitempty"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func newID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}

// generate runs the rows and hands every piece to take, one at a time.
func (s *Server) generate(ctx context.Context, rows []generate.Request, take func(i int, p generate.Piece)) (usage, error) {
	var u usage
	begin := time.Now()
	var first sync.Once
	for i := range rows {
		rows[i].Emit = func(p generate.Piece) {
			first.Do(func() { s.metrics.firstToken.Observe(time.Since(begin).Seconds()) })
			take(i, p)
		}
	}
	results, err := s.model.Engine.Generate(ctx, rows)
	if err != nil {
		return u, err
	}
	seen := map[*int32]bool{} // prompts that several rows share count once
	for i, r := range results {
		if p := &rows[i].Prompt[0]; !seen[p] {
			seen[p] = true
			u.Prompt += r.PromptSize
		}
		u.Completion += len(r.Tokens)
	}
	u.Total = u.Prompt + u.Completion
	s.metrics.tokens(u)
	return u, nil
}

// answerWhole answers when everything is there.
func (s *Server) answerWhole(ctx context.Context, w *recorder, rows []generate.Request, h *completionHeader, take func(int, generate.Piece), choice func(int) any) error {
	u, err := s.generate(ctx, rows, take)
	if err != nil {
		return err
	}
	w.usage, h.Usage = u, &u
	for i := range rows {
		h.Choices = append(h.Choices, choice(i))
	}
	writeJSON(w, 200, h)
	return nil
}

// answerStream answers piece by piece. opening makes a choice's first event, chunks those of a piece.
func (s *Server) answerStream(ctx context.Context, w *recorder, rows []generate.Request, h *completionHeader, withUsage bool,
	opening func(int) any, chunks func(int, generate.Piece) []any) error {
	type item struct {
		row   int
		piece generate.Piece
	}
	// The engine must not wait for a slow client: pieces queue up here, at most one for every token.
	var mu sync.Mutex
	var queue []item
	ready := make(chan struct{}, 1)
	type outcome struct {
		usage usage
		err   error
	}
	done := make(chan outcome, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		u, err := s.generate(ctx, rows, func(i int, p generate.Piece) {
			mu.Lock()
			queue = append(queue, item{i, p})
			mu.Unlock()
			select {
			case ready <- struct{}{}:
			default:
			}
		})
		done <- outcome{u, err}
	}()
	var end *outcome
	defer func() { // a handler must not leave its generation behind
		cancel()
		if end == nil {
			<-done
		}
	}()
	send := func(choices ...any) {
		h.Choices = choices
		w.event(h)
	}
	for {
		select {
		case <-ready:
		case o := <-done:
			end = &o
		}
		mu.Lock()
		items := queue
		queue = nil
		mu.Unlock()
		if !w.stream && (len(items) > 0 || end != nil && end.err == nil) {
			// Only now is it known that the request can be served.
			w.startStream()
			for i := range rows {
				if first := opening(i); first != nil {
					send(first)
				}
			}
		}
		for _, it := range items {
			for _, c := range chunks(it.row, it.piece) {
				send(c)
			}
		}
		if end == nil {
			continue
		}
		if end.err != nil {
			return end.err
		}
		w.usage = end.usage
		if withUsage {
			h.Choices, h.Usage = []any{}, &end.usage
			w.event(h)
		}
		w.endStream()
		return nil
	}
}

// message, choice and delta are the parts of a chat completion.
type message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
	Refusal   *string    `json:"refusal"`
}

type toolCall struct {
	Index    *int           `json:"index,omitempty"` // in streams only
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function calledFunction `json:"function"`
}

type calledFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  message       `json:"message"`
	LogProbs *chatLogProbs `json:"logprobs"`
	Finish   string        `json:"finish_reason"`
}

type delta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type chunkChoice struct {
	Index    int           `json:"index"`
	Delta    delta         `json:"delta"`
	LogProbs *chatLogProbs `json:"logprobs,omitempty"`
	Finish   *string       `json:"finish_reason"`
}

// chatAnswer puts one choice together.
type chatAnswer struct {
	server   *Server
	parser   *toolcall.Parser
	logprobs bool

	message message
	tokens  []generate.Token
	reason  generate.Reason
}

// take adds a piece and returns what it brought.
func (a *chatAnswer) take(p generate.Piece) []toolcall.Event {
	events := a.parser.Push(p.Text)
	if p.Reason != "" {
		events = append(events, a.parser.Finish()...)
		a.reason = p.Reason
	}
	if a.logprobs {
		a.tokens = append(a.tokens, p.Tokens...)
	}
	for _, e := range events {
		switch e.Kind {
		case toolcall.Text:
			if a.message.Content == nil {
				a.message.Content = new("")
			}
			*a.message.Content += e.Text
		case toolcall.Reasoning:
			a.message.Reasoning += e.Text
		case toolcall.Called:
			a.message.ToolCalls = append(a.message.ToolCalls, toolCall{ID: newID("call_"), Type: "function",
				Function: calledFunction{e.Call.Name, e.Call.Arguments}})
		}
	}
	return events
}

func (a *chatAnswer) finish() string {
	if len(a.message.ToolCalls) > 0 && a.reason == generate.Stop {
		return "tool_calls"
	}
	return string(a.reason)
}

// choice is the whole answer.
func (a *chatAnswer) choice(i int) any {
	a.message.Role = "assistant"
	if a.message.Content == nil && len(a.message.ToolCalls) == 0 {
		a.message.Content = new("")
	}
	c := chatChoice{Index: i, Message: a.message, Finish: a.finish()}
	if a.logprobs {
		c.LogProbs = a.server.chatLogProbs(a.tokens)
	}
	return c
}

// chunks are the events of a piece.
func (a *chatAnswer) chunks(i int, p generate.Piece) []any {
	calls := len(a.message.ToolCalls)
	var out []chunkChoice
	for _, e := range a.take(p) {
		c := chunkChoice{Index: i}
		switch e.Kind {
		case toolcall.Text:
			c.Delta.Content = &e.Text
		case toolcall.Reasoning:
			c.Delta.Reasoning = e.Text
		case toolcall.Called:
			call := a.message.ToolCalls[calls]
			call.Index = new(calls)
			calls++
			c.Delta.ToolCalls = []toolCall{call}
		}
		out = append(out, c)
	}
	if a.logprobs && len(p.Tokens) > 0 {
		if len(out) == 0 { // tokens whose text is not certain yet
			out = append(out, chunkChoice{Index: i, Delta: delta{Content: new("")}})
		}
		out[0].LogProbs = a.server.chatLogProbs(p.Tokens)
	}
	if p.Reason != "" {
		out = append(out, chunkChoice{Index: i, Finish: new(a.finish())})
	}
	choices := make([]any, len(out))
	for j, c := range out {
		choices[j] = c
	}
	return choices
}
