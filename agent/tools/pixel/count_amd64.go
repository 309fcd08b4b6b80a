package pixel

import "golang.org/x/sys/cpu"

// countAVX2 counts the values from lo to hi and the finite ones among the n, a
// positive multiple of 16 below 2³¹, at p.
//
//go:noescape
func countAVX2(p *float32, n int, lo, hi float32) (matching, valid int64)

// countVector counts the first values of data, as many as fit in whole vectors, and
// tells how many those were.
func countVector(data []float32, lo, hi float32) (matching, valid, n int) {
	if n = len(data) &^ 15; n == 0 || !cpu.X86.HasAVX2 {
		return 0, 0, 0
	}
	m, v := countAVX2(&data[0], n, lo, hi)
	return int(m), int(v), n
}
