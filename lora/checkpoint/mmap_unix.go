//go:build unix

package checkpoint

import (
	"fmt"
	"os"
	"syscall"
)

// mapFile maps a whole regular file read-only. release must be called once; data is invalid after it.
func mapFile(path string) (data []byte, release func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: not a regular file: %w", path, ErrFormat)
	}
	size := info.Size()
	if size == 0 {
		return nil, func() error { return nil }, nil // mmap refuses an empty file
	}
	if size != int64(int(size)) {
		return nil, nil, fmt.Errorf("%s: %d bytes do not fit the address space: %w", path, size, ErrUnsupported)
	}
	data, err = syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: mapping %d bytes: %w", path, size, err)
	}
	return data, func() error { return syscall.Munmap(data) }, nil
}
