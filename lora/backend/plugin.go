package backend

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// apiSymbol is what every PJRT plugin exports.
const apiSymbol = "GetPjrtApi"

// inspect reads the plugin's ELF tables: loading a file that is not a PJRT plugin is an error deep inside go-xla, and
// loading one that was cut short kills the process with SIGBUS.
func inspect(path string) error {
	bad := func(kind error, format string, args ...any) error {
		return fail(kind, "plugin %s: %s: install it anew with `terraloom backend install`", path, fmt.Sprintf(format, args...))
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return bad(ErrNotInstalled, "no such file")
	case err != nil:
		return bad(ErrPlugin, "%v", err)
	case !info.Mode().IsRegular():
		return bad(ErrPlugin, "not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return bad(ErrPlugin, "%v", err)
	}
	defer file.Close()
	var magic [4]byte
	if n, _ := file.ReadAt(magic[:], 0); n < 4 {
		return bad(ErrTruncated, "only %d bytes", info.Size())
	} else if string(magic[:]) != elf.ELFMAG {
		return bad(ErrPlugin, "not a shared library (ELF) file")
	}
	f, err := elf.NewFile(file) // reads the section headers, which stand at the end
	if err != nil {
		return bad(ErrTruncated, "%v", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && (p.Filesz > uint64(info.Size()) || p.Off > uint64(info.Size())-p.Filesz) {
			return bad(ErrTruncated, "the file ends before byte %d that it promises", p.Off+p.Filesz)
		}
	}
	if want := machines[runtime.GOARCH]; f.Machine != want {
		return bad(ErrPlugin, "built for %v, this machine is %v", f.Machine, want)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return bad(ErrPlugin, "no dynamic symbols: %v", err)
	}
	for _, s := range symbols {
		if s.Name == apiSymbol && s.Section != elf.SHN_UNDEF {
			return nil
		}
	}
	return bad(ErrPlugin, "a shared library without the symbol %s: not a PJRT plugin", apiSymbol)
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
