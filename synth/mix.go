package synth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"terraloom/data"
	"terraloom/slots"
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
	if !(m.Ratio >= 0 && m.Ratio <= 1000) {
		return fmt.Errorf("mix %s: ratio %v is not between 0 and 1000", m.Name, m.Ratio)
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
			for used := false; !used && len(byDomain[d]) > 0 && taken < want; {
				t := byDomain[d][0]
				byDomain[d] = byDomain[d][1:]
				var err error
				if used, err = r.mixIn(t, sink, o); err != nil {
					return err
				}
				if used {
					r.Mixed[d]++
					taken++
				}
			}
		}
		if taken == before {
			return fmt.Errorf("mix %s: %d trajectories wanted, the set has %d; lower the ratio", m.Name, want, taken)
		}
	}
	return nil
}

// mixIn adds one example to the training split. An example that no records can
// be made of is refused and counted.
func (r *Report) mixIn(t *data.Trajectory, sink Sink, o Options) (used bool, err error) {
	refuse := func(reason string, err error) (bool, error) {
		r.Refusals = append(r.Refusals, data.Refusal{Reason: reason, SeedID: t.ID, Count: 1, Detail: err.Error()})
		return false, nil
	}
	x, err := newExtractor(t, o)
	if errors.Is(err, errUnscorable) {
		return refuse(refusedScore, err)
	}
	if err != nil {
		return refuse(refusedTool, err)
	}
	planner, executor, tooLong, err := x.extract(t)
	if err != nil {
		return refuse(refusedScore, err)
	}
	if err := sink.Add("train", withUses(t), planner, executor); err != nil {
		return false, err
	}
	r.PlannerRows++
	r.Nodes += len(t.Steps)
	r.ExecutorRows += len(executor)
	r.LongNodes += tooLong
	r.Split["train"]++
	return true, nil
}

// withUses is t with the dependency edges that analysis finds, as instances carry them.
func withUses(t *data.Trajectory) *data.Trajectory {
	c := *t
	c.Steps = slices.Clone(t.Steps)
	for i, uses := range slots.Analyze(t).Uses {
		c.Steps[i].Uses = uses
	}
	return &c
}
