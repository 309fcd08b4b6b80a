package serve

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	"terraloom/data/strictjson"
	"terraloom/lora/chat"
	"terraloom/lora/generate"
	"terraloom/lora/serve/toolcall"
)

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	common
	conversation chat.Conversation
	variables    map[string]chat.Value
	tools        toolcall.Tools // nil: none were offered
	schema       json.RawMessage
	logprobs     bool
	alternatives int
}

func (s *Server) readChat(w http.ResponseWriter, r *http.Request) (*chatRequest, error) {
	f, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	q := &chatRequest{common: s.common(&f)}
	q.max = f.integer("max_tokens", 1, 1<<30, 0)
	q.max = f.integer("max_completion_tokens", 1, 1<<30, q.max)
	q.logprobs = f.flag("logprobs")
	if q.alternatives = f.integer("top_logprobs", 0, 20, 0); q.alternatives > 0 && !q.logprobs {
		f.fail("top_logprobs", "only with \"logprobs\": true")
	}
	messages, _ := f.typed("messages", strictjson.Array)
	tools := f.get("tools")
	choice := f.get("tool_choice")
	format, formatted := f.inner("response_format")
	if formatted {
		q.schema = readFormat(&format)
	}
	if variables, ok := f.typed("chat_template_kwargs", strictjson.Object); ok {
		q.variables = map[string]chat.Value{}
		for i := range variables.Len() {
			if q.variables[variables.Key(i)], err = chat.ParseValue([]byte(variables.Index(i).JSON())); err != nil {
				f.fail("chat_template_kwargs", "%s", err)
			}
		}
	}
	if err := f.done(format); err != nil {
		return nil, err
	}
	if q.conversation.Messages, err = readMessages(messages); err != nil {
		return nil, err
	}
	if err := q.readTools(tools, choice); err != nil {
		return nil, err
	}
	if q.tools != nil && q.schema != nil {
		return nil, invalid("response_format", "response_format beside tools is not supported: offer one of them")
	}
	return q, nil
}

// readFormat reads response_format; nil: text.
func readFormat(f *fields) json.RawMessage {
	switch kind := f.text("type"); kind {
	case "text":
	case "json_object":
		return json.RawMessage(`{"type":"object"}`)
	case "json_schema":
		inner, ok := f.inner("json_schema")
		if !ok {
			f.fail("json_schema", "expected an object with a schema")
			return nil
		}
		inner.text("name")
		inner.text("description")
		inner.flag("strict") // always kept
		schema, ok := inner.typed("schema", strictjson.Object)
		if !ok {
			inner.fail("schema", "expected a JSON schema")
		}
		if err := inner.done(); err != nil && f.err == nil {
			f.err = err
		}
		return json.RawMessage(schema.JSON())
	default:
		f.fail("type", "%q is not one of text, json_object, json_schema", kind)
	}
	return nil
}

// readMessages reads the conversation. Parts of content are joined: only text can be understood.
func readMessages(list strictjson.Value) ([]chat.Message, error) {
	if list.Len() == 0 {
		return nil, invalid("messages", "messages: expected a list with at least one message")
	}
	messages, err := chat.ParseMessages([]byte(list.JSON()))
	if err != nil {
		return nil, invalid("messages", "messages: %s", err)
	}
	for i := range messages {
		content := list.Index(i).Get("content")
		switch content.Kind() {
		case strictjson.String, strictjson.Null, strictjson.Absent:
			continue
		case strictjson.Array:
		default:
			return nil, invalid("messages", "message %d: content must be a text or a list of parts", i)
		}
		var text strings.Builder
		for j := range content.Len() {
			part := content.Index(j)
			if kind := part.Get("type").Text(); kind != "text" || part.Get("text").Kind() != strictjson.String {
				return nil, invalid("messages", "message %d, part %d: %q is not supported, only text is", i, j, kind)
			}
			text.WriteString(part.Get("text").Text())
		}
		joined, err := chat.ParseValue([]byte(strictjson.Text(text.String()).JSON()))
		if err != nil {
			return nil, invalid("messages", "message %d: %s", i, err)
		}
		messages[i] = messages[i].With("content", joined)
	}
	if messages, err = chat.DecodeToolArguments(messages); err != nil {
		return nil, invalid("messages", "messages: %s", err)
	}
	return messages, nil
}

