package raster

import (
	"container/list"
	"sync"
)

// cacheBytes is the memory for decoded blocks of one open raster. The block in use is always kept, however large.
const cacheBytes = 32 << 20

// maxBlockBytes bounds one decoded block of a file.
const maxBlockBytes = 256 << 20

// blockKey names a block: a plane (a band of a planar file, 0 of an interleaved one) and its index in row order.
type blockKey struct{ plane, index int }

// blockCache keeps the most recently used blocks. It is safe for concurrent use, and two callers who want the same block decode
// it once.
type blockCache struct {
	decode   func(blockKey) ([]byte, error)
	capacity int // blocks

	mu     sync.Mutex
	blocks map[blockKey]*list.Element // of *cacheEntry, the most recently used first in order
	order  *list.List
}

type cacheEntry struct {
	key  blockKey
	once sync.Once
	data []byte
	err  error
}

func newBlockCache(blockBytes int, decode func(blockKey) ([]byte, error)) *blockCache {
	return &blockCache{
		decode:   decode,
		capacity: max(1, cacheBytes/max(1, blockBytes)),
		blocks:   map[blockKey]*list.Element{},
		order:    list.New(),
	}
}

// get returns the decoded block. Its memory is shared: callers only read it.
func (c *blockCache) get(key blockKey) ([]byte, error) {
	c.mu.Lock()
	el, ok := c.blocks[key]
	if ok {
		c.order.MoveToFront(el)
	} else {
		for c.order.Len() >= c.capacity {
			last := c.order.Back()
			delete(c.blocks, last.Value.(*cacheEntry).key)
			c.order.Remove(last)
		}
		el = c.order.PushFront(&cacheEntry{key: key})
		c.blocks[key] = el
	}
	c.mu.Unlock()

	e := el.Value.(*cacheEntry)
	e.once.Do(func() {
		e.data, e.err = c.decode(key)
		if e.err == nil {
			return
		}
		c.mu.Lock() // a failure is not kept: the next call tries again
		if c.blocks[key] == el {
			delete(c.blocks, key)
			c.order.Remove(el)
		}
		c.mu.Unlock()
	})
	return e.data, e.err
}
