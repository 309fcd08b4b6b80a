package gazetteer

import (
	"fmt"
	"strings"
)

// Joint is what stands between the words of a name.
type Joint uint8

const (
	Natural    Joint = iota // as the name is written, "Murray-Darling Basin"
	Underscore              // "Murray_Darling_Basin"
	Hyphen                  // "Murray-Darling-Basin"
	Glued                   // "MurrayDarlingBasin"
)

// Case is the use of capitals.
type Case uint8

const (
	Named Case = iota // as the name is written
	Lower
	Upper
	Camel // as written, but for a small first letter: "lakeUrmia"
)

// Style is how a mention spells its place, so that another can be written
// alike. The zero Style writes a name as it is.
type Style struct {
	Joint   Joint
	Case    Case
	Article string // "the" or "The": to be written before places that take it
	// As is the very text of the mention where the other fields do not
	// reproduce it, such as an alias. It is written for its own place only.
	As string
}

var (
	jointWords = [...]string{"", "_", "-", "glued"}
	caseWords  = [...]string{"", "lower", "upper", "camel"}
)

// String writes the style as ParseStyle reads it: the words "the" or "The",
// "_", "-" or "glued", and "lower", "upper" or "camel", parted by commas, and
// at the end "as=" with the rest as text. The zero Style is "".
func (s Style) String() string {
	var words []string
	for _, w := range [...]string{s.Article, jointWords[s.Joint], caseWords[s.Case]} {
		if w != "" {
			words = append(words, w)
		}
	}
	if s.As != "" {
		words = append(words, "as="+s.As)
	}
	return strings.Join(words, ",")
}

// ParseStyle reads what Style.String writes.
func ParseStyle(text string) (Style, error) {
	var s Style
	for rest := text; rest != ""; {
		if as, ok := strings.CutPrefix(rest, "as="); ok {
			if as == "" {
				return Style{}, fmt.Errorf("style %q: nothing follows as=", text)
			}
			s.As = as
			break
		}
		word, after, more := strings.Cut(rest, ",")
		if more && after == "" {
			return Style{}, fmt.Errorf("style %q ends in a comma", text)
		}
		rest = after
		var again bool
		switch word {
		case "the", "The":
			again, s.Article = s.Article != "", word
		case "_":
			again, s.Joint = s.Joint != Natural, Underscore
		case "-":
			again, s.Joint = s.Joint != Natural, Hyphen
		case "glued":
			again, s.Joint = s.Joint != Natural, Glued
		case "lower":
			again, s.Case = s.Case != Named, Lower
		case "upper":
			again, s.Case = s.Case != Named, Upper
		case "camel":
			again, s.Case = s.Case != Named, Camel
		default:
			return Style{}, fmt.Errorf("style %q: unknown word %q; known are the, The, _, -, glued, lower, upper, camel and as=TEXT", text, word)
		}
		if again {
			return Style{}, fmt.Errorf("style %q: %q contradicts an earlier word", text, word)
		}
	}
	return s, nil
}

// Render writes the name of p in a style.
func Render(p Place, style Style) string { return Restyle(p.Name, style) }

// Restyle writes any text in a style: a place's name, its country, or other
// words. Article and As act only where the text is a surface form of a place.
func Restyle(text string, s Style) string {
	if s.Article == "" && s.As == "" {
		return join(text, s.Joint, s.Case)
	}
	ix := table()
	f, ok := ix.form(text)
	if !ok {
		return join(text, s.Joint, s.Case)
	}
	out := ""
	if s.Article != "" && int(f.ident) < len(ix.places) && ix.places[f.ident].Article {
		out = s.Article + " "
	}
	if s.As != "" {
		if as, ok := ix.form(s.As); ok && as.ident == f.ident {
			return out + s.As
		}
	}
	return out + join(text, s.Joint, s.Case)
}

// join applies joint and case to a text.
func join(text string, j Joint, c Case) string {
	var buf [2 * maxLetters]byte
	return string(appendJoined(buf[:0], text, j, c))
}

func appendJoined(dst []byte, text string, j Joint, c Case) []byte {
	switch c {
	case Lower:
		text = strings.ToLower(text)
	case Upper:
		text = strings.ToUpper(text)
	case Camel:
		if text != "" && text[0] >= 'A' && text[0] <= 'Z' {
			dst = append(dst, text[0]-'A'+'a')
			text = text[1:]
		}
	}
	if j == Natural {
		return append(dst, text...)
	}
	for i := range len(text) {
		switch b := text[i]; {
		case b != ' ' && b != '-':
			dst = append(dst, b)
		case j == Underscore:
			dst = append(dst, '_')
		case j == Hyphen:
			dst = append(dst, '-')
		}
	}
	return dst
}
