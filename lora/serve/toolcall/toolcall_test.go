package toolcall

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"terraloom/data/strictjson"
)

var testTools = func() Tools {
	out := Tools{}
	for name, schema := range map[string]string{
		"ndvi": `{"type":"object","properties":{"red":{"type":"string"},"bands":{"type":"array"},"n":{"type":"integer"},"x":{"type":["number","null"]},"flag":{"type":"boolean"},"opts":{"anyOf":[{"type":"object"},{"type":"null"}]},"code":{"type":["string","integer"]}}}`,
		"now":  `{"type":"object","properties":{}}`,
	} {
		v, err := strictjson.Parse([]byte(schema))
		if err != nil {
			panic(err)
		}
		out[name] = v
	}
	return out
}()

// read runs a parser over pieces and joins what comes out: reasoning, text and calls in their order.
func read(f Format, thinking bool, pieces ...string) string {
	p := New(f, testTools, thinking)
	var events []Event
	for _, s := range pieces {
		events = append(events, p.Push(s)...)
	}
	events = append(events, p.Finish()...)
	var out []string
	for i, e := range events {
		switch {
		case e.Kind == Called:
			out = append(out, fmt.Sprintf("call %s %s", e.Call.Name, e.Call.Arguments))
		case e.Text == "":
			panic("an empty event")
		case i > 0 && events[i-1].Kind == e.Kind:
			out[len(out)-1] += e.Text
		default:
			out = append(out, map[Kind]string{Text: "text ", Reasoning: "think "}[e.Kind]+e.Text)
		}
	}
	return strings.Join(out, "|")
}

var cases = []struct {
	name     string
	format   Format
	thinking bool
	text     string
	want     string
}{
	{"plain", JSON, false, "Hello, {\"a\": 1} <b>\n\n", "text Hello, {\"a\": 1} <b>\n\n"},
	{"nothing", JSON, false, "", ""},
	{"spaces", JSON, false, " \n ", "text  \n "},
	{"no format", None, false, "a <tool_call>{\"name\":\"x\"}</tool_call>", "text a <tool_call>{\"name\":\"x\"}</tool_call>"},
	{"one call", JSON, false, "<tool_call>\n{\"name\": \"ndvi\", \"arguments\": {\"red\": \"b4.tif\", \"n\": 3.0}}\n</tool_call>", `call ndvi {"red":"b4.tif","n":3.0}`},
	{"text before", JSON, false, "I call it.\n\n<tool_call>\n{\"name\": \"ndvi\", \"arguments\": {}}\n</tool_call>\n", "text I call it.|call ndvi {}"},
	{"two calls", JSON, false, "<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"b\", \"arguments\": {\"k\": [1, {\"z\": null}]}}\n</tool_call>", `call a {}|call b {"k":[1,{"z":null}]}`},
	{"end tag in a string", JSON, false, `<tool_call>{"name":"a","arguments":{"s":"x </tool_call> \" } { y"}}</tool_call> done`, `call a {"s":"x </tool_call> \" } { y"}|text done`},
	{"no end tag", JSON, false, "<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n", "call a {}"},
	{"half an end tag", JSON, false, "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_", "call a {}"},
	{"end tag forgotten", JSON, false, "<tool_call>{\"name\":\"a\"}\n<tool_call>{\"name\":\"b\",\"parameters\":{}}</tool_call>", "call a {}|call b {}"},
	{"unfinished", JSON, false, "Now: <tool_call>\n{\"name\": \"a\", \"argu", "text Now: <tool_call>\n{\"name\": \"a\", \"argu"},
	{"a tag in prose", JSON, false, "Use  <tool_call> tags, then <tool_call>{\"name\":\"a\"}</tool_call>", "text Use  <tool_call> tags, then|call a {}"},
	{"not a call", JSON, false, "x <tool_call>{\"name\": 3}</tool_call> y", "text x <tool_call>{\"name\": 3}</tool_call> y"},
	{"bad JSON", JSON, false, "<tool_call>{'name': 'a'}</tool_call>", "text <tool_call>{'name': 'a'}</tool_call>"},
	{"arguments as text", JSON, false, "<tool_call>{\"name\":\"a\",\"arguments\":\"{}\"}</tool_call>", "text <tool_call>{\"name\":\"a\",\"arguments\":\"{}\"}</tool_call>"},
	{"repeated key", JSON, false, "<tool_call>{\"name\":\"a\",\"name\":\"b\"}</tool_call>", "text <tool_call>{\"name\":\"a\",\"name\":\"b\"}</tool_call>"},
	{"think first", JSON, false, "<think>\nI need it.\n</think>\n\nAnswer.", "think \nI need it.\n|text Answer."},
	{"think, then call", JSON, false, "\n<think>\nhm <tool_call> hm</think>\n\n<tool_call>{\"name\":\"a\"}</tool_call>", "think \nhm <tool_call> hm|call a {}"},
	{"prompt thinks", JSON, true, "I need it.</thi</think>\n\nAnswer.", "think I need it.</thi|text Answer."},
	{"only thinks", XML, true, "and on and </thin", "think and on and </thin"},
	{"no think later", JSON, false, "a <think> b", "text a <think> b"},
	{"almost think", JSON, false, "<thin", "text <thin"},

	{"xml", XML, false, "Calling.\n\n<tool_call>\n<function=ndvi>\n<parameter=red>\nb4.tif\n</parameter>\n<parameter=bands>\n[4, 8]\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
		`text Calling.|call ndvi {"red":"b4.tif","bands":[4,8],"n":3}|call now {}`},
	{"xml types", XML, false, "<tool_call>\n<function=ndvi>\n<parameter=red>\n12\n</parameter>\n<parameter=flag>\nTrue\n</parameter>\n<parameter=x>\nNone\n</parameter>\n<parameter=opts>\n{\"a\": true}\n</parameter>\n<parameter=code>\n7\n</parameter>\n<parameter=other>\n1\n</parameter>\n</function>\n</tool_call>",
		`call ndvi {"red":"12","flag":true,"x":null,"opts":{"a":true},"code":7,"other":"1"}`},
	{"xml lines", XML, false, "<tool_call>\n<function=ndvi>\n<parameter=red>\n\none\n<two> \"three\"\n\n</parameter>\n</function>\n</tool_call>", `call ndvi {"red":"\none\n<two> \"three\"\n"}`},
	{"xml wrong type", XML, false, "<tool_call><function=ndvi><parameter=n>many</parameter><parameter=flag>\"x\"</parameter></function></tool_call>", `call ndvi {"n":"many","flag":"\"x\""}`},
	{"xml unknown tool", XML, false, "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>", `call f {"a":"1"}`},
	{"xml twice the same", XML, false, "<tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>", "text <tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>"},
	{"xml unfinished", XML, false, "<tool_call>\n<function=ndvi>\n<parameter=red>\nb4", "text <tool_call>\n<function=ndvi>\n<parameter=red>\nb4"},
	{"xml prose", XML, false, "the <tool_call> tag", "text the <tool_call> tag"},
	{"xml no end tag", XML, false, "<tool_call>\n<function=now>\n</function>", "call now {}"},
	{"xml no name", XML, false, "<tool_call><function=></function></tool_call>", "text <tool_call><function=></function></tool_call>"},
}

