package slots

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"terraloom/slots/gazetteer"
)

// direction words before a country or region describe the old place only.
var direction = regexp.MustCompile(`(?i)(?:(?:north|south|east|west)(?:ern)?|(?:north|south)[- ]?(?:east|west)(?:ern)?|central|coastal|mainland) $`)

// placed is one place of the seed and the forms in which the seed mentions it.
type placed struct {
	place gazetteer.Place
	slot  string
	forms []gazetteer.Form
}

// places makes every place of the seed a root slot; its country, region, sea
// and so on become derived slots.
func (d *discovery) places() {
	var subjects []gazetteer.Place
	subject := func(text string) {
		for _, m := range gazetteer.Find(text, subjects...) {
			if !slices.ContainsFunc(subjects, func(p gazetteer.Place) bool { return p.Name == m.Place.Name }) {
				subjects = append(subjects, m.Place)
			}
		}
	}
	subject(d.t.Query)
	for _, p := range d.pointers { // files can be about places that the question does not name
		if p != "/query" {
			subject(d.texts[p])
		}
	}
	if len(subjects) == 0 {
		return
	}
	type mention struct {
		pointer string
		m       gazetteer.Match
	}
	var mentions []mention
	var found []*placed
	for _, p := range d.pointers {
		for _, m := range gazetteer.Find(d.texts[p], subjects...) {
			mentions = append(mentions, mention{p, m})
			i := slices.IndexFunc(found, func(f *placed) bool { return f.place.Name == m.Place.Name })
			if i < 0 {
				i = len(found)
				found = append(found, &placed{place: m.Place, slot: "place" + strconv.Itoa(i+1)})
			}
			if !slices.Contains(found[i].forms, m.Form) {
				found[i].forms = append(found[i].forms, m.Form)
			}
		}
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.place.Name
	}
	kept := map[string]*placed{}
	for _, f := range found {
		src := &GazetteerSource{Kind: string(f.place.Kind)}
		for _, form := range f.forms {
			if isField(form) {
				src.Need = append(src.Need, form.String())
			}
		}
		slices.Sort(src.Need)
		for _, n := range names {
			if n != f.place.Name {
				src.Except = append(src.Except, n)
			}
		}
		s := Slot{Name: f.slot, Type: Place, Role: Root, Group: f.slot, Seed: f.place.Name, Source: &Source{Gazetteer: src}}
		if draw, err := newDraw(&s); err != nil || draw.n < 2 {
			d.note("place %s stays: %d other places of kind %s have %s", f.place.Name, draw.n, f.place.Kind, strings.Join(src.Need, ", "))
			continue
		}
		d.add(s)
		for _, form := range f.forms {
			if isField(form) {
				d.add(Slot{Name: f.slot + "_" + form.String(), Type: TextType, Role: Derived, Group: f.slot, Expr: f.slot + "." + form.String()})
			}
		}
		kept[f.place.Name] = f
	}
	styles := map[string]string{}
	for _, x := range mentions {
		f := kept[x.m.Place.Name]
		if f == nil {
			continue
		}
		text := d.texts[x.pointer]
		if isField(x.m.Form) {
			slot := f.slot + "_" + x.m.Form.String()
			if cut := direction.FindStringIndex(text[:x.m.Start]); cut != nil {
				d.directed(x.pointer, f, slot, span{start: cut[0], end: x.m.End}, text[cut[0]:x.m.End])
				continue
			}
			d.claim(x.pointer, span{x.m.Start, x.m.End, slot, x.m.Style.String()})
			continue
		}
		// One spelling has one style, or a file and its listing would part.
		surface := text[x.m.Start:x.m.End]
		if looksLikePath(messagePath(text)) || isOutput(x.pointer[strings.LastIndexByte(x.pointer, '/')+1:]) {
			surface = "/" + surface
		}
		style, ok := styles[surface]
		if !ok {
			style = x.m.Style.String()
			styles[surface] = style
		}
		d.claim(x.pointer, span{x.m.Start, x.m.End, f.slot, style})
	}
}

// directed claims "southwestern China": the direction is true of the seed's
// place only, so other places get their country alone.
func (d *discovery) directed(pointer string, f *placed, field string, at span, text string) {
	name := field + "_there"
	for i := 2; d.p.slot(name) != nil && !strings.Contains(d.p.slot(name).Expr, strconv.Quote(text)); i++ {
		name = fmt.Sprintf("%s_there%d", field, i)
	}
	d.add(Slot{Name: name, Type: TextType, Role: Derived, Group: f.slot, Expr: fmt.Sprintf("%s.name == %q ? %q : %s", f.slot, f.place.Name, text, field)})
	at.slot = name
	d.claim(pointer, at)
}

// isField reports whether a form writes a property of the place, not its name.
func isField(f gazetteer.Form) bool {
	return f != gazetteer.FormName && f != gazetteer.FormAlias
}

// formOf is the gazetteer form of a need.
func formOf(need string) (gazetteer.Form, error) {
	for _, f := range [...]gazetteer.Form{gazetteer.FormAdmin, gazetteer.FormCountry, gazetteer.FormContinent, gazetteer.FormSea, gazetteer.FormNear} {
		if f.String() == need {
			return f, nil
		}
	}
	return 0, fmt.Errorf("source gazetteer: need %q is none of admin, country, continent, sea, near", need)
}
