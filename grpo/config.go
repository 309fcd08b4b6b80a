// Package grpo is group-relative policy optimisation of the Executor (Earth-Agent-Pro §V-D, Eq. 10, 13 and 14): for every
// prompt a group of answers is drawn from the current policy, each is scored against the record's reference arguments, and
// what scored above its group's mean is made likelier, close to where training started.
package grpo

import (
	"errors"
	"fmt"
	"math"
	"time"

	"terraloom/lora/train"
	"terraloom/lora/train/rowset"
	"terraloom/lora/train/settings"
	"terraloom/lora/train/setup"
	"terraloom/reward"
)

// Sentinel errors.
var (
	// ErrConfig: settings that cannot be used.
	ErrConfig = setup.ErrConfig
	// ErrRows: rows of the dataset that cannot be trained on.
	ErrRows = rowset.ErrRows
	// ErrNoSpread: for too many steps in a row no group had answers of different reward, so nothing was learned.
	ErrNoSpread = errors.New("no spread of rewards inside any group")
	// ErrStale: answers that were drawn from other weights than those they should train.
	ErrStale = errors.New("stale rollouts")
	// ErrSampler: what draws the answers is not the model that is trained.
	ErrSampler = errors.New("the sampler disagrees with the model that is trained")
	// ErrServer: the server that draws answers failed.
	ErrServer = errors.New("rollout server")
)

// Config is the configuration of a run.
type Config struct {
	Out           string `yaml:"out"`     // run folder
	Dataset       string `yaml:"dataset"` // dataset folder
	setup.Config  `yaml:",inline"`
	Data          Data  `yaml:"data"`
	Batch         Batch `yaml:"batch"`
	train.Options `yaml:",inline"`
	Group         Group         `yaml:"group"`
	Rollout       Rollout       `yaml:"rollout"`
	Objective     Objective     `yaml:"objective"`
	Reward        reward.Config `yaml:"reward"`
}

// What happens to a prompt that is longer than data.max_prompt_tokens, or whose reference answer is longer than
// rollout.max_tokens.
const (
	OverlongError = "error" // the run does not start
	OverlongDrop  = "drop"  // it is left out and counted
)

// Data says which Executor records are used.
type Data struct {
	Train           string `yaml:"train"`             // split that is trained on
	Validation      string `yaml:"validation"`        // split that is measured; empty: none
	MaxPromptTokens int    `yaml:"max_prompt_tokens"` // longest prompt
	Overlong        string `yaml:"overlong"`          // error or drop
	// MaxDropped is the largest share of rows that may be left out before the run is refused.
	MaxDropped float64 `yaml:"max_dropped"`
	// TrainRows and ValidationRows limit the rows of each split to so many, drawn by a hash of their ids; 0: all.
	TrainRows      int `yaml:"train_rows"`
	ValidationRows int `yaml:"validation_rows"`
}

// Batch says how many prompts make a step and how their answers are laid out for training. Only Prompts and Updates
// change what is computed.
type Batch struct {
	Prompts int  `yaml:"prompts"` // of an optimiser step, each with a group of answers
	Updates int  `yaml:"updates"` // optimiser steps on the same answers
	Tokens  int  `yaml:"tokens"`  // padded tokens that are computed at once, on all devices together
	Packing bool `yaml:"packing"` // several answers in one row, which do not see each other
}

// Standard deviations of a group's rewards.
const (
	Sample     = "sample"     // divided by G − 1
	Population = "population" // divided by G
)

// Group says how a prompt's answers are compared, Eq. 14.
type Group struct {
	Size int     `yaml:"size"` // G
	Std  string  `yaml:"std"`  // sample or population
	Eps  float64 `yaml:"eps"`  // added to the deviation
	// Resample draws a group without spread again, with other random numbers, up to so many times.
	Resample int `yaml:"resample"`
	// MaxFlat rounds of answers in a row without any spread are borne; one more ends the run.
	MaxFlat int `yaml:"max_flat"`
}

// Engines that draw answers.
const (
	Local = "local" // this process, on merged weights
	VLLM  = "vllm"  // a vLLM server, to which every new adapter is handed as a folder
)