// A1: the same calls, text and reasoning wherever the text is cut.
func TestAnySplit(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := read(c.format, c.thinking, c.text); got != c.want {
				t.Fatalf("%q, expected %q", got, c.want)
			}
			for i := range len(c.text) + 1 {
				if got := read(c.format, c.thinking, c.text[:i], c.text[i:]); got != c.want {
					t.Fatalf("cut at %d: %q, expected %q", i, got, c.want)
				}
				for j := i; j <= min(i+12, len(c.text)); j++ {
					if got := read(c.format, c.thinking, c.text[:i], c.text[i:j], c.text[j:]); got != c.want {
						t.Fatalf("cut at %d and %d: %q, expected %q", i, j, got, c.want)
					}
				}
			}
			if got := read(c.format, c.thinking, strings.Split(c.text, "")...); got != c.want {
				t.Fatalf("character by character: %q, expected %q", got, c.want)
			}
		})
	}
}

// TestEarly: text is handed on as soon as it cannot be the beginning of a call.
func TestEarly(t *testing.T) {
	p := New(JSON, nil, false)
	var got []string
	for _, s := range []string{"Hi", " the", "re <", "b> <tool", "_", "box>"} {
		text := ""
		for _, e := range p.Push(s) {
			text += e.Text
		}
		got = append(got, text)
	}
	if joined := fmt.Sprintf("%q", got); joined != `["Hi" " the" "re" " <b>" "" " <tool_box>"]` {
		t.Errorf("%s", joined)
	}
}

func TestFormatOf(t *testing.T) {
	for template, want := range map[string]Format{
		"{{ messages }}": None,
		"<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>": JSON,
		"<tool_call>\n<function=example>\n<parameter=p>":                                            XML,
	} {
		if got := FormatOf(template); got != want {
			t.Errorf("%q: %q, expected %q", template, got, want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, c := range cases {
		f.Add(c.text, 3, c.format == XML, c.thinking)
	}
	f.Fuzz(func(t *testing.T, text string, at int, xml, thinking bool) {
		if !utf8.ValidString(text) || at < 0 || at > len(text) {
			return
		}
		format := JSON
		if xml {
			format = XML
		}
		whole := read(format, thinking, text)
		if got := read(format, thinking, text[:at], text[at:]); got != whole {
			t.Fatalf("cut at %d: %q, whole %q", at, got, whole)
		}
		if got := read(format, thinking, strings.Split(text, "")...); got != whole {
			t.Fatalf("character by character: %q, whole %q", got, whole)
		}
		for _, e := range New(format, testTools, thinking).Push(text) {
			if e.Kind == Called {
				if _, err := strictjson.Parse([]byte(e.Call.Arguments)); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
