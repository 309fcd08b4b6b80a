package backend

import (
	"os"
	"runtime"
	"strings"
	"syscall"
)

const (
	restarted = "TERRALOOM_RESTARTED"
	tunables  = "GLIBC_TUNABLES"

	// Huge pages; one heap that keeps what is freed instead of handing it back, so that the kernel does not zero the buffers
	// of every step anew (heaps of other threads end at 64 MiB, beyond which each buffer is a mapping of its own). Buffers
	// above 64 MiB stay mappings: they would leave gaps in the heap that nothing fills.
	mallocTunables = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=67108864:glibc.malloc.trim_threshold=17179869184"
)

// Startup must be the first call of main. On Linux it starts the program once more with settings of malloc that give XLA:CPU
// a quarter of its step time (glibc reads them only when a process begins; a GLIBC_TUNABLES with settings of malloc stays
// as it is), and it serves as the child process in which plugins are tried. When done is true the process has finished its work and exits with code:
//
//	if code, done := backend.Startup(); done {
//		os.Exit(code)
//	}
func Startup() (code int, done bool) {
	if os.Getenv(probePath) != "" {
		return serveProbe(os.Stderr), true
	}
	canProbe = true
	if runtime.GOOS != "linux" || os.Getenv(restarted) != "" || strings.Contains(os.Getenv(tunables), "glibc.malloc.") {
		return 0, false
	}
	exe, err := os.Executable()
	if err != nil {
		return 0, false
	}
	value := mallocTunables
	if old := os.Getenv(tunables); old != "" {
		value = old + ":" + mallocTunables
	}
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, tunables+"=") {
			env = append(env, kv)
		}
	}
	// On success Exec does not return; on failure the program just runs without them.
	_ = syscall.Exec(exe, os.Args, append(env, tunables+"="+value, restarted+"=1"))
	return 0, false
}
