package synth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"terraloom/data"
)

// ErrShort is returned, beside a complete report, where some seed could not fill
// its quota. What was made is in the dataset; nothing is padded by copies.
var ErrShort = errors.New("some seeds are short of instances")

// Sink takes the finished rows in order; *data.Writer is one.
type Sink interface {
	Add(split string, t *data.Trajectory, planner data.PlannerRow, executor []data.ExecutorRow) error
}

// Report counts what a run did.
type Report struct {
	Seeds, Components       int
	Drawn, Trajectories     int // draws made, instances taken
	PlannerRows, Nodes      int
	ExecutorRows, LongNodes int // LongNodes: nodes without row, their target being over the limit
	AnswersDropped          int
	Computed, Corrected     int            // steps of seeds whose observations are computed; those of them that the seed records wrongly
	Split                   map[string]int // trajectories by split
	Domain                  map[string]int
	Refusals                []data.Refusal // in row order
	Short                   []Short
	MixName                 string
	Mixed                   map[string]int // mixed-in trajectories by domain
}

// Short is a seed that could not fill its quota.
type Short struct {
	SeedID       string
	Made, Wanted int
	Reasons      string
}

// chunk is how many instances of one seed a worker makes at a time.
const chunk = 8

// job is a run of instances of one seed.
type job struct {
	plan    *plan
	from    int
	to      int
	made    []*candidate // by index; nil where the tries were used up
	refused [][]refusal
	err     error
	done    chan struct{}
}

// Run makes o.PerSeed instances of every seed of its shard and hands them to
// sink in order. The rows depend on seeds, programs, tools and options alone,
// not on workers and shards. progress, if not nil, is called after every seed.
// Cancelling ctx stops the run with ctx's error.
func Run(ctx context.Context, seeds []*data.Trajectory, programs Programs, env Environment, sink Sink, o Options, progress func(done, total int)) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	comps := shardOf(components(seeds, o.Seed), o.Shard)
	rep := &Report{Components: len(comps), Split: map[string]int{}, Domain: map[string]int{}}
	for i := range comps {
		rep.Seeds += len(comps[i].seeds)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan *job, 4*o.Workers) // bounds what is made but not yet taken
	work := make(chan *job)
	go func() {
		defer close(queue)
		defer close(work)
		for i := range comps {
			for _, s := range comps[i].seeds {
				p := &plan{seed: s, split: comps[i].split}
				for from := 0; from < o.PerSeed; from += chunk {
					j := &job{plan: p, from: from, to: min(from+chunk, o.PerSeed), done: make(chan struct{})}
					select {
					case queue <- j:
					case <-ctx.Done():
						return
					}
					select {
					case work <- j:
					case <-ctx.Done():
						close(j.done)
						return
					}
				}
			}
		}
	}()
	for range o.Workers {
		go func() {
			for j := range work {
				j.run(ctx, programs, env, o)
				close(j.done)
			}
		}()
	}
	a := &taker{rep: rep, sink: sink, env: env, o: o}
	seen := 0
	for i := range comps {
		near, exact := newNeighbours(o.NearDuplicate), map[uint64]bool{}
		for range comps[i].seeds {
			if err := a.seed(ctx, queue, near, exact); err != nil {
				return rep, err
			}
			if seen++; progress != nil {
				progress(seen, rep.Seeds)
			}
		}
	}
	if len(rep.Short) > 0 {
		var b strings.Builder
		for _, s := range rep.Short {
			fmt.Fprintf(&b, "\n  %s: %d of %d (%s)", s.SeedID, s.Made, s.Wanted, s.Reasons)
		}
		return rep, fmt.Errorf("%w:%s", ErrShort, b.String())
	}
	return rep, nil
}

func (j *job) run(ctx context.Context, programs Programs, env Environment, o Options) {
	if j.err = j.plan.prepare(programs, o); j.err != nil {
		return
	}
	for index := j.from; index < j.to; index++ {
		c, refused, err := j.plan.draw(ctx, index, 0, env, o)
		if err != nil {
			j.err = err
			return
		}
		j.made, j.refused = append(j.made, c), append(j.refused, refused)
	}
}

// taker applies the filters that look at other instances, in row order.
type taker struct {
	rep  *Report
	sink Sink
	env  Environment
	o    Options
}

