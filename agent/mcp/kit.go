// Package mcp speaks the Model Context Protocol in both directions. A Server
// gives a tool kit to any MCP client over stdio or streamable HTTP; Mount makes
// the tools of a foreign MCP server callable here. Both sides meet in Kit, so a
// mounted server can be served again.
//
// Specification: modelcontextprotocol.io, revisions 2025-03-26 to 2026-07-28.
package mcp

import (
	"context"
	"fmt"
	"slices"

	"terraloom/data/strictjson"
)

// Kit is a set of callable tools. It is safe for concurrent use.
type Kit interface {
	// Tools lists the tools in the order in which a client sees them.
	Tools() []Tool
	// Call runs the tool of that name. It checks the arguments, an object,
	// itself. An error that is not a *Fault counts as ErrFailed.
	Call(ctx context.Context, name string, args strictjson.Value) (Result, error)
}

// Tool is one tool as a client sees it.
type Tool struct {
	Name    string
	Summary string
	Schema  string // JSON Schema of the argument object
	Pure    bool   // it changes nothing and depends on its arguments alone
}

// Result is what a tool answered.
type Result struct {
	Text       string           // what a model sees
	Structured strictjson.Value // the same for programs, an object; Absent if there is none
}

// Reason is the kind of a Fault. The constants below are those that this package
// finds itself; a kit may have more. errors.Is finds them in a *Fault.
type Reason string

func (r Reason) Error() string { return string(r) }

// The reasons of this package.
const (
	ErrArguments = Reason("bad arguments")    // the agent can repair the arguments
	ErrUnknown   = Reason("unknown tool")     // no tool of that name here
	ErrFailed    = Reason("tool failed")      // the tool says that it failed
	ErrTimeLimit = Reason("time limit")       // the call took too long
	ErrBusy      = Reason("busy")             // too many calls are running
	ErrCancelled = Reason("cancelled")        // the caller or the server is going away
	ErrTooLarge  = Reason("result too large") // more than the limit on results
	ErrDown      = Reason("server down")      // a mounted server does not answer
	ErrChanged   = Reason("tool changed")     // a mounted server came back with another declaration
	ErrInternal  = Reason("internal error")   // a broken invariant
)

// Fault is a failed call, written for the agent: why, and what to do.
type Fault struct {
	Reason Reason
	Msg    string
}

func (f *Fault) Error() string { return string(f.Reason) + ": " + f.Msg }

// Unwrap lets errors.Is find the reason.
func (f *Fault) Unwrap() error { return f.Reason }

func fault(reason Reason, format string, args ...any) *Fault {
	return &Fault{Reason: reason, Msg: fmt.Sprintf(format, args...)}
}

// Subset is the part of a kit whose tools have the given names, in the kit's
// order. Names that the kit lacks are left out; an empty rest is an error.
func Subset(kit Kit, names []string) (Kit, error) {
	s := &subset{kit: kit}
	for _, t := range kit.Tools() {
		if slices.Contains(names, t.Name) {
			s.tools = append(s.tools, t)
		}
	}
	if len(s.tools) == 0 {
		return nil, fmt.Errorf("the kit has none of the %d tools asked for", len(names))
	}
	return s, nil
}

type subset struct {
	kit   Kit
	tools []Tool
}

func (s *subset) Tools() []Tool { return slices.Clone(s.tools) }

func (s *subset) Call(ctx context.Context, name string, args strictjson.Value) (Result, error) {
	if !slices.ContainsFunc(s.tools, func(t Tool) bool { return t.Name == name }) {
		return Result{}, fault(ErrUnknown, "%q is not one of the %d tools here", name, len(s.tools))
	}
	return s.kit.Call(ctx, name, args)
}
