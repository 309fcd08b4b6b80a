package gazetteer

import (
	"strings"
	"testing"
)

func TestStyleText(t *testing.T) {
	for text, want := range map[string]Style{
		"":                          {},
		"_":                         {Joint: Underscore},
		"-,lower":                   {Joint: Hyphen, Case: Lower},
		"glued,camel":               {Joint: Glued, Case: Camel},
		"upper":                     {Case: Upper},
		"The":                       {Article: "The"},
		"the,as=Taklimakan, Desert": {Article: "the", As: "Taklimakan, Desert"},
		"_,as=x,lower":              {Joint: Underscore, As: "x,lower"},
	} {
		got, err := ParseStyle(text)
		if err != nil || got != want {
			t.Errorf("ParseStyle(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		if back := want.String(); back != text {
			t.Errorf("%+v is written %q, want %q", want, back, text)
		}
	}
	for text, want := range map[string]string{
		"Lower":       `unknown word "Lower"`,
		"_ ":          `unknown word "_ "`,
		",":           `ends in a comma`,
		"_,":          `ends in a comma`,
		"_,-":         `"-" contradicts an earlier word`,
		"lower,lower": `"lower" contradicts an earlier word`,
		"the,The":     `"The" contradicts an earlier word`,
		"as=":         `nothing follows as=`,
	} {
		if _, err := ParseStyle(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("ParseStyle(%q): %v, want %s", text, err, want)
		}
	}
}

func TestRestyle(t *testing.T) {
	for _, c := range []struct{ text, style, want string }{
		{"Port-au-Prince", "", "Port-au-Prince"},
		{"Murray-Darling Basin", "_", "Murray_Darling_Basin"},
		{"Murray-Darling Basin", "-", "Murray-Darling-Basin"},
		{"Murray-Darling Basin", "glued", "MurrayDarlingBasin"},
		{"Murray-Darling Basin", "glued,camel", "murrayDarlingBasin"},
		{"Murray-Darling Basin", "_,lower", "murray_darling_basin"},
		{"Murray-Darling Basin", "upper", "MURRAY-DARLING BASIN"},
		{"Dead Sea", "the", "the Dead Sea"},
		{"USA", "The", "The USA"},
		{"Lake Van", "the", "Lake Van"},
		{"mean value", "the,_", "mean_value"},
		{"Taklamakan Desert", "_,as=Taklimakan", "Taklimakan"},
		{"Gobi Desert", "_,as=Taklimakan", "Gobi_Desert"},
		{"United States", "the,as=U.S.", "the U.S."},
		{"Oregon", "as=no place", "Oregon"},
		{"", "camel", ""},
		{"42", "camel,glued", "42"},
	} {
		style, err := ParseStyle(c.style)
		if err != nil {
			t.Fatal(err)
		}
		if got := Restyle(c.text, style); got != c.want {
			t.Errorf("Restyle(%q, %q) = %q, want %q", c.text, c.style, got, c.want)
		}
	}
}

func FuzzParseStyle(f *testing.F) {
	for _, s := range []string{"the,_,lower,as=x", "-", "glued,camel", ",", "as="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		style, err := ParseStyle(text)
		if err != nil {
			return
		}
		if again, err := ParseStyle(style.String()); err != nil || again != style {
			t.Errorf("%q reads as %+v, written %q and read as %+v, %v", text, style, style, again, err)
		}
		Restyle(text, style)
	})
}
