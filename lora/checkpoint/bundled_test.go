package checkpoint

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tinybase "terraloom/data/tiny-base"
)

// maxBundled bounds what the bundled model adds to the repository and the program.
const maxBundled = 12 << 20

func TestBundled(t *testing.T) {
	check := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TERRALOOM_HOME", t.TempDir())
	var total int64
	files, err := fs.ReadDir(tinybase.Files, ".")
	check(t, err)
	for _, f := range files {
		info, err := f.Info()
		check(t, err)
		total += info.Size()
	}
	if total > maxBundled {
		t.Errorf("%d bytes, at most %d are agreed on", total, maxBundled)
	}
	dir, err := unpack()
	check(t, err)
	m, err := Open(dir)
	check(t, err)
	defer m.Close()
	if m.Config.Family != Qwen35 || m.ChatTemplate == "" || m.TokenizerFiles["tokenizer.json"] == "" {
		t.Errorf("opened %+v", m.Config)
	}
	again, err := unpack()
	check(t, err)
	if again != dir {
		t.Errorf("unpacked to %s, then to %s", dir, again)
	}
	// A damaged copy is replaced.
	check(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o644))
	_, err = unpack()
	check(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	check(t, err)
	if !strings.Contains(string(text), "qwen3_5_text") {
		t.Errorf("config.json is still %q", text)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".tiny*"))
	check(t, err)
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
