// Package chat renders conversations with the template that ships with a checkpoint, as transformers' apply_chat_template does, so that
// training, serving and other servers see one text. Beside the text it tells who wrote each piece of it: the template or a message, and
// whether the assistant did. A trainer labels the assistant's pieces and a tokenizer looks for control tokens only in the template's;
// neither ever searches the text for markers or sentences, which a user could have written too.
package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"terraloom/lora/chat/jinja"
)

var (
	// ErrEmpty: the conversation has no messages.
	ErrEmpty = errors.New("the conversation has no messages")
	// ErrRefused: the template refused the conversation with raise_exception.
	ErrRefused = jinja.ErrRaised
	// ErrNoAssistant: a rendering for training has no text of the assistant, so there is nothing to learn.
	ErrNoAssistant = errors.New("no text is the assistant's")
	// ErrDropped: a rendering for training lacks a message that the template left out without a word.
	ErrDropped = errors.New("the template leaves a message out")
)

// Template is a chat template with the special tokens of its tokenizer. It is immutable: parse once, render from any
// number of goroutines.
type Template struct {
	jinja  *jinja.Template
	tokens map[string]string
	hash   string
}

// Parse compiles a template. tokens are the special tokens of the tokenizer by the names that templates use (bos_token, eos_token,
// pad_token …); leave out those that the tokenizer does not have.
func Parse(source string, tokens map[string]string) (*Template, error) {
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	sum := sha256.Sum256([]byte(source))
	return &Template{jinja: t, tokens: maps.Clone(tokens), hash: hex.EncodeToString(sum[:])}, nil
}

// Hash is the SHA-256 of the template's source, in hexadecimal. An adapter carries it, so that serving with another template than the one
// trained with can be refused.
func (t *Template) Hash() string { return t.hash }

// Marked reports whether the template marks the assistant's text itself, with {% generation %}.
func (t *Template) Marked() bool { return t.jinja.Generation() }

// Conversation is what a template renders.
type Conversation struct {
	Messages []Message
	// Tools are JSON schemas of functions and Documents are objects with title and text. nil means that there are none; a template
	// can tell that from an empty list.
	Tools     []Value
	Documents []Value
}

// Options are the arguments of a render besides the conversation.
type Options struct {
	// AddGenerationPrompt ends the text with the header of the assistant's next turn.
	AddGenerationPrompt bool
	// Variables are further variables of the template, such as enable_thinking.
	Variables map[string]Value
	// Now is the time that strftime_now shows. A template that asks for the time fails if it is zero: data must not depend on
	// the day it was made.
	Now time.Time
}

// outside is the origin of text from tools, documents and variables; message i has the origin i+1.
const outside jinja.Origin = -1

// render evaluates the template.
func (t *Template) render(ctx context.Context, c Conversation, o Options) (jinja.Text, error) {
	if len(c.Messages) == 0 {
		return jinja.Text{}, fmt.Errorf("%w: provide at least one", ErrEmpty)
	}
	vars := jinja.NewDict()
	for name, token := range t.tokens {
		vars.Set(name, jinja.NewText(token, jinja.FromTemplate))
	}
	for name, v := range o.Variables {
		if slices.Contains([]string{"messages", "tools", "documents", "add_generation_prompt"}, name) {
			return jinja.Text{}, fmt.Errorf("the template variable %q is set by the render itself", name)
		}
		vars.Set(name, jinja.WithOrigin(v, outside))
	}
	messages := make([]Value, len(c.Messages))
	for i, m := range c.Messages {
		fields, err := m.prepare(jinja.Origin(i + 1))
		if err != nil {
			return jinja.Text{}, fmt.Errorf("message %d (%s): %w", i, m.Role(), err)
		}
		messages[i] = fields
	}
	tools, err := objects("tool", c.Tools)
	if err != nil {
		return jinja.Text{}, err
	}
	documents, err := objects("document", c.Documents)
	if err != nil {
		return jinja.Text{}, err
	}
	vars.Set("messages", jinja.NewList(messages...))
	vars.Set("tools", tools)
	vars.Set("documents", documents)
	vars.Set("add_generation_prompt", jinja.Bool(o.AddGenerationPrompt))
	var now func() time.Time
	if !o.Now.IsZero() {
		now = jinja.Clock(o.Now)
	}
	text, err := t.jinja.Render(ctx, vars, now)
	if err != nil {
		hint := ""
		if errors.Is(err, ErrRefused) {
			hint = unusualRole(c.Messages)
		}
		return jinja.Text{}, fmt.Errorf("chat template: %w%s", err, hint)
	}
	return text, nil
}

// objects makes a list that the template sees, or None.
func objects(what string, vs []Value) (Value, error) {
	if vs == nil {
		return jinja.None{}, nil
	}
	out := make([]Value, len(vs))
	for i, v := range vs {
		if _, ok := v.(*jinja.Dict); !ok {
			return nil, fmt.Errorf("%s %d must be a JSON object", what, i)
		}
		out[i] = jinja.WithOrigin(v, outside)
	}
	return jinja.NewList(out...), nil
}

// unusualRole names the first message with a role that few templates know, as a hint beside a template's refusal.
func unusualRole(messages []Message) string {
	usual := []string{"system", "developer", "user", "assistant", "tool"}
	for i, m := range messages {
		if role := m.Role(); !slices.Contains(usual, role) {
			return fmt.Sprintf(" (message %d has the role %q; usual are %s)", i, role, strings.Join(usual, ", "))
		}
	}
	return ""
}
