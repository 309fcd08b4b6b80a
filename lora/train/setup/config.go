// Package setup is the part of a trainer's configuration and start that does not depend on what is learned: the base
// model and its codec, the adapter, the device, and the folder of the result.
package setup

import (
	"errors"
	"fmt"
	"path/filepath"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// ErrConfig: settings that cannot be used.
var ErrConfig = errors.New("bad configuration")

// Methods of training.
const (
	LoRA = "lora" // an adapter; the base stays as it is
	Full = "full" // all weights; for small models
)

// Config says what is trained and where. Its keys stand at the top level of trainers' configurations.
type Config struct {
	Base     string   `yaml:"base"`     // model folder, GGUF file, or the name of a pulled model
	Method   string   `yaml:"method"`   // lora or full
	Adapter  string   `yaml:"adapter"`  // adapter folder to start from; empty: a new adapter
	LoRA     Shape    `yaml:"lora"`     // of a new adapter
	Template Template `yaml:"template"` // of conversations
	Device   Device   `yaml:"device"`
}

// Shape is the form of a new adapter, see [adapter.Config].
type Shape struct {
	R       int      `yaml:"r"`
	Alpha   float64  `yaml:"alpha"`
	Dropout float64  `yaml:"dropout"`
	Targets []string `yaml:"targets"`
	RSLoRA  bool     `yaml:"rslora"`
	DoRA    bool     `yaml:"dora"`
}

// Template is how conversations become text, see [codec.Options].
type Template struct {
	File      string         `yaml:"file"`      // instead of the base's own chat template
	Variables map[string]any `yaml:"variables"` // such as enable_thinking
}

// Device is where training runs and in which precision.
type Device struct {
	Backend   string `yaml:"backend"` // auto, cuda, cpu or go
	Count     int    `yaml:"count"`   // devices that share each batch
	ShardBase bool   `yaml:"shard_base"`
	Precision string `yaml:"precision"` // of the base's matrices: auto (bfloat16 on CUDA, else float32), float32 or bfloat16; adapters are float32
	TF32      bool   `yaml:"tf32"`
	// KeepActivations spares the backward pass a third of its work for about ten times the memory of activations.
	KeepActivations bool `yaml:"keep_activations"`
	// WholeGraph compiles one program of all layers instead of one per kind of layer.
	WholeGraph bool `yaml:"whole_graph"`
	// PeakTFLOPs of all devices together, for the model FLOPs utilisation; 0: not reported. 989 for one H100 or H200.
	PeakTFLOPs float64 `yaml:"peak_tflops"`
}

// Default is LORA-2's adapter on the best device there is.
func Default() Config {
	return Config{
		Method: LoRA, LoRA: Shape{R: 16, Alpha: 32, Targets: []string{adapter.AllLinear}},
		Template: Template{Variables: map[string]any{"enable_thinking": false}},
		Device:   Device{Backend: backend.Auto, Count: 1, Precision: string(decoder.AutoPrecision)},
	}
}

// DType is that of the base's matrices on the device that the configuration leads to here.
func (d Device) DType() checkpoint.DType {
	auto := d.Precision == string(decoder.AutoPrecision) && (d.Backend == backend.CUDA || d.Backend == backend.Auto && backend.HasGPU())
	if auto || d.Precision == string(decoder.BFloat16) {
		return checkpoint.BF16
	}
	return checkpoint.F32
}

// AdapterConfig is the shape as package adapter has it.
func (c Config) AdapterConfig() adapter.Config {
	s := c.LoRA
	return adapter.Config{R: s.R, Alpha: s.Alpha, Dropout: s.Dropout, Targets: s.Targets, RSLoRA: s.RSLoRA, DoRA: s.DoRA}
}

// Validate reports every bad setting by its key; errors wrap [ErrConfig].
func (c Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrConfig, key, fmt.Sprintf(format, args...)))
	}
	if c.Base == "" {
		bad("base", "missing: name a model folder, a GGUF file or a pulled model")
	}
	switch c.Method {
	case LoRA:
		if err := c.AdapterConfig().Validate(); err != nil && c.Adapter == "" {
			bad("lora", "%v", err)
		}
	case Full:
		if c.Adapter != "" {
			bad("adapter", "%s: all weights are trained, not an adapter: merge it into the base first", c.Adapter)
		}
	default:
		bad("method", "%q: use %s or %s", c.Method, LoRA, Full)
	}
	d := c.Device
	switch d.Backend {
	case backend.Auto, backend.CUDA, backend.CPU, backend.Go:
	default:
		bad("device.backend", "%q: use %s, %s, %s or %s", d.Backend, backend.Auto, backend.CUDA, backend.CPU, backend.Go)
	}
	if d.Count < 1 {
		bad("device.count", "%d: use 1 or more", d.Count)
	}
	if d.ShardBase && d.Count == 1 {
		bad("device.shard_base", "one device has nobody to share the base with: raise device.count")
	}
	switch decoder.Precision(d.Precision) {
	case decoder.AutoPrecision, decoder.Float32, decoder.BFloat16:
	default:
		bad("device.precision", "%q: use %s, %s or %s", d.Precision, decoder.AutoPrecision, decoder.Float32, decoder.BFloat16)
	}
	if !(d.PeakTFLOPs >= 0) {
		bad("device.peak_tflops", "%v: use 0 or more", d.PeakTFLOPs)
	}
	return errors.Join(errs...)
}

// Name is a short name of the base, for adapter_config.json.
func (c Config) Name() string { return filepath.Base(c.Base) }
