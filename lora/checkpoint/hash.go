package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// hashFile is the SHA-256 of a file's bytes, in hex.
func hashFile(path string) (string, error) {
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

// hashFiles is the SHA-256 of one file, or of the lines "HASH  NAME" (what sha256sum prints) of several, in order.
func hashFiles(paths []string) (string, error) {
	if len(paths) == 1 {
		return hashFile(paths[0])
	}
	all := sha256.New()
	for _, path := range paths {
		sum, err := hashFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%s  %s\n", sum, filepath.Base(path))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}
