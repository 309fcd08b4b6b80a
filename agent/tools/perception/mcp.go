package perception

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"terraloom/agent/mcp"
	"terraloom/data/strictjson"
)

// MCP asks the tools of an MCP server. A request goes to the tool that is named
// like the model ("SM3Det"), else like the task ("detect"), else to "perceive";
// each takes the object that HTTP posts and answers with the object that HTTP
// gets, as structured content or as text. A failed call whose structured error has
// the reason "unknown image" means that the model does not know the image.
type MCP struct {
	server mcp.Kit
	tools  map[string]string // by the name that the server gives
}

// UnknownImage is the reason by which a server says that it does not know an image.
const UnknownImage = mcp.Reason("unknown image")

// NewMCP returns a perceiver over a server, which stays the caller's to close.
// Names may carry the prefix under which a server is mounted.
func NewMCP(server mcp.Kit) *MCP {
	m := &MCP{server: server, tools: map[string]string{}}
	for _, t := range server.Tools() {
		bare := t.Name
		if _, after, ok := strings.Cut(t.Name, "__"); ok {
			bare = after
		}
		m.tools[bare] = t.Name
	}
	return m
}

// Backend is "mcp".
func (m *MCP) Backend() string { return "mcp" }

// Perceive calls the tool for the request and reads its answer.
func (m *MCP) Perceive(ctx context.Context, r Request) (Reply, error) {
	name := ""
	for _, bare := range []string{r.Model, string(r.Task), "perceive"} {
		if name = m.tools[bare]; name != "" {
			break
		}
	}
	if name == "" {
		return Reply{}, fmt.Errorf("the MCP server has no tool %s, %s or perceive: %w", r.Model, r.Task, ErrServer)
	}
	text, err := encode(&r)
	if err != nil {
		return Reply{}, err
	}
	args, err := strictjson.Parse(text)
	if err != nil {
		return Reply{}, err
	}
	res, err := m.server.Call(ctx, name, args)
	switch {
	case errors.Is(err, UnknownImage):
		return Reply{}, fmt.Errorf("%s: %w: %w", r.Model, err, ErrUnknownImage)
	case err != nil && ctx.Err() != nil:
		return Reply{}, ctx.Err()
	case err != nil:
		return Reply{}, fmt.Errorf("%s: %w: %w", r.Model, err, ErrServer)
	case res.Structured.Kind() == strictjson.Object:
		return decode(&r, []byte(res.Structured.JSON()))
	}
	return decode(&r, []byte(res.Text))
}
