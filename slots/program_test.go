package slots

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data/strictyaml"
)

// A program file round-trips: same YAML, same hash, review still valid.
func TestProgramFileRoundTrip(t *testing.T) {
	for _, seed := range sampleSeeds(t) {
		p, err := Discover(seed, arithmetic{})
		if err != nil {
			t.Fatal(err)
		}
		p.SetReview(Approved, "Ada Reviewer")
		path := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(path, p.YAML(), 0o644); err != nil {
			t.Fatal(err)
		}
		q, err := ReadProgram(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(q.YAML()) != string(p.YAML()) || q.Hash() != p.Hash() {
			t.Errorf("%s: read back it is\n%s\nwritten\n%s", seed.ID, q.YAML(), p.YAML())
		}
		if state, err := q.State(); err != nil || state != Approved || q.Review.By != "Ada Reviewer" {
			t.Errorf("%s: state %q, %v", seed.ID, state, err)
		}
		// The hash is of the content, not of the file's spelling.
		other := "# a comment\n" + strings.Replace(string(p.YAML()), "version", "version", 1) + "\n"
		if r, err := ParseProgram([]byte(other), "x"); err != nil || r.Hash() != p.Hash() {
			t.Errorf("%s: with a comment %v", seed.ID, err)
		}
	}
	if _, err := ReadProgram(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// SLOT-12: an approval is void after any edit, of whatever part.
func TestReviewIsVoidAfterAnyEdit(t *testing.T) {
	seed := verifySeed(t)
	fresh := func() *Program {
		p, err := Discover(seed, arithmetic{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if state, err := fresh().State(); state != "" || err != nil {
		t.Errorf("without review: %q, %v", state, err)
	}
	for name, edit := range map[string]func(*Program){
		"expression":  func(p *Program) { p.slot("d20220712").Expr += " " },
		"domain":      func(p *Program) { p.slot("sample").Source.Range.Max++ },
		"seed value":  func(p *Program) { p.slot("sample").Seed = 8 },
		"type":        func(p *Program) { p.slot("sample").Type = Count },
		"group":       func(p *Program) { p.slot("sample").Group = "x" },
		"slot":        func(p *Program) { p.Slots = p.Slots[1:] },
		"occurrence":  func(p *Program) { p.Occurrences[0].Text += "!" },
		"place":       func(p *Program) { p.Occurrences[0].At += "/0" },
		"answer":      func(p *Program) { p.Answer = AnswerNone },
		"note":        func(p *Program) { p.Notes = append(p.Notes, "x") },
		"origin":      func(p *Program) { p.Origin = "x" },
		"seed's hash": func(p *Program) { p.SeedHash = "x" },
	} {
		p := fresh()
		p.SetReview(Approved, "Ada Reviewer")
		if state, err := p.State(); state != Approved || err != nil {
			t.Fatalf("after the approval: %q, %v", state, err)
		}
		edit(p)
		if state, err := p.State(); state != "" || !errors.Is(err, ErrStaleReview) || !strings.Contains(err.Error(), "s: ") {
			t.Errorf("after an edit of the %s: %q, %v", name, state, err)
		}
	}
	p := fresh()
	if _, err := Check(p, seed, arithmetic{}); err != nil {
		t.Fatal(err)
	}
	if state, err := p.State(); state != MachineChecked || err != nil {
		t.Errorf("after the checks: %q, %v", state, err)
	}
	p.slot("sample").Seed = 8
	if _, err := Check(p, seed, arithmetic{}); err == nil {
		t.Error("a program that does not restore its seed passes")
	}
}

func TestParseProgramIsStrict(t *testing.T) {
	const head = "program: 1\nseed: s\nseed_hash: h\norigin: test\n"
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "p.yaml is empty"},
		{"no mapping", "- 1\n", "p.yaml"},
		{"C1 misspelt key", head + "slotz: []\n", `p.yaml:5: unknown key "slotz"; did you mean "slots"?`},
		{"C1 misspelt key below", head + "slots:\n  - {name: n, typ: count}\n", `p.yaml:6: unknown key "slots.typ"; did you mean "type"?`},
		{"C1 misplaced key", head + "slots:\n  - {name: n, min: 1}\n", `p.yaml:6: unknown key "slots.min"`},
		{"repeated key", head + "seed: t\n", `line 5: mapping key "seed" already defined at line 2`},
		{"other version", "program: 2\nseed: s\nseed_hash: h\norigin: test\n", "p.yaml: program: version 2 is unknown, this release reads version 1"},
		{"no version", "seed: s\n", "version 0 is unknown"},
		{"two documents", head + "---\nprogram: 1\n", "a second document"},
		{"wrong type", head + "slots:\n  - {name: n, source: {range: {min: low}}}\n", "p.yaml"},
		{"endless number", head + "slots:\n  - {name: n, seed: .inf}\n", "p.yaml: values must be texts and finite numbers"},
		{"no number", head + "slots:\n  - {name: n, source: {choice: [.nan]}}\n", "values must be texts and finite numbers"},
	} {
		_, err := ParseProgram([]byte(test.text), "p.yaml")
		wantError(t, test.name, err, test.want)
	}
	_, err := ParseProgram([]byte(head+"a: 1\nb: 2\n"), "p.yaml")
	wantError(t, "all at once", err, `"a"`, `"b"`)
	if !errors.Is(err, strictyaml.ErrConfig) {
		t.Error("it is no ErrConfig")
	}
}

func FuzzParseProgram(f *testing.F) {
	seed := seedOf(f, "Warm on 2020-01-05?", step("mean", `{"x":[1.5,2.5]}`, "2.0"), "")
	p, err := Discover(seed, arithmetic{})
	if err != nil {
		f.Fatal(err)
	}
	p.SetReview(MachineChecked, "")
	f.Add(p.YAML())
	f.Add([]byte("program: 1\nslots:\n  - {name: n, seed: 2020-01-05, source: {choice: [0x10, yes, ~, 1e3, [1, {a: b}]]}}\n"))
	f.Add([]byte("program: 1\nslots: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := ParseProgram(src, "p.yaml")
		if err != nil {
			return
		}
		hash := p.Hash()
		q, err := ParseProgram(p.YAML(), "again.yaml")
		if err != nil {
			t.Fatalf("%s\nis written as\n%s\n%v", src, p.YAML(), err)
		}
		if q.Hash() != hash {
			t.Fatalf("%s\nis written as\n%s\nand then another program", src, p.YAML())
		}
		p.Seed, p.SeedHash = seed.ID, HashSeed(seed)
		if c, err := Compile(p, seed, arithmetic{}); err == nil { // no panic, whatever it says
			if in, err := c.Instance(c.Draw(rngOf(1)), arithmetic{}); err == nil && len(in.Steps) != len(seed.Steps) {
				t.Fatal("an instance lost a step")
			}
		}
	})
}
