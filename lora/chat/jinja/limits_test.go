package jinja

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLimits runs templates that would eat all time, memory or stack.
func TestLimits(t *testing.T) {
	for name, template := range map[string]string{
		"self-calling macro": `{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`,
		"mutual macros":      `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}`,
		"recursive loop":     `{% set ns = namespace() %}{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}`,
		"nested loops":       nest(`{% for a in range(100000) %}`, `x`, `{% endfor %}`, 3),
		"empty nested loops": nest(`{% for a in range(100000) %}`, ``, `{% endfor %}`, 3),
		"long output":        `{% for a in range(100000) %}{{ 'x' * 1000 }}{% endfor %}`,
		"long string":        `{{ ('x' * 10000000) * 10000000 }}`,
		"doubling string":    `{% set ns = namespace(s='xx') %}{% for a in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}`,
		"long list":          `{{ ([1] * 100000000) | length }}`,
		"doubling list":      `{% set ns = namespace(s=[1]) %}{% for a in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`,
		"many long strings":  `{% set ns = namespace(s=[]) %}{% for a in range(100000) %}{% set ns.s = ns.s + ['x' * 10000000] %}{% endfor %}`,
		"power":              `{{ 10 ** 100000000 }}`,
		"repeated power":     `{% set ns = namespace(s=10) %}{% for a in range(100) %}{% set ns.s = ns.s * ns.s %}{% endfor %}`,
		"deep list":          `{% set ns = namespace(s=[]) %}{% for a in range(1000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}`,
		"deep list to JSON":  `{% set ns = namespace(s=[]) %}{% for a in range(1000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s | tojson }}`,
		"deep equality":      `{% set ns = namespace(a=[], b=[]) %}{% for i in range(1000) %}{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}{% endfor %}{{ ns.a == ns.b }}`,
		"deep order":         `{% set ns = namespace(a=[], b=[]) %}{% for i in range(1000) %}{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}{% endfor %}{{ ns.a < ns.b }}`,
		"deep dict key":      `{% set ns = namespace(a=()) %}{% for i in range(1000) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: 1} }}`,
		"shared list":        `{% set ns = namespace(s=[1]) %}{% for a in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}`,
		"shared dict key":    `{% set ns = namespace(a=()) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: 1} }}`,
		"self-holding":       `{% set ns = namespace() %}{% set ns.s = ns %}{{ ns }}`,
		"nested generators":  `{% set ns = namespace(g=[1]) %}{% for a in range(1000) %}{% set ns.g = ns.g | map('string') %}{% endfor %}{{ ns.g | list }}`,
		"wide format":        `{{ '%1000000000d' % 1 }}`,
		"precise format":     `{{ '%.100000d' % 1 }}{{ '%.99999999d' % 1 }}`,
		"wide indent":        `{{ 'a\nb' | indent(100000000) }}`,
		"JSON indent":        `{{ [[1]] | tojson(indent=100000000) }}`,
		"replace by much":    `{{ ('x' * 100000) | replace('x', 'y' * 100000) }}`,
		"join by much":       `{{ range(100000) | join('y' * 100000) }}`,
		"characters":         `{{ ('x' * 10000000) | list | length }}`,
		"search":             `{% set s = 'a' * 10000000 %}{% for a in range(100000) %}{{ 'b' in s }}{% endfor %}`,
		"slices":             `{% set s = 'é' * 1000000 %}{% for a in range(100000) %}{% set c = s[900000] %}{% endfor %}`,
		"compare":            `{% set s = 'a' * 10000000 %}{% set r = 'a' * 10000000 %}{% for a in range(100000) %}{% set c = s == r %}{% endfor %}`,
		"predicates":         `{% set s = 'a' * 10000000 %}{% for a in range(100000) %}{% set c = s is lower %}{% endfor %}`,
		"sums":               `{% set n = 10 ** 4000 %}{% for a in range(100000) %}{% for b in range(100) %}{% set c = n * n %}{% endfor %}{% endfor %}`,
		"deep parentheses":   `{{ ` + nest("(", "1", ")", 5000) + ` }}`,
		"deep lists":         `{{ ` + nest("[", "1", "]", 5000) + ` }}`,
		"deep not":           `{{ ` + strings.Repeat("not ", 5000) + `1 }}`,
		"deep minus":         `{{ ` + strings.Repeat("- ", 5000) + `1 }}`,
		"deep ifs":           nest(`{% if 1 %}`, `x`, `{% endif %}`, 5000),
		"deep else":          `{{ ` + strings.Repeat("1 if 0 else ", 5000) + `1 }}`,
		"attribute chain":    `{{ x` + strings.Repeat(".y", 100000) + ` }}`,
		"filter chain":       `{{ x` + strings.Repeat("|e", 100000) + ` }}`,
		"call chain":         `{{ x` + strings.Repeat("()", 100000) + ` }}`,
		"if chain":           `{{ x` + strings.Repeat(" if 1", 100000) + ` }}`,
		"names in branches":  names(5000) + strings.Repeat(`{% if 1 %}{% endif %}`, 20000),
		"huge source":        strings.Repeat("x", maxSource+1),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			tpl, err := Parse(template)
			if err == nil {
				_, err = tpl.Render(context.Background(), nil, nil)
			}
			if !errors.Is(err, ErrLimit) {
				t.Errorf("%v, want ErrLimit", err)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("took %v", d)
			}
		})
	}
}

