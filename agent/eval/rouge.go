package eval

import "strings"

// RougeL is the F1 of the longest common subsequence of white-space tokens
// (Lin 2004, beta 1): P = LCS/|candidate|, R = LCS/|reference|, 2PR/(P+R).
// An empty text gives 0, also against an empty one.
func RougeL(reference, candidate string) float64 {
	return rouge(strings.Fields(reference), strings.Fields(candidate))
}

// RougeLRunes is RougeL on characters, for languages without spaces; white
// space is dropped.
func RougeLRunes(reference, candidate string) float64 {
	return rouge([]rune(strings.Join(strings.Fields(reference), "")), []rune(strings.Join(strings.Fields(candidate), "")))
}

func rouge[T comparable](reference, candidate []T) float64 {
	common := lcs(reference, candidate)
	if common == 0 {
		return 0
	}
	// 2PR/(P+R) with P = c/n and R = c/m is 2c/(n+m).
	return 2 * float64(common) / float64(len(reference)+len(candidate))
}

// lcs is the length of the longest common subsequence; time |a|·|b|, memory |a|.
func lcs[T comparable](a, b []T) int {
	row := make([]int, len(a)+1)
	for _, y := range b {
		diagonal := 0
		for i, x := range a {
			above := row[i+1]
			if x == y {
				row[i+1] = diagonal + 1
			} else {
				row[i+1] = max(above, row[i])
			}
			diagonal = above
		}
	}
	return row[len(a)]
}
