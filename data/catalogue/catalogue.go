// Package catalogue holds the schemas of the Earth-observation tools: names,
// parameters with types and defaults, summaries, families, and the other names
// that real calls use. It is the one source of tool schemas for prompts,
// argument checks and the tools themselves.
package catalogue

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.yaml.in/yaml/v4"
)

// Sentinels for what callers branch on.
var (
	ErrUnknownTool = errors.New("unknown tool")
	ErrArguments   = errors.New("bad arguments") // every *ArgumentsError wraps it
)

//go:embed tools.yaml
var toolsYAML []byte

// Catalogue is an immutable set of tools.
type Catalogue struct {
	tools  []*Tool
	byName map[string]ref
}

// ref is what a name stands for: a tool, or with item >= 0 one item of its result.
type ref struct {
	tool *Tool
	item int
}

// Default returns the built-in catalogue of 112 tools, loaded once.
var Default = sync.OnceValue(func() *Catalogue {
	c, err := parse(toolsYAML)
	if err != nil {
		panic("catalogue: embedded tools.yaml: " + err.Error()) // a broken build; the tests load it
	}
	return c
})

// Tools returns all tools in catalogue order. The slice is the caller's.
func (c *Catalogue) Tools() []*Tool { return slices.Clone(c.tools) }

// Tool returns the tool of that canonical name.
func (c *Catalogue) Tool(name string) (*Tool, bool) {
	r, ok := c.byName[name]
	if !ok || r.tool.Name != name {
		return nil, false
	}
	return r.tool, true
}

// Resolution is what a tool name that a caller used stands for.
type Resolution struct {
	Tool *Tool
	Item int // index of the one item of the result that the name asks for, or -1 for the whole result
}

// Resolve finds a tool by its canonical name or an alias. An unknown name is an
// ErrUnknownTool that names the nearest known one.
func (c *Catalogue) Resolve(name string) (Resolution, error) {
	if r, ok := c.byName[name]; ok {
		return Resolution{Tool: r.tool, Item: r.item}, nil
	}
	names := make([]string, 0, len(c.tools))
	for _, t := range c.tools {
		names = append(names, t.Name)
	}
	return Resolution{}, fmt.Errorf("%w %q%s", ErrUnknownTool, clipText(name), didYouMean(name, names))
}

// The closed sets of the file format.
var (
	families = []string{"index", "inversion", "perception", "analysis", "statistics", "acquisition", "operation", "logic", "gis"}
	origins  = []string{"kit", "seed-calls", "inferred", "openearthagent"}
	domains  = []string{"spectrum", "products", "rgb", "gis"}
)

// file mirrors tools.yaml.
type file struct {
	Tools []fileTool `yaml:"tools"`
}

type fileTool struct {
	Name        string         `yaml:"name"`
	Family      string         `yaml:"family"`
	Origin      string         `yaml:"origin"`
	Domains     []string       `yaml:"domains"`
	Tags        []string       `yaml:"tags"`
	Summary     string         `yaml:"summary"`
	Returns     string         `yaml:"returns"`
	Pure        bool           `yaml:"pure"`
	Batch       bool           `yaml:"batch"`
	Aliases     []string       `yaml:"aliases"`
	ItemAliases map[string]int `yaml:"item_aliases"`
	Spread      string         `yaml:"spread"`
	Records     string         `yaml:"records"`
	Params      []fileParam    `yaml:"params"`
}

type fileParam struct {
	Name    string    `yaml:"name"`
	Type    string    `yaml:"type"`
	Default yaml.Node `yaml:"default"`
	IO      string    `yaml:"io"`
	Enum    []string  `yaml:"enum"`
	Keys    []string  `yaml:"keys"`
	Minimum *float64  `yaml:"minimum"`
	Maximum *float64  `yaml:"maximum"`
	Above   *float64  `yaml:"above"`
	Unit    string    `yaml:"unit"`
	Doc     string    `yaml:"doc"`
	Aliases []string  `yaml:"aliases"`
}

// parse reads a catalogue file and reports every fault it finds.
func parse(data []byte) (*Catalogue, error) {
	var f file
	if err := yaml.Load(data, &f, yaml.WithKnownFields()); err != nil {
		return nil, err
	}
	c := &Catalogue{byName: make(map[string]ref)}
	var errs []error
	claim := func(name string, r ref) {
		if old, taken := c.byName[name]; taken {
			errs = append(errs, fmt.Errorf("%s: the name %q already stands for %s", r.tool.Name, name, old.tool.Name))
			return
		}
		c.byName[name] = r
	}
	for _, ft := range f.Tools {
		t, err := newTool(ft)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.tools = append(c.tools, t)
		claim(t.Name, ref{t, -1})
		for _, a := range t.Aliases {
			claim(a, ref{t, -1})
		}
		for a, item := range ft.ItemAliases {
			claim(a, ref{t, item})
		}
	}
	if len(f.Tools) == 0 {
		errs = append(errs, errors.New("no tools"))
	}
	return c, errors.Join(errs...)
}
