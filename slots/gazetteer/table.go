package gazetteer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var columns = strings.Fields("name kind article admin country continent sea near lon lat west south east north aliases")

// mark narrows where a surface form is recognised; see the package comment.
type mark uint8

const (
	markNone  mark = iota
	markCased      // "="
	markExact      // "^"
	markFile       // "~"
)

// form is one surface form: a name, an alias, or the text of a column that no
// row is named after.
type form struct {
	spelling
	text  string
	ident int32 // what it stands for: a row, or len(places)+i for such a text
	mark  mark
}

// index is the table made ready for look-up.
type index struct {
	places   []Place
	refs     [][formCount]int32 // of each place by Form: the ident of that field, -1 for none or itself
	forms    []form             // forms[0] is none
	nodes    []node
	articled map[Kind]bool // kinds with a place that takes the article
}

// node is a state of the trie over the letters of all forms.
type node struct {
	next [26]uint16 // 0 for none
	form uint16     // index into forms, 0 for none
}

// form finds the surface form with the letters of s.
func (ix *index) form(s string) (*form, bool) {
	sp, ok := spell(s)
	if !ok {
		return nil, false
	}
	at := uint16(0)
	for i := range len(sp.letters) {
		if at = ix.nodes[at].next[sp.letters[i]-'a']; at == 0 {
			return nil, false
		}
	}
	f := ix.nodes[at].form
	return &ix.forms[f], f != 0
}

// parse reads a table in the format of places.tsv and checks all of it. An
// error names the line and what was expected there.
func parse(tsv string) (*index, error) {
	ix := &index{forms: make([]form, 1), nodes: make([]node, 1), articled: map[Kind]bool{}}
	var lines []int // of each place
	header := false
	n := 0
	for line := range strings.Lines(tsv) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "\t")
		if !header {
			if !slices.Equal(cells, columns) {
				return nil, fmt.Errorf("places.tsv:%d: the header is %q, expected the columns %q", n, cells, columns)
			}
			header = true
			continue
		}
		if err := ix.addRow(cells); err != nil {
			return nil, fmt.Errorf("places.tsv:%d: %w", n, err)
		}
		lines = append(lines, n)
	}
	if len(ix.places) == 0 {
		return nil, fmt.Errorf("places.tsv: no places")
	}
	if err := ix.link(lines); err != nil {
		return nil, err
	}
	return ix, nil
}

func (ix *index) addRow(cells []string) error {
	if len(cells) != len(columns) {
		return fmt.Errorf("%d columns, expected %d", len(cells), len(columns))
	}
	name, m := unmark(cells[0])
	if m > markCased {
		return fmt.Errorf("name %q: only = may mark a name", cells[0])
	}
	for _, c := range []byte(name) {
		if c != ' ' && c != '-' && ascii[c&0x7f].class != letter || c >= 0x80 {
			return fmt.Errorf("name %q: expected ASCII letters, spaces and hyphens; other spellings are aliases", name)
		}
	}
	p := Place{Name: name, Kind: Kind(cells[1]), Article: cells[2] == "the",
		Admin: cells[3], Country: cells[4], Continent: cells[5], Sea: cells[6], Near: cells[7]}
	if !slices.Contains(kinds, p.Kind) {
		return fmt.Errorf("%s: kind %q, expected one of %q", name, p.Kind, kinds)
	}
	if !p.Article && cells[2] != "" {
		return fmt.Errorf("%s: article %q, expected \"the\" or nothing", name, cells[2])
	}
	for i, to := range []*float64{&p.Lon, &p.Lat, &p.West, &p.South, &p.East, &p.North} {
		v, err := strconv.ParseFloat(cells[8+i], 64)
		limit := [...]float64{180, 90}[i%2]
		if err != nil || !(v >= -limit && v <= limit) {
			return fmt.Errorf("%s: %s is %q, expected degrees from -%g to %g", name, columns[8+i], cells[8+i], limit, limit)
		}
		*to = v
	}
	if !(p.West < p.East && p.South < p.North) {
		return fmt.Errorf("%s: the box needs west < east and south < north", name)
	}
	if p.Lon < p.West || p.Lon > p.East || p.Lat < p.South || p.Lat > p.North {
		return fmt.Errorf("%s: the point %g,%g lies outside the box", name, p.Lon, p.Lat)
	}
	ident := int32(len(ix.places))
	if err := ix.addForm(name, m, ident); err != nil {
		return err
	}
	if cells[14] != "" {
		for alias := range strings.SplitSeq(cells[14], "|") {
			text, m := unmark(alias)
			if err := ix.addForm(text, m, ident); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			p.Aliases = append(p.Aliases, text)
		}
	}
	ix.articled[p.Kind] = ix.articled[p.Kind] || p.Article
	ix.places = append(ix.places, p)
	return nil
}

func unmark(s string) (string, mark) {
	if s != "" {
		if i := strings.IndexByte("=^~", s[0]); i >= 0 {
			return s[1:], markCased + mark(i)
		}
	}
	return s, markNone
}

// addForm puts a surface form into the trie. Two spellings of one place that
// differ only in where their words part become one form.
func (ix *index) addForm(text string, m mark, ident int32) error {
	sp, ok := spell(text)
	if !ok || strings.TrimSpace(text) != text {
		return fmt.Errorf("%q is no place name: expected 1 to %d Latin letters in words", text, maxLetters)
	}
	at := uint16(0)
	for _, c := range []byte(sp.letters) {
		next := ix.nodes[at].next[c-'a']
		if next == 0 {
			if len(ix.nodes) > 0xffff || len(ix.forms) > 0xffff {
				return fmt.Errorf("%q: the table has outgrown 16-bit links", text)
			}
			next = uint16(len(ix.nodes))
			ix.nodes = append(ix.nodes, node{})
			ix.nodes[at].next[c-'a'] = next
		}
		at = next
	}
	if i := ix.nodes[at].form; i != 0 {
		f := &ix.forms[i]
		if f.ident != ident || f.mark != m || f.parted == sp.parted {
			return fmt.Errorf("%q is listed already, as %q", text, f.text)
		}
		f.parted |= sp.parted
		return nil
	}
	ix.nodes[at].form = uint16(len(ix.forms))
	ix.forms = append(ix.forms, form{spelling: sp, text: text, ident: ident, mark: m})
	return nil
}

// link resolves the fields of the places to the places they name, or to a form
// of their own where no row has the name.
func (ix *index) link(lines []int) error {
	extra := int32(len(ix.places))
	ix.refs = make([][formCount]int32, len(ix.places))
	for i, p := range ix.places {
		for f := range formCount {
			ix.refs[i][f] = -1
			text := p.Field(f)
			if f < FormAdmin || text == "" {
				continue
			}
			got, ok := ix.form(text)
			if !ok {
				if err := ix.addForm(text, markCased, extra); err != nil {
					return fmt.Errorf("places.tsv:%d: %s: %w", lines[i], p.Name, err)
				}
				extra++
				got = &ix.forms[len(ix.forms)-1]
			}
			if got.mark == markFile {
				return fmt.Errorf("places.tsv:%d: %s: %q is an alias for file names only", lines[i], p.Name, text)
			}
			if f == FormCountry {
				if int(got.ident) >= len(ix.places) || ix.places[got.ident].Name != text || ix.places[got.ident].Country != text {
					return fmt.Errorf("places.tsv:%d: %s: country %q has no row of that name with itself as its country", lines[i], p.Name, text)
				}
			}
			if got.ident != int32(i) {
				ix.refs[i][f] = got.ident
			}
		}
	}
	return nil
}
