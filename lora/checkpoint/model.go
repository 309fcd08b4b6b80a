package checkpoint

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"terraloom/lora/tokenizer"
)

// Model is an open base model. It is safe for concurrent use until Close.
type Model struct {
	Config Config

	// Path is the folder or the GGUF file.
	Path string
	// Prefix is what the file puts before the canonical names: "model.", "model.language_model." or "" (never before
	// lm_head.weight). Adapters follow it. A GGUF file has the prefix that its folder form would have.
	Prefix string
	// Skipped counts the tensors that are left out by name, by the first part of their name: visual, mtp.
	Skipped map[string]int
	// Notes tells, in words, what was settled on opening beyond Config.Assumed, e.g. a head that overrides the tie flag.
	Notes []string
	// ChatTemplate is the Jinja text that ships with the model, empty if there is none.
	ChatTemplate string
	// TokenizerFiles are the tokenizer's files in the folder by base name, with their paths; empty for GGUF.
	TokenizerFiles map[string]string
	// Vocab is the vocabulary in the metadata of a GGUF file; nil for a folder.
	Vocab *tokenizer.GGUFVocab

	names   []string // canonical, in the order of computation
	tensors map[string]located
	strays  []string // names in the file that have no canonical one
	files   []string // what Hash covers
	hash    func() (string, error)
	close   func() error
}

// located is a tensor by its canonical name. fix rearranges the stored bytes into the canonical layout; nil if they
// already are.
type located struct {
	Tensor // under its name in the file
	fix    func([]byte) []byte
}

// Open opens a Hugging Face model folder, a GGUF file, the bundled model ([Bundled]), or a pulled model by its name (see
// [Pull]). Everything is verified against the architecture: see
// [ErrFormat], [ErrUnsupported] and [ErrTensors]. Nothing is copied; Close the model after the last use of its tensors.
func Open(name string) (*Model, error) {
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("base model: %w", err)
	}
	var m *Model
	switch {
	case info.IsDir():
		m, err = openFolder(path)
	case isGGUF(path):
		m, err = openGGUF(path)
	default:
		return nil, fmt.Errorf("%s: neither a folder with config.json nor a GGUF file: %w", path, ErrFormat)
	}
	if err != nil {
		return nil, err
	}
	m.Path = path
	m.hash = sync.OnceValues(func() (string, error) { return hashFiles(m.files) })
	if err := m.bind(); err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// bind checks the located tensors against the architecture and settles whether the head is tied.
func (m *Model) bind() error {
	c := &m.Config
	if c.DType == "" {
		c.DType = m.tensors[embedName].DType
		if c.DType != F16 && c.DType != BF16 {
			c.DType = F32
		}
	}
	if err := m.settleHead(); err != nil {
		return err
	}
	specs := c.TensorSpecs()
	var problems []string
	for _, name := range m.strays {
		problems = append(problems, name+" does not belong to it")
	}
	expected := make(map[string]bool, len(specs))
	for _, s := range specs {
		expected[s.Name] = true
		t, ok := m.tensors[s.Name]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s%v is missing", m.FileName(s.Name), s.Shape))
		case !slices.Equal(t.Shape, s.Shape):
			problems = append(problems, fmt.Sprintf("%s has shape %v, expected %v", t.Name, t.Shape, s.Shape))
		case !t.DType.floating():
			problems = append(problems, fmt.Sprintf("%s holds %s, expected floating-point or quantised weights", t.Name, t.DType))
		default:
			m.names = append(m.names, s.Name)
		}
	}
	for name, t := range m.tensors {
		if !expected[name] && name != headName {
			problems = append(problems, t.Name+" does not belong to it")
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	more := ""
	if n := len(problems) - 10; n > 0 {
		problems, more = problems[:10], fmt.Sprintf("; and %d more", n)
	}
	hint := ""
	if len(c.Assumed) > 0 {
		hint = " (assumed: " + strings.Join(c.Assumed, "; ") + ")"
	}
	return fmt.Errorf("%w %s: %s%s%s", ErrTensors, c.Architecture, strings.Join(problems, "; "), more, hint)
}

// settleHead lets an lm_head that differs from the embedding win over the tie flag, as transformers does.
func (m *Model) settleHead() error {
	head, ok := m.tensors[headName]
	if !m.Config.Tied || !ok {
		return nil
	}
	embed := m.tensors[embedName]
	same := slices.Equal(head.Shape, embed.Shape)
	if same && head.DType == embed.DType {
		same = bytes.Equal(head.Data, embed.Data)
	} else if same {
		a, err := head.Float32()
		if err != nil {
			return err
		}
		b, err := embed.Float32()
		if err != nil {
			return err
		}
		same = slices.Equal(a, b)
	}
	if !same {
		m.Config.Tied = false
		m.Notes = append(m.Notes, "the file holds an lm_head that differs from the embedding: the head is not tied, whatever the tie flag says")
	}
	return nil
}

// FileName is the name a canonical tensor has, or would have, in the file.
func (m *Model) FileName(name string) string {
	if t, ok := m.tensors[name]; ok {
		return t.Name
	}
	if name == headName {
		return name
	}
	return m.Prefix + name
}

// Names lists the text tensors under canonical names, in the order of computation.
func (m *Model) Names() []string { return slices.Clone(m.names) }

// Tensor returns a tensor by its canonical name: its bytes in the mapped file, or a copy where the file keeps another
// layout (the query and key rows of Llama GGUF files). [ErrNoTensor] if the architecture has none of that name.
func (m *Model) Tensor(name string) (Tensor, error) {
	t, ok := m.tensors[name]
	if !ok || name == headName && m.Config.Tied {
		return Tensor{}, fmt.Errorf("%s: %q: %w", m.Path, name, ErrNoTensor)
	}
	data := t.Data
	if t.fix != nil {
		data = t.fix(data)
	}
	return Tensor{name, t.DType, slices.Clone(t.Shape), data}, nil
}

// Float32 decodes a tensor by its canonical name, see [Tensor.Float32].
func (m *Model) Float32(name string) ([]float32, error) {
	t, err := m.Tensor(name)
	if err != nil {
		return nil, err
	}
	return t.Float32()
}

// Quantised reports whether weights are stored in blocks of low-bit integers: what is computed is then an approximation
// of the original model, and adapters merged into it keep that error.
func (m *Model) Quantised() bool {
	for _, name := range m.names {
		if m.tensors[name].DType.Quantised() {
			return true
		}
	}
	return false
}

// Hash is the SHA-256, in hex, over config.json and the weight files (or the GGUF file): the identity of the base that
// adapters record. It is computed at the first call, reading everything once.
func (m *Model) Hash() (string, error) { return m.hash() }

// Close releases the files. Tensors taken from the model must not be used afterwards.
func (m *Model) Close() error {
	m.tensors, m.names = nil, nil
	return m.close()
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&fs.ModeType == 0
}
