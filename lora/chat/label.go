package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"terraloom/lora/chat/jinja"
)

// Render renders a conversation. The assistant's segments are known only if the template marks them (Marked); Label finds them always.
func (t *Template) Render(ctx context.Context, c Conversation, o Options) (Rendering, error) {
	text, err := t.render(ctx, c, o)
	if err != nil {
		return Rendering{}, err
	}
	return newRendering(text, c.Messages, generatedSpans(text)), nil
}

// Label renders a conversation for training: the text of every assistant message is the assistant's.
//
// Where the template has {% generation %} marks, they decide. Otherwise the spans follow from how the template is used: what serving
// renders before a turn (the messages so far and the generation prompt) is not the assistant's, and what the turn adds to it is. Both
// renderings must be prefixes of the whole text; if one is not, Label fails with a *PrefixError (a template that strips the
// reasoning of earlier turns has no text that fits all turns: use LabelTurn on the conversation cut after each turn).
//
// It also fails with ErrNoAssistant if nothing is the assistant's, and with ErrDropped if a message leaves no trace in the text.
func (t *Template) Label(ctx context.Context, c Conversation, o Options) (Rendering, error) {
	text, err := t.renderWhole(ctx, c, o)
	if err != nil {
		return Rendering{}, err
	}
	spans := generatedSpans(text)
	if !t.Marked() {
		if spans, err = t.turns(ctx, c, o, text, 0); err != nil {
			return Rendering{}, err
		}
	}
	return labelled(text, c.Messages, spans)
}

// LabelTurn renders a conversation that ends with an assistant message for training on that message alone: the text before it is
// exactly the prompt that serving renders, whatever the template does to earlier turns. It fails as Label does.
func (t *Template) LabelTurn(ctx context.Context, c Conversation, o Options) (Rendering, error) {
	last := len(c.Messages) - 1
	if last < 0 || c.Messages[last].Role() != assistantRole {
		return Rendering{}, fmt.Errorf("%w: the last message must be an assistant message", ErrNoAssistant)
	}
	text, err := t.renderWhole(ctx, c, o)
	if err != nil {
		return Rendering{}, err
	}
	spans, err := t.turns(ctx, c, o, text, last)
	if err != nil {
		return Rendering{}, err
	}
	return labelled(text, c.Messages, spans)
}

const assistantRole = "assistant"

// renderWhole renders for training: without a generation prompt, and without losing a message.
func (t *Template) renderWhole(ctx context.Context, c Conversation, o Options) (jinja.Text, error) {
	if o.AddGenerationPrompt {
		return jinja.Text{}, fmt.Errorf("a rendering for training ends with the last message: AddGenerationPrompt must be false")
	}
	text, err := t.render(ctx, c, o)
	if err != nil {
		return jinja.Text{}, err
	}
	return text, checkDropped(text, c.Messages)
}

// checkDropped fails if a message with text left none in the rendering.
func checkDropped(text jinja.Text, messages []Message) error {
	seen := map[jinja.Origin]bool{}
	for _, m := range text.Marks() {
		seen[m.Origin] = true
	}
	for i, m := range messages {
		if !seen[jinja.Origin(i+1)] && m.hasText() {
			return fmt.Errorf("%w: message %d (role %q) leaves no text in the rendering; remove it or change its role", ErrDropped, i, m.Role())
		}
	}
	return nil
}

// hasText reports whether a message says something in words or calls a tool.
func (m Message) hasText() bool {
	blank := func(v Value) bool { return strings.TrimSpace(textOf(v)) == "" }
	calls, _ := m.Get("tool_calls")
	if list, ok := calls.(*jinja.List); ok && len(list.Items()) > 0 {
		return true
	}
	content, _ := m.Get("content")
	list, ok := content.(*jinja.List)
	if !ok {
		return !blank(content)
	}
	return slices.ContainsFunc(list.Items(), func(part Value) bool {
		d, ok := part.(*jinja.Dict)
		if !ok {
			return false
		}
		text, _ := d.Get("text")
		return !blank(text)
	})
}

// turns returns the spans of the assistant messages from index first on, by rendering what comes before and after each.
func (t *Template) turns(ctx context.Context, c Conversation, o Options, whole jinja.Text, first int) ([]Span, error) {
	var spans []Span
	for i := first; i < len(c.Messages); i++ {
		if c.Messages[i].Role() != assistantRole {
			continue
		}
		before, err := t.prefix(ctx, c, o, whole, i, true)
		if err != nil {
			return nil, err
		}
		through, err := t.prefix(ctx, c, o, whole, i+1, false)
		if err != nil {
			return nil, err
		}
		if before < through {
			spans = append(spans, Span{before, through})
		}
	}
	return spans, nil
}

// prefix renders the first n messages, checks that the whole text starts with that, and returns its length.
func (t *Template) prefix(ctx context.Context, c Conversation, o Options, whole jinja.Text, n int, prompt bool) (int, error) {
	turn := n - 1
	if prompt {
		turn = n
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: message 0 is the assistant's, and there is no prompt before it", ErrEmpty)
	}
	c.Messages = c.Messages[:n]
	o.AddGenerationPrompt = prompt
	text, err := t.render(ctx, c, o)
	if err != nil {
		return 0, fmt.Errorf("the messages up to the assistant's message %d, by themselves: %w", turn, err)
	}
	part, full := text.String(), whole.String()
	if strings.HasPrefix(full, part) {
		return len(part), nil
	}
	at := 0
	for at < min(len(part), len(full)) && part[at] == full[at] {
		at++
	}
	return 0, &PrefixError{Message: turn, Prompt: prompt, Offset: at, Want: excerpt(part, at), Got: excerpt(full, at)}
}

// PrefixError says that the text before or through an assistant turn, rendered by itself, is not how the whole text begins.
type PrefixError struct {
	Message   int    // index of the assistant message
	Prompt    bool   // the prompt before the turn differs; otherwise the text through the end of the turn
	Offset    int    // byte of the first difference
	Want, Got string // how the part and the whole text go on there
}

func (e *PrefixError) Error() string {
	what := "the conversation through it"
	if e.Prompt {
		what = "the prompt before it"
	}
	return fmt.Sprintf("message %d: %s, rendered by itself, is not a prefix of the whole text: at byte %d it has %q and the whole text %q; "+
		"train on one sample per assistant turn, or use a template that marks the assistant's text", e.Message, what, e.Offset, e.Want, e.Got)
}

// excerpt returns a few characters of s around the end of which a difference lies.
func excerpt(s string, at int) string {
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	end := min(len(s), at+24)
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	return s[at:end]
}

// labelled checks that the assistant wrote something.
func labelled(text jinja.Text, messages []Message, spans []Span) (Rendering, error) {
	if len(spans) == 0 {
		return Rendering{}, fmt.Errorf("%w: none of the %d messages has the role %q, or its text is empty", ErrNoAssistant, len(messages), assistantRole)
	}
	return newRendering(text, messages, spans), nil
}
