// Package synth turns seeds and their slot programs into a dataset: instances
// composed and verified, filtered, deduplicated, split by seed, and extracted
// into Planner and Executor records (Earth-Agent-Pro §V-B, Eq. 11 and 12).
package synth

import (
	"errors"
	"fmt"

	"terraloom/data/prompt"
	"terraloom/data/strictjson"
)

// Options of a run. Everything that changes the rows is here and stands in the
// manifest; workers and shards change nothing.
type Options struct {
	PerSeed       int          // instances per seed
	Seed          uint64       // of all randomness
	Style         prompt.Style // of the prompts
	MaxTarget     int          // bytes; an Executor target that is longer gives no row
	MaxTrajectory int          // bytes of JSON; longer instances are refused; 0 = no limit
	NearDuplicate float64      // Jaccard similarity from which two instances count as one
	Tries         int          // draws for one instance before its seed is reported short
	Shard         Shard        // the part of the seeds to make
	Workers       int          // goroutines; the rows do not depend on it
	Mode          string       // propagate or execute, for the manifest
}

// Modes of a run.
const (
	Propagate = "propagate" // observations of raster tools are drawn
	Execute   = "execute"   // every observation is computed in the EO environment
)

// Shard is part Index of Count, counted from 0.
type Shard struct{ Index, Count int }

// Default are the options of a run without flags.
func Default() Options {
	return Options{
		PerSeed: 10, Seed: 7, Style: prompt.Full, MaxTarget: 32 << 10, NearDuplicate: 0.95, Tries: 20,
		Shard: Shard{0, 1}, Workers: 2, Mode: Propagate,
	}
}

// Validate reports every bad option at once.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.PerSeed < 1 {
		bad("per-seed is %d; at least 1", o.PerSeed)
	}
	if _, err := prompt.ParseStyle(string(o.Style)); err != nil {
		errs = append(errs, err)
	}
	if o.MaxTarget < 64 {
		bad("max-target is %d bytes; at least 64", o.MaxTarget)
	}
	if o.MaxTrajectory < 0 {
		bad("max-trajectory is negative")
	}
	if !(o.NearDuplicate > 0 && o.NearDuplicate <= 1) {
		bad("near-duplicate is %v; above 0, at most 1", o.NearDuplicate)
	}
	if o.Tries < 1 {
		bad("tries is %d; at least 1", o.Tries)
	}
	if o.Shard.Count < 1 || o.Shard.Index < 0 || o.Shard.Index >= o.Shard.Count {
		bad("shard %d/%d: the index counts from 0 to %d", o.Shard.Index, o.Shard.Count, o.Shard.Count-1)
	}
	if o.Workers < 1 {
		bad("workers is %d; at least 1", o.Workers)
	}
	if o.Mode != Propagate && o.Mode != Execute {
		bad("mode %q is neither %q nor %q", o.Mode, Propagate, Execute)
	}
	return errors.Join(errs...)
}

// value is the manifest's record of what changes the rows.
func (o Options) value() strictjson.Value {
	return strictjson.Obj(
		strictjson.Member{Key: "per_seed", Value: strictjson.Int(o.PerSeed)},
		strictjson.Member{Key: "style", Value: strictjson.Text(string(o.Style))},
		strictjson.Member{Key: "max_target", Value: strictjson.Int(o.MaxTarget)},
		strictjson.Member{Key: "max_trajectory", Value: strictjson.Int(o.MaxTrajectory)},
		strictjson.Member{Key: "near_duplicate", Value: strictjson.Float(o.NearDuplicate)},
		strictjson.Member{Key: "tries", Value: strictjson.Int(o.Tries)},
		strictjson.Member{Key: "mode", Value: strictjson.Text(o.Mode)})
}
