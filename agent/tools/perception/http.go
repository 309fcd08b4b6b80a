package perception

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// HTTP asks a model server. A request is one POST of a JSON object to URL:
//
//	{"model": "SM3Det", "task": "detect", "prompt": "ship", "boxes": [[…]], "images": ["<base64 file>", …]}
//
// and the answer, with status 200, is one too; the fields that the task does not
// need may be absent:
//
//	{"weights": "…", "sensor": "…", "resolution": 0.3, "thresholds": {"score": 0.5}, "labels": [{"name": "Beach", "score": 0.9}],
//	 "boxes": [[x1, y1, x2, y2]], "scores": [0.8], "count": 3, "filtered": 2, "mask": "<base64 PNG, set where not black>", "exact": true}
//
// A status of 404 with {"error": "…"} means that the server does not know the
// image; every other status is a failure of the server.
type HTTP struct {
	URL     string
	Timeout time.Duration // of one request
	MaxBody int64         // bytes of an answer
	client  *http.Client
}

// NewHTTP returns a client of a model server.
func NewHTTP(address string) (*HTTP, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("model server %q: expected http://HOST:PORT/PATH", address)
	}
	return &HTTP{URL: address, Timeout: DefaultTimeout, MaxBody: MaxReply, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // images go to the named server only
	}}, nil
}

// Backend is "http".
func (h *HTTP) Backend() string { return "http" }

// Perceive sends a request and reads the answer.
func (h *HTTP) Perceive(ctx context.Context, r Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	text, err := encode(&r)
	if err != nil {
		return Reply{}, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(text))
	if err != nil {
		return Reply{}, err
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := h.client.Do(q)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return Reply{}, fmt.Errorf("%s gave no answer within %v: %w", r.Model, h.Timeout, ErrServer)
		}
		return Reply{}, fmt.Errorf("%w: %w", err, ErrServer)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, h.MaxBody+1))
	switch {
	case err != nil:
		return Reply{}, fmt.Errorf("%s: %w: %w", r.Model, err, ErrServer)
	case int64(len(data)) > h.MaxBody:
		return Reply{}, fmt.Errorf("%s: the answer has more than %d bytes: %w", r.Model, h.MaxBody, ErrReply)
	case answer.StatusCode == http.StatusNotFound:
		return Reply{}, fmt.Errorf("%s: %s: %w", r.Model, message(data), ErrUnknownImage)
	case answer.StatusCode != http.StatusOK:
		return Reply{}, fmt.Errorf("%s: status %d: %s: %w", r.Model, answer.StatusCode, message(data), ErrServer)
	}
	return decode(&r, data)
}

// message is the server's own words, cut to a line.
func message(data []byte) string {
	var e struct{ Error string }
	if json.Unmarshal(data, &e) == nil && e.Error != "" {
		data = []byte(e.Error)
	}
	return fmt.Sprintf("%.200q", data)
}
