package reward

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"terraloom/data/strictjson"
)

// value is what a program returns for a completion.
func value(t *testing.T, src, reference_, completion string) (float64, error) {
	t.Helper()
	p, err := compile(src)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	s := &sample{Item: Item{completion, reference(t, reference_)}}
	s.score, s.value = DefaultRules().score(s.Reference, completion)
	return p.run(context.Background(), s, 5*time.Second)
}

func TestPrograms(t *testing.T) {
	const ref = `{"files":["a.tif","b.tif"],"threshold":0.75,"n":9007199254740993,"ok":true,"text":"3,000 m"}`
	for src, want := range map[string]float64{
		`score`:                            0.2,
		`score - 0.1 * extra`:              0,
		`matched + missing + extra`:        7,
		`keys == 5 && values == 2 ? 1 : 0`: 1,
		`status == "object" ? 1 : 0`:       1,
		`length`:                           75,
		`len(completion)`:                  75,
		`arguments.threshold`:              0.75,
		`float(arguments.threshold) + float(reference.threshold)`:                                                1.5,
		`count(arguments.files, # in reference.files)`:                                                           1,
		`count(arguments.files, any(reference.files, # == "a.tif")) + count(reference.files, # endsWith ".tif")`: 4,
		`reference.ok == true ? 1 : 0`:                                                                           1,
		`completion matches "^\\s*\\{" ? 1 : 0`:                                                                  1,
		`number(reference.text, "m")`:                                                                            3000,
		`number(arguments.threshold, "")`:                                                                        0.75,
		`near(arguments.threshold, reference.threshold, 0) ? 1 : 0`:                                              1,
		`near("3e3", number(reference.text, "m"), 0.5) ? 1 : 0`:                                                  1,
		`near("x", 3, 1) ? 1 : 0`:                                                                                0,
		`sum(map(reference.files, len(#)))`:                                                                      10,
		`let n = len(arguments.files); n > 1 ? float(n) : 0.5`:                                                   2,
	} {
		got, err := value(t, src, ref, `{"files":["a.tif","c.tif"],"threshold":0.75,"ok":true,"more":[1,2],"u":"ü"}`)
		if err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", src, got, err, want)
		}
	}
	for src, completion := range map[string]string{
		`arguments == nil ? nil : 1`:             `{"a":`,
		`arguments?.threshold`:                   `{"a":1}`,
		`nil`:                                    ``,
		`number("3 km", "m")`:                    ``,
		`status == "parse_failure" ? nil : -1.0`: ``,
	} {
		if got, err := value(t, src, ref, completion); err != nil || !math.IsNaN(got) {
			t.Errorf("%s = %v, %v; want nothing", src, got, err)
		}
	}
}

func TestProgramsThatFail(t *testing.T) {
	for src, want := range map[string]string{
		`arguments.a`:                         "cannot fetch a from",
		`1 / 0`:                               "returned +Inf",
		`0 / 0`:                               "returned NaN",
		`reference.t`:                         "returned x, a string",
		`reference.a > 0 ? reference.ok : 1.`: "returned true, a bool",
		`near(1, 2, -1) ? 1 : 0`:              "tolerance",
		`int(reference.t)`:                    "invalid operation",
		`1 % 0`:                               "divide by zero",
		`len(filter(1..3, reference.a))`:      "",
		`sum(reference.l)`:                    "",
	} {
		if got, err := value(t, src, `{"a":1,"ok":true,"t":"x","l":["x"]}`, `not JSON`); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v, %v; want an error with %q", src, got, err, want)
		}
	}
}

func TestProgramsRefused(t *testing.T) {
	for src, want := range map[string]string{
		``:                                      "is empty",
		`score +`:                               "unexpected token",
		`"text"`:                                "the result is a string",
		`score > 1`:                             "the result is a bool",
		`reference`:                             "a number or nil",
		`completion + completion`:               "adds numbers only",
		`len(arguments.a + arguments.b)`:        "adds numbers only",
		`completion matches completion ? 1 : 0`: "in quotes",
		`len(groupBy(1..9, # % 2))`:             "groupBy is not available",
		`first(sortBy(1..9, -#))`:               "sortBy is not available",
		`now()`:                                 "unknown name now",
		`reduce(1..9, #acc * #)`:                "reduce is not available",
		`len(repeat("x", 9))`:                   "unknown name repeat",
		`len(keys(reference))`:                  "not callable",
		`len(upper(completion))`:                "unknown name upper",
		`len(toJSON(reference))`:                "unknown name toJSON",
		`len(split(completion, ""))`:            "unknown name split",
		strings.Repeat("1+", 300) + "1":         "nodes",
	} {
		if _, err := compile(src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v; want %q", src, err, want)
		}
	}
}

// R1: whatever a program does, it ends by its limits, and is recorded as an error.
func TestR1ProgramsAreBounded(t *testing.T) {
	items := make([]strictjson.Value, 24_000)
	for i := range items {
		items[i] = strictjson.Int(i % 10)
	}
	long := strictjson.Obj(strictjson.Member{Key: "x", Value: strictjson.List(items...)}).JSON()
	for _, c := range []struct {
		src, want string
		limit     time.Duration
	}{
		{`count(arguments.x, count(arguments.x, count(arguments.x, # > 1) > 1) > 1)`, "rounds of its predicates", time.Minute},
		{`count(1..900000, # > 0)`, "rounds of its predicates", time.Minute},
		{`findIndex(1..900000, all(arguments.x, # >= 0) == false)`, "rounds of its predicates", time.Minute},
		{`count(1..100000, completion contains "zzz")`, "time limit of 50ms", 50 * time.Millisecond},
		{`sum(map(arguments.x, sum(map(arguments.x, sum(arguments.x)))))`, "time limit of 50ms", 50 * time.Millisecond},
		{`len(1..1000000000)`, "memory budget", time.Minute},
		{`len([1..900000, 1..900000])`, "memory budget", time.Minute},
	} {
		src, want := c.src, c.want
		p, err := compile(src)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		s := &sample{Item: Item{long, reference(t, long)}}
		s.score, s.value = DefaultRules().score(s.Reference, long)
		start := time.Now()
		got, err := p.run(context.Background(), s, c.limit)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v, %v; want an error with %q", src, got, err, want)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s ran for %v", src, took)
		}
	}
}
