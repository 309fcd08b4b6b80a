// Package seeds writes the bundled seeds: it reads their specifications, carries
// each out in the environment with the real tools, and makes trajectories of what
// the tools returned.
//
// A specification file (data/seeds/*.yaml) lists families. A family is an
// objective, a workflow and the wording of its questions; its seeds fill in core
// task, place, period and limits. See data/seeds/README.md for the format.
package seeds

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"terraloom/data/catalogue"
	"terraloom/data/skills"
	"terraloom/data/strictyaml"
)

// ErrSpec is wrapped by every error about a specification.
var ErrSpec = errors.New("seed specification")

// Family is a workflow with the seeds that follow it.
type Family struct {
	Name      string         `yaml:"name"`
	Domain    string         `yaml:"domain"` // spectrum, products or rgb
	Skill     string         `yaml:"skill"`
	Objective string         `yaml:"objective"` // what the answer must be: the required output
	Params    map[string]any `yaml:"params"`    // of all seeds, unless they say otherwise
	Steps     []Step         `yaml:"steps"`
	Answer    Answer         `yaml:"answer"`
	AP        []string       `yaml:"ap"` // questions that name the data; the steps are the solver's to find
	OW        []string       `yaml:"ow"` // requests that name phenomenon, place and period only
	Seeds     []Seed         `yaml:"seeds"`

	file string
}

// Step is one call of a workflow.
type Step struct {
	ID   string    `yaml:"id"`   // by which later steps name its observation
	Tool string    `yaml:"tool"` // catalogue name
	Do   string    `yaml:"do"`   // what it does, as an instruction: "average the images"
	Args Arguments `yaml:"args"`
}

// Arguments are the argument templates of a step, in order.
type Arguments []Argument

// Argument is one of them.
type Argument struct {
	Key  string
	Node *yaml.Node
}

// UnmarshalYAML keeps the order of the keys.
func (a *Arguments) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: args is a mapping of argument names", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		*a = append(*a, Argument{n.Content[i].Value, n.Content[i+1]})
	}
	return nil
}

// Seed is one seed of a family: core, the number of its task core, and parameters.
type Seed map[string]any

// Core is the number of the task core; 0 if it has none.
func (s Seed) Core() int {
	n, _ := s[coreKey].(int)
	return n
}

const coreKey = "core"

// Spec is everything that is specified.
type Spec struct {
	Families []*Family
	Scenes   []byte // the collections' file
}

// scenesFile holds the scene collections; every other YAML file holds families.
const scenesFile = "scenes.yaml"

// Load reads the specifications of a folder and reports all faults at once.
func Load(dir fs.FS) (*Spec, error) {
	names, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, err
	}
	spec := &Spec{}
	var errs []error
	for _, name := range names {
		src, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		if name == scenesFile {
			spec.Scenes = src
			continue
		}
		var file struct {
			Families []*Family `yaml:"families"`
		}
		if err := strictyaml.Unmarshal(src, name, &file); err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", ErrSpec, err))
			continue
		}
		for _, f := range file.Families {
			f.file = name
			spec.Families = append(spec.Families, f)
		}
	}
	return spec, errors.Join(append(errs, spec.check())...)
}

// cores is the number of task cores of the benchmark.
const cores = 248

// domainOf is the domain of a task core (Earth-Agent-Pro §III-A).
func domainOf(core int) string {
	switch {
	case core <= 100:
		return "spectrum"
	case core <= 188:
		return "products"
	}
	return "rgb"
}

func (s *Spec) check() error {
	var errs []error
	cat := catalogue.Default()
	families, seen := map[string]bool{}, map[int]string{}
	for _, f := range s.Families {
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%w: %s: family %s: %s", ErrSpec, f.file, f.Name, fmt.Sprintf(format, args...)))
		}
		if families[f.Name] {
			bad("the name is taken")
		}
		families[f.Name] = true
		if f.Objective == "" || len(f.AP) == 0 || len(f.OW) == 0 || len(f.Steps) == 0 || len(f.Seeds) == 0 {
			bad("objective, steps, ap, ow and seeds are required")
		}
		skill := slices.IndexFunc(skills.Default(), func(k *skills.Skill) bool { return k.Name == f.Skill })
		if skill < 0 {
			bad("skill %q is not bundled", f.Skill)
		}
		ids := map[string]bool{}
		for i, st := range f.Steps {
			if _, ok := cat.Tool(st.Tool); !ok {
				bad("step %d: %q is no tool of the catalogue", i+1, st.Tool)
			} else if skill >= 0 && !skills.Default()[skill].Covers([]string{st.Tool}) {
				bad("step %d: the skill %s does not allow %s", i+1, f.Skill, st.Tool)
			}
			if st.ID != "" && (ids[st.ID] || !isName.MatchString(st.ID)) {
				bad("step %d: id %q is taken, or no name", i+1, st.ID)
			}
			ids[st.ID] = true
			if st.Do == "" {
				bad("step %d: do is required", i+1)
			}
		}
		for _, fault := range f.Answer.faults(f.Steps) {
			bad("%s", fault)
		}
		for _, sd := range f.Seeds {
			switch {
			case sd.Core() < 1 || sd.Core() > cores:
				bad("core %v: a seed needs the number of its task core, 1 to %d", sd[coreKey], cores)
			case domainOf(sd.Core()) != f.Domain:
				bad("core %d is of the domain %s", sd.Core(), domainOf(sd.Core()))
			case seen[sd.Core()] != "":
				bad("core %d has a seed in %s", sd.Core(), seen[sd.Core()])
			}
			seen[sd.Core()] = f.Name
		}
	}
	return errors.Join(errs...)
}

var isName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// dateText gives YAML's dates their spelling again.
func dateText(v any) any {
	switch x := v.(type) {
	case time.Time:
		return x.Format(time.DateOnly)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = dateText(x[i])
		}
		return out
	}
	return v
}

// File is the name of the file that specifies the family.
func (f *Family) File() string { return f.file }
