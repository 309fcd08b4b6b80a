package jinja

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// show renders a template over string variables a, b … whose origins are 1, 2 …, and writes data in brackets: [1:text], with a "*"
// before the bracket for text inside {% generation %}.
func show(t *testing.T, template string, vars ...string) string {
	t.Helper()
	d := NewDict()
	for i, s := range vars {
		v, err := ParseJSON([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		d.Set(string(rune('a'+i)), WithOrigin(v, Origin(i+1)))
	}
	tpl, err := Parse(template)
	if err != nil {
		t.Fatalf("%s: %v", template, err)
	}
	out, err := tpl.Render(context.Background(), d, nil)
	if err != nil {
		t.Fatalf("%s: %v", template, err)
	}
	checkMarks(t, template, out)
	var b strings.Builder
	for s, m := range out.runs {
		if m.Generated {
			b.WriteString("*")
		}
		if m.Origin == FromTemplate {
			if m.Generated {
				s = "[" + s + "]"
			}
			b.WriteString(s)
			continue
		}
		b.WriteString("[" + string(rune('0'+m.Origin)) + ":" + s + "]")
	}
	return b.String()
}

// TestOrigin follows data through every operation that makes text.
func TestOrigin(t *testing.T) {
	for _, c := range []struct{ template, want string }{
		{`{{ a }}`, `[1:Hi <you>]`},
		{`<{{ a }}>`, `<[1:Hi <you>]>`},
		{`{{ '<' + a + b }}`, `<[1:Hi <you>][2:x,y z]`},
		{`{{ '<' ~ a ~ 1 ~ none }}`, `<[1:Hi <you>]1None`},
		{`{{ a[3:] }}{{ a[0] }}{{ a[-1] }}{{ ('(' + a + ')')[-3:] }}`, `[1:<you>H>u>])`},
		{`{{ ('-' + a + '-')[::-1] }}`, `-[1:>uoy< iH]-`},
		{`{{ (' ' + c + '\n') | trim }}`, `[3:pad]`},
		{`{{ c.strip() }}{{ c.lstrip() }}{{ (c + '=').rstrip('=') }}`, `[3:padpad   pad ]`},
		{`{{ b.split(',')[1] }}{{ b.split()[0] }}{{ b.partition(',') | last }}`, `[2:y zx,yy z]`},
		{`{{ b.split(',') | join('|') }}`, `[2:x]|[2:y z]`},
		{`{{ a | upper }}{{ ('q' + a) | lower }}`, `[1:HI <YOU>]q[1:hi <you>]`},
		{`{{ ('q ' + a) | title }}{{ ('q' + a) | capitalize }}{{ ('q ' + a).title() }}`, `Q [1:Hi <You>]Q[1:hi <you>]Q [1:Hi <You>]`},
		{`{{ a | replace('i', '!') }}{{ 'xax' | replace('a', b) }}`, `[1:H]![1: <you>]x[2:x,y z]x`},
		{`{{ 'ab' | replace('', b) }}`, `[2:x,y z]a[2:x,y z]b[2:x,y z]`},
		{`{{ a | e }}{{ ('<' + a) | escape }}`, `[1:Hi &lt;you&gt;]&lt;[1:Hi &lt;you&gt;]`},
		{`{{ a | tojson }}{{ [a, 1] | tojson }}{{ {'k': b} | tojson(indent=1) }}`,
			"\"[1:Hi <you>]\"[\"[1:Hi <you>]\", 1]{\n \"k\": \"[2:x,y z]\"\n}"},
		{`{{ d | tojson }}`, `{"[4:k\"\n]": ["[4:v\"é]", 1.0]}`},
		{`{{ d }}`, `{'[4:k"\n]': ['[4:v"é]', 1.0]}`},
		{`{{ d | string | length }}{{ d | items | list }}`, `22[('[4:k"\n]', ['[4:v"é]', 1.0])]`},
		{`{{ 'l\nm' | indent(2) }}{{ ('l\n' + a) | indent(b) }}`, "l\n  ml\n[2:x,y z][1:Hi <you>]"},
		{`{{ '%s!%3d' % (a, 5) }}{{ '%r' | format(b) }}{{ a % () }}`, `[1:Hi <you>]!  5'[2:x,y z]'[1:Hi <you>]`},
		{`{{ a * 2 }}`, `[1:Hi <you>Hi <you>]`},
		{`{{ b | list | join }}{{ b | first }}{{ b | reverse }}{{ b | sort | join }}`, `[2:x,y zxz y,x ,xyz]`},
		{`{% set x %}<{{ a }}>{% endset %}{{ x }}`, `<[1:Hi <you>]>`},
		{`{% filter upper %}q{{ a }}{% endfilter %}`, `Q[1:HI <YOU>]`},
		{`{% macro m(x) %}({{ x }}){% endmacro %}{{ m(a) | trim('(') }}`, `[1:Hi <you>])`},
		{`{% for w in [a, b] %}{{ loop.index }}{{ w }}{% endfor %}`, `1[1:Hi <you>]2[2:x,y z]`},
		{`{{ b.removeprefix('x') }}{{ b.splitlines() | first }}{{ b | default('q') }}{{ u | default(a) }}`, `[2:,y zx,y zx,y z][1:Hi <you>]`},
		{`{% generation %}<{{ a }}>{% endgeneration %}`, `*[<]*[1:Hi <you>]*[>]`},
		{`{% set x %}{% generation %}{{ a }}{% endgeneration %}{% endset %}ab{{ x[3:] }}`, `ab*[1:<you>]`},
		{`{{ a | int }}{{ '3' | int + 1 }}{{ a == 'Hi <you>' }}{{ {'Hi <you>': b}[a] }}`, `04True[2:x,y z]`},
	} {
		got := show(t, c.template, `"Hi <you>"`, `"x,y z"`, `"  pad "`, `{"k\"\n": ["v\"é", 1.0]}`)
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.template, got, c.want)
		}
	}
}

