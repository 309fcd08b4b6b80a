package gazetteer

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTableSize(t *testing.T) {
	count := map[Kind]int{}
	for _, p := range All() {
		count[p.Kind]++
	}
	if n := len(All()); n < 420 {
		t.Errorf("%d places, want at least 420", n)
	}
	for _, k := range Kinds() {
		want := 12
		if k == City {
			want = 150
		}
		if count[k] < want {
			t.Errorf("%d places of kind %s, want at least %d", count[k], k, want)
		}
	}
}

// What parse does not check: that rows agree with each other.
func TestTableAgrees(t *testing.T) {
	// The box of a country is that of its main landmass.
	beyond := regexp.MustCompile(`^(Alaska|Hawaii|Svalbard)$`)
	// Countries in two continents.
	split := map[string]bool{"Russia": true, "Turkey": true}
	inside := func(p, in Place, slack float64) bool {
		return p.Lon >= in.West-slack && p.Lon <= in.East+slack && p.Lat >= in.South-slack && p.Lat <= in.North+slack
	}
	for _, p := range All() {
		if p.Country == "" && p.Kind != Sea && p.Name != "Greenland" {
			t.Errorf("%s has no country", p.Name)
		}
		if c, ok := ByName(p.Country); ok && c.Name != p.Name {
			if !beyond.MatchString(p.Admin) && p.Name != "Alaska" && !inside(p, c, 0.3) {
				t.Errorf("%s (%g,%g) lies outside %s", p.Name, p.Lon, p.Lat, c.Name)
			}
			if p.Continent != c.Continent && !split[c.Name] {
				t.Errorf("%s is in %s, its country %s in %s", p.Name, p.Continent, c.Name, c.Continent)
			}
		}
		if a, ok := ByName(p.Admin); ok && (a.Kind == Province || a.Kind == Region || a.Kind == Island) {
			if !inside(p, a, 0.1) || a.Country != p.Country {
				t.Errorf("%s (%g,%g, %s) lies outside %s (%s)", p.Name, p.Lon, p.Lat, p.Country, a.Name, a.Country)
			}
		}
		if p.Admin == p.Name {
			t.Errorf("%s is its own admin", p.Name)
		}
		if n, ok := ByName(p.Near); ok && (n.Country != p.Country || !inside(n, p, 1)) {
			t.Errorf("%s is not beside %s", n.Name, p.Name)
		}
		if (p.Kind == Desert) != (p.Near != "") {
			t.Errorf("%s (%s): near is for deserts, and every desert has one; it is %q", p.Name, p.Kind, p.Near)
		}
		if p.Kind == Island && p.Sea == "" {
			t.Errorf("island %s lies in no sea", p.Name)
		}
		if p.Kind == Country && p.Country != p.Name {
			t.Errorf("country %s has country %s", p.Name, p.Country)
		}
		if p.Continent == "" && p.Name != "Arctic Ocean" {
			t.Errorf("%s has no continent", p.Name)
		}
		if size := math.Max(p.East-p.West, p.North-p.South); p.Kind == City && size > 1 {
			t.Errorf("city %s is %.1f degrees wide", p.Name, size)
		}
	}
}

// No place is, by its fields, a part of a part of itself.
func TestFieldsHaveNoCycle(t *testing.T) {
	ix := table()
	state := make([]int, len(ix.places))
	var visit func(i int)
	visit = func(i int) {
		if state[i] == 1 {
			t.Fatalf("%s is a field of its own field", ix.places[i].Name)
		}
		if state[i] == 2 {
			return
		}
		state[i] = 1
		for _, r := range ix.refs[i] {
			if r >= 0 && int(r) < len(ix.places) {
				visit(int(r))
			}
		}
		state[i] = 2
	}
	for i := range ix.places {
		visit(i)
	}
}

func TestTableIsSorted(t *testing.T) {
	if !slices.IsSortedFunc(All(), func(a, b Place) int {
		if d := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	}) {
		t.Error("places.tsv is not sorted by kind and name")
	}
}

var goodRows = strings.Join([]string{
	strings.Join(columns, "\t"),
	"Freedonia\tcountry\t\t\tFreedonia\tEurope\t\t\t10\t50\t8\t48\t12\t52\t^F.R.",
	"=Bath Town\tcity\t\tWest Shire\tFreedonia\tEurope\tNorth Water\t\t9\t49\t8.9\t48.9\t9.1\t49.1\tBad|~Tub",
}, "\n")

