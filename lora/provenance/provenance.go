// Package provenance is the record that every adapter of this project carries, terraloom.json in its folder: which base,
// tokenizer, chat template, dataset, configuration and program made it. Whoever loads the adapter compares base and
// template with its own: an adapter under another template than the one it was trained with answers badly and silently.
package provenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"terraloom/data"
	"terraloom/lora/train/settings"
)

// File is the record's name in an adapter folder.
const File = "terraloom.json"

const format = "terraloom-adapter/1"

// Sentinel errors.
var (
	// ErrNone: the folder has no record. Adapters made elsewhere have none.
	ErrNone = errors.New("no provenance record")
	// ErrFormat: the record cannot be read.
	ErrFormat = errors.New("provenance record cannot be read")
	// ErrMismatch: the adapter was trained with another base, tokenizer or template.
	ErrMismatch = errors.New("adapter was made for something else")
)

// Identity is what an adapter was trained with and must be served with: SHA-256 sums in hexadecimal.
type Identity struct {
	Base      string `json:"base_sha256"`      // configuration and weights
	Tokenizer string `json:"tokenizer_sha256"` // of tokenizer.json as this project writes it
	Template  string `json:"template_sha256"`  // of the chat template's source
}

// Record is the content of the file.
type Record struct {
	Format string `json:"format"`
	Method string `json:"method"` // sft, grpo
	Role   string `json:"role"`   // planner, executor
	Name   string `json:"base"`   // of the base, as the run's configuration has it
	Identity
	Variables map[string]any `json:"template_variables,omitempty"`
	Dataset   string         `json:"dataset_manifest_sha256"`
	// Parent is the hash of the adapter that training started from; empty: a new one.
	Parent string           `json:"parent,omitempty"`
	Hash   string           `json:"adapter_hash"` // of the tensors: adapter.Hash
	Step   int              `json:"step"`         // of the run whose state this is
	Config []settings.Entry `json:"config"`
	Code   data.Code        `json:"code"`
}

// New completes a record with format and program.
func New(r Record) *Record {
	r.Format, r.Code = format, data.BuildCode()
	return &r
}

// Read reads the record of an adapter folder.
func Read(dir string) (*Record, error) {
	path := filepath.Join(dir, File)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	if err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrFormat, err)
	}
	if r.Format != format {
		return nil, fmt.Errorf("%s: %w: format %q, expected %q", path, ErrFormat, r.Format, format)
	}
	return &r, nil
}

// Check compares the adapter's identity with that of what it is to be used with. Empty sums of have are not compared.
func (r *Record) Check(have Identity) error {
	var errs []error
	for _, c := range []struct{ what, trained, have string }{
		{"base", r.Base, have.Base}, {"tokenizer", r.Tokenizer, have.Tokenizer}, {"chat template", r.Template, have.Template},
	} {
		if c.have != "" && c.trained != c.have {
			errs = append(errs, fmt.Errorf("%w: it was trained with the %s %.12s…, here is %.12s…: use that of %s", ErrMismatch, c.what, c.trained, c.have, r.Name))
		}
	}
	return errors.Join(errs...)
}
