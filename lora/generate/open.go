package generate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"terraloom/lora/adapter"
	"terraloom/lora/backend"
	"terraloom/lora/chat"
	"terraloom/lora/checkpoint"
	"terraloom/lora/codec"
	"terraloom/lora/decoder"
	"terraloom/lora/provenance"
	"terraloom/lora/tokenizer"
)

// Named is an adapter folder and the name that its model gets.
type Named struct{ Name, Dir string }

// Loaded is a checkpoint that is ready to generate, with adapters merged into copies of the weights they change.
type Loaded struct {
	Path      string
	Config    checkpoint.Config
	Tokenizer *tokenizer.BPE
	Codec     *codec.Codec // nil if the checkpoint has no chat template
	Template  string       // source of the chat template
	Engine    *Engine
	Adapters  []string // names that the engine knows
	// Variables are the template variables that an adapter was trained with, by its name: prompts for it need them.
	Variables map[string]map[string]chat.Value

	models []*decoder.Model // the base last
}

// Open loads a model folder, GGUF file or pulled model, its tokenizer and the adapters, which can be used under their
// names. opts.Tokenizer is set here. An adapter that does not bind to every module it names is an error, as is one for
// other shapes, and one whose record says that it was trained with another base, tokenizer or chat template.
func Open(b *backend.Backend, path string, adapters []Named, precision decoder.Precision, opts Options) (l *Loaded, err error) {
	base, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer base.Close() // the weights are copied to the device
	l = &Loaded{Path: path, Config: base.Config, Template: base.ChatTemplate, Variables: map[string]map[string]chat.Value{}}
	if l.Tokenizer, err = codec.OpenTokenizer(base); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if base.ChatTemplate != "" {
		if l.Codec, err = codec.Open(base, codec.Options{}); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			l.Close()
			l = nil
		}
	}()
	m, err := decoder.Load(b, base.Config, base, decoder.Options{Precision: precision})
	if err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	l.models = []*decoder.Model{m}
	opts.Tokenizer = l.Tokenizer
	if l.Engine, err = New(b, m, opts); err != nil {
		return l, err
	}
	for _, a := range adapters {
		if err := l.add(base, m, a); err != nil {
			return l, fmt.Errorf("adapter %s=%s: %w", a.Name, a.Dir, err)
		}
	}
	return l, nil
}

func (l *Loaded) add(base *checkpoint.Model, m *decoder.Model, a Named) error {
	if slices.Contains(l.Adapters, a.Name) {
		return fmt.Errorf("%w: the name is taken", ErrRequest)
	}
	if err := l.checkRecord(base, a); err != nil {
		return err
	}
	loaded, err := adapter.Load(a.Dir, &l.Config)
	if err != nil {
		return err
	}
	params, err := m.Bind(loaded)
	if err != nil {
		return err
	}
	defer params.Free()
	merged, err := m.Merged(params)
	if err != nil {
		return err
	}
	l.models = append([]*decoder.Model{merged}, l.models...)
	l.Adapters = append(l.Adapters, a.Name)
	return l.Engine.Use(a.Name, merged)
}

// checkRecord compares what the adapter was trained with to what is loaded. Adapters made elsewhere have no record.
func (l *Loaded) checkRecord(base *checkpoint.Model, a Named) error {
	record, err := provenance.Read(a.Dir)
	if errors.Is(err, provenance.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	var have provenance.Identity
	if have.Base, err = base.Hash(); err != nil {
		return err
	}
	if have.Tokenizer, err = l.Tokenizer.Hash(); err != nil {
		return err
	}
	if l.Codec != nil {
		have.Template = l.Codec.Template.Hash()
	}
	if err := record.Check(have); err != nil {
		return err
	}
	variables := map[string]chat.Value{}
	for name, v := range record.Variables {
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("template variable %q: %w", name, err)
		}
		if variables[name], err = chat.ParseValue(text); err != nil {
			return fmt.Errorf("template variable %q: %w", name, err)
		}
	}
	l.Variables[a.Name] = variables
	return nil
}

// Close ends the engine and releases the weights.
func (l *Loaded) Close() {
	if l.Engine != nil {
		l.Engine.Close()
	}
	for _, m := range l.models {
		m.Close()
	}
	l.models = nil
}

// Prompt renders a conversation that the model of that name is to answer, and encodes it.
func (l *Loaded) Prompt(ctx context.Context, model string, c chat.Conversation, now time.Time) ([]int32, error) {
	if l.Codec == nil {
		return nil, fmt.Errorf("%s: %w: give the prompt as plain text", l.Path, codec.ErrNoTemplate)
	}
	r, err := l.Codec.Template.Render(ctx, c, chat.Options{AddGenerationPrompt: true, Variables: l.Variables[model], Now: now})
	if err != nil {
		return nil, err
	}
	return l.Codec.Encode(r), nil
}

// RawPrompt encodes a text as it is, control tokens in it included, after what the tokenizer puts before bare texts.
func RawPrompt(t *tokenizer.BPE, text string) []int32 {
	return append(slices.Clone(t.Special().Prefix), t.Encode(text)...)
}

// OpenTokenizer loads the tokenizer of a model folder, which needs no weights, of a GGUF file or of a pulled model.
func OpenTokenizer(name string) (*tokenizer.BPE, error) {
	if _, err := os.Stat(filepath.Join(name, "tokenizer.json")); err == nil {
		return tokenizer.Load(name)
	}
	m, err := checkpoint.Open(name)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return codec.OpenTokenizer(m)
}
