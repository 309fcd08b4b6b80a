package setup

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/checkpoint"
	"terraloom/lora/codec"
	"terraloom/lora/decoder"
	"terraloom/lora/provenance"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
)

// Base is an open base model with what training needs of its files. Nothing is on a device yet.
type Base struct {
	Config Config
	Model  *checkpoint.Model
	Codec  *codec.Codec
	// Start is the adapter that training starts from; nil where all weights are trained.
	Start *adapter.Adapter
	// Parent is the hash of the adapter that was read from disk; empty: Start is new.
	Parent string
	// Notices are facts that a person should see before the run.
	Notices []string
}

// Open opens the base, its tokenizer and template, and makes or reads the adapter. seed is of a new adapter.
func Open(c Config, seed uint64) (b *Base, err error) {
	b = &Base{Config: c}
	if b.Model, err = checkpoint.Open(c.Base); err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
			b = nil
		}
	}()
	var template []byte
	if c.Template.File != "" {
		if template, err = os.ReadFile(c.Template.File); err != nil {
			return b, fmt.Errorf("%w: template.file: %w", ErrConfig, err)
		}
	}
	if b.Codec, err = codec.Open(b.Model, codec.Options{Template: string(template), Variables: c.Template.Variables}); err != nil {
		return b, fmt.Errorf("base: %w", err)
	}
	if n, v := b.Codec.Tokenizer.VocabSize(), b.Model.Config.VocabSize; n > v {
		return b, fmt.Errorf("%w: base: the tokenizer has %d tokens, the model %d: they do not belong together", ErrConfig, n, v)
	}
	b.Notices = append(append(b.Notices, b.Model.Config.Assumed...), b.Model.Notes...)
	if b.Model.Quantised() {
		b.Notices = append(b.Notices, "the base is quantised: what is trained makes up for its rounding too, and belongs to it")
	}
	if c.Method == Full {
		if len(b.Model.TokenizerFiles) == 0 {
			return b, fmt.Errorf("%w: method %s writes a model folder: the base must be one", ErrConfig, Full)
		}
		return b, nil
	}
	if err := b.openAdapter(seed); err != nil {
		return b, err
	}
	warning, err := b.Start.Config.CheckVLLM(vLLMRank)
	if err != nil {
		warning = err.Error()
	}
	if warning != "" {
		b.Notices = append(b.Notices, warning)
	}
	return b, nil
}

// vLLMRank is --max-lora-rank of a vLLM server that was started without it.
const vLLMRank = 16

func (b *Base) openAdapter(seed uint64) (err error) {
	c := b.Config
	if c.Adapter == "" {
		var weights adapter.Weights
		if c.LoRA.DoRA {
			weights = b.Model
		}
		if b.Start, err = adapter.New(&b.Model.Config, c.AdapterConfig(), seed, weights); err != nil {
			return fmt.Errorf("lora: %w", err)
		}
		b.Start.Base = c.Name()
		return nil
	}
	if b.Start, err = adapter.Load(c.Adapter, &b.Model.Config); err != nil {
		return err
	}
	b.Parent = b.Start.Hash()
	record, err := provenance.Read(c.Adapter)
	if errors.Is(err, provenance.ErrNone) {
		b.Notices = append(b.Notices, fmt.Sprintf("the adapter %s has no %s: whether it goes with this base and template is not known", c.Adapter, provenance.File))
		return nil
	}
	if err != nil {
		return err
	}
	have, err := b.Identity()
	if err != nil {
		return err
	}
	if err := record.Check(have); err != nil {
		return fmt.Errorf("adapter %s: %w", c.Adapter, err)
	}
	return nil
}

// Identity computes the hashes that adapters carry. It reads the whole base once.
func (b *Base) Identity() (id provenance.Identity, err error) {
	if id.Base, err = b.Model.Hash(); err != nil {
		return id, err
	}
	id.Tokenizer, err = b.Codec.Tokenizer.Hash()
	id.Template = b.Codec.Template.Hash()
	return id, err
}

// Close releases the base's files.
func (b *Base) Close() error { return b.Model.Close() }

// Trained are the parameters' number, and whether they are all weights.
func (b *Base) Trained() (parameters int64, all bool) {
	if b.Start == nil {
		return b.Model.Config.Parameters(), true
	}
	return b.Start.Parameters(), false
}

// Cost counts the FLOPs of training steps.
func (b *Base) Cost() train.Cost {
	n, all := b.Trained()
	return train.NewCost(&b.Model.Config, n, all)
}

