package backend

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"terraloom/lora/wheel"
)

func TestMain(m *testing.M) {
	if code, done := Startup(); done {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// wantFailure checks kind and text of an error and that it is one line.
func wantFailure(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, expected %v", kind)
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("error %q is not %v", err, kind)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has several lines: %q", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

// compile builds a small shared library.
func compile(t *testing.T, source string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to build a small shared library")
	}
	dir := t.TempDir()
	c, so := filepath.Join(dir, "p.c"), filepath.Join(dir, "pjrt_c_api_cpu_plugin.so")
	if err := os.WriteFile(c, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", so, c).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return so
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

const oldPlugin = `
#include <stddef.h>
struct api { size_t n; void *x; struct { size_t n; void *x; int major, minor; } v; } a = {1, 0, {1, 0, 0, 40}};
struct api *GetPjrtApi(void) { return &a; }`

func TestPluginFiles(t *testing.T) {
	open := func(path string) error {
		_, err := plugin{kind: CPU, path: path}.open(Options{})
		return err
	}
	dir := t.TempDir()
	t.Run("missing", func(t *testing.T) {
		wantFailure(t, open(filepath.Join(dir, "none.so")), ErrNotInstalled, "no such file", "terraloom backend install")
	})
	t.Run("folder", func(t *testing.T) { wantFailure(t, open(dir), ErrPlugin, "not a regular file") })
	t.Run("empty", func(t *testing.T) {
		wantFailure(t, open(write(t, filepath.Join(dir, "e.so"), "")), ErrTruncated, "0 bytes", "install it anew")
	})
	t.Run("text", func(t *testing.T) {
		wantFailure(t, open(write(t, filepath.Join(dir, "t.so"), "<html>not found</html>")), ErrPlugin, "not a shared library")
	})
	t.Run("comma", func(t *testing.T) {
		wantFailure(t, open(write(t, filepath.Join(dir, "a,b.so"), "x")), ErrPlugin, "comma")
	})
	t.Run("cpu plugin below nvidia", func(t *testing.T) {
		wantFailure(t, open(write(t, filepath.Join(dir, "nvidia", "c.so"), "x")), ErrPlugin, "TERRALOOM_HOME")
	})
	t.Run("no symbol", func(t *testing.T) {
		wantFailure(t, open(compile(t, "int f(void) { return 1; }")), ErrPlugin, apiSymbol, "not a PJRT plugin")
	})
	t.Run("truncated", func(t *testing.T) {
		so := compile(t, oldPlugin)
		raw, err := os.ReadFile(so)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{100, len(raw) / 2, len(raw) - 1} {
			cut := write(t, filepath.Join(dir, "cut.so"), string(raw[:n]))
			wantFailure(t, open(cut), ErrTruncated, "install it anew")
		}
	})
	t.Run("too old", func(t *testing.T) {
		wantFailure(t, open(compile(t, oldPlugin)), ErrTooOld, "PJRT API 0.40", "0.81 or newer")
	})
	t.Run("too old without a child", func(t *testing.T) {
		_, err := plugin{kind: CPU, path: compile(t, oldPlugin), managed: true}.open(Options{})
		wantFailure(t, err, ErrTooOld, "PJRT API 0.40")
	})
	t.Run("crashes on loading", func(t *testing.T) {
		so := compile(t, oldPlugin+"\n#include <signal.h>\n__attribute__((constructor)) static void die(void) { signal(SIGBUS, SIG_DFL); raise(SIGBUS); }")
		wantFailure(t, open(so), ErrTruncated, "trial start died", "bus error")
	})
}

func TestWrongMachine(t *testing.T) {
	so := compile(t, oldPlugin)
	raw, err := os.ReadFile(so)
	if err != nil {
		t.Fatal(err)
	}
	raw[18] = 0xf3 // e_machine: RISC-V
	wantFailure(t, inspect(write(t, so, string(raw))), ErrPlugin, "EM_RISCV")
}

func TestExplain(t *testing.T) {
	p := plugin{kind: CUDA, path: "p.so"}
	for _, c := range []struct {
		said string
		kind error
		part string
	}{
		{"while creating plugin p.so: PJRT error (code=9): No visible GPU devices.\nstack", ErrNoDevice, "nvidia-smi"},
		{"libcudnn.so.9: cannot open shared object file: No such file or directory", ErrLibrary, "libcudnn.so.9"},
		{"F0000 00:00:00.000000 12 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_foo=1\n*** stack", ErrXLAFlags, ": Unknown flag in XLA_FLAGS: --xla_foo=1: correct"},
		{"CUDA driver version is insufficient for CUDA runtime version", ErrNoDevice, "580"},
		{"PJRT error (code=13): something\nelse", ErrPlugin, "code=13"},
	} {
		wantFailure(t, p.explain(c.said), c.kind, c.part)
	}
}

func TestCUDA(t *testing.T) {
	defer func(old []string) { deviceGlob = old }(deviceGlob)
	dir := t.TempDir()
	t.Setenv("TERRALOOM_HOME", filepath.Join(dir, "data"))
	t.Setenv("TERRALOOM_PYTHON", write(t, filepath.Join(dir, "python"), "#!/bin/sh\nexit 1\n"))
	deviceGlob = []string{filepath.Join(dir, "nvidia[0-9]*")}
	_, err := Open(CUDA, Options{})
	wantFailure(t, err, ErrNoDevice, "no NVIDIA GPU", "--backend cpu")

	write(t, filepath.Join(dir, "nvidia0"), "")
	_, err = Open(CUDA, Options{})
	wantFailure(t, err, ErrNotInstalled, "terraloom backend install cuda")

	t.Run("missing library", func(t *testing.T) {
		p := plugin{kind: CUDA, path: "p.so", nvidia: filepath.Join(dir, "nvidia")}
		wantFailure(t, p.loadCUDALibrary([]string{"cudnn"}, []string{"libterraloom_none.so.9"}), ErrLibrary,
			"libterraloom_none.so.9", "terraloom backend install cuda")
		write(t, filepath.Join(p.nvidia, "cudnn", "lib", "libterraloom_none.so.9"), "cut short")
		wantFailure(t, p.loadCUDALibrary([]string{"cudnn"}, []string{"libterraloom_none.so.9"}), ErrLibrary, "loading", "cudnn")
	})
	t.Run("auto says why", func(t *testing.T) {
		var notices []string
		b, err := Open(Auto, Options{Notice: func(s string) { notices = append(notices, s) }})
		if err != nil || b.Name != Go {
			t.Fatalf("Open(auto) = %v, %v; expected the Go backend", b, err)
		}
		if len(notices) != 2 || !strings.Contains(notices[0], "NVIDIA device is here but unused") || !strings.Contains(notices[1], "pure-Go") {
			t.Errorf("notices %q", notices)
		}
	})
	t.Run("list", func(t *testing.T) {
		l := List()
		if len(l) != 3 || !errors.Is(l[0].Err, ErrNotInstalled) || !errors.Is(l[1].Err, ErrNotInstalled) || l[2].Err != nil {
			t.Errorf("List() = %+v", l)
		}
	})
}

func TestPythonDiscovery(t *testing.T) {
	dir := t.TempDir()
	site := filepath.Join(dir, "site-packages")
	for _, v := range []string{"xla_cuda12", "xla_cuda13"} {
		write(t, filepath.Join(site, "jax_plugins", v, "xla_cuda_plugin.so"), "x")
	}
	write(t, filepath.Join(site, "nvidia", "cudnn", "lib", "libcudnn.so.9"), "x")
	t.Setenv("TERRALOOM_PYTHON", write(t, filepath.Join(dir, "python"), "#!/bin/sh\necho '[\"/nowhere\", \""+site+"\"]'\n"))
	p, ok := findPythonCUDA()
	if !ok || p.path != filepath.Join(site, "jax_plugins", "xla_cuda13", "xla_cuda_plugin.so") || p.nvidia != filepath.Join(site, "nvidia") || p.managed {
		t.Errorf("found %+v, %v", p, ok)
	}
}

// fakeBundle is a bundle of one small wheel, and the wheel's file.
func fakeBundle(t *testing.T) (bundle, string) {
	t.Helper()
	const content = "plugin content"
	sum := sha256.Sum256([]byte(content))
	file := filepath.Join(t.TempDir(), "fake_plugin-1.0-py3-none-any.whl")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(out)
	for _, name := range []string{"pkg/__init__.py", "pkg/p.so"} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	wheelSum, err := wheel.SHA256(file)
	if err != nil {
		t.Fatal(err)
	}
	return bundle{kind: CPU, version: "1.0", plugin: "p.so", size: int64(len(content)), sha256: hex.EncodeToString(sum[:]),
		wheels: []packaged{{wheel.Pin{Project: "fake-plugin", Version: "1.0", SHA256: wheelSum}, "pkg/p.so"}}}, file
}

func TestInstall(t *testing.T) {
	ctx := context.Background()
	setup := func(t *testing.T) (bundle, string, string) {
		b, file := fakeBundle(t)
		home := t.TempDir()
		t.Setenv("TERRALOOM_HOME", home)
		return b, file, filepath.Join(home, "backends")
	}
	onlyFinal := func(t *testing.T, root string, want int) {
		t.Helper()
		entries, err := os.ReadDir(root)
		if err != nil || len(entries) != want {
			t.Errorf("%d entries in %s (%v), expected %d: nothing half-made may stay", len(entries), root, err, want)
		}
	}
	t.Run("from a file and from its folder", func(t *testing.T) {
		b, file, root := setup(t)
		for _, from := range []string{file, filepath.Dir(file)} {
			if err := os.RemoveAll(root); err != nil {
				t.Fatal(err)
			}
			path, err := b.install(ctx, InstallOptions{From: from})
			if err != nil {
				t.Fatal(err)
			}
			if path != filepath.Join(root, "cpu-1.0", "p.so") || b.verifyPlugin(path) != nil {
				t.Errorf("installed at %s: %v", path, b.verifyPlugin(path))
			}
			onlyFinal(t, root, 1)
			if p, err := findManaged(b); err != nil || p.path != path || !p.managed {
				t.Errorf("found %+v, %v", p, err)
			}
		}
	})
	t.Run("whole one is kept, damaged one replaced", func(t *testing.T) {
		b, file, root := setup(t)
		path, err := b.install(ctx, InstallOptions{From: file})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.install(ctx, InstallOptions{From: "/nowhere"}); err != nil {
			t.Errorf("a whole plugin was not kept: %v", err)
		}
		write(t, path, "cut")
		_, err = findManaged(b)
		wantFailure(t, err, ErrTruncated, "3 bytes", "terraloom backend install cpu")
		if _, err := b.install(ctx, InstallOptions{From: file}); err != nil {
			t.Fatal(err)
		}
		if err := b.verifyPlugin(path); err != nil {
			t.Error(err)
		}
		onlyFinal(t, root, 1)
	})
	t.Run("wrong wheel hash", func(t *testing.T) {
		b, file, root := setup(t)
		b.wheels[0].SHA256 = strings.Repeat("0", 64)
		_, err := b.install(ctx, InstallOptions{From: file})
		wantFailure(t, err, wheel.ErrHash, filepath.Base(file), "expected 0000", "again")
		onlyFinal(t, root, 0)
	})
	t.Run("wrong plugin hash", func(t *testing.T) {
		b, file, root := setup(t)
		b.sha256 = strings.Repeat("0", 64)
		_, err := b.install(ctx, InstallOptions{From: file})
		wantFailure(t, err, wheel.ErrHash)
		onlyFinal(t, root, 0)
	})
	t.Run("not in the wheel", func(t *testing.T) {
		b, file, _ := setup(t)
		b.wheels[0].take = "other/p.so"
		_, err := b.install(ctx, InstallOptions{From: file})
		wantFailure(t, err, ErrPlugin, "holds no other/p.so")
	})
	t.Run("several wheels, one file", func(t *testing.T) {
		b, file, _ := setup(t)
		b.wheels = append(b.wheels, b.wheels[0])
		_, err := b.install(ctx, InstallOptions{From: file})
		wantFailure(t, err, nil, "takes 2 wheels", "folder")
	})
	t.Run("no pip", func(t *testing.T) {
		b, _, root := setup(t)
		t.Setenv("TERRALOOM_PYTHON", write(t, filepath.Join(t.TempDir(), "python"), "#!/bin/sh\necho trace >&2\necho \"$0: No module named pip\" >&2\nexit 1\n"))
		_, err := b.install(ctx, InstallOptions{})
		wantFailure(t, err, wheel.ErrPip, "No module named pip", "fake-plugin==1.0", "--from")
		onlyFinal(t, root, 0)
	})
	t.Run("pip delivers", func(t *testing.T) {
		b, file, root := setup(t)
		t.Setenv("TERRALOOM_PYTHON", write(t, filepath.Join(t.TempDir(), "python"),
			"#!/bin/sh\nwhile [ \"$1\" != --dest ]; do shift; done\nmkdir -p \"$2\"\ncp '"+file+"' \"$2\"\n"))
		if _, err := b.install(ctx, InstallOptions{}); err != nil {
			t.Fatal(err)
		}
		onlyFinal(t, root, 1)
	})
	if _, err := Install(ctx, "tpu", InstallOptions{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("Install(tpu): %v", err)
	}
}

func TestOpen(t *testing.T) {
	_, err := Open("gpu", Options{})
	wantFailure(t, err, ErrUnknown, `"gpu"`, "use auto, cuda, cpu or go")
	b, err := Open(Go, Options{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, b)
}

func TestXLA(t *testing.T) {
	b, err := Open(CPU, Options{Devices: 2})
	if errors.Is(err, ErrNotInstalled) {
		t.Skip("XLA:CPU is not installed: run `terraloom backend install cpu`")
	}
	if err != nil {
		t.Fatal(err)
	}
	if b.Devices() != 2 || b.API == "" || b.TF32 {
		t.Errorf("%v with %d devices, TF32 %v", b, b.Devices(), b.TF32)
	}
	check(t, b)
	t.Run("bad XLA_FLAGS", func(t *testing.T) {
		for _, flags := range []string{"--xla_no_such_flag=1", "--xla_cpu_scheduler_type=wrong"} {
			t.Setenv("XLA_FLAGS", flags)
			_, err := Open(CPU, Options{})
			wantFailure(t, err, ErrXLAFlags, flags, "correct or unset")
		}
		t.Setenv("XLA_FLAGS", "--xla_backend_optimization_level=1")
		if _, err := Open(CPU, Options{}); err != nil {
			t.Errorf("a good flag is refused: %v", err)
		}
	})
}

func check(t *testing.T, b *Backend) {
	t.Helper()
	r, err := Check(b)
	if err != nil {
		t.Fatal(err)
	}
	if r.Precision != "float32" || r.Float32 <= 0 || r.BFloat16 <= 0 || r.Devices != b.Devices() || r.Device == "" {
		t.Errorf("report %+v", r)
	}
}

func TestStartupRestartsOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("GLIBC_TUNABLES is Linux's")
	}
	// TestMain went through Startup: this process is the restarted one, or was started with settings of its own.
	if !strings.Contains(os.Getenv(tunables), "glibc.malloc.") {
		t.Errorf("%s=%q, expected settings of malloc in it", tunables, os.Getenv(tunables))
	}
	if code, done := Startup(); code != 0 || done {
		t.Errorf("second Startup() = %d, %v", code, done)
	}
}
