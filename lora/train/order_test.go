package train

import (
	"errors"
	"slices"
	"testing"
)

func orderOf(t *testing.T, ids []string, seed uint64, batch, updates int) *Order {
	t.Helper()
	o, err := NewOrder(ids, seed, batch, updates)
	check(t, err)
	return o
}

// The order is a pure function of seed, epoch and ids: the order of the table plays no part.
func TestOrderDependsOnIDsOnly(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", "f", "g"}
	turned := slices.Clone(ids)
	slices.Reverse(turned)
	one, two, other := orderOf(t, ids, 7, 3, 1), orderOf(t, turned, 7, 3, 1), orderOf(t, ids, 8, 3, 1)
	names := func(o *Order, epoch int) (out []string) {
		for _, i := range o.Epoch(epoch) {
			out = append(out, o.ids[i])
		}
		return out
	}
	if a, b := names(one, 2), names(two, 2); !slices.Equal(a, b) {
		t.Errorf("order %v of the table and %v of the reversed table", a, b)
	}
	if slices.Equal(names(one, 0), names(one, 1)) || slices.Equal(names(one, 0), names(other, 0)) {
		t.Error("epochs or seeds have the same order")
	}
	if one.Hash() != two.Hash() || one.Hash() == other.Hash() || one.Hash() == orderOf(t, ids[1:], 7, 3, 1).Hash() || one.Hash() == orderOf(t, ids, 7, 4, 1).Hash() {
		t.Error("hashes do not tell runs apart")
	}
}

// F5: 7 rows in steps of 4 are 2 steps; every row is there once in each epoch, none leaks into the next.
func TestOrderSteps(t *testing.T) {
	o := orderOf(t, []string{"a", "b", "c", "d", "e", "f", "g"}, 1, 4, 2)
	if n := o.StepsPerEpoch(); n != 4 {
		t.Fatalf("%d steps an epoch, expected 2 × 2 updates", n)
	}
	for epoch := range 3 {
		var seen []int
		for at := range 4 {
			e, cursor, update, rows := o.At(epoch*4 + at)
			if e != epoch || cursor != at/2*4 || update != at%2 || len(rows) != []int{4, 4, 3, 3}[at] {
				t.Errorf("step %d: epoch %d, cursor %d, update %d, %d rows", epoch*4+at, e, cursor, update, len(rows))
			}
			if update == 0 {
				seen = append(seen, rows...)
			}
		}
		slices.Sort(seen)
		if !slices.Equal(seen, []int{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("epoch %d has the rows %v", epoch, seen)
		}
	}
}

func TestOrderRefusals(t *testing.T) {
	if _, err := NewOrder([]string{"a", "b", "a"}, 1, 2, 1); err == nil {
		t.Error("repeated ids are taken")
	}
	if _, err := NewOrder(nil, 1, 2, 1); !errors.Is(err, ErrNothingToTrain) {
		t.Errorf("no rows: %v", err)
	}
	if _, err := NewOrder([]string{"a"}, 1, 0, 1); err == nil {
		t.Error("steps without rows are taken")
	}
}

func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for _, purpose := range []string{"dropout", "rollout"} {
		for seed := range uint64(3) {
			for step := range 20 {
				for micro := range 3 {
					s := Stream(seed, purpose, step, micro)
					if s == 0 || seen[s] != "" {
						t.Fatalf("stream %d of %s %d %d %d is that of %q", s, purpose, seed, step, micro, seen[s])
					}
					seen[s] = purpose
				}
			}
		}
	}
	first, again := Stream(1, "a", 1, 2), Stream(1, "a", 1, 2)
	if first != again || Stream(1, "a", 12) == first {
		t.Error("streams are not functions of their numbers")
	}
}
