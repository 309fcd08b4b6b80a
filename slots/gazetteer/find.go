package gazetteer

import (
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// Form says by which of its texts a place is mentioned.
type Form uint8

const (
	FormName      Form = iota
	FormAlias          // another spelling of the name
	FormAdmin          // the state or region of a place
	FormCountry        // the country of a place
	FormContinent      // the continent of a place
	FormSea            // the sea a place lies on
	FormNear           // the settlement near a place
	formCount
)

var formWords = [...]string{"name", "alias", "admin", "country", "continent", "sea", "near"}

func (f Form) String() string { return formWords[f] }

// Match is one mention of a place.
type Match struct {
	Start, End int // bytes of the text
	// Place is what the mention is about. In "Lake Balkhash, Kazakhstan" both
	// mentions are about Lake Balkhash, the second by its country; in
	// "Kazakhstan" alone the one mention is about Kazakhstan, by its name.
	Place Place
	Form  Form
	Style Style
}

// Render is the text to write instead of the mention if its place becomes p:
// p's name, country, … in the mention's style. It is false where p has none.
// Render(m.Place) is the text of the mention itself.
func (m Match) Render(p Place) (string, bool) {
	s := p.Field(m.Form)
	if s == "" {
		return "", false
	}
	return Restyle(s, m.Style), true
}

// mention is a match before it is known what it is about.
type mention struct {
	start, end int
	form       *form
	upper      uint64 // capitals of the text
	file       bool   // it stands in a file name
	ident      int32
	owner      int32 // index of the mention it qualifies, -1 for none
}

// Find returns the mentions of places in a text or file name, in order and
// without overlaps, the longest form at each point. A mention starts and ends
// at a word border: no letter beside it, or a change from small letter to
// capital as in "ParisNDVI". The country, admin, continent, sea and near of a
// place are about that place when its name stands in the same text, the
// nearest if several do, or among the places given as about; a country or
// province by itself is about itself; a continent by itself is no mention.
func Find(text string, about ...Place) []Match {
	ix := table()
	var buf [16]mention
	found := buf[:0]
	before := folded{} // the rune before i
	for i := 0; i < len(text); {
		switch c := text[i]; { // nearly all bytes need no closer look
		case c >= utf8.RuneSelf:
		case ascii[c].class != letter:
			before = folded{}
			i++
			continue
		case before.class == letter && c >= 'a':
			before.upper = false
			i++
			continue
		}
		f := fold(text, i)
		if f.class == letter && (before.class != letter && before.class != alien || f.upper && !before.upper) {
			if m, ok := ix.longest(text, i); ok {
				found = append(found, m)
				i = m.end
				before = folded{class: letter} // only a capital starts a word here
				continue
			}
		}
		if f.class != accent {
			before = f
		}
		i += f.width
	}
	if len(found) == 0 {
		return nil
	}
	ix.assign(found)
	return ix.matches(text, found, about)
}

// longest returns the longest mention that starts at text[start:], where a
// word border is.
func (ix *index) longest(text string, start int) (best mention, ok bool) {
	at := uint16(0)
	var parted, upper uint64
	n, sinceJoint := 0, 0
	joints, dots := 0, 0 // before the next letter; in all
	for i := start; i < len(text); {
		f := fold(text, i)
		i += f.width
		switch f.class {
		case letter:
			if joints > 0 {
				parted |= 1 << n
				joints, sinceJoint = 0, 0
			}
			for _, c := range [...]byte{f.a, f.b} {
				if c == 0 {
					continue
				}
				if at = ix.nodes[at].next[c-'a']; at == 0 {
					return best, ok
				}
				n++
				sinceJoint++
			}
			if f.upper {
				upper |= 1 << (n - 1)
			}
			if k := ix.nodes[at].form; k != 0 {
				form := &ix.forms[k]
				if end, border := wordEnd(text, i, !f.upper); border && parted&^form.parted == 0 {
					if dots > 0 && end < len(text) && text[end] == '.' {
						end++ // the last dot of "U.S."
					}
					file := inFileName(text, start, end)
					if form.allows(text, start, end, upper, file) {
						best, ok = mention{start: start, end: end, form: form, upper: upper, file: file, ident: form.ident, owner: -1}, true
					}
				}
			}
		case joint:
			if joints++; joints > 3 {
				return best, ok
			}
		case dot:
			if sinceJoint != 1 || joints > 0 {
				return best, ok
			}
			joints++
			dots++
		case accent:
		default:
			return best, ok
		}
	}
	return best, ok
}

// wordEnd reports whether a word ends at text[i:], after a letter that was
// small or not, and where its accents end.
func wordEnd(text string, i int, small bool) (end int, ok bool) {
	for i < len(text) {
		f := fold(text, i)
		if f.class != accent {
			return i, f.class != letter && f.class != alien || small && f.upper
		}
		i += f.width
	}
	return i, true
}

// allows applies the mark of a form.
func (f *form) allows(text string, start, end int, upper uint64, file bool) bool {
	switch f.mark {
	case markCased:
		return file || f.capitals()&^upper == 0
	case markExact:
		return f.upper == upper
	case markFile:
		return strings.IndexByte("/\\\"'`[(, \n\t", byteBefore(text, start)) >= 0 && fileFollows(text[end:])
	}
	return true
}

// capitals are the bits of f.upper at which a word starts.
func (f *form) capitals() uint64 { return f.upper & (f.parted | 1) }

// byteBefore is the byte before text[i:], a blank at the start.
func byteBefore(text string, i int) byte {
	if i == 0 {
		return ' '
	}
	return text[i-1]
}

// inFileName reports whether the bytes beside a mention show that it stands in
// a file name or path.
func inFileName(text string, start, end int) bool {
	switch byteBefore(text, start) {
	case '_', '/', '\\':
		return true
	}
	after := text[end:]
	return fileFollows(after) || after != "" && (after[0] == '/' || after[0] == '\\')
}

// fileFollows reports whether after continues a file name: "_NDVI", " _NDVI",
// ".tif" or "-2020".
func fileFollows(after string) bool {
	if strings.HasPrefix(after, "_") || strings.HasPrefix(after, " _") {
		return true
	}
	if len(after) < 2 {
		return false
	}
	return after[0] == '.' && ascii[after[1]&0x7f].class == letter || after[0] == '-' && after[1] >= '0' && after[1] <= '9'
}

// assign finds for each mention the mention of the place that it qualifies.
func (ix *index) assign(found []mention) {
	var buf [16]int32
	distinct := buf[:0]
	for i := range found {
		if !slices.Contains(distinct, found[i].ident) {
			distinct = append(distinct, found[i].ident)
		}
	}
	for _, q := range distinct {
		if !slices.ContainsFunc(distinct, func(p int32) bool { return ix.relation(p, q) != 0 }) {
			continue
		}
		last := int32(-1)
		for i := range found { // the nearest place before
			if found[i].ident == q {
				found[i].owner = last
			} else if ix.relation(found[i].ident, q) != 0 {
				last = int32(i)
			}
		}
		last = -1
		for i := len(found) - 1; i >= 0; i-- { // or after
			if m := &found[i]; m.ident != q {
				if ix.relation(m.ident, q) != 0 {
					last = int32(i)
				}
			} else if last >= 0 && (m.owner < 0 || found[last].start-m.end < m.start-found[m.owner].end) {
				m.owner = last
			}
		}
	}
}

// relation is the field of place p that q stands for, 0 for none.
func (ix *index) relation(p, q int32) Form {
	if int(p) < len(ix.refs) && p != q {
		for f := FormAdmin; f < formCount; f++ {
			if ix.refs[p][f] == q {
				return f
			}
		}
	}
	return 0
}

// matches says what each mention is about and how it is spelled.
func (ix *index) matches(text string, found []mention, about []Place) []Match {
	out := make([]Match, 0, len(found))
	free := 0 // the text before is taken
	for i := range found {
		m := &found[i]
		place, as := ix.root(found, i)
		if as == 0 {
			place, as = ix.qualified(m.ident, about)
		}
		if as == 0 {
			if int(m.ident) >= len(ix.places) {
				continue // a field's text beside none of its places
			}
			if place = m.ident; m.form.text != ix.places[place].Name {
				as = FormAlias
			}
		}
		match := Match{Start: m.start, End: m.end, Place: ix.places[place], Form: as}
		match.Style = m.style(text[m.start:m.end], match.Place.Field(as))
		if as != FormSea && !m.file && match.Style.Joint == Natural && match.Style.Case == Named {
			ix.article(&match, text, m.ident, free)
		}
		out = append(out, match)
		free = m.end
	}
	return out
}

// root follows the qualified mentions from found[i] to the place that the last
// one names, and says which of its fields found[i] is.
func (ix *index) root(found []mention, i int) (place int32, as Form) {
	q := found[i].ident
	for step := 0; found[i].owner >= 0 && step < int(formCount); step++ { // the steps bound a cycle in the table
		owner := int(found[i].owner)
		if f := ix.relation(found[owner].ident, q); f != 0 || as == 0 {
			as = f
		}
		i = owner
	}
	return found[i].ident, as
}

// qualified returns the first of the places that q is a field of.
func (ix *index) qualified(q int32, about []Place) (place int32, as Form) {
	for _, p := range about {
		if f, ok := ix.form(p.Name); ok {
			if r := ix.relation(f.ident, q); r != 0 {
				return f.ident, r
			}
		}
	}
	return -1, 0
}

// style reads off how body spells the text written for it in the table.
func (m *mention) style(body, written string) Style {
	s := Style{Case: caseOf(m)}
	parted := strings.ContainsAny(written, " -")
	exact := false
	for s.Joint = Natural; ; s.Joint++ {
		var buf [2 * maxLetters]byte
		if exact = string(appendJoined(buf[:0], written, s.Joint, s.Case)) == body; exact || s.Joint == Glued {
			break
		}
	}
	if !exact {
		s.As = body
		parted = strings.ContainsAny(m.form.text, " -.'")
		switch {
		case strings.Contains(body, "_"):
			s.Joint = Underscore
		case strings.Contains(body, "-") && !strings.Contains(body, " ") && !strings.Contains(m.form.text, "-"):
			s.Joint = Hyphen
		case strings.ContainsAny(body, " -.'") || !parted:
			s.Joint = Natural
		}
	}
	if !parted && m.file {
		s.Joint = Underscore // one word tells nothing; blanks are rare in file names
	}
	return s
}

// caseOf reads the use of capitals off a mention.
func caseOf(m *mention) Case {
	switch {
	case m.upper == 0:
		return Lower
	case bits.OnesCount64(m.upper) == len(m.form.letters) && m.form.upper != m.upper:
		return Upper
	case m.upper&1 == 0 && m.form.upper&1 != 0:
		return Camel
	}
	return Named
}

// leads are the words after which a name stands without a noun of its own to
// follow, so that an article may be put between.
var leads = strings.Fields("of in over at for near across from around and to between on with within along into through")

// article decides for a name in running text whether "the" belongs to the
// mention, that is the place m.ident takes one and has it: before "the Paris
// region" it belongs to the region. A name that takes none and follows a
// preposition leaves room for the article of its successor, where places of
// its kind have one. The text before free is taken.
func (ix *index) article(m *Match, text string, ident int32, free int) {
	takes := int(ident) < len(ix.places) && ix.places[ident].Article
	lead, spaced := strings.CutSuffix(text[free:m.Start], " ")
	word := lead[strings.LastIndexAny(lead, " \t\n(\"'")+1:]
	switch {
	case !spaced:
	case takes && (word == "the" || word == "The"):
		m.Start -= len("the ")
		m.Style.Article = word
	case !takes && int(ident) < len(ix.places) && ix.articled[ix.places[ident].Kind] && slices.Contains(leads, word):
		if m.End == len(text) || strings.IndexByte(" ,;:?!).'\n", text[m.End]) >= 0 {
			m.Style.Article = "the"
		}
	}
}
