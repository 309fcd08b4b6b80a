package serve

import (
	"net/http"
	"time"

	"terraloom/data/strictjson"
	"terraloom/lora/generate"
)

// completionRequest is the body of /v1/completions.
type completionRequest struct {
	common
	prompts      [][]int32
	logprobs     bool
	alternatives int
}

func (s *Server) readCompletion(w http.ResponseWriter, r *http.Request) (*completionRequest, error) {
	f, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	q := &completionRequest{common: s.common(&f)}
	q.max = f.integer("max_tokens", 1, 1<<30, 16) // as the API has it
	q.alternatives = f.integer("logprobs", 0, 20, -1)
	q.logprobs, q.alternatives = q.alternatives >= 0, max(q.alternatives, 0)
	if f.flag("echo") {
		f.fail("echo", "not supported")
	}
	if f.text("suffix") != "" {
		f.fail("suffix", "not supported")
	}
	if f.integer("best_of", 1, maxChoices, q.n) != q.n {
		f.fail("best_of", "not supported")
	}
	prompt := f.get("prompt")
	if err := f.done(); err != nil {
		return nil, err
	}
	if q.prompts, err = s.readPrompts(prompt); err != nil {
		return nil, err
	}
	if n := len(q.prompts) * q.n; n > maxChoices {
		return nil, invalid("prompt", "%d prompts with n %d make %d completions, at most %d are served at once", len(q.prompts), q.n, n, maxChoices)
	}
	return q, nil
}

// readPrompts reads a text, a list of ids, or a list of either.
func (s *Server) readPrompts(v strictjson.Value) ([][]int32, error) {
	switch {
	case v.Kind() == strictjson.String:
		return [][]int32{generate.RawPrompt(s.model.Tokenizer, v.Text())}, nil
	case v.Kind() != strictjson.Array || v.Len() == 0:
		return nil, invalid("prompt", "prompt: expected a text, a list of token ids, or a list of these")
	case v.Index(0).Kind() == strictjson.Number:
		ids, err := readIDs(v)
		return [][]int32{ids}, err
	}
	var out [][]int32
	for i := range v.Len() {
		p, err := s.readPrompts(v.Index(i))
		switch {
		case err != nil:
			return nil, err
		case len(p) != 1:
			return nil, invalid("prompt", "prompt %d: expected a text or a list of token ids", i)
		}
		out = append(out, p[0])
	}
	return out, nil
}

func readIDs(v strictjson.Value) ([]int32, error) {
	ids := make([]int32, v.Len())
	for i := range ids {
		x, ok := v.Index(i).Float()
		if !ok || !v.Index(i).IsInteger() || x < 0 || x >= 1<<31 {
			return nil, invalid("prompt", "prompt: %s is no token id", v.Index(i).JSON())
		}
		ids[i] = int32(x)
	}
	return ids, nil
}

type textChoice struct {
	Index    int           `json:"index"`
	Text     string        `json:"text"`
	LogProbs *textLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

// textAnswer puts one choice together.
type textAnswer struct {
	server   *Server
	logprobs bool
	index    int

	text   string
	tokens []generate.Token
	reason string
	offset int
}

func (a *textAnswer) take(p generate.Piece) {
	a.text += p.Text
	a.tokens = append(a.tokens, p.Tokens...)
	a.reason = string(p.Reason)
}

func (a *textAnswer) choice() any {
	c := textChoice{Index: a.index, Text: a.text, Finish: &a.reason}
	if a.logprobs {
		c.LogProbs = a.server.textLogProbs(a.tokens, 0)
	}
	return c
}

func (a *textAnswer) chunks(p generate.Piece) []any {
	c := textChoice{Index: a.index, Text: p.Text}
	if a.logprobs {
		c.LogProbs = a.server.textLogProbs(p.Tokens, a.offset)
		for _, t := range c.LogProbs.Tokens {
			a.offset += len([]rune(t))
		}
	}
	if p.Reason != "" {
		c.Finish = new(string(p.Reason))
	}
	if c.Text == "" && c.Finish == nil && !a.logprobs {
		return nil
	}
	return []any{c}
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readCompletion(w, r)
	if err != nil {
		return err
	}
	leave, err := s.enter(len(q.prompts) * q.n)
	if err != nil {
		return err
	}
	defer leave()
	var rows []generate.Request
	var answers []*textAnswer
	for _, prompt := range q.prompts {
		for i := range q.n {
			row := q.row(prompt, i)
			row.Alternatives = q.alternatives
			answers = append(answers, &textAnswer{server: s, logprobs: q.logprobs, index: len(rows)})
			rows = append(rows, row)
		}
	}
	header := completionHeader{ID: newID("cmpl-"), Object: "text_completion", Created: time.Now().Unix(), Model: q.shown}
	out := w.(*recorder)
	if !q.stream {
		return s.answerWhole(r.Context(), out, rows, &header, func(i int, p generate.Piece) { answers[i].take(p) },
			func(i int) any { return answers[i].choice() })
	}
	return s.answerStream(r.Context(), out, rows, &header, q.usage, func(int) any { return nil },
		func(i int, p generate.Piece) []any { return answers[i].chunks(p) })
}