func nest(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{%% set v%d = 1 %%}", i)
	}
	return b.String()
}

// TestWithinLimits: what Python manages comfortably is no limit here either.
func TestWithinLimits(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"long sum":      {`{{ ` + strings.TrimSuffix(strings.Repeat("1 + ", 400), " + ") + ` }}`, "400"},
		"macro depth":   {`{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}x{% endmacro %}{{ m(150) }}`, strings.Repeat("x", 151)},
		"long or":       {`{{ ` + strings.Repeat("0 or ", 400) + `1 }}`, "1"},
		"parentheses":   {`{{ ` + nest("(", "1", ")", 90) + ` }}`, "1"},
		"ifs":           {nest(`{% if 1 %}`, `x`, `{% endif %}`, 90), "x"},
		"long elif":     {`{% if 0 %}` + strings.Repeat(`{% elif 0 %}`, 400) + `{% else %}x{% endif %}`, "x"},
		"much text":     {`{% for i in range(100000) %}abcdefgh{% endfor %}`, strings.Repeat("abcdefgh", 100000)},
		"ranges":        {`{{ range(100000) | length }}`, "100000"},
		"long integers": {`{{ (10 ** 4000) | string | length }}`, "4001"},
	} {
		tpl, err := Parse(c.template)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if out, err := tpl.Render(context.Background(), nil, nil); err != nil || out.s != c.want {
			t.Errorf("%s: %v, %.60q", name, err, out.s)
		}
	}
}

func TestDeadline(t *testing.T) {
	tpl, err := Parse(nest(`{% for a in range(100000) %}`, `{% set x = 1 %}`, `{% endfor %}`, 2))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err = tpl.Render(ctx, nil, nil); !errors.Is(err, ErrLimit) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want ErrLimit and DeadlineExceeded", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	cancel()
	if _, err = tpl.Render(ctx, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want Canceled", err)
	}
}

// TestFlatBudget: a render's budget is its own; rendering again starts afresh.
func TestFlatBudget(t *testing.T) {
	tpl, err := Parse(`{% for a in range(100000) %}{% for b in range(5) %}{% set c = a + b %}{% endfor %}{% endfor %}ok`)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if out, err := tpl.Render(context.Background(), nil, nil); err != nil || out.s != "ok" {
			t.Fatalf("%v, %q", err, out.s)
		}
	}
}
