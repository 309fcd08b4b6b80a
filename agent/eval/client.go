package eval

import (
	"context"

	"terraloom/data/strictjson"
)

// Completer answers one prompt. An *llm.Server is one.
type Completer interface {
	// Complete returns the model's reply to a system and a user text at temperature 0.
	Complete(ctx context.Context, system, user string) (string, error)
}

// Embedder turns texts into vectors of one length, one for each text in order.
// An *llm.Server is one.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float64, error)
}

// object builds a JSON object of alternating keys and values.
func object(pairs ...any) strictjson.Value {
	members := make([]strictjson.Member, len(pairs)/2)
	for i := range members {
		members[i] = strictjson.Member{Key: pairs[2*i].(string), Value: pairs[2*i+1].(strictjson.Value)}
	}
	return strictjson.Obj(members...)
}