// seed takes the next seed's instances from the queue.
func (a *taker) seed(ctx context.Context, queue <-chan *job, near *neighbours, exact map[uint64]bool) error {
	reasons := map[string]*data.Refusal{}
	var order []string
	refuse := func(p *plan, r refusal) {
		if reasons[r.reason] == nil {
			reasons[r.reason] = &data.Refusal{Reason: r.reason, SeedID: p.seed.ID, Detail: r.detail}
			order = append(order, r.reason)
		}
		reasons[r.reason].Count++
	}
	tuples := map[string]bool{}
	made := 0
	var p *plan
	for taken := 0; taken < a.o.PerSeed; {
		j, ok := <-queue
		if !ok {
			return context.Cause(ctx)
		}
		select {
		case <-j.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j.err != nil {
			return j.err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p == nil {
			p = j.plan
			tuples[p.tuple] = true
			computed, wrong := p.compiled.Computed()
			a.rep.Computed, a.rep.Corrected = a.rep.Computed+computed, a.rep.Corrected+len(wrong)
		}
		taken += j.to - j.from
		for k, c := range j.made {
			for _, r := range j.refused[k] {
				refuse(p, r)
			}
			index := j.from + k
			for c != nil {
				reason := ""
				switch {
				case tuples[c.tuple]:
					reason = refusedTuple
				case exact[c.content]:
					reason = refusedExact
				case near.near(&c.sketch) >= 0:
					reason = refusedNear
				}
				if reason == "" {
					break
				}
				refuse(p, refusal{reason, fmt.Sprintf("%s-%d, draw %d", p.seed.ID, index, c.attempt)})
				var refused []refusal
				var err error
				if c, refused, err = p.draw(ctx, index, c.attempt+1, a.env, a.o); err != nil {
					return err
				}
				for _, r := range refused {
					refuse(p, r)
				}
			}
			if c == nil {
				continue
			}
			tuples[c.tuple], exact[c.content] = true, true
			near.add(&c.sketch)
			if err := a.take(p, c); err != nil {
				return err
			}
			if c.tooLong > 0 {
				for range c.tooLong {
					refuse(p, refusal{refusedTarget, fmt.Sprintf("%s, limit %d bytes", c.t.ID, a.o.MaxTarget)})
				}
			}
			made++
		}
	}
	var why []string
	for _, reason := range order {
		r := reasons[reason]
		a.rep.Refusals = append(a.rep.Refusals, *r)
		if reason != refusedTarget {
			a.rep.Drawn += r.Count
		}
		why = append(why, fmt.Sprintf("%s %d, first: %s", reason, r.Count, r.Detail))
	}
	a.rep.Drawn += made
	if made < a.o.PerSeed {
		a.rep.Short = append(a.rep.Short, Short{p.seed.ID, made, a.o.PerSeed, strings.Join(why, "; ")})
	}
	return nil
}

// take hands one instance to the sink and counts it.
func (a *taker) take(p *plan, c *candidate) error {
	if err := a.sink.Add(p.split, c.t, c.planner, c.executor); err != nil {
		return err
	}
	r := a.rep
	r.Trajectories++
	r.PlannerRows++
	r.Nodes += len(c.t.Steps)
	r.ExecutorRows += len(c.executor)
	r.LongNodes += c.tooLong
	if c.t.Answer.IsAbsent() {
		r.AnswersDropped++
	}
	r.Split[p.split]++
	r.Domain[c.t.Domain]++
	return nil
}

// Manifest describes the run for the dataset folder.
func (r *Report) Manifest(o Options, inputs []data.Input) *data.Manifest {
	m := &data.Manifest{Seed: o.Seed, Options: o.value(), Inputs: inputs, Refusals: r.Refusals}
	m.Counts = []data.Count{
		{Name: "seeds", Count: r.Seeds}, {Name: "seed groups", Count: r.Components}, {Name: "instances drawn", Count: r.Drawn},
		{Name: "instances taken", Count: r.Trajectories}, {Name: "planner rows", Count: r.PlannerRows}, {Name: "nodes", Count: r.Nodes},
		{Name: "executor rows", Count: r.ExecutorRows}, {Name: refusedTarget, Count: r.LongNodes}, {Name: "instances without answer", Count: r.AnswersDropped},
		{Name: "computed observations in seeds", Count: r.Computed}, {Name: "recorded wrongly and corrected", Count: r.Corrected},
	}
	for _, s := range data.Splits {
		m.Counts = append(m.Counts, data.Count{Name: "split " + s, Count: r.Split[s]})
	}
	for _, d := range slices.Sorted(maps.Keys(r.Mixed)) {
		m.Counts = append(m.Counts, data.Count{Name: "mixed in from " + r.MixName + " " + d, Count: r.Mixed[d]})
	}
	if o.Shard.Count > 1 {
		m.Shard = &data.Shard{Index: o.Shard.Index, Count: o.Shard.Count}
	}
	return m
}
