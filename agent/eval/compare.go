package eval

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Metric is a per-question figure of a score file.
type Metric struct {
	Name string
	// Of returns the figure; ok is false where the record has none.
	Of func(r *Record) (value float64, ok bool)
}

// Metrics are the figures that are compared and reported, in order.
var Metrics = []Metric{
	{"accuracy", func(r *Record) (float64, bool) { return indicator(r.Correct), true }},
	{"benchmark_accuracy", func(r *Record) (float64, bool) { return indicator(r.BenchmarkCorrect), true }},
	{"judge", func(r *Record) (float64, bool) {
		if r.Verdict == nil || r.Verdict.Failure != "" {
			return 0, false
		}
		return indicator(r.Verdict.Correct), true
	}},
	{"rouge_l", func(r *Record) (float64, bool) { return r.RougeL, true }},
	{"similarity", func(r *Record) (float64, bool) { return optional(r.Similarity) }},
	{"match", func(r *Record) (float64, bool) {
		f, ok := optional(r.Similarity)
		return indicator(ok && f >= matchThreshold), ok
	}},
	{"efficiency", func(r *Record) (float64, bool) { return optional(r.Efficiency) }},
	{"tao", func(r *Record) (float64, bool) { return r.TAO, true }},
	{"tio", func(r *Record) (float64, bool) { return r.TIO, true }},
	{"tem", func(r *Record) (float64, bool) { return r.TEM, true }},
	{"param", func(r *Record) (float64, bool) { return optional(r.Param) }},
	{"model_calls", spent(func(s *Spent) float64 { return float64(s.ModelCalls) })},
	{"tokens", spent(func(s *Spent) float64 { return float64(s.Tokens) })},
	{"seconds", spent(func(s *Spent) float64 { return s.Seconds })},
}

func spent(of func(*Spent) float64) func(*Record) (float64, bool) {
	return func(r *Record) (float64, bool) {
		if r.Spent == nil {
			return 0, false
		}
		return of(r.Spent), true
	}
}

func optional(f *float64) (float64, bool) {
	if f == nil {
		return 0, false
	}
	return *f, true
}

// MeanOf is a metric's mean over the records that have it; ok is false where none has.
func (m Metric) MeanOf(records []Record) (value float64, ok bool) {
	var values []float64
	for i := range records {
		if v, ok := m.Of(&records[i]); ok {
			values = append(values, v)
		}
	}
	return mean(values, Sum), len(values) > 0
}

// Difference is B minus A in one metric over the questions that both have.
type Difference struct {
	Metric    string  `json:"metric"`
	Questions int     `json:"questions"`
	A         float64 `json:"a"`
	B         float64 `json:"b"`
	Mean      float64 `json:"difference"`
	Low       float64 `json:"low"`  // 2.5 % of the bootstrap distribution
	High      float64 `json:"high"` // 97.5 %
	P         float64 `json:"p"`    // two-sided: how often a resample contradicts the sign
}

// Comparison is a paired comparison of two score files.
type Comparison struct {
	A           string       `json:"a"`
	B           string       `json:"b"`
	Seed        uint64       `json:"seed"`
	Resamples   int          `json:"resamples"`
	OnlyA       []string     `json:"only_a"` // questions that only one has; they are in no figure
	OnlyB       []string     `json:"only_b"`
	Differences []Difference `json:"differences"`
}

// ErrUnpaired is returned where two score files share no question.
var ErrUnpaired = errors.New("no common questions")

// Compare resamples the common questions with replacement and takes percentile
// intervals of the mean difference (Efron and Tibshirani 1993, chapter 13); a
// question keeps its pair of figures. Equal inputs and seed give equal bits.
func Compare(a, b *Scored, seed uint64, resamples int) (*Comparison, error) {
	if resamples < 1 {
		return nil, fmt.Errorf("%d resamples; at least 1 is needed", resamples)
	}
	c := &Comparison{A: a.Run, B: b.Run, Seed: seed, Resamples: resamples, OnlyA: []string{}, OnlyB: []string{}}
	inB := map[string]*Record{}
	for i := range b.Records {
		inB[b.Records[i].Question] = &b.Records[i]
	}
	var pairs [][2]*Record
	for i := range a.Records {
		r := &a.Records[i]
		if other := inB[r.Question]; other != nil {
			pairs = append(pairs, [2]*Record{r, other})
			delete(inB, r.Question)
		} else {
			c.OnlyA = append(c.OnlyA, r.Question)
		}
	}
	for i := range b.Records {
		if inB[b.Records[i].Question] != nil {
			c.OnlyB = append(c.OnlyB, b.Records[i].Question)
		}
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%w: %s and %s", ErrUnpaired, a.Run, b.Run)
	}
	for i, m := range Metrics {
		if d, ok := m.compare(pairs, rand.New(rand.NewPCG(seed, uint64(i))), resamples); ok {
			c.Differences = append(c.Differences, d)
		}
	}
	return c, nil
}

// compare is one metric's difference over the pairs in which both have it.
func (m Metric) compare(pairs [][2]*Record, rng *rand.Rand, resamples int) (Difference, bool) {
	var as, bs, diffs []float64
	for _, p := range pairs {
		x, okA := m.Of(p[0])
		y, okB := m.Of(p[1])
		if okA && okB {
			as, bs, diffs = append(as, x), append(bs, y), append(diffs, y-x)
		}
	}
	if len(diffs) == 0 {
		return Difference{}, false
	}
	d := Difference{Metric: m.Name, Questions: len(diffs), A: mean(as, Sum), B: mean(bs, Sum), Mean: mean(diffs, Sum)}
	means := make([]float64, resamples)
	below, above := 0, 0
	for i := range means {
		sum := 0.0
		for range diffs {
			sum += diffs[rng.IntN(len(diffs))]
		}
		means[i] = sum / float64(len(diffs))
		below += int(indicator(means[i] <= 0))
		above += int(indicator(means[i] >= 0))
	}
	slices.Sort(means)
	d.Low, d.High = quantile(means, 0.025), quantile(means, 0.975)
	d.P = min(1, 2*float64(min(below, above))/float64(resamples))
	return d, true
}

// quantile interpolates linearly between sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
