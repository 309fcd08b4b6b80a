package train

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"terraloom/lora/decoder"
)

func lengthsOf(seed uint64, n, longest int) []int {
	random := rand.New(rand.NewPCG(seed, 1))
	out := make([]int, n)
	for i := range out {
		out[i] = 1 + random.IntN(longest)
	}
	return out
}

// Whatever the layout: every sample is in it once, no rectangle is larger than allowed, rows divide over the devices, and
// the shapes are few.
func TestPlanIsAPartition(t *testing.T) {
	for seed := range uint64(30) {
		for _, l := range []Layout{{Tokens: 512}, {Tokens: 1024, Devices: 2}, {Tokens: 512, Row: 128}, {Tokens: 2048, Row: 256, Devices: 4}} {
			lengths := lengthsOf(seed, 1+int(seed)*3, 120)
			plan, err := l.Plan(lengths)
			check(t, err)
			var seen []int
			for _, m := range plan {
				longest := 0
				for _, row := range m {
					n := 0
					for _, i := range row {
						n += lengths[i]
					}
					if seen, longest = append(seen, row...), max(longest, n); l.Row > 0 && n > l.Row || l.Row == 0 && len(row) > 1 {
						t.Fatalf("%+v: row %v of %d tokens", l, row, n)
					}
				}
				if len(m)*decoder.Bucket(longest) > l.Tokens || len(m)%max(l.Devices, 1) != 0 {
					t.Fatalf("%+v: %d rows of %d tokens", l, len(m), longest)
				}
				if most := l.Tokens / decoder.Bucket(longest); len(m)&(len(m)-1) != 0 && len(m) < most-max(l.Devices, 1)+1 {
					t.Fatalf("%+v: %d rows are neither a power of two nor the most, %d", l, len(m), most)
				}
			}
			slices.Sort(seen)
			for i := range lengths {
				if i >= len(seen) || seen[i] != i {
					t.Fatalf("%+v: samples %v of %d", l, seen, len(lengths))
				}
			}
		}
	}
}

func TestPlanPacksBestFit(t *testing.T) {
	plan, err := Layout{Tokens: 4096, Row: 100}.Plan([]int{30, 60, 55, 40, 70, 10})
	check(t, err)
	// Longest first, each into the fullest row with room: 70+30, 60+40, 55+10.
	want := []Micro{{{4, 0}, {1, 3}, {2, 5}, nil}}
	if len(plan) != 1 || !slices.EqualFunc(plan[0], want[0], slices.Equal[[]int]) {
		t.Errorf("plan %v, expected %v", plan, want)
	}
}

func TestPlanRefusesLongSamples(t *testing.T) {
	for _, c := range []struct {
		l Layout
		n int
	}{{Layout{Tokens: 64}, 65}, {Layout{Tokens: 128, Devices: 4}, 33}, {Layout{Tokens: 4096, Row: 100}, 101}} {
		if _, err := c.l.Plan([]int{3, c.n}); !errors.Is(err, ErrTooLong) {
			t.Errorf("%+v takes %d tokens: %v", c.l, c.n, err)
		}
		if _, err := c.l.Plan([]int{3, c.n - 1}); err != nil {
			t.Errorf("%+v refuses %d tokens: %v", c.l, c.n-1, err)
		}
	}
	if plan, err := (Layout{Tokens: 64}).Plan(nil); err != nil || len(plan) != 0 {
		t.Errorf("nothing gives %v, %v", plan, err)
	}
}

// F3 and T8: labels stay inside their documents whatever the layout, and the padding id may be the end-of-text id.
func TestBatchLabels(t *testing.T) {
	samples := []Sample{
		{Tokens: []int32{5, 6, 7, 0}, Label: []bool{false, false, true, true}},
		{Tokens: []int32{8, 9, 0}, Label: []bool{true, true, true}},
		{Tokens: []int32{4}, Label: []bool{true}},
	}
	type label struct {
		owner       int
		from, token int32
	}
	want := []label{{0, 6, 7}, {0, 7, 0}, {1, 8, 9}, {1, 9, 0}}
	for name, m := range map[string]Micro{"plain": {{1}, {0}, {2}, nil}, "packed": {{2, 0, 1}}, "two rows": {{1, 2}, {0}}} {
		b := m.Batch(samples)
		var got []label
		for i, at := range b.Labels.At {
			got = append(got, label{b.Owner[i], b.Tokens[at], b.Labels.Token[i]})
		}
		slices.SortFunc(got, func(x, y label) int { return 100*(x.owner-y.owner) + int(x.from-y.from) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: labels %v, expected %v", name, got, want)
		}
		if b.Count != (Tokens{All: b.Rows * b.Len, Real: 8, Labelled: 4}) {
			t.Errorf("%s: counts %+v", name, b.Count)
		}
	}
	if n := samples[1].Labels(); n != 2 {
		t.Errorf("%d labels, expected 2: nothing comes before a first token", n)
	}
}
