package archive

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// put stores content under a request and returns its key and hash.
func put(t testing.TB, c *Cache, request, content string) (key, sum string) {
	t.Helper()
	src := filepath.Join(t.TempDir(), "src")
	if err := os.WriteFile(src, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	key, err := CacheKey(request)
	if err != nil {
		t.Fatal(err)
	}
	if sum, err = FileSHA256(src); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(key, src, sum, map[string]string{"of": request}); err != nil {
		t.Fatal(err)
	}
	return key, sum
}

func newCache(t testing.TB) (*Cache, string) {
	t.Helper()
	dir := t.TempDir()
	c, err := OpenCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
}

func TestCache(t *testing.T) {
	c, dir := newCache(t)
	key, sum := put(t, c, "one", "content")
	put(t, c, "two", "content") // the same content is kept once
	if objects, err := filepath.Glob(filepath.Join(dir, "objects", "*", "*")); err != nil || len(objects) != 1 {
		t.Errorf("objects %v, %v", objects, err)
	}
	dst := filepath.Join(t.TempDir(), "dst")
	var facts map[string]string
	got, ok, err := c.Get(key, dst, &facts)
	if err != nil || !ok || got != sum || facts["of"] != "one" {
		t.Fatalf("Get = %s, %v, %v with facts %v", got, ok, err, facts)
	}
	if text, err := os.ReadFile(dst); err != nil || string(text) != "content" {
		t.Errorf("got %q, %v", text, err)
	}
	// Whoever changes the copy does not change the cache.
	if err := os.WriteFile(dst, []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := c.Get(key, dst, nil); !ok || err != nil {
		t.Errorf("after a change of the copy: %v, %v", ok, err)
	}
	other, err := CacheKey("three")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := c.Get(other, dst, nil); ok || err != nil {
		t.Errorf("an unknown request gives %v, %v", ok, err)
	}
}

// Damaged content and a damaged index are dropped and never handed out.
func TestCacheDropsDamage(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, c *Cache, key, sum string){
		"changed object": func(t *testing.T, c *Cache, _, sum string) { write(t, c.object(sum), "something else") },
		"cut object":     func(t *testing.T, c *Cache, _, sum string) { write(t, c.object(sum), "cont") },
		"no object": func(t *testing.T, c *Cache, _, sum string) {
			if err := os.Remove(c.object(sum)); err != nil {
				t.Fatal(err)
			}
		},
		"broken index":  func(t *testing.T, c *Cache, key, _ string) { write(t, c.index(key), `{"sha256":`) },
		"foreign index": func(t *testing.T, c *Cache, key, _ string) { write(t, c.index(key), `{"sha256":"../../x"}`) },
		"bad facts": func(t *testing.T, c *Cache, key, sum string) {
			write(t, c.index(key), `{"sha256":"`+sum+`","facts":3}`)
		},
	} {
		c, _ := newCache(t)
		key, sum := put(t, c, "one", "content")
		damage(t, c, key, sum)
		dst := filepath.Join(t.TempDir(), "dst")
		var facts map[string]string
		if _, ok, err := c.Get(key, dst, &facts); ok || err != nil {
			t.Errorf("%s: Get gives %v, %v", name, ok, err)
		}
		if _, err := os.Stat(dst); err == nil {
			t.Errorf("%s: a file was handed out", name)
		}
		put(t, c, "one", "content")
		if _, ok, err := c.Get(key, dst, &facts); !ok || err != nil {
			t.Errorf("%s: after storing again Get gives %v, %v", name, ok, err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Many users at once see whole files only, and leave no temporary ones.
func TestCacheConcurrent(t *testing.T) {
	c, dir := newCache(t)
	content := strings.Repeat("0123456789", 5000)
	out := t.TempDir()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 10 {
				src := filepath.Join(out, string(rune('a'+n)))
				if err := os.WriteFile(src, []byte(content), 0o644); err != nil {
					t.Error(err)
					return
				}
				key, _ := CacheKey(i)
				unlock, err := c.Lock(key)
				if err != nil {
					t.Error(err)
					return
				}
				sum, err := FileSHA256(src)
				if err == nil {
					err = c.Put(key, src, sum, nil)
				}
				if err != nil {
					t.Error(err)
				}
				if err := unlock(); err != nil {
					t.Error(err)
				}
				if _, ok, err := c.Get(key, src, nil); !ok || err != nil {
					t.Errorf("Get gives %v, %v", ok, err)
				}
				if text, err := os.ReadFile(src); err != nil || !bytes.Equal(text, []byte(content)) {
					t.Errorf("%d bytes, %v", len(text), err)
				}
			}
		})
	}
	wg.Wait()
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*", ".tmp-*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestPutRefusesAnotherHash(t *testing.T) {
	c, _ := newCache(t)
	src := filepath.Join(t.TempDir(), "src")
	write(t, src, "content")
	key, _ := CacheKey("one")
	if err := c.Put(key, src, strings.Repeat("00", 32), nil); err == nil {
		t.Error("content under a foreign hash is stored")
	}
}
