package reward

import (
	"errors"
	"strings"
	"testing"
	"time"

	"terraloom/data/strictyaml"
)

func TestParseConfig(t *testing.T) {
	c, err := ParseConfig("r.yaml", []byte("extract: true"))
	if err != nil || c.Rules != (Rules{1e-6, Ordered, true}) || len(c.Functions) != 1 || c.Functions[0] != Default().Functions[0] {
		t.Fatalf("defaults: %+v, %v", c, err)
	}
	c, err = ParseConfig("r.yaml", []byte(`
tolerance: 0.001
lists: set
functions:
  - {name: score, kind: argument, weight: 1}
  - {name: short, kind: length, weight: 0.5, free: 100, max: 200}
  - {name: own, kind: expr, weight: -1, program: "extra > 0 ? 1 : 0", timeout: 250ms}
  - {name: far, kind: http, weight: 1, url: "http://localhost:9/x"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Tolerance != 0.001 || c.Lists != Set || c.Extract || len(c.Functions) != 4 || c.Functions[2].Timeout != 250*time.Millisecond {
		t.Errorf("%+v", c)
	}
}

// R2: what is unknown or wrong stops before the first step; there is no default scorer.
func TestR2ConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		`tolerence: 1`: `r.yaml:1: unknown key "tolerence"; did you mean "tolerance"?`,
		"":             "r.yaml is empty",
		"functions:\n  - {name: a, kind: argument, weight: 1, wieght: 2}": `r.yaml:2: unknown key "functions.wieght"; did you mean "weight"?`,
		`tolerance: -1`:    "tolerance is -1",
		`tolerance: .nan`:  "tolerance is NaN",
		`tolerance: .inf`:  "tolerance is +Inf",
		`lists: unordered`: `lists is "unordered"; one of ordered, set, subset`,
		`functions: []`:    "functions is empty",
		`functions: [{name: a, kind: argment, weight: 1}]`:                                    `kind "argment" is none of argument, format, length, expr, http`,
		`functions: [{name: a, weight: 1}]`:                                                   `kind "" is none of`,
		`functions: [{kind: argument, weight: 1}]`:                                            "name must be",
		`functions: [{name: total, kind: argument, weight: 1}]`:                               "name must be",
		`functions: [{name: a, kind: argument}]`:                                              "weight is 0",
		`functions: [{name: a, kind: argument, weight: .nan}]`:                                "weight is NaN",
		`functions: [{name: a, kind: format, weight: 1}, {name: a, kind: format, weight: 1}]`: "used twice",
		`functions: [{name: a, kind: format, weight: 1, max: 3}]`:                             "max is for kind length only",
		`functions: [{name: a, kind: format, weight: 1, url: "http://x"}]`:                    "url is for kind http only",
		`functions: [{name: a, kind: format, weight: 1, program: "1"}]`:                       "program is for kind expr only",
		`functions: [{name: a, kind: format, weight: 1, timeout: 1s}]`:                        "timeout is for kinds expr and http only",
		`functions: [{name: a, kind: length, weight: 1, free: 5, max: 5}]`:                    "0 ≤ free < max",
		`functions: [{name: a, kind: length, weight: 1}]`:                                     "0 ≤ free < max",
		`functions: [{name: a, kind: expr, weight: 1}]`:                                       "is empty",
		`functions: [{name: a, kind: expr, weight: 1, program: "scroe"}]`:                     "unknown name scroe",
		`functions: [{name: a, kind: expr, weight: 1, program: "1", timeout: -1s}]`:           "positive duration",
		`functions: [{name: a, kind: http, weight: 1, url: "localhost:80"}]`:                  "no http:// or https:// address",
		`functions: [{name: a, kind: http, weight: 1, url: "file:///etc/passwd"}]`:            "no http:// or https:// address",
	} {
		_, err := ParseConfig("r.yaml", []byte(text))
		if !errors.Is(err, strictyaml.ErrConfig) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "r.yaml") {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	// All faults at once.
	c := Config{Rules: Rules{Tolerance: -1, Lists: "x"}, Functions: []Function{{Name: "a", Kind: "b"}, {Name: "c", Kind: KindHTTP}}}
	err := c.Validate()
	for _, want := range []string{"tolerance", "lists", `functions[0] "a"`, `functions[1] "c": weight`, `functions[1] "c": url`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	if _, err := New(c); !errors.Is(err, strictyaml.ErrConfig) {
		t.Errorf("New: %v", err)
	}
}
