// Package codec turns conversations into the token ids of one base model, with the tokenizer and the chat template that
// ship with it. Trainers, generation and servers share it, so what is trained on is what is served: the ids of a
// training example begin with exactly the ids that serving computes for its prompt.
package codec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/lora/chat"
	"terraloom/lora/checkpoint"
	"terraloom/lora/tokenizer"
)

// Sentinel errors.
var (
	// ErrNoTemplate: the base has no chat template, or one that cannot be used.
	ErrNoTemplate = errors.New("no usable chat template")
	// ErrNoTerminator: the template ends an assistant turn without a control token, so a model could never learn to stop.
	ErrNoTerminator = errors.New("the assistant's turn has no end-of-turn token")
	// ErrEmptyTurn: the assistant wrote nothing.
	ErrEmptyTurn = errors.New("the assistant's turn has no text")
)

// Options of [Open].
type Options struct {
	// Template replaces the base's chat template; empty: the base's own.
	Template string
	// Variables are further variables of the template, such as enable_thinking: JSON-like values.
	Variables map[string]any
}

// Codec encodes conversations. It is immutable and safe for concurrent use.
type Codec struct {
	Tokenizer *tokenizer.BPE
	Template  *chat.Template

	variables map[string]chat.Value
	controls  []string
}

// Open makes the codec of a base model.
func Open(m *checkpoint.Model, o Options) (*Codec, error) {
	tok, err := OpenTokenizer(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	source := o.Template
	if source == "" {
		source = m.ChatTemplate
	}
	if source == "" {
		return nil, fmt.Errorf("%s: %w: the model ships none: give one as a file", m.Path, ErrNoTemplate)
	}
	c, err := New(tok, source, o.Variables)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	return c, nil
}

// OpenTokenizer loads the tokenizer of a base model: tokenizer.json of a folder, or the vocabulary of a GGUF file.
func OpenTokenizer(m *checkpoint.Model) (*tokenizer.BPE, error) {
	if m.Vocab != nil {
		return tokenizer.FromGGUF(*m.Vocab)
	}
	path, ok := m.TokenizerFiles["tokenizer.json"]
	if !ok {
		return nil, errors.New("the model has no tokenizer.json: fetch it beside config.json")
	}
	return tokenizer.Load(filepath.Dir(path))
}

// New makes a codec of a tokenizer and the source of a chat template.
func New(tok *tokenizer.BPE, template string, variables map[string]any) (*Codec, error) {
	special := tok.Special()
	tokens := map[string]string{}
	for name, id := range map[string]int32{"bos_token": special.BOS, "eos_token": special.EOS, "pad_token": special.PAD, "unk_token": special.UNK} {
		if text, ok := tok.Token(id); ok {
			tokens[name] = text
		}
	}
	t, err := chat.Parse(template, tokens)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoTemplate, err)
	}
	c := &Codec{Tokenizer: tok, Template: t, variables: map[string]chat.Value{}}
	for name, v := range variables {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("template variable %q: %w", name, err)
		}
		if c.variables[name], err = chat.ParseValue(text); err != nil {
			return nil, fmt.Errorf("template variable %q: %w", name, err)
		}
	}
	for _, a := range tok.AddedTokens() {
		c.controls = append(c.controls, a.Content)
	}
	return c, nil
}

// Prompt encodes a conversation that the assistant is to answer: the rendering with the generation prompt.
func (c *Codec) Prompt(ctx context.Context, messages []chat.Message) ([]int32, error) {
	r, err := c.Template.Render(ctx, chat.Conversation{Messages: messages}, chat.Options{AddGenerationPrompt: true, Variables: c.variables})
	if err != nil {
		return nil, err
	}
	return c.Encode(r), nil
}

// Encode turns a rendering of the template into ids: control tokens where the template wrote them, everything else as
// plain text.
func (c *Codec) Encode(r chat.Rendering) []int32 { return c.encode(r.Pieces(c.controls)) }

// Turn is a conversation whose last message, the assistant's, is to be learned.
type Turn struct {
	IDs []int32 // prompt and answer, the end-of-turn token last
	// Prompt is how many of IDs come before the answer; they equal [Codec.Prompt] of the messages before it.
	Prompt     int
	Terminator int32 // the end-of-turn token
}

// Turn encodes a conversation that ends with an assistant message. What the template writes after the end-of-turn token
// (a line feed, mostly) is left off: serving stops before it. Errors: [chat.ErrNoAssistant], [chat.ErrDropped], a
// [*chat.PrefixError] where the prompt is not how the whole text begins, [ErrNoTerminator], [ErrEmptyTurn].
func (c *Codec) Turn(ctx context.Context, messages []chat.Message) (Turn, error) {
	r, err := c.Template.LabelTurn(ctx, chat.Conversation{Messages: messages}, chat.Options{Variables: c.variables})
	if err != nil {
		return Turn{}, err
	}
	pieces := r.Pieces(c.controls)
	first := slices.IndexFunc(pieces, func(p chat.Piece) bool { return p.Assistant })
	if first < 0 {
		return Turn{}, fmt.Errorf("%w: only white space or control tokens", ErrEmptyTurn)
	}
	answer := pieces[first:]
	last := len(answer) - 1
	for last > 0 && !answer[last].Control && strings.TrimSpace(answer[last].Text) == "" {
		last--
	}
	if !answer[last].Control {
		return Turn{}, fmt.Errorf("%w: after the answer the template writes %q", ErrNoTerminator, tail(answer[last].Text))
	}
	if !slices.ContainsFunc(answer[:last], func(p chat.Piece) bool { return strings.TrimSpace(p.Text) != "" }) {
		return Turn{}, ErrEmptyTurn
	}
	id, ok := c.Tokenizer.TokenID(answer[last].Text)
	if !ok {
		return Turn{}, fmt.Errorf("%w: %q is not in the vocabulary", ErrNoTerminator, answer[last].Text)
	}
	t := Turn{IDs: c.encode(pieces[:first]), Terminator: id}
	t.Prompt = len(t.IDs)
	t.IDs = append(t.IDs, c.encode(answer[:last])...)
	if len(t.IDs) == t.Prompt {
		return Turn{}, ErrEmptyTurn
	}
	t.IDs = append(t.IDs, id)
	return t, nil
}

func tail(s string) string {
	if r := []rune(s); len(r) > 24 {
		return "…" + string(r[len(r)-24:])
	}
	return s
}

// encode joins the ids of pieces, each encoded by itself: control tokens as such, everything else as plain text, so
// that a marker which a user or a tool wrote stays text.
func (c *Codec) encode(pieces []chat.Piece) []int32 {
	var ids []int32
	for _, p := range pieces {
		if p.Control {
			ids = append(ids, c.Tokenizer.Encode(p.Text)...)
		} else {
			ids = append(ids, c.Tokenizer.EncodeOrdinary(p.Text)...)
		}
	}
	return ids
}
