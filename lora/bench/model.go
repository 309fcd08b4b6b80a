package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/generate"
	"terraloom/lora/train"
)

// rank of the adapters, on all projections.
const rank = 16

// subject is a model with random weights that is trained and decoded.
type subject struct {
	name           string
	config         checkpoint.Config
	rows, length   int // of a training batch
	prompt, answer int // tokens of a decoded row

	backend *backend.Backend
	machine *machine
	model   *decoder.Model // opened by the first part that needs it
	loading time.Duration
}

func (s *subject) open() (err error) {
	if s.model != nil {
		return nil
	}
	began := time.Now()
	weights, err := newTiled(s.config)
	if err != nil {
		return err
	}
	s.model, err = decoder.Load(s.backend, s.config, weights, decoder.Options{Precision: decoder.BFloat16})
	s.loading = time.Since(began)
	return err
}

func (s *subject) close() {
	if s.model != nil {
		s.model.Close()
		s.model = nil
	}
}

// tiled are random weights as [decoder.RandomWeights], but with every matrix filled from one block of normal numbers at an offset
// of its own: billions of draws would take longer than the measurements.
type tiled struct {
	rest   decoder.RandomWeights
	shapes map[string][]int
	block  []byte // bfloat16
}

// blockSize shares no factor with the width of a matrix: no two rows of one are alike.
const blockSize = 1<<20 + 7

func newTiled(c checkpoint.Config) (*tiled, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, blockSize)
	for i := range values {
		values[i] = float32(rng.NormFloat64() * 0.02)
	}
	var block bytes.Buffer
	if err := checkpoint.FromFloat32("block", checkpoint.BF16, []int{blockSize}, values).Write(&block); err != nil {
		return nil, err
	}
	t := &tiled{rest: decoder.RandomWeights{Config: c}, shapes: map[string][]int{}, block: block.Bytes()}
	for _, s := range c.TensorSpecs() {
		t.shapes[s.Name] = s.Shape
	}
	return t, nil
}

// Tensor implements [decoder.Weights].
func (t *tiled) Tensor(name string) (checkpoint.Tensor, error) {
	shape := t.shapes[name]
	if len(shape) != 2 {
		return t.rest.Tensor(name)
	}
	out := make([]byte, 2*shape[0]*shape[1])
	h := fnv.New64a()
	h.Write([]byte(name))
	from := 2 * int(h.Sum64()%blockSize)
	for at := 0; at < len(out); from = 0 {
		at += copy(out[at:], t.block[from:])
	}
	return checkpoint.Tensor{Name: name, DType: checkpoint.BF16, Shape: shape, Data: out}, nil
}

// Training is what steps of LoRA fine-tuning took: forward, backward layer by layer with recomputation, norm, AdamW.
type Training struct {
	Parameters int64     `json:"parameters"`
	Trained    int64     `json:"trained_parameters"`
	Rank       int       `json:"rank"`
	Rows       int       `json:"rows"`
	Length     int       `json:"tokens_per_row"`
	Load       float64   `json:"load_seconds"`
	Compile    float64   `json:"compile_seconds"` // of the first step over the median
	Steps      []float64 `json:"step_seconds"`
	Median     float64   `json:"median_step_seconds"`
	PerSecond  float64   `json:"tokens_per_second"`
	TFLOPs     float64   `json:"tflops_per_second"` // that the model needs, see train.Cost: recomputation left out
	// MFU is TFLOPs over Peak, which is the bfloat16 product that the check measured; a datasheet promises more.
	MFU       float64 `json:"mfu,omitempty"`
	Peak      float64 `json:"peak_tflops_measured,omitempty"`
	LossFirst float64 `json:"loss_first"`
	LossLast  float64 `json:"loss_last"`
	// XLA keeps a pool of the device's memory and PJRT's bindings do not say how full it was: the device's figure is an estimate.
	DeviceBytes int64 `json:"device_bytes_estimated"`
	HostPeak    int64 `json:"host_peak_bytes,omitempty"` // of the process so far
}

// timedSteps is how many steps are timed at most, after one that compiles.
const timedSteps = 6

