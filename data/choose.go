package data

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// Choose returns the places of n of the ids, or of all if there are fewer, in their order. They are always the same ones,
// drawn by the SHA-256 of the id: the first ones of a dataset would be instances of few seeds.
func Choose(ids []string, n int) []int {
	places := make([]int, len(ids))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		x, y := sha256.Sum256([]byte(ids[a])), sha256.Sum256([]byte(ids[b]))
		return bytes.Compare(x[:], y[:])
	})
	places = places[:min(n, len(places))]
	slices.Sort(places)
	return places
}
