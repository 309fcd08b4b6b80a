package reward

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"terraloom/data/strictyaml"
)

// The kinds of reward functions.
const (
	KindArgument = "argument" // Eq. 13, in [-2, 2]
	KindFormat   = "format"   // 1 for a non-empty JSON object, else 0
	KindLength   = "length"   // 0 to -1: the soft overlong punishment of DAPO (arXiv 2503.14476, Eq. 13), in characters
	KindExpr     = "expr"     // an expr-lang program
	KindHTTP     = "http"     // a service
)

var kinds = []string{KindArgument, KindFormat, KindLength, KindExpr, KindHTTP}

// Config says how completions are scored. The reward is the sum of the
// functions' values times their weights.
type Config struct {
	Rules     `yaml:",inline"`
	Functions []Function `yaml:"functions"`
}

// Function is one summand of the reward.
type Function struct {
	Name   string  `yaml:"name"` // in logs; unique
	Kind   string  `yaml:"kind"`
	Weight float64 `yaml:"weight"`

	// Free and Max are for length: the value is 0 up to Free characters, falls
	// in a straight line, and is -1 from Max characters.
	Free int `yaml:"free,omitempty"`
	Max  int `yaml:"max,omitempty"`

	// Program is for expr; see compile for what it sees and may do.
	Program string `yaml:"program,omitempty"`

	// URL is for http; see endpoint for the protocol.
	URL string `yaml:"url,omitempty"`

	// Timeout is the wall-clock limit of one call, for expr and http.
	Timeout time.Duration `yaml:"timeout,omitempty"`
}

// DefaultTimeout is the limit of a function that names none.
const DefaultTimeout = 5 * time.Second

// Default is the reward of the paper: Eq. 13 alone.
func Default() Config {
	return Config{Rules: DefaultRules(), Functions: []Function{{Name: "argument", Kind: KindArgument, Weight: 1}}}
}

// ParseConfig reads a configuration in YAML over the defaults, as strictly as
// package strictyaml does. name stands in errors.
func ParseConfig(name string, text []byte) (Config, error) {
	c := Default()
	if err := strictyaml.Unmarshal(text, name, &c); err != nil {
		return Config{}, err
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// Validate returns every fault at once, each a strictyaml.ErrConfig, so that a run stops
// before its first step. There is no default function for an unknown kind.
func (c Config) Validate() error {
	errs := c.validate()
	if len(c.Functions) == 0 {
		errs = append(errs, errors.New("functions is empty; list at least one, such as {name: argument, kind: argument, weight: 1}"))
	}
	names := map[string]bool{}
	for i, f := range c.Functions {
		where := fmt.Sprintf("functions[%d] %q", i, f.Name)
		for _, err := range f.validate() {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
		if f.Name != "" && names[f.Name] {
			errs = append(errs, fmt.Errorf("%s: the name is used twice", where))
		}
		names[f.Name] = true
	}
	if len(errs) == 0 {
		return nil
	}
	for i := range errs {
		errs[i] = fmt.Errorf("%w: reward: %w", strictyaml.ErrConfig, errs[i])
	}
	return errors.Join(errs...)
}

func (f Function) validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if f.Name == "" || f.Name == TotalName {
		bad("name must be a word of its own (%q is the sum's)", TotalName)
	}
	if !slices.Contains(kinds, f.Kind) {
		bad("kind %q is none of %s", f.Kind, strings.Join(kinds, ", "))
		return errs
	}
	if f.Weight == 0 || math.IsNaN(f.Weight) || math.IsInf(f.Weight, 0) {
		bad("weight is %v; a finite number other than 0", f.Weight)
	}
	foreign := func(set bool, key, kind string) {
		if set && f.Kind != kind {
			bad("%s is for kind %s only", key, kind)
		}
	}
	foreign(f.Free != 0, "free", KindLength)
	foreign(f.Max != 0, "max", KindLength)
	foreign(f.Program != "", "program", KindExpr)
	foreign(f.URL != "", "url", KindHTTP)
	if f.Timeout != 0 && f.Kind != KindExpr && f.Kind != KindHTTP {
		bad("timeout is for kinds %s and %s only", KindExpr, KindHTTP)
	}
	if f.Timeout < 0 {
		bad("timeout is %v; a positive duration such as 5s", f.Timeout)
	}
	switch f.Kind {
	case KindLength:
		if f.Free < 0 || f.Max <= f.Free {
			bad("free is %d and max %d characters; needed: 0 ≤ free < max", f.Free, f.Max)
		}
	case KindExpr:
		if _, err := compile(f.Program); err != nil {
			bad("program: %w", err)
		}
	case KindHTTP:
		u, err := url.Parse(f.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad("url %q is no http:// or https:// address", f.URL)
		}
	}
	return errs
}
