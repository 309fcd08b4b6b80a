// Package sft is supervised fine-tuning of the agent's models on prompt–completion records (Earth-Agent-Pro §V-C, Eq. 10):
// prompts are masked, the answer and its end-of-turn token are learned.
package sft

import (
	"errors"
	"fmt"

	"terraloom/lora/train"
	"terraloom/lora/train/settings"
	"terraloom/lora/train/setup"
	"terraloom/reward/answers"
)

// ErrConfig: settings that cannot be used.
var ErrConfig = setup.ErrConfig

// Roles of the model that is trained: which records of a dataset it learns.
const (
	Planner  = answers.Planner
	Executor = answers.Executor
	Both     = "both" // for bases that serve both
)

// What happens to a row that is longer than data.max_tokens.
const (
	OverlongError    = "error"    // the run does not start
	OverlongDrop     = "drop"     // it is left out and counted
	OverlongTruncate = "truncate" // its end is cut off; what remains of the answer is still learned
)

// Config is the configuration of a run.
type Config struct {
	Out           string `yaml:"out"`     // run folder
	Dataset       string `yaml:"dataset"` // dataset folder
	Role          string `yaml:"role"`    // planner, executor or both
	setup.Config  `yaml:",inline"`
	Data          Data  `yaml:"data"`
	Batch         Batch `yaml:"batch"`
	train.Options `yaml:",inline"`
	Generation    Generation `yaml:"generation"`
}

// Data says which rows are used.
type Data struct {
	Train      string `yaml:"train"`      // split that is learned
	Validation string `yaml:"validation"` // split that is measured; empty: none
	MaxTokens  int    `yaml:"max_tokens"` // of a row, answer included
	Overlong   string `yaml:"overlong"`   // error, drop or truncate
	// MaxDropped is the largest share of rows that may be left out, for whatever reason, before the run is refused.
	MaxDropped float64 `yaml:"max_dropped"`
	// TrainRows and ValidationRows limit the rows of each split to so many, drawn by a hash of their ids; 0: all.
	TrainRows      int `yaml:"train_rows"`
	ValidationRows int `yaml:"validation_rows"`
	// CompletionOnlyLoss false learns prompts too, as pre-training does; validation measures what is learned.
	CompletionOnlyLoss bool `yaml:"completion_only_loss"`
}

// Batch says how many rows make a step and how they are laid out. Only Rows changes what is computed.
type Batch struct {
	Rows    int  `yaml:"rows"`    // of an optimiser step
	Tokens  int  `yaml:"tokens"`  // padded tokens that are computed at once, on all devices together
	Packing bool `yaml:"packing"` // several rows in one, which do not see each other
}

// Generation says what is measured by letting the model answer validation prompts, greedily.
type Generation struct {
	Rows      int `yaml:"rows"`       // prompts; 0: none
	MaxTokens int `yaml:"max_tokens"` // of an answer
}

// Default is SFT-4 and SFT-5.
func Default() Config {
	return Config{
		Role: Planner, Config: setup.Default(), Options: train.Default(),
		Data:       Data{Train: "train", Validation: "validation", MaxTokens: 8192, Overlong: OverlongError, MaxDropped: 0.05, CompletionOnlyLoss: true},
		Batch:      Batch{Rows: 32, Tokens: 8192, Packing: true},
		Generation: Generation{Rows: 32, MaxTokens: 512},
	}
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
	errs := []error{c.Config.Validate(), c.Options.Validate()}
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrConfig, key, fmt.Sprintf(format, args...)))
	}
	if c.Out == "" {
		bad("out", "missing: name the folder of the run")
	}
	if c.Dataset == "" {
		bad("dataset", "missing: name a dataset folder, as terraloom synth run makes them")
	}
	if c.Role != Planner && c.Role != Executor && c.Role != Both {
		bad("role", "%q: use %s, %s or %s", c.Role, Planner, Executor, Both)
	}
	d := c.Data
	if d.Train == "" {
		bad("data.train", "missing: name a split")
	}
	if d.Train == d.Validation {
		bad("data.validation", "%q is the split that is trained on: name another, or none", d.Validation)
	}
	switch d.Overlong {
	case OverlongError, OverlongDrop, OverlongTruncate:
	default:
		bad("data.overlong", "%q: use %s, %s or %s", d.Overlong, OverlongError, OverlongDrop, OverlongTruncate)
	}
	if !(d.MaxDropped >= 0 && d.MaxDropped < 1) {
		bad("data.max_dropped", "%v: use a share from 0 to below 1", d.MaxDropped)
	}
	for _, n := range []struct {
		key          string
		value, least int
	}{
		{"data.max_tokens", d.MaxTokens, 2}, {"data.train_rows", d.TrainRows, 0}, {"data.validation_rows", d.ValidationRows, 0},
		{"batch.rows", c.Batch.Rows, 1}, {"batch.tokens", c.Batch.Tokens, 32},
		{"generation.rows", c.Generation.Rows, 0}, {"generation.max_tokens", c.Generation.MaxTokens, 1},
	} {
		if n.value < n.least {
			bad(n.key, "%d: use %d or more", n.value, n.least)
		}
	}
	return errors.Join(errs...)
}

// free are the keys that a resumed run may have otherwise than the run had before: they change no parameter.
var free = []string{"out", "checkpoint.every", "checkpoint.keep", "device.peak_tflops"}

// layout is how rows become rectangles.
func (c Config) layout() train.Layout {
	l := train.Layout{Tokens: c.Batch.Tokens, Devices: c.Device.Count}
	if c.Batch.Packing {
		l.Row = c.Data.MaxTokens
	}
	return l
}