func (s *subject) trainSteps(ctx context.Context) (any, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	a, err := adapter.New(&s.config, adapter.Config{R: rank, Alpha: 2 * rank, Targets: []string{adapter.AllLinear}}, 1, nil)
	if err != nil {
		return nil, err
	}
	p, err := s.model.Bind(a)
	if err != nil {
		return nil, err
	}
	defer p.Free()
	moments, err := p.NewMoments()
	if err != nil {
		return nil, err
	}
	defer moments.M.Free()
	defer moments.V.Free()
	rng := rand.New(rand.NewPCG(1, 1))
	rows, lengths := make([][]int32, s.rows), make([]int, s.rows)
	for r := range rows {
		for range s.length {
			rows[r] = append(rows[r], int32(rng.IntN(s.config.VocabSize)))
		}
		lengths[r] = s.length
	}
	batch := decoder.PadRight(rows)
	labels := batch.NextTokens(nil)
	t := Training{Parameters: s.config.Parameters(), Trained: p.Count(), Rank: rank, Rows: s.rows, Length: s.length, Load: s.loading.Seconds(),
		DeviceBytes: s.config.TrainMemory(checkpoint.Workload{Batch: s.rows, Tokens: s.length, Rank: rank})}
	var first time.Duration
	for i := range 1 + timedSteps {
		if err := ctx.Err(); err != nil {
			if len(t.Steps) > 0 {
				break // enough to tell
			}
			return nil, fmt.Errorf("no step was timed: %w", err)
		}
		began := time.Now()
		loss, err := loraStep(s.model, p, moments, batch, labels)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		if t.LossLast = loss; i == 0 {
			t.LossFirst, first = loss, time.Since(began)
		} else {
			t.Steps = append(t.Steps, time.Since(began).Seconds())
		}
	}
	t.Median = middle(t.Steps)
	t.Compile = first.Seconds() - t.Median
	t.PerSecond = float64(s.rows*s.length) / t.Median
	cost := train.NewCost(&s.config, p.Count(), false).Of(lengths, len(labels.At))
	t.TFLOPs = cost / t.Median / 1e12
	if s.machine.matmul > 0 {
		t.Peak = s.machine.matmul / 1e12
		t.MFU = t.TFLOPs / t.Peak
	}
	t.HostPeak = hostPeak()
	return t, nil
}

// loraStep is one optimiser step on the mean loss of the labels, which it returns.
func loraStep(m *decoder.Model, p *decoder.Params, moments *decoder.Moments, batch decoder.Batch, labels decoder.Labels) (float64, error) {
	sums, err := p.Zeros()
	if err != nil {
		return 0, err
	}
	defer sums.Free()
	pass, err := m.Forward(batch, p, decoder.Train{Backward: true})
	if err != nil {
		return 0, err
	}
	defer pass.Free()
	n := len(labels.At)
	scores, err := pass.Backward(labels, decoder.Coefficients{LogProb: slices.Repeat([]float32{-1 / float32(n)}, n)}, sums)
	if err != nil {
		return 0, err
	}
	norm, err := p.Norm(sums)
	if err != nil {
		return 0, err
	}
	loss := meanLoss(scores.LogProb)
	if bad := loss + norm; math.IsNaN(bad) || math.IsInf(bad, 0) {
		return 0, fmt.Errorf("loss %v, norm of the gradient %v", loss, norm)
	}
	if err := p.Update(moments, sums, decoder.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, min(1, 1/(norm+1e-6))); err != nil {
		return 0, err
	}
	_, err = p.Norm(&p.Vectors) // waits for the update
	return loss, err
}

func meanLoss(logProbs []float32) float64 {
	var sum float64
	for _, l := range logProbs {
		sum -= float64(l)
	}
	return sum / float64(len(logProbs))
}

