package sft

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"terraloom/data"
	"terraloom/data/plan"
	"terraloom/lora/chat"
	"terraloom/lora/codec"
	"terraloom/lora/train"
	"terraloom/lora/train/rowset"
	"terraloom/reward"
	"terraloom/reward/answers"
)

// ErrRows: rows of the dataset that cannot be trained on.
var ErrRows = rowset.ErrRows

// Row is one record as tokens.
type Row struct {
	ID string
	train.Sample
	Prompt int    // tokens before the answer
	Target string // the answer's text

	record answers.Record
}

// record is a row of a dataset, of either role.
type record struct {
	id, role           string
	prompt, completion []data.Message
}

// Rows are the usable rows of a split, in the dataset's order.
type Rows struct {
	Split      string
	Rows       []Row
	Read       int            // rows of the split that were looked at
	Dropped    map[string]int // rows that were left out, by reason
	Truncated  int
	Terminator int32 // the end-of-turn token of all rows
}

// Why rows are left out.
const (
	tooLong    = "longer than data.max_tokens"
	unlabelled = "no answer left after truncation"
)

// readRows reads a split and encodes it. Every row that is wrong is looked at before the error, which counts them by
// reason; rows that are left out by choice are counted in the result.
func readRows(ctx context.Context, ds *data.Dataset, c Config, split string, limit int, enc *codec.Codec) (*Rows, error) {
	var records []record
	for r, err := range roleRecords(ds, c.Role, split) {
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("dataset %s: %w: the split %q has no %s records", c.Dataset, ErrRows, split, c.Role)
	}
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.id
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
	out := &Rows{Split: split, Read: len(records), Dropped: map[string]int{}}
	encoded, errs := make([]Row, len(records)), make([]error, len(records))
	terminators := make([]int32, len(records))
	rowset.Each(len(records), func(i int) {
		encoded[i], terminators[i], errs[i] = encode(ctx, records[i], c.Data.CompletionOnlyLoss, enc)
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := rowset.Refuse(errs, ids, fmt.Sprintf("dataset %s, split %s", c.Dataset, split), reasonOf); err != nil {
		return nil, err
	}
	out.Terminator = terminators[0]
	for _, r := range encoded {
		if len(r.Tokens) > c.Data.MaxTokens {
			switch c.Data.Overlong {
			case OverlongError:
				return nil, fmt.Errorf("dataset %s, %s row %s: %w: %d tokens are more than data.max_tokens %d: raise it, or set data.overlong to %s or %s",
					c.Dataset, split, r.ID, ErrRows, len(r.Tokens), c.Data.MaxTokens, OverlongDrop, OverlongTruncate)
			case OverlongDrop:
				out.Dropped[tooLong]++
				continue
			}
			r.Tokens, r.Label = r.Tokens[:c.Data.MaxTokens], r.Label[:c.Data.MaxTokens]
			out.Truncated++
		}
		if r.Labels() == 0 {
			out.Dropped[unlabelled]++
			continue
		}
		out.Rows = append(out.Rows, r)
	}
	if len(out.Rows) == 0 {
		return nil, fmt.Errorf("dataset %s, split %s: %w: no row of %d has a labelled token left (%s)",
			c.Dataset, split, train.ErrNothingToTrain, out.Read, rowset.Counts(out.Dropped))
	}
	if left := len(out.Rows); float64(out.Read-left) > c.Data.MaxDropped*float64(out.Read) {
		return nil, fmt.Errorf("dataset %s, split %s: %w: %d of %d rows would be left out (%s), data.max_dropped allows a share of %v",
			c.Dataset, split, ErrRows, out.Read-left, out.Read, rowset.Counts(out.Dropped), c.Data.MaxDropped)
	}
	return out, nil
}

// reasonOf is the kind of a row's error, to count by.
func reasonOf(err error) string {
	for _, kind := range []error{plan.ErrNotPlan, codec.ErrEmptyTurn, codec.ErrNoTerminator, chat.ErrNoAssistant, chat.ErrDropped, chat.ErrRefused, errShape, reward.ErrReference} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	var prefix *chat.PrefixError
	if errors.As(err, &prefix) {
		return "the prompt is not how the whole text begins"
	}
	return "not encodable"
}

var errShape = errors.New("not a prompt with one assistant message as its completion")

// roleRecords iterates over the records of a role.
func roleRecords(ds *data.Dataset, role, split string) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		if role != Executor {
			for r, err := range ds.Planner(split) {
				if err != nil {
					yield(record{}, err)
					return
				}
				if !yield(record{r.TrajectoryID, Planner, r.Prompt, r.Completion}, nil) {
					return
				}
			}
		}
		if role != Planner {
			for r, err := range ds.Executor(split) {
				if err != nil {
					yield(record{}, err)
					return
				}
				if !yield(record{fmt.Sprintf("%s#%d", r.TrajectoryID, r.Node), Executor, r.Prompt, r.Completion}, nil) {
					return
				}
			}
		}
	}
}

// encode checks a record and turns it into tokens of which the answer and its end-of-turn token are labelled, or all but
// the first.
func encode(ctx context.Context, r record, completionOnly bool, enc *codec.Codec) (row Row, terminator int32, err error) {
	if len(r.prompt) == 0 || len(r.completion) != 1 || r.completion[0].Role != "assistant" {
		return row, 0, fmt.Errorf("%w: %d prompt messages, %d completion messages", errShape, len(r.prompt), len(r.completion))
	}
	row = Row{ID: r.id, Target: r.completion[0].Content}
	if row.record, err = answers.New(r.role, row.Target); err != nil {
		return row, 0, err
	}
	var messages []chat.Message
	for _, m := range append(slices.Clone(r.prompt), r.completion...) {
		messages = append(messages, chat.NewMessage(m.Role, m.Content))
	}
	turn, err := enc.Turn(ctx, messages)
	if err != nil {
		return row, 0, err
	}
	row.Tokens, row.Prompt = turn.IDs, turn.Prompt
	row.Label = make([]bool, len(turn.IDs))
	first := turn.Prompt
	if !completionOnly {
		first = 1 // nothing predicts the first token
	}
	for i := first; i < len(turn.IDs); i++ {
		row.Label[i] = true
	}
	return row, turn.Terminator, nil
}
