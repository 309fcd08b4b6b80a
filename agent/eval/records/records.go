// Package records measures base models and adapters on the Planner and Executor records of a dataset: every model answers
// the same prompts, greedily, and what it writes is scored as training scores it.
package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"terraloom/data"
	"terraloom/lora/backend"
	"terraloom/lora/chat"
	"terraloom/lora/codec"
	"terraloom/lora/decoder"
	"terraloom/lora/generate"
	"terraloom/reward/answers"
)

// Base is the name of the model without an adapter.
const Base = "base"

var (
	// ErrOptions: options that cannot be used.
	ErrOptions = errors.New("bad options")
	// ErrNoRecords: the split has no record of the role that can be measured.
	ErrNoRecords = errors.New("no records to measure")
)

// Options of a measurement.
type Options struct {
	Model     string           // base: folder, GGUF file or name
	Adapters  []generate.Named // measured after the base, in this order
	Precision decoder.Precision
	Dataset   string
	Split     string
	Role      string
	Rows      int // records, drawn by a hash of their ids; 0: all
	MaxPrompt int // tokens; longer prompts are left out and counted; 0: the model's positions bound them
	MaxTokens int // of an answer
}

// Validate reports every bad option at once.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
	}
	if !slices.Contains(data.Splits, o.Split) {
		bad("split %q: use one of %q", o.Split, data.Splits)
	}
	if o.Role != answers.Planner && o.Role != answers.Executor {
		bad("role %q: use %s or %s", o.Role, answers.Planner, answers.Executor)
	}
	if o.Rows < 0 || o.MaxPrompt < 0 || o.MaxTokens < 1 {
		bad("%d rows, prompts of %d tokens, answers of %d: use 0 or more, and answers of at least 1", o.Rows, o.MaxPrompt, o.MaxTokens)
	}
	for _, a := range o.Adapters {
		if a.Name == Base || a.Name == "" {
			bad("adapter %q: the name is that of the base: use another", a.Name)
		}
	}
	return errors.Join(errs...)
}

// Report is what was measured.
type Report struct {
	Model   string  `json:"model"`
	Dataset string  `json:"dataset"`
	Split   string  `json:"split"`
	Role    string  `json:"role"`
	Records int     `json:"records"`
	TooLong int     `json:"too_long"` // records left out for the length of their prompts
	Models  []Model `json:"models"`   // the base first
}

// Model is one model's part of a report.
type Model struct {
	Name    string           `json:"name"`
	Adapter string           `json:"adapter,omitempty"` // folder
	Figures []answers.Figure `json:"figures"`
	Answers []Answer         `json:"answers"`
}

// Answer is what a model wrote to one record.
type Answer struct {
	ID        string  `json:"id"`
	Answer    string  `json:"answer"`
	Expected  string  `json:"expected"`
	Exact     bool    `json:"exact"`
	Reward    float64 `json:"reward"` // of an Executor record
	Truncated bool    `json:"truncated"`
	Reason    string  `json:"reason,omitempty"`
}

// record is a row that is measured.
type record struct {
	id       string
	prompt   []chat.Message
	expected answers.Record
}

// Run measures the base and the adapters.
func Run(ctx context.Context, b *backend.Backend, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	all, err := read(o)
	if err != nil {
		return nil, err
	}
	l, err := generate.Open(b, o.Model, o.Adapters, o.Precision, generate.Options{Chunk: 32, MaxRows: maxRows})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if l.Codec == nil {
		return nil, fmt.Errorf("%s: %w", o.Model, codec.ErrNoTemplate)
	}
	if err := variables(l, o); err != nil {
		return nil, err
	}
	out := &Report{Model: o.Model, Dataset: o.Dataset, Split: o.Split, Role: o.Role}
	kept, prompts, err := o.choose(ctx, l, all)
	if err != nil {
		return nil, err
	}
	out.Records, out.TooLong = len(kept), len(all)-len(prompts)
	for _, m := range append([]generate.Named{{}}, o.Adapters...) {
		measured, err := o.measure(ctx, l, m, kept)
		if err != nil {
			return nil, err
		}
		out.Models = append(out.Models, *measured)
	}
	return out, nil
}

// maxRows answers are written at a time.
const maxRows = 64

