package slots

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"terraloom/data"
)

// Proposer asks a language model for slot programs over any OpenAI-compatible
// chat endpoint. Its proposals pass the same checks as discovered programs.
type Proposer struct {
	URL     string        // base, such as http://127.0.0.1:8000/v1
	Model   string        // model name
	Key     string        // bearer key; "" sends none. It is never logged.
	Tries   int           // requests at most, corrections included
	Timeout time.Duration // of one request
	Client  *http.Client  // nil: http.DefaultClient

	wait func(context.Context, time.Duration) error // tests replace it
}

// ErrProposal is returned where the model gave no program that passes.
var ErrProposal = errors.New("no valid program was proposed")

// Exchange is one request and its reply, kept so that a proposal can be checked
// again without the model.
type Exchange struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Reply    string    `json:"reply,omitempty"`
	Refused  string    `json:"refused,omitempty"` // why the reply was not taken
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// pause is how long to wait after the first failed request; each further one
// doubles it.
const pause = time.Second

// Propose asks for a program of the seed and has faults corrected until one
// passes Check or the tries are used up. The exchanges are returned in both
// cases; a failed request is never taken for a proposal, and the next one waits.
func (p *Proposer) Propose(ctx context.Context, seed *data.Trajectory, tools Tools) (*Program, []Exchange, error) {
	draft, err := Discover(seed, tools)
	if err != nil {
		return nil, nil, err
	}
	talk := []message{{"system", proposalRules}, {"user", proposalTask(seed, draft)}}
	var log []Exchange
	var last error
	wait := pause
	for try := range max(1, p.Tries) {
		x := Exchange{Model: p.Model, Messages: append([]message(nil), talk...)}
		if x.Reply, err = p.ask(ctx, talk); err != nil {
			if ctx.Err() != nil {
				return nil, log, ctx.Err()
			}
			last, x.Refused = err, err.Error()
			log = append(log, x)
			if try+1 < p.Tries {
				if err := p.sleep(ctx, wait); err != nil {
					return nil, log, err
				}
				wait *= 2
			}
			continue
		}
		program, err := Accept(x.Reply, p.Model, seed, tools)
		if err == nil {
			return program, append(log, x), nil
		}
		last, x.Refused = err, err.Error()
		log = append(log, x)
		talk = append(talk, message{"assistant", x.Reply}, message{"user", "The program was refused:\n" + err.Error() + "\nReply with the whole corrected program."})
	}
	return nil, log, fmt.Errorf("%w for %s: %w", ErrProposal, seed.ID, last)
}

func (p *Proposer) sleep(ctx context.Context, d time.Duration) error {
	if p.wait != nil {
		return p.wait(ctx, d)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Accept reads a model's reply as a program of the seed and checks it. The same
// reply always gives the same result.
func Accept(reply, model string, seed *data.Trajectory, tools Tools) (*Program, error) {
	text := reply
	if i := strings.Index(text, "```"); i >= 0 { // a fenced block, if there is one
		text = text[i+3:]
		text = strings.TrimPrefix(strings.TrimPrefix(text, "yaml"), "yml")
		if end := strings.Index(text, "```"); end >= 0 {
			text = text[:end]
		}
	}
	program, err := ParseProgram([]byte(text), "proposal")
	if err != nil {
		return nil, err
	}
	program.Origin, program.Seed, program.SeedHash, program.Review = model, seed.ID, HashSeed(seed), nil
	if program.Answer == "" {
		program.Answer = AnswerNone
	}
	_, err = Check(program, seed, tools)
	return program, err
}

// maxReply bounds what is read of a response.
const maxReply = 8 << 20

func (p *Proposer) ask(ctx context.Context, talk []message) (string, error) {
	if p.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Timeout)
		defer cancel()
	}
	body, err := json.Marshal(map[string]any{"model": p.Model, "messages": talk, "temperature": 0})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(p.URL, "/")+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if p.Key != "" {
		req.Header.Set("Authorization", "Bearer "+p.Key)
	}
	client := p.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return "", err
	}
	if p.Key != "" { // servers quote the key that they refuse
		text = bytes.ReplaceAll(text, []byte(p.Key), []byte("…"))
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the model server answers %s: %s", resp.Status, clip(string(text), 200))
	}
	var reply struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return "", fmt.Errorf("the model server's reply is not JSON: %w", err)
	}
	if len(reply.Choices) == 0 || strings.TrimSpace(reply.Choices[0].Message.Content) == "" {
		return "", errors.New("the model server's reply is empty")
	}
	return reply.Choices[0].Message.Content, nil
}

const proposalRules = `You write slot programs: YAML that says which values of a worked Earth-observation example may change, and how everything else follows.
Reply with one YAML document and nothing else.
- slots: name, type (place, bbox, date, period, file, artifact, number, threshold, count, text, observation), role (root or derived), group.
  A root slot has seed (its value in the example) and source: gazetteer {kind, need}, range {min, max, step, except} or choice [..].
  A derived slot has expr, an expression over other slots. Functions: shift(date, years, days), addMonths, addDays, daysBetween, year, month, dayOfYear, formatDate, round, clamp, pad, title, string, split, join, replace, bboxAround(lon, lat, km), distanceKm, vary(was(pointer), scale, offset), num(observed(step, pointer)), word(observed(step, pointer)), ranking(names, numbers) which gives "B > A = C". A place slot p has p.name, p.admin, p.country, p.continent, p.sea, p.near, p.lon, p.lat, p.bbox.
- occurrences: at (JSON pointer) with text (a template: {slot} or {slot:format}, "{{" is a brace) or slot (the whole value).
- answer: derived, fixed or none.
With every root at its seed value the program must give the example back byte for byte. No old place, date or sample number may be left when roots change. Tools, keys, bands, products and wavelengths are fixed.`

// proposalTask shows the seed and the program found by analysis.
func proposalTask(seed *data.Trajectory, draft *Program) string {
	var b strings.Builder
	b.WriteString("# Example\n")
	b.WriteString(seed.Value().JSON())
	b.WriteString("\n\n# Program found by analysis; improve it\n")
	b.Write(draft.YAML())
	return b.String()
}
