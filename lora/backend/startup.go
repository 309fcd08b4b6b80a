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
	hugePages = "glibc.malloc.hugetlb=1"
)

// Startup must be the first call of main. It starts the program once more with huge pages for malloc, which XLA:CPU
// gains a quarter of its step time from (glibc reads the setting only when a process begins), and it serves as the
// child process in which plugins are tried. When done is true the process has finished its work and exits with code:
//
//	if code, done := backend.Startup(); done {
//		os.Exit(code)
//	}
func Startup() (code int, done bool) {
	if os.Getenv(probePath) != "" {
		return serveProbe(os.Stderr), true
	}
	canProbe = true
	if runtime.GOOS != "linux" || os.Getenv(restarted) != "" || strings.Contains(os.Getenv(tunables), "glibc.malloc.hugetlb") {
		return 0, false
	}
	modes, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(modes), "[never]") {
		return 0, false
	}
	exe, err := os.Executable()
	if err != nil {
		return 0, false
	}
	value := hugePages
	if old := os.Getenv(tunables); old != "" {
		value = old + ":" + hugePages
	}
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, tunables+"=") {
			env = append(env, kv)
		}
	}
	// On success Exec does not return; on failure the program just runs without huge pages.
	_ = syscall.Exec(exe, os.Args, append(env, tunables+"="+value, restarted+"=1"))
	return 0, false
}
