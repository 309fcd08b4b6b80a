package mcp

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// drainTransport makes a connection that ends only after it has answered. The SDK
// drops running calls as soon as its input ends, so that a client which writes
// its requests and closes its end, as a shell pipe does, would get no answer.
type drainTransport struct {
	sdk.Transport
	stop context.Context // its end is the end of the input
}

func (t *drainTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &drainConn{Connection: c, stop: t.stop, open: make(map[jsonrpc.ID]bool), closed: make(chan struct{})}, nil
}

type drainConn struct {
	sdk.Connection
	stop context.Context

	mu     sync.Mutex
	open   map[jsonrpc.ID]bool // requests without an answer
	idle   chan struct{}       // if set, closed once open is empty
	once   sync.Once
	closed chan struct{}
}

// Read is the next message, or io.EOF once the input has ended and every request
// is answered.
func (c *drainConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stop, cancel)()
	msg, err := c.Connection.Read(reading)
	if err == nil {
		if r, ok := msg.(*jsonrpc.Request); ok && r.IsCall() {
			c.mu.Lock()
			c.open[r.ID] = true
			c.mu.Unlock()
		}
		return msg, nil
	}
	if c.stop.Err() != nil {
		err = io.EOF
	}
	if err != io.EOF {
		return nil, err
	}
	c.mu.Lock()
	c.idle = make(chan struct{})
	c.checkIdle()
	c.mu.Unlock()
	select {
	case <-c.idle:
	case <-c.closed:
	case <-ctx.Done():
	}
	return nil, io.EOF
}

// Write sends a message and notes answers.
func (c *drainConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	err := c.Connection.Write(ctx, msg)
	if r, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.open, r.ID)
		c.checkIdle()
		c.mu.Unlock()
	}
	return err
}

// checkIdle tells the waiting Read, if any. The caller holds mu.
func (c *drainConn) checkIdle() {
	if c.idle != nil && len(c.open) == 0 {
		select {
		case <-c.idle:
		default:
			close(c.idle)
		}
	}
}

// Close ends the connection.
func (c *drainConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
