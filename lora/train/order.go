package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Stream is the seed of an independent random stream: a pure function of the run's seed, the purpose and the numbers.
// Whatever is random in a run takes its numbers from such a stream, so a resumed run needs no stored generator states.
// It is never 0.
func Stream(seed uint64, purpose string, at ...int) uint64 {
	return keyed(seed, purpose, at, "")
}

func keyed(seed uint64, purpose string, at []int, id string) uint64 {
	h := sha256.New()
	var b [8]byte
	number := func(n uint64) {
		binary.LittleEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
	number(seed)
	number(uint64(len(purpose)))
	h.Write([]byte(purpose))
	number(uint64(len(at)))
	for _, n := range at {
		number(uint64(n))
	}
	h.Write([]byte(id))
	key := binary.LittleEndian.Uint64(h.Sum(nil))
	return max(key, 1)
}

// Order is the order in which a run takes its rows: in every epoch each row once, sorted by a hash of seed, epoch and
// the row's id. So it depends on the ids alone, not on the order of the table, on workers or on shards.
type Order struct {
	ids     []string
	seed    uint64
	batch   int // rows of a step
	updates int // steps that work on the same rows

	mu    sync.Mutex
	epoch int // of the permutation
	perm  []int
}

// NewOrder makes the order of rows with these ids. updates is the number of consecutive steps that get the same rows.
// Ids must be unique: the order of equals would be arbitrary.
func NewOrder(ids []string, seed uint64, batch, updates int) (*Order, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: there are no rows", ErrNothingToTrain)
	}
	if batch < 1 || updates < 1 {
		return nil, fmt.Errorf("%d rows a step, %d steps on the same rows: both must be at least 1", batch, updates)
	}
	seen := make(map[string]int, len(ids))
	for i, id := range ids {
		if first, ok := seen[id]; ok {
			return nil, fmt.Errorf("rows %d and %d have the same id %q: ids must be unique", first, i, id)
		}
		seen[id] = i
	}
	return &Order{ids: slices.Clone(ids), seed: seed, batch: batch, updates: updates, epoch: -1}, nil
}

// StepsPerEpoch is the number of steps of one pass over the rows. The last step of an epoch has the rows that are left;
// none are taken from the next epoch.
func (o *Order) StepsPerEpoch() int {
	return (len(o.ids) + o.batch - 1) / o.batch * o.updates
}

// Epoch is the permutation of the rows in an epoch.
func (o *Order) Epoch(epoch int) []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch == epoch {
		return o.perm
	}
	keys := make([]uint64, len(o.ids))
	perm := make([]int, len(o.ids))
	for i, id := range o.ids {
		keys[i], perm[i] = keyed(o.seed, "order", []int{epoch}, id), i
	}
	slices.SortFunc(perm, func(a, b int) int {
		switch {
		case keys[a] != keys[b] && keys[a] < keys[b]:
			return -1
		case keys[a] != keys[b]:
			return 1
		}
		return strings.Compare(o.ids[a], o.ids[b])
	})
	o.epoch, o.perm = epoch, perm
	return perm
}

// At says which rows a step works on, in which epoch, how many rows of the epoch come before them, and which update of
// theirs it is, from 0.
func (o *Order) At(step int) (epoch, cursor, update int, rows []int) {
	per := o.StepsPerEpoch()
	epoch = step / per
	at := step % per
	cursor = at / o.updates * o.batch
	perm := o.Epoch(epoch)
	return epoch, cursor, at % o.updates, perm[cursor:min(cursor+o.batch, len(perm))]
}

// Hash identifies the rows, seed and step size: runs with the same hash see the same rows in every step.
func (o *Order) Hash() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d %d\n", o.seed, o.batch, o.updates, len(o.ids))
	for _, id := range slices.Sorted(slices.Values(o.ids)) {
		fmt.Fprintf(h, "%q\n", id)
	}
	return hex.EncodeToString(h.Sum(nil))
}
