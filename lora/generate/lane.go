package generate

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"terraloom/lora/backend"
	"terraloom/lora/generate/grammar"
)

// lane is a batch of rows that are decoded together: with the same weights, and all drawn on the device or all on the
// host. Rows join and leave between two chunks.
type lane struct {
	engine  *Engine
	device  *device
	weights *weights
	onHost  bool

	rows   []*row // by row of the cache; nil: unused
	cache  *cache // nil while there is no row
	column int    // where the next token goes, the same for all rows
}

// running are the rows, in the order of the cache.
func (l *lane) running() []*row {
	return slices.DeleteFunc(slices.Clone(l.rows), func(r *row) bool { return r == nil })
}

// room returns a function that says of one waiting row after the other whether it may join now. As soon as one has to
// wait, those after it do too: the queue is kept.
func (l *lane) room() func(r *row) bool {
	rows, longest, full := 0, 0, false
	add := func(r *row) {
		rows, longest = rows+1, max(longest, len(r.request.Prompt)+len(r.result.Tokens)+min(r.left, growth))
	}
	for _, r := range l.running() {
		add(r)
	}
	return func(r *row) bool {
		before, width := rows, longest
		add(r)
		bytes := l.device.cacheBytes(bucketRows(rows), bucketColumns(longest))
		if full = full || before >= l.engine.opts.MaxRows || before > 0 && bytes > l.engine.opts.CacheBytes; full {
			rows, longest = before, width
		}
		return !full
	}
}

// admit lets rows join: their prompts but for the last token are computed, each different one once, and copied into
// the cache. The last token is read by the first decoding step, which gives the logits that the first token is drawn from.
func (l *lane) admit(fresh []*row) error {
	if len(fresh) == 0 {
		return nil
	}
	var prompts [][]int32
	which := make([]int, len(fresh)) // prompt of each row
	known := map[string]int{}
	for i, r := range fresh {
		p := r.request.Prompt[:len(r.request.Prompt)-1]
		key := fmt.Sprint(p)
		at, ok := known[key]
		if !ok {
			at = len(prompts)
			known[key], prompts = at, append(prompts, p)
			l.engine.count(&l.engine.stats.PromptTokens, len(p))
		}
		which[i] = at
	}
	caches, at, err := l.device.prefill(l.weights, prompts)
	if err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
	defer func() {
		for _, c := range caches {
			c.free()
		}
	}()
	widest := 0
	for _, p := range prompts {
		widest = max(widest, len(p))
	}
	if err := l.makeRoom(len(fresh), widest, fresh); err != nil {
		return err
	}
	from, to := make([][]int, len(caches)), make([][]int, len(caches))
	next := 0
	for i, r := range fresh {
		for l.rows[next] != nil {
			next++
		}
		l.rows[next] = r
		r.start = l.column - len(prompts[which[i]])
		p := at[which[i]]
		from[p.batch], to[p.batch] = append(from[p.batch], p.row), append(to[p.batch], next)
	}
	for i, c := range caches {
		if err := l.cache.insert(l.device, c, from[i], to[i], l.column); err != nil {
			return err
		}
	}
	return nil
}

// growth is for how many more tokens a cache is made at most. More room would cost time at every token before.
const growth = 256

// makeRoom sees to it that `more` rows of at most `widest` columns fit beside those that run, and at least one more
// column. A cache that does not serve is replaced by one as small as serves: unused rows and columns go.
func (l *lane) makeRoom(more, widest int, fresh []*row) error {
	running := l.running()
	rows := bucketRows(len(running) + more)
	ahead := 1 // columns still to come
	for _, r := range slices.Concat(running, fresh) {
		ahead = max(ahead, min(r.left, growth))
	}
	if l.cache == nil {
		c, err := l.device.newCache(rows, bucketColumns(widest+ahead))
		if err != nil {
			return err
		}
		l.cache, l.rows, l.column = c, make([]*row, rows), widest
		return nil
	}
	if rows <= l.cache.rows && (more > 0 || rows == l.cache.rows) && l.column >= widest && l.column < l.cache.columns {
		return nil
	}
	longest := 0
	var from []int
	for i, r := range l.rows {
		if r != nil {
			longest = max(longest, l.column-r.start)
			from = append(from, i)
		}
	}
	column := max(longest, widest)
	if err := l.cache.move(l.device, rows, bucketColumns(column+ahead), from, l.column-column); err != nil {
		return err
	}
	for _, r := range running {
		r.start -= l.column - column
	}
	l.rows, l.column = append(running, make([]*row, rows-len(running))...), column
	return nil
}

