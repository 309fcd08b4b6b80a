package jinja

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzTemplate: whatever the template, there is no panic, the limits hold, and the output is well formed.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		`{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>' }}{% endfor %}`,
		`{%- macro f(x, y=1) -%}{{ x ~ y }}{{ caller() }}{{ varargs }}{{ kwargs }}{%- endmacro -%}{% call f(1) %}{% generation %}a{% endgeneration %}{% endcall %}`,
		`{% set ns = namespace(a=1) %}{% for k, v in d.items() recursive %}{% set ns.a = ns.a + 1 %}{{ loop.index }}{% break %}{% else %}{% continue %}{% endfor %}`,
		`{{ d | tojson(indent=2) }}{{ s[::-1] }}{{ [1, 2.5, none, true] | join(',') }}{{ s.split(',') | map('upper') | list }}{{ '%s' % s }}`,
		`{% raw %}{{ x }}{% endraw %}{# c #}{% with a = 1 %}{% filter upper %}{{ a }}{% endfilter %}{% endwith %}{{ "\x41\u00e9" }}{{ 1e5 // 3 }}`,
		`{{ s | e }}{{ (s | safe) + '<' }}{{ l | sort | first }}{{ d | dictsort }}{{ x is defined and not x }}{{ 2 ** 70 }}`,
	} {
		f.Add(s)
	}
	files, err := filepath.Glob(filepath.Join(sharedDir(f), "model-golden", "chat", "*.jinja"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	vars, err := ParseJSON([]byte(`{"s": "a,B é<|im_end|>", "d": {"k": [1, "x"], "items": 2.5}, "l": [3, 1, 2], "n": 7, "add_generation_prompt": true,
		"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "a",
			"tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}, {"role": "tool", "content": "t"}], "tools": null}`))
	if err != nil {
		f.Fatal(err)
	}
	vars = WithOrigin(vars, 3)
	f.Fuzz(func(t *testing.T, source string) {
		tpl, err := Parse(source)
		if err != nil {
			checkError(t, err)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		out, err := tpl.Render(ctx, vars.(*Dict), Clock(microClock))
		if err != nil {
			checkError(t, err)
			return
		}
		if len(out.s) > maxOutput || !utf8.ValidString(out.s) {
			t.Fatalf("an output of %d bytes, valid UTF-8: %v", len(out.s), utf8.ValidString(out.s))
		}
		checkMarks(t, source, out)
		again, err := tpl.Render(ctx, vars.(*Dict), Clock(microClock))
		if err != nil && !errors.Is(err, context.DeadlineExceeded) || err == nil && again.s != out.s {
			t.Fatalf("rendering twice gave %q and then %q, %v", out.s, again.s, err)
		}
	})
}

// checkError accepts every error but a bug of this package or a run into the deadline.
func checkError(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, ErrInternal) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// FuzzJSON: what ParseJSON accepts, it reads back from its own dump unchanged.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 1.0, "x\n\ud83d\ude00", null, true], "b": {"c": 1e-7}}`, `"\ud800"`, `[1e999]`, `123456789012345678901`, `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseJSON(data)
		if err != nil {
			return
		}
		var text string
		err = guard(func() int { return 0 }, func() {
			st := newState(context.Background(), nil)
			b := st.builder()
			st.dump(b, v, jsonArgs(st, make([]Value, 4)), 0)
			text = b.done().s
		})
		if errors.Is(err, ErrLimit) {
			return
		}
		again, err2 := ParseJSON([]byte(text))
		if err != nil || err2 != nil || reprOf(v) != reprOf(again) {
			t.Fatalf("%q was dumped as %q: %v, %v", data, text, err, err2)
		}
	})
}