func TestParse(t *testing.T) {
	ix, err := parse("# comment\r\n" + strings.ReplaceAll(goodRows, "\n", "\r\n") + "\n\n")
	if err != nil {
		t.Fatal(err)
	}
	p := ix.places[1]
	if p.Name != "Bath Town" || p.Admin != "West Shire" || p.West != 8.9 || !slices.Equal(p.Aliases, []string{"Bad", "Tub"}) {
		t.Errorf("read %+v", p)
	}
	if f, ok := ix.form("f_r"); !ok || f.mark != markExact || f.ident != 0 {
		t.Errorf("the mark of an alias is lost: %+v", f)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"name\tkind", "name\tsort", `places.tsv:1: the header is`},
		{"\tBad|~Tub", "", `places.tsv:3: 14 columns, expected 15`},
		{"=Bath", "~Bath", `places.tsv:3: name "~Bath Town": only = may mark a name`},
		{"=Bath", "Bäth", `places.tsv:3: name "Bäth Town": expected ASCII letters`},
		{"=Bath", "B4th", `places.tsv:3: name "B4th Town": expected ASCII letters`},
		{"=Bath Town", "", `places.tsv:3: "" is no place name`},
		{"\tcity", "\tcities", `places.tsv:3: Bath Town: kind "cities", expected one of ["city"`},
		{"country\t\t", "country\tle\t", `places.tsv:2: Freedonia: article "le", expected "the" or nothing`},
		{"\t9\t49", "\t9\tNaN", `places.tsv:3: Bath Town: lat is "NaN", expected degrees from -90 to 90`},
		{"\t9\t49", "\t\t49", `places.tsv:3: Bath Town: lon is "", expected degrees from -180 to 180`},
		{"\t10\t50", "\t10\t90.5", `places.tsv:2: Freedonia: lat is "90.5"`},
		{"\t8\t48\t12", "\t170\t48\t-170", `places.tsv:2: Freedonia: the box needs west < east`},
		{"\t10\t50", "\t13\t50", `places.tsv:2: Freedonia: the point 13,50 lies outside the box`},
		{"Bad|", "Bad||", `places.tsv:3: Bath Town: "" is no place name`},
		{"Bad|", " Bad|", `places.tsv:3: Bath Town: " Bad" is no place name`},
		{"Bad|", "巴德|", `places.tsv:3: Bath Town: "巴德" is no place name`},
		{"Bad|", "bath-town|", `places.tsv:3: Bath Town: "bath-town" is listed already, as "Bath Town"`},
		{"Bad|", "Freedonia|", `places.tsv:3: Bath Town: "Freedonia" is listed already, as "Freedonia"`},
		{"West Shire", "Tub", `places.tsv:3: Bath Town: "Tub" is an alias for file names only`},
		{"West Shire", "W. 1", `places.tsv:3: Bath Town: "W. 1" is no place name`},
		{"West Shire\tFreedonia", "West Shire\tSylvania", `places.tsv:3: Bath Town: country "Sylvania" has no row`},
		{"West Shire\tFreedonia", "West Shire\tF.R.", `places.tsv:3: Bath Town: country "F.R." has no row of that name`},
	} {
		bad := strings.Replace(goodRows, c.old, c.new, 1)
		if bad == goodRows {
			t.Fatalf("%q is not in the rows", c.old)
		}
		if _, err := parse(bad); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q for %q: error %v\nwant %s…", c.new, c.old, err, c.want)
		}
	}
	for _, empty := range []string{"", "# nothing\n", strings.Join(columns, "\t")} {
		if _, err := parse(empty); err == nil || err.Error() != "places.tsv: no places" {
			t.Errorf("parse(%q): %v", empty, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(goodRows)
	f.Add(strings.Join(columns, "\t") + "\n" + strings.Repeat("\t", 14))
	f.Fuzz(func(t *testing.T, tsv string) {
		ix, err := parse(tsv)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "places.tsv:") {
				t.Errorf("error %q names no line", err)
			}
			return
		}
		for _, p := range ix.places {
			if f, ok := ix.form(p.Name); !ok || f.text != p.Name {
				t.Errorf("%q is not found", p.Name)
			}
			if !(p.West <= p.Lon && p.Lon <= p.East && p.South <= p.Lat && p.Lat <= p.North) {
				t.Errorf("%q lies outside its box", p.Name)
			}
		}
	})
}
