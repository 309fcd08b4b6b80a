package slots

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Show marks every occurrence with its letter, above the sample's text.
func TestShow(t *testing.T) {
	seed := verifySeed(t)
	p, err := Discover(seed, arithmetic{})
	if err != nil {
		t.Fatal(err)
	}
	c := compile(t, p, seed, arithmetic{})
	text, err := c.Show(arithmetic{}, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"s  (not reviewed, program by analysis, answer derived)",
		"[P] place1", "[F] sample", "[T] years", "seed Nairobi, one of ", "[I] threshold",
		"Which share of [P]{Nairobi} was above [I]{305.5} K on [T]{July 12, 2022}?",
		"benchmark/data/question[F]{7}/[P]{Nairobi}_[T]{2022-07-12}_LST.tif",
		"[O]{[301.25,304.75]}", "[O]{37.42}", "[I]{…} %",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q:\n%s", part, text)
		}
	}
	in, _ := sample(t, c, arithmetic{}, 0)
	if strings.Contains(text, in.Query) {
		t.Error("another sample is shown")
	}
	if again, err := c.Show(arithmetic{}, 3); err != nil || again != text {
		t.Error("the same sample is shown in another way")
	}
	if other, err := c.Show(arithmetic{}, 4); err != nil || other == text {
		t.Error("another sample looks the same")
	}
	// A line pair: the seed's text and below it the sample's.
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.Contains(line, "/query ") {
			if below := strings.TrimSpace(lines[i+1]); !strings.HasPrefix(below, "Which share of ") || strings.Contains(below, "Nairobi") {
				t.Errorf("below the question stands %q", below)
			}
		}
	}
	if _, err := Check(p, seed, arithmetic{}); err != nil {
		t.Fatal(err)
	}
	p.Notes = append(p.Notes, "an edit")
	if text, err := c.Show(arithmetic{}, 3); err != nil || !strings.Contains(text, "the review is void") || !strings.Contains(text, "note: an edit") {
		t.Errorf("after an edit: %v\n%s", err, text)
	}
}

func TestShowOfLongLists(t *testing.T) {
	for _, seed := range sampleSeeds(t) {
		text, err := discovered(t, seed, arithmetic{}).Show(arithmetic{}, 1)
		if err != nil {
			t.Errorf("%s: %v", seed.ID, err)
		}
		if !utf8.ValidString(text) {
			t.Errorf("%s: text is cut inside a letter", seed.ID)
		}
		if seed.ID == "sample-2" && !strings.Contains(text, "/steps/0/observation/… (more)") {
			t.Errorf("%s: the long list is not cut:\n%s", seed.ID, text)
		}
	}
	if clip("aé", 2) != "a" || clip("aé", 3) != "aé" || clip("é", 1) != "" {
		t.Error("clip")
	}
}
