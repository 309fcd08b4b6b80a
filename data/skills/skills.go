// Package skills holds the six skills that guide Planner and Executor: each a
// folder with a SKILL.md whose front matter names the skill, when to use it and
// its tools (A_s of Earth-Agent-Pro Eq. 5), and whose body is the guidance
// (§IV-B): procedure, parameter rules, repetition rules, checks. They stand
// beside the catalogue because the extractors write the same guidance into
// training prompts that the agent serves.
package skills

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"terraloom/data/catalogue"
)

//go:embed */SKILL.md
var bundled embed.FS

// Skill is one skill.
type Skill struct {
	Name        string   `yaml:"name"`
	Description string   `yaml:"description"`
	When        string   `yaml:"when"`
	Keywords    []string `yaml:"keywords"` // words of questions it is for, lower case
	Tools       []string `yaml:"tools"`    // 20 to 30 catalogue names
	Guidance    string   `yaml:"-"`        // the body
}

// Fewest and most tools of a skill (Earth-Agent-Pro Fig. 5).
const (
	minTools = 20
	maxTools = 30
)

// sections that every body has, in this order.
var sections = []string{"## Procedure", "## Parameters", "## Repetition", "## Checks"}

// Default returns the bundled skills by name, loaded once.
var Default = sync.OnceValue(func() []*Skill {
	all, err := Load(bundled, catalogue.Default())
	if err != nil {
		panic("skills: " + err.Error()) // a broken build; the tests load them
	}
	return all
})

// Load reads every */SKILL.md of a folder. It reports all faults at once.
func Load(dir fs.FS, cat *catalogue.Catalogue) ([]*Skill, error) {
	files, err := fs.Glob(dir, "*/SKILL.md")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no */SKILL.md in the skills folder")
	}
	var all []*Skill
	var errs []error
	for _, name := range files {
		src, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		s, err := parse(src, path.Base(path.Dir(name)), cat)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Skill) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(errs...)
}

func parse(src []byte, folder string, cat *catalogue.Catalogue) (*Skill, error) {
	rest, ok := bytes.CutPrefix(src, []byte("---\n"))
	front, body, closed := bytes.Cut(rest, []byte("\n---\n"))
	if !ok || !closed {
		return nil, errors.New("it must start with YAML front matter between two lines ---")
	}
	dec := yaml.NewDecoder(bytes.NewReader(front))
	dec.KnownFields(true)
	var s Skill
	if err := dec.Decode(&s); err != nil {
		return nil, err
	}
	s.Guidance = strings.TrimSpace(string(body))
	var errs []error
	if s.Name != folder {
		errs = append(errs, fmt.Errorf("name: %q, the folder is %q", s.Name, folder))
	}
	if s.Description == "" || s.When == "" || len(s.Keywords) == 0 {
		errs = append(errs, errors.New("description, when and keywords are required"))
	}
	if n := len(s.Tools); n < minTools || n > maxTools {
		errs = append(errs, fmt.Errorf("tools: %d; a skill has %d to %d", n, minTools, maxTools))
	}
	for i, name := range s.Tools {
		if _, ok := cat.Tool(name); !ok {
			errs = append(errs, fmt.Errorf("tools: %q is not in the catalogue", name))
		}
		if slices.Contains(s.Tools[:i], name) {
			errs = append(errs, fmt.Errorf("tools: %q is listed twice", name))
		}
	}
	at := -1
	for _, h := range sections {
		i := strings.Index(s.Guidance, h)
		if i <= at {
			errs = append(errs, fmt.Errorf("the body needs a section %q after the one before it", h))
		}
		at = i
	}
	return &s, errors.Join(errs...)
}

// Score counts the skill's keywords in a question, longer questions not favoured.
func (s *Skill) Score(question string) int {
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(question), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) {
		words[w] = true
	}
	n := 0
	for _, k := range s.Keywords {
		if words[k] {
			n++
		}
	}
	return n
}

// Covers reports whether the skill may use all of the tools.
func (s *Skill) Covers(tools []string) bool {
	return !slices.ContainsFunc(tools, func(t string) bool { return !slices.Contains(s.Tools, t) })
}

// Route picks the skill for a question among those that cover the tools (nil for
// any): the highest score, the first by name of equals. It is nil where no
// skill covers them.
func Route(all []*Skill, question string, tools []string) *Skill {
	var best *Skill
	score := -1
	for _, s := range all {
		if n := s.Score(question); s.Covers(tools) && n > score {
			best, score = s, n
		}
	}
	return best
}
