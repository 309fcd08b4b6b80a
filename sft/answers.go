package sft

import (
	"context"

	"terraloom/data/plan"
	"terraloom/lora/decoder"
	"terraloom/lora/generate"
	"terraloom/lora/train/run"
	"terraloom/reward"
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
	return sums.values(t.config.Role), nil
}

// answered are the validation rows whose prompts the model answers, always the same ones.
func (t *task) answered() ([]Row, error) {
	chosen, err := some(t.validation.ids(), t.config.Generation.Rows)
	var rows []Row
	for _, i := range chosen {
		rows = append(rows, t.validation.Rows[i])
	}
	return rows, err
}

// tally sums the scores of answers.
type tally struct {
	n, parsed, exact, truncated, tokens int
	plan                                plan.Score // sums
	reward, keys                        float64
}

// add scores an answer and completes its line.
func (s *tally) add(row *Row, a *answer, tokens int) {
	s.n++
	s.tokens += tokens
	if a.Truncated {
		s.truncated++
	}
	if row.reference != nil {
		score := reward.DefaultRules().Score(row.reference, a.Answer)
		a.Exact, a.Reason, a.Reward = score.Exact(), score.Reason, score.Reward
		s.reward += score.Reward
		s.keys += float64(score.Matched) / float64(score.Keys)
		if score.Status == reward.Object {
			s.parsed++
		}
	} else {
		tools, err := plan.Parse(a.Answer)
		if err != nil {
			a.Reason = err.Error()
		} else {
			s.parsed++
		}
		c := plan.Compare(row.plan, tools)
		a.Exact = c.Exact
		s.plan.AnyOrder += c.AnyOrder
		s.plan.InOrder += c.InOrder
		s.plan.ExactMatch += c.ExactMatch
		s.plan.Efficiency += c.Efficiency
	}
	if a.Exact {
		s.exact++
	}
}

// values are the means.
func (s *tally) values(role string) []run.Value {
	n := float64(s.n)
	out := []run.Value{{Name: "parse_rate", Number: float64(s.parsed) / n}, {Name: "exact_match", Number: float64(s.exact) / n}}
	if role == Planner {
		out = append(out, run.Value{Name: "tools_any_order", Number: s.plan.AnyOrder / n}, run.Value{Name: "tools_in_order", Number: s.plan.InOrder / n},
			run.Value{Name: "tools_exact_match", Number: s.plan.ExactMatch / n}, run.Value{Name: "efficiency", Number: s.plan.Efficiency / n})
	} else {
		out = append(out, run.Value{Name: "reward", Number: s.reward / n}, run.Value{Name: "key_accuracy", Number: s.keys / n})
	}
	return append(out, run.Value{Name: "answer_tokens", Number: float64(s.tokens) / n}, run.Value{Name: "truncated", Number: float64(s.truncated) / n})
}
