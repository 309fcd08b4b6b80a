// Package workspace is the part of the file system that tools may touch: one
// folder, seen through os.Root, so that no absolute name, no ".." and no symbolic
// link leads outside.
//
// Inside, the layout is that of the public benchmark: prepared data lie under
// DataDir, and whatever a tool writes goes under OutDir. An output path
// "question7/ndvi.tif" means benchmark/out/question7/ndvi.tif; an input path is
// looked up below the root first and below OutDir next.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/semaphore"

	"terraloom/agent/raster"
)

// The folders of a workspace, relative to its root.
const (
	DataDir = "benchmark/data"
	OutDir  = "benchmark/out"
)

// Sentinels for what callers branch on. Every refusal of a path wraps one.
var (
	ErrOutside  = errors.New("outside the workspace")
	ErrNotFound = errors.New("not found in the workspace")
	ErrKind     = errors.New("wrong kind of file") // a folder where a file is needed, a pipe, …
	ErrTooLarge = errors.New("too large")
)

// Limits bound what one file and all running calls together may cost. A limit of
// 0 is that of DefaultLimits.
type Limits struct {
	FileBytes int64 // size of a file that is opened
	Pixels    int64 // width × height × bands of a raster that is opened
	Memory    int64 // bytes of pixels that all running calls hold; see Reserve
	Entries   int   // names in a folder that is listed
}

// DefaultLimits admits a full Sentinel-2 or Landsat band and refuses bombs: files
// whose header promises far more pixels than any band of a scene has.
var DefaultLimits = Limits{FileBytes: 8 << 30, Pixels: 1 << 30, Memory: 2 << 30, Entries: 100_000}

func (l Limits) orDefault() Limits {
	l.FileBytes = cmp.Or(l.FileBytes, DefaultLimits.FileBytes)
	l.Pixels = cmp.Or(l.Pixels, DefaultLimits.Pixels)
	l.Memory = cmp.Or(l.Memory, DefaultLimits.Memory)
	l.Entries = cmp.Or(l.Entries, DefaultLimits.Entries)
	return l
}

// Workspace is an open folder. It is safe for concurrent use.
type Workspace struct {
	root   *os.Root
	dir    string // absolute
	limits Limits
	memory *semaphore.Weighted
}

// Open opens a folder as a workspace and makes OutDir in it.
func Open(dir string, limits Limits) (*Workspace, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	limits = limits.orDefault()
	w := &Workspace{root: root, dir: abs, limits: limits, memory: semaphore.NewWeighted(limits.Memory)}
	if err := root.MkdirAll(OutDir, 0o755); err != nil {
		root.Close()
		return nil, fmt.Errorf("workspace %s: %w", dir, w.escape(err, OutDir))
	}
	return w, nil
}

// Close releases the folder; files that were opened stay readable.
func (w *Workspace) Close() error { return w.root.Close() }

// Dir is the absolute path of the root.
func (w *Workspace) Dir() string { return w.dir }

// Reserve waits until bytes of the workspace's memory are free and returns the
// function that gives them back. A caller reserves once, for all it will hold, so
// that callers cannot wait for each other. More than the whole is ErrTooLarge.
func (w *Workspace) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	if bytes > w.limits.Memory {
		return nil, fmt.Errorf("%d MiB of pixels are needed at once, the limit is %d MiB; use a smaller region or a coarser resolution: %w",
			bytes>>20, w.limits.Memory>>20, ErrTooLarge)
	}
	if err := w.memory.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { w.memory.Release(bytes) }, nil
}

// relative turns a path as a caller wrote it into a slash path below the root.
func (w *Workspace) relative(p string) (string, error) {
	switch {
	case strings.TrimSpace(p) == "":
		return "", fmt.Errorf("the path is empty: %w", ErrNotFound)
	case len(p) > 4096:
		return "", fmt.Errorf("a path of %d bytes: %w", len(p), ErrTooLarge)
	case strings.ContainsRune(p, 0):
		return "", fmt.Errorf("the path %q holds a NUL: %w", p, ErrNotFound)
	}
	if drive.MatchString(p) {
		return "", w.outside(p)
	}
	if filepath.IsAbs(p) {
		rel, err := filepath.Rel(w.dir, filepath.Clean(p))
		if err != nil || !filepath.IsLocal(rel) {
			return "", w.outside(p)
		}
		p = rel
	}
	rel := path.Clean(filepath.ToSlash(p))
	if rel != "." && !filepath.IsLocal(rel) {
		return "", w.outside(p)
	}
	return rel, nil
}

// drive begins an absolute path of Windows.
var drive = regexp.MustCompile(`^[A-Za-z]:[/\\]`)

func (w *Workspace) outside(p string) error {
	return fmt.Errorf("%q leads outside; give a path below the workspace, as %s/question1/file.tif: %w", p, DataDir, ErrOutside)
}

