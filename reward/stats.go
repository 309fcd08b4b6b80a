package reward

import (
	"fmt"
	"math"
)

// Spread is how much one function varies: over the batch, and inside the groups
// of one prompt, where alone it makes an advantage. A function may vary widely
// over the batch and not at all inside any group; then it trains nothing.
type Spread struct {
	Name   string
	Valid  int     // values that count; errors and missing values do not
	Failed int     // values that are missing because the function failed
	Mean   float64 // over the batch; NaN without values
	Batch  float64 // sample standard deviation (n-1) over the batch; NaN below two values
	Group  float64 // mean of the groups' sample standard deviations; NaN if no group has two values
	Flat   int     // groups with two or more values, all equal
	Groups int     // groups with two or more values
}

// Spreads returns the spread of the weighted sum (TotalName) and of every
// function, in order, over results in which each run of size results belongs to
// one prompt.
func Spreads(results []Result, size int) ([]Spread, error) {
	if size < 1 || len(results)%size != 0 {
		return nil, fmt.Errorf("%d results are no whole number of groups of %d", len(results), size)
	}
	if len(results) == 0 {
		return nil, nil
	}
	spreads := []Spread{spreadOf(TotalName, results, size, func(r *Result) (float64, bool) { return r.Reward, r.Err() != nil })}
	for k, p := range results[0].Parts {
		spreads = append(spreads, spreadOf(p.Name, results, size, func(r *Result) (float64, bool) { return r.Parts[k].Value, r.Parts[k].Err != nil }))
	}
	return spreads, nil
}

func spreadOf(name string, results []Result, size int, value func(*Result) (float64, bool)) Spread {
	s := Spread{Name: name}
	var batch, group, deviations []float64
	for i := range results {
		v, failed := value(&results[i])
		if failed {
			s.Failed++
		}
		if !math.IsNaN(v) {
			batch, group = append(batch, v), append(group, v)
		}
		if (i+1)%size == 0 {
			if _, deviation := moments(group); len(group) > 1 {
				deviations = append(deviations, deviation)
				if deviation == 0 {
					s.Flat++
				}
			}
			group = group[:0]
		}
	}
	s.Valid, s.Groups = len(batch), len(deviations)
	s.Mean, s.Batch = moments(batch)
	s.Group, _ = moments(deviations)
	return s
}

// moments are the mean and the sample standard deviation (n-1); equal values
// give exactly 0.
func moments(values []float64) (mean, deviation float64) {
	n := float64(len(values))
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	equal := true
	for _, v := range values {
		mean += v
		equal = equal && v == values[0]
	}
	mean /= n
	if equal {
		mean = values[0]
	}
	if n < 2 {
		return mean, math.NaN()
	}
	sum := 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sum / (n - 1))
}

// Summary is a batch in a few figures.
type Summary struct {
	Items         int
	Valid         int     // results with a reward
	Mean          float64 // of the rewards; NaN without any
	ParseFailures int
	NotObjects    int
	Exact         int     // all keys and values right, nothing extra
	KeyAccuracy   float64 // matched keys per reference key; NaN without items
	ValueAccuracy float64 // equivalent values per reference key
}

// Summarize sums up results.
func Summarize(results []Result) Summary {
	s := Summary{Items: len(results)}
	var rewards []float64
	keys, matched, values := 0, 0, 0
	for _, r := range results {
		if r.Valid() {
			rewards = append(rewards, r.Reward)
		}
		switch r.Score.Status {
		case ParseFailure:
			s.ParseFailures++
		case NotObject:
			s.NotObjects++
		case Object:
			if r.Score.Exact() {
				s.Exact++
			}
		}
		keys, matched, values = keys+r.Score.Keys, matched+r.Score.Matched, values+r.Score.Values
	}
	s.Valid = len(rewards)
	s.Mean, _ = moments(rewards)
	s.KeyAccuracy, s.ValueAccuracy = float64(matched)/float64(keys), float64(values)/float64(keys)
	return s
}
