package grpo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"terraloom/lora/adapter"
	"terraloom/lora/decoder"
	"terraloom/lora/generate"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/traintest"
)

// faults are what can be wrong with a server.
type faults struct {
	noUpdating   bool                                              // started without runtime updating: the routes do not exist
	ignoreLoRA   bool                                              // binds no module and answers with the base
	frozen       bool                                              // goes on answering with the first adapter, under every name
	answersAs    string                                            // names another model in its answers
	busy         int                                               // requests to refuse with 503 first
	maxLen       int                                               // positions
	spoil        func(choice map[string]any)                       // changes answers
	rawLogProbs  bool                                              // gives other probabilities than it draws with
	onCompletion func(r *http.Request, w http.ResponseWriter) bool // answers itself
}

// standIn behaves as a vLLM server does with --enable-lora, --max-lora-rank 16 and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, as
// far as the trainer uses one: its routes, its errors, its defaults where a request leaves something out.
type standIn struct {
	tb     testing.TB
	base   *decoder.Model
	engine *generate.Engine
	faults

	mu       sync.Mutex
	adapters map[string]*decoder.Model
	first    string
	loads    []string
	unloads  []string
	requests int
	key      string
}

func newStandIn(t *testing.T, c Config) *standIn {
	p := prepare(t, c)
	on := traintest.Place(t, p.Base)
	engine, err := generate.New(on.Backend, on.Model, generate.Options{Tokenizer: p.Base.Codec.Tokenizer, MaxRows: 16})
	check(t, err)
	t.Cleanup(engine.Close)
	return &standIn{tb: t, base: on.Model, engine: engine, faults: faults{maxLen: 256}, adapters: map[string]*decoder.Model{}}
}

