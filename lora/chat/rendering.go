package chat

import (
	"slices"
	"strings"

	"terraloom/lora/chat/jinja"
)

// Rendering is a rendered conversation.
type Rendering struct {
	Text     string
	Segments []Segment // the text cut by who wrote it; joined they give Text
}

// Segment is a piece of a rendering.
type Segment struct {
	Text string
	// Template says that the template wrote the text: control tokens in it are meant. Otherwise it is data from a message, a tool, a
	// document or a variable, in which a control token is just text that someone typed.
	Template bool
	// Assistant says that the text is the assistant's: what a model learns to write, its end of turn included.
	Assistant bool
	// Message is the index of the message that the text comes from and Role its role; -1 and "" for other text.
	Message int
	Role    string
}

// Span is a range of bytes.
type Span struct{ Start, End int }

// AssistantSpans returns the ranges of Text that are the assistant's, sorted and disjoint.
func (r Rendering) AssistantSpans() []Span {
	var out []Span
	at := 0
	for _, s := range r.Segments {
		end := at + len(s.Text)
		if s.Assistant {
			if n := len(out); n > 0 && out[n-1].End == at {
				out[n-1].End = end
			} else {
				out = append(out, Span{at, end})
			}
		}
		at = end
	}
	return out
}

// newRendering cuts a text by its marks and by the spans of the assistant.
func newRendering(t jinja.Text, messages []Message, assistant []Span) Rendering {
	s := t.String()
	r := Rendering{Text: s}
	add := func(start, end int, origin jinja.Origin) {
		for start < end {
			cut, labelled := end, false
			for _, a := range assistant {
				if start < a.Start {
					cut = min(cut, a.Start)
					break
				}
				if start < a.End {
					cut, labelled = min(cut, a.End), true
					break
				}
			}
			seg := Segment{Text: s[start:cut], Template: origin == jinja.FromTemplate, Assistant: labelled, Message: -1}
			if origin > 0 {
				seg.Message = int(origin) - 1
				seg.Role = messages[seg.Message].Role()
			}
			r.Segments = append(r.Segments, seg)
			start = cut
		}
	}
	at := 0
	for _, m := range t.Marks() {
		if m.Origin == jinja.FromTemplate {
			continue
		}
		add(at, m.Start, jinja.FromTemplate)
		add(m.Start, m.End, m.Origin)
		at = m.End
	}
	add(at, len(s), jinja.FromTemplate)
	return r
}

// generatedSpans returns what the template marked with {% generation %}.
func generatedSpans(t jinja.Text) []Span {
	var out []Span
	for _, m := range t.Marks() {
		if !m.Generated {
			continue
		}
		if n := len(out); n > 0 && out[n-1].End == m.Start {
			out[n-1].End = m.End
		} else {
			out = append(out, Span{m.Start, m.End})
		}
	}
	return out
}

// Piece is a part of a rendering that is encoded by itself.
type Piece struct {
	Text      string
	Control   bool // a control token; otherwise ordinary text, in which no control token is to be looked for
	Assistant bool // as in Segment
}

// Pieces cuts the rendering for a tokenizer whose control tokens are given. A control token is recognised where the template wrote all of
// it, leftmost and longest first. The text between two control tokens stays in one piece, whoever wrote it, because a tokenizer's
// words may cross from the template's text into a message. Only the border of the assistant's text always cuts, so that the ids of a
// prompt are a prefix of the ids of prompt and answer.
func (r Rendering) Pieces(controls []string) []Piece {
	byFirst := map[byte][]string{}
	for _, c := range controls {
		if c != "" {
			byFirst[c[0]] = append(byFirst[c[0]], c)
		}
	}
	for _, cs := range byFirst {
		slices.SortFunc(cs, func(a, b string) int { return len(b) - len(a) })
	}
	var out []Piece
	var text strings.Builder
	flush := func(assistant bool) {
		if text.Len() > 0 {
			out = append(out, Piece{text.String(), false, assistant})
			text.Reset()
		}
	}
	for i, s := range r.Segments {
		if i > 0 && s.Assistant != r.Segments[i-1].Assistant {
			flush(r.Segments[i-1].Assistant)
		}
		if !s.Template {
			text.WriteString(s.Text)
			continue
		}
		start := 0
		for at := 0; at < len(s.Text); {
			c := longest(s.Text[at:], byFirst[s.Text[at]])
			if c == "" {
				at++
				continue
			}
			text.WriteString(s.Text[start:at])
			flush(s.Assistant)
			out = append(out, Piece{c, true, s.Assistant})
			at += len(c)
			start = at
		}
		text.WriteString(s.Text[start:])
	}
	if n := len(r.Segments); n > 0 {
		flush(r.Segments[n-1].Assistant)
	}
	return out
}

// longest returns the first of the candidates, which are sorted by length, that s starts with.
func longest(s string, candidates []string) string {
	for _, c := range candidates {
		if strings.HasPrefix(s, c) {
			return c
		}
	}
	return ""
}
