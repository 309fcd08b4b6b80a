package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
)

// Write makes the file name, a result of Target. make gets the path of a file in
// a private folder of the workspace and writes it there; what it wrote replaces
// name in one step, and nothing is left behind where it fails. Write returns the
// SHA-256 of the file.
func (w *Workspace) Write(name string, make func(tmp string) error) (sum string, err error) {
	if err := w.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return "", w.blocked(err, path.Dir(name))
	}
	if st, err := w.root.Lstat(name); err == nil && st.IsDir() {
		return "", fmt.Errorf("%q is a folder; name a file: %w", name, ErrKind)
	}
	stage, err := w.stage()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.root.RemoveAll(stage)) }()
	staged := path.Join(stage, "file"+path.Ext(name))
	if err := make(filepath.Join(w.dir, filepath.FromSlash(staged))); err != nil {
		return "", err
	}
	if sum, err = w.hash(staged); err != nil {
		return "", err
	}
	if err := w.root.Rename(staged, name); err != nil {
		return "", w.escape(err, name)
	}
	return sum, nil
}

// blocked explains why a folder cannot be made.
func (w *Workspace) blocked(err error, dir string) error {
	for d := dir; d != "."; d = path.Dir(d) {
		if st, e := w.root.Stat(d); e == nil && !st.IsDir() {
			return fmt.Errorf("%q is a file, so nothing can be written below it: %w", d, ErrKind)
		}
	}
	return w.escape(err, dir)
}

// stage makes a private folder at the root; its dot keeps it out of listings.
func (w *Workspace) stage() (string, error) {
	for range 100 {
		name := fmt.Sprintf(".stage-%016x", rand.Uint64())
		err := w.root.Mkdir(name, 0o700)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
	return "", errors.New("no free name for a private folder in the workspace")
}

func (w *Workspace) hash(name string) (string, error) {
	f, err := w.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// WriteFile makes the file name, a result of Target, of the given bytes.
func (w *Workspace) WriteFile(name string, data []byte) (sum string, err error) {
	return w.Write(name, func(tmp string) error { return os.WriteFile(tmp, data, 0o644) })
}

func readAtMost(f *os.File, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes: %w", name, limit, ErrTooLarge)
	}
	return data, nil
}
