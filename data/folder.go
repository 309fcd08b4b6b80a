package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

var (
	// ErrLocked is returned where another run is writing the same folder.
	ErrLocked = errors.New("another run is writing this folder")
	// ErrExists is returned where the folder exists and may not be replaced.
	ErrExists = errors.New("the folder exists")
	// ErrNotDataset is returned for a folder that holds no dataset of ours.
	ErrNotDataset = errors.New("not a dataset folder")
)

// A pendingFolder is a folder under construction. It grows under a hidden name
// beside its final one and appears there whole or not at all.
type pendingFolder struct {
	final string // where it will appear
	path  string // where it is now
	lock  *flock.Flock
}

// newPendingFolder locks the name dir, clears what dead runs left of it and
// makes an empty folder. An existing dir is refused, unless force is set and
// replaceable accepts it.
func newPendingFolder(dir string, force bool, replaceable func(dir string) error) (*pendingFolder, error) {
	final, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	parent, base := filepath.Split(final)
	if base == "" {
		return nil, fmt.Errorf("%s: %w: give the name of a new folder", dir, ErrExists)
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	lock, err := lockName(filepath.Join(parent, "."+base+".lock"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	p := &pendingFolder{final: final, lock: lock}
	if err := p.prepare(dir, force, replaceable); err != nil {
		p.unlock()
		return nil, err
	}
	return p, nil
}

func (p *pendingFolder) prepare(dir string, force bool, replaceable func(dir string) error) error {
	if err := p.clearDead(); err != nil {
		return err
	}
	if _, err := os.Lstat(p.final); err == nil {
		if !force {
			return fmt.Errorf("%s: %w; choose another name, or force to replace a dataset", dir, ErrExists)
		}
		if err := replaceable(p.final); err != nil {
			return fmt.Errorf("%s: %w, and only a dataset is ever replaced: %w", dir, ErrExists, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent, base := filepath.Split(p.final)
	path, err := os.MkdirTemp(parent, "."+base+".tmp-")
	if err != nil {
		return err
	}
	p.path = path
	return os.Chmod(path, 0o755)
}

// clearDead removes the half-made folders of runs that died, which the lock
// proves dead, and puts back an old folder whose run died in the moment
// between setting it aside and putting the new one in its place.
func (p *pendingFolder) clearDead() error {
	parent, base := filepath.Split(p.final)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		random, temporary := strings.CutPrefix(e.Name(), "."+base+".tmp-")
		switch {
		case temporary && strings.Trim(random, "0123456789") == "":
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		case e.Name() == "."+base+".old":
			if _, err := os.Lstat(p.final); errors.Is(err, fs.ErrNotExist) {
				if err := os.Rename(path, p.final); err != nil {
					return err
				}
			} else if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish makes the folder durable and gives it its final name.
func (p *pendingFolder) publish() error {
	if err := syncTree(p.path); err != nil {
		return err
	}
	parent, base := filepath.Split(p.final)
	old := filepath.Join(parent, "."+base+".old")
	if err := os.Rename(p.final, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(p.path, p.final); err != nil {
		if back := os.Rename(old, p.final); !errors.Is(back, fs.ErrNotExist) {
			err = errors.Join(err, back)
		}
		return err
	}
	p.path = ""
	if err := syncPath(parent); err != nil {
		return err
	}
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	return p.unlock()
}

// discard removes the folder, unless it was published.
func (p *pendingFolder) discard() error {
	if p.path != "" {
		if err := os.RemoveAll(p.path); err != nil {
			return err
		}
		p.path = ""
	}
	return p.unlock()
}

func (p *pendingFolder) unlock() error {
	if p.lock == nil {
		return nil
	}
	lock := p.lock
	p.lock = nil
	if err := os.Remove(lock.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, lock.Close())
	}
	return lock.Close()
}

// lockName takes the lock file at path, or ErrLocked. Lock files are removed
// when released, so a lock counts only while its file still has the name.
func lockName(path string) (*flock.Flock, error) {
	for {
		lock := flock.New(path)
		ok, err := lock.TryLock()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, ErrLocked
		}
		held, err := lock.Stat()
		if err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		if named, err := os.Stat(path); err == nil && os.SameFile(held, named) {
			return lock, nil
		}
		if err := lock.Close(); err != nil {
			return nil, err
		}
	}
}

// syncTree flushes every file and folder below dir, and dir, to the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
