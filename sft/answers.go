package sft

import (
	"context"

	"terraloom/lora/decoder"
	"terraloom/lora/generate"
	"terraloom/lora/train/rowset"
	"terraloom/lora/train/run"
	"terraloom/reward/answers"
)

// writer lets the model that is trained answer prompts.
type writer struct {
	base   *decoder.Model // on one device
	owned  bool           // base is a copy of the writer's own
	engine *generate.Engine
}

// policy is the engine's name of the model that is trained.
const policy = "policy"

// openWriter makes the engine. Generation runs on one device: where training uses several, the base is loaded once more.
func (t *task) openWriter() (err error) {
	w := &writer{base: t.on.Model}
	if t.config.Device.Count > 1 {
		w.owned = true
		w.base, err = decoder.Load(t.on.Backend, t.base.Model.Config, t.base.Model, decoder.Options{Precision: decoder.Precision(t.config.Device.Precision)})
		if err != nil {
			return err
		}
	}
	stops := []int32{t.rows.Terminator}
	for _, id := range t.base.Model.Config.EOS {
		stops = append(stops, int32(id))
	}
	if w.engine, err = generate.New(t.on.Backend, w.base, generate.Options{Tokenizer: t.enc.Tokenizer, StopIDs: stops}); err != nil {
		if w.owned {
			w.base.Close()
		}
		return err
	}
	t.writer = w
	return nil
}

func (w *writer) close() {
	if w == nil {
		return
	}
	w.engine.Close()
	if w.owned {
		w.base.Close()
	}
}

// current makes the engine's policy the parameters as they are now. release takes it away again.
func (w *writer) current(t *task) (release func() error, err error) {
	params := t.on.Params
	if w.owned {
		host, err := params.Adapter()
		if err != nil {
			return nil, err
		}
		if params, err = w.base.Bind(host); err != nil {
			return nil, err
		}
		defer params.Free()
	}
	merged, err := w.base.Merged(params)
	if err != nil {
		return nil, err
	}
	if err := w.engine.Use(policy, merged); err != nil {
		merged.Close()
		return nil, err
	}
	return func() error {
		err := w.engine.Use(policy, nil)
		merged.Close()
		return err
	}, nil
}

// answer is a line of [run.SamplesFile].
type answer struct {
	Step      int     `json:"step"`
	ID        string  `json:"id"`
	Answer    string  `json:"answer"`
	Expected  string  `json:"expected"`
	Exact     bool    `json:"exact"`
	Truncated bool    `json:"truncated"` // generation.max_tokens came before the end of turn
	Reason    string  `json:"reason,omitempty"`
	Reward    float64 `json:"reward,omitempty"`
}

// answers lets the model answer validation prompts greedily and scores what it wrote.
func (t *task) answers(ctx context.Context, done int) (values []run.Value, err error) {
	if t.writer == nil {
		if err := t.openWriter(); err != nil {
			return nil, err
		}
	}
	release, err := t.writer.current(t)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := release(); err == nil {
			err = e
		}
	}()
	rows, err := t.answered()
	if err != nil {
		return nil, err
	}
	var requests []generate.Request
	for _, r := range rows {
		requests = append(requests, generate.Request{Model: policy, Prompt: r.Tokens[:r.Prompt], MaxTokens: t.config.Generation.MaxTokens})
	}
	results, err := t.writer.engine.Generate(ctx, requests)
	if err != nil {
		return nil, err
	}
	var sums tally
	for i, r := range results {
		a := answer{Step: done, ID: rows[i].ID, Answer: r.Text, Expected: rows[i].Target, Truncated: r.Reason == generate.Length}
		sums.add(&rows[i], &a, len(r.Tokens))
		if err := t.folder.Line(run.SamplesFile, a); err != nil {
			return nil, err
		}
	}
	return sums.values(), nil
}

// answered are the validation rows whose prompts the model answers, always the same ones.
func (t *task) answered() ([]Row, error) {
	chosen, err := rowset.Choose(t.validation.ids(), t.config.Generation.Rows)
	var rows []Row
	for _, i := range chosen {
		rows = append(rows, t.validation.Rows[i])
	}
	return rows, err
}

// tally collects the scores of answers, by role.
type tally struct {
	scores            map[string][]answers.Score
	truncated, tokens int
}

// add scores an answer and completes its line.
func (s *tally) add(row *Row, a *answer, tokens int) {
	if s.scores == nil {
		s.scores = map[string][]answers.Score{}
	}
	score := row.record.Score(a.Answer)
	a.Exact, a.Reason, a.Reward = score.Exact, score.Reason, score.Args.Reward
	s.scores[row.record.Role] = append(s.scores[row.record.Role], score)
	s.tokens += tokens
	if a.Truncated {
		s.truncated++
	}
}

// values are the means, under the role's name where there are two.
func (s *tally) values() []run.Value {
	var out []run.Value
	n := 0.0
	for _, role := range []string{Planner, Executor} {
		scores := s.scores[role]
		if len(scores) == 0 {
			continue
		}
		n += float64(len(scores))
		prefix := ""
		if len(s.scores) > 1 {
			prefix = role + "_"
		}
		for _, f := range answers.Means(role, scores) {
			out = append(out, run.Value{Name: prefix + f.Name, Number: f.Number})
		}
	}
	return append(out, run.Value{Name: "answer_tokens", Number: float64(s.tokens) / n}, run.Value{Name: "truncated", Number: float64(s.truncated) / n})
}
