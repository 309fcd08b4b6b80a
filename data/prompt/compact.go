package prompt

import (
	"strings"

	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// MaxList is the longest list of an earlier step that is always shown whole.
const MaxList = 20

// shown lists stay whole beyond MaxList. What is shown depends on the next
// tool's schema alone, never on the arguments that it will get:
//
//   - to a tool that reads files, observed lists of texts and the lists of
//     output paths are shown whole;
//   - to a tool that takes numbers or lists other than paths, observed lists of
//     numbers are shown whole;
//   - every other list keeps its first three and last three items, with
//     {"omitted": n} between them.
type shown struct{ texts, numbers bool }

func visibility(t *catalogue.Tool) shown {
	var v shown
	for _, p := range t.Params {
		switch {
		case p.IO == "in":
			v.texts = true
		case p.IO == "":
			typ := p.Type.String()
			v.numbers = v.numbers || strings.Contains(typ, "float") || strings.Contains(typ, "int") || strings.Contains(typ, "any")
			v.texts = v.texts || strings.Contains(typ, "list[str]") || strings.Contains(typ, "any")
		}
	}
	return v
}

// arguments writes an earlier step's arguments: only its output paths are
// needed again, its inputs come from observations that are shown themselves.
func (v shown) arguments(s *data.Step) []byte {
	b := []byte{'{'}
	for i := range s.Arguments.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		key := s.Arguments.Key(i)
		b = append(strictjson.AppendString(b, key), ':')
		output := strings.HasPrefix(key, "output") || strings.HasPrefix(key, "save")
		b = shown{texts: v.texts && output, numbers: v.numbers}.append(b, s.Arguments.Index(i))
	}
	return append(b, '}')
}

func (v shown) observation(o strictjson.Value) []byte { return v.append(nil, o) }

func (v shown) append(b []byte, o strictjson.Value) []byte {
	n := o.Len()
	switch {
	case o.Kind() == strictjson.Array && n > MaxList && !v.whole(o.Index(0)):
		b = append(b, '[')
		for _, i := range [...]int{0, 1, 2, -1, n - 3, n - 2, n - 1} {
			if i == -1 {
				b = append(b, `{"omitted":`...)
				b = append(strictjson.Int(n-6).AppendJSON(b), "},"...)
				continue
			}
			b = v.append(b, o.Index(i))
			if i < n-1 {
				b = append(b, ',')
			}
		}
		return append(b, ']')
	case o.Kind() == strictjson.Array && n > 0:
		b = append(b, '[')
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			b = v.append(b, o.Index(i))
		}
		return append(b, ']')
	case o.Kind() == strictjson.Object && n > 0:
		b = append(b, '{')
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(strictjson.AppendString(b, o.Key(i)), ':')
			b = v.append(b, o.Index(i))
		}
		return append(b, '}')
	}
	return o.AppendJSON(b)
}

func (v shown) whole(item strictjson.Value) bool {
	if item.Kind() == strictjson.String {
		return v.texts
	}
	return v.numbers
}
