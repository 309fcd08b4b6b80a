package environment

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"terraloom/agent/tools/perception"
	"terraloom/agent/tools/scenes"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
	"terraloom/data/strictyaml"
)

// Collections are kinds of folders of drawn scenes, by name. The folder
// benchmark/data/NAME/questionN of a workspace holds the scenes of collection
// NAME drawn with the number N; it is filled when a call first names it.
type Collections map[string]*Collection

// Collection says what the pictures of a folder show.
type Collection struct {
	Size   int     `yaml:"size"` // pixels a side
	GSD    float64 `yaml:"gsd"`  // metres per pixel, of images that do not say otherwise
	Images []Image `yaml:"images"`
}

// Image is one picture, or a pair before and after an event.
type Image struct {
	Name    string         `yaml:"name"`            // of the file, or of the picture before
	After   string         `yaml:"after,omitempty"` // of the picture after
	GSD     float64        `yaml:"gsd,omitempty"`   // metres per pixel
	Classes []string       `yaml:"classes"`         // the scene is of one of these
	Objects map[string]any `yaml:"objects"`         // number by class: 5, or "4-7" for one of these
	// Destroyed is the number of buildings that the picture after lacks: 5, or "4-7".
	Destroyed any `yaml:"destroyed,omitempty"`
}

// ParseCollections reads the YAML file of collections, a mapping of names.
func ParseCollections(src []byte, name string) (Collections, error) {
	var file struct {
		Collections Collections `yaml:"collections"`
	}
	if err := strictyaml.Unmarshal(src, name, &file); err != nil {
		return nil, err
	}
	for key, c := range file.Collections {
		if !collectionName.MatchString(key) {
			return nil, fmt.Errorf("%s: collection %q: use small letters, digits and underscores", name, key)
		}
		if _, err := c.draw(key, 0); err != nil {
			return nil, fmt.Errorf("%s: collection %s: %w", name, key, err)
		}
	}
	return file.Collections, nil
}

var (
	collectionName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	sceneFolder    = regexp.MustCompile(`^` + regexp.QuoteMeta(workspace.DataDir) + `/([a-z][a-z0-9_]*)/question(\d{1,9})(?:/|$)`)
)

// picture is a drawn file.
type picture struct {
	name  string
	scene *scenes.Scene
}

// draw draws the pictures of a collection with a number.
func (c *Collection) draw(name string, number uint64) ([]picture, error) {
	var out []picture
	for i, img := range c.Images {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s/%d/%s", name, i, img.Name)
		seed := binary.BigEndian.Uint64(h.Sum(nil)) ^ number*0x9e3779b97f4a7c15
		rng := rand.New(rand.NewPCG(seed, number))
		if len(img.Classes) == 0 {
			return nil, fmt.Errorf("image %s: classes is empty", img.Name)
		}
		spec := scenes.Spec{Class: img.Classes[rng.IntN(len(img.Classes))], Width: c.Size, Height: c.Size, GSD: cmp.Or(img.GSD, c.GSD)}
		for _, class := range sortedKeys(img.Objects) {
			n, err := pick(img.Objects[class], rng)
			if err != nil {
				return nil, fmt.Errorf("image %s: objects: %s: %w", img.Name, class, err)
			}
			spec.Groups = append(spec.Groups, scenes.Group{Class: class, Count: n})
		}
		if img.After == "" {
			s, err := scenes.Generate(seed, spec)
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", img.Name, err)
			}
			out = append(out, picture{img.Name, s})
			continue
		}
		n, err := pick(img.Destroyed, rng)
		if err != nil {
			return nil, fmt.Errorf("image %s: destroyed: %w", img.Name, err)
		}
		pre, post, err := scenes.GeneratePair(seed, spec, n)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", img.Name, err)
		}
		out = append(out, picture{img.Name, pre}, picture{img.After, post})
	}
	return out, nil
}

// pick reads a number or draws from a range "4-7".
func pick(v any, rng *rand.Rand) (int, error) {
	switch x := v.(type) {
	case nil:
		return 0, nil
	case int:
		return x, nil
	case string:
		from, to, ok := strings.Cut(x, "-")
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if ok && errA == nil && errB == nil && a >= 0 && a <= b && b <= 1000 {
			return a + rng.IntN(b-a+1), nil
		}
	}
	return 0, fmt.Errorf("%v is no number such as 5 and no range such as \"4-7\"", v)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// eye is the perceiver of a session: it knows the scenes drawn so far.
type eye struct {
	drawn   map[string]bool // folders
	truths  []scenes.Truth
	library *scenes.Library
}

// Backend implements perception.Perceiver.
func (e *eye) Backend() string { return "scenes" }

// Perceive implements perception.Perceiver.
func (e *eye) Perceive(ctx context.Context, r perception.Request) (perception.Reply, error) {
	if e.library == nil {
		return perception.Reply{}, fmt.Errorf("%s is no scene of this environment: %w", r.Images[0].Path, perception.ErrUnknownImage)
	}
	return e.library.Perceive(ctx, r)
}

// prepare draws the scenes of folders that arguments name.
func (s *Session) prepare(arguments strictjson.Value) error {
	var err error
	arguments.Leaves("", func(_ string, v strictjson.Value) {
		if m := sceneFolder.FindStringSubmatch(v.Text()); err == nil && m != nil && s.scenes[m[1]] != nil {
			err = s.fill(m[1], m[2])
		}
	})
	return err
}

func (s *Session) fill(name, number string) error {
	folder := path.Join(workspace.DataDir, name, "question"+number)
	if s.eye.drawn[folder] {
		return nil
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return err
	}
	pictures, err := s.scenes[name].draw(name, n)
	if err != nil {
		return fmt.Errorf("scenes %s: %w", folder, err)
	}
	for _, p := range pictures {
		if _, err := s.workspace.WriteFile(path.Join(folder, p.name), p.scene.PNG); err != nil {
			return err
		}
		s.eye.truths = append(s.eye.truths, p.scene.Truth)
	}
	if s.eye.library, err = scenes.NewLibrary(WorldSeed, scenes.DefaultErrors, s.eye.truths...); err != nil {
		return err
	}
	if s.eye.drawn == nil {
		s.eye.drawn = map[string]bool{}
	}
	s.eye.drawn[folder] = true
	return nil
}
