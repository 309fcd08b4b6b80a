package seeds

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"terraloom/agent/environment"
	"terraloom/data"
	"terraloom/slots"
)

// Built is a seed with its program.
type Built struct {
	Core       int
	Trajectory *data.Trajectory
	Program    *slots.Program
}

// Environment opens the environment that a specification describes.
func (s *Spec) Environment(o environment.Options) (*environment.Environment, error) {
	scenes, err := environment.ParseCollections(s.Scenes, scenesFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	return environment.Open(scenes, o)
}

// Options of a build.
type Options struct {
	Cores   []int // those to build; all without any
	Workers int
	// Check composes, executes and verifies sample instances of each program and
	// records the machine's review in it. Without it the program is not reviewed.
	Check bool
}

// BuildAll carries out all seeds and finds their programs, in the order of the
// cores. It reports every seed that fails. progress, if not nil, is called after
// every seed.
func BuildAll(ctx context.Context, spec *Spec, env *environment.Environment, o Options, progress func(done, total int)) ([]Built, error) {
	type job struct {
		family *Family
		seed   Seed
	}
	var jobs []job
	for _, f := range spec.Families {
		for _, s := range f.Seeds {
			if len(o.Cores) == 0 || slices.Contains(o.Cores, s.Core()) {
				jobs = append(jobs, job{f, s})
			}
		}
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Compare(a.seed.Core(), b.seed.Core()) })
	built, errs := make([]Built, len(jobs)), make([]error, len(jobs))
	var mu sync.Mutex
	next, done := 0, 0
	var wg sync.WaitGroup
	for range max(o.Workers, 1) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(jobs) || ctx.Err() != nil {
					return
				}
				built[i], errs[i] = buildOne(ctx, env, jobs[i].family, jobs[i].seed, o.Check)
				mu.Lock()
				if done++; progress != nil {
					progress(done, len(jobs))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return built, errors.Join(errs...)
}

func buildOne(ctx context.Context, env *environment.Environment, f *Family, s Seed, check bool) (b Built, err error) {
	t, err := Build(ctx, env, f, s)
	if err != nil {
		return b, err
	}
	b = Built{Core: s.Core(), Trajectory: t}
	fail := func(err error) (Built, error) {
		return b, fmt.Errorf("%w: %s: family %s, core %d: %w", ErrSpec, f.file, f.Name, s.Core(), err)
	}
	if b.Program, err = slots.Discover(t, slots.Recorded{Seed: t}); err != nil {
		return fail(err)
	}
	sc, err := newScope(f, s)
	if err != nil {
		return fail(err)
	}
	if err := f.Answer.set(b.Program, f, sc); err != nil {
		return fail(err)
	}
	if !check {
		return b, nil
	}
	session, err := env.Session(ctx, "")
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if _, err := slots.Check(b.Program, t, session); err != nil {
		return fail(err)
	}
	return b, nil
}

// Files are the bundled files that a whole build makes, by name below data/seeds.
func Files(built []Built) map[string][]byte {
	files := map[string][]byte{}
	for _, b := range built {
		name := b.Trajectory.Domain + ".jsonl"
		files[name] = append(b.Trajectory.Value().AppendJSON(files[name]), '\n')
		files["programs/"+b.Trajectory.ID+".yaml"] = b.Program.YAML()
	}
	return files
}

// Differences names the files that differ between a build and a folder, missing
// and left-over ones too.
func Differences(files map[string][]byte, dir fs.FS) ([]string, error) {
	var names []string
	for _, pattern := range []string{"*.jsonl", "programs/*.yaml"} {
		have, err := fs.Glob(dir, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range have {
			if files[name] == nil {
				names = append(names, name)
			}
		}
	}
	for name, text := range files {
		have, err := fs.ReadFile(dir, name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(have, text) {
			names = append(names, name)
		} else if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}
