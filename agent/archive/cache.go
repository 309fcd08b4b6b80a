package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// Cache keeps files by their content. Any number of processes may share one: a
// file appears whole or not at all, and whatever is read is checked against its
// hash, so a damaged file is never handed out.
//
//	objects/ab/abcd…   content, named by its SHA-256
//	index/12/1234….json  which content a request had, named by the SHA-256 of the request
//	locks/…            held while something is being fetched
type Cache struct{ dir string }

// indexEntry is what the index says of a request.
type indexEntry struct {
	SHA256 string          `json:"sha256"`
	Bytes  int64           `json:"bytes"`
	Facts  json.RawMessage `json:"facts,omitempty"`
}

// OpenCache opens the cache in a folder, which it makes if need be.
func OpenCache(dir string) (*Cache, error) {
	for _, sub := range []string{"objects", "index", "locks"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
	}
	return &Cache{dir: dir}, nil
}

// CacheKey is the name of a request: the SHA-256 of its JSON text.
func CacheKey(request any) (string, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("cache key: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Get copies the content of a request to the file dst and decodes its facts. It
// is false if the cache does not have it, or has it damaged, in which case it is
// dropped.
func (c *Cache) Get(key, dst string, facts any) (sum string, ok bool, err error) {
	text, err := os.ReadFile(c.index(key))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("cache: %w", err)
	}
	var e indexEntry
	if json.Unmarshal(text, &e) != nil || !isHash(e.SHA256) {
		return "", false, c.drop(c.index(key))
	}
	if facts != nil && json.Unmarshal(e.Facts, facts) != nil {
		return "", false, c.drop(c.index(key))
	}
	err = copyVerified(dst, c.object(e.SHA256), e.SHA256)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, c.drop(c.index(key))
	case errors.Is(err, ErrCache):
		return "", false, errors.Join(c.drop(c.object(e.SHA256)), c.drop(c.index(key)))
	case err != nil:
		return "", false, err
	}
	return e.SHA256, true, nil
}

// Put stores the content of the file src, whose SHA-256 is sum, as that of a request.
func (c *Cache) Put(key, src, sum string, facts any) error {
	text, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	info, err := os.Stat(src)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	object := c.object(sum)
	if _, err := os.Stat(object); err != nil { // content that is there is checked when it is read
		if err := os.MkdirAll(filepath.Dir(object), 0o755); err != nil {
			return fmt.Errorf("cache: %w", err)
		}
		if err := copyVerified(object, src, sum); err != nil {
			return err
		}
	}
	entry, err := json.Marshal(indexEntry{SHA256: sum, Bytes: info.Size(), Facts: text})
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	index := c.index(key)
	if err := os.MkdirAll(filepath.Dir(index), 0o755); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return writeWhole(index, func(w io.Writer) error { _, err := w.Write(entry); return err })
}

// Lock keeps other users of the cache from fetching the same request, and waits
// while one of them does.
func (c *Cache) Lock(key string) (unlock func() error, err error) {
	l := flock.New(filepath.Join(c.dir, "locks", key))
	if err := l.Lock(); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return l.Unlock, nil
}

// Partial is where an unfinished download of a request may be kept. Only the
// holder of its lock may touch it.
func (c *Cache) Partial(key string) string { return filepath.Join(c.dir, "locks", key+".part") }

func (c *Cache) index(key string) string {
	return filepath.Join(c.dir, "index", key[:2], key+".json")
}

func (c *Cache) object(sum string) string { return filepath.Join(c.dir, "objects", sum[:2], sum) }

func (c *Cache) drop(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cache: dropping damaged content: %w", err)
	}
	return nil
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// copyVerified copies src to dst, which appears whole or not at all, and only if
// its SHA-256 is sum; else the error is ErrCache.
func copyVerified(dst, src, sum string) error {
	in, err := os.Open(src)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	defer in.Close()
	return writeWhole(dst, func(w io.Writer) error {
		h := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, h), in); err != nil {
			return err
		}
		if got := hexSum(h); got != sum {
			return fmt.Errorf("%w: %s has the SHA-256 %s", ErrCache, src, got)
		}
		return nil
	})
}

// writeWhole writes a file that appears at path complete or not at all.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// FileSHA256 returns the SHA-256 of a file, hexadecimal.
func FileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hexSum(h), nil
}
