// Package backend opens the engine that compiles and runs GoMLX graphs: XLA on NVIDIA GPUs, XLA on the CPU, or GoMLX's
// own pure-Go engine.
//
// The XLA engines live in PJRT plugins, shared libraries of a few hundred megabytes that [Install] fetches through the
// user's own pip, pinned by version and SHA-256, into the user's data folder. A CUDA plugin that the user's Python
// already has (the JAX one, with its NVIDIA libraries) is used as it is. Plugins are always opened by absolute path;
// GoMLX's own downloader stays off.
//
//	func main() {
//		if code, done := backend.Startup(); done {
//			os.Exit(code)
//		}
//		b, err := backend.Open(backend.Auto, backend.Options{Notice: printLine})
//		…
//		exec, err := graph.NewExec(b.Engine, …)
//	}
package backend

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers "go"
	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/go-xla/pjrt"
	"k8s.io/klog/v2"
)

// Names that [Open] takes.
const (
	Auto = "auto" // CUDA if there is a device and a plugin, else CPU if its plugin is installed, else Go
	CUDA = "cuda" // XLA on NVIDIA GPUs
	CPU  = "cpu"  // XLA on the CPU
	Go   = "go"   // GoMLX's pure-Go engine: always there, about ten times slower
)

// What can be wrong, for errors.Is. The message of each error is one line that ends in what to do.
var (
	ErrUnknown      = errors.New("unknown backend")
	ErrNotInstalled = errors.New("backend not installed")
	ErrNoDevice     = errors.New("no NVIDIA device")
	ErrLibrary      = errors.New("CUDA library missing")
	ErrPlugin       = errors.New("not a usable PJRT plugin")
	ErrTruncated    = errors.New("plugin file is truncated or damaged")
	ErrTooOld       = errors.New("plugin is too old")
	ErrXLAFlags     = errors.New("bad XLA_FLAGS")
)

// failure is one of the errors above with the line that a person reads.
type failure struct {
	kind    error
	message string
}

func (f *failure) Error() string { return f.message }
func (f *failure) Unwrap() error { return f.kind }

func fail(kind error, format string, args ...any) error {
	return &failure{kind, fmt.Sprintf(format, args...)}
}

// Options of [Open].
type Options struct {
	// Devices is the number of devices that XLA:CPU shows: 0 and 1 mean one, which also keeps XLA from starting more
	// threads than there are cores; more are virtual devices for trying out data parallelism. Ignored elsewhere.
	Devices int
	// TF32 lets CUDA round the inputs of float32 matrix products to 10 bits of mantissa: faster, but no longer equal
	// to the CPU's results.
	TF32 bool
	// Notice receives lines that the user should see: why a slower backend was taken. May be nil.
	Notice func(line string)
}

// Backend is an open engine. It lives until the process ends: GoMLX tensors keep referring to it.
type Backend struct {
	Name   string          // CUDA, CPU or Go
	Engine compute.Backend // what GoMLX wants
	Plugin string          // absolute path of the PJRT plugin; empty for Go
	API    string          // PJRT API version of the plugin, "0.115"; empty for Go
	TF32   bool            // float32 products are rounded to TF32
}

// Devices is the number of devices of the engine.
func (b *Backend) Devices() int { return b.Engine.NumDevices() }

// String is the name with its plugin, for run records.
func (b *Backend) String() string {
	if b.Plugin == "" {
		return b.Name
	}
	return fmt.Sprintf("%s (PJRT %s, %s)", b.Name, b.API, filepath.Base(b.Plugin))
}

// Open opens the engine called name.
func Open(name string, opts Options) (*Backend, error) {
	notice := opts.Notice
	if notice == nil {
		notice = func(string) {}
	}
	switch name {
	case CUDA:
		return openCUDA(opts)
	case CPU:
		return openCPU(opts)
	case Go:
		return openGo()
	case Auto, "":
	default:
		return nil, fmt.Errorf("%w %q: use %s, %s, %s or %s", ErrUnknown, name, Auto, CUDA, CPU, Go)
	}
	if nvidiaDevice() == nil {
		b, err := openCUDA(opts)
		if err == nil {
			return b, nil
		}
		notice("an NVIDIA device is here but unused: " + err.Error())
	}
	b, err := openCPU(opts)
	if err == nil {
		return b, nil
	}
	notice("using the pure-Go backend, about ten times slower than XLA: " + err.Error())
	return openGo()
}