// Rollout says how answers are drawn.
type Rollout struct {
	Engine      string  `yaml:"engine"`      // local or vllm
	Temperature float64 `yaml:"temperature"` // of drawing, and of all probabilities in the objective
	MaxTokens   int     `yaml:"max_tokens"`  // of an answer, its end-of-turn token included
	Rows        int     `yaml:"rows"`        // answers that are drawn at a time
	// MaskTruncated leaves answers that were cut off at MaxTokens out of the objective; they are still scored.
	MaskTruncated bool `yaml:"mask_truncated"`
	// MaxGap is the largest mean difference between the log-probabilities that the sampler gave and those that training
	// computes from the same weights, in nats per token.
	MaxGap float64 `yaml:"max_gap"`

	// For vllm. The server must see the folder "rollout" of the run folder under the same path.
	URL     string        `yaml:"url"`     // http://host:port
	KeyEnv  string        `yaml:"key_env"` // environment variable with the API key; empty: none
	Timeout time.Duration `yaml:"timeout"` // of one answer
}

// Estimators of KL(p‖p_ref) on a drawn token, with d = log p_ref − log p and ρ the probability ratio of Eq. 10.
const (
	K3    = "k3"    // e^d − d − 1: unbiased in value; its gradient is that of KL(p_ref‖p)
	K2    = "k2"    // d²/2: its gradient is that of KL(p‖p_ref)
	K3Rho = "k3rho" // ρ·(e^d − d − 1), through ρ too: gradient of KL(p‖p_ref)
	Exact = "exact" // the sum over the whole vocabulary
)

// Means over tokens.
const (
	TokenMean    = "token"    // over all tokens of the step
	SequenceMean = "sequence" // over each answer's tokens, then over answers
	DrGRPO       = "dr_grpo"  // over answers × rollout.max_tokens (arXiv 2503.20783)
)

// References for KL.
const (
	Start = "start" // base with the adapter that training started from
	Bare  = "base"  // base alone
)

// Objective is the loss's constants, Eq. 10.
type Objective struct {
	ClipLow     float64 `yaml:"clip_low"`    // ε below 1
	ClipHigh    float64 `yaml:"clip_high"`   // ε above 1
	Beta        float64 `yaml:"beta"`        // weight of KL(p‖p_ref)
	KL          string  `yaml:"kl"`          // its estimator: exact, k2, k3 or k3rho
	Reference   string  `yaml:"reference"`   // p_ref: start or base
	Entropy     float64 `yaml:"entropy"`     // weight η of the bonus
	Aggregation string  `yaml:"aggregation"` // token, sequence or dr_grpo
}

// Default is GRPO-1 to GRPO-12.
func Default() Config {
	c := Config{
		Config: setup.Default(), Options: train.Default(),
		Data:  Data{Train: "train", Validation: "validation", MaxPromptTokens: 8192, Overlong: OverlongError, MaxDropped: 0.05, ValidationRows: 64},
		Batch: Batch{Prompts: 16, Updates: 1, Tokens: 16384, Packing: true},
		Group: Group{Size: 4, Std: Sample, Eps: 1e-6, MaxFlat: 10},
		Rollout: Rollout{Engine: Local, Temperature: 1, MaxTokens: 1024, Rows: 64, MaxGap: 0.1,
			Timeout: 10 * time.Minute},
		Objective: Objective{ClipLow: 0.2, ClipHigh: 0.2, Beta: 0.04, KL: K3, Reference: Start, Entropy: 0.001, Aggregation: TokenMean},
		Reward:    reward.Default(),
	}
	c.Optimizer.LR = 1e-5
	c.Schedule.Epochs = 1
	c.Checkpoint.Metric = "reward"
	return c
}

// LoadConfig reads a configuration over the defaults: the file at path, then the sets ("key=value"). All errors are
// reported at once.
func LoadConfig(path string, sets []string) (Config, settings.Origins, error) {
	c := Default()
	origins, err := settings.Load(path, sets, &c)
	if err != nil {
		return c, origins, err
	}
	return c, origins, c.Validate()
}

