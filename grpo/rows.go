package grpo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"terraloom/data"
	"terraloom/lora/chat"
	"terraloom/lora/codec"
	"terraloom/lora/train/rowset"
	"terraloom/reward"
)

// Row is one Executor record: a prompt and what its answers are scored against.
type Row struct {
	ID        string
	Prompt    []int32
	Target    string // the reference answer's text
	Answer    int    // tokens of the reference answer, end of turn included
	Reference *reward.Reference
}

// Rows are the usable rows of a split, in the dataset's order.
type Rows struct {
	Split      string
	Rows       []Row
	Read       int            // rows of the split that were looked at
	Dropped    map[string]int // rows that were left out, by reason
	Terminator int32          // the end-of-turn token
}

func (r *Rows) ids() []string {
	out := make([]string, len(r.Rows))
	for i, row := range r.Rows {
		out[i] = row.ID
	}
	return out
}

// Why rows are left out.
const (
	longPrompt = "prompt longer than data.max_prompt_tokens"
	longAnswer = "reference answer longer than rollout.max_tokens"
)

// readRows reads and encodes a split. Every row that is wrong is looked at before the error, which counts them by reason; rows
// that are left out by choice are counted in the result.
func readRows(ctx context.Context, ds *data.Dataset, c Config, split string, limit int, enc *codec.Codec) (*Rows, error) {
	var records []*data.ExecutorRow
	var ids []string
	for r, err := range ds.Executor(split) {
		if err != nil {
			return nil, err
		}
		records, ids = append(records, r), append(ids, fmt.Sprintf("%s#%d", r.TrajectoryID, r.Node))
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("dataset %s: %w: the split %q has no executor records", c.Dataset, ErrRows, split)
	}
	if limit > 0 {
		chosen, err := rowset.Choose(ids, limit)
		if err != nil {
			return nil, fmt.Errorf("dataset %s, split %s: %w: %w", c.Dataset, split, ErrRows, err)
		}
		for i, at := range chosen {
			records[i], ids[i] = records[at], ids[at]
		}
		records, ids = records[:len(chosen)], ids[:len(chosen)]
	}
	rows, errs, terminators := make([]Row, len(records)), make([]error, len(records)), make([]int32, len(records))
	rowset.Each(len(records), func(i int) {
		rows[i], terminators[i], errs[i] = encode(ctx, records[i], ids[i], c.Reward.Rules, enc)
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := rowset.Refuse(errs, ids, fmt.Sprintf("dataset %s, split %s", c.Dataset, split), reasonOf); err != nil {
		return nil, err
	}
	return keep(rows, c, split, terminators[0])
}

// keep leaves out what is too long.
func keep(rows []Row, c Config, split string, terminator int32) (*Rows, error) {
	out := &Rows{Split: split, Read: len(rows), Dropped: map[string]int{}, Terminator: terminator}
	for _, r := range rows {
		reason, n, key, limit := "", 0, "", 0
		switch {
		case len(r.Prompt) > c.Data.MaxPromptTokens:
			reason, n, key, limit = longPrompt, len(r.Prompt), "data.max_prompt_tokens", c.Data.MaxPromptTokens
		case r.Answer > c.Rollout.MaxTokens:
			reason, n, key, limit = longAnswer, r.Answer, "rollout.max_tokens", c.Rollout.MaxTokens
		default:
			out.Rows = append(out.Rows, r)
			continue
		}
		if c.Data.Overlong == OverlongError {
			return nil, fmt.Errorf("dataset %s, %s row %s: %w: %d tokens are more than %s %d: raise it, or set data.overlong to %s",
				c.Dataset, split, r.ID, ErrRows, n, key, limit, OverlongDrop)
		}
		out.Dropped[reason]++
	}
	dropped := out.Read - len(out.Rows)
	if share := float64(dropped) / float64(out.Read); len(out.Rows) == 0 || share > c.Data.MaxDropped {
		return nil, fmt.Errorf("dataset %s, split %s: %w: %d of %d rows would be left out, more than data.max_dropped %g allows: %s",
			c.Dataset, split, ErrRows, dropped, out.Read, c.Data.MaxDropped, rowset.Counts(out.Dropped))
	}
	return out, nil
}

// encode checks a record. Its own answer must be scored as exactly right, or no answer ever could be.
func encode(ctx context.Context, r *data.ExecutorRow, id string, rules reward.Rules, enc *codec.Codec) (row Row, terminator int32, err error) {
	if len(r.Prompt) == 0 || len(r.Completion) != 1 || r.Completion[0].Role != "assistant" {
		return row, 0, fmt.Errorf("%w: %d prompt messages, %d completion messages", errShape, len(r.Prompt), len(r.Completion))
	}
	row = Row{ID: id, Target: r.Completion[0].Content}
	if row.Reference, err = reward.NewReference(r.Reference, nil); err != nil {
		return row, 0, err
	}
	if s := rules.Score(row.Reference, row.Target); !s.Exact() {
		return row, 0, fmt.Errorf("%w: %s", errGold, s.Reason)
	}
	var messages []chat.Message
	for _, m := range append(slices.Clone(r.Prompt), r.Completion...) {
		messages = append(messages, chat.NewMessage(m.Role, m.Content))
	}
	turn, err := enc.Turn(ctx, messages)
	if err != nil {
		return row, 0, err
	}
	row.Prompt, row.Answer = turn.IDs[:turn.Prompt:turn.Prompt], len(turn.IDs)-turn.Prompt
	return row, turn.Terminator, nil
}

var (
	errShape = errors.New("not a prompt with one assistant message as its completion")
	errGold  = errors.New("the record's own answer is not scored as right")
)

// reasonOf is the kind of a row's error, to count by.
func reasonOf(err error) string {
	reason := "not encodable"
	for _, kind := range []error{errShape, errGold, reward.ErrReference, codec.ErrEmptyTurn, codec.ErrNoTerminator, chat.ErrNoAssistant, chat.ErrDropped, chat.ErrRefused} {
		if errors.Is(err, kind) {
			reason = kind.Error()
		}
	}
	return reason
}
