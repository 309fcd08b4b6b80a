//go:build !unix

package checkpoint

import "os"

// mapFile reads the file where mapping is not available.
func mapFile(path string) (data []byte, release func() error, err error) {
	data, err = os.ReadFile(path)
	return data, func() error { return nil }, err
}
