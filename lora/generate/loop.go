package generate

import (
	"fmt"
	"slices"
)

// loop is the engine's only user of the device: it takes the lanes in turn, one chunk each.
func (e *Engine) loop() {
	defer close(e.ended)
	for {
		l, fresh, ok := e.next()
		if !ok {
			return
		}
		if l != nil {
			e.turn(l, fresh)
		}
	}
}

// next waits for work and returns the lane whose turn it is, with the rows that join it. ok is false when the engine
// is closed and all rows have been ended.
func (e *Engine) next() (l *lane, fresh []*row, ok bool) {
	e.mu.Lock()
	for len(e.waiting) == 0 && len(e.lanes) == 0 && !e.closed {
		e.wake.Wait()
	}
	closed := e.closed
	gone := e.takeWaiting(func(r *row) bool { return closed || r.ctx.Err() != nil })
	if !closed && len(e.waiting) > 0 {
		// The first in the queue whose lane has room decides nothing about whose turn it is, only that its lane exists.
		for _, r := range e.waiting {
			if !slices.ContainsFunc(e.lanes, r.joins) {
				e.lanes = append(e.lanes, &lane{engine: e, device: e.device, weights: r.weights, onHost: e.onHost(r)})
			}
		}
	}
	if len(e.lanes) > 0 {
		l = e.lanes[0]
		e.lanes = append(e.lanes[1:], l)
		if !closed {
			joins := l.room()
			fresh = e.takeWaiting(func(r *row) bool { return r.joins(l) && joins(r) })
		}
		e.stats.Running += len(fresh)
	}
	e.mu.Unlock()
	for _, r := range gone {
		err := r.ctx.Err()
		if err == nil {
			err = ErrClosed
		}
		e.end(r, err)
	}
	if closed {
		for _, l := range e.lanes {
			e.drop(l, ErrClosed)
		}
		return nil, nil, false
	}
	return l, fresh, true
}

// takeWaiting removes the waiting rows that f picks, in their order.
func (e *Engine) takeWaiting(f func(*row) bool) (taken []*row) {
	e.waiting = slices.DeleteFunc(e.waiting, func(r *row) bool {
		if f(r) {
			taken = append(taken, r)
			return true
		}
		return false
	})
	return taken
}

// onHost reports whether the host draws the row's tokens: where the row needs it, and on engines without loops.
func (e *Engine) onHost(r *row) bool { return r.onHost() || !e.device.updates }

// joins reports whether the row belongs into the lane.
func (r *row) joins(l *lane) bool { return l.weights == r.weights && l.onHost == l.engine.onHost(r) }

// turn gives a lane its chunk.
func (e *Engine) turn(l *lane, fresh []*row) {
	for i, r := range l.rows {
		if r != nil && r.ctx.Err() != nil {
			l.rows[i] = nil
			e.leave(r, r.ctx.Err())
		}
	}
	ended, err := e.guarded(l, fresh)
	for _, r := range ended {
		e.leave(r, nil)
	}
	if err != nil {
		for _, r := range fresh {
			if !slices.Contains(l.rows, r) {
				e.leave(r, err)
			}
		}
		e.drop(l, err)
	}
	if len(l.running()) == 0 {
		l.close()
		e.mu.Lock()
		e.lanes = slices.DeleteFunc(e.lanes, func(x *lane) bool { return x == l })
		e.mu.Unlock()
	}
}

// guarded is the border that no panic crosses.
func (e *Engine) guarded(l *lane, fresh []*row) (ended []*row, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding: %v", p)
		}
	}()
	if err := l.admit(fresh); err != nil {
		return nil, err
	}
	if len(l.running()) == 0 {
		return nil, nil
	}
	return l.advance()
}

// drop ends all rows of a lane.
func (e *Engine) drop(l *lane, err error) {
	for i, r := range l.rows {
		if r != nil {
			l.rows[i] = nil
			e.leave(r, err)
		}
	}
	l.close()
}

// leave ends a running row, end one that never ran.
func (e *Engine) leave(r *row, err error) {
	e.count(&e.stats.Running, -1)
	e.end(r, err)
}

func (e *Engine) end(r *row, err error) {
	e.count(&r.weights.users, -1)
	r.finish(err)
}