// layout is the one in which products with that many rows are fastest.
func (l *lane) layout() layout {
	if l.engine.backend.Name == backend.CPU && l.cache.rows > 1 {
		return fusedLayout
	}
	return storedLayout
}

// advance decodes a chunk of tokens for all rows and returns those that have ended.
func (l *lane) advance() (ended []*row, err error) {
	if err := l.makeRoom(0, 0, nil); err != nil {
		return nil, err
	}
	if l.onHost {
		err = l.advanceOnHost()
	} else {
		err = l.advanceOnDevice()
	}
	if err != nil {
		return nil, err
	}
	for i, r := range l.rows {
		if r == nil {
			continue
		}
		if r.err != nil || r.result.Reason != "" {
			ended = append(ended, r)
			l.rows[i] = nil
		} else {
			r.emit()
		}
	}
	return ended, nil
}

func (l *lane) advanceOnDevice() error {
	n, steps := l.cache.rows, 0
	in := chunkInput{tokens: make([]int32, n), column: l.column, start: make([]int32, n), left: make([]int32, n),
		stops: make([]int32, n*stopIDs), inverse: make([]float32, n)}
	for i := range in.stops {
		in.stops[i] = -1
	}
	for i, r := range l.rows {
		if in.start[i] = int32(l.column); r == nil {
			continue
		}
		in.tokens[i], in.start[i], in.left[i] = r.last(), int32(r.start), int32(r.left)
		// More ids than fit are found by the host, after the chunk.
		copy(in.stops[i*stopIDs:(i+1)*stopIDs], r.request.StopIDs)
		if t := r.request.Sampling.Temperature; t > 0 {
			in.inverse[i] = float32(1 / t)
		}
		steps = max(steps, r.left)
	}
	in.steps = min(steps, l.engine.opts.Chunk, l.cache.columns-l.column)
	in.uniform = make([]float32, in.steps*n)
	for i, r := range l.rows {
		if r != nil && in.inverse[i] != 0 {
			for s := range in.steps {
				in.uniform[s*n+i] = r.uniform(s)
			}
		}
	}
	tokens, logps, made, err := l.device.chunk(l.weights, l.layout(), l.cache, in, l.engine.opts.Chunk)
	if err != nil {
		return err
	}
	l.column += made
	drawn := 0
	for i, r := range l.rows {
		for s := 0; r != nil && s < made; s++ {
			drawn++
			if !r.add(Token{ID: tokens[s*n+i], LogProb: logps[s*n+i], Sampled: logps[s*n+i]}) {
				break
			}
		}
	}
	l.engine.count(&l.engine.stats.Tokens, drawn)
	return nil
}

func (l *lane) advanceOnHost() error {
	n := l.cache.rows
	tokens, start := make([]int32, n), make([]int32, n)
	for i, r := range l.rows {
		if start[i] = int32(l.column); r != nil {
			tokens[i], start[i] = r.last(), int32(r.start)
		}
	}
	logits, err := l.device.oneStep(l.weights, l.layout(), l.cache, tokens, start, l.column)
	if err != nil {
		return err
	}
	l.column++
	vocab := l.device.config.VocabSize
	drawn := make([]Token, n)
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, r := range l.rows {
		if r == nil {
			continue
		}
		wait.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wait.Done() }()
			drawn[i] = l.draw(r, logits[i*vocab:(i+1)*vocab])
		}()
	}
	wait.Wait()
	for i, r := range l.rows {
		if r != nil && r.err == nil {
			r.add(drawn[i])
			l.engine.count(&l.engine.stats.Tokens, 1)
		}
	}
	return nil
}

// draw takes the next token of a row.
func (l *lane) draw(r *row, logits []float32) Token {
	var mask grammar.Mask
	if r.document != nil {
		mask = r.document.Mask(r.left)
		if r.document.MayEnd() { // only a number has not ended by itself then
			mask = slices.Clone(mask)
			for _, id := range r.request.StopIDs {
				mask.Set(id)
			}
		}
		if mask.Empty() {
			r.err = fmt.Errorf("%w: no token of the vocabulary can go on with the document", ErrRequest)
			return Token{}
		}
	}
	return drawHost(logits, l.device.live, r, mask, float64(r.uniform(0)))
}

// close frees the cache.
func (l *lane) close() {
	if l.cache != nil {
		l.cache.free()
	}
	l.cache, l.rows = nil, nil
}
