package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"terraloom/data/strictjson"
)

// Price is what a million tokens cost, in the user's currency.
type Price struct {
	Prompt, Completion float64
}

// Of is the price of a call.
func (p Price) Of(u Usage) float64 {
	return (p.Prompt*float64(u.Prompt) + p.Completion*float64(u.Completion)) / 1e6
}

// Budget bounds what a Meter lets through; 0 is no bound. It is checked before
// each call, so that the last call may go beyond it.
type Budget struct {
	Calls, Tokens int
	Cost          float64
}

// Spent is what went through a Meter.
type Spent struct {
	Calls   int     // chats, failed ones included
	Tokens  int     // prompt and completion
	Cost    float64 // by Price
	Failed  int     // chats without a reply
	Seconds float64 // waiting for replies
}

// Meter is a model that counts, bounds and logs the calls of another. It is safe
// for concurrent use.
type Meter struct {
	Model  Model
	Price  Price
	Budget Budget
	Log    io.Writer // one JSON object per call, nil for none; writes are whole lines

	mu    sync.Mutex
	spent Spent
}

// Restore sets what was spent before: a run that goes on has the budget of one.
func (m *Meter) Restore(s Spent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent = s
}

// Spent returns what went through so far.
func (m *Meter) Spent() Spent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent
}

// Chat passes the request on. Beyond the budget it returns ErrBudget.
func (m *Meter) Chat(ctx context.Context, r Request) (Reply, error) {
	if err := m.admit(); err != nil {
		return Reply{}, err
	}
	start := time.Now()
	reply, err := m.Model.Chat(ctx, r)
	took := time.Since(start).Seconds()
	cost := m.Price.Of(reply.Usage)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent.Calls++
	m.spent.Tokens += reply.Usage.Total()
	m.spent.Cost += cost
	m.spent.Seconds += took
	if err != nil {
		m.spent.Failed++
	}
	if m.Log != nil {
		line := record(&r, &reply, err, took, cost)
		if _, werr := m.Log.Write(append(line.AppendJSON(nil), '\n')); werr != nil {
			return reply, errors.Join(err, fmt.Errorf("log of model calls: %w", werr))
		}
	}
	return reply, err
}

func (m *Meter) admit() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, s := m.Budget, m.spent
	switch {
	case b.Calls > 0 && s.Calls >= b.Calls:
		return fmt.Errorf("%w: %d of %d calls", ErrBudget, s.Calls, b.Calls)
	case b.Tokens > 0 && s.Tokens >= b.Tokens:
		return fmt.Errorf("%w: %d of %d tokens", ErrBudget, s.Tokens, b.Tokens)
	case b.Cost > 0 && s.Cost >= b.Cost:
		return fmt.Errorf("%w: %.4f of %.4f", ErrBudget, s.Cost, b.Cost)
	}
	return nil
}

// record is the log line of a call: enough to replay it. Keys never come here:
// they are no part of a request.
func record(r *Request, reply *Reply, err error, took, cost float64) strictjson.Value {
	failure := strictjson.Value{}
	text := strictjson.Text(reply.Text)
	if err != nil {
		failure, text = strictjson.Text(err.Error()), strictjson.Value{}
	}
	visible := r.visible()
	return object("role", strictjson.Text(r.Role), "model", strictjson.Text(r.Model), "prompt_sha256", strictjson.Text(r.PromptHash()),
		"messages", visible.Get("messages"), "tools", strictjson.Int(len(r.Tools)), "reply", text, "tool_calls", callsValue(reply.Calls), "error", failure,
		"finish", strictjson.Text(reply.Finish), "prompt_tokens", strictjson.Int(reply.Usage.Prompt), "completion_tokens", strictjson.Int(reply.Usage.Completion),
		"estimated", strictjson.Boolean(reply.Usage.Estimated), "tries", strictjson.Int(reply.Tries), "seconds", strictjson.Float(took), "cost", strictjson.Float(cost))
}
