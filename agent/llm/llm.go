// Package llm talks to language models: servers with OpenAI's API, and scripts
// that stand in for one. A Meter around a model counts what it costs, keeps its
// limits and logs every call.
package llm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"terraloom/data/strictjson"
)

// Sentinels for what callers branch on.
var (
	ErrUnavailable = errors.New("the model server does not answer") // busy or broken, after all tries
	ErrRefused     = errors.New("the model server refused the request")
	ErrBudget      = errors.New("the budget for model calls is spent")
	ErrScript      = errors.New("the script has no reply for this prompt")
)

// Model answers chats.
type Model interface {
	Chat(ctx context.Context, r Request) (Reply, error)
}

// Request is one chat.
type Request struct {
	Role        string // what the call is for (planner, executor, …): for log and accounting, never sent
	Model       string // "" is the server's own default
	Messages    []Message
	Tools       []Tool  // offered for native tool calls
	Temperature float64 // 0 is greedy
	MaxTokens   int     // 0 leaves it to the server
	Emit        func(text string)
}

// Message is one turn. Calls are those of an assistant; CallID is that of the
// call that a message of the role tool answers.
type Message struct {
	Role    string
	Content string
	Images  []Image // of a user
	Calls   []ToolCall
	CallID  string
}

// Image is a picture beside a user's text.
type Image struct {
	MIME string // image/png, image/jpeg
	Data []byte
}

// Tool is a function that the model may call.
type Tool struct {
	Name, Description string
	Schema            string // JSON Schema of the arguments
}

// ToolCall is a call that the model asks for. Arguments are as the model wrote
// them, which need not be JSON.
type ToolCall struct {
	ID, Name, Arguments string
}

// Reply is the model's answer.
type Reply struct {
	Text   string
	Calls  []ToolCall
	Finish string // stop, length, tool_calls, …; "" where not said
	Usage  Usage
	Tries  int // requests that it took
}

// Usage is what a call took, in tokens. Estimated ones are counted from the
// length of the texts because the server did not say.
type Usage struct {
	Prompt, Completion int
	Estimated          bool
}

// Total is all tokens.
func (u Usage) Total() int { return u.Prompt + u.Completion }

// PromptHash is the SHA-256 of all that the model sees of a request, in hex.
func (r *Request) PromptHash() string {
	h := sha256.New()
	h.Write(r.visible().AppendJSON(nil))
	return hex.EncodeToString(h.Sum(nil))
}

// visible is the part of the request that reaches the model.
func (r *Request) visible() strictjson.Value {
	messages := make([]strictjson.Value, len(r.Messages))
	for i := range r.Messages {
		messages[i] = r.Messages[i].value()
	}
	return strictjson.Obj(
		strictjson.Member{Key: "messages", Value: strictjson.List(messages...)},
		strictjson.Member{Key: "tools", Value: toolsValue(r.Tools)})
}

// estimate counts tokens at four bytes each.
func (r *Request) estimate(reply *Reply) Usage {
	prompt, completion := 0, len(reply.Text)
	for _, m := range r.Messages {
		prompt += len(m.Content)
		for _, c := range m.Calls {
			prompt += len(c.Arguments)
		}
	}
	for _, t := range r.Tools {
		prompt += len(t.Description) + len(t.Schema)
	}
	for _, c := range reply.Calls {
		completion += len(c.Name) + len(c.Arguments)
	}
	return Usage{Prompt: (prompt + 3) / 4, Completion: (completion + 3) / 4, Estimated: true}
}
