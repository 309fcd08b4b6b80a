//go:build !amd64

package pixel

// countVector counts nothing where there is no vector code.
func countVector([]float32, float32, float32) (matching, valid, n int) { return 0, 0, 0 }