// read reads the records of the role.
func read(o Options) ([]record, error) {
	ds, err := data.OpenDataset(o.Dataset)
	if err != nil {
		return nil, err
	}
	var out []record
	for r, err := range rows(ds, o.Role, o.Split) {
		if err != nil {
			return nil, err
		}
		if len(r.completion) != 1 {
			return nil, fmt.Errorf("dataset %s, split %s, row %s: %d completion messages, expected one", o.Dataset, o.Split, r.id, len(r.completion))
		}
		expected, err := answers.New(o.Role, r.completion[0].Content)
		if err != nil {
			return nil, fmt.Errorf("dataset %s, split %s, row %s: %w", o.Dataset, o.Split, r.id, err)
		}
		rec := record{id: r.id, expected: expected}
		for _, m := range r.prompt {
			rec.prompt = append(rec.prompt, chat.NewMessage(m.Role, m.Content))
		}
		out = append(out, rec)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("dataset %s: %w: the split %s has no %s records", o.Dataset, ErrNoRecords, o.Split, o.Role)
	}
	return out, nil
}

// row is a row of either table.
type row struct {
	id                 string
	prompt, completion []data.Message
}

func rows(ds *data.Dataset, role, split string) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		if role == answers.Planner {
			for r, err := range ds.Planner(split) {
				if err != nil {
					yield(row{}, err)
					return
				}
				if !yield(row{r.TrajectoryID, r.Prompt, r.Completion}, nil) {
					return
				}
			}
			return
		}
		for r, err := range ds.Executor(split) {
			if err != nil {
				yield(row{}, err)
				return
			}
			if !yield(row{fmt.Sprintf("%s#%d", r.TrajectoryID, r.Node), r.Prompt, r.Completion}, nil) {
				return
			}
		}
	}
}

// variables gives models without a record those template variables that trainers set unless they are told otherwise, so
// that a base is asked as its adapters are.
func variables(l *generate.Loaded, o Options) error {
	off, err := chat.ParseValue(json.RawMessage("false"))
	if err != nil {
		return err
	}
	l.Variables[""] = map[string]chat.Value{"enable_thinking": off}
	for _, a := range o.Adapters {
		if v, ok := l.Variables[a.Name]; ok {
			l.Variables[""] = v
			break
		}
	}
	return nil
}

// choose encodes the prompts for the base and keeps those that are short enough: all of them by place, and the chosen.
func (o Options) choose(ctx context.Context, l *generate.Loaded, all []record) (kept []record, short []string, err error) {
	limit := l.Config.MaxPositions - o.MaxTokens
	if o.MaxPrompt > 0 {
		limit = min(limit, o.MaxPrompt)
	}
	var fit []record
	for _, r := range all {
		ids, err := l.Prompt(ctx, "", chat.Conversation{Messages: r.prompt}, time.Time{})
		if err != nil {
			return nil, nil, fmt.Errorf("row %s: %w", r.id, err)
		}
		if len(ids) <= limit {
			fit, short = append(fit, r), append(short, r.id)
		}
	}
	if len(fit) == 0 {
		return nil, nil, fmt.Errorf("dataset %s, split %s: %w: all %d prompts are longer than %d tokens", o.Dataset, o.Split, ErrNoRecords, len(all), limit)
	}
	if o.Rows == 0 {
		return fit, short, nil
	}
	for _, i := range data.Choose(short, o.Rows) {
		kept = append(kept, fit[i])
	}
	return kept, short, nil
}

// measure lets one model answer.
func (o Options) measure(ctx context.Context, l *generate.Loaded, m generate.Named, kept []record) (*Model, error) {
	requests := make([]generate.Request, len(kept))
	for i, r := range kept {
		ids, err := l.Prompt(ctx, m.Name, chat.Conversation{Messages: r.prompt}, time.Time{})
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", r.id, err)
		}
		requests[i] = generate.Request{Model: m.Name, Prompt: ids, MaxTokens: o.MaxTokens}
	}
	results, err := l.Engine.Generate(ctx, requests)
	if err != nil {
		return nil, err
	}
	out := &Model{Name: m.Name, Adapter: m.Dir}
	if m.Name == "" {
		out.Name = Base
	}
	var scores []answers.Score
	truncated, tokens := 0.0, 0.0
	for i, r := range results {
		s := kept[i].expected.Score(r.Text)
		scores = append(scores, s)
		a := Answer{ID: kept[i].id, Answer: r.Text, Expected: kept[i].expected.Target, Exact: s.Exact, Reward: s.Args.Reward, Truncated: r.Reason == generate.Length, Reason: s.Reason}
		if a.Truncated {
			truncated++
		}
		tokens += float64(len(r.Tokens))
		out.Answers = append(out.Answers, a)
	}
	n := float64(len(results))
	out.Figures = append(answers.Means(o.Role, scores), answers.Figure{Name: "answer_tokens", Number: tokens / n}, answers.Figure{Name: "truncated", Number: truncated / n})
	return out, nil
}
