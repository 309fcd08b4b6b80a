package slots

import (
	"strings"
	"testing"

	"terraloom/data/strictjson"
)

func TestParseLiteral(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"[[324.6, 1e-3], [5, -7]]", "[[324.6,1e-3],[5,-7]]"},
		{"{'predicted_class': 'Beach', 'confidence': 0.7965, 'top5': [('Beach', 0.7), ('Sea', 0.1)]}", `{"predicted_class":"Beach","confidence":0.7965,"top5":[["Beach",0.7],["Sea",0.1]]}`},
		{" (1, 2,) ", "[1,2]"},
		{"[True, False, None]", "[true,false,null]"},
		{`["it's", 'a "b"']`, `["it's","a \"b\""]`},
		{"[]", "[]"}, {"{}", "{}"}, {"()", "[]"}, {"[[], {}]", "[[],{}]"},
		{"[1.50, 007]", ""}, {"[1.]", ""}, {"[+1]", ""}, {"[nan]", ""}, {"[inf]", ""}, {"[0x1]", ""},
		{"", ""}, {"4", ""}, {"'text'", ""}, {"Beach", ""}, {"None", ""},
		{"[1, 2", ""}, {"[1 2]", ""}, {"[1,, 2]", ""}, {"[,]", ""}, {"1, 2]", ""}, {"[1] x", ""}, {"[1)", ""},
		{"{1: 2}", ""}, {"{'a' 2}", ""}, {"{'a': }", ""}, {"{'a': 1", ""}, {"{a: 1}", ""}, {"['a", ""}, {`['a\'b']`, ""},
		{strings.Repeat("[", 17) + strings.Repeat("]", 17), strings.Repeat("[", 17) + strings.Repeat("]", 17)},
		{strings.Repeat("[", 18) + strings.Repeat("]", 18), ""},
		{strings.Repeat("[", 100000), ""},
	} {
		v, ok := parseLiteral(test.text)
		if got := v.JSON(); ok != (test.want != "") || ok && got != test.want {
			t.Errorf("%.80q gives %.120s, %v; want %q", test.text, got, ok, test.want)
		}
	}
}

func FuzzParseLiteral(f *testing.F) {
	for _, s := range []string{"[[324.6, 1], (5,)]", "{'a': ['b', None, True], \"c\": -1e3}", "[", "{'a':", "[1, 'x\\'']"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, ok := parseLiteral(s)
		if !ok {
			return
		}
		// What was read is JSON, varying it by nothing changes nothing, and varied text is a literal still.
		if _, err := strictjson.Parse(v.AppendJSON(nil)); err != nil && !strings.Contains(err.Error(), "repeated") && !strings.Contains(err.Error(), "UTF-8") {
			t.Fatalf("%q is read as %s: %v", s, v.JSON(), err)
		}
		if _, ok := parseLiteral(varyText(s, 1.25, 0.5)); !ok {
			t.Fatalf("%q varied is %q", s, varyText(s, 1.25, 0.5))
		}
	})
}

func TestVary(t *testing.T) {
	for _, test := range []struct {
		value         string
		scale, offset float64
		want          string
	}{
		{"291.5", 1.1, 0, "320.7"},           // decimals stay
		{"291.50", 1, 1, "292.5"},            // a JSON number has no trailing zeros
		{"290", 1.1, 0, "319"},               // an integer stays one
		{"7", 1, 0.4, "7"},                   //
		{"0.25", 2, 0.125, "0.62"},           // rounded to even digits as floats print
		{"0.123456789", 2, 0, "0.246913578"}, // more than six decimals are an unrounded float
		{"1e-3", 2, 0, "0.002"},              //
		{"-4.5", 0.8, 0, "-3.6"},             //
		{"-0.1", 1, 0.1, "0.0"},              // never a negative zero
		{`"14.98%"`, 1.5, 0, `"22.47%"`},     // numeric text keeps its sign and its zeros
		{`"290.50"`, 1, 1, `"291.50"`},
		{`"4"`, 1, 3, `"7"`},
		{`"[[324.6, 12], [5.25, 7]]"`, 1, 10, `"[[334.6, 22], [15.25, 17]]"`},        // pixel boxes in text
		{`"{'class1': 'B10', 'p': 0.50}"`, 0.5, 0, `"{'class1': 'B10', 'p': 0.25}"`}, // not in words
		{`"Beach 12"`, 2, 1, `"Beach 12"`},
		{`"2 of [3"`, 2, 1, `"2 of [3"`},
		{`[1.5,"x",null,true,{"a":2.25,"b":[]}]`, 2, 0, `[3.0,"x",null,true,{"a":4.5,"b":[]}]`},
		{`{"min":[0,2,417.665854032862]}`, 1, 0, `{"min":[0,2,417.665854032862]}`},
		{"1.10", 1, 0, "1.10"}, // nothing changes at scale 1, offset 0: spelling included
		{`"1e400"`, 2, 0, `"1e400"`},
	} {
		if got := vary(parse(t, test.value), test.scale, test.offset).JSON(); got != test.want {
			t.Errorf("%s · %v + %v is %s, want %s", test.value, test.scale, test.offset, got, test.want)
		}
	}
}