// Validate reports every bad setting by its key.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate(), c.Options.Validate(), c.Reward.Validate()}
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrConfig, key, fmt.Sprintf(format, args...)))
	}
	if c.Out == "" {
		bad("out", "missing: name the folder of the run")
	}
	if c.Dataset == "" {
		bad("dataset", "missing: name a dataset folder, as terraloom synth run makes them")
	}
	if c.Method == setup.Full {
		bad("method", "%s: policies are trained as adapters, whose base is the reference: use %s", c.Method, setup.LoRA)
	}
	d := c.Data
	if d.Train == "" {
		bad("data.train", "missing: name a split")
	}
	if d.Train == d.Validation {
		bad("data.validation", "%q is the split that is trained on: name another, or none", d.Validation)
	}
	oneOf := func(key, value string, known ...string) {
		for _, k := range known {
			if k == value {
				return
			}
		}
		bad(key, "%q: use one of %v", value, known)
	}
	oneOf("data.overlong", d.Overlong, OverlongError, OverlongDrop)
	oneOf("group.std", c.Group.Std, Sample, Population)
	oneOf("rollout.engine", c.Rollout.Engine, Local, VLLM)
	oneOf("objective.kl", c.Objective.KL, Exact, K2, K3, K3Rho)
	oneOf("objective.reference", c.Objective.Reference, Start, Bare)
	oneOf("objective.aggregation", c.Objective.Aggregation, TokenMean, SequenceMean, DrGRPO)
	if c.Group.Size < 2 {
		bad("group.size", "%d: an advantage is a difference inside a group, (r − mean)/(std + eps): use 2 or more; each step then draws batch.prompts × group.size answers", c.Group.Size)
	}
	for _, n := range []struct {
		key          string
		value, least int
	}{
		{"data.max_prompt_tokens", d.MaxPromptTokens, 1}, {"data.train_rows", d.TrainRows, 0}, {"data.validation_rows", d.ValidationRows, 0},
		{"batch.prompts", c.Batch.Prompts, 1}, {"batch.updates", c.Batch.Updates, 1}, {"batch.tokens", c.Batch.Tokens, 32},
		{"group.resample", c.Group.Resample, 0}, {"group.max_flat", c.Group.MaxFlat, 0},
		{"rollout.max_tokens", c.Rollout.MaxTokens, 1}, {"rollout.rows", c.Rollout.Rows, 1},
	} {
		if n.value < n.least {
			bad(n.key, "%d: use %d or more", n.value, n.least)
		}
	}
	for _, x := range []struct {
		key      string
		value    float64
		positive bool
	}{
		{"group.eps", c.Group.Eps, false}, {"rollout.temperature", c.Rollout.Temperature, true}, {"rollout.max_gap", c.Rollout.MaxGap, true},
		{"objective.clip_low", c.Objective.ClipLow, true}, {"objective.clip_high", c.Objective.ClipHigh, true},
		{"objective.beta", c.Objective.Beta, false}, {"objective.entropy", c.Objective.Entropy, false},
	} {
		if !(x.value >= 0) || math.IsInf(x.value, 0) || x.positive && x.value == 0 {
			least := "0 or more"
			if x.positive {
				least = "a number above 0"
			}
			bad(x.key, "%v: use %s", x.value, least)
		}
	}
	if !(d.MaxDropped >= 0 && d.MaxDropped < 1) {
		bad("data.max_dropped", "%v: use a share from 0 to below 1", d.MaxDropped)
	}
	if c.Objective.ClipLow >= 1 {
		bad("objective.clip_low", "%v: ratios are above 0: use less than 1", c.Objective.ClipLow)
	}
	c.validateServer(bad)
	return errors.Join(errs...)
}

// free are the keys that a resumed run may have otherwise than the run had before: they change no parameter.
var free = []string{"out", "checkpoint.every", "checkpoint.keep", "device.peak_tflops", "group.max_flat", "rollout.max_gap",
	"rollout.url", "rollout.key_env", "rollout.timeout"}

// layout is how answers become rectangles.
func (c Config) layout() train.Layout {
	l := train.Layout{Tokens: c.Batch.Tokens, Devices: c.Device.Count}
	if c.Batch.Packing {
		l.Row = c.Data.MaxPromptTokens + c.Rollout.MaxTokens
	}
	return l
}
