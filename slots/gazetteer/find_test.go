package gazetteer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// show writes matches as `text=Place/form` parted by blanks.
func show(text string, ms []Match) string {
	var out []string
	for _, m := range ms {
		out = append(out, fmt.Sprintf("%s=%s/%s", text[m.Start:m.End], m.Place.Name, m.Form))
	}
	return strings.Join(out, " | ")
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		// Free text.
		{"near Urumqi, Xinjiang, China between", "Urumqi=Urumqi/name | Xinjiang=Urumqi/admin | China=Urumqi/country"},
		{"Lake Balkhash, Kazakhstan", "Lake Balkhash=Lake Balkhash/name | Kazakhstan=Lake Balkhash/country"},
		{"Kazakhstan", "Kazakhstan=Kazakhstan/name"},
		{"the Central Valley of California, U.S., from May", "the Central Valley=Central Valley/name | California=Central Valley/admin | U.S.=Central Valley/country"},
		{"over California in the USA", "California=California/name | the USA=California/country"},
		{"California's Central Valley", "California=Central Valley/admin | Central Valley=Central Valley/name"},
		{"the Mediterranean island of Cyprus", "Mediterranean=Cyprus/sea | Cyprus=Cyprus/name"},
		{"the Mediterranean Sea's colour", "the Mediterranean Sea=Mediterranean Sea/name"},
		{"the Sahara near Tamanrasset, Algeria", "the Sahara=Sahara Desert/alias | Tamanrasset=Sahara Desert/near | Algeria=Sahara Desert/country"},
		{"Congo Basin, Africa", "Congo Basin=Congo Basin/name | Africa=Congo Basin/continent"},
		{"rain in Africa", ""},
		{"Atlanta, Georgia, and Tbilisi, Georgia", "Atlanta=Atlanta/name | Georgia=Atlanta/admin | Tbilisi=Tbilisi/name | Georgia=Tbilisi/country"},
		{"Nuevo Leon", ""}, // not León, nor beside Monterrey
		{"Monterrey, Nuevo Leon", "Monterrey=Monterrey/name | Nuevo Leon=Monterrey/admin"},
		{"Murray–Darling Basin", "Murray–Darling Basin=Murray-Darling Basin/name"},
		{"LEÓN, Le\u0301on and León’s", "LEÓN=Leon/name | Le\u0301on=Leon/name | León=Leon/name"},
		{"New York City, New York", "New York City=New York/alias | New York=New York/name"},
		{"tibetan plateau", "tibetan plateau=Tibetan Plateau/name"},
		{"the\nYellow River\nBasin", "Yellow River\nBasin=Yellow River Basin/name"},
		// Word borders.
		{"Parisian Limassol Chadian Omani Peruvian Javascript", ""},
		{"ParisNDVI lstParis 2020Paris2021", "Paris=Paris/name | Paris=Paris/name | Paris=Paris/name"},
		{"LSTParis Parisя ÉParis", ""},
		{"Sahara. Desert", "Sahara=Sahara Desert/alias"},
		// Ordinary words and tokens.
		{"it burns a gazelle in java on a china plate with lima beans; turkey, chad, para, us, US-based", "US=United States/alias"},
		{"Mean Max LST NDVI BT_31 QA_PIXEL SR_B3 sur_refl_b01 avg_rad MaxFRP Emis31 Day Night", ""},
		{"The Indian Ocean and the Arctic cold", ""},
		{"Burns=1", "Burns=Burns/name"},
		// File names.
		{"lakeUrmia_sur_refl_b01.tif_2022-01-01.tif", "lakeUrmia=Lake Urmia/name"},
		{"Taihu Lake-China_sur_refl_b01_2022-05-01.tif", "Taihu Lake=Taihu Lake/name | China=Taihu Lake/country"},
		{"XilinGolGrassland-China_NDVI_2020-05-08.tif", "XilinGolGrassland=Xilingol Grassland/name | China=Xilingol Grassland/country"},
		{"Northeast Plain of China _NDVI_2020-04-06.tif", "Northeast Plain=Northeast Plain/name | China=Northeast Plain/country"},
		{"Sahara Desert- Algeria_NDVI_2022-03-06.tif", "Sahara Desert=Sahara Desert/name | Algeria=Sahara Desert/country"},
		{"out/Taklamakan.tif_2020-02-23_0550_Emis32.tif", "Taklamakan=Taklamakan Desert/alias"},
		{"Cape Town-South Africa_sur_refl_b02_2024-11-01.tif", "Cape Town=Cape Town/name | South Africa=Cape Town/country"},
		{"hotspot_nbr_capetown_2024-11-01.tif", "capetown=Cape Town/name"},
		{"nbr_nsw_001.tif", "nsw=New South Wales/alias"},
		{"C:\\data\\burns_avg_rad_2018.tif", "burns=Burns/name"},
		{"data/Congo_precipitation_2025-05-01.tif", "Congo=Congo Rainforest/alias"},
		{"x_Congo_1.tif the Congo", ""},
		{"Indian_NDVI.tif, Indian/x.tif", "Indian=Wind River Indian Reservation/alias"},
		{"US_2020.tif us_2020.tif", "US=United States/alias"},
		// Not text.
		{"", ""},
		{"\xffParis\xff\x00Rome", "Paris=Paris/name | Rome=Rome/name"},
	} {
		if got := show(c.text, Find(c.text)); got != c.want {
			t.Errorf("Find(%q)\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestFindAbout(t *testing.T) {
	urumqi, _ := ByName("Urumqi")
	forest, _ := ByName("Black Forest")
	for _, c := range []struct {
		text, want string
		about      []Place
	}{
		{"Xinjiang_2019-01-01_LST.tif", "Xinjiang=Xinjiang/name", nil},
		{"Xinjiang_2019-01-01_LST.tif", "Xinjiang=Urumqi/admin", []Place{urumqi}},
		{"lst_Germany_2021-07-29.tif", "Germany=Black Forest/country", []Place{urumqi, forest}},
		{"Turpan, Xinjiang", "Turpan=Turpan/name | Xinjiang=Turpan/admin", []Place{urumqi}},
		{"Asia", "Asia=Urumqi/continent", []Place{urumqi}},
		{"Asia", "", []Place{{Name: "Atlantis"}}},
	} {
		if got := show(c.text, Find(c.text, c.about...)); got != c.want {
			t.Errorf("Find(%q, %d places) = %s, want %s", c.text, len(c.about), got, c.want)
		}
	}
}

// A mention is about the nearest of several places that it can qualify.
func TestFindNearestOwner(t *testing.T) {
	text := "Wuhan, Hubei, China. Compare with Lyon, France; China Shanghai"
	want := "Wuhan=Wuhan/name | Hubei=Wuhan/admin | China=Wuhan/country | Lyon=Lyon/name | France=Lyon/country | China=Shanghai/country | Shanghai=Shanghai/name"
	if got := show(text, Find(text)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMatchRender(t *testing.T) {
	for _, c := range []struct{ text, place, want string }{
		{"Lake Balkhash, Kazakhstan", "Lake Van", "Lake Van, Turkey"},
		{"Lake_Balkhash_ndwi_2008-04-16.tif", "Great Salt Lake", "Great_Salt_Lake_ndwi_2008-04-16.tif"},
		{"Taihu Lake-China_b01.tif", "Lake Tahoe", "Lake Tahoe-United_States_b01.tif"},
		{"lakeUrmia_b01.tif_2022-01-01.tif", "Lake Van", "lakeVan_b01.tif_2022-01-01.tif"},
		{"XilinGolGrassland-China_NDVI.tif", "Mongolian Steppe", "MongolianSteppe-Mongolia_NDVI.tif"},
		{"Taklamakan.tif_2020-02-23.tif", "Gobi Desert", "Gobi_Desert.tif_2020-02-23.tif"},
		{"nbr_capetown_001.tif", "Rio de Janeiro", "nbr_riodejaneiro_001.tif"},
		{"Tibetan-Plateau_NDVI.tif", "Loess Plateau", "Loess-Plateau_NDVI.tif"},
		{"TIBETAN PLATEAU", "Loess Plateau", "LOESS PLATEAU"},
		{"the Central Valley of California, U.S., from", "Po Valley", "the Po Valley of Lombardy, Italy, from"},
		{"the Sahara Desert near Tamanrasset, Algeria", "Gobi Desert", "the Gobi Desert near Dalanzadgad, Mongolia"},
		{"on the Mediterranean island of Cyprus", "Gotland", "on the Baltic island of Gotland"},
		{"California, USA", "Gujarat", "Gujarat, India"},
		// The article.
		{"The turbidity of Lake Van in 2022", "Dead Sea", "The turbidity of the Dead Sea in 2022"},
		{"The Dead Sea's turbidity", "Lake Van", "Lake Van's turbidity"},
		{"the Dead Sea's turbidity", "Great Lakes", "the Great Lakes's turbidity"},
		{"over the Turpan region", "Accra", "over the Accra region"},
		{"fires in Thailand.", "United States", "fires in the United States."},
		{"fires across northern Thailand", "United States", "fires across northern United States"},
		{"Lake Van_b01.tif", "Dead Sea", "Dead Sea_b01.tif"},
		{"Lake Van", "Dead Sea", "Dead Sea"},
	} {
		p, ok := ByName(c.place)
		if !ok {
			t.Fatalf("no place %q", c.place)
		}
		if got := replaceAll(t, c.text, Find(c.text), p); got != c.want {
			t.Errorf("%q about %s = %q, want %q", c.text, c.place, got, c.want)
		}
	}
	in := Find("Wuhan, Hubei")[1]
	if beijing, _ := ByName("Beijing"); beijing.Admin == "" {
		if s, ok := in.Render(beijing); ok || s != "" {
			t.Errorf("Beijing has no admin, but renders as %q", s)
		}
	}
}

// replaceAll writes text with p in the place of all matches.
func replaceAll(t *testing.T, text string, ms []Match, p Place) string {
	t.Helper()
	var b strings.Builder
	at := 0
	for _, m := range ms {
		s, ok := m.Render(p)
		if !ok {
			t.Errorf("%s has no %s", p.Name, m.Form)
		}
		b.WriteString(text[at:m.Start])
		b.WriteString(s)
		at = m.End
	}
	return b.String() + text[at:]
}

// Whatever spelling a place is written in, it is found again in a file name,
// and alone, and its style writes the same.
func TestRenderedPlacesAreFound(t *testing.T) {
	for _, p := range All() {
		for j := Natural; j <= Glued; j++ {
			for c := Named; c <= Camel; c++ {
				style := Style{Joint: j, Case: c}
				name := Render(p, style)
				for _, text := range []string{name + "_NDVI_2020-01-01.tif", "out/ndvi_" + name + "_2020.tif"} {
					ms := Find(text)
					if len(ms) != 1 || text[ms[0].Start:ms[0].End] != name || ms[0].Place.Name != p.Name || ms[0].Form != FormName {
						t.Errorf("%s in style %q: Find(%q) = %s", p.Name, style, text, show(text, ms))
						continue
					}
					if again, _ := ms[0].Render(p); again != name {
						t.Errorf("%q is written again as %q in style %q", name, again, ms[0].Style)
					}
				}
			}
		}
		text := "the mean of " + p.Name + "."
		if ms := Find(text); len(ms) != 1 || ms[0].Place.Name != p.Name {
			t.Errorf("Find(%q) = %s", text, show(text, ms))
		}
	}
}

// Every alias is found where its mark allows it.
func TestAliasesAreFound(t *testing.T) {
	for _, p := range All() {
		for _, a := range p.Aliases {
			text := a + "_NDVI_2020-01-01.tif"
			if ms := Find(text); len(ms) != 1 || ms[0].Place.Name != p.Name || ms[0].End != len(a) {
				t.Errorf("%s: Find(%q) = %s", p.Name, text, show(text, ms))
			}
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, s := range []string{"the Sahara Desert- Algeria_NDVI", "U.S. of A.", "lakeUrmia", "İzmir Strasse", "Le\u0301on", "the The the Dead Sea", "Xi'an's", "Murray–Darling\u00a0Basin"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms := Find(text)
		end := 0
		for _, m := range ms {
			if m.Start < end || m.End <= m.Start || m.End > len(text) {
				t.Fatalf("bad span %d:%d in %q", m.Start, m.End, text)
			}
			end = m.End
			body := text[m.Start:m.End]
			if utf8.ValidString(text) && !utf8.ValidString(body) {
				t.Errorf("span %d:%d cuts a character of %q", m.Start, m.End, text)
			}
			if got, ok := m.Render(m.Place); !ok || got != body {
				t.Errorf("%q is written again as %q in style %q", body, got, m.Style)
			}
			style, err := ParseStyle(m.Style.String())
			if err != nil || style != m.Style {
				t.Errorf("style %+v reads back as %+v, %v", m.Style, style, err)
			}
		}
		if again := Find(text); !slices.EqualFunc(ms, again, func(a, b Match) bool {
			return a.Start == b.Start && a.End == b.End && a.Place.Name == b.Place.Name && a.Form == b.Form && a.Style == b.Style
		}) {
			t.Errorf("two runs over %q differ", text)
		}
	})
}

// Long inputs cost linear time: many mentions of one qualified place, the
// place itself far away, and endless joints.
func TestFindIsLinear(t *testing.T) {
	text := "Urumqi " + strings.Repeat("Xinjiang_2019.tif\n", 200_000)
	ms := Find(text)
	if n := len(ms); n != 200_001 || ms[n-1].Place.Name != "Urumqi" || ms[n-1].Form != FormAdmin {
		t.Errorf("%d matches, the last about %s by %s", n, ms[n-1].Place.Name, ms[n-1].Form)
	}
	if ms := Find(strings.Repeat("New ", 200_000)); len(ms) != 0 {
		t.Errorf("%d matches", len(ms))
	}
}

func BenchmarkFind(b *testing.B) {
	var place, plain strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&place, "data/32/Taklamakan.tif_2020-%02d-%02d_0550_Emis32.tif\n", i%12+1, i%28+1)
		fmt.Fprintf(&plain, "data/32/2020_%02d_%02d_0550_BT_31_Day.tif\n", i%12+1, i%28+1)
	}
	for _, c := range []struct{ name, text string }{{"names with a place", place.String()}, {"names without", plain.String()}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				Find(c.text)
			}
		})
	}
	b.Run("one name a call", func(b *testing.B) {
		names := strings.SplitAfter(place.String(), "\n")
		b.SetBytes(int64(place.Len()))
		b.ReportAllocs()
		for b.Loop() {
			for _, n := range names {
				Find(n)
			}
		}
	})
}
