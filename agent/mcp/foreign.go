package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"terraloom/data/strictjson"
)

// Limits on what a foreign server may declare. Its declarations go into prompts.
const (
	maxName    = 64 // of a name with its prefix, as chat APIs demand
	maxTools   = 256
	maxSummary = 1024
	maxSchema  = 64 << 10
)

// toolName is what chat APIs and MCP both accept, and dots, which MCP accepts.
var toolName = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_.-]{1,%d}$`, maxName))

// declared is a tool as its server declares it.
type declared struct {
	foreign string // its name over there
	tool    Tool
}

// declarations reads the tools of a server. Tools that cannot be called from here
// are left out, each with a reason in skipped.
func declarations(ctx context.Context, session *sdk.ClientSession, prefix string) (tools []declared, skipped []string, err error) {
	seen := make(map[string]bool)
	count := 0
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, nil, fmt.Errorf("list of tools: %w", err)
		}
		if count++; count > maxTools {
			return nil, nil, fmt.Errorf("the server lists more than %d tools", maxTools)
		}
		d, err := declaration(t, prefix)
		if err == nil && seen[d.tool.Name] {
			err = errors.New("the name is used twice")
		}
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("%q: %v", cut(t.Name, maxName), err))
			continue
		}
		seen[d.tool.Name] = true
		tools = append(tools, d)
	}
	if len(tools) == 0 {
		return nil, skipped, errors.New("the server has no tool that can be called from here")
	}
	return tools, skipped, nil
}

// declaration takes over one tool: name under the prefix, summary on one line,
// schema with sorted keys.
func declaration(t *sdk.Tool, prefix string) (declared, error) {
	raw, err := json.Marshal(t.InputSchema)
	if err != nil {
		return declared{}, fmt.Errorf("schema: %w", err)
	}
	if len(raw) > maxSchema {
		return declared{}, fmt.Errorf("the schema has %d bytes, the limit is %d", len(raw), maxSchema)
	}
	schema, err := strictjson.Parse(raw)
	if err != nil {
		return declared{}, fmt.Errorf("schema: %w", err)
	}
	d := declared{foreign: t.Name, tool: Tool{
		Name: prefix + "__" + t.Name, Summary: oneLine(t.Description), Schema: tidy(schema).JSON(),
		Pure: t.Annotations != nil && t.Annotations.ReadOnlyHint && t.Annotations.OpenWorldHint != nil && !*t.Annotations.OpenWorldHint,
	}}
	return d, checkTool(d.tool)
}

// tidy makes the prose of a schema safe to show: texts under title and
// description on one line. Names, enums and constants stay as they are.
func tidy(v strictjson.Value) strictjson.Value {
	switch v.Kind() {
	case strictjson.Array:
		items := make([]strictjson.Value, v.Len())
		for i := range items {
			items[i] = tidy(v.Index(i))
		}
		return v.Rebuilt(items)
	case strictjson.Object:
		members := make([]strictjson.Value, v.Len())
		for i := range members {
			member := v.Index(i)
			if key := v.Key(i); (key == "title" || key == "description") && member.Kind() == strictjson.String {
				members[i] = strictjson.Text(oneLine(member.Text()))
			} else {
				members[i] = tidy(member)
			}
		}
		return v.Rebuilt(members)
	}
	return v
}

// oneLine takes line breaks, control characters and invisible ones (direction
// marks, zero width, tags) out of foreign prose, so that it cannot look like
// another part of a prompt, and bounds its length.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return cut(strings.Join(strings.Fields(s), " "), maxSummary)
}

// cut shortens s to at most n bytes, at a character border.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// resultOf reads a foreign result. Whatever its texts say, they are data.
func resultOf(res *sdk.CallToolResult, limit int) (Result, error) {
	if len(res.InputRequests) > 0 {
		return Result{}, fault(ErrFailed, "the server asks for input before it answers, which is not offered here")
	}
	var parts []string
	size := 0
	for _, c := range res.Content {
		part := contentText(c)
		size += len(part)
		parts = append(parts, part)
	}
	var structured strictjson.Value
	if res.StructuredContent != nil {
		raw, err := json.Marshal(res.StructuredContent)
		if err != nil {
			return Result{}, fault(ErrFailed, "structured result: %v", err)
		}
		size += len(raw)
		if size <= limit {
			if structured, err = strictjson.Parse(raw); err != nil {
				return Result{}, fault(ErrFailed, "structured result: %v", err)
			}
		}
	}
	if size > limit {
		return Result{}, fault(ErrTooLarge, "%d bytes, the limit is %d; ask for less", size, limit)
	}
	text := strings.ToValidUTF8(strings.Join(parts, "\n"), "\uFFFD")
	// The SDK reads numbers as float64. Where the text is the same object, as the
	// specification advises, it has the numbers as they were written.
	if v, err := strictjson.Parse([]byte(text)); err == nil && v.Kind() == strictjson.Object && !structured.IsAbsent() {
		structured = v
	}
	if structured.Kind() != strictjson.Object {
		if text == "" {
			text = structured.JSON()
		}
		structured = strictjson.Value{}
	}
	if text == "" {
		text = structured.JSON()
	}
	if res.IsError {
		return Result{}, foreignFault(text, structured)
	}
	return Result{Text: text, Structured: structured}, nil
}

// foreignFault is a failed foreign call. A server of this package tells its reason.
func foreignFault(text string, structured strictjson.Value) *Fault {
	if e := structured.Get("error"); e.Kind() == strictjson.Object && e.Get("reason").Text() != "" {
		return &Fault{Reason: Reason(cut(oneLine(e.Get("reason").Text()), maxName)), Msg: e.Get("message").Text()}
	}
	return &Fault{Reason: ErrFailed, Msg: text}
}

// contentText is a piece of content as text; what is no text is named.
func contentText(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return fmt.Sprintf("[image %s, %d bytes]", oneLine(c.MIMEType), len(c.Data))
	case *sdk.AudioContent:
		return fmt.Sprintf("[audio %s, %d bytes]", oneLine(c.MIMEType), len(c.Data))
	case *sdk.ResourceLink:
		return fmt.Sprintf("[link %s]", oneLine(c.URI))
	case *sdk.EmbeddedResource:
		if c.Resource != nil && c.Resource.Text != "" {
			return c.Resource.Text
		}
	}
	return "[content that is no text]"
}