// TestSliceMarks compares slicing a marked text with slicing the list of its marked bytes.
func TestSliceMarks(t *testing.T) {
	st := newState(context.Background(), nil)
	b := st.builder()
	for i, s := range []string{"ab", "cde", "", "f", "gh"} {
		b.text(NewText(s, Origin(i%3)))
	}
	text := b.done()
	perByte := func(t Text) string {
		origins := []byte(strings.Repeat("0", len(t.s)))
		for _, m := range t.marks {
			for i := m.Start; i < m.End; i++ {
				origins[i] = '0' + byte(m.Origin)
			}
		}
		return string(origins)
	}
	all := perByte(text)
	if want := "00111011"; all != want {
		t.Fatalf("origins %s, want %s", all, want)
	}
	for i := range len(text.s) + 1 {
		for j := i; j <= len(text.s); j++ {
			part := text.slice(i, j)
			if part.s != text.s[i:j] || perByte(part) != all[i:j] {
				t.Errorf("[%d:%d] has the origins %s, want %s", i, j, perByte(part), all[i:j])
			}
			checkMarks(t, "slice", part)
		}
	}
}

func TestParseJSON(t *testing.T) {
	for _, c := range []struct{ in, repr string }{
		{`{"b": 1, "a": 1.0, "c": [true, null, -0.0, -0]}`, `{'b': 1, 'a': 1.0, 'c': [True, None, -0.0, 0]}`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`[1e16, 1E-7, 0.1, 1e2, 9007199254740993]`, `[1e+16, 1e-07, 0.1, 100.0, 9007199254740993]`},
		{`"\ud83d\ude00 \u00e9 \\ud800 <&>"`, `'😀 é \\ud800 <&>'`},
	} {
		v, err := ParseJSON([]byte(c.in))
		if err != nil || reprOf(v) != c.repr {
			t.Errorf("%s: %v, %v, want %s", c.in, v, err, c.repr)
		}
	}
	for _, bad := range []string{``, `{`, `[1,]`, `{"a": 1, "a": 2}`, `{"a": {"b": 1, "b": 2}}`, `NaN`, `1 2`, `"\ud800"`, `"\ude00\ud83d"`, "\"\xff\"", `1e999`,
		strings.Repeat("9", 5000), strings.Repeat("[", 300) + strings.Repeat("]", 300)} {
		if v, err := ParseJSON([]byte(bad)); err == nil {
			t.Errorf("%.40q was read as %v", bad, reprOf(v))
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		template string
		kind     error
		line     int
	}{
		{"a\n{% if %}", ErrSyntax, 2},
		{"a\n\n{{ 'x }}", ErrSyntax, 3},
		{"{% include 'x' %}", ErrUnsupported, 1},
		{"\n{% import 'x' as y %}", ErrUnsupported, 2},
		{"{% from 'x' import y %}", ErrUnsupported, 1},
		{"{% extends 'x' %}", ErrUnsupported, 1},
		{"{% block x %}{% endblock %}", ErrUnsupported, 1},
		{"a\n{{ x | wordwrap }}", ErrUnsupported, 2},
		{"a\n{{ x | nope }}", ErrSyntax, 2},
		{"{% if x %}{{ x | nope }}{% endif %}ok", nil, 0},
		{"{% if true %}\n{{ 'x' | nope }}{% endif %}", ErrSyntax, 2},
		{"a\n{{ x.y }}", ErrUndefined, 2},
		{"\n\n{{ raise_exception('no ' ~ 1) }}", ErrRaised, 3},
		{"{{ [].append(1) }}", ErrSecurity, 1},
		{"{{ ''.__class__.__mro__ }}", ErrSecurity, 1},
		{"{{ 'x'.encode() }}", ErrUnsupported, 1},
		{"{{ strftime_now('%Y') }}", ErrUnsupported, 1},
		{"{{ 1 + 'a' }}", nil, 1},
	} {
		tpl, err := Parse(c.template)
		if err == nil {
			_, err = tpl.Render(context.Background(), nil, nil)
		}
		var e *Error
		if errors.As(err, &e); c.line == 0 {
			if err != nil {
				t.Errorf("%q: %v", c.template, err)
			}
			continue
		}
		if e == nil || e.Kind != c.kind || e.Line != c.line || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%q: %v, want %v in line %d", c.template, err, c.kind, c.line)
		}
	}
}
