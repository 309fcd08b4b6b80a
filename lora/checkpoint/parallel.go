package checkpoint

import (
	"runtime"
	"sync"
)

// parallelGrain is the least work worth a goroutine of its own, in elements or blocks.
const parallelGrain = 1 << 14

// parallel calls work on consecutive ranges that cover [0, n), on all processors when n is large.
func parallel(n int, work func(from, to int)) {
	workers := min(runtime.GOMAXPROCS(0), n/parallelGrain)
	if workers < 2 {
		work(0, n)
		return
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { work(n*w/workers, n*(w+1)/workers) })
	}
	wg.Wait()
}
