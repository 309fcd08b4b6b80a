package llm

import (
	"encoding/base64"
	"fmt"
	"strings"

	"terraloom/data/strictjson"
)

// object builds a JSON object of alternating keys and values; Absent ones are left out.
func object(pairs ...any) strictjson.Value {
	members := make([]strictjson.Member, len(pairs)/2)
	for i := range members {
		members[i] = strictjson.Member{Key: pairs[2*i].(string), Value: pairs[2*i+1].(strictjson.Value)}
	}
	return strictjson.Obj(members...)
}

// value is the message as the API has it.
func (m *Message) value() strictjson.Value {
	content := strictjson.Text(m.Content)
	if len(m.Images) > 0 {
		parts := []strictjson.Value{object("type", strictjson.Text("text"), "text", content)}
		for _, img := range m.Images {
			url := "data:" + img.MIME + ";base64," + base64.StdEncoding.EncodeToString(img.Data)
			parts = append(parts, object("type", strictjson.Text("image_url"), "image_url", object("url", strictjson.Text(url))))
		}
		content = strictjson.List(parts...)
	}
	var id strictjson.Value
	if m.CallID != "" {
		id = strictjson.Text(m.CallID)
	}
	return object("role", strictjson.Text(m.Role), "content", content, "tool_calls", callsValue(m.Calls), "tool_call_id", id)
}

func callsValue(calls []ToolCall) strictjson.Value {
	if len(calls) == 0 {
		return strictjson.Value{}
	}
	items := make([]strictjson.Value, len(calls))
	for i, c := range calls {
		items[i] = object("id", strictjson.Text(c.ID), "type", strictjson.Text("function"),
			"function", object("name", strictjson.Text(c.Name), "arguments", strictjson.Text(c.Arguments)))
	}
	return strictjson.List(items...)
}

func toolsValue(tools []Tool) strictjson.Value {
	if len(tools) == 0 {
		return strictjson.Value{}
	}
	items := make([]strictjson.Value, len(tools))
	for i, t := range tools {
		schema, err := strictjson.Parse([]byte(t.Schema))
		if err != nil {
			schema = object("type", strictjson.Text("object"))
		}
		items[i] = object("type", strictjson.Text("function"), "function",
			object("name", strictjson.Text(t.Name), "description", strictjson.Text(t.Description), "parameters", schema))
	}
	return strictjson.List(items...)
}

// body is the request as the API has it.
func (r *Request) body(model string, stream bool) strictjson.Value {
	messages := make([]strictjson.Value, len(r.Messages))
	for i := range r.Messages {
		messages[i] = r.Messages[i].value()
	}
	var most, streamed, options strictjson.Value
	if r.MaxTokens > 0 {
		most = strictjson.Int(r.MaxTokens)
	}
	if stream {
		streamed, options = strictjson.Boolean(true), object("include_usage", strictjson.Boolean(true))
	}
	return object("model", strictjson.Text(model), "messages", strictjson.List(messages...), "temperature", number(r.Temperature),
		"max_tokens", most, "tools", toolsValue(r.Tools), "stream", streamed, "stream_options", options)
}

func number(f float64) strictjson.Value {
	if f == 0 {
		return strictjson.Int(0)
	}
	return strictjson.Float(f)
}

// readReply reads a whole answer.
func readReply(v strictjson.Value) (Reply, error) {
	message, ok := v.At("/choices/0/message")
	if !ok {
		return Reply{}, fmt.Errorf("the reply has no /choices/0/message: %s", clip(v.JSON()))
	}
	r := Reply{Text: message.Get("content").Text(), Calls: readCalls(message.Get("tool_calls"))}
	if message.Get("content").Kind() != strictjson.String && len(r.Calls) == 0 {
		return Reply{}, fmt.Errorf("the reply has neither text in /choices/0/message/content nor tool calls: %s", clip(v.JSON()))
	}
	finish, _ := v.At("/choices/0/finish_reason")
	r.Finish = finish.Text()
	r.Usage = readUsage(v.Get("usage"))
	return r, nil
}

func readCalls(list strictjson.Value) []ToolCall {
	var calls []ToolCall
	for i := range list.Len() {
		c := list.Index(i)
		f := c.Get("function")
		args := f.Get("arguments")
		text := args.Text()
		if args.Kind() == strictjson.Object { // some servers do not write it as text
			text = args.JSON()
		}
		calls = append(calls, ToolCall{ID: c.Get("id").Text(), Name: f.Get("name").Text(), Arguments: text})
	}
	return calls
}

func readUsage(v strictjson.Value) Usage {
	p, _ := v.Get("prompt_tokens").Float()
	c, _ := v.Get("completion_tokens").Float()
	return Usage{Prompt: max(int(p), 0), Completion: max(int(c), 0)}
}

// clip shortens a text for an error.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
