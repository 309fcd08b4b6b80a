package strictyaml

import (
	"errors"
	"strings"
	"testing"
)

type inner struct {
	Rank  int     `yaml:"rank"`
	Alpha float64 `yaml:"alpha"`
}

type config struct {
	Name    string           `yaml:"name"`
	LoRA    inner            `yaml:"lora"`
	Stages  []inner          `yaml:"stages"`
	ByName  map[string]inner `yaml:"by_name"`
	Pointer *inner           `yaml:"pointer"`
}

func TestUnmarshal(t *testing.T) {
	var c config
	if err := Unmarshal([]byte("name: x\nlora: {rank: 8}\nstages: [{rank: 1}, {alpha: 2.5}]\n"), "c.yaml", &c); err != nil {
		t.Fatal(err)
	}
	if c.LoRA.Rank != 8 || c.Stages[1].Alpha != 2.5 {
		t.Errorf("read %+v", c)
	}
}

func TestC1UnknownKeysAreNamedWithLineAndNearest(t *testing.T) {
	src := "nmae: x\nlora:\n  rnak: 8\nstages:\n- rank: 1\n- alhpa: 2\nby_name:\n  a: {Rank: 3}\npointer: {zzz: 1}\n"
	err := Unmarshal([]byte(src), "c.yaml", new(config))
	if !errors.Is(err, ErrConfig) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{
		`c.yaml:1: unknown key "nmae"; did you mean "name"?`,
		`c.yaml:3: unknown key "lora.rnak"; did you mean "rank"?`,
		`c.yaml:6: unknown key "stages.alhpa"; did you mean "alpha"?`,
		`c.yaml:8: unknown key "by_name.a.Rank"; did you mean "rank"?`,
		`c.yaml:9: unknown key "pointer.zzz"; known keys: alpha, rank`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, src := range map[string]string{
		"empty":            "",
		"repeated key":     "name: a\nname: b\n",
		"fraction for int": "lora: {rank: 8.5}\n",
		"two documents":    "name: a\n---\nname: b\n",
		"not yaml":         "name: [\n",
		"text for struct":  "lora: eight\n",
	} {
		if err := Unmarshal([]byte(src), "c.yaml", new(config)); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
