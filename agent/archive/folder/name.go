package folder

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"terraloom/agent/archive"
)

// Name is a file name of the usual kinds, taken apart:
//
//	<Place>_<Y-M-D>_LST.tif              <Place>_NDVI_<Y-M-D>.tif
//	<Y_M_D_HHMM>_BT_31_Day.tif           <Place>_<YYYYMMDD_HHMM>_Emis31.tif
//	<Place>.tif_<Y-M-D_HHMM>_Emis32.tif  <Place>_sur_refl_b01.tif_<Y-M-D>.tif
//	<Place>_<Y>_avg_rad_<Y-M-D>.tif      <Place>_built_volume_total_<Y>.tif
//	<Y_M_D>_BT_10_Polygon2.tif           SR_B5_<Y-M-D>.tif
//
// The variable stands on either side of the date; words are parted by "_"; a
// suffix ".tif" may be glued to the place or to the variable. The place keeps its
// blanks, hyphens and spelling.
type Name struct {
	Place    string // "" if the name has none
	Variable string
	Part     string // what stands behind a variable after the date, as "Polygon2"
	Date     time.Time
	Precise  Precision

	parts []part
}

// Precision is how exactly a name gives its time.
type Precision uint8

// The precisions.
const (
	Undated Precision = iota
	ToYear
	ToDay
	ToMinute
)

// part is a piece of the text.
type part struct {
	kind partKind
	text string // of fixed text and words; the layout of a date
}

type partKind uint8

const (
	fixed partKind = iota
	placePart
	variablePart
	datePart
	restPart
)

// ParseName takes a file name apart, without its folder. It is false for a name
// that has no date, no variable or no suffix of a raster.
func ParseName(file string) (Name, bool) {
	stem, suffix := cutSuffix(strings.TrimSpace(file))
	if suffix == "" {
		return Name{}, false
	}
	from, to, layout, when, precise := findDate(stem)
	if precise == Undated {
		return Name{}, false
	}
	n := Name{Date: when, Precise: precise}
	left, right := stem[:from], stem[to:]
	if !n.readLeft(left, right == "") || !n.readRight(right, layout) || n.Variable == "" {
		return Name{}, false
	}
	n.parts = append(n.parts, part{fixed, suffix})
	return n, true
}

// cutSuffix cuts ".tif" or ".tiff" off, in any case.
func cutSuffix(file string) (stem, suffix string) {
	for _, s := range []string{".tif", ".tiff"} {
		if len(file) > len(s) && strings.EqualFold(file[len(file)-len(s):], s) {
			return file[:len(file)-len(s)], file[len(file)-len(s):]
		}
	}
	return file, ""
}

// findDate finds the last full date of a name, with the clock time that follows
// it, or else the last year that stands alone.
func findDate(s string) (from, to int, layout string, when time.Time, precise Precision) {
	for i := len(s) - 4; i >= 0; i-- {
		if i > 0 && s[i-1] != '_' {
			continue
		}
		end, l := dateAt(s, i)
		if end == 0 {
			continue
		}
		t, err := time.Parse(l, s[i:end])
		switch {
		case err != nil:
		case l != "2006":
			if clock := end + 5; clock <= len(s) && s[end] == '_' && digits(s[end+1:clock]) && (clock == len(s) || s[clock] == '_') {
				if exact, err := time.Parse(l+"_1504", s[i:clock]); err == nil {
					return i, clock, l + "_1504", exact, ToMinute
				}
			}
			return i, end, l, t, ToDay
		case precise == Undated: // kept unless a full date stands before: then it is a clock time
			from, to, layout, when, precise = i, end, l, t, ToYear
		}
	}
	return from, to, layout, when, precise
}

