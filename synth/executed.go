package synth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"terraloom/data"
	"terraloom/slots"
)

// Executed gives programs whose every observation the environment computes. A
// program that Files has for exactly this seed, as the bundled ones, was checked
// when the seed was built and is taken as it is; otherwise one is discovered and
// tried on sample instances in the environment.
type Executed struct {
	Files       fs.FS // <seed id>.yaml; nil for none
	Environment Environment
}

// For implements Programs.
func (e Executed) For(seed *data.Trajectory) (*slots.Compiled, error) {
	recorded := slots.Recorded{Seed: seed}
	if p, err := e.ready(seed); err != nil || p != nil {
		if err != nil {
			return nil, err
		}
		return slots.Compile(p, seed, recorded)
	}
	p, err := slots.Discover(seed, recorded)
	if err != nil {
		return nil, err
	}
	session, err := e.Environment.Session(context.Background(), "")
	if err != nil {
		return nil, err
	}
	_, err = slots.Check(p, seed, session)
	if broken := session.Close(); broken != nil {
		return nil, broken
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s cannot be carried out in this environment; draw its observations with --mode %s: %w", ErrSeed, seed.ID, Propagate, err)
	}
	return slots.Compile(p, seed, recorded)
}

// ready is the program that comes with the seed, nil if there is none for this
// very seed.
func (e Executed) ready(seed *data.Trajectory) (*slots.Program, error) {
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
	if p.SeedHash != slots.HashSeed(seed) { // another regime, or another seed of the name
		return nil, nil
	}
	switch state, err := p.State(); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case state == "":
		return nil, fmt.Errorf("%s: %w; build the seeds again: make seeds", name, ErrUnreviewed)
	}
	return p, nil
}
