package reward

import (
	"context"
	"strings"
	"testing"

	"terraloom/data/strictjson"
)

// BenchmarkScore scores real Executor arguments: half of the completions are
// right, half have one value changed. One op is one score.
func BenchmarkScore(b *testing.B) {
	refs, completions, bytes := benchmarkItems(b)
	r := DefaultRules()
	b.ReportAllocs()
	n, sum := 0, 0.0
	for b.Loop() {
		sum += r.Score(refs[n%len(refs)], completions[n%len(refs)]).Reward
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "scores/s")
	b.ReportMetric(float64(n)*bytes/b.Elapsed().Seconds()/1e6, "MB/s")
	if sum == 0 {
		b.Fatal("no reward")
	}
}

// BenchmarkScorer is the same through the parallel interface, 64 at a time.
func BenchmarkScorer(b *testing.B) {
	refs, completions, _ := benchmarkItems(b)
	s, err := New(Default())
	if err != nil {
		b.Fatal(err)
	}
	items := make([]Item, len(refs))
	for i := range items {
		items[i] = Item{completions[i], refs[i]}
	}
	n := 0
	for b.Loop() {
		from := n % (len(items) - 64)
		s.Score(context.Background(), items[from:from+64])
		n += 64
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "scores/s")
}

// BenchmarkNewReference prepares real references. One op is one reference.
func BenchmarkNewReference(b *testing.B) {
	_, completions, _ := benchmarkItems(b)
	n := 0
	for b.Loop() {
		if _, err := NewReference(completions[n%len(completions)], nil); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

func benchmarkItems(b *testing.B) (refs []*Reference, completions []string, meanBytes float64) {
	total := 0
	for i, args := range realArguments(b) {
		refs = append(refs, reference(b, args.JSON()))
		if i%2 == 1 {
			kids := make([]strictjson.Value, args.Len())
			for k := range kids {
				kids[k] = args.Index(k)
			}
			kids[len(kids)-1] = strictjson.Text("another value")
			args = args.Rebuilt(kids)
		}
		completions = append(completions, strings.Clone(args.JSON()))
		total += len(completions[i])
	}
	return refs, completions, float64(total) / float64(len(completions))
}
