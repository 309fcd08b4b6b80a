package verify

import (
	"context"

	"terraloom/agent/llm"
)

// Decide asks a model for a decision that read understands. A reply that is none
// is asked for once more, with what was wrong with it; ok is false where the
// second is none either. An error is that of the model.
func Decide[T any](ctx context.Context, m llm.Model, q llm.Request, read func(text string) (T, error)) (decision T, ok bool, err error) {
	for range 2 {
		reply, err := m.Chat(ctx, q)
		if err != nil {
			return decision, false, err
		}
		decision, fault := read(reply.Text)
		if fault == nil {
			return decision, true, nil
		}
		q.Messages = append(q.Messages, llm.Message{Role: "assistant", Content: reply.Text},
			llm.Message{Role: "user", Content: "That is no decision: " + fault.Error() + ". Reply with the JSON object alone."})
	}
	return decision, false, nil
}
