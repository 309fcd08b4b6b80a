package slots

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// A seed can give the coordinates of its places: degrees in words ("12.03° N",
// "36.9–37.6° E"), numbers called lat and lon, boxes west, south, east, north.
// They belong to the place in or close by whose box they lie, and move with it.

// nearBy is how many degrees outside a place's box its coordinates may lie: the
// gazetteer's boxes are rough.
const nearBy = 1.0

// site is one coordinate, or one box, that a seed gives of a place.
type site struct {
	at         string  // JSON pointer of the text, number or list
	box        bool    // a whole list of four
	north      bool    // a latitude
	degrees    float64 // signed
	decimals   int
	start, end int // of the number in a text; 0, 0 for a whole number
	letter     int // of N, S, E or W in a text
}

var (
	inDegrees = regexp.MustCompile(`(?:(\d+(?:\.\d+)?)\s?°?\s?[–-]\s?)?(\d+(?:\.\d+)?)\s?°\s?([NSEW])\b`)
	latKey    = regexp.MustCompile(`(?i)^(?:.*_)?lat(?:itude)?$`)
	lonKey    = regexp.MustCompile(`(?i)^(?:.*_)?(?:lon|lng|longitude)$`)
	boxKey    = regexp.MustCompile(`(?i)bbox|bounds|bounding_box|extent|aoi`)
)

// sites lists the coordinates that a seed gives of a place, in order.
func sites(t *data.Trajectory, p gazetteer.Place) []site {
	var found []site
	eachText(t, func(step int, pointer, text string) {
		if step >= 0 {
			pointer = "/steps/" + strconv.Itoa(step) + pointer
		}
		if !strings.Contains(text, "°") {
			return
		}
		for _, m := range inDegrees.FindAllStringSubmatchIndex(text, -1) {
			for g := 2; g <= 4; g += 2 {
				if m[g] < 0 {
					continue
				}
				s := site{at: pointer, start: m[g], end: m[g+1], letter: m[6], decimals: decimals(text[m[g]:m[g+1]])}
				s.degrees, _ = strconv.ParseFloat(text[m[g]:m[g+1]], 64)
				c := text[m[6]]
				s.north = c == 'N' || c == 'S'
				if c == 'S' || c == 'W' {
					s.degrees = -s.degrees
				}
				if s.of(p) && (s.degrees != 0 || c == 'N' || c == 'E') {
					found = append(found, s)
				}
			}
		}
	})
	var visit func(pointer, key string, v strictjson.Value)
	visit = func(pointer, key string, v strictjson.Value) {
		switch f, number := v.Float(); {
		case number && (latKey.MatchString(key) || lonKey.MatchString(key)):
			if s := (site{at: pointer, north: latKey.MatchString(key), degrees: f, decimals: decimals(v.Text())}); s.of(p) {
				found = append(found, s)
			}
		case v.Kind() == strictjson.Array && boxKey.MatchString(key) && isBoxOf(v, p):
			found = append(found, site{at: pointer, box: true})
		default:
			for i := range v.Len() {
				token, below := strconv.Itoa(i), key
				if v.Kind() == strictjson.Object {
					below = v.Key(i)
					token = strictjson.EscapePointer(below)
				}
				visit(pointer+"/"+token, below, v.Index(i))
			}
		}
	}
	visit("/inputs", "", t.Inputs)
	for i := range t.Steps {
		visit(fmt.Sprintf("/steps/%d/arguments", i), "", t.Steps[i].Arguments)
	}
	return found
}

// of reports whether a coordinate lies at a place.
func (s site) of(p gazetteer.Place) bool {
	if s.north {
		return s.degrees >= p.South-nearBy && s.degrees <= p.North+nearBy
	}
	return s.degrees >= p.West-nearBy && s.degrees <= p.East+nearBy
}

