package chat

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"terraloom/lora/chat/jinja"
)

// Value is a JSON value that keeps the order of object keys, 1 apart from 1.0, and integers of any size: templates print all three.
// Make one with ParseValue, or take one of the types of package jinja (Text, Bool, Int, Float, None, *List, *Dict).
type Value = jinja.Value

// ParseValue reads one JSON value, refusing repeated keys, invalid UTF-8 and numbers that do not survive a round trip.
func ParseValue(data []byte) (Value, error) { return jinja.ParseJSON(data) }

// Message is one turn of a conversation: a JSON object with at least a role. Which other keys matter (content, tool_calls,
// reasoning_content, tool_call_id …) is up to the template. Messages are immutable.
type Message struct{ fields *jinja.Dict }

// NewMessage returns the plain message {"role": role, "content": content}.
func NewMessage(role, content string) Message {
	d := jinja.NewDict()
	d.Set("role", jinja.NewText(role, jinja.FromTemplate))
	d.Set("content", jinja.NewText(content, jinja.FromTemplate))
	return Message{d}
}

// ParseMessages reads a JSON array of messages.
func ParseMessages(data []byte) ([]Message, error) {
	v, err := ParseValue(data)
	if err != nil {
		return nil, err
	}
	list, ok := v.(*jinja.List)
	if !ok {
		return nil, errors.New("messages must be a JSON array of objects")
	}
	out := make([]Message, len(list.Items()))
	for i, item := range list.Items() {
		if out[i], err = asMessage(item); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return out, nil
}

func asMessage(v Value) (Message, error) {
	d, ok := v.(*jinja.Dict)
	if !ok {
		return Message{}, errors.New("a message must be a JSON object")
	}
	if role, _ := d.Get("role"); textOf(role) == "" {
		return Message{}, errors.New(`a message needs a "role", which is a non-empty string`)
	}
	return Message{d}, nil
}

// UnmarshalJSON reads a message as ParseMessages does.
func (m *Message) UnmarshalJSON(data []byte) error {
	v, err := ParseValue(data)
	if err != nil {
		return err
	}
	*m, err = asMessage(v)
	return err
}

// Role returns the role of the message.
func (m Message) Role() string { return m.Text("role") }

// Text returns the value of a key that holds a string, or "".
func (m Message) Text(key string) string {
	v, _ := m.Get(key)
	return textOf(v)
}

// Get returns the value of a key.
func (m Message) Get(key string) (Value, bool) {
	if m.fields == nil {
		return nil, false
	}
	return m.fields.Get(key)
}

// With returns a copy of the message in which the key has the given value.
func (m Message) With(key string, v Value) Message { return Message{with(m.fields, key, v)} }

// with returns a copy of d in which the key has the given value; a new key goes to the end.
func with(d *jinja.Dict, key string, v Value) *jinja.Dict {
	out := jinja.NewDict()
	if d != nil {
		for k, old := range d.Entries {
			out.Set(textOf(k), old)
		}
	}
	out.Set(key, v)
	return out
}

func textOf(v Value) string {
	if t, ok := v.(jinja.Text); ok {
		return t.String()
	}
	return ""
}

// DecodeToolArguments returns the messages with every tool call whose arguments are JSON text, as the OpenAI API carries them,
// changed to hold the object itself, which is what templates of tool-calling models expect. So both spellings render alike.
func DecodeToolArguments(messages []Message) ([]Message, error) {
	out := make([]Message, len(messages))
	for i, m := range messages {
		out[i] = m
		calls, _ := m.Get("tool_calls")
		list, ok := calls.(*jinja.List)
		if !ok {
			continue
		}
		decoded := make([]Value, len(list.Items()))
		for j, call := range list.Items() {
			var err error
			if decoded[j], err = decodeCall(call); err != nil {
				return nil, fmt.Errorf("message %d (%s), tool call %d: %w", i, m.Role(), j, err)
			}
		}
		out[i] = m.With("tool_calls", jinja.NewList(decoded...))
	}
	return out, nil
}

func decodeCall(call Value) (Value, error) {
	d, ok := call.(*jinja.Dict)
	if !ok {
		return call, nil
	}
	if fn, ok := d.Get("function"); ok {
		inner, err := decodeCall(fn)
		if err != nil {
			return nil, err
		}
		return with(d, "function", inner), nil
	}
	args, _ := d.Get("arguments")
	text, ok := args.(jinja.Text)
	if !ok {
		return call, nil
	}
	v, err := ParseValue([]byte(text.String()))
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	if _, ok := v.(*jinja.Dict); !ok {
		return nil, errors.New("arguments must be a JSON object")
	}
	return with(d, "arguments", v), nil
}

// reasoningKeys are the names under which reasoning is passed, the standard one first.
var reasoningKeys = []string{"reasoning_content", "thinking", "reasoning"}

// prepare turns a message into what the template sees, as transformers does: keys with null values are dropped, and reasoning is put
// under both reasoning_content and thinking. All of its strings get the given origin, except a role that is a plain word:
// templates build control tokens from roles.
func (m Message) prepare(origin jinja.Origin) (*jinja.Dict, error) {
	kept, out := jinja.NewDict(), jinja.NewDict()
	if m.fields != nil {
		for k, v := range m.fields.Entries {
			if _, null := v.(jinja.None); !null {
				kept.Set(textOf(k), v)
			}
		}
	}
	var reasoning Value
	for _, k := range reasoningKeys {
		if v, ok := kept.Get(k); ok {
			reasoning = v
			out.Set("thinking", jinja.WithOrigin(v, origin))
			break
		}
	}
	for k, v := range kept.Entries {
		key := textOf(k)
		if !utf8.ValidString(key) || !utf8.ValidString(textOf(v)) {
			return nil, fmt.Errorf("the key %q does not hold valid UTF-8", key)
		}
		if key == "role" && isWord(textOf(v)) {
			out.Set(key, v)
		} else {
			out.Set(key, jinja.WithOrigin(v, origin))
		}
	}
	if reasoning != nil {
		out.Set("reasoning_content", jinja.WithOrigin(reasoning, origin))
	}
	return out, nil
}

func isWord(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) < 0
}
