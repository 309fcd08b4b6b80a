package reward

import "testing"

func TestR3Number(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		want       float64
		ok         bool
	}{
		{"3", "", 3, true},
		{"3.0", "", 3, true},
		{"3e3", "", 3000, true},
		{"3,000", "", 3000, true},
		{"3,000,000.25", "", 3000000.25, true},
		{" +3 ", "", 3, true},
		{"\u22123", "", -3, true},
		{"-3.5E\u22122", "", -0.035, true},
		{"3 m", "m", 3, true},
		{"3m", "m", 3, true},
		{"3\u00a0km²", "km²", 3, true},
		{"14.98%", "%", 14.98, true},
		{".5", "", 0.5, true},
		{"5.", "", 5, true},
		{"3 m", "", 0, false},
		{"3", "m", 0, false},
		{"3 km", "m", 0, false},
		{"3,00", "", 0, false},
		{"3,0000", "", 0, false},
		{",300", "", 0, false},
		{"3000,000", "", 0, false},
		{"3,000,", "", 0, false},
		{"1.5,000", "", 0, false},
		{"3 000", "", 0, false},
		{"", "", 0, false},
		{"m", "m", 0, false},
		{"--3", "", 0, false},
		{"+-3", "", 0, false},
		{"0x10", "", 0, false},
		{"1_000", "", 0, false},
		{"inf", "", 0, false},
		{"NaN", "", 0, false},
		{"1e999", "", 0, false},
		{"three", "", 0, false},
		{"3 or 4", "", 0, false},
		{"e3", "", 0, false},
		{".", "", 0, false},
	} {
		if got, ok := Number(c.text, c.unit); got != c.want || ok != c.ok {
			t.Errorf("Number(%q, %q) = %v, %v; want %v, %v", c.text, c.unit, got, ok, c.want, c.ok)
		}
	}
}
