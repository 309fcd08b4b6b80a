package grpo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"terraloom/lora/adapter"
	"terraloom/lora/decoder"
	"terraloom/lora/train/run"
	"terraloom/lora/train/setup"
)

// validateServer reports bad settings of a rollout server.
func (c Config) validateServer(bad func(key, format string, args ...any)) {
	r := c.Rollout
	if r.Engine != VLLM {
		for _, k := range []struct{ key, value string }{{"rollout.url", r.URL}, {"rollout.key_env", r.KeyEnv}} {
			if k.value != "" {
				bad(k.key, "%q is for rollout.engine %s only", k.value, VLLM)
			}
		}
		return
	}
	if u, err := url.Parse(r.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		bad("rollout.url", "%q is no http:// or https:// address of a vLLM server", r.URL)
	}
	if r.KeyEnv != "" && os.Getenv(r.KeyEnv) == "" {
		bad("rollout.key_env", "the environment variable %s is not set", r.KeyEnv)
	}
	if r.Timeout <= 0 {
		bad("rollout.timeout", "%v: use a duration above 0, such as 10m", r.Timeout)
	}
}

// rolloutDir is the folder in a run folder through which adapters reach the server.
const rolloutDir = "rollout"

// server draws on a vLLM server that was started with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True. Every version
// of the adapter gets a name of its own, made of version and content. So no cache of the server's can mix versions up, and the
// model that an answer names says which weights it was drawn from.
type server struct {
	config Rollout
	base   *setup.Base
	stops  []int32
	folder string // absolute: where adapters are put
	client *http.Client
	key    string

	loaded string // adapter's name on the server; empty: none
}

func newServer(c Config, base *setup.Base, folder *run.Folder, terminator int32) (*server, error) {
	path, err := filepath.Abs(folder.Path(rolloutDir))
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = c.Rollout.Rows
	return &server{config: c.Rollout, base: base, stops: stops(base, terminator), folder: path, key: os.Getenv(c.Rollout.KeyEnv),
		client: &http.Client{Transport: transport, Timeout: c.Rollout.Timeout}}, nil
}

// goodbye is how long the end of a run waits for the server.
const goodbye = 5 * time.Second

// close takes the run's adapter off the server.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	s.unload(ctx, s.loaded)
	s.loaded = ""
	s.client.CloseIdleConnections()
	return os.RemoveAll(s.folder)
}

