package raster

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// ChunkPixels is the length of the pieces of [Chunks]: 256 KiB of float32, which stays in a core's second-level cache.
const ChunkPixels = 1 << 16

// NumChunks returns the number of pieces that [Chunks] makes of n pixels.
func NumChunks(n int) int { return (n + ChunkPixels - 1) / ChunkPixels }

// Chunks cuts the index range 0 … n-1 into pieces of ChunkPixels and calls f(piece, lo, hi) for each, on all cores. The cut does
// not depend on the number of cores: a reduction that stores one partial result per piece and merges them in order gives the
// same bits on every machine.
func Chunks(n int, f func(chunk, lo, hi int)) {
	_ = each(NumChunks(n), func(c int) error { // f has no errors to return
		f(c, c*ChunkPixels, min(n, (c+1)*ChunkPixels))
		return nil
	})
}

// each calls f(0) … f(n-1) on all cores and returns the error of the lowest failing index that ran; after an error no new calls start.
func each(n int, f func(i int) error) error { return eachOn(runtime.GOMAXPROCS(0), n, f) }

// eachOn is each on at most the given number of goroutines.
func eachOn(workers, n int, f func(i int) error) error {
	workers = min(workers, n)
	if workers <= 1 {
		for i := range n {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	var (
		next   atomic.Int64
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
		at     = n
		panics any
	)
	for range workers {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil { // re-raised on the caller's goroutine, where it can be recovered
					next.Store(int64(n))
					mu.Lock()
					panics = p
					mu.Unlock()
				}
			}()
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					next.Store(int64(n))
					mu.Lock()
					if i < at {
						failed, at = err, i
					}
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	if panics != nil {
		panic(panics)
	}
	return failed
}