// dateAt tells where a date that begins at s[i] ends, and its layout.
func dateAt(s string, i int) (end int, layout string) {
	word := func(n int) bool {
		return i+n <= len(s) && (i+n == len(s) || s[i+n] == '_')
	}
	switch {
	case word(10) && digits(s[i:i+4]) && digits(s[i+5:i+7]) && digits(s[i+8:i+10]) && s[i+4] == s[i+7] && (s[i+4] == '-' || s[i+4] == '_'):
		sep := s[i+4 : i+5]
		return i + 10, "2006" + sep + "01" + sep + "02"
	case word(8) && digits(s[i:i+8]):
		return i + 8, "20060102"
	case word(4) && digits(s[i:i+4]):
		if y, err := strconv.Atoi(s[i : i+4]); err == nil && y >= 1970 && y < 2100 {
			return i + 4, "2006"
		}
	}
	return 0, ""
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// readLeft reads what stands before the date: a place, and the variable too if
// nothing follows the date.
func (n *Name) readLeft(left string, last bool) bool {
	if left == "" {
		return true
	}
	body, ok := strings.CutSuffix(left, "_")
	if !ok {
		return false
	}
	glue := ""
	if stem, s := cutSuffix(body); s != "" {
		body, glue = stem, s
	}
	place := body
	if last {
		at := variableStart(body)
		if n.Variable = body[at:]; n.Variable == "" {
			return false
		}
		if place = strings.TrimSuffix(body[:at], "_"); place == "" && at > 0 {
			return false
		}
	}
	n.Place = place
	if place != "" {
		n.parts = append(n.parts, part{placePart, place})
		if last {
			n.parts = append(n.parts, part{fixed, body[len(place) : len(body)-len(n.Variable)]})
		}
	}
	if last {
		n.parts = append(n.parts, part{variablePart, n.Variable})
	}
	n.parts = append(n.parts, part{fixed, glue + "_"})
	return true
}

// readRight reads the date and the variable behind it, if there is one.
func (n *Name) readRight(right, layout string) bool {
	n.parts = append(n.parts, part{datePart, layout})
	if right == "" {
		return true
	}
	body, ok := strings.CutPrefix(right, "_")
	if !ok || body == "" {
		return false
	}
	n.parts = append(n.parts, part{fixed, "_"})
	n.Variable = body
	if at := strings.LastIndexByte(body, '_'); at > 0 && at+1 < len(body) && !isVariable(body) && isVariable(body[:at]) {
		n.Variable, n.Part = body[:at], body[at+1:]
	}
	n.parts = append(n.parts, part{variablePart, n.Variable})
	if n.Part != "" {
		n.parts = append(n.parts, part{fixed, "_"}, part{restPart, n.Part})
	}
	return true
}

// variableStart finds where the variable begins at the end of a text: the longest
// known one, or the last word.
func variableStart(s string) int {
	for i := range len(s) {
		if (i == 0 || s[i-1] == '_') && isVariable(s[i:]) {
			return i
		}
	}
	return strings.LastIndexByte(s, '_') + 1
}

// isVariable is true of the bands of the product table and of the names that
// prepared files have.
func isVariable(s string) bool {
	if tableBands()[strings.ToLower(s)] {
		return true
	}
	head := strings.TrimRight(s, "0123456789")
	if head != s {
		switch head {
		case "BT_", "BT", "Reflectance_", "Emis", "Emis_", "sur_refl_b", "b", "B", "SR_B", "ST_B":
			return true
		}
	}
	if base, ok := strings.CutSuffix(s, "_Day"); ok {
		return isVariable(base)
	}
	if base, ok := strings.CutSuffix(s, "_Night"); ok {
		return isVariable(base)
	}
	return false
}

var tableBands = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{"tvdi": true, "pwv": true, "ndwi": true, "nbr": true, "ndsi": true}
	for _, p := range archive.Products() {
		for _, b := range p.Bands {
			names[strings.ToLower(b.Name)] = true
			for _, a := range b.Aliases {
				names[strings.ToLower(a)] = true
			}
		}
	}
	return names
})

// String writes the name as it was read, with the present place, variable and date.
func (n Name) String() string {
	var b strings.Builder
	for _, p := range n.parts {
		switch p.kind {
		case placePart:
			b.WriteString(n.Place)
		case variablePart:
			b.WriteString(n.Variable)
		case datePart:
			b.WriteString(n.Date.Format(p.text))
		case restPart:
			b.WriteString(n.Part)
		default:
			b.WriteString(p.text)
		}
	}
	return b.String()
}
