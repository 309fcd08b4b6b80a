package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"terraloom/data/strictjson"
)

// MountOptions set the limits of a mounted server. The zero value of each field,
// but for Prefix, is its default.
type MountOptions struct {
	Prefix         string        // a tool t appears as Prefix__t; required
	Version        string        // of the program, for the server
	ConnectTimeout time.Duration // to start, shake hands and list tools; 30 seconds
	CallTimeout    time.Duration // of one call, a restart included; 1 minute
	MaxResult      int           // bytes of one result; 1 MiB
	Backoff        time.Duration // before the first restart, doubled with each failure; 200 ms
	MaxBackoff     time.Duration // 30 seconds
	Logger         *slog.Logger  // slog.Default()
}

func (o *MountOptions) fill() {
	setDefault(&o.Version, "dev")
	setDefault(&o.ConnectTimeout, 30*time.Second)
	setDefault(&o.CallTimeout, time.Minute)
	setDefault(&o.MaxResult, 1<<20)
	setDefault(&o.Backoff, 200*time.Millisecond)
	setDefault(&o.MaxBackoff, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("mount", o.Prefix)
}

var mountPrefix = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,23}$`)

// maxStrikes is how many calls in a row may run out of time before the server
// counts as hung and is started anew.
const maxStrikes = 2

// Mounted is the kit of a foreign server. Its tools are those that the server had
// when it was mounted: a server that comes back with another declaration of a tool
// cannot slip it under the old name. The server gets nothing but calls: it may not
// ask for a model's answers, a person's input or the file system, and its
// instructions are not read.
type Mounted struct {
	opts  MountOptions
	dial  dialer
	tools []declared

	ended context.Context // ends with Close
	end   context.CancelFunc
	drops sync.WaitGroup // sessions that are closing

	// link guards the connection; it is a channel so that waiting for it can end
	// with a context.
	link chan *link
}

// link is the connection and its history.
type link struct {
	session  *sdk.ClientSession // nil while there is none
	gone     chan struct{}      // closed once the session has ended
	current  []declared         // what the server declared on this connection
	failures int                // in a row: failed starts, crashes, hangs
	strikes  int                // calls in a row that ran out of time
	next     time.Time          // no start before
	lastErr  error
	closed   bool
}

// Mount starts or reaches a server and takes over its tools. Close ends it.
func Mount(ctx context.Context, src Source, o MountOptions) (*Mounted, error) {
	if !mountPrefix.MatchString(o.Prefix) {
		return nil, fmt.Errorf("prefix %q: give a letter and up to 23 more letters, digits or -", o.Prefix)
	}
	o.fill()
	dial, err := src.dialer(o.Logger)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", o.Prefix, err)
	}
	return mount(ctx, dial, o)
}

// mount is Mount for filled options.
func mount(ctx context.Context, dial dialer, o MountOptions) (*Mounted, error) {
	m := &Mounted{opts: o, dial: dial, link: make(chan *link, 1)}
	m.ended, m.end = context.WithCancel(context.Background())
	l := &link{}
	if err := m.connect(ctx, l); err != nil {
		m.end()
		m.drops.Wait()
		return nil, fmt.Errorf("mount %s: %w", o.Prefix, err)
	}
	m.tools = l.current
	m.link <- l
	return m, nil
}

// Tools lists the server's tools, each under the prefix.
func (m *Mounted) Tools() []Tool {
	tools := make([]Tool, len(m.tools))
	for i, d := range m.tools {
		tools[i] = d.tool
	}
	return tools
}

// Call calls a tool by its name with the prefix. A server that crashed is started
// again first, after a pause that doubles with each failure in a row; where the
// pause is longer than the call may wait, the answer is ErrDown at once. A call
// during which the server crashes is ErrDown and is not repeated: it may have had
// an effect.
func (m *Mounted) Call(ctx context.Context, name string, args strictjson.Value) (Result, error) {
	i := slices.IndexFunc(m.tools, func(d declared) bool { return d.tool.Name == name })
	if i < 0 {
		return Result{}, fault(ErrUnknown, "%q is not one of the %d tools of %s", name, len(m.tools), m.opts.Prefix)
	}
	if args.Kind() != strictjson.Object {
		return Result{}, fault(ErrArguments, "the arguments must be an object, got %s", args.Kind())
	}
	limit, cancel := context.WithTimeout(ctx, m.opts.CallTimeout)
	defer cancel()
	defer context.AfterFunc(m.ended, cancel)()
	session, err := m.session(limit, m.tools[i])
	if err != nil {
		return Result{}, m.explain(ctx, limit, name, err)
	}
	res, err := session.CallTool(limit, &sdk.CallToolParams{Name: m.tools[i].foreign, Arguments: json.RawMessage(args.JSON())})
	m.report(session, err, limit.Err() != nil && ctx.Err() == nil)
	if err != nil {
		return Result{}, m.explain(ctx, limit, name, err)
	}
	return resultOf(res, m.opts.MaxResult)
}

// Close ends the calls that run, the connection, and the server if it was started
// here, and waits for all of them.
func (m *Mounted) Close() {
	m.end()
	l := <-m.link
	l.closed = true
	m.drop(l)
	m.link <- l
	m.drops.Wait()
}

// explain makes the error of a call a fault: ctx is the caller's, limit has the
// time limit too.
func (m *Mounted) explain(ctx, limit context.Context, name string, err error) error {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	refusal := answered(err)
	switch {
	case m.ended.Err() != nil:
		return fault(ErrDown, "%s was closed", m.opts.Prefix)
	case errors.Is(ctx.Err(), context.Canceled):
		return fault(ErrCancelled, "%s was cancelled", name)
	case limit.Err() != nil:
		return fault(ErrTimeLimit, "%s did not end in time; give it less to do", name)
	case refusal != nil && refusal.Code == jsonrpc.CodeInvalidParams:
		return fault(ErrArguments, "%s", cut(refusal.Message, maxSummary))
	case refusal != nil:
		return fault(ErrFailed, "%s", cut(refusal.Message, maxSummary))
	}
	return fault(ErrDown, "%s ended during the call; it is started again at the next one (%s)", m.opts.Prefix, cut(err.Error(), maxSummary))
}

// answered is the JSON-RPC error with which the server answered, if it did. The SDK
// gives requests that did not reach it an error of the same type, with this code.
func answered(err error) *jsonrpc.Error {
	const rejected = -32005
	var e *jsonrpc.Error
	if errors.As(err, &e) && e.Code != rejected {
		return e
	}
	return nil
}

// session returns the live connection, making a new one if need be, on which the
// tool is what it was.
func (m *Mounted) session(ctx context.Context, want declared) (*sdk.ClientSession, error) {
	var l *link
	select {
	case l = <-m.link:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { m.link <- l }()
	if l.closed {
		return nil, fault(ErrDown, "%s was closed", m.opts.Prefix)
	}
	select {
	case <-l.gone:
		if l.session != nil { // it ended between two calls
			m.fail(l, errors.New("the connection ended"))
		}
	default:
	}
	if l.session == nil {
		if deadline, _ := ctx.Deadline(); l.next.After(deadline) {
			return nil, fault(ErrDown, "%s failed %d times in a row and is tried again in %v (%s)",
				m.opts.Prefix, l.failures, time.Until(l.next).Round(time.Second), cut(l.lastErr.Error(), maxSummary))
		}
		pause := time.NewTimer(time.Until(l.next))
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := m.connect(ctx, l); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fault(ErrDown, "%s cannot be started again: %s", m.opts.Prefix, cut(err.Error(), maxSummary))
		}
		m.opts.Logger.Info("mounted server is back", "failures", l.failures)
	}
	if !slices.Contains(l.current, want) {
		return nil, fault(ErrChanged, "%s came back with another %s; mount it again", m.opts.Prefix, want.tool.Name)
	}
	return l.session, nil
}

// connect opens a session and reads the tools. A failure counts unless ctx ended.
func (m *Mounted) connect(ctx context.Context, l *link) error {
	limit, cancel := context.WithTimeout(ctx, m.opts.ConnectTimeout)
	defer cancel()
	err := func() error {
		transport, err := m.dial()
		if err != nil {
			return err
		}
		client := sdk.NewClient(&sdk.Implementation{Name: "terraloom", Version: m.opts.Version}, &sdk.ClientOptions{
			Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		})
		session, err := client.Connect(limit, transport, nil)
		if err != nil {
			return err
		}
		gone := make(chan struct{})
		go func() { _ = session.Wait(); close(gone) }() // that it ended is all that matters
		l.session, l.gone = session, gone
		var skipped []string
		l.current, skipped, err = declarations(limit, session, m.opts.Prefix)
		for _, s := range skipped {
			m.opts.Logger.Warn("a tool of the mounted server is left out", "tool", s)
		}
		return err
	}()
	switch {
	case err == nil:
	case ctx.Err() != nil: // the caller's will
		m.drop(l)
	default:
		m.fail(l, err)
	}
	return err
}

// report notes how a call on a session ended: an answer of any kind clears the
// history, a broken connection or repeated silence ends the session.
func (m *Mounted) report(session *sdk.ClientSession, err error, timedOut bool) {
	l := <-m.link
	defer func() { m.link <- l }()
	if l.session != session {
		return // another call has reported its end
	}
	switch {
	case err == nil || answered(err) != nil:
		l.failures, l.strikes = 0, 0
	case timedOut:
		if l.strikes++; l.strikes >= maxStrikes {
			m.fail(l, fmt.Errorf("%d calls in a row ran out of time", l.strikes))
		}
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded): // the caller's will
	default:
		m.fail(l, err)
	}
}

// fail ends the session and sets the pause before the next.
func (m *Mounted) fail(l *link, err error) {
	pause := m.opts.MaxBackoff
	if l.failures < 16 {
		pause = min(pause, m.opts.Backoff<<l.failures)
	}
	l.failures++
	l.strikes, l.lastErr, l.next = 0, err, time.Now().Add(pause)
	m.opts.Logger.Warn("mounted server failed", "failures", l.failures, "pause", pause, "error", cut(oneLine(err.Error()), maxSummary))
	m.drop(l)
}

// drop closes the session, if there is one, without waiting: a server that hangs
// takes its time to end.
func (m *Mounted) drop(l *link) {
	if l.session == nil {
		return
	}
	session := l.session
	l.session, l.current = nil, nil
	m.drops.Go(func() { _ = session.Close() }) // how it ended does not matter any more
}
