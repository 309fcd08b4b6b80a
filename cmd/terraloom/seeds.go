package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/pflag"

	"terraloom/data"
)

// inputError is a fault in an input file.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// seedFlags are the flags of every verb that reads seeds.
type seedFlags struct {
	path, format, regime string
}

func (s *seedFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.path, "seeds", "", "seed trajectories: a file or a folder of .json and .jsonl files (default: the bundled ones)")
	f.StringVar(&s.format, "format", "", "earth-bench, openearthagent or own (default: by content)")
	f.StringVar(&s.regime, "regime", "", "question of bundled seeds: ow (the default), ap or if; of Earth-Bench entries: ap (the default), if or user")
}

func (s *seedFlags) load() (*data.ImportResult, error) {
	if s.path == "" {
		res, err := data.Seeds(s.regime)
		if err != nil {
			return nil, usageError{err}
		}
		return res, nil
	}
	res, err := data.Import(s.path, s.format, data.ImportOptions{Regime: cmp.Or(s.regime, "ap")})
	if err != nil {
		return nil, inputError{err}
	}
	return res, nil
}

// pick narrows a result to the seeds of the given ids, all without any.
func pick(res *data.ImportResult, ids []string) ([]*data.Trajectory, error) {
	if len(ids) == 0 {
		return res.Trajectories, nil
	}
	byID := map[string]*data.Trajectory{}
	for _, t := range res.Trajectories {
		byID[t.ID] = t
	}
	var out []*data.Trajectory
	for _, id := range ids {
		t, ok := byID[id]
		if !ok {
			return nil, usageError{fmt.Errorf("no seed %q in the file", id)}
		}
		out = append(out, t)
	}
	return out, nil
}
