package backend

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"terraloom/lora/wheel"
)

// InstallOptions of [Install].
type InstallOptions struct {
	From     string            // a downloaded wheel, or a folder of them: no network; empty: pip downloads
	Progress func(line string) // what is being done; may be nil
}

// Install puts the plugin of kind CPU or CUDA into the user's data folder and returns its path. The wheels are pinned
// by version and SHA-256 and come through the user's own pip (see package wheel for its errors). What is installed
// already and still whole is left alone. The folder appears under its final name only when it is complete.
func Install(ctx context.Context, kind string, opts InstallOptions) (path string, err error) {
	switch kind {
	case CPU:
		return cpuBundle.install(ctx, opts)
	case CUDA:
		return cudaBundle.install(ctx, opts)
	}
	return "", fmt.Errorf("%w %q: %s and %s can be installed", ErrUnknown, kind, CPU, CUDA)
}

func (b bundle) install(ctx context.Context, opts InstallOptions) (string, error) {
	progress := opts.Progress
	if progress == nil {
		progress = func(string) {}
	}
	if opts.From != "" && !isDir(opts.From) && len(b.wheels) > 1 {
		return "", fmt.Errorf("backend %s: --from %s is one file, but it takes %d wheels: give the folder that holds them", b.kind, opts.From, len(b.wheels))
	}
	root, err := dataDir()
	if err != nil {
		return "", err
	}
	final := filepath.Join(root, b.folder())
	path := filepath.Join(final, b.plugin)
	if err := b.verifyPlugin(path); err == nil {
		progress("already installed: " + path)
		return path, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("backend %s: creating its folder: %w", b.kind, err)
	}
	tmp, err := os.MkdirTemp(root, b.folder()+".tmp")
	if err != nil {
		return "", fmt.Errorf("backend %s: creating its folder: %w", b.kind, err)
	}
	defer os.RemoveAll(tmp)

	wheels := filepath.Join(tmp, "wheels")
	content := filepath.Join(tmp, "content")
	for _, w := range b.wheels {
		file, err := w.Obtain(ctx, opts.From, wheels, progress)
		if err != nil {
			return "", fmt.Errorf("backend %s: %w", b.kind, err)
		}
		if err := w.unpack(file, content, b.plugin); err != nil {
			return "", fmt.Errorf("backend %s: %w", b.kind, err)
		}
		if opts.From == "" {
			_ = os.Remove(file) // frees gigabytes before the next one comes; the folder goes anyway
		}
	}
	if err := b.verifyPlugin(filepath.Join(content, b.plugin)); err != nil {
		return "", fmt.Errorf("backend %s: after unpacking: %w", b.kind, err)
	}
	// Something that did not verify stands in the way: set it aside, to go with the temporary folder.
	if err := os.Rename(final, filepath.Join(tmp, "old")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("backend %s: replacing the damaged %s: %w", b.kind, final, err)
	}
	if err := os.Chmod(content, 0o755); err != nil {
		return "", fmt.Errorf("backend %s: %w", b.kind, err)
	}
	if err := os.Rename(content, final); err != nil {
		return "", fmt.Errorf("backend %s: %w", b.kind, err)
	}
	if err := syncDir(root); err != nil {
		return "", fmt.Errorf("backend %s: %w", b.kind, err)
	}
	progress("installed: " + path)
	return path, nil
}

// verifyPlugin checks size and SHA-256 of the plugin file.
func (b bundle) verifyPlugin(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() != b.size {
		return fail(ErrTruncated, "%s: %d bytes, expected %d", path, info.Size(), b.size)
	}
	sum, err := wheel.SHA256(path)
	if err != nil {
		return err
	}
	if sum != b.sha256 {
		return fail(wheel.ErrHash, "%s: SHA-256 %s, expected %s", path, sum, b.sha256)
	}
	return nil
}

// unpack writes the part of the wheel that is wanted below dir, synced to disk.
func (w packaged) unpack(file, dir, pluginPath string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return fmt.Errorf("wheel %s: %w: get it again", file, err)
	}
	defer z.Close()
	count := 0
	for _, f := range z.File {
		target := f.Name
		switch {
		case f.Name == w.take:
			target = pluginPath
		case strings.HasSuffix(w.take, "/") && strings.HasPrefix(f.Name, w.take) && !strings.HasSuffix(f.Name, "/"):
			if strings.Contains(f.Name, "/include/") || !filepath.IsLocal(f.Name) {
				continue
			}
		default:
			continue
		}
		if err := extract(f, filepath.Join(dir, filepath.FromSlash(target))); err != nil {
			return fmt.Errorf("wheel %s: %w", file, err)
		}
		count++
	}
	if count == 0 {
		return fail(ErrPlugin, "wheel %s holds no %s", file, w.take)
	}
	return nil
}

func extract(f *zip.File, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	// ptxas and nvlink must be executable; the wheels do not always say so.
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("unpacking %s: %w", f.Name, err)
	}
	if err := out.Sync(); err != nil {
		out.Close()
		return fmt.Errorf("unpacking %s: %w", f.Name, err)
	}
	return out.Close()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems cannot sync folders
		return err
	}
	return nil
}
