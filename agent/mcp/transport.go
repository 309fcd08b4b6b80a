package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Path is where the HTTP endpoint is.
const Path = "/mcp"

// ErrExposed is the refusal to listen beyond this machine without a key.
var ErrExposed = errors.New("listening beyond this machine needs a key")

// ServeStdio serves one client over two streams, one JSON message a line, until
// the client closes in or ctx ends. Nothing else may write to out. Calls that run
// at the end are still answered: all of them when the client closed in, those that
// end within Options.Grace when ctx ended; the others are answered as cancelled.
// Both ends give no error.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	carrier, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.opts.Grace, cancel) })()
	session, err := s.sdk.Connect(carry(carrier, carrier), &drainTransport{
		Transport: &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: s.opts.MaxRequest}, stop: ctx,
	}, nil)
	if err != nil {
		return err
	}
	return session.Wait()
}

// Handler is the streamable HTTP endpoint. It is stateless: every request stands
// for itself, so that clients cannot pile up sessions. Requests of web pages of
// other origins and of rebound host names are refused.
func (s *Server) Handler() http.Handler { return s.handler(context.Background()) }

// handler is Handler; when stop ends, so do the calls that run, but not their
// connections, so that they can be answered.
func (s *Server) handler(stop context.Context) http.Handler {
	endpoint := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: int64(s.opts.MaxRequest), PropagateRequestCancellation: true,
	})
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.opts.Key.IsZero() && !s.opts.Key.opens(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send the key as: Authorization: Bearer KEY", http.StatusUnauthorized)
			return
		}
		carrier, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(stop, cancel)()
		endpoint.ServeHTTP(w, r.WithContext(carry(r.Context(), carrier)))
	})
	mux := http.NewServeMux()
	mux.Handle(Path, http.NewCrossOriginProtection().Handler(guarded))
	return mux
}

// Listen opens addr, a host:port. An address that other machines can reach is
// ErrExposed unless the server has a key.
func (s *Server) Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: give host:port, such as 127.0.0.1:8765", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	// The name may stand for anything; what counts is where it listens.
	if tcp, ok := l.Addr().(*net.TCPAddr); s.opts.Key.IsZero() && !(ok && tcp.IP.IsLoopback()) {
		return nil, errors.Join(fmt.Errorf("%w: %q is not this machine alone; listen on 127.0.0.1 or set a key", ErrExposed, host), l.Close())
	}
	return l, nil
}

// Serve serves streamable HTTP on l, which it closes, until ctx ends; running calls then get
// Options.Grace, and the error is nil.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler:           s.handler(calls),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		WriteTimeout: s.opts.CallTimeout + time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// Past the grace, calls are cancelled, and have a second to answer that they were.
	defer time.AfterFunc(s.opts.Grace, cancel).Stop()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Grace+time.Second)
	defer stop()
	err := server.Shutdown(last)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	<-failed
	return err
}
