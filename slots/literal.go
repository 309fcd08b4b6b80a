package slots

import (
	"strings"

	"terraloom/data/strictjson"
)

// parseLiteral reads a Python literal that a tool printed into a string:
// lists, tuples, dicts with string keys, numbers, quoted strings, True, False,
// None. ok is false for any other text and for plain words and numbers.
func parseLiteral(s string) (v strictjson.Value, ok bool) {
	s = strings.TrimSpace(s)
	if s == "" || strings.IndexByte("[({", s[0]) < 0 {
		return strictjson.Value{}, false
	}
	p := literalParser{s: s}
	v, ok = p.value(0)
	p.space()
	return v, ok && p.i == len(s)
}

type literalParser struct {
	s string
	i int
}

func (p *literalParser) space() {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *literalParser) eat(c byte) bool {
	p.space()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *literalParser) value(depth int) (strictjson.Value, bool) {
	p.space()
	if depth > 16 || p.i == len(p.s) {
		return strictjson.Value{}, false
	}
	switch c := p.s[p.i]; {
	case c == '[' || c == '(':
		closing := byte(']')
		if c == '(' {
			closing = ')'
		}
		p.i++
		var items []strictjson.Value
		for !p.eat(closing) {
			if len(items) > 0 && !p.eat(',') {
				return strictjson.Value{}, false
			}
			if len(items) > 0 && p.eat(closing) { // trailing comma
				break
			}
			v, ok := p.value(depth + 1)
			if !ok {
				return v, false
			}
			items = append(items, v)
		}
		return strictjson.List(items...), true
	case c == '{':
		p.i++
		var members []strictjson.Member
		for !p.eat('}') {
			if len(members) > 0 && !p.eat(',') {
				return strictjson.Value{}, false
			}
			k, ok := p.value(depth + 1)
			if !ok || k.Kind() != strictjson.String || !p.eat(':') {
				return k, false
			}
			v, ok := p.value(depth + 1)
			if !ok {
				return v, false
			}
			members = append(members, strictjson.Member{Key: k.Text(), Value: v})
		}
		return strictjson.Obj(members...), true
	case c == '\'' || c == '"':
		end := strings.IndexByte(p.s[p.i+1:], c)
		if end < 0 || strings.IndexByte(p.s[p.i+1:p.i+1+end], '\\') >= 0 {
			return strictjson.Value{}, false
		}
		text := p.s[p.i+1 : p.i+1+end]
		p.i += end + 2
		return strictjson.Text(text), true
	}
	j := p.i
	for j < len(p.s) && strings.IndexByte(" ,:)]}", p.s[j]) < 0 {
		j++
	}
	word := p.s[p.i:j]
	p.i = j
	switch word {
	case "True", "False":
		return strictjson.Boolean(word == "True"), true
	case "None":
		return strictjson.NullValue(), true
	}
	return strictjson.Literal(word)
}