// readTools reads tools and tool_choice.
func (q *chatRequest) readTools(tools, choice strictjson.Value) error {
	switch choice.Kind() {
	case strictjson.Absent:
	case strictjson.String:
		if c := choice.Text(); c != "auto" && c != "none" {
			return invalid("tool_choice", "tool_choice %q is not supported: use auto or none", c)
		}
	default:
		return invalid("tool_choice", "a named tool_choice is not supported: offer only that tool, or use response_format")
	}
	if tools.IsAbsent() || tools.Kind() == strictjson.Array && tools.Len() == 0 {
		return nil
	}
	if tools.Kind() != strictjson.Array {
		return invalid("tools", "tools: expected a list")
	}
	q.tools = toolcall.Tools{}
	for i := range tools.Len() {
		tool := tools.Index(i)
		function := tool.Get("function")
		name := function.Get("name")
		if tool.Get("type").Text() != "function" || name.Kind() != strictjson.String || name.Text() == "" {
			return invalid("tools", "tool %d: expected {\"type\": \"function\", \"function\": {\"name\": …, \"parameters\": …}}", i)
		}
		if _, twice := q.tools[name.Text()]; twice {
			return invalid("tools", "tool %d: %q is there twice", i, name.Text())
		}
		q.tools[name.Text()] = function.Get("parameters")
		v, err := chat.ParseValue([]byte(tool.JSON()))
		if err != nil {
			return invalid("tools", "tool %d: %s", i, err)
		}
		q.conversation.Tools = append(q.conversation.Tools, v)
	}
	if choice.Text() == "none" {
		q.tools, q.conversation.Tools = nil, nil
	}
	return nil
}

// render makes the prompt. thinking: it ends inside the model's reasoning.
func (s *Server) render(ctx context.Context, q *chatRequest) (prompt []int32, thinking bool, err error) {
	if s.model.Codec == nil {
		return nil, false, invalid("", "the model has no chat template: use /v1/completions")
	}
	variables := maps.Clone(s.model.Variables[q.model])
	if variables == nil {
		variables = q.variables
	} else {
		maps.Copy(variables, q.variables)
	}
	r, err := s.model.Codec.Template.Render(ctx, q.conversation, chat.Options{AddGenerationPrompt: true, Variables: variables, Now: time.Now()})
	if err != nil {
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		return nil, false, invalid("messages", "%s", err)
	}
	for name := range q.tools {
		if s.model.Calls == toolcall.None || !strings.Contains(r.Text, name) {
			return nil, false, invalid("tools", "the model's chat template does not show it any tools")
		}
	}
	thinking = strings.HasSuffix(strings.TrimRight(r.Text, "\n"), "<think>")
	if thinking && q.schema != nil {
		return nil, false, invalid("response_format", "the model would think first: send \"chat_template_kwargs\": {\"enable_thinking\": false}")
	}
	return s.model.Codec.Encode(r), thinking, nil
}

func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readChat(w, r)
	if err != nil {
		return err
	}
	leave, err := s.enter(q.n)
	if err != nil {
		return err
	}
	defer leave()
	prompt, thinking, err := s.render(r.Context(), q)
	if err != nil {
		return err
	}
	rows := make([]generate.Request, q.n)
	for i := range rows {
		rows[i] = q.row(prompt, i)
		rows[i].Schema, rows[i].Alternatives = q.schema, q.alternatives
	}
	format := s.model.Calls
	if q.tools == nil {
		format = toolcall.None
	}
	answers := make([]*chatAnswer, q.n)
	for i := range answers {
		answers[i] = &chatAnswer{server: s, parser: toolcall.New(format, q.tools, thinking), logprobs: q.logprobs}
	}
	header := completionHeader{ID: newID("chatcmpl-"), Object: "chat.completion", Created: time.Now().Unix(), Model: q.shown}
	out := w.(*recorder)
	if !q.stream {
		return s.answerWhole(r.Context(), out, rows, &header, func(i int, p generate.Piece) { answers[i].take(p) },
			func(i int) any { return answers[i].choice(i) })
	}
	header.Object = "chat.completion.chunk"
	return s.answerStream(r.Context(), out, rows, &header, q.usage,
		func(i int) any { return chunkChoice{Index: i, Delta: delta{Role: "assistant", Content: new("")}} },
		func(i int, p generate.Piece) []any { return answers[i].chunks(i, p) })
}
