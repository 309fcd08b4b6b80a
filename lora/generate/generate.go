// Package generate lets decoder models write: prefill and cached decoding of batches of rows that come and go, drawn
// greedily or from a temperature, bounded by stop tokens, stop texts or a JSON schema.
//
//	e, err := generate.New(b, base, generate.Options{Tokenizer: tok})
//	defer e.Close()
//	merged, err := base.Merged(params)       // a model with an adapter in its weights
//	err = e.Use("policy", merged)            // nothing is compiled again
//	results, err := e.Generate(ctx, []generate.Request{{Model: "policy", Prompt: ids, MaxTokens: 256,
//		Sampling: generate.Sampling{Temperature: 1, Seed: 7}}})
//
// A request is one row. Requests with the same prompt share its computation, so n samples of a prompt are n requests
// with different seeds. What a row becomes depends on its weights, prompt, sampling and seed alone, not on its
// neighbours; only the last bits of its log-probabilities may. A call to Generate that has the engine to itself is
// reproduced exactly.
package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"terraloom/lora/backend"
	"terraloom/lora/decoder"
	"terraloom/lora/generate/grammar"
	"terraloom/lora/tokenizer"
)

// Options of [New].
type Options struct {
	// Tokenizer gives results their text; stop texts and schemas need it. nil: ids only.
	Tokenizer *tokenizer.BPE
	// StopIDs end rows that do not name their own. nil: the ends of text of the model's configuration and tokenizer.
	StopIDs []int32
	// MaxRows is how many rows of one model are decoded together; 0: 16.
	MaxRows int
	// Chunk is how many tokens are decoded at once, between two looks at who comes and goes; 0: 16.
	Chunk int
	// CacheBytes is how large the cache of one model's batch may become by rows that join: others wait until it shrinks.
	// A single row is always let in. 0: 8 GiB, 2 GiB on the CPU.
	CacheBytes int64
}

// Engine generates with a base model and models of the same shapes. It is safe for concurrent use.
type Engine struct {
	backend *backend.Backend
	device  *device
	opts    Options

	vocabulary func() *grammar.Vocabulary

	mu      sync.Mutex
	wake    *sync.Cond // something to do for the loop
	models  map[string]*weights
	version uint64
	waiting []*row
	closed  bool
	stats   Stats
	ended   chan struct{}
	lanes   []*lane // the loop's
}

// Stats count what an engine has done and is doing.
type Stats struct {
	Waiting, Running int // rows
	PromptTokens     int // computed, shared ones once
	Tokens           int // drawn
	Compiled         int // graphs: one for every shape of a batch met so far
}

// New starts an engine on the first device of the backend that base was loaded to. base can be used under the name "".
func New(b *backend.Backend, base *decoder.Model, opts Options) (*Engine, error) {
	if base.Options.Devices > 1 {
		return nil, errors.New("generation runs on one device: load the model with one")
	}
	if opts.MaxRows < 0 || opts.Chunk < 0 || opts.CacheBytes < 0 {
		return nil, fmt.Errorf("%d rows, chunks of %d, caches of %d bytes: use positive numbers", opts.MaxRows, opts.Chunk, opts.CacheBytes)
	}
	if opts.MaxRows == 0 {
		opts.MaxRows = 16
	}
	if opts.Chunk == 0 {
		opts.Chunk = 16
	}
	if opts.CacheBytes == 0 {
		opts.CacheBytes = 8 << 30
		if b.Name == backend.CPU {
			opts.CacheBytes = 2 << 30 // a step holds it twice, beside prompts and weights
		}
	}
	d := newDevice(b.Engine, base)
	if opts.Tokenizer != nil {
		d.live = min(d.live, opts.Tokenizer.VocabSize())
	}
	if opts.StopIDs == nil {
		opts.StopIDs = stopsOf(base, opts.Tokenizer)
	}
	e := &Engine{backend: b, device: d, opts: opts, models: map[string]*weights{"": newWeights("", base, 0)}, ended: make(chan struct{})}
	e.vocabulary = sync.OnceValue(func() *grammar.Vocabulary {
		added := map[int32]bool{}
		for _, t := range opts.Tokenizer.AddedTokens() {
			added[t.ID] = true
		}
		return grammar.NewVocabulary(opts.Tokenizer, func(id int32) bool { return added[id] })
	})
	e.wake = sync.NewCond(&e.mu)
	go e.loop()
	return e, nil
}

