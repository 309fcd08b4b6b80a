// Package rowset is what every trainer does with the rows of a dataset before it trains on them: choose some, encode all on
// every core, refuse the wrong ones by reason, and keep measured rows apart from trained ones.
package rowset

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"terraloom/lora/train"
)

// ErrRows: rows of the dataset that cannot be trained on.
var ErrRows = errors.New("rows cannot be used")

// Choose are the indices of n of the ids, or of all if there are fewer, in their order: always the same ones, drawn by a
// hash of the ids. The first ones would be instances of few seeds.
func Choose(ids []string, n int) ([]int, error) {
	order, err := train.NewOrder(ids, 0, len(ids), 1)
	if err != nil {
		return nil, err
	}
	chosen := slices.Clone(order.Epoch(0)[:min(n, len(ids))])
	slices.Sort(chosen)
	return chosen, nil
}

// Each calls f for 0 … n−1 on all cores.
func Each(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// Refuse turns the errors of rows, nil for good ones, into one that counts them by reason and shows the first of each. from
// names the table, as in "dataset DIR, split train"; ids are the rows'.
func Refuse(errs []error, ids []string, from string, reason func(error) string) error {
	by, first := map[string]int{}, map[string]string{}
	bad := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		bad++
		why := reason(err)
		if by[why]++; by[why] == 1 {
			first[why] = fmt.Sprintf("%s: %v", ids[i], err)
		}
	}
	if bad == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("%s: %d of %d rows are wrong: %s", from, bad, len(ids), Counts(by))}
	for _, why := range slices.Sorted(maps.Keys(by)) {
		lines = append(lines, "first: row "+first[why])
	}
	return fmt.Errorf("%w: %s", ErrRows, strings.Join(lines, "\n  "))
}

// Counts lists reasons with their numbers, the commonest first.
func Counts(by map[string]int) string {
	var parts []string
	for _, reason := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		if by[a] != by[b] {
			return by[b] - by[a]
		}
		return strings.Compare(a, b)
	}) {
		parts = append(parts, fmt.Sprintf("%d × %s", by[reason], reason))
	}
	return strings.Join(parts, "; ")
}

// Apart refuses measured rows that are trained on too. Both splits are given by name and ids.
func Apart(trained string, trainedIDs []string, measured string, measuredIDs []string) error {
	ids := map[string]bool{}
	for _, id := range trainedIDs {
		ids[id] = true
	}
	for _, id := range measuredIDs {
		if ids[id] {
			return fmt.Errorf("%w: row %s is in the splits %s and %s: what is measured must not be trained on", ErrRows, id, trained, measured)
		}
	}
	return nil
}
