package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"terraloom/agent/raster"
)

func open(t *testing.T, limits Limits) *Workspace {
	t.Helper()
	w, err := Open(t.TempDir(), limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func put(t *testing.T, w *Workspace, name string) {
	t.Helper()
	full := filepath.Join(w.Dir(), name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(name), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	w := open(t, DefaultLimits)
	put(t, w, "benchmark/data/question1/a.tif")
	put(t, w, "benchmark/out/question1/b.tif")
	put(t, w, "benchmark/out/benchmark/data/c.tif")
	for _, c := range []struct{ path, want string }{
		{"benchmark/data/question1/a.tif", "benchmark/data/question1/a.tif"},
		{"./benchmark/data/../data/question1/a.tif", "benchmark/data/question1/a.tif"},
		{"benchmark/data/question1/a.tif  ", "benchmark/data/question1/a.tif"},
		{filepath.Join(w.Dir(), "benchmark/data/question1/a.tif"), "benchmark/data/question1/a.tif"},
		{"question1/b.tif", "benchmark/out/question1/b.tif"},
		{"out/question1/b.tif", "benchmark/out/question1/b.tif"},
		{"benchmark/out/question1/b.tif", "benchmark/out/question1/b.tif"},
		{"benchmark/data/c.tif", "benchmark/out/benchmark/data/c.tif"},
	} {
		if got, err := w.Find(c.path); err != nil || got != c.want {
			t.Errorf("Find(%q) = %q, %v; want %q", c.path, got, err, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	w := open(t, Limits{FileBytes: 100, Pixels: 100, Memory: 1 << 20, Entries: 100})
	put(t, w, "benchmark/data/question1/a.tif")
	put(t, w, "benchmark/data/question1/big.tif")
	if err := os.WriteFile(filepath.Join(w.Dir(), "benchmark/data/question1/big.tif"), make([]byte, 101), 0o644); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret.tif")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(w.Dir(), name)); err != nil {
			t.Skip("no symbolic links here: ", err)
		}
	}
	link(secret, "file-out.tif")
	link(filepath.Dir(secret), "folder-out")
	link("../../../../etc/passwd", "up.tif")
	if err := syscall.Mkfifo(filepath.Join(w.Dir(), "pipe.tif"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want error
		says string
	}{
		{"", ErrNotFound, "empty"},
		{"a\x00b", ErrNotFound, "NUL"},
		{"../secret.tif", ErrOutside, "leads outside"},
		{"benchmark/../../secret.tif", ErrOutside, "leads outside"},
		{secret, ErrOutside, "leads outside"},
		{"/etc/passwd", ErrOutside, "leads outside"},
		{"file-out.tif", ErrOutside, "leads outside"},
		{"folder-out/secret.tif", ErrOutside, "leads outside"},
		{"up.tif", ErrOutside, "leads outside"},
		{"benchmark/data/question1", ErrKind, "is a folder"},
		{"pipe.tif", ErrKind, "not a regular file"},
		{"benchmark/data/question1/big.tif", ErrTooLarge, "limit"},
		{"benchmark/data/question1/b.tif", ErrNotFound, `"a.tif"`},
		{"benchmark/data/question2/b.tif", ErrNotFound, `only benchmark/data exists, with "question1"`},
		{"benchmark/data/question1/a.tif/x", ErrNotFound, "a.tif"},
		{"F:/EarthLMM-question-89/x.tif", ErrOutside, "leads outside"},
		{strings.Repeat("x", 5000), ErrTooLarge, "5000 bytes"},
		{strings.Repeat("x", 300), ErrNotFound, "not found"},
	} {
		if _, err := w.Find(c.path); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Find(%.40q): %v; want %v saying %q", c.path, err, c.want, c.says)
		}
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{"../x.tif", ErrOutside}, {secret, ErrOutside}, {"", ErrNotFound}, {"x/", ErrKind}, {".", ErrKind},
		{strings.Repeat("x", 201), ErrTooLarge},
	} {
		if _, err := w.Target(c.path); !errors.Is(err, c.want) {
			t.Errorf("Target(%.40q): %v; want %v", c.path, err, c.want)
		}
	}
	if _, err := w.List("benchmark/data/question1/a.tif"); !errors.Is(err, ErrKind) {
		t.Errorf("List of a file: %v", err)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("the file outside was touched: %q, %v", data, err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		path    string
		in, out error
	}{
		{"benchmark/data/q/a.tif", nil, nil}, {"q/a.tif", nil, nil}, {"/question98/a.tif", ErrOutside, ErrOutside},
		{"../a", ErrOutside, ErrOutside}, {"C:\\a.tif", ErrOutside, ErrOutside}, {"", ErrNotFound, ErrNotFound}, {"q/", nil, ErrKind},
	} {
		if err := CheckInput(c.path); !errors.Is(err, c.in) {
			t.Errorf("CheckInput(%q): %v, want %v", c.path, err, c.in)
		}
		if err := CheckOutput(c.path); !errors.Is(err, c.out) {
			t.Errorf("CheckOutput(%q): %v, want %v", c.path, err, c.out)
		}
	}
}

func TestTarget(t *testing.T) {
	w := open(t, DefaultLimits)
	for _, c := range []struct{ path, want string }{
		{"question1/x.tif", "benchmark/out/question1/x.tif"},
		{"x.tif ", "benchmark/out/x.tif"},
		{"out/x.tif", "benchmark/out/x.tif"},
		{"benchmark/out/x.tif", "benchmark/out/x.tif"},
		{"benchmark/data/q/x.tif", "benchmark/out/benchmark/data/q/x.tif"},
		{filepath.Join(w.Dir(), "x.tif"), "benchmark/out/x.tif"},
	} {
		if got, err := w.Target(c.path); err != nil || got != c.want {
			t.Errorf("Target(%q) = %q, %v; want %q", c.path, got, err, c.want)
		}
	}
}

func TestWrite(t *testing.T) {
	w := open(t, DefaultLimits)
	name, err := w.Target("q/x.bin")
	if err != nil {
		t.Fatal(err)
	}
	// printf hello | sha256sum
	const hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	if sum, err := w.WriteFile(name, []byte("hello")); err != nil || sum != hello {
		t.Fatalf("WriteFile: %s, %v", sum, err)
	}
	broken := errors.New("broken")
	_, err = w.Write(name, func(tmp string) error {
		if err := os.WriteFile(tmp, []byte("half"), 0o644); err != nil {
			t.Error(err)
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("Write: %v, want the error of make", err)
	}
	if data, err := w.Read("q/x.bin", 10); err != nil || string(data) != "hello" {
		t.Errorf("after a failure the file holds %q, %v", data, err)
	}
	if _, err := w.Read("q/x.bin", 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Read beyond the limit: %v", err)
	}
	if names, _ := os.ReadDir(w.Dir()); len(names) != 1 {
		t.Errorf("private folders are left: %v", names)
	}
	if _, err := w.WriteFile("benchmark/out/q/x.bin/y", nil); !errors.Is(err, ErrKind) {
		t.Errorf("a file below a file: %v", err)
	}
	if _, err := w.WriteFile("benchmark/out/q", nil); !errors.Is(err, ErrKind) {
		t.Errorf("a file over a folder: %v", err)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(w.Dir(), OutDir, "away")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	if _, err := w.WriteFile("benchmark/out/away/x", nil); !errors.Is(err, ErrOutside) {
		t.Errorf("through a link that leads outside: %v", err)
	}
	if _, err := w.WriteFile("benchmark/out/away/deep/x", nil); !errors.Is(err, ErrOutside) {
		t.Errorf("deep through a link that leads outside: %v", err)
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("written outside: %v", left)
	}
	// A link as the target is replaced, not followed.
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("safe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(w.Dir(), OutDir, "link.bin")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteFile("benchmark/out/link.bin", []byte("new")); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(victim); string(data) != "safe" {
		t.Errorf("the target of a link outside was written: %q", data)
	}
}

func TestOutDirIsALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "benchmark")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	if _, err := Open(dir, DefaultLimits); !errors.Is(err, ErrOutside) {
		t.Errorf("Open: %v, want ErrOutside", err)
	}
}

func TestList(t *testing.T) {
	w := open(t, DefaultLimits)
	for _, n := range []string{"b.tif", "a.tif", ".hidden", "B.tif", "ä.tif"} {
		put(t, w, "benchmark/data/q/"+n)
	}
	got, err := w.List("benchmark/data/q/")
	if want := []string{"B.tif", "a.tif", "b.tif", "ä.tif"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("List = %q, %v; want %q", got, err, want)
	}
	small := open(t, Limits{Entries: 1})
	put(t, small, "d/a")
	put(t, small, "d/b")
	if _, err := small.List("d"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a folder beyond the limit: %v", err)
	}
}

// A raster whose header promises more pixels than the limit is refused before
// any pixel is decoded.
func TestBomb(t *testing.T) {
	w := open(t, Limits{FileBytes: 1 << 20, Pixels: 1000, Memory: 1 << 20, Entries: 10})
	g, err := raster.NewGrid(40, 40, raster.CRS{}, raster.GeoTransform{})
	if err != nil {
		t.Fatal(err)
	}
	if err := raster.Save(filepath.Join(w.Dir(), "bomb.tif"), raster.Spec{}, g); err != nil {
		t.Fatal(err)
	}
	if _, err := w.OpenRaster("bomb.tif"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("OpenRaster: %v, want ErrTooLarge", err)
	}
}

func TestReserve(t *testing.T) {
	w := open(t, Limits{Memory: 100})
	if _, err := w.Reserve(t.Context(), 101); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than there is: %v", err)
	}
	release, err := w.Reserve(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Reserve(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("while all is taken: %v", err)
	}
	release()
	if release, err = w.Reserve(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	release()
}

func FuzzPaths(f *testing.F) {
	for _, p := range []string{"a", "../a", "/a", "benchmark/out/..", "out/../../x", "a/./b//c", "..", "out", "link/../x", "\\..\\x"} {
		f.Add(p)
	}
	dir := f.TempDir()
	outside := filepath.Join(dir, "outside")
	if err := os.WriteFile(outside, []byte("outside"), 0o644); err != nil {
		f.Fatal(err)
	}
	inside := filepath.Join(dir, "inside")
	if err := os.Mkdir(inside, 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(inside, "link")); err != nil {
		f.Fatal(err)
	}
	w, err := Open(inside, DefaultLimits)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if data, err := w.Read(p, 100); err == nil && bytes.Contains(data, []byte("outside")) {
			t.Errorf("Read(%q) reached outside", p)
		}
		if name, err := w.Target(p); err == nil && !strings.HasPrefix(name, OutDir+"/") {
			t.Errorf("Target(%q) = %q", p, name)
		}
	})
}
