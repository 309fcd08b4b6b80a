// Package toolcall finds reasoning and tool calls in the text that a chat model writes, while it is being written.
//
// However the text is cut into pieces, the same reasoning, text and calls come out. What looks like a call but is not
// one stays text; nothing is lost.
package toolcall

import "strings"

// Format is how a family of chat templates spells tool calls.
type Format string

const (
	None Format = "" // the template knows no calls
	// JSON is the form of Hermes, Qwen2.5 and Qwen3:
	//
	//	<tool_call>
	//	{"name": "ndvi", "arguments": {"red": "b4.tif"}}
	//	</tool_call>
	JSON Format = "json"
	// XML is the form of Qwen3.5 and later, whose values are plain text unless the tool's schema says otherwise:
	//
	//	<tool_call>
	//	<function=ndvi>
	//	<parameter=red>
	//	b4.tif
	//	</parameter>
	//	</function>
	//	</tool_call>
	XML Format = "xml"
)

const (
	openTag    = "<tool_call>"
	closeTag   = "</tool_call>"
	openThink  = "<think>"
	closeThink = "</think>"
)

// FormatOf tells the format from the source of a chat template.
func FormatOf(template string) Format {
	switch {
	case !strings.Contains(template, openTag):
		return None
	case strings.Contains(template, "<function="):
		return XML
	}
	return JSON
}

// Kind of an event.
type Kind uint8

const (
	Text      Kind = iota // part of the answer
	Reasoning             // part of what the model thinks first
	Called                // a tool call
)

// Event is what a piece of text turns out to be.
type Event struct {
	Kind Kind
	Text string // Text and Reasoning
	Call Call   // Called
}

// Call is a tool call.
type Call struct {
	Name      string
	Arguments string // a JSON object
}

// Parser reads one answer. Its zero value is not usable.
type Parser struct {
	format Format
	tools  Tools
	state  state
	buffer string // read, but not decided on
	space  string // white space after text: part of it unless a call follows
}

type state uint8

const (
	atStart     state = iota // nothing but white space was read: <think> may follow
	inReasoning              // until </think>
	afterThink               // white space before the answer is dropped
	inText                   // in the answer: <tool_call> may follow
	inCall                   // after <tool_call>
	afterCall                // white space between calls is dropped
)

// New starts a parser. Calls are looked for unless format is None. thinking: the prompt ends inside the model's
// reasoning.
func New(format Format, tools Tools, thinking bool) *Parser {
	p := &Parser{format: format, tools: tools}
	if thinking {
		p.state = inReasoning
	}
	return p
}

// Push reads a piece of the answer and returns what has become certain.
func (p *Parser) Push(text string) []Event {
	p.buffer += text
	return p.run(false)
}

// Finish ends the answer.
func (p *Parser) Finish() []Event {
	events := p.run(true)
	switch p.state {
	case inReasoning:
		events = add(events, Reasoning, p.buffer)
	case inCall:
		events = add(events, Text, p.space+openTag+p.buffer)
	default:
		events = add(events, Text, p.space+p.buffer)
	}
	p.buffer, p.space = "", ""
	return events
}

// add appends an event unless its text is empty, to the last one if that is of the same kind.
func add(events []Event, kind Kind, text string) []Event {
	if text == "" {
		return events
	}
	if n := len(events); n > 0 && events[n-1].Kind == kind && kind != Called {
		events[n-1].Text += text
		return events
	}
	return append(events, Event{Kind: kind, Text: text})
}

// run goes on until the buffer holds nothing that can be decided on.
func (p *Parser) run(end bool) []Event {
	var events []Event
	for {
		var more bool
		if events, more = p.step(events, end); !more {
			return events
		}
	}
}

const whiteSpace = " \t\r\n"

// step makes one decision.
func (p *Parser) step(events []Event, end bool) (_ []Event, more bool) {
	switch p.state {
	case atStart:
		rest := strings.TrimLeft(p.buffer, whiteSpace)
		switch {
		case strings.HasPrefix(rest, openThink):
			p.buffer, p.state = rest[len(openThink):], inReasoning
			return events, true
		case strings.HasPrefix(openThink, rest) && !end:
			return events, false
		}
		p.state = inText
		return events, true

	case inReasoning:
		before, after, found := strings.Cut(p.buffer, closeThink)
		if found {
			p.buffer, p.state = after, afterThink
			return add(events, Reasoning, before), true
		}
		sure := len(p.buffer) - overlap(p.buffer, closeThink)
		events = add(events, Reasoning, p.buffer[:sure])
		p.buffer = p.buffer[sure:]
		return events, false

	case afterThink, afterCall:
		p.buffer = strings.TrimLeft(p.buffer, whiteSpace)
		if p.buffer == "" {
			return events, false
		}
		p.state = inText
		return events, true

	case inText:
		if p.format == None {
			events = add(events, Text, p.buffer)
			p.buffer = ""
			return events, false
		}
		before, after, found := strings.Cut(p.buffer, openTag)
		if !found {
			before = p.buffer[:len(p.buffer)-overlap(p.buffer, openTag)]
			after = p.buffer[len(before):]
		}
		if text := strings.TrimRight(before, whiteSpace); text != "" {
			events = add(events, Text, p.space+text)
			p.space = before[len(text):]
		} else {
			p.space += before
		}
		p.buffer = after
		if found {
			p.state = inCall
		}
		return events, found
	}

	call, rest, result := p.tools.parse(p.format, p.buffer, end)
	switch result {
	case partial:
		return events, false
	case complete:
		p.buffer, p.state, p.space = rest, afterCall, ""
		return append(events, Event{Kind: Called, Call: call}), true
	}
	events = add(events, Text, p.space+openTag)
	p.state, p.space = inText, ""
	return events, true
}

// overlap is the length of the longest suffix of text that is a prefix of tag, but not all of it.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
