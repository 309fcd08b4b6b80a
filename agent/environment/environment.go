// Package environment is the world in which trajectories are carried out: the
// synthetic archive, drawn scenes, and for every trajectory a workspace of its
// own. It is deterministic: the same calls in the same order give the same
// observations, in whatever workspace.
package environment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"terraloom/agent/archive"
	"terraloom/agent/archive/synthetic"
	"terraloom/agent/tools"
	"terraloom/agent/tools/acquire"
	"terraloom/agent/tools/workspace"
	"terraloom/data"
)

// WorldSeed is the seed of the world that the bundled seeds were executed in.
const WorldSeed = 1

// Environment opens sessions. It is safe for concurrent use.
type Environment struct {
	archive tools.Archive
	scenes  Collections
	work    string // folder of the workspaces
	records string // folder of the sessions' records; "" keeps none
}

// Options say where an environment keeps its files.
type Options struct {
	// Cache is a folder for downloads, by content, and for the records of
	// sessions, by which an interrupted run goes on. Empty: neither is kept.
	Cache string
	// Version tells one build of the tools from another; records of another
	// version are not used.
	Version string
}

// Open opens the environment of the world WorldSeed with scene collections; see
// ParseCollections. Close removes what sessions have left.
func Open(scenes Collections, o Options) (*Environment, error) {
	e := &Environment{scenes: scenes}
	var cache *archive.Cache
	if o.Cache != "" {
		var err error
		if cache, err = archive.OpenCache(o.Cache); err != nil {
			return nil, err
		}
		if e.records, err = openRecords(o.Cache, o.Version); err != nil {
			return nil, err
		}
	}
	e.archive = acquire.From(synthetic.New(WorldSeed, cache))
	var err error
	if e.work, err = os.MkdirTemp(scratch(), "terraloom-"); err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	return e, nil
}

// scratch is where workspaces are made: in memory where the system offers that and
// nothing else is asked for by TMPDIR, as a session makes many small files.
func scratch() string {
	const memory = "/dev/shm"
	if _, set := os.LookupEnv("TMPDIR"); !set {
		if st, err := os.Stat(memory); err == nil && st.IsDir() {
			if f, err := os.CreateTemp(memory, "terraloom-"); err == nil {
				_ = f.Close()
				if os.Remove(f.Name()) == nil {
					return memory
				}
			}
		}
	}
	return os.TempDir()
}

// OpenBundled opens the environment of the bundled seeds.
func OpenBundled(o Options) (*Environment, error) {
	const name = "scenes.yaml"
	src, err := fs.ReadFile(data.SeedFiles(), name)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	scenes, err := ParseCollections(src, name)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	return Open(scenes, o)
}

// Close removes the workspaces.
func (e *Environment) Close() error { return os.RemoveAll(e.work) }

// Session opens a session with an empty workspace. name identifies what is
// carried out in it: a session that was recorded under the same name takes its
// observations from the record and calls no tool again; "" records nothing.
func (e *Environment) Session(ctx context.Context, name string) (*Session, error) {
	dir, err := os.MkdirTemp(e.work, "w")
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	w, err := workspace.Open(dir, workspace.Limits{})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &Session{ctx: ctx, dir: dir, workspace: w, scenes: e.scenes, known: map[string]*call{}}
	s.kit, err = tools.New(tools.Correct, tools.WithWorkspace(w), tools.WithArchive(e.archive), tools.WithPerceiver(&s.eye))
	if err == nil && e.records != "" && name != "" {
		s.record = recordPath(e.records, name)
		err = s.recall()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// notThere reports whether a file is missing.
func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }
