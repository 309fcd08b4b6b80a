package reward

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"terraloom/data/strictjson"
)

// Item is one completion to score.
type Item struct {
	Completion string
	Reference  *Reference
}

// Result is the reward of one Item.
type Result struct {
	// Reward is the weighted sum over the parts that have a value. It is NaN if
	// a part failed or none has a value: the trainer leaves such a result out of
	// the statistics of its group.
	Reward float64
	Score  Score  // Eq. 13 with its parts, whatever the weights
	Parts  []Part // one per function, in the order of the configuration
}

// Valid reports whether there is a reward.
func (r Result) Valid() bool { return !math.IsNaN(r.Reward) }

// Err joins the errors of the parts.
func (r Result) Err() error {
	var errs []error
	for _, p := range r.Parts {
		if p.Err != nil {
			errs = append(errs, fmt.Errorf("reward function %q: %w", p.Name, p.Err))
		}
	}
	return errors.Join(errs...)
}

// Part is what one function returned.
type Part struct {
	Name  string
	Value float64 // without the weight; NaN if the function failed or had nothing to say
	Err   error   // why it failed; a failure is never a reward of 0
}

// TotalName is the name of the weighted sum beside the functions' names.
const TotalName = "total"

// Scorer scores completions. Goroutines may share it.
type Scorer struct {
	rules     Rules
	functions []function
}

// function is a compiled Function. evaluate returns NaN where it has nothing to say.
type function struct {
	name     string
	weight   float64
	waits    bool // evaluate waits for another process
	evaluate func(context.Context, *sample) (float64, error)
}

// sample is an Item as functions see it.
type sample struct {
	Item
	score Score
	value strictjson.Value // what the completion parses to; Absent if it does not
}

// New compiles a configuration. The error is what Validate returns.
func New(c Config) (*Scorer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Scorer{rules: c.Rules}
	for _, f := range c.Functions {
		if f.Timeout == 0 {
			f.Timeout = DefaultTimeout
		}
		g := function{name: f.Name, weight: f.Weight}
		switch f.Kind {
		case KindArgument:
			g.evaluate = func(_ context.Context, s *sample) (float64, error) { return s.score.Reward, nil }
		case KindFormat:
			g.evaluate = format
		case KindLength:
			g.evaluate = func(_ context.Context, s *sample) (float64, error) { return f.overlong(s.Completion), nil }
		case KindExpr:
			p, err := compile(f.Program)
			if err != nil {
				return nil, err
			}
			g.evaluate = func(ctx context.Context, s *sample) (float64, error) { return p.run(ctx, s, f.Timeout) }
		case KindHTTP:
			e := newEndpoint(f.URL, f.Timeout)
			g.waits, g.evaluate = true, e.call
		}
		s.functions = append(s.functions, g)
	}
	return s, nil
}

func format(_ context.Context, s *sample) (float64, error) {
	if s.score.Status == Object {
		return 1, nil
	}
	return 0, nil
}

// overlong is R_length of DAPO (arXiv 2503.14476, Eq. 13) with L_max = Max and
// L_cache = Max - Free, counted in characters.
func (f Function) overlong(completion string) float64 {
	n := utf8.RuneCountInString(completion)
	switch {
	case n <= f.Free:
		return 0
	case n >= f.Max:
		return -1
	}
	return float64(f.Free-n) / float64(f.Max-f.Free)
}

// inFlight is how many calls to services run at a time.
const inFlight = 16

// Score scores the items, in parallel, and returns their results in order. The
// results do not depend on the number of processors. A cancelled context leaves
// errors in the parts that were not reached, a missing reference an
// ErrReference in all.
func (s *Scorer) Score(ctx context.Context, items []Item) []Result {
	results := make([]Result, len(items))
	samples := make([]sample, len(items))
	var waiting []int // functions that wait
	for k, f := range s.functions {
		if f.waits {
			waiting = append(waiting, k)
		}
	}
	each(len(items), runtime.GOMAXPROCS(0), func(i int) {
		p := &samples[i]
		p.Item = items[i]
		results[i].Parts = make([]Part, len(s.functions))
		if p.Reference == nil {
			p.score.Reward = math.NaN()
		} else {
			p.score, p.value = s.rules.score(p.Reference, p.Completion)
		}
		results[i].Score = p.score
		for k, f := range s.functions {
			if !f.waits {
				results[i].Parts[k] = f.part(ctx, p)
			}
		}
	})
	each(len(items)*len(waiting), inFlight, func(n int) {
		i, k := n/len(waiting), waiting[n%len(waiting)]
		results[i].Parts[k] = s.functions[k].part(ctx, &samples[i])
	})
	for i := range results {
		results[i].Reward = s.sum(results[i].Parts)
	}
	return results
}

// part calls the function; its panic is an error.
func (f function) part(ctx context.Context, s *sample) (p Part) {
	p = Part{Name: f.name, Value: math.NaN()}
	defer func() {
		if r := recover(); r != nil {
			p.Value, p.Err = math.NaN(), fmt.Errorf("panicked: %v", r)
		}
	}()
	if p.Err = ctx.Err(); p.Err != nil {
		return p
	}
	if s.Reference == nil {
		p.Err = fmt.Errorf("%w: the item has none", ErrReference)
		return p
	}
	v, err := f.evaluate(ctx, s)
	if err != nil {
		p.Err = err
		return p
	}
	p.Value = v
	return p
}

func (s *Scorer) sum(parts []Part) float64 {
	sum, found := 0.0, false
	for k, p := range parts {
		if p.Err != nil {
			return math.NaN()
		}
		if !math.IsNaN(p.Value) {
			sum += s.functions[k].weight * p.Value
			found = true
		}
	}
	if !found {
		return math.NaN()
	}
	return sum
}

// each calls f(0) … f(n-1) on the given number of goroutines.
func each(n, workers int, f func(int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, workers) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// limit derives a context that ends after d, with a cause that says so.
func limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("stopped after its time limit of %v", d))
}
