package synth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"terraloom/data"
	"terraloom/slots"
)

// Discovered finds the program of each seed by analysis and checks it.
type Discovered struct{ Tools slots.Tools }

// For implements Programs.
func (d Discovered) For(seed *data.Trajectory) (*slots.Compiled, error) {
	p, err := slots.Discover(seed, d.Tools)
	if err != nil {
		return nil, err
	}
	return slots.Check(p, seed, d.Tools)
}

// Folder reads reviewed programs, one <seed id>.yaml each.
type Folder struct {
	Path         string
	Tools        slots.Tools // nil where an environment computes every observation
	ApprovedOnly bool        // take only programs that a person approved
}

// ErrUnreviewed is returned for a program whose review does not let it be used.
var ErrUnreviewed = errors.New("program is not reviewed")

// For implements Programs.
func (f Folder) For(seed *data.Trajectory) (*slots.Compiled, error) {
	name := filepath.Join(f.Path, seed.ID+".yaml")
	p, err := slots.ReadProgram(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w %s: the seed has none; make one with: terraloom slots discover", slots.ErrProgram, name)
	}
	if err != nil {
		return nil, err
	}
	state, err := p.State()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case state == "":
		return nil, fmt.Errorf("%s: %w; check it with: terraloom slots lint", name, ErrUnreviewed)
	case f.ApprovedOnly && state != slots.Approved:
		return nil, fmt.Errorf("%s: %w by a person (it is %s); approve it with: terraloom slots approve", name, ErrUnreviewed, state)
	}
	tools := f.Tools
	if tools == nil {
		tools = slots.Recorded{Seed: seed}
	}
	return slots.Compile(p, seed, tools)
}
