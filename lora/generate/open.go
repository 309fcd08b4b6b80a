package generate

import (
	"context"
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

	models []*decoder.Model // the base last
}

// Open loads a model folder, GGUF file or pulled model, its tokenizer and the adapters, which can be used under their
// names. opts.Tokenizer is set here. An adapter that does not bind to every module it names is an error, as is one for
// other shapes.
func Open(b *backend.Backend, path string, adapters []Named, precision decoder.Precision, opts Options) (l *Loaded, err error) {
	base, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer base.Close() // the weights are copied to the device
	l = &Loaded{Path: path, Config: base.Config, Template: base.ChatTemplate}
	if l.Tokenizer, err = openTokenizer(base); err != nil {
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
		if err := l.add(m, a); err != nil {
			return l, fmt.Errorf("adapter %s=%s: %w", a.Name, a.Dir, err)
		}
	}
	return l, nil
}

func (l *Loaded) add(base *decoder.Model, a Named) error {
	if _, taken := l.Engine.models[a.Name]; taken {
		return fmt.Errorf("%w: the name is taken", ErrRequest)
	}
	loaded, err := adapter.Load(a.Dir, &l.Config)
	if err != nil {
		return err
	}
	params, err := base.Bind(loaded)
	if err != nil {
		return err
	}
	defer params.Free()
	merged, err := base.Merged(params)
	if err != nil {
		return err
	}
	l.models = append([]*decoder.Model{merged}, l.models...)
	l.Adapters = append(l.Adapters, a.Name)
	return l.Engine.Use(a.Name, merged)
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

// Prompt renders a conversation that the assistant is to answer, and encodes it.
func (l *Loaded) Prompt(ctx context.Context, c chat.Conversation, now time.Time) ([]int32, error) {
	if l.Codec == nil {
		return nil, fmt.Errorf("%s: %w: give the prompt as plain text", l.Path, codec.ErrNoTemplate)
	}
	r, err := l.Codec.Template.Render(ctx, c, chat.Options{AddGenerationPrompt: true, Now: now})
	if err != nil {
		return nil, err
	}
	return Encode(l.Tokenizer, r), nil
}

// RawPrompt encodes a text as it is, control tokens in it included, after what the tokenizer puts before bare texts.
func RawPrompt(t *tokenizer.BPE, text string) []int32 {
	return append(slices.Clone(t.Special().Prefix), t.Encode(text)...)
}

// Encode turns a rendering into ids: control tokens where the template wrote them, everything else as plain text.
func Encode(t *tokenizer.BPE, r chat.Rendering) []int32 {
	added := t.AddedTokens()
	controls := make([]string, len(added))
	for i, a := range added {
		controls[i] = a.Content
	}
	var ids []int32
	for _, p := range r.Pieces(controls) {
		if p.Control {
			ids = append(ids, t.Encode(p.Text)...)
		} else {
			ids = append(ids, t.EncodeOrdinary(p.Text)...)
		}
	}
	return ids
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
	return openTokenizer(m)
}

func openTokenizer(m *checkpoint.Model) (*tokenizer.BPE, error) {
	if m.Vocab != nil {
		return tokenizer.FromGGUF(*m.Vocab)
	}
	file, ok := m.TokenizerFiles["tokenizer.json"]
	if !ok {
		return nil, errors.New("the model has no tokenizer.json: fetch it beside config.json")
	}
	return tokenizer.Load(filepath.Dir(file))
}