func openGo() (*Backend, error) {
	// With parallel operations the Go engine can deadlock when more matrix products than workers are ready at once;
	// one operation at a time, each on all cores, is as fast.
	engine, err := compute.NewWithConfig("go:ops_sequential")
	if err != nil {
		return nil, fmt.Errorf("pure-Go backend: %w", err)
	}
	return &Backend{Name: Go, Engine: engine}, nil
}

func openCPU(opts Options) (*Backend, error) {
	p, err := findCPU()
	if err != nil {
		return nil, err
	}
	return p.open(opts)
}

func openCUDA(opts Options) (*Backend, error) {
	if err := nvidiaDevice(); err != nil {
		return nil, err
	}
	p, err := findCUDA()
	if err != nil {
		return nil, err
	}
	return p.open(opts)
}

// plugin is a PJRT plugin file that was found.
type plugin struct {
	kind    string // CPU or CUDA
	path    string
	nvidia  string // folder of NVIDIA's libraries beside a CUDA plugin
	managed bool   // installed by this program: its size is known and was checked
}

// open checks the plugin file, tries it in a child process where it could take this one down, and creates the client.
func (p plugin) open(opts Options) (*Backend, error) {
	if err := p.prepare(); err != nil {
		return nil, err
	}
	// XLA exits the process on an unknown flag, and a damaged or foreign library can crash it.
	if !p.managed || os.Getenv("XLA_FLAGS") != "" {
		if err := p.probe(); err != nil {
			return nil, err
		}
	}
	if p.kind == CUDA {
		if err := p.loadCUDALibraries(); err != nil {
			return nil, err
		}
	}
	major, minor, err := apiVersion(p.path)
	if err != nil {
		return nil, err
	}
	engine, err := p.client(opts)
	if err != nil {
		return nil, p.explain(err.Error())
	}
	return &Backend{Name: p.kind, Engine: engine, Plugin: p.path, API: fmt.Sprintf("%d.%d", major, minor),
		TF32: p.kind == CUDA && opts.TF32}, nil
}

// prepare checks what can be checked without loading the plugin.
func (p plugin) prepare() error {
	if strings.Contains(p.path, ",") {
		return fail(ErrPlugin, "plugin %s: GoMLX cannot open a path with a comma: move it", p.path)
	}
	// go-xla tells the kind of a plugin by its path.
	if p.kind == CPU && pjrt.IsCUDAName(p.path) {
		return fail(ErrPlugin, "plugin %s: GoMLX takes a path with \"cuda\" or \"nvidia\" for a GPU plugin: set TERRALOOM_HOME to another folder and install again", p.path)
	}
	return inspect(p.path)
}

var quietOnce sync.Once

// client creates the PJRT client in this process.
func (p plugin) client(opts Options) (engine *xla.Backend, err error) {
	quietOnce.Do(func() { // go-xla logs what it also returns
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
	})
	defer func() {
		if r := recover(); r != nil {
			engine, err = nil, fmt.Errorf("%v", r)
		}
	}()
	xla.EnableAutoInstall(false)
	config, client := p.path, pjrt.NamedValuesMap{}
	switch p.kind {
	case CPU:
		client["cpu_device_count"] = int64(max(opts.Devices, 1))
		config += ",shared_buffers=true"
	case CUDA:
		config += fmt.Sprintf(",shared_buffers=false,tf32=%t", opts.TF32)
		if err := p.setCUDAEnvironment(); err != nil {
			return nil, err
		}
	}
	return xla.NewWithOptions(config, client)
}

// explain turns what XLA said into one line that says what to do.
func (p plugin) explain(said string) error {
	line := func(kind error, what, todo string) error {
		return fail(kind, "plugin %s: %s: %s", p.path, what, todo)
	}
	switch first := firstLine(said); {
	case strings.Contains(said, "XLA_FLAGS"):
		return fail(ErrXLAFlags, "XLA_FLAGS=%q: %s: correct or unset it", os.Getenv("XLA_FLAGS"), xlaFlagComplaint(said))
	case strings.Contains(said, "No visible GPU devices"):
		return line(ErrNoDevice, "sees no GPU", "check that nvidia-smi works and that CUDA_VISIBLE_DEVICES is not empty")
	case strings.Contains(said, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), strings.Contains(said, "driver version is insufficient"):
		return line(ErrNoDevice, first, "update the NVIDIA driver (CUDA 13 needs 580 or newer)")
	case strings.Contains(said, "cannot open shared object file"):
		return line(ErrLibrary, first, "install that library or the whole plugin with `terraloom backend install "+p.kind+"`")
	default:
		return line(ErrPlugin, first, "install it anew with `terraloom backend install "+p.kind+"`")
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
