package synth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"terraloom/data"
)

// Mix is a set of foreign training examples to put beside the instances.
type Mix struct {
	Name         string
	Ratio        float64 // mixed-in trajectories per instance
	Trajectories []*data.Trajectory
	Inputs       []data.Input
}

// Mix adds Ratio trajectories per instance to the training split, as evenly
// over their domains as the set allows, chosen by the run's seed. An example of
// a test split is an error, and so is a shard: how many are wanted is known of
// the whole run only.
func (r *Report) Mix(m *Mix, sink Sink, o Options) error {
	if m.Ratio < 0 {
		return fmt.Errorf("mix %s: ratio %v is negative", m.Name, m.Ratio)
	}
	if o.Shard.Count > 1 {
		return fmt.Errorf("mix %s: mix into the merged dataset's run, not into a shard", m.Name)
	}
	byDomain := map[string][]*data.Trajectory{}
	var domains []string
	for _, t := range m.Trajectories {
		if t.Provenance.Get("split").Text() == "test" {
			return fmt.Errorf("mix %s: %s is of the test split; give the training file", m.Name, t.ID)
		}
		if byDomain[t.Domain] == nil {
			domains = append(domains, t.Domain)
		}
		byDomain[t.Domain] = append(byDomain[t.Domain], t)
	}
	slices.Sort(domains)
	for _, d := range domains {
		slices.SortStableFunc(byDomain[d], func(a, b *data.Trajectory) int {
			x, _ := stream(o.Seed, "mix "+a.ID, 0, 0)
			y, _ := stream(o.Seed, "mix "+b.ID, 0, 0)
			return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.ID, b.ID))
		})
	}
	want := int(float64(r.Trajectories)*m.Ratio + 0.5)
	r.MixName, r.Mixed = m.Name, map[string]int{}
	for taken := 0; taken < want; {
		before := taken
		for _, d := range domains { // one of each domain in turn
			if n := r.Mixed[d]; n < len(byDomain[d]) && taken < want {
				if err := r.mixIn(byDomain[d][n], sink, o); err != nil {
					return err
				}
				r.Mixed[d]++
				taken++
			}
		}
		if taken == before {
			return fmt.Errorf("mix %s: %d trajectories wanted, the set has %d; lower the ratio", m.Name, want, taken)
		}
	}
	return nil
}

func (r *Report) mixIn(t *data.Trajectory, sink Sink, o Options) error {
	x, err := newExtractor(t, o)
	if err != nil {
		return errors.Join(fmt.Errorf("mix: %s has a tool that its catalogue lacks", t.ID), err)
	}
	planner, executor, tooLong := x.extract(t)
	if err := sink.Add("train", t, planner, executor); err != nil {
		return err
	}
	r.PlannerRows++
	r.Nodes += len(t.Steps)
	r.ExecutorRows += len(executor)
	r.LongNodes += tooLong
	r.Split["train"]++
	return nil
}
