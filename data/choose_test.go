package data

import (
	"fmt"
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	var ids []string
	for i := range 100 {
		ids = append(ids, fmt.Sprint("row-", i))
	}
	ten, twenty := Choose(ids, 10), Choose(ids, 20)
	if len(ten) != 10 || !slices.IsSorted(ten) {
		t.Errorf("chosen %v", ten)
	}
	for _, i := range ten {
		if !slices.Contains(twenty, i) {
			t.Errorf("%d is among 10, but not among 20", i)
		}
	}
	if ten[9] < 50 {
		t.Errorf("only the first rows: %v", ten)
	}
	reversed := slices.Clone(ids)
	slices.Reverse(reversed)
	for _, i := range Choose(reversed, 10) {
		if !slices.Contains(ten, 99-i) {
			t.Errorf("%s is chosen in one order only", reversed[i])
		}
	}
	if got := Choose(ids[:3], 10); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("of three: %v", got)
	}
}
