package memory

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"terraloom/agent/tools"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// FilesOf describes the files that a call made: by what the tool says of them
// and, for what it does not say, by the call's arguments. A tool of the family
// acquisition changes how a file is stored, not what it shows: its outputs have
// the variables of its inputs too.
func (s *State) FilesOf(t *catalogue.Tool, args strictjson.Value, made []tools.Artefact) []File {
	known := map[string][]string{}
	for _, r := range s.Evidence {
		for _, f := range r.Provenance.Files {
			known[stem(f.Path)] = f.Variables
		}
	}
	var inputs []string
	for i := range t.Params {
		if t.Params[i].IO == "in" {
			args.Get(t.Params[i].Name).Leaves("", func(_ string, leaf strictjson.Value) { inputs = append(inputs, leaf.Text()) })
		}
	}
	files := make([]File, len(made))
	for i, a := range made {
		f := File{Path: a.Path, SHA256: a.SHA256, Time: a.Time, Region: a.Region, CRS: a.CRS, Batch: i + 1, Of: len(made)}
		for k, b := range a.Bands {
			name := b.Name
			if name == "" {
				name = fmt.Sprintf("band %d", k+1)
			} else {
				f.Variables = add(f.Variables, name)
			}
			f.Bands = append(f.Bands, name)
		}
		for _, key := range []string{"source", "parameter"} {
			if v := args.Get(key); v.Kind() == strictjson.String {
				f.Variables = add(f.Variables, v.Text())
			}
		}
		if bands := args.Get("bands"); t.Family == acquisition && len(f.Variables) < 2 && bands.Len() == 1 {
			f.Variables = add(f.Variables, bands.Index(0).Text())
		}
		if t.Family == acquisition && i < len(inputs) {
			for _, v := range known[stem(inputs[i])] {
				f.Variables = add(f.Variables, v)
			}
		}
		if len(f.Variables) == 0 {
			f.Variables = []string{t.Name}
		}
		if f.Region == nil {
			f.Region = boxOf(args)
		}
		files[i] = f
	}
	return files
}

// acquisition is the catalogue's family of downloads and their preparation.
const acquisition = "acquisition"

func add(list []string, name string) []string {
	if name == "" || slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// boxOf is a bounding box among the arguments, nil without one.
func boxOf(args strictjson.Value) []float64 {
	for _, key := range []string{"bbox", "region", "extent"} {
		list := args.Get(key)
		if list.Len() != 4 {
			continue
		}
		box := make([]float64, 0, 4)
		for i := range 4 {
			if f, ok := list.Index(i).Float(); ok {
				box = append(box, f)
			}
		}
		if len(box) == 4 {
			return box
		}
	}
	return nil
}

// Binding offers a file for an argument of a tool.
type Binding struct {
	Argument string // "" where the file fits no argument by name
	File     File
	From     int // record that made it
	Tool     string
}

// Grounding lists the files at hand for a tool (the derived grounding view of
// Earth-Agent-Pro Fig. 4): by argument, then by time. Files that a later
// accepted step turned into others are left out, so that a scaled raster is
// offered and the raw download behind it is not.
func (s *State) Grounding(t *catalogue.Tool) []Binding {
	used := map[string]bool{}
	for _, r := range s.Evidence {
		if len(r.Provenance.Files) == 0 || r.Tool == "get_filelist" {
			continue
		}
		r.Arguments.Leaves("", func(_ string, leaf strictjson.Value) {
			if leaf.Kind() == strictjson.String {
				used[stem(leaf.Text())] = true
			}
		})
		for _, f := range r.Provenance.Files { // not what it names as its own output
			delete(used, stem(f.Path))
		}
	}
	var out []Binding
	for _, r := range s.Evidence {
		for _, f := range r.Provenance.Files {
			if !used[stem(f.Path)] {
				out = append(out, Binding{Argument: fits(t, &f), File: f, From: r.Seq, Tool: r.Tool})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Binding) int {
		if c := strings.Compare(a.Argument, b.Argument); c != 0 {
			return c
		}
		return strings.Compare(a.File.Time, b.File.Time)
	})
	return out
}

// stem is a file name that two spellings of one path share.
func stem(p string) string { return path.Base(strings.TrimSpace(p)) }

// fits is the input argument whose name shares most words with the file's
// variables and name; "" if none shares any, or two share the same.
func fits(t *catalogue.Tool, f *File) string {
	have := words(strings.Join(f.Variables, " ") + " " + strings.Join(f.Bands, " ") + " " + stem(f.Path))
	best, bestShare, tie := "", 0, false
	inputs := 0
	for i := range t.Params {
		p := &t.Params[i]
		if p.IO != "in" {
			continue
		}
		inputs++
		share := 0
		for w := range words(p.Name) {
			if !generic[w] && have[w] {
				share++
			}
		}
		switch {
		case share > bestShare:
			best, bestShare, tie = p.Name, share, false
		case share == bestShare && share > 0:
			tie = true
		}
		if inputs == 1 && bestShare == 0 {
			best = p.Name
		}
	}
	if tie || bestShare == 0 && inputs != 1 {
		return ""
	}
	return best
}

// generic words say nothing of what a file holds.
var generic = map[string]bool{"path": true, "paths": true, "file": true, "files": true, "list": true, "input": true, "image": true, "images": true, "tif": true, "dir": true, "output": true, "band": true, "a": true, "b": true}

// words are the lower-case words of a text, split at case changes too.
func words(s string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		out[w] = true
	}
	return out
}

// View is the grounding view as text for a prompt, "" where no file is at hand.
func View(bindings []Binding) string {
	var b strings.Builder
	for _, g := range bindings {
		arg := g.Argument
		if arg == "" {
			arg = "(any)"
		}
		b.WriteString(arg + " <- " + g.File.Path)
		if len(g.File.Variables) > 0 {
			b.WriteString(" [" + strings.Join(g.File.Variables, ", ") + "]")
		}
		if g.File.Time != "" {
			b.WriteString(" " + g.File.Time)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
