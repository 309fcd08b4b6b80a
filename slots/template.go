package slots

import (
	"fmt"
	"strings"
)

// part is a piece of a template: literal text, or a slot with its format.
type part struct {
	lit    string
	slot   string // "" for literal text
	format string
}

// parseTemplate splits "{slot:format}" templates; "{{" and "}}" are braces.
func parseTemplate(s string) ([]part, error) {
	var parts []part
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			parts = append(parts, part{lit: lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case (c == '{' || c == '}') && i+1 < len(s) && s[i+1] == c:
			lit.WriteByte(c)
			i++
		case c == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return nil, fmt.Errorf("template %q: '{' at byte %d is not closed; write '{{' for a brace", s, i)
			}
			name, format, _ := strings.Cut(s[i+1:i+end], ":")
			if !isName(name) {
				return nil, fmt.Errorf("template %q: %q at byte %d is not a slot name; write '{{' for a brace", s, name, i)
			}
			flush()
			parts = append(parts, part{slot: name, format: format})
			i += end
		case c == '}':
			return nil, fmt.Errorf("template %q: '}' at byte %d closes nothing; write '}}' for a brace", s, i)
		default:
			lit.WriteByte(c)
		}
	}
	flush()
	return parts, nil
}

// escapeTemplate writes literal text for a template.
func escapeTemplate(s string) string {
	if strings.ContainsAny(s, "{}") {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "{", "{{"), "}", "}}")
	}
	return s
}

// isName reports whether s can name a slot: a letter, then letters, digits and underscores.
func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !letter(c) && (i == 0 || !digit(c) && c != '_') {
			return false
		}
	}
	return s != ""
}
