package gazetteer

import (
	"slices"
	"testing"
)

func TestByName(t *testing.T) {
	for name, want := range map[string]string{
		"Lake Urmia":           "Lake Urmia",
		"lakeUrmia":            "Lake Urmia",
		"LAKE_URMIA":           "Lake Urmia",
		"Urmia":                "Lake Urmia",
		"León":                 "Leon",
		"leo\u0301n":           "Leon", // decomposed
		"sao-paulo":            "Sao Paulo",
		"São Paulo":            "Sao Paulo",
		"Taklimakan":           "Taklamakan Desert",
		"Lake Taihu":           "Taihu Lake",
		"Murray–Darling Basin": "Murray-Darling Basin",
		"U.S.":                 "United States",
		"Türkiye":              "Turkey",
		"Xi’an":                "Xian",
		"Huang-Huai-Hai Plain": "North China Plain",
		"Côte d'Ivoire":        "Ivory Coast",
		"tian shan":            "Tianshan Mountains",
		"Wind River Indian":    "Wind River Indian Reservation",
		"Białowieża Forest":    "Bialowieza Forest",
		"Eyjafjallajökull":     "Eyjafjallajokull",
		"new south wales":      "New South Wales",
		"Santiago_de_Chile":    "Santiago",
		"":                     "",
		"Atlantis":             "",
		"Indian":               "", // the start of a file name only
		"Massachusetts":        "", // a field of Boston, not a row
		"Africa":               "",
		"Lake Urmia 2":         "",
		"新疆":                   "",
		"Lake Urmia\x80":       "",
		"Lake  ":               "",
		"Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch in Wales": "",
	} {
		p, ok := ByName(name)
		if ok != (want != "") || p.Name != want {
			t.Errorf("ByName(%q) = %q, %v; want %q", name, p.Name, ok, want)
		}
	}
}

func TestOfKind(t *testing.T) {
	balkhash, _ := ByName("Lake Balkhash")
	all, rest := OfKind(Lake), OfKind(Lake, balkhash)
	if len(rest) != len(all)-1 || slices.ContainsFunc(rest, func(p Place) bool { return p.Name == balkhash.Name }) {
		t.Errorf("OfKind(Lake, Lake Balkhash) has %d of %d lakes", len(rest), len(all))
	}
	for _, p := range all {
		if p.Kind != Lake {
			t.Errorf("%s is a %s", p.Name, p.Kind)
		}
	}
	if got := OfKind("planet"); got != nil {
		t.Errorf("OfKind of an unknown kind = %v", got)
	}
}

func TestCopies(t *testing.T) {
	All()[0].Name = "x"
	Kinds()[0] = "x"
	OfKind(City)[0].Name = "x"
	if All()[0].Name == "x" || Kinds()[0] == "x" || OfKind(City)[0].Name == "x" {
		t.Error("a caller can change the table")
	}
}