func (s *standIn) start(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("POST /v1/load_lora_adapter", s.load)
	mux.HandleFunc("POST /v1/unload_lora_adapter", s.unload)
	mux.HandleFunc("POST /v1/completions", s.completions)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		refuse := s.busy > 0
		if refuse {
			s.busy--
		}
		s.mu.Unlock()
		switch {
		case s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key:
			refuseWith(w, http.StatusUnauthorized, "Unauthorized")
		case refuse:
			refuseWith(w, http.StatusServiceUnavailable, "busy")
		case s.noUpdating && strings.HasSuffix(r.URL.Path, "_lora_adapter"):
			http.NotFound(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// must reports what should not happen in the server; its goroutines cannot end a test.
func (s *standIn) must(err error) {
	if err != nil {
		s.tb.Error(err)
	}
}

func refuseWith(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": "BadRequestError", "code": status}})
}

func (s *standIn) models(w http.ResponseWriter, _ *http.Request) {
	json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": []any{map[string]any{"id": "base", "max_model_len": s.maxLen}}})
}

func (s *standIn) load(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name string `json:"lora_name"`
		Path string `json:"lora_path"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Name == "" || body.Path == "" {
		refuseWith(w, http.StatusBadRequest, "Both 'lora_name' and 'lora_path' must be provided.")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.adapters[body.Name] != nil {
		refuseWith(w, http.StatusBadRequest, fmt.Sprintf("The lora adapter '%s' has already been loaded.", body.Name))
		return
	}
	a, err := adapter.Load(body.Path, &s.base.Config)
	if err != nil {
		refuseWith(w, http.StatusNotFound, "Loading lora "+body.Name+" failed: No adapter found for "+body.Path)
		return
	}
	if a.Config.R > 16 {
		refuseWith(w, http.StatusBadRequest, fmt.Sprintf("LoRA rank %d is greater than max_lora_rank 16.", a.Config.R))
		return
	}
	if s.ignoreLoRA {
		for i := range a.B {
			clear(a.B[i])
		}
	}
	params, err := s.base.Bind(a)
	s.must(err)
	defer params.Free()
	merged, err := s.base.Merged(params)
	s.must(err)
	s.must(s.engine.Use(body.Name, merged))
	s.adapters[body.Name] = merged
	s.loads = append(s.loads, body.Name)
	if s.first == "" {
		s.first = body.Name
	}
	fmt.Fprintf(w, "Success: LoRA adapter '%s' added successfully.", body.Name)
}

func (s *standIn) unload(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name string `json:"lora_name"`
	}
	s.must(json.NewDecoder(r.Body).Decode(&body))
	s.mu.Lock()
	defer s.mu.Unlock()
	merged := s.adapters[body.Name]
	if merged == nil {
		refuseWith(w, http.StatusNotFound, fmt.Sprintf("The lora adapter '%s' cannot be found.", body.Name))
		return
	}
	s.unloads = append(s.unloads, body.Name)
	if !s.frozen {
		delete(s.adapters, body.Name)
		err := s.engine.Use(body.Name, nil)
		for errors.Is(err, generate.ErrInUse) { // by requests whose clients have just gone
			time.Sleep(time.Millisecond)
			err = s.engine.Use(body.Name, nil)
		}
		s.must(err)
		merged.Close()
	}
	fmt.Fprintf(w, "Success: LoRA adapter '%s' removed successfully.", body.Name)
}

func (s *standIn) completions(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model       string
		Prompt      []int32
		MaxTokens   int      `json:"max_tokens"`
		Temperature *float64 // vLLM's default is 1, or the model's own
		TopP        *float64 `json:"top_p"`
		TopK        *int     `json:"top_k"`
		Seed        uint64
		Stops       []int32 `json:"stop_token_ids"`
		LogProbs    *int
		ReturnIDs   bool `json:"return_token_ids"`
	}
	s.must(json.NewDecoder(r.Body).Decode(&body))
	s.mu.Lock()
	s.requests++
	known := s.adapters[body.Model] != nil
	model := body.Model
	if s.frozen {
		model = s.first
	}
	s.mu.Unlock()
	if !known {
		refuseWith(w, http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist.", body.Model))
		return
	}
	if s.onCompletion != nil && s.onCompletion(r, w) {
		return
	}
	// A model's generation_config.json speaks where the request does not: here as Qwen's does.
	sampling := generate.Sampling{Temperature: 0.6, TopK: 20, TopP: 0.95, Seed: body.Seed}
	if body.Temperature != nil {
		sampling.Temperature = *body.Temperature
	}
	if body.TopK != nil {
		sampling.TopK = max(*body.TopK, 0)
	}
	if body.TopP != nil {
		sampling.TopP = *body.TopP
	}
	results, err := s.engine.Generate(r.Context(), []generate.Request{{Model: model, Prompt: body.Prompt, MaxTokens: body.MaxTokens, Sampling: sampling, StopIDs: body.Stops}})
	if err != nil {
		refuseWith(w, http.StatusBadRequest, err.Error())
		return
	}
	result := results[0]
	choice := map[string]any{"index": 0, "text": result.Text, "finish_reason": string(result.Reason)}
	if body.LogProbs != nil {
		var probs []any
		for _, p := range result.Tokens {
			x := p.Sampled
			if s.rawLogProbs {
				x /= 2 // no longer that of the distribution drawn from
			}
			probs = append(probs, x)
		}
		choice["logprobs"] = map[string]any{"token_logprobs": probs}
	}
	if body.ReturnIDs {
		choice["token_ids"], choice["prompt_token_ids"] = result.IDs(), body.Prompt
	}
	if s.spoil != nil {
		s.spoil(choice)
	}
	name := body.Model
	if s.answersAs != "" {
		name = s.answersAs
	}
	json.NewEncoder(w).Encode(map[string]any{"model": name, "choices": []any{choice}})
}

// serverConfig is a run on a server.
func serverConfig(c Config, url string) Config {
	c.Rollout.Engine, c.Rollout.URL = VLLM, url
	return c
}

// A run on a server is a run: it learns from answers of the adapter as it is in each step, takes old ones off the server, and
// can be resumed. Its answers are drawn from the whole distribution whatever the model's generation_config.json says.
func TestServerRollouts(t *testing.T) {
	c := warmConfig(t, "llama")
	s := newStandIn(t, c)
	s.key, s.busy = "secret", 2
	t.Setenv("GRPO_TEST_KEY", s.key)
	c = serverConfig(c, s.start(t))
	c.Rollout.KeyEnv = "GRPO_TEST_KEY"
	c.Batch.Updates, c.Schedule.Steps = 2, 4
	c.Data.Validation = "validation"
	mustRun(t, c, "never")
	for _, r := range traintest.Records(t, c.Out, run.Train) {
		if gap, ok := r.Get("sampler_gap"); ok && gap > 1e-4 {
			t.Errorf("step %d: server and training differ by %v", r.Step, gap)
		}
	}
	// The probe, the start, after two updates, after four for validation.
	if len(s.loads) != 4 || len(s.unloads) != 4 || len(s.adapters) != 0 {
		t.Errorf("loaded %v, unloaded %v", s.loads, s.unloads)
	}
	for i, l := range s.loads {
		if i > 0 && !strings.HasPrefix(l, fmt.Sprintf("terraloom-%d-", 2*(i-1))) {
			t.Errorf("load %d is %s", i, l)
		}
	}
	if _, err := os.Stat(filepath.Join(c.Out, rolloutDir)); err == nil {
		t.Error("adapters stay in the run folder")
	}
	if n := s.requests; n != 4+2*2*4+4 {
		t.Errorf("%d completions", n)
	}
	straight := traintest.AdapterHash(t, c.Base, filepath.Join(c.Out, run.AdapterDir))

	c.Out = filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := runOn(t, ctx, c, "never", func(s train.Status) {
		if s.Done == 1 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := traintest.AdapterHash(t, c.Base, mustRun(t, c, "auto").Path); got != straight {
		t.Error("resumed: another adapter")
	}
}

// What is wrong with a server ends the run before the first step, with what to do about it.
func TestServersThatAreRefused(t *testing.T) {
	base := warmConfig(t, "llama")
	s := newStandIn(t, base)
	good := s.faults
	base = serverConfig(base, s.start(t))
	for name, c := range map[string]struct {
		fault  func(*faults)
		config func(*Config)
		want   error
		says   string
	}{
		"G18: binds no module":      {func(s *faults) { s.ignoreLoRA = true }, nil, ErrSampler, "does not apply the adapter"},
		"raw log-probabilities":     {func(s *faults) { s.rawLogProbs = true }, func(c *Config) { c.Rollout.MaxGap = 0.01 }, ErrSampler, "off"},
		"answers for another model": {func(s *faults) { s.answersAs = "base" }, nil, ErrStale, `model "base"`},
		"no runtime updating":       {func(s *faults) { s.noUpdating = true }, nil, ErrServer, "VLLM_ALLOW_RUNTIME_LORA_UPDATING"},
		"too short":                 {func(s *faults) { s.maxLen = 90 }, nil, ErrServer, "--max-model-len 96"},
		"L11: rank above its limit": {nil, func(c *Config) { c.Adapter, c.LoRA.R = "", 32 }, ErrServer, "--max-lora-rank at least 32"},
		"no ids of tokens":          {func(s *faults) { s.spoil = func(c map[string]any) { delete(c, "token_ids") } }, nil, ErrServer, "no token_ids"},
		"other prompt":              {func(s *faults) { s.spoil = func(c map[string]any) { c["prompt_token_ids"] = []int{1} } }, nil, ErrServer, "other prompt tokens"},
		"fewer probabilities": {func(s *faults) {
			s.spoil = func(c map[string]any) { c["logprobs"] = map[string]any{"token_logprobs": []float64{}} }
		}, nil, ErrServer, "0 log-probabilities"},
		"aborted answers": {func(s *faults) { s.spoil = func(c map[string]any) { c["finish_reason"] = "abort" } }, nil, ErrServer, `"abort"`},
		"no end of turn where it stops": {func(s *faults) {
			s.spoil = func(c map[string]any) {
				c["finish_reason"] = "stop"
				ids := c["token_ids"].([]int32)
				ids[len(ids)-1] = 7
			}
		}, nil, ErrServer, "ends no turn"},
		"broken": {func(s *faults) { s.busy = 1 << 30 }, nil, ErrServer, "503"},
		"not JSON": {func(s *faults) {
			s.onCompletion = func(_ *http.Request, w http.ResponseWriter) bool { fmt.Fprint(w, "<html>"); return true }
		}, nil, ErrServer, "no completion"},
	} {
		t.Run(name, func(t *testing.T) {
			config := base
			config.Out = filepath.Join(t.TempDir(), "run")
			if c.config != nil {
				c.config(&config)
			}
			s.faults = good
			if c.fault != nil {
				c.fault(&s.faults)
			}
			_, err := runOn(t, context.Background(), config, "never", nil)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, expected %v saying %q", err, c.want, c.says)
			}
			if n := len(traintest.Records(t, config.Out, run.Train)); n != 0 {
				t.Errorf("%d steps were done", n)
			}
		})
	}
}

// G11: a server that goes on answering from an old adapter under the new one's name is found out by its probabilities.
func TestServerWithOldWeights(t *testing.T) {
	c := warmConfig(t, "llama")
	s := newStandIn(t, c)
	c = serverConfig(c, s.start(t))
	p := prepare(t, c)
	folder, err := run.Open(c.Out, false)
	check(t, err)
	defer folder.Close()
	task, err := p.task(context.Background(), traintest.Place(t, p.Base), folder)
	check(t, err)
	defer task.close()
	s.frozen = true // from now on it answers from the probe
	sums, err := task.on.Params.Zeros()
	check(t, err)
	defer sums.Free()
	if _, err := task.Gradient(context.Background(), train.Step{Rows: []int{0, 1}}, sums); !errors.Is(err, ErrSampler) {
		t.Errorf("error %v", err)
	}
}

// G8: tokens without a log-probability are counted and train all the same.
func TestServerWithoutSomeLogProbs(t *testing.T) {
	c := warmConfig(t, "llama")
	s := newStandIn(t, c)
	s.spoil = func(c map[string]any) {
		c["logprobs"].(map[string]any)["token_logprobs"].([]any)[0] = nil
	}
	c = serverConfig(c, s.start(t))
	c.Schedule.Steps = 1
	mustRun(t, c, "never")
	if n := traintest.Value(t, traintest.Records(t, c.Out, run.Train)[0], "sampler_missing"); n != 2*4 {
		t.Errorf("%v tokens without a log-probability, expected one of each answer", n)
	}
}

// A cancelled run does not wait for a server that hangs.
func TestServerThatHangs(t *testing.T) {
	c := warmConfig(t, "llama")
	s := newStandIn(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	s.onCompletion = func(r *http.Request, _ http.ResponseWriter) bool {
		cancel()
		<-r.Context().Done()
		return true
	}
	if _, err := runOn(t, ctx, serverConfig(c, s.start(t)), "never", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
