package toolcall

import (
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// Tools are the schemas of the parameters by the name of the tool, as requests carry them.
type Tools map[string]strictjson.Value

// outcome of reading a call.
type outcome uint8

const (
	partial   outcome = iota // the beginning of a call
	complete                 // a call
	malformed                // not a call, whatever follows
)

// parse reads what follows <tool_call>. rest is what comes after the call.
func (t Tools) parse(f Format, text string, end bool) (call Call, rest string, result outcome) {
	if f == XML {
		return t.parseXML(text, end)
	}
	return parseJSON(text, end)
}

func parseJSON(text string, end bool) (call Call, rest string, result outcome) {
	body := strings.TrimLeft(text, whiteSpace)
	if body == "" {
		return call, "", partial
	}
	n, ok := objectLength(body)
	switch {
	case !ok:
		return call, "", malformed
	case n == 0:
		return call, "", partial
	}
	v, err := strictjson.Parse([]byte(body[:n]))
	if err != nil {
		return call, "", malformed
	}
	name, arguments := v.Get("name"), v.Get("arguments")
	if arguments.IsAbsent() {
		arguments = v.Get("parameters") // some models say so
	}
	if name.Kind() != strictjson.String || name.Text() == "" {
		return call, "", malformed
	}
	call.Name = name.Text()
	switch arguments.Kind() {
	case strictjson.Absent, strictjson.Null:
		call.Arguments = "{}"
	case strictjson.Object:
		call.Arguments = arguments.JSON()
	default:
		return call, "", malformed
	}
	rest, result = closing(body[n:], end)
	return call, rest, result
}

// closing reads white space and the end tag. Models forget it: the call before it is whole all the same.
func closing(text string, end bool) (rest string, result outcome) {
	trimmed := strings.TrimLeft(text, whiteSpace)
	switch {
	case strings.HasPrefix(trimmed, closeTag):
		return trimmed[len(closeTag):], complete
	case !strings.HasPrefix(closeTag, trimmed):
		return text, complete
	case end:
		return "", complete
	}
	return "", partial
}

// objectLength is the length of the JSON object that text begins with, 0 if it is not whole; ok is false if there is
// none. It looks at brackets and strings only.
func objectLength(text string) (n int, ok bool) {
	if text[0] != '{' {
		return 0, false
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return 0, true
}

const (
	openFunction   = "<function="
	closeFunction  = "</function>"
	openParameter  = "<parameter="
	closeParameter = "</parameter>"
)

func (t Tools) parseXML(text string, end bool) (call Call, rest string, result outcome) {
	name, text, result := tagged(text, openFunction)
	if result != complete {
		return call, "", result
	}
	call.Name = name
	var members []strictjson.Member
	for {
		text = strings.TrimLeft(text, whiteSpace)
		if strings.HasPrefix(text, closeFunction) {
			text = text[len(closeFunction):]
			break
		}
		if strings.HasPrefix(closeFunction, text) {
			return call, "", partial
		}
		key, after, result := tagged(text, openParameter)
		if result != complete {
			return call, "", result
		}
		value, after, found := strings.Cut(after, closeParameter)
		if !found {
			return call, "", partial
		}
		if slices.ContainsFunc(members, func(m strictjson.Member) bool { return m.Key == key }) {
			return call, "", malformed
		}
		members = append(members, strictjson.Member{Key: key, Value: t.value(name, key, trimLine(value))})
		text = after
	}
	call.Arguments = strictjson.Obj(members...).JSON()
	if len(members) == 0 {
		call.Arguments = "{}"
	}
	rest, result = closing(text, end)
	return call, rest, result
}

// tagged reads white space, an opening tag and the name in it, up to '>'.
func tagged(text, tag string) (name, rest string, result outcome) {
	text = strings.TrimLeft(text, whiteSpace)
	switch {
	case strings.HasPrefix(tag, text) && text != tag:
		return "", "", partial
	case !strings.HasPrefix(text, tag):
		return "", "", malformed
	}
	text = text[len(tag):]
	i := strings.IndexAny(text, "><\n")
	switch {
	case i < 0:
		return "", "", partial
	case i == 0 || text[i] != '>':
		return "", "", malformed
	}
	return text[:i], text[i+1:], complete
}

// trimLine drops the line breaks that the template puts around a value.
func trimLine(s string) string {
	s = strings.TrimPrefix(s, "\n")
	return strings.TrimSuffix(s, "\n")
}

// value gives a parameter's text the type that the tool's schema names: text as it is, anything else as JSON. Templates
// write True, False and None for true, false and null. What cannot be read stays text.
func (t Tools) value(tool, key, text string) strictjson.Value {
	schema := t[tool].Get("properties").Get(key)
	types := schemaTypes(schema)
	if len(types) == 0 || slices.Contains(types, "string") && len(types) == 1 {
		return strictjson.Text(text)
	}
	for from, to := range map[string]string{"True": "true", "False": "false", "None": "null"} {
		if strings.TrimSpace(text) == from {
			text = to
		}
	}
	v, err := strictjson.Parse([]byte(text))
	if err != nil || v.Kind() == strictjson.String && !slices.Contains(types, "string") {
		return strictjson.Text(text)
	}
	name := map[strictjson.Kind]string{strictjson.Null: "null", strictjson.Bool: "boolean", strictjson.Number: "number",
		strictjson.Array: "array", strictjson.Object: "object"}[v.Kind()]
	if slices.Contains(types, name) || v.IsInteger() && slices.Contains(types, "integer") || !slices.Contains(types, "string") {
		return v
	}
	return strictjson.Text(text)
}

// schemaTypes are the types that a schema allows, of its alternatives too; empty if it does not say.
func schemaTypes(schema strictjson.Value) []string {
	var out []string
	switch t := schema.Get("type"); t.Kind() {
	case strictjson.String:
		out = append(out, t.Text())
	case strictjson.Array:
		for i := range t.Len() {
			out = append(out, t.Index(i).Text())
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		options := schema.Get(key)
		for i := range options.Len() {
			out = append(out, schemaTypes(options.Index(i))...)
		}
	}
	return out
}
