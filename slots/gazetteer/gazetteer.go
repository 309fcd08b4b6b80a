// Package gazetteer holds real places with their coordinates, recognises them
// in free text and in file names, and writes another place in the spelling of
// the one that was found.
//
// The table is places.tsv, written for this project from general knowledge.
// Coordinates are good to about a tenth of a degree (cities to a few
// kilometres) and boxes enclose what the name commonly means; they serve to
// make instances that hang together, not to survey. Columns:
//
//	name        plain ASCII letters, spaces and hyphens
//	kind        one of Kinds
//	article     "the" if running text says "the" before the name
//	admin       state, province or wider region; may be empty
//	country     the country that holds the point, a name of this table; empty at sea
//	continent   empty for the Arctic Ocean
//	sea         the sea of an island or coastal city, as used before "island" or "coast"
//	near        a settlement in or beside a desert
//	lon lat     degrees east and north, WGS 84
//	west south east north   the box, degrees; no box crosses the antimeridian
//	aliases     other spellings, separated by "|"
//
// The box of a country is that of its main landmass. A mark before a name or
// an alias narrows where it is recognised:
//
//	=  in free text only with its capitals, because the word is also an
//	   ordinary one (Burns); in file names in any case
//	^  only with exactly these capitals (US)
//	~  only as the start of a file name (Indian)
package gazetteer

import (
	_ "embed"
	"slices"
	"sync"
)

//go:embed places.tsv
var placesTSV string

// Kind says what a place is. Places of one kind can stand in for each other.
type Kind string

// The kinds.
const (
	City          Kind = "city"
	Lake          Kind = "lake"
	Reservoir     Kind = "reservoir"
	RiverBasin    Kind = "river_basin"
	RiverDelta    Kind = "river_delta"
	Desert        Kind = "desert"
	Glacier       Kind = "glacier_or_icefield"
	MountainRange Kind = "mountain_range"
	Volcano       Kind = "volcano"
	Plateau       Kind = "plateau"
	Plain         Kind = "plain_or_farmland"
	Grassland     Kind = "grassland"
	Forest        Kind = "forest"
	Wetland       Kind = "wetland"
	ProtectedArea Kind = "protected_area"
	Island        Kind = "island"
	Coast         Kind = "coast_or_bay"
	Sea           Kind = "sea_or_ocean_region"
	Province      Kind = "province_or_state"
	Region        Kind = "region" // wider than a province: Sahel
	Country       Kind = "country"
)

var kinds = []Kind{City, Lake, Reservoir, RiverBasin, RiverDelta, Desert, Glacier, MountainRange, Volcano, Plateau,
	Plain, Grassland, Forest, Wetland, ProtectedArea, Island, Coast, Sea, Province, Region, Country}

// Kinds lists the kinds in the order of the table.
func Kinds() []Kind { return slices.Clone(kinds) }

// Place is one row of the table. Angles are degrees, WGS 84.
type Place struct {
	Name      string
	Kind      Kind
	Article   bool   // running text says "the" before the name
	Admin     string // state, province or wider region
	Country   string // short English name; the place's own name for a country
	Continent string
	Sea       string // "Mediterranean" of an island or a coastal city
	Near      string // a settlement in or beside a desert
	Lon, Lat  float64

	West, South, East, North float64 // the box; it contains the point

	Aliases []string // other spellings, without marks; not to be changed
}

// Field is the text of p that a mention of the given form stands for: its
// name, country, admin, … It is empty where the table has none.
func (p Place) Field(f Form) string {
	switch f {
	case FormAdmin:
		return p.Admin
	case FormCountry:
		return p.Country
	case FormContinent:
		return p.Continent
	case FormSea:
		return p.Sea
	case FormNear:
		return p.Near
	}
	return p.Name
}

// table is the parsed places.tsv. The file is part of the program and the
// tests parse it, so a fault in it is a broken build, not an error to handle.
var table = sync.OnceValue(func() *index {
	ix, err := parse(placesTSV)
	if err != nil {
		panic(err)
	}
	return ix
})

// All returns every place, by kind and then by name.
func All() []Place { return slices.Clone(table().places) }

// ByName finds a place by its name or an alias; case, diacritics and the
// choice of space, "_", "-" or nothing between words do not matter.
func ByName(name string) (Place, bool) {
	ix := table()
	f, ok := ix.form(name)
	if !ok || f.mark == markFile || int(f.ident) >= len(ix.places) {
		return Place{}, false
	}
	return ix.places[f.ident], true
}

// OfKind returns the places of a kind by name, without those in not.
func OfKind(kind Kind, not ...Place) []Place {
	var out []Place
	for _, p := range table().places {
		if p.Kind == kind && !slices.ContainsFunc(not, func(q Place) bool { return q.Name == p.Name }) {
			out = append(out, p)
		}
	}
	return out
}
