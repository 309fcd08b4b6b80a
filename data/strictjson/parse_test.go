package strictjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseKeepsSpellingAndOrder(t *testing.T) {
	for _, text := range []string{
		`null`, `true`, `false`, `0`, `-0`, `1`, `1.0`, `1.50`, `1e2`, `1E+2`, `-15.950`, `9007199254740993`,
		`123456789012345678901234567890`, `1e999`, `""`, `"1"`, `"14.98%"`, `"<think>&</think>"`, `"<|im_end|>"`,
		`"中文 ° é"`, `"e` + "\u0301" + `"`, `[]`, `{}`, `[[],{}]`, `{"b":1,"a":{"b":2,"a":3}}`, `{"":{"":""}}`,
		`{"a":1.0,"A":1}`, `"\u0000\u001f\"\\\n\r\t"`, "\"\u2028\u007f\"",
	} {
		v, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := v.JSON(); got != text {
			t.Errorf("%s comes back as %s", text, got)
		}
	}
}

func TestParseDecodesStrings(t *testing.T) {
	for text, want := range map[string]string{
		`"\"\\\/\b\f\n\r\t"`:   "\"\\/\b\f\n\r\t",
		`"\u0041\u00e9\u4e2d"`: "Aé中",
		`"\ud83d\ude00 😀"`:     "😀 😀",
		`"\uFFFD"`:             "\ufffd",
		`"x\u0000y"`:           "x\x00y",
	} {
		v, err := Parse([]byte(text))
		if err != nil || v.Text() != want {
			t.Errorf("%s gives %q, %v; want %q", text, v.Text(), err, want)
		}
	}
}

func TestParseAcceptsBOMAndBlanks(t *testing.T) {
	v, err := Parse([]byte("\xef\xbb\xbf \r\n\t{\"a\" : [ 1 ,\r\n 2 ] } \n"))
	if err != nil || v.JSON() != `{"a":[1,2]}` {
		t.Errorf("got %s, %v", v.JSON(), err)
	}
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("[", 10_001)
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "1:1: the text ends where a value should be"},
		{"only blanks", " \n ", "2:2: the text ends where"},
		{"repeated key", `{"a":1,"a":2}`, `1:8: key "a" is repeated`},
		{"repeated nested key", "{\"x\":[0,\n{\"a\":{\"k\":1},\n \"a\":{\"k\":2}}]}", `3:2 at /x/1: key "a" is repeated`},
		{"repeated after escapes", `{"a":1,"\u0061":2}`, `key "a" is repeated`},
		{"repeated among many", `{` + manyKeys(40) + `,"k17":0}`, `key "k17" is repeated`},
		{"NaN", `{"a":[1,NaN]}`, `1:9 at /a/1: "NaN]}" is not JSON (NaN`},
		{"Infinity", `Infinity`, "is not JSON"},
		{"negative infinity", `-Infinity`, "not a JSON number"},
		{"single quotes", `{'a':1}`, "expected a key in double quotes"},
		{"comment", `[1] // x`, "bytes after the JSON value"},
		{"two values", `{"a":1}{"b":2}`, `1:8: bytes after the JSON value, starting with "{\"b\":2}"`},
		{"trailing bytes", `1 x`, "bytes after"},
		{"NUL after", "1\x00", "not a JSON number"},
		{"second BOM", "\xef\xbb\xbf\xef\xbb\xbf1", "is not JSON"},
		{"trailing comma", `[1,]`, "is not JSON"},
		{"trailing comma in object", `{"a":1,}`, "expected a key"},
		{"no comma", `[1 2]`, "expected ','"},
		{"no colon", `{"a" 1}`, "expected ':'"},
		{"open array", `[1`, "ends inside an array"},
		{"open object", `{"a":1`, "ends inside an object"},
		{"open string", `"abc`, "ends inside a string"},
		{"open escape", `"abc\`, "ends inside a string"},
		{"wrong bracket", `[1}`, "expected ','"},
		{"leading zero", `01`, "not a JSON number"},
		{"leading plus", `+1`, "is not JSON"},
		{"bare fraction", `.5`, "is not JSON"},
		{"no digits after point", `1.`, "not a JSON number"},
		{"no digits in exponent", `1e`, "not a JSON number"},
		{"hexadecimal", `0x10`, "not a JSON number"},
		{"minus alone", `-`, "not a JSON number"},
		{"word glued", `truex`, "bytes after"},
		{"control character", "\"a\tb\"", "control character 0x9"},
		{"newline in string", "\"a\nb\"", "control character 0xa"},
		{"unknown escape", `"\x41"`, "unknown escape"},
		{"short escape", `"\u12"`, "four hexadecimal digits"},
		{"bad UTF-8", "\"a\xffb\"", "1:3: invalid UTF-8 byte 0xff"},
		{"cut UTF-8", "\"\xe4\xb8\"", "invalid UTF-8"},
		{"overlong UTF-8", "\"\xc0\xaf\"", "invalid UTF-8"},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", "invalid UTF-8"},
		{"bad UTF-8 in key", "{\"\xff\":1}", "invalid UTF-8"},
		{"high surrogate alone", `"\ud800"`, `lone surrogate \ud800`},
		{"low surrogate first", `"\udc00\ud800"`, `lone surrogate \udc00`},
		{"high surrogate twice", `"\ud800\ud800"`, `lone surrogate \ud800`},
		{"too deep", deep, "nested deeper than 512 levels"},
		{"too deep, closed", deep + strings.Repeat("]", 10_001), "nested deeper than 512 levels"},
		{"too deep objects", strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001), "nested deeper"},
	} {
		v, err := Parse([]byte(c.text))
		var e *Error
		switch {
		case err == nil:
			t.Errorf("%s: accepted as %.60s", c.name, v.JSON())
		case !errors.As(err, &e):
			t.Errorf("%s: %T is not an *Error", c.name, err)
		case !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: says %q, want %q", c.name, err, c.want)
		}
	}
}

func manyKeys(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, `"k`+itoa(i)+`":0`)
	}
	return strings.Join(keys, ",")
}

func TestParseAtTheDepthLimit(t *testing.T) {
	text := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	if v, err := Parse([]byte(text)); err != nil || v.JSON() != text {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
}

func TestErrorPointerIsEscaped(t *testing.T) {
	_, err := Parse([]byte(`{"a/b":{"~":[0,{"x":nan}]}}`))
	var e *Error
	if !errors.As(err, &e) || e.Pointer != "/a~1b/~0/1/x" || e.Line != 1 || e.Column != 21 {
		t.Errorf("got %+v", e)
	}
}

func TestValueInsideStructs(t *testing.T) {
	type box struct{ A, B Value }
	in := box{A: Obj(Member{"n", Int(1)}, Member{"t", Text("<&>")})}
	var out box
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	if !out.A.Equal(in.A) || out.B.Kind() != Null {
		t.Errorf("%s comes back as %s, %s", text, out.A.JSON(), out.B.JSON())
	}
	if err := json.Unmarshal([]byte(`{"A":{"x":1,"x":2}}`), &out); err == nil {
		t.Error("a repeated key inside a struct is accepted")
	}
}
