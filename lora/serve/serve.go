// Package serve offers a model and its adapters over HTTP in the form of OpenAI's API: /v1/models, /v1/chat/completions
// and /v1/completions, with /healthz and /metrics beside them.
//
// Requests of all clients are decoded together and join between two chunks of tokens. A request that does not fit the
// queue is refused with 429 at once; one whose client leaves is dropped.
//
//	loaded, err := generate.Open(b, dir, adapters, decoder.Float32, generate.Options{})
//	s, err := serve.New(serve.ModelOf(loaded), serve.Options{Key: key})
//	err = s.Run(ctx, listener)   // until ctx ends, then finishes what is running
package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"terraloom/lora/chat"
	"terraloom/lora/codec"
	"terraloom/lora/generate"
	"terraloom/lora/serve/toolcall"
	"terraloom/lora/tokenizer"
)

// BaseName is the name of the model without adapter.
const BaseName = "base"

// Engine is what generates: a *generate.Engine.
type Engine interface {
	Generate(ctx context.Context, requests []generate.Request) ([]generate.Result, error)
	Stats() generate.Stats
}

// Model is a model with its adapters.
type Model struct {
	Engine    Engine
	Tokenizer *tokenizer.BPE
	Codec     *codec.Codec // nil: no chat completions
	Calls     toolcall.Format
	Adapters  []string // names known to the engine
	// Variables are template variables by the name of an adapter; a request's own come before them.
	Variables map[string]map[string]chat.Value
	Positions int // prompt and completion together, in tokens
}

// ModelOf describes what generate.Open has loaded.
func ModelOf(l *generate.Loaded) Model {
	return Model{Engine: l.Engine, Tokenizer: l.Tokenizer, Codec: l.Codec, Calls: toolcall.FormatOf(l.Template),
		Adapters: l.Adapters, Variables: l.Variables, Positions: l.Config.MaxPositions}
}

// Options of [New]. The zero value is usable.
type Options struct {
	// Key, if not empty, must come with every request below /v1 as "Authorization: Bearer KEY".
	Key string
	// Queue is how many completions may wait and run at once; more are refused with 429. 0: 64.
	Queue int
	// Timeout ends a request that takes longer. 0: 10 minutes.
	Timeout time.Duration
	// Grace is how long running requests may go on after the server was told to stop. 0: 30 seconds.
	Grace time.Duration
	// MaxBody bounds the body of a request in bytes. 0: 4 MiB.
	MaxBody int64
	// Log receives a line for every request. nil: slog's default.
	Log *slog.Logger
}

// Server is an http.Handler.
type Server struct {
	model    Model
	opts     Options
	key      [sha256.Size]byte
	handler  http.Handler
	metrics  *metrics
	queued   atomic.Int64
	stopping atomic.Bool
	started  time.Time
}

// New makes a server. It does not listen yet: see [Server.Run].
func New(m Model, opts Options) (*Server, error) {
	if slices.Contains(m.Adapters, BaseName) {
		return nil, fmt.Errorf("an adapter cannot be called %q: that is the model without one", BaseName)
	}
	if opts.Queue < 0 || opts.Timeout < 0 || opts.Grace < 0 || opts.MaxBody < 0 {
		return nil, errors.New("limits must not be negative")
	}
	if opts.Queue == 0 {
		opts.Queue = 64
	}
	if opts.Timeout == 0 {
		opts.Timeout = 10 * time.Minute
	}
	if opts.Grace == 0 {
		opts.Grace = 30 * time.Second
	}
	if opts.MaxBody == 0 {
		opts.MaxBody = 4 << 20
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	s := &Server{model: m, opts: opts, key: sha256.Sum256([]byte(opts.Key)), started: time.Now()}
	s.metrics = newMetrics(m.Engine)
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(w http.ResponseWriter, r *http.Request) error{
		"GET /v1/models":            s.listModels,
		"GET /v1/models/{model}":    s.showModel,
		"POST /v1/chat/completions": s.chatCompletions,
		"POST /v1/completions":      s.completions,
	} {
		mux.Handle(pattern, s.guard(pattern, handle))
	}
	mux.Handle("GET /healthz", http.HandlerFunc(s.health))
	mux.Handle("GET /metrics", s.metrics.handler())
	mux.Handle("/", s.guard("other", func(w http.ResponseWriter, r *http.Request) error {
		return apiError{http.StatusNotFound, "invalid_request_error", "not_found", "", fmt.Sprintf("no %s %s here", r.Method, r.URL.Path)}
	}))
	s.handler = mux
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.stopping.Load() {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "stopping"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// Run serves connections until ctx ends. Then it takes no more, waits Options.Grace for what is running, and cancels
// what is left.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second, // no ReadTimeout: it would end long answers too, see readBody
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	s.opts.Log.Info("stopping", "running", s.queued.Load(), "grace", s.opts.Grace)
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Grace)
	defer done()
	if err := server.Shutdown(grace); err != nil {
		cancel() // handlers see their requests cancelled and return
		last, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer done()
		if err := server.Shutdown(last); err != nil {
			return errors.Join(fmt.Errorf("requests did not end: %w", err), server.Close())
		}
	}
	return nil
}
