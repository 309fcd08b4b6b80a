package eval

import (
	"math"
	"strings"
	"testing"
)

func TestLetter(t *testing.T) {
	for answer, want := range map[string]string{
		"<Answer>B<Answer>": "B", "<answer> c </ANSWER>": "C", "<Answer>B<Answer> but A": "B",
		"first A, then D.": "D", "A 5 K rise": "A", "Answer: (E)": "E", "G": Unknown, "": Unknown, "ABC A_ B2 Cé": Unknown,
		"éA": Unknown, "FAIL": Refused, "<Answer>A<Answer> FAILED": Refused, "fail": Unknown, "b": Unknown,
		"Error: Request timed out.": Unknown, "<Answer>AB<Answer>": Unknown,
	} {
		if got := Letter(answer); got != want {
			t.Errorf("%q: %s, expected %s", answer, got, want)
		}
	}
}

func TestEVAL12AnswerRule(t *testing.T) {
	for _, c := range []struct {
		gold, answer string
		want         bool
	}{
		{"72.1", "72.17", true}, {"72.1", "14.1", false}, {"880", "1584.74", false}, {"100", "115", false}, {"100", "114.9", true},
		{"100", "85", false}, {"100", "85.1", true}, {"0.1", "0.115", false}, {"-15.950", "-15.95", true}, {"-15.950", "15.95", false},
		{"0", "0.0000001", true}, {"0", "0.001", false}, {"0", "0", true},
		{"43.3131 K", "UHII = 43.3131 K", true}, {"43.3131 K", "43.3131 °C", false}, {"43.3131 K", "43.3131", false}, {"43 K", "43 Kelvin", false},
		{"0.256 per year", "It rose by 0.26 per year.", true}, {"0.256 per year", "It rose by 0.26 per month.", false},
		{"1843.25 m^2", "1843.25 m²", true}, {"1843.25 m^2", "about 1843.25 m^2", true}, {"7", "7 x 10^6", false}, {"5 kg m^-2", "5 kg m^-2", true}, {"1843.25 m", "1843.25 m²", false}, {"1843.25 m", "1843.25 m/s", false}, {"8.5 %", "8.50%", true},
		{"2", "first 7, finally 2", true}, {"2", "2 of band B10", true}, {"2", "none", false}, {"3,000", "3000 people", true},
		{"8.74 mm", "From 1.2 mm to 8.7 mm.", true}, {"5", "2019-05", true}, {"5", "\u22125", false},
		{"100", "1e999", false}, {"100", "NaN", false}, {"100", "Infinity", false}, {"100", "", false}, {"", "", false}, {"", "5", false},
		{"Lake Tana", "lake  TANA", true}, {"Lake Tana", "Lake Victoria", false}, {"2019-01-01", "2019-01-01", true}, {"2019-01-01", "2019", false},
		{"Lake Tana", "<Answer>Lake Tana<Answer>", true}, {"B", "<Answer>B<Answer>", true}, {"B", "", false}, {"B", "FAIL", false},
		{"UNKNOWN", "", false},
	} {
		if _, got := NewGold(c.gold).Match(c.answer); got != c.want {
			t.Errorf("%q against %q: %v", c.answer, c.gold, got)
		}
	}
	if compared, ok := (Gold{}).Match("anything"); ok || compared != "anything" {
		t.Errorf("a missing reference matched %q", compared)
	}
}

func TestEVAL10RougeL(t *testing.T) {
	for _, c := range []struct {
		reference, candidate string
		words, runes         float64
	}{
		{"43.3131 K", "UHII = 43.3131 K", 2. / 3, 16. / 21},
		{"a b c d", "a c d", 6. / 7, 6. / 7}, {"a b", "b a", .5, .5}, {"same text", "same  text", 1, 1},
		{"", "", 0, 0}, {"a", "", 0, 0}, {"", "a", 0, 0}, {"a", "b", 0, 0}, {"北京 北", "北京", .5 * 4 / 3, .8},
	} {
		if got := RougeL(c.reference, c.candidate); math.Abs(got-c.words) > 1e-12 {
			t.Errorf("%q, %q: %v, expected %v", c.reference, c.candidate, got, c.words)
		}
		if got := RougeLRunes(c.reference, c.candidate); math.Abs(got-c.runes) > 1e-12 {
			t.Errorf("%q, %q by runes: %v, expected %v", c.reference, c.candidate, got, c.runes)
		}
	}
}

// FuzzAnswer holds that no answer panics, and that an empty reference and a
// non-finite number match nothing.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"<Answer>A<Answer>", "-1,234.5e3 K", "2019-01-01", "\u22125 m^2", "1e999", "\xff5", "é5"} {
		f.Add("72.1 K", s)
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, gold, answer string) {
		if l := Letter(answer); l != Unknown && l != Refused && (len(l) != 1 || !strings.Contains("ABCDEF", l)) {
			t.Errorf("letter %q of %q", l, answer)
		}
		g := NewGold(gold)
		if compared, ok := g.Match(answer); ok && (g.Empty() || compared == "" || compared == Unknown && g.Letter != "") {
			t.Errorf("%q matched %q as %q", answer, gold, compared)
		}
		if q, ok := lastQuantity(answer); ok && (math.IsNaN(q.value) || math.IsInf(q.value, 0)) {
			t.Errorf("%q gives %v", answer, q.value)
		}
		if r := RougeL(gold, answer); r < 0 || r > 1 {
			t.Errorf("ROUGE-L %v", r)
		}
	})
}
