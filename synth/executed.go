package synth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"terraloom/data"
	"terraloom/slots"
)

// Executed gives programs whose every observation the environment computes. The
// program that Files has for exactly this seed was checked when the seed was built
// and is taken as it is. Otherwise one is discovered and tried on sample instances
// in the environment; it takes over how Files derives the answer, which is the
// same in every regime of a seed.
type Executed struct {
	Files       fs.FS // <seed id>.yaml; nil for none
	Environment Environment
}

// For implements Programs.
func (e Executed) For(seed *data.Trajectory) (*slots.Compiled, error) {
	recorded := slots.Recorded{Seed: seed}
	ready, err := e.read(seed)
	if err != nil {
		return nil, err
	}
	if ready != nil && ready.SeedHash == slots.HashSeed(seed) {
		return slots.Compile(ready, seed, recorded)
	}
	p, err := slots.Discover(seed, recorded)
	if err != nil {
		return nil, err
	}
	if ready != nil {
		p.AdoptAnswer(ready)
	}
	session, err := e.Environment.Session(context.Background(), "")
	if err != nil {
		return nil, err
	}
	c, err := slots.Check(p, seed, session)
	if broken := session.Close(); broken != nil {
		return nil, broken
	}
	if err == nil {
		if n, _ := c.Computed(); n < len(seed.Steps) {
			err = fmt.Errorf("%d of %d steps can be computed", n, len(seed.Steps))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s cannot be carried out in this environment; draw its observations with --mode %s: %w", ErrSeed, seed.ID, Propagate, err)
	}
	return slots.Compile(p, seed, recorded)
}

// read is the program that comes with a seed of this id, nil if there is none.
func (e Executed) read(seed *data.Trajectory) (*slots.Program, error) {
	if e.Files == nil {
		return nil, nil
	}
	name := seed.ID + ".yaml"
	src, err := fs.ReadFile(e.Files, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := slots.ParseProgram(src, name)
	if err != nil {
		return nil, err
	}
	switch state, err := p.State(); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case state == "":
		return nil, fmt.Errorf("%s: %w; build the seeds again: make seeds", name, ErrUnreviewed)
	}
	return p, nil
}
