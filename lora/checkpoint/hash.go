package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"terraloom/lora/wheel"
)

// hashFiles is the SHA-256 of one file, or of the lines "HASH  NAME" (what sha256sum prints) of several, in order.
func hashFiles(paths []string) (string, error) {
	if len(paths) == 1 {
		return wheel.SHA256(paths[0])
	}
	all := sha256.New()
	for _, path := range paths {
		sum, err := wheel.SHA256(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%s  %s\n", sum, filepath.Base(path))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}
