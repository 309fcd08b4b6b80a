package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"terraloom/data/strictjson"
)

// Options set the limits of a Server. The zero value of each field is its default.
type Options struct {
	Version     string        // of the program, for clients
	Key         Key           // for HTTP; none by default
	CallTimeout time.Duration // of one call, waiting for its turn included; 2 minutes
	Grace       time.Duration // for running calls once the server stops; 10 seconds
	Concurrency int           // calls that run at the same time; the number of processors
	MaxRequest  int           // bytes of one request; 4 MiB
	MaxResult   int           // bytes of one result; 4 MiB
	Logger      *slog.Logger  // one line a call; slog.Default()
}

func (o *Options) fill() {
	setDefault(&o.Version, "dev")
	setDefault(&o.CallTimeout, 2*time.Minute)
	setDefault(&o.Grace, 10*time.Second)
	setDefault(&o.Concurrency, runtime.GOMAXPROCS(0))
	setDefault(&o.MaxRequest, 4<<20)
	setDefault(&o.MaxResult, 4<<20)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

// Server serves one kit. It never writes to standard output but the protocol.
type Server struct {
	opts  Options
	kit   Kit
	sdk   *sdk.Server
	slots chan struct{} // a token for each call that runs
	queue chan struct{} // a token for each call that runs or waits
}

// waitersPerSlot bounds the calls, and so the memory, that wait for a turn.
const waitersPerSlot = 32

// NewServer returns a server of the kit. A tool that no client could call (a bad
// name, a schema that is not that of an object, a name used twice) is an error.
func NewServer(kit Kit, o Options) (*Server, error) {
	o.fill()
	s := &Server{opts: o, kit: kit, slots: make(chan struct{}, o.Concurrency), queue: make(chan struct{}, waitersPerSlot*o.Concurrency)}
	// No capability but tools. The list of tools never changes, and the SDK's own
	// log lines are only of interest to those who debug it.
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "terraloom", Version: o.Version}, &sdk.ServerOptions{
		Logger:       slog.New(demoted{o.Logger.Handler()}),
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	tools := kit.Tools()
	if len(tools) == 0 {
		return nil, errors.New("a server needs at least one tool")
	}
	seen := make(map[string]bool, len(tools))
	var errs []error
	for _, t := range tools {
		err := checkTool(t)
		if err == nil && seen[t.Name] {
			err = errors.New("the name is used twice")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tool %q: %w", t.Name, err))
			continue
		}
		seen[t.Name] = true
		s.sdk.AddTool(&sdk.Tool{
			Name: t.Name, Description: t.Summary, InputSchema: json.RawMessage(t.Schema),
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: t.Pure, IdempotentHint: true, OpenWorldHint: new(bool)},
		}, s.handle)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// checkTool refuses what the SDK would only log or panic about.
func checkTool(t Tool) error {
	if !toolName.MatchString(t.Name) {
		return fmt.Errorf("a name has 1 to %d letters, digits, dots, dashes and underscores", maxName)
	}
	schema, err := strictjson.Parse([]byte(t.Schema))
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if schema.Get("type").Text() != "object" {
		return errors.New(`schema: "type" must be "object"`)
	}
	return nil
}

// carrierKey is the context key of the context that ends when a connection
// does. The SDK hides that end from handlers but passes values on.
type carrierKey struct{}

func carry(ctx, carrier context.Context) context.Context {
	return context.WithValue(ctx, carrierKey{}, carrier)
}

// handle answers one tools/call. What goes wrong is in the result and not a
// protocol error, so that a model sees it and can act on it.
func (s *Server) handle(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	start, name := time.Now(), req.Params.Name
	ctx, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	if carrier, ok := ctx.Value(carrierKey{}).(context.Context); ok {
		defer context.AfterFunc(carrier, cancel)()
	}
	res, err := s.call(ctx, name, req.Params.Arguments)
	outcome := "ok"
	var f *Fault
	if err != nil {
		if !errors.As(err, &f) {
			f = fault(ErrFailed, "%v", err)
		}
		outcome = string(f.Reason)
	}
	s.opts.Logger.Info("tool call", "tool", name, "outcome", outcome, "ms", time.Since(start).Milliseconds())
	if f != nil {
		return failure(f), nil
	}
	out := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: res.Text}}}
	if !res.Structured.IsAbsent() {
		out.StructuredContent = json.RawMessage(res.Structured.JSON())
	}
	return out, nil
}

// failure is a fault as a result: the text for a model, the reason for programs.
func failure(f *Fault) *sdk.CallToolResult {
	structured := strictjson.Obj(strictjson.Member{Key: "error", Value: strictjson.Obj(
		strictjson.Member{Key: "reason", Value: strictjson.Text(string(f.Reason))},
		strictjson.Member{Key: "message", Value: strictjson.Text(f.Msg)})})
	return &sdk.CallToolResult{
		IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: f.Error()}}, StructuredContent: json.RawMessage(structured.JSON()),
	}
}

// call waits for a slot and runs the tool until it is done or ctx is. A tool that
// goes on after ctx keeps its slot until it returns, so that tools deaf to
// cancellation cannot pile up.
func (s *Server) call(ctx context.Context, name string, raw json.RawMessage) (Result, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	args, err := strictjson.Parse(raw)
	if err != nil {
		return Result{}, fault(ErrArguments, "%v", err)
	}
	select {
	case s.queue <- struct{}{}:
		defer func() { <-s.queue }()
	default:
		return Result{}, fault(ErrBusy, "%d calls are running or waiting; call again later", cap(s.queue))
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return Result{}, fault(ErrCancelled, "the call was cancelled before its turn")
		}
		return Result{}, fault(ErrBusy, "%d calls are running and none ended within %v; call again later", cap(s.slots), s.opts.CallTimeout)
	}
	type answer struct {
		res Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-s.slots }()
		res, err := s.guarded(ctx, name, args)
		done <- answer{res, err}
	}()
	select {
	case a := <-done:
		if n := len(a.res.Text) + len(a.res.Structured.JSON()); a.err == nil && n > s.opts.MaxResult {
			return Result{}, fault(ErrTooLarge, "%d bytes, the limit is %d; ask for less", n, s.opts.MaxResult)
		}
		if a.err != nil && ctx.Err() != nil {
			return Result{}, s.ended(ctx, name)
		}
		return a.res, a.err
	case <-ctx.Done():
		return Result{}, s.ended(ctx, name)
	}
}

func (s *Server) ended(ctx context.Context, name string) *Fault {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fault(ErrCancelled, "%s was cancelled", name)
	}
	return fault(ErrTimeLimit, "%s did not end within %v; give it less to do", name, s.opts.CallTimeout)
}

// guarded turns a panic, which would end the server, into a fault. What the panic
// said is for the log only.
func (s *Server) guarded(ctx context.Context, name string, args strictjson.Value) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("tool panicked", "tool", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			res, err = Result{}, fault(ErrInternal, "%s broke; go on without it", name)
		}
	}()
	return s.kit.Call(ctx, name, args)
}

// demoted is a log handler for the SDK's lines: notes become debug lines.
type demoted struct{ slog.Handler }

func (d demoted) Enabled(ctx context.Context, level slog.Level) bool {
	return d.Handler.Enabled(ctx, demote(level))
}

func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demote(r.Level)
	return d.Handler.Handle(ctx, r)
}

func (d demoted) WithAttrs(a []slog.Attr) slog.Handler { return demoted{d.Handler.WithAttrs(a)} }

func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.Handler.WithGroup(name)} }

func demote(level slog.Level) slog.Level {
	if level < slog.LevelWarn {
		return slog.LevelDebug
	}
	return level
}
