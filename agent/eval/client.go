package eval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"terraloom/data/strictjson"
)

// Server is an OpenAI-compatible server. It implements Completer and Embedder.
type Server struct {
	URL     string // base URL, with /v1 where the server has it
	Model   string
	Key     string        // bearer token, "" for none
	Timeout time.Duration // of one request; 0 for none
	Tries   int           // requests for one answer while the server is busy or broken; at least 1
	Pause   time.Duration // before the second request; doubles each time
}

// Completer answers one prompt.
type Completer interface {
	// Complete returns the model's reply to a system and a user text at temperature 0.
	Complete(ctx context.Context, system, user string) (string, error)
}

// Embedder turns texts into vectors of one length, one for each text in order.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float64, error)
}

// Complete posts to /chat/completions.
func (s *Server) Complete(ctx context.Context, system, user string) (string, error) {
	message := func(role, content string) strictjson.Value {
		return object("role", strictjson.Text(role), "content", strictjson.Text(content))
	}
	reply, err := s.post(ctx, "/chat/completions", object(
		"model", strictjson.Text(s.Model), "temperature", strictjson.Int(0),
		"messages", strictjson.List(message("system", system), message("user", user))))
	if err != nil {
		return "", err
	}
	content, _ := reply.At("/choices/0/message/content")
	if content.Kind() != strictjson.String {
		return "", fmt.Errorf("%s: the reply has no /choices/0/message/content: %s", s.URL, clip(reply.JSON()))
	}
	return content.Text(), nil
}

// Embed posts to /embeddings.
func (s *Server) Embed(ctx context.Context, texts []string) ([][]float64, error) {
	input := make([]strictjson.Value, len(texts))
	for i, t := range texts {
		input[i] = strictjson.Text(t)
	}
	reply, err := s.post(ctx, "/embeddings", object("model", strictjson.Text(s.Model), "input", strictjson.List(input...)))
	if err != nil {
		return nil, err
	}
	items := reply.Get("data")
	if items.Len() != len(texts) {
		return nil, fmt.Errorf("%s: asked for %d embeddings, got %d", s.URL, len(texts), items.Len())
	}
	vectors := make([][]float64, len(texts))
	for i := range items.Len() {
		at := i // the index says which text; servers may leave it out
		if f, ok := items.Index(i).Get("index").Float(); ok {
			at = int(f)
		}
		list := items.Index(i).Get("embedding")
		if at < 0 || at >= len(vectors) || vectors[at] != nil || list.Len() == 0 {
			return nil, fmt.Errorf("%s: /data/%d is no embedding of a text of its own", s.URL, i)
		}
		vectors[at] = make([]float64, list.Len())
		for j := range vectors[at] {
			f, ok := list.Index(j).Float()
			if !ok {
				return nil, fmt.Errorf("%s: /data/%d/embedding/%d is no finite number", s.URL, i, j)
			}
			vectors[at][j] = f
		}
	}
	return vectors, nil
}

// maxReply is the most bytes that are read of a reply.
const maxReply = 64 << 20

// errAgain marks faults that may pass: a busy or broken server, a lost connection.
var errAgain = errors.New("try again")

func (s *Server) post(ctx context.Context, path string, body strictjson.Value) (strictjson.Value, error) {
	pause := s.Pause
	for try := 1; ; try++ {
		reply, err := s.once(ctx, path, body)
		if err == nil || !errors.Is(err, errAgain) || try >= s.Tries || ctx.Err() != nil {
			return reply, err
		}
		select {
		case <-ctx.Done():
			return strictjson.Value{}, ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

func (s *Server) once(ctx context.Context, path string, body strictjson.Value) (strictjson.Value, error) {
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(s.URL, "/")+path, bytes.NewReader(body.AppendJSON(nil)))
	if err != nil {
		return strictjson.Value{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return strictjson.Value{}, fmt.Errorf("%w: %w", errAgain, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return strictjson.Value{}, fmt.Errorf("%s: %w: %w", s.URL, errAgain, err)
	case len(text) > maxReply:
		return strictjson.Value{}, fmt.Errorf("%s: the reply is longer than %d bytes", s.URL, maxReply)
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return strictjson.Value{}, fmt.Errorf("%s: status %s: %w", s.URL, resp.Status, errAgain)
	case resp.StatusCode != http.StatusOK:
		return strictjson.Value{}, fmt.Errorf("%s: status %s: %s", s.URL, resp.Status, clip(string(text)))
	}
	reply, err := strictjson.Parse(text)
	if err != nil {
		return strictjson.Value{}, fmt.Errorf("%s: the reply is not JSON: %w", s.URL, err)
	}
	return reply, nil
}

// object builds a JSON object of alternating keys and values.
func object(pairs ...any) strictjson.Value {
	members := make([]strictjson.Member, len(pairs)/2)
	for i := range members {
		members[i] = strictjson.Member{Key: pairs[2*i].(string), Value: pairs[2*i+1].(strictjson.Value)}
	}
	return strictjson.Obj(members...)
}