// escape gives the refusals of os.Root their sentinel.
func (w *Workspace) escape(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "escapes from parent"): // os keeps its sentinel to itself
		return w.outside(name)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%q: %w", name, ErrNotFound)
	}
	return err
}

// Find resolves the path of an input to its slash path below the root, links
// followed only inside. A path that is not there is looked up below OutDir too,
// as callers name results by the path they asked for. The error of a missing file
// names the nearest files.
func (w *Workspace) Find(p string) (string, error) {
	name, info, err := w.find(p)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fmt.Errorf("%q is a folder; name a file in it: %w", p, ErrKind)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%q is not a regular file: %w", p, ErrKind)
	case info.Size() > w.limits.FileBytes:
		return "", fmt.Errorf("%q has %d MiB, the limit is %d MiB: %w", p, info.Size()>>20, w.limits.FileBytes>>20, ErrTooLarge)
	}
	return name, nil
}

func (w *Workspace) find(p string) (string, fs.FileInfo, error) {
	rel, err := w.relative(p)
	if err != nil {
		return "", nil, err
	}
	var candidates []string
	for _, r := range []string{rel, strings.TrimSpace(rel)} { // calls of the benchmark carry trailing blanks
		candidates = append(candidates, r, target(r))
	}
	for i, name := range candidates {
		if slices.Contains(candidates[:i], name) {
			continue
		}
		info, err := w.root.Stat(name)
		if err == nil {
			return name, info, nil
		}
		if err := w.escape(err, p); !errors.Is(err, ErrNotFound) {
			return "", nil, err
		}
	}
	return "", nil, fmt.Errorf("%q: %w%s", p, ErrNotFound, w.nearest(rel))
}

// target is the place of an output path below the root.
func target(rel string) string {
	switch {
	case rel == OutDir || strings.HasPrefix(rel, OutDir+"/"):
		return rel
	case strings.HasPrefix(rel, "out/"):
		return path.Join(OutDir, rel[len("out/"):])
	}
	return path.Join(OutDir, rel)
}

// Target resolves the path of an output to its slash path below the root, always
// below OutDir. The file need not exist.
func (w *Workspace) Target(p string) (string, error) {
	rel, err := w.relative(strings.TrimSpace(p))
	if err != nil {
		return "", err
	}
	name := target(rel)
	if name == OutDir || strings.HasSuffix(p, "/") {
		return "", fmt.Errorf("%q names a folder; name the file to write: %w", p, ErrKind)
	}
	if len(path.Base(name)) > 200 {
		return "", fmt.Errorf("the file name %q has more than 200 bytes: %w", path.Base(name), ErrTooLarge)
	}
	return name, nil
}

// List returns the names in a folder in byte order, without those that begin
// with a dot.
func (w *Workspace) List(p string) ([]string, error) {
	name, info, err := w.find(p)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%q is a file; name a folder: %w", p, ErrKind)
	}
	return w.names(name)
}

func (w *Workspace) names(dir string) ([]string, error) {
	f, err := w.root.Open(dir)
	if err != nil {
		return nil, w.escape(err, dir)
	}
	defer f.Close()
	entries, err := f.ReadDir(w.limits.Entries + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(entries) > w.limits.Entries {
		return nil, fmt.Errorf("%q has more than %d entries: %w", dir, w.limits.Entries, ErrTooLarge)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// OpenRaster opens an input, by its path as the caller wrote it. The limits hold
// for what its header promises.
func (w *Workspace) OpenRaster(p string) (*Raster, error) {
	name, err := w.Find(p)
	if err != nil {
		return nil, err
	}
	f, err := w.root.Open(name)
	if err != nil {
		return nil, w.escape(err, p)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	ds, err := raster.OpenReader(f, st.Size(), name)
	if err != nil {
		f.Close()
		return nil, err
	}
	info := ds.Info()
	if n := int64(info.Width) * int64(info.Height); n > w.limits.Pixels || n*int64(len(info.Bands)) > w.limits.Pixels {
		ds.Close()
		f.Close()
		return nil, fmt.Errorf("%s: %d×%d pixels in %d bands are more than %d samples; use a smaller region or a coarser resolution: %w",
			name, info.Width, info.Height, len(info.Bands), w.limits.Pixels, ErrTooLarge)
	}
	return &Raster{Dataset: ds, Name: name, Info: info, file: f}, nil
}

// Raster is an open input.
type Raster struct {
	*raster.Dataset
	Name string      // slash path below the root
	Info raster.Info // what the file says of itself
	file *os.File
}

// Close releases the raster and its file.
func (r *Raster) Close() error { return errors.Join(r.Dataset.Close(), r.file.Close()) }

// Read returns the bytes of a file of at most limit bytes.
func (w *Workspace) Read(p string, limit int64) ([]byte, error) {
	name, err := w.Find(p)
	if err != nil {
		return nil, err
	}
	f, err := w.root.Open(name)
	if err != nil {
		return nil, w.escape(err, p)
	}
	defer f.Close()
	return readAtMost(f, name, limit)
}