// sample implements [sampler].
func (s *server) sample(ctx context.Context, params *decoder.Params, version int, requests []request) ([]drawn, error) {
	if err := s.sync(ctx, params, version); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, errs := make([]drawn, len(requests)), make([]error, len(requests))
	free := make(chan struct{}, s.config.Rows)
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if out[i], errs[i] = s.complete(ctx, r, version); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	for _, err := range errs { // the first that is not the consequence of another
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	return out, errors.Join(errs...)
}

// sync hands the server the parameters as they are, and takes the former ones away.
func (s *server) sync(ctx context.Context, params *decoder.Params, version int) error {
	host, err := params.Adapter()
	if err != nil {
		return err
	}
	host.Base = s.base.Config.Name()
	name := fmt.Sprintf("terraloom-%d-%.16s", version, host.Hash())
	if name == s.loaded {
		return nil
	}
	dir := filepath.Join(s.folder, name)
	if err := host.Save(dir, adapter.SaveOptions{Prefix: adapter.PrefixOf(s.base.Model)}); err != nil && !errors.Is(err, adapter.ErrExists) {
		return err
	}
	_, err = s.post(ctx, "/v1/load_lora_adapter", map[string]any{"lora_name": name, "lora_path": dir})
	var refused *refusal
	if errors.As(err, &refused) && strings.Contains(refused.message, "already been loaded") {
		err = nil // by an earlier process of this run: the name holds the content's hash
	}
	if err != nil {
		hint := "does the server see that folder, and is its --max-lora-rank at least %d?"
		if refused != nil && refused.status == http.StatusNotFound {
			hint = "start the server with --enable-lora, --max-lora-rank %d and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
		}
		return fmt.Errorf("loading the adapter %s: %w: %s", dir, err, fmt.Sprintf(hint, host.Config.R))
	}
	s.unload(ctx, s.loaded)
	s.loaded = name
	return nil
}

// unload takes an adapter off the server. That it fails costs the server memory and the run nothing.
func (s *server) unload(ctx context.Context, name string) {
	if name == "" {
		return
	}
	if _, err := s.post(ctx, "/v1/unload_lora_adapter", map[string]any{"lora_name": name}); err != nil {
		slog.Warn("the rollout server keeps an old adapter", "name", name, "error", err)
	}
	if err := os.RemoveAll(filepath.Join(s.folder, name)); err != nil {
		slog.Warn("an old adapter's folder stays", "error", err)
	}
}

// completion is what /v1/completions answers, as far as it is used.
type completion struct {
	Model   string
	Choices []struct {
		FinishReason string  `json:"finish_reason"`
		TokenIDs     []int32 `json:"token_ids"`
		PromptIDs    []int32 `json:"prompt_token_ids"`
		LogProbs     struct {
			Token []*float32 `json:"token_logprobs"`
		} `json:"logprobs"`
	}
}

// complete asks for one answer. Whatever could cut or bend the distribution is switched off by name, because a server takes
// what a request leaves out from the model's generation_config.json.
func (s *server) complete(ctx context.Context, r request, version int) (d drawn, err error) {
	text, err := s.post(ctx, "/v1/completions", map[string]any{
		"model": s.loaded, "prompt": r.prompt, "max_tokens": r.maxTokens, "temperature": r.temperature, "seed": int64(r.seed >> 1), "n": 1,
		"top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "min_tokens": 0,
		"stop_token_ids": s.stops, "logprobs": 0, "return_token_ids": true, "add_special_tokens": false,
	})
	if err != nil {
		return d, err
	}
	var c completion
	if err := json.Unmarshal(text, &c); err != nil {
		return d, fmt.Errorf("%w %s: answer is no completion: %w", ErrServer, s.config.URL, err)
	}
	if c.Model != s.loaded {
		return d, fmt.Errorf("%w: the server answered with model %q, asked was %q", ErrStale, c.Model, s.loaded)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w %s: %s", ErrServer, s.config.URL, fmt.Sprintf(format, args...))
	}
	if len(c.Choices) != 1 {
		return d, bad("%d choices, asked was 1", len(c.Choices))
	}
	choice := c.Choices[0]
	switch {
	case choice.FinishReason != "stop" && choice.FinishReason != "length":
		return d, bad("an answer ended for the reason %q", choice.FinishReason)
	case len(choice.TokenIDs) == 0:
		return d, bad("an answer has no token_ids: training needs the very tokens: use vLLM 0.10.2 or newer")
	case choice.PromptIDs != nil && !slices.Equal(choice.PromptIDs, r.prompt):
		return d, bad("the server read other prompt tokens than it was sent")
	case len(choice.LogProbs.Token) != len(choice.TokenIDs):
		return d, bad("an answer of %d tokens has %d log-probabilities", len(choice.TokenIDs), len(choice.LogProbs.Token))
	case choice.FinishReason == "stop" && !slices.Contains(s.stops, choice.TokenIDs[len(choice.TokenIDs)-1]):
		return d, bad("an answer ended with token %d, which ends no turn here (%v)", choice.TokenIDs[len(choice.TokenIDs)-1], s.stops)
	}
	d = drawn{tokens: choice.TokenIDs, truncated: choice.FinishReason == "length", version: version}
	for _, p := range choice.LogProbs.Token {
		if p == nil {
			d.logProbs = append(d.logProbs, float32(math.NaN()))
		} else {
			d.logProbs = append(d.logProbs, *p)
		}
	}
	d.text, err = s.base.Codec.Tokenizer.DecodeSkipSpecial(d.tokens)
	return d, err
}

// limit checks that the longest request fits the server, before the first one.
func (s *server) limit(ctx context.Context, tokens int) error {
	text, err := s.call(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return err
	}
	var list struct {
		Data []struct {
			ID  string
			Max int `json:"max_model_len"`
		}
	}
	if err := json.Unmarshal(text, &list); err != nil || len(list.Data) == 0 {
		return fmt.Errorf("%w %s: /v1/models lists no model: %.200s", ErrServer, s.config.URL, text)
	}
	if m := list.Data[0]; m.Max > 0 && m.Max < tokens {
		return fmt.Errorf("%w %s: %s takes %d tokens, data.max_prompt_tokens and rollout.max_tokens are %d: start it with --max-model-len %d",
			ErrServer, s.config.URL, m.ID, m.Max, tokens, tokens)
	}
	return nil
}

// refusal is an answer of the server that is no success.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.message) }

// attempts of a call that fails for reasons that may pass: the requests change nothing that a second one would change again.
const attempts = 4

func (s *server) post(ctx context.Context, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return s.call(ctx, http.MethodPost, path, text)
}

// call sends a request, again after a pause if the server is busy, restarting or out of reach.
func (s *server) call(ctx context.Context, method, path string, body []byte) (answer []byte, err error) {
	pause := 100 * time.Millisecond
	for try := 1; ; try++ {
		answer, err = s.once(ctx, method, path, body)
		var refused *refusal
		passing := err != nil && (!errors.As(err, &refused) || refused.status >= 500 || refused.status == http.StatusTooManyRequests)
		if !passing || try == attempts || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause *= 5
	}
	if err != nil {
		if e := ctx.Err(); e != nil {
			return nil, e
		}
		return nil, fmt.Errorf("%w %s%s: %w", ErrServer, strings.TrimRight(s.config.URL, "/"), path, err)
	}
	return answer, nil
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

func (s *server) once(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.config.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &refusal{resp.StatusCode, messageOf(text)}
	}
	return text, nil
}

// messageOf finds the message of an error: newer servers put it into an object of its own.
func messageOf(text []byte) string {
	var e struct {
		Message string
		Error   struct{ Message string }
	}
	if json.Unmarshal(text, &e) == nil {
		for _, m := range []string{e.Error.Message, e.Message} {
			if m != "" {
				return m
			}
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%.300s", text))
}
