package raster

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestBlockCache(t *testing.T) {
	decoded := map[blockKey]int{}
	fault := errors.New("fault")
	var failing error
	c := newBlockCache(cacheBytes/3, func(k blockKey) ([]byte, error) {
		decoded[k]++
		return []byte{byte(k.index)}, failing
	})
	get := func(i int) {
		t.Helper()
		if b, err := c.get(blockKey{0, i}); err != nil || b[0] != byte(i) {
			t.Fatalf("block %d: %v, %v", i, b, err)
		}
	}
	for _, i := range []int{0, 1, 2, 0, 3, 0, 1} { // 1 is dropped for 3, as 0 was used later
		get(i)
	}
	for i, want := range []int{1, 2, 1, 1} {
		if n := decoded[blockKey{0, i}]; n != want {
			t.Errorf("block %d decoded %d times, want %d", i, n, want)
		}
	}
	failing = fault
	if _, err := c.get(blockKey{1, 9}); !errors.Is(err, fault) {
		t.Errorf("%v", err)
	}
	failing = nil
	if _, err := c.get(blockKey{1, 9}); err != nil {
		t.Errorf("a failure was kept: %v", err)
	}
	if c.order.Len() != 3 || len(c.blocks) != 3 {
		t.Errorf("holds %d and %d blocks, want 3", c.order.Len(), len(c.blocks))
	}
}

func TestBlockCacheDecodesOnce(t *testing.T) {
	var n atomic.Int32
	c := newBlockCache(cacheBytes/4, func(k blockKey) ([]byte, error) {
		n.Add(1)
		return []byte{1}, nil
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 4 {
				if _, err := c.get(blockKey{0, i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n.Load() != 4 {
		t.Errorf("4 blocks were decoded %d times", n.Load())
	}
}

// Readers of one dataset do not disturb each other.
func TestConcurrentReads(t *testing.T) {
	const w, h = 900, 700
	path := filepath.Join(t.TempDir(), "a.tif")
	g, err := NewGrid(w, h, CRS{}, GeoTransform{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Data {
		g.Data[i] = float32(i)
	}
	if err := Save(path, Spec{Type: Int32}, g, g); err != nil {
		t.Fatal(err)
	}
	ds := open(t, path)
	ds.cache.capacity = 3 // fewer blocks than the readers want
	var wg sync.WaitGroup
	for r := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 0))
			for range 30 {
				win := Window{rng.IntN(w - 300), rng.IntN(h - 200), 1 + rng.IntN(300), 1 + rng.IntN(200)}
				got, err := ds.ReadWindow(1+rng.IntN(2), win)
				if err != nil {
					t.Error(err)
					return
				}
				for i, v := range got.Data {
					if want := g.At(win.X+i%win.Width, win.Y+i/win.Width); v != want {
						t.Errorf("window %v pixel %d: %v, want %v", win, i, v, want)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