// Memory estimates the bytes that training needs on each device, for batches of rows × tokens.
func (b *Base) Memory(rows, tokens int) int64 {
	c := b.Model.Config
	c.DType = b.Config.Device.DType()
	devices := max(b.Config.Device.Count, 1)
	w := checkpoint.Workload{Batch: max(rows/devices, 1), Tokens: tokens}
	total := c.TrainMemory(w) // rank 0: the adapter is counted below
	if b.Config.Device.ShardBase {
		width := int64(4)
		if c.DType == checkpoint.BF16 {
			width = 2
		}
		total -= c.Parameters() * width * int64(devices-1) / int64(devices)
	}
	n, _ := b.Trained()
	return total + 16*n
}

// Placed is a base on its devices with the parameters that are trained.
type Placed struct {
	Backend *backend.Backend
	Model   *decoder.Model
	Params  *decoder.Params
}

// Backend opens the engine that the configuration names.
func (b *Base) Backend() (*backend.Backend, error) {
	c := b.Config.Device
	return backend.Open(c.Backend, backend.Options{Devices: c.Count, TF32: c.TF32, Notice: func(line string) { slog.Warn(line) }})
}

// Load puts base and parameters on an engine's devices.
func (b *Base) Load(engine *backend.Backend) (p *Placed, err error) {
	c := b.Config.Device
	p = &Placed{Backend: engine}
	p.Model, err = decoder.Load(engine, b.Model.Config, b.Model, decoder.Options{
		Precision: decoder.Precision(c.Precision), Devices: c.Count, ShardBase: c.ShardBase, Keep: c.KeepActivations, Whole: c.WholeGraph})
	if err != nil {
		return nil, err
	}
	if b.Start == nil {
		p.Params, err = p.Model.Full(b.Model)
	} else {
		p.Params, err = p.Model.Bind(b.Start)
	}
	if err != nil {
		p.Model.Close()
		return nil, err
	}
	return p, nil
}

// Close releases the devices' memory.
func (p *Placed) Close() {
	p.Params.Free()
	p.Model.Close()
}

// WriteResult makes the run's result out of a checkpoint: an adapter folder with its record, or a model folder. It returns
// where that is.
func (b *Base) WriteResult(folder *run.Folder, checkpointDir string, record *provenance.Record) (path string, err error) {
	l, err := train.Load(checkpointDir, &b.Model.Config)
	if err != nil {
		return "", err
	}
	defer l.Close()
	if l.Adapter != nil {
		path = folder.Path(run.AdapterDir)
		record.Parent, record.Hash, record.Step = b.Parent, l.Adapter.Hash(), l.State.Step
		l.Adapter.Base = b.Config.Name()
		return path, l.Adapter.Save(path, adapter.SaveOptions{Prefix: adapter.PrefixOf(b.Model), Provenance: record})
	}
	path = folder.Path(run.ModelDir)
	c := b.Model.Config // the result is stored in the base's precision
	var tensors []checkpoint.Source
	for _, name := range l.Weights.Names() {
		t, err := l.Weights.Tensor(name)
		if err != nil {
			return "", err
		}
		values, err := t.Float32()
		if err != nil {
			return "", err
		}
		file := name
		if name != "lm_head.weight" {
			file = textClassPrefix + name
		}
		tensors = append(tensors, checkpoint.FromFloat32(file, c.DType, t.Shape, values))
	}
	return path, checkpoint.WriteFolder(path, checkpoint.Folder{Config: c.JSON(), Tensors: tensors, Copy: b.Model.TokenizerFiles})
}

// textClassPrefix is what the text classes, as which models are written, put before the names of tensors.
const textClassPrefix = "model."

// Describe says in a few lines what is trained, for banners.
func (b *Base) Describe() string {
	var s strings.Builder
	c := b.Model.Config
	fmt.Fprintf(&s, "base: %s, %s, %.4g M parameters\n", b.Model.Path, c.Architecture, float64(c.Parameters())/1e6)
	n, all := b.Trained()
	if all {
		fmt.Fprintf(&s, "trained: all %.4g M weights, in float32\n", float64(n)/1e6)
		return s.String()
	}
	a := b.Start.Config
	fmt.Fprintf(&s, "trained: adapter of rank %d, scale %g, %d modules, %.4g M parameters, in float32\n", a.R, a.Scale(), len(b.Start.Modules), float64(n)/1e6)
	if cover, err := a.Cover(&c); err == nil {
		if len(cover.Skipped) > 0 {
			fmt.Fprintf(&s, "not covered by the adapter: %v\n", cover.Skipped)
		}
		if len(cover.BareMixers) > 0 {
			fmt.Fprintf(&s, "layers whose attention the adapter leaves alone: %v\n", cover.BareMixers)
		}
	}
	return s.String()
}
