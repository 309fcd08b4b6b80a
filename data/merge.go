package data

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
)

// Merge joins the shards of one run into the dataset that the run would have
// made in one piece, byte for byte. All shards 0 to n-1 must be there, once
// each, made from the same inputs with the same seed, options and program.
func Merge(dirs []string, out string, o WriterOptions) (*Manifest, error) {
	shards := make([]*Dataset, len(dirs))
	for i, dir := range dirs {
		ds, err := OpenDataset(dir)
		if err != nil {
			return nil, err
		}
		shards[i] = ds
	}
	m, err := mergeManifests(shards)
	if err != nil {
		return nil, err
	}
	w, err := CreateDataset(out, o)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	for _, config := range configs {
		for _, split := range Splits {
			for _, ds := range shards {
				if err := copyTable(w, ds, config, split); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := w.Finish(m); err != nil {
		return nil, err
	}
	return m, nil
}

// mergeManifests sorts the shards, checks that they belong together and sums
// their manifests.
func mergeManifests(shards []*Dataset) (*Manifest, error) {
	if len(shards) == 0 {
		return nil, fmt.Errorf("no shards to merge")
	}
	for _, ds := range shards {
		if ds.Manifest.Shard == nil {
			return nil, fmt.Errorf("%s: is a whole dataset, not a shard of one", ds.Dir)
		}
	}
	slices.SortStableFunc(shards, func(a, b *Dataset) int { return a.Manifest.Shard.Index - b.Manifest.Shard.Index })
	first := shards[0].Manifest
	m := &Manifest{Seed: first.Seed, Options: first.Options, Inputs: first.Inputs, Code: first.Code}
	for i, ds := range shards {
		s := ds.Manifest
		switch {
		case s.Shard.Count != first.Shard.Count:
			return nil, fmt.Errorf("%s: is one of %d shards, %s one of %d", ds.Dir, s.Shard.Count, shards[0].Dir, first.Shard.Count)
		case i > 0 && s.Shard.Index == shards[i-1].Manifest.Shard.Index:
			return nil, fmt.Errorf("%s and %s are both shard %d", shards[i-1].Dir, ds.Dir, s.Shard.Index)
		case s.Shard.Index != i:
			return nil, fmt.Errorf("shard %d of %d is missing", i, first.Shard.Count)
		case s.Seed != first.Seed:
			return nil, fmt.Errorf("%s: seed %d, but %s has %d", ds.Dir, s.Seed, shards[0].Dir, first.Seed)
		case !s.Options.Equal(first.Options):
			return nil, fmt.Errorf("%s: options %s, but %s has %s", ds.Dir, s.Options.JSON(), shards[0].Dir, first.Options.JSON())
		case !slices.Equal(s.Inputs, first.Inputs):
			return nil, fmt.Errorf("%s: made from other inputs than %s: %v and %v", ds.Dir, shards[0].Dir, s.Inputs, first.Inputs)
		case !reflect.DeepEqual(s.Code, first.Code):
			return nil, fmt.Errorf("%s: made by another program than %s: %+v and %+v", ds.Dir, shards[0].Dir, s.Code, first.Code)
		}
		for _, c := range s.Counts {
			m.Counts = addCount(m.Counts, c)
		}
		for _, r := range s.Refusals {
			m.Refusals = addRefusal(m.Refusals, r)
		}
	}
	if len(shards) != first.Shard.Count {
		return nil, fmt.Errorf("shard %d of %d is missing", len(shards), first.Shard.Count)
	}
	return m, nil
}

// addRefusal adds a case to the others of its reason and seed.
func addRefusal(list []Refusal, r Refusal) []Refusal {
	i := slices.IndexFunc(list, func(o Refusal) bool { return o.Reason == r.Reason && o.SeedID == r.SeedID })
	if i < 0 {
		return append(list, r)
	}
	list[i].Count += r.Count
	return list
}

func copyTable(w *Writer, ds *Dataset, config, split string) error {
	for row, err := range ds.rows(config, split) {
		if err == nil {
			err = w.addRow(config, split, row)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", ds.Dir, err)
		}
	}
	return nil
}

// rows iterates over any table.
func (d *Dataset) rows(config, split string) iter.Seq2[tableRow, error] {
	switch config {
	case ConfigTrajectories:
		return anyRows(tableRows[trajectoryRow](d, config, split))
	case ConfigPlanner:
		return anyRows(tableRows[PlannerRow](d, config, split))
	default:
		return anyRows(tableRows[ExecutorRow](d, config, split))
	}
}

func anyRows[R any, P rowPointer[R]](rows iter.Seq2[*R, error]) iter.Seq2[tableRow, error] {
	return func(yield func(tableRow, error) bool) {
		for row, err := range rows {
			if !yield(P(row), err) {
				return
			}
		}
	}
}