// stopsOf are the ids that end a text: those of the configuration and the tokenizer's, which chat models end turns with.
func stopsOf(m *decoder.Model, t *tokenizer.BPE) []int32 {
	ids := []int32{}
	for _, id := range m.Config.EOS {
		ids = append(ids, int32(id))
	}
	if t != nil {
		if id := t.Special().EOS; id != tokenizer.NoToken && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Use makes a model available under a name, in place of the one that had it; nil removes it. Models come from
// [decoder.Model.Merged] of the base, and stay open until they are replaced or the engine is closed. The version of
// the name's weights counts up, for results to carry. While rows of that name wait or run, the error is ErrInUse.
func (e *Engine) Use(name string, m *decoder.Model) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.models[name]
	switch {
	case e.closed:
		return ErrClosed
	case name == "":
		return fmt.Errorf("%w: the empty name is the base's", ErrRequest)
	case old != nil && old.users > 0:
		return fmt.Errorf("%w: %d rows of %q wait or run", ErrInUse, old.users, name)
	case m == nil && old == nil:
		return fmt.Errorf("%w %q", ErrUnknown, name)
	case m != nil && (m.Config.Parameters() != e.device.config.Parameters() || m.Options.Precision != e.device.base.Options.Precision):
		return fmt.Errorf("%w: %q has not the base's shapes and precision: make it with Merged", ErrRequest, name)
	}
	if old != nil {
		old.free()
		delete(e.models, name)
	}
	if m != nil {
		e.version++
		e.models[name] = newWeights(name, m, e.version)
	}
	return nil
}

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Waiting, s.Compiled = len(e.waiting), int(e.device.compiled.Load())
	return s
}

func (e *Engine) count(counter *int, n int) {
	e.mu.Lock()
	*counter += n
	e.mu.Unlock()
}

// call is one call of Generate.
type call struct {
	mu      sync.Mutex
	left    int
	err     error
	results []Result
	rows    []*row
	done    chan struct{}
	cancel  context.CancelFunc
}

// finished takes a row's result. The first row that fails ends the others.
func (c *call) finished(r *row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.rows, r); i >= 0 {
		c.results[i] = r.result
	}
	if r.err != nil && c.err == nil {
		c.err = r.err
		c.cancel()
	}
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// Generate completes the prompts of all requests and returns the results in their order. When ctx ends, rows stop at
// the end of the chunk that is being decoded. An error concerns the whole call; see ErrRequest, ErrTooLong, ErrUnknown
// and ErrClosed.
func (e *Engine) Generate(ctx context.Context, requests []Request) ([]Result, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &call{left: len(requests), results: make([]Result, len(requests)), done: make(chan struct{}), cancel: cancel}
	for i, r := range requests {
		row, err := e.check(ctx, i, r)
		if err != nil {
			return nil, err
		}
		row.call = c
		c.rows = append(c.rows, row)
	}
	if err := e.enqueue(c.rows); err != nil {
		return nil, err
	}
	<-c.done
	if c.err != nil {
		return nil, c.err
	}
	return c.results, nil
}

func (e *Engine) enqueue(rows []*row) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	for i, r := range rows {
		w, ok := e.models[r.request.Model]
		if !ok {
			return fmt.Errorf("request %d: %w %q", i, ErrUnknown, r.request.Model)
		}
		r.weights, r.result.Version = w, w.version
	}
	for _, r := range rows {
		r.weights.users++
	}
	e.waiting = append(e.waiting, rows...)
	e.wake.Signal()
	return nil
}

// Close ends all rows with ErrClosed and releases what the engine holds on the device.
func (e *Engine) Close() {
	e.mu.Lock()
	already := e.closed
	e.closed = true
	e.wake.Signal()
	e.mu.Unlock()
	<-e.ended
	if already {
		return
	}
	for _, w := range e.models {
		w.free()
	}
	e.device.close()
}
