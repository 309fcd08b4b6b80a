package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"terraloom/lora/chat"
	"terraloom/lora/generate"
	"terraloom/lora/generate/grammar"
)

// apiError is an error in the form of OpenAI's API.
type apiError struct {
	status            int
	kind, code, param string
	message           string
}

func (e apiError) Error() string { return e.message }

// invalid is a request that cannot be served as it is; param names the field.
func invalid(param, format string, args ...any) apiError {
	return apiError{http.StatusBadRequest, "invalid_request_error", "", param, fmt.Sprintf(format, args...)}
}

// statusClientGone is nginx's code for a client that left before the answer; only the log and metrics see it.
const statusClientGone = 499

// asAPIError finds the status that an error deserves. Errors of the server itself are not shown to the client.
func asAPIError(err error) apiError {
	var api apiError
	var body *http.MaxBytesError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &body):
		return apiError{http.StatusRequestEntityTooLarge, "invalid_request_error", "body_too_large", "", fmt.Sprintf("the body is larger than %d bytes", body.Limit)}
	case errors.Is(err, generate.ErrTooLong):
		return apiError{http.StatusBadRequest, "invalid_request_error", "context_length_exceeded", "messages", err.Error()}
	case errors.Is(err, grammar.ErrSchema):
		return invalid("response_format", "%s", err)
	case errors.Is(err, generate.ErrRequest), errors.Is(err, chat.ErrRefused), errors.Is(err, chat.ErrEmpty):
		return invalid("", "%s", err)
	case errors.Is(err, context.DeadlineExceeded):
		return apiError{http.StatusGatewayTimeout, "server_error", "timeout", "", "the request took longer than the server allows"}
	case errors.Is(err, context.Canceled):
		return apiError{statusClientGone, "server_error", "cancelled", "", "the request was cancelled"}
	case errors.Is(err, generate.ErrClosed):
		return apiError{http.StatusServiceUnavailable, "server_error", "stopping", "", "the server is stopping"}
	}
	return apiError{http.StatusInternalServerError, "server_error", "internal_error", "", "internal error; the server's log has the cause"}
}

func writeError(w http.ResponseWriter, e apiError) {
	if e.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, e.status, e.body())
}

// body is what a client gets.
func (e apiError) body() any {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	orNull := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return map[string]detail{"error": {e.message, e.kind, orNull(e.param), orNull(e.code)}}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the client is gone
}

// retryAfter is how many seconds a refused client is told to wait.
const retryAfter = 1

// guard is around every handler of the API: key, body limit, deadline, panics, log and metrics.
func (s *Server) guard(route string, handle func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		record := &recorder{ResponseWriter: w}
		err := s.handle(record, r, handle)
		status := record.status
		if err != nil {
			e := asAPIError(err)
			status = e.status
			if e.status == http.StatusInternalServerError {
				s.opts.Log.Error("request failed", "route", route, "error", err)
			}
			switch {
			case record.status == 0:
				writeError(record, e)
			case record.stream: // the answer has begun: the error is its last event
				record.event(e.body())
			}
		}
		s.metrics.request(route, status, time.Since(begin))
		s.opts.Log.Info("request", "method", r.Method, "path", r.URL.Path, "status", status, "duration", time.Since(begin).Round(time.Millisecond),
			"prompt_tokens", record.usage.Prompt, "completion_tokens", record.usage.Completion)
	})
}

func (s *Server) handle(w *recorder, r *http.Request, handle func(http.ResponseWriter, *http.Request) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if !s.authorised(r) {
		return apiError{http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "", "a valid key is needed: Authorization: Bearer KEY"}
	}
	if s.stopping.Load() {
		return generate.ErrClosed
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.Timeout)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(w, r.Body, s.opts.MaxBody)
	return handle(w, r)
}

// authorised compares hashes, so that the time tells nothing about the key.
func (s *Server) authorised(r *http.Request) bool {
	if s.opts.Key == "" {
		return true
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(key))
	return ok && subtle.ConstantTimeCompare(sum[:], s.key[:]) == 1
}

// enter takes n places in the queue, or refuses.
func (s *Server) enter(n int) (leave func(), err error) {
	if s.queued.Add(int64(n)) > int64(s.opts.Queue) {
		s.queued.Add(int64(-n))
		if n > s.opts.Queue {
			return nil, invalid("n", "%d completions at once, the server takes %d", n, s.opts.Queue)
		}
		return nil, apiError{http.StatusTooManyRequests, "rate_limit_error", "queue_full", "", "the server is busy: try again later"}
	}
	return func() { s.queued.Add(int64(-n)) }, nil
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	stream bool
	usage  usage
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// startStream begins an answer of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
func (r *recorder) startStream() {
	h := r.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // proxies must not wait for more
	r.stream = true
	r.WriteHeader(http.StatusOK)
}

// event sends one event with a JSON value.
func (r *recorder) event(v any) {
	_, _ = r.Write([]byte("data: ")) // a client that is gone shows in the request's context
	e := json.NewEncoder(r)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	_, _ = r.Write([]byte("\n"))
	_ = http.NewResponseController(r.ResponseWriter).Flush()
}

// endStream sends the event that ends the answer.
func (r *recorder) endStream() {
	_, _ = r.Write([]byte("data: [DONE]\n\n"))
	_ = http.NewResponseController(r.ResponseWriter).Flush()
}
