// Package strictyaml reads YAML configuration into structs and refuses whatever
// the struct does not have: unknown keys are named with their line and the
// nearest known key, all of them at once, before anything is decoded.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"terraloom/data/spelling"

	"go.yaml.in/yaml/v4"
)

// ErrConfig is wrapped by every error of Unmarshal.
var ErrConfig = errors.New("bad configuration")

// Unmarshal decodes one YAML document into v, a pointer to a struct whose yaml
// tags name the keys. name stands in errors as "name:line".
func Unmarshal(src []byte, name string, v any) error {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: %s is empty", ErrConfig, name)
		}
		return fmt.Errorf("%w: %s: %w", ErrConfig, name, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s: a second document follows the first", ErrConfig, name)
	}
	c := checker{name: name}
	if len(doc.Content) > 0 {
		c.check(doc.Content[0], reflect.TypeOf(v).Elem(), "")
	}
	if len(c.errs) > 0 {
		return errors.Join(c.errs...)
	}
	if err := doc.Decode(v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfig, name, err)
	}
	return nil
}

type checker struct {
	name string
	errs []error
}

// check walks a node beside the type it will be decoded into.
func (c *checker) check(n *yaml.Node, t reflect.Type, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		fields, names := fieldsOf(t)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			f, ok := fields[key.Value]
			if !ok {
				c.errs = append(c.errs, fmt.Errorf("%w: %s:%d: unknown key %q; %s", ErrConfig, c.name, key.Line, path+key.Value, hint(key.Value, names)))
				continue
			}
			c.check(n.Content[i+1], f, path+key.Value+".")
		}
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			c.check(item, t.Elem(), path)
		}
	case t.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			c.check(n.Content[i+1], t.Elem(), path+n.Content[i].Value+".")
		}
	}
}

func hint(key string, names []string) string {
	best, distance := "", len(key)
	for _, n := range names {
		if d := spelling.Distance(strings.ToLower(key), n); d < distance {
			best, distance = n, d
		}
	}
	if best != "" && distance <= 1+len(key)/3 {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known keys: " + strings.Join(names, ", ")
}

// fieldsOf maps the YAML keys of a struct to their types; inline structs add theirs.
func fieldsOf(t reflect.Type) (map[string]reflect.Type, []string) {
	fields := map[string]reflect.Type{}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if tag == "-" || !f.IsExported() || len(f.Index) > 1 {
			continue
		}
		if strings.Contains(options, "inline") {
			more, moreNames := fieldsOf(f.Type)
			for k, v := range more {
				fields[k] = v
			}
			names = append(names, moreNames...)
			continue
		}
		if tag == "" {
			tag = strings.ToLower(f.Name)
		}
		fields[tag] = f.Type
		names = append(names, tag)
	}
	slices.Sort(names)
	return fields, names
}