// Decoding is the speed of one batch of rows, greedily.
type Decoding struct {
	Rows            int     `json:"rows"`
	Prompt          int     `json:"prompt_tokens"`
	Answer          int     `json:"answer_tokens"`
	PerSecond       float64 `json:"tokens_per_second"` // of all rows, prompts left out
	Step            float64 `json:"step_seconds"`      // one token of every row
	PromptPerSecond float64 `json:"prompt_tokens_per_second"`
	Compile         float64 `json:"compile_seconds"`
	Bytes           float64 `json:"bytes_per_step"` // weights, keys, values and states that a step must read or write
	// Share is Bytes/Step over the bandwidth that the copy measured.
	Share float64 `json:"bandwidth_share,omitempty"`
}

// decodeAll measures 1, 4 and 16 rows; those that were done are returned beside an error.
func (s *subject) decodeAll(ctx context.Context) (any, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	var all []Decoding
	var errs []error
	for _, rows := range []int{1, 4, 16} {
		d, err := s.decode(ctx, rows)
		if err != nil {
			errs = append(errs, fmt.Errorf("%d rows: %w", rows, err))
			continue
		}
		all = append(all, d)
	}
	return all, errors.Join(errs...)
}

func (s *subject) decode(ctx context.Context, rows int) (d Decoding, err error) {
	e, err := generate.New(s.backend, s.model, generate.Options{StopIDs: []int32{}, MaxRows: rows, Chunk: s.answer / 4})
	if err != nil {
		return d, err
	}
	defer e.Close()
	requests := make([]generate.Request, rows)
	for i := range requests {
		requests[i] = generate.Request{Prompt: make([]int32, s.prompt), MaxTokens: s.answer, StopIDs: []int32{}}
		for j := range requests[i].Prompt {
			requests[i].Prompt[j] = int32((i*131 + j*17) % s.config.VocabSize)
		}
	}
	// The first piece comes after the prompt; what follows is decoding alone.
	var first, last time.Time
	tokens := 0
	requests[0].Emit = func(p generate.Piece) {
		if last = time.Now(); first.IsZero() {
			first = last
		} else {
			tokens += len(p.Tokens)
		}
	}
	var compile time.Duration
	step, prefill, best := math.Inf(1), math.Inf(1), time.Duration(math.MaxInt64)
	for i := range 3 {
		first, tokens = time.Time{}, 0
		began := time.Now()
		if _, err := e.Generate(ctx, requests); err != nil {
			if i > 1 { // one round was timed
				break
			}
			return d, err
		}
		took := time.Since(began)
		if tokens == 0 {
			return d, fmt.Errorf("%d tokens came in one piece", s.answer)
		}
		if i == 0 {
			compile = took
			continue
		}
		best = min(best, took)
		one := last.Sub(first).Seconds() / float64(tokens)
		step = min(step, one)
		prefill = min(prefill, first.Sub(began).Seconds()-one*float64(s.answer-tokens))
	}
	c := &s.config
	d = Decoding{Rows: rows, Prompt: s.prompt, Answer: s.answer, PerSecond: float64(rows) / step, Step: step, Compile: (compile - best).Seconds(), Bytes: s.stepBytes(rows)}
	if prefill > 0 {
		d.PromptPerSecond = float64(rows*(s.prompt-1)) / prefill
	}
	if s.machine.bandwidth > 0 {
		d.Share = d.Bytes / step / s.machine.bandwidth
	}
	if d.Step <= 0 || math.IsInf(d.Step, 0) {
		return d, fmt.Errorf("a step of %s took %v seconds", c.Architecture, d.Step)
	}
	return d, nil
}

// stepBytes are the bytes that one decoding step cannot do without: every bfloat16 weight once (the tied embedding as the head),
// the float32 keys and values of all columns so far, and the float32 states of the delta rule, read and written.
func (s *subject) stepBytes(rows int) float64 {
	c := &s.config
	columns := s.prompt + s.answer/2
	cache := rows * columns * c.CountLayers(checkpoint.FullAttention) * 2 * c.KVDim()
	l := c.LinearAttn
	states := 2 * rows * c.CountLayers(checkpoint.LinearAttention) * l.ValueHeads * l.KeyHeadDim * l.ValueHeadDim
	return 2*float64(c.Parameters()) + 4*float64(cache+states)
}

func middle(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// hostPeak is the largest resident set of the process in bytes, as Linux tells it; 0 elsewhere.
func hostPeak() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