// isBoxOf reports whether v is a box in degrees whose centre lies at p.
func isBoxOf(v strictjson.Value, p gazetteer.Place) bool {
	var b [4]float64
	if v.Len() != len(b) {
		return false
	}
	for i := range b {
		f, ok := v.Index(i).Float()
		if !ok {
			return false
		}
		b[i] = f
	}
	return -180 <= b[0] && b[0] < b[2] && b[2] <= 180 && -90 <= b[1] && b[1] < b[3] && b[3] <= 90 &&
		(site{degrees: (b[0] + b[2]) / 2}).of(p) && (site{north: true, degrees: (b[1] + b[3]) / 2}).of(p)
}

// coordinates makes the coordinates of places that move derived slots. A point
// keeps its distance to the place's own; a box becomes that of the new place.
func (d *discovery) coordinates() {
	covered := map[string]bool{}
	for _, slot := range d.p.Slots {
		if slot.Type != Place {
			continue
		}
		name, _ := slot.Seed.(string)
		p, _ := gazetteer.ByName(name)
		for n, s := range sites(d.t, p) {
			key := fmt.Sprint(s.at, s.start)
			if covered[key] || !d.free(s.at, s.start, s.end) && s.end > 0 {
				continue
			}
			covered[key] = true
			d.moveSite(slot.Name, p, n+1, s)
		}
	}
}

// centred is the expression of a box whose middle is the place's own point: it
// keeps its size wherever it moves. "" for any other box.
func centred(box strictjson.Value, place string, p gazetteer.Place) string {
	var b [4]float64
	for i := range b {
		b[i], _ = box.Index(i).Float()
	}
	dx, dy := roundTo((b[2]-b[0])/2, 6), roundTo((b[3]-b[1])/2, 6)
	sides := [4]struct {
		axis string
		at   float64
		off  float64
	}{{"lon", p.Lon, -dx}, {"lat", p.Lat, -dy}, {"lon", p.Lon, dx}, {"lat", p.Lat, dy}}
	var terms [4]string
	for i, s := range sides {
		if roundTo(s.at+s.off, 4) != b[i] {
			return ""
		}
		terms[i] = fmt.Sprintf("round(%s.%s + %v, 4)", place, s.axis, s.off)
	}
	return "[" + strings.Join(terms[:], ", ") + "]"
}

func (d *discovery) moveSite(place string, p gazetteer.Place, n int, s site) {
	whole := func(slot string) {
		d.p.Occurrences = append(d.p.Occurrences, Occurrence{At: s.at, Slot: slot})
	}
	if s.box {
		v, _ := d.t.Value().At(s.at)
		expr := centred(v, place, p)
		if expr == "" {
			expr = fmt.Sprintf("%s.name == %q ? %s : %s.bbox", place, p.Name, v.JSON(), place)
		}
		for _, have := range d.p.Slots { // the same box elsewhere
			if have.Type == BBox && have.Expr == expr {
				whole(have.Name)
				return
			}
		}
		whole(d.add(Slot{Name: fmt.Sprintf("%s_bbox%d", place, n), Type: BBox, Role: Derived, Group: place, Expr: expr}))
		return
	}
	axis, from, limit, positive, negative := "lon", p.Lon, 180, "E", "W"
	if s.north {
		axis, from, limit, positive, negative = "lat", p.Lat, 90, "N", "S"
	}
	name := fmt.Sprintf("%s_%s%d", place, axis, n)
	d.add(Slot{Name: name, Type: NumberType, Role: Derived, Group: place,
		Expr: fmt.Sprintf("round(clamp(%s.%s + %v, -%d, %d), %d)", place, axis, roundTo(s.degrees-from, 6), limit, limit, s.decimals)})
	if s.end == 0 {
		whole(name)
		return
	}
	size := d.add(Slot{Name: name + "_abs", Type: NumberType, Role: Derived, Group: place, Expr: "abs(" + name + ")"})
	d.claim(s.at, span{s.start, s.end, size, fmt.Sprintf(".%df", s.decimals)})
	if !d.free(s.at, s.letter, s.letter+1) {
		return // of a range, with the number before
	}
	side := d.add(Slot{Name: name + "_side", Type: TextType, Role: Derived, Group: place, Expr: fmt.Sprintf("%s < 0 ? %q : %q", name, negative, positive)})
	d.claim(s.at, span{s.letter, s.letter + 1, side, ""})
}
