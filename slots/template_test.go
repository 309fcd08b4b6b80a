package slots

import (
	"strings"
	"testing"
)

func TestParseTemplate(t *testing.T) {
	show := func(parts []part) string {
		var b strings.Builder
		for _, p := range parts {
			if p.slot == "" {
				b.WriteString("<" + p.lit + ">")
			} else {
				b.WriteString("(" + p.slot + "|" + p.format + ")")
			}
		}
		return b.String()
	}
	for _, test := range []struct{ text, want string }{
		{"", ""}, {"plain", "<plain>"}, {"{a}", "(a|)"}, {"x{a:%Y-%m}y", "<x>(a|%Y-%m)<y>"}, {"{a}{b_2:.2f}", "(a|)(b_2|.2f)"},
		{"{{a}}", "<{a}>"}, {"{{{a}}}", "<{>(a|)<}>"}, {"a:b {a::c}", "<a:b >(a|:c)"}, {"{{", "<{>"}, {"}}}}", "<}}>"}, {"ü{a}ü", "<ü>(a|)<ü>"},
	} {
		parts, err := parseTemplate(test.text)
		if err != nil || show(parts) != test.want {
			t.Errorf("%q is %s, %v; want %s", test.text, show(parts), err, test.want)
		}
	}
	for text, want := range map[string]string{
		"{": "is not closed", "x{a": "is not closed", "}": "closes nothing", "{a}}": "closes nothing", "{}": `"" at byte 0 is not a slot name`,
		"{ a}": "is not a slot name", "{1a}": "is not a slot name", "{a-b}": "is not a slot name", "{_a}": "is not a slot name", "{:x}": "is not a slot name", "{ä}": "is not a slot name",
	} {
		_, err := parseTemplate(text)
		wantError(t, text, err, want)
	}
}

func FuzzParseTemplate(f *testing.F) {
	for _, s := range []string{"x{a:%Y-%m}y{{b}}", "{{{a}}}", "}", "{a", "{a:{b}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		// Escaped text is one literal part, whatever it holds.
		parts, err := parseTemplate(escapeTemplate(s))
		if err != nil || s != "" && (len(parts) != 1 || parts[0].slot != "" || parts[0].lit != s) {
			t.Fatalf("%q escaped is %+v, %v", s, parts, err)
		}
		parts, err = parseTemplate(s)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, p := range parts {
			switch {
			case p.slot == "":
				b.WriteString(escapeTemplate(p.lit))
			case p.format == "":
				b.WriteString("{" + p.slot + "}")
			default:
				b.WriteString("{" + p.slot + ":" + p.format + "}")
			}
		}
		if again, err := parseTemplate(b.String()); err != nil || len(again) != len(parts) {
			t.Fatalf("%q is written as %q: %+v, %v", s, b.String(), again, err)
		}
	})
}
