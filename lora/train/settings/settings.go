// Package settings reads the configuration of a training run from three places, the later over the earlier: the
// defaults in the code, a YAML file, and key=value pairs of the command line. It remembers where every value came from,
// for the banner and for the run's record.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"terraloom/data/strictyaml"
)

// Default is the origin of values that nobody set.
const Default = "default"

// Origins says where values came from, by dotted key: "configs/planner.yaml:12" or "--set". Keys that are not in it
// have the default.
type Origins map[string]string

// Entry is one value of a configuration.
type Entry struct {
	Key    string // dotted: "lora.r"
	Value  string // as YAML, on one line
	Origin string
}

// Load fills config, a pointer to a struct that holds the defaults, from the file at path (empty: none) and then from
// the sets, each "dotted.key=YAML value". Unknown keys of all sources are reported together, each with its line and the
// nearest known key; errors wrap [strictyaml.ErrConfig].
func Load(path string, sets []string, config any) (Origins, error) {
	origins := Origins{}
	var errs []error
	read := func(text []byte, name string, origin func(line int) string) {
		if err := strictyaml.Unmarshal(text, name, config); err != nil {
			errs = append(errs, err)
			return
		}
		var doc yaml.Node
		if err := yaml.Unmarshal(text, &doc); err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", strictyaml.ErrConfig, name, err))
			return
		}
		if len(doc.Content) > 0 {
			leaves(doc.Content[0], "", func(key string, line int, _ *yaml.Node) { origins[key] = origin(line) })
		}
	}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", strictyaml.ErrConfig, err)
		}
		read(text, path, func(line int) string { return fmt.Sprintf("%s:%d", path, line) })
	}
	for _, set := range sets {
		text, err := setDocument(set)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		read(text, "--set "+set, func(int) string { return "--set" })
	}
	return origins, errors.Join(errs...)
}

// setDocument turns "a.b=value" into a YAML document.
func setDocument(set string) ([]byte, error) {
	path, value, ok := strings.Cut(set, "=")
	keys := strings.Split(path, ".")
	if !ok || slices.Contains(keys, "") {
		return nil, fmt.Errorf("%w: --set %s: write key=value, such as lora.r=8", strictyaml.ErrConfig, set)
	}
	if strings.TrimSpace(value) == "" {
		value = `""`
	}
	var b bytes.Buffer
	for i, key := range keys {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat("  ", i), key)
		if i < len(keys)-1 {
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, " %s\n", value)
	return b.Bytes(), nil
}

// leaves calls f for every value that is no mapping, and for empty mappings.
func leaves(n *yaml.Node, prefix string, f func(key string, line int, value *yaml.Node)) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := prefix+n.Content[i].Value, n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			leaves(value, key+".", f)
			continue
		}
		f(key, n.Content[i].Line, value)
	}
}

// Entries lists every value of a configuration in the order of its struct.
func Entries(config any, origins Origins) ([]Entry, error) {
	var doc yaml.Node
	if err := doc.Encode(config); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	var out []Entry
	var failed error
	leaves(&doc, "", func(key string, _ int, value *yaml.Node) {
		text, err := oneLine(value)
		failed = errors.Join(failed, err)
		out = append(out, Entry{Key: key, Value: text, Origin: origins.of(key)})
	})
	return out, failed
}

func (o Origins) of(key string) string {
	if origin, ok := o[key]; ok {
		return origin
	}
	return Default
}

// oneLine is a value in YAML's flow style.
func oneLine(n *yaml.Node) (string, error) {
	flow := *n
	if flow.Kind != yaml.ScalarNode {
		flow.Style = yaml.FlowStyle
	}
	text, err := yaml.Marshal(&flow)
	if err != nil {
		return "", fmt.Errorf("configuration: %w", err)
	}
	return strings.Join(strings.Fields(string(text)), " "), nil
}

// YAML is a configuration as a file that [Load] reads, with the origin of every value as a comment and head, the lines
// of a leading comment.
func YAML(head string, config any, origins Origins) ([]byte, error) {
	var doc yaml.Node
	if err := doc.Encode(config); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	leaves(&doc, "", func(key string, _ int, value *yaml.Node) {
		if value.Kind != yaml.ScalarNode {
			value.Style = yaml.FlowStyle
		}
		value.LineComment = "# " + origins.of(key)
	})
	var b bytes.Buffer
	for line := range strings.Lines(head) {
		fmt.Fprintf(&b, "# %s\n", strings.TrimRight(line, "\n"))
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return b.Bytes(), enc.Close()
}

// Changed lists the keys whose values differ between two lists of entries, but for those in free, where an entry of free
// ending in "." frees a whole section. Keys that only one list has count as changed.
func Changed(before, now []Entry, free []string) []string {
	values := func(list []Entry) map[string]string {
		m := map[string]string{}
		for _, e := range list {
			m[e.Key] = e.Value
		}
		return m
	}
	old, cur := values(before), values(now)
	var out []string
	add := func(key, a, b string) {
		if slices.ContainsFunc(free, func(f string) bool { return f == key || strings.HasSuffix(f, ".") && strings.HasPrefix(key, f) }) {
			return
		}
		out = append(out, fmt.Sprintf("%s was %s and is %s", key, a, b))
	}
	for _, e := range now {
		if was, ok := old[e.Key]; !ok {
			add(e.Key, "not there", e.Value)
		} else if was != e.Value {
			add(e.Key, was, e.Value)
		}
	}
	for _, e := range before {
		if _, ok := cur[e.Key]; !ok {
			add(e.Key, e.Value, "gone")
		}
	}
	return out
}
