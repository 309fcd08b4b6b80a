package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	tinybase "terraloom/data/tiny-base"
)

// Bundled is the name of the model that is part of the program.
const Bundled = "tiny"

// unpacked returns the folder of the bundled model. It is unpacked into the folder of models when it is first used, under
// a name with its hash: another version of the program may have another one.
var unpacked = sync.OnceValues(unpack)

func unpack() (string, error) {
	models, err := ModelsDir()
	if err != nil {
		return "", err
	}
	files, err := fs.ReadDir(tinybase.Files, ".")
	if err != nil {
		return "", err
	}
	contents := map[string][]byte{}
	all := sha256.New()
	for _, f := range files {
		text, err := fs.ReadFile(tinybase.Files, f.Name())
		if err != nil {
			return "", err
		}
		contents[f.Name()] = text
		sum := sha256.Sum256(text)
		fmt.Fprintf(all, "%x  %s\n", sum, f.Name())
	}
	dir := filepath.Join(models, Bundled+"-"+hex.EncodeToString(all.Sum(nil))[:12])
	if whole(dir, contents) {
		return dir, nil
	}
	if err := os.MkdirAll(models, 0o755); err != nil {
		return "", fmt.Errorf("unpacking the base %s: %w", Bundled, err)
	}
	tmp, err := os.MkdirTemp(models, ".tiny.*.tmp")
	if err != nil {
		return "", fmt.Errorf("unpacking the base %s: %w", Bundled, err)
	}
	defer os.RemoveAll(tmp)
	for name, text := range contents {
		if err := os.WriteFile(filepath.Join(tmp, name), text, 0o644); err != nil {
			return "", fmt.Errorf("unpacking the base %s: %w", Bundled, err)
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil { // MkdirTemp makes folders private
		return "", err
	}
	if _, err := os.Lstat(dir); err == nil { // damaged
		if err := os.RemoveAll(dir); err != nil {
			return "", fmt.Errorf("unpacking the base %s: %w", Bundled, err)
		}
	}
	if err := os.Rename(tmp, dir); err != nil && !whole(dir, contents) { // another process may have been faster
		return "", fmt.Errorf("unpacking the base %s: %w", Bundled, err)
	}
	return dir, nil
}

// whole reports whether a folder has exactly these contents.
func whole(dir string, contents map[string][]byte) bool {
	for name, text := range contents {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(have, text) {
			return false
		}
	}
	return true
}
