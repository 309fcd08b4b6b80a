package llm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"terraloom/data/strictjson"
)

// Server is a server with OpenAI's API.
type Server struct {
	URL     string        // base URL, with /v1 where the server has it
	Model   string        // of requests that name none
	Key     string        // bearer token, "" for none; it goes into the header and nowhere else
	Timeout time.Duration // of one request, its whole answer included; 0 for none
	Tries   int           // requests for one answer while the server is busy or broken; at least 1
	Pause   time.Duration // before the second request; doubles each time, up to a minute
	Stream  bool          // ask for answers piece by piece
}

// Complete returns the model's text for a system and a user text at temperature 0.
func (s *Server) Complete(ctx context.Context, system, user string) (string, error) {
	r, err := s.Chat(ctx, Request{Messages: []Message{{Role: "system", Content: system}, {Role: "user", Content: user}}})
	if err == nil && r.Text == "" && len(r.Calls) > 0 {
		err = fmt.Errorf("%s: the reply has no text: %d tool calls", s.shown(), len(r.Calls))
	}
	return r.Text, err
}

// Chat posts to /chat/completions. Errors wrap ErrUnavailable or ErrRefused, or
// are those of the context.
func (s *Server) Chat(ctx context.Context, r Request) (Reply, error) {
	model := r.Model
	if model == "" {
		model = s.Model
	}
	body := r.body(model, s.Stream).AppendJSON(nil)
	var reply Reply
	tries, err := s.again(ctx, func(ctx context.Context) (err error) {
		reply, err = s.chatOnce(ctx, body, r.Emit)
		return err
	})
	if err != nil {
		return Reply{Tries: tries}, err
	}
	reply.Tries = tries
	if reply.Usage.Total() == 0 {
		reply.Usage = r.estimate(&reply)
	}
	return reply, nil
}

func (s *Server) chatOnce(ctx context.Context, body []byte, emit func(string)) (Reply, error) {
	resp, err := s.send(ctx, "/chat/completions", body)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	if s.Stream && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		reply, err := readStream(io.LimitReader(resp.Body, maxReply), emit)
		if err != nil {
			return Reply{}, fmt.Errorf("%s: %w: %w", s.shown(), errAgain, err)
		}
		return reply, nil
	}
	v, err := s.read(resp)
	if err != nil {
		return Reply{}, err
	}
	reply, err := readReply(v)
	if err != nil {
		return Reply{}, fmt.Errorf("%s: %w: %w", s.shown(), errAgain, err)
	}
	if emit != nil {
		emit(reply.Text)
	}
	return reply, nil
}

// Embed posts to /embeddings: a vector for each text, in order.
func (s *Server) Embed(ctx context.Context, texts []string) ([][]float64, error) {
	input := make([]strictjson.Value, len(texts))
	for i, t := range texts {
		input[i] = strictjson.Text(t)
	}
	body := object("model", strictjson.Text(s.Model), "input", strictjson.List(input...)).AppendJSON(nil)
	var reply strictjson.Value
	_, err := s.again(ctx, func(ctx context.Context) error {
		resp, err := s.send(ctx, "/embeddings", body)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		reply, err = s.read(resp)
		return err
	})
	if err != nil {
		return nil, err
	}
	items := reply.Get("data")
	if items.Len() != len(texts) {
		return nil, fmt.Errorf("%s: asked for %d embeddings, got %d", s.shown(), len(texts), items.Len())
	}
	vectors := make([][]float64, len(texts))
	for i := range items.Len() {
		at := i // the index says which text; servers may leave it out
		if f, ok := items.Index(i).Get("index").Float(); ok {
			at = int(f)
		}
		list := items.Index(i).Get("embedding")
		if at < 0 || at >= len(vectors) || vectors[at] != nil || list.Len() == 0 {
			return nil, fmt.Errorf("%s: /data/%d is no embedding of a text of its own", s.shown(), i)
		}
		vectors[at] = make([]float64, list.Len())
		for j := range vectors[at] {
			f, ok := list.Index(j).Float()
			if !ok {
				return nil, fmt.Errorf("%s: /data/%d/embedding/%d is no finite number", s.shown(), i, j)
			}
			vectors[at][j] = f
		}
	}
	return vectors, nil
}

const (
	maxReply = 64 << 20    // most bytes that are read of a reply
	maxPause = time.Minute // longest wait between two tries, whatever a server asks for
)

// errAgain marks faults that may pass: a busy or broken server, a lost
// connection, an answer that was cut or is not what the API says.
var errAgain = errors.New("try again")

// waitError is an errAgain whose server said how long to wait.
type waitError struct {
	error
	wait time.Duration
}

func (e waitError) Unwrap() error { return e.error }

// again tries until once succeeds, fails for good, or the tries are used up.
func (s *Server) again(ctx context.Context, once func(context.Context) error) (tries int, err error) {
	pause := s.Pause
	for tries = 1; ; tries++ {
		err = s.bounded(ctx, once)
		switch {
		case err == nil:
			return tries, nil
		case ctx.Err() != nil:
			return tries, ctx.Err()
		case !errors.Is(err, errAgain):
			return tries, err
		case tries >= s.Tries:
			return tries, fmt.Errorf("%w after %d tries: %w", ErrUnavailable, tries, err)
		}
		wait := pause/2 + rand.N(pause/2+1) // a spread, so that clients that failed together do not return together
		var told waitError
		if errors.As(err, &told) {
			wait = max(wait, told.wait)
		}
		timer := time.NewTimer(min(wait, maxPause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return tries, ctx.Err()
		case <-timer.C:
		}
		pause = min(2*pause, maxPause)
	}
}

func (s *Server) bounded(ctx context.Context, once func(context.Context) error) error {
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	return once(ctx)
}

// send posts a body and returns the answer of a server that took it.
func (s *Server) send(ctx context.Context, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(s.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrRefused, s.clean(err.Error()))
	}
	req.Header.Set("Content-Type", "application/json")
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the URL, which may hold a password
		}
		return nil, fmt.Errorf("%s: %w: %w", s.shown(), errAgain, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // the status tells enough if it cannot be read
	err = fmt.Errorf("%s: status %s: %s", s.shown(), resp.Status, s.clean(clip(string(text))))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusRequestTimeout, resp.StatusCode >= 500:
		err = fmt.Errorf("%w: %w", errAgain, err)
		if seconds, bad := strconv.Atoi(resp.Header.Get("Retry-After")); bad == nil && seconds >= 0 {
			return nil, waitError{err, time.Duration(seconds) * time.Second}
		}
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", ErrRefused, err)
}

// read reads a whole answer.
func (s *Server) read(resp *http.Response) (strictjson.Value, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return strictjson.Value{}, fmt.Errorf("%s: %w: %w", s.shown(), errAgain, err)
	case len(text) > maxReply:
		return strictjson.Value{}, fmt.Errorf("%w: %s: the reply is longer than %d bytes", ErrRefused, s.shown(), maxReply)
	}
	v, err := strictjson.Parse(text)
	if err != nil {
		return strictjson.Value{}, fmt.Errorf("%s: %w: the reply is not JSON: %w", s.shown(), errAgain, err)
	}
	return v, nil
}

// shown is the URL without a password.
func (s *Server) shown() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "the server"
	}
	return u.Redacted()
}

// clean takes the key out of a text that a server sent back.
func (s *Server) clean(text string) string {
	if s.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, s.Key, "[key]")
}
