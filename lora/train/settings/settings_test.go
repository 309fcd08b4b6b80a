package settings

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/data/strictyaml"
)

type lora struct {
	R       int      `yaml:"r"`
	Alpha   float64  `yaml:"alpha"`
	Targets []string `yaml:"targets"`
}

type config struct {
	Base      string         `yaml:"base"`
	LoRA      lora           `yaml:"lora"`
	Variables map[string]any `yaml:"variables"`
}

func defaults() config {
	return config{Base: "none", LoRA: lora{R: 16, Alpha: 32, Targets: []string{"all-linear"}}, Variables: map[string]any{}}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadLayersAndOrigins(t *testing.T) {
	path := write(t, "# comment\nbase: models/x\nlora:\n  r: 8\n  targets: [q_proj, v_proj]\n")
	c := defaults()
	origins, err := Load(path, []string{"lora.r=4", "variables.enable_thinking=false", "base="}, &c)
	if err != nil {
		t.Fatal(err)
	}
	if c.LoRA.R != 4 || c.LoRA.Alpha != 32 || c.Base != "" || len(c.LoRA.Targets) != 2 || c.Variables["enable_thinking"] != false {
		t.Errorf("loaded %+v", c)
	}
	entries, err := Entries(&c, origins)
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{"base", `""`, "--set"}, {"lora.r", "4", "--set"}, {"lora.alpha", "32", Default},
		{"lora.targets", "[q_proj, v_proj]", path + ":5"}, {"variables.enable_thinking", "false", "--set"},
	}
	if !slices.Equal(entries, want) {
		t.Errorf("entries\n%v, expected\n%v", entries, want)
	}

	text, err := YAML("terraloom sft --config config.yaml\nsecond line", &c, origins)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# terraloom sft --config config.yaml\n# second line\n") || !strings.Contains(string(text), "alpha: 32 # default") {
		t.Errorf("resolved file:\n%s", text)
	}
	again := defaults()
	if _, err := Load(write(t, string(text)), nil, &again); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	same, err := Entries(&again, nil)
	if err != nil {
		t.Fatal(err)
	}
	if changed := Changed(entries, same, nil); len(changed) > 0 {
		t.Errorf("the resolved file gives other values: %v", changed)
	}
}

func TestC1AllUnknownKeysAtOnce(t *testing.T) {
	c := defaults()
	_, err := Load(write(t, "bsae: x\nlora: {rr: 1}\n"), []string{"lora.aplha=3", "nonsense"}, &c)
	if !errors.Is(err, strictyaml.ErrConfig) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{`c.yaml:1: unknown key "bsae"; did you mean "base"?`, `"lora.rr"`, `"lora.aplha"; did you mean "alpha"?`, "--set nonsense: write key=value"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent.yaml"), nil, &c); !errors.Is(err, strictyaml.ErrConfig) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

func TestChanged(t *testing.T) {
	before := []Entry{{"a", "1", ""}, {"b.c", "2", ""}, {"gone", "x", ""}, {"log.every", "1", ""}}
	now := []Entry{{"a", "1", "--set"}, {"b.c", "3", ""}, {"new", "y", ""}, {"log.every", "2", ""}}
	got := Changed(before, now, []string{"log."})
	want := []string{"b.c was 2 and is 3", "new was not there and is y", "gone was x and is gone"}
	if !slices.Equal(got, want) {
		t.Errorf("changed %q, expected %q", got, want)
	}
	if got := Changed(before, now, []string{"b.c", "new", "gone", "log.every"}); len(got) > 0 {
		t.Errorf("all are free, but %q", got)
	}
}
